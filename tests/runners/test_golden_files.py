"""runners.golden_files: nothing is replaced without its flag, each change has its diff, equal goldens are kept."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harness.inputs import golden_text
from runners.golden_files import Change, Row
from tests.runners.capture_kit import CHAT, PLAIN, TOLD, asks, captured, changed, generate, plan
from tests.runners.standin import Dialogue, StandIn


@contextmanager
def standing(tmp_path: Path) -> Iterator[Callable[..., list[Row]]]:
    """A folder of goldens, and a way to capture it again with other flags."""
    wanted = asks(tmp_path, PLAIN.line())
    captured(StandIn([PLAIN]), wanted, plan(tmp_path, "create"))

    def again(*allowed: Change, engine: StandIn | None = None) -> list[Row]:
        return captured(engine or StandIn([PLAIN]), wanted, plan(tmp_path, *allowed))

    yield again


def test_a_run_is_taken_up_without_asking_again(tmp_path: Path) -> None:
    """With --create alone what stands is kept; what is missing is asked, chat answers against the standing ids."""
    with standing(tmp_path) as again:
        (tmp_path / "e/plain.chat.json").unlink()
        engine = StandIn([PLAIN])

        rows = again("create", engine=engine)

    assert [row.status for row in rows] == ["kept", "created", "kept"]
    assert [path for path, _ in engine.asked] == [CHAT]


def test_another_question_is_not_taken_for_the_same(tmp_path: Path) -> None:
    """Goldens of other flags, another length or another version are never kept silently."""
    wanted = asks(tmp_path, PLAIN.line())
    captured(StandIn([PLAIN]), wanted, plan(tmp_path, "create"))

    for how in (
        replace(plan(tmp_path, "create"), flags={"tp_size": 8}),
        replace(plan(tmp_path, "create"), max_tokens=401),
        replace(plan(tmp_path, "create"), told=replace(TOLD, version="0.5.24")),
    ):
        rows = captured(StandIn([PLAIN]), wanted, how)
        assert {row.status for row in rows} == {"pending"}
        assert rows[0].reason.startswith("another ")
        assert rows[0].reason.endswith("not written: --fix does")


def test_equal_answers_are_kept(tmp_path: Path) -> None:
    """Asked again, other ids, times and chunk boundaries of the answer are no change."""
    with standing(tmp_path) as again:
        before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
        merged = changed({"events": PLAIN.stream})["events"]
        first, second = (event["choices"][0]["delta"] for event in merged[1:3])
        first["reasoning_content"] += second["reasoning_content"]
        del merged[2]
        later = replace(PLAIN, chat=changed(PLAIN.chat, id="another", created=1), stream=merged)

        rows = again("create", "fix", "update", engine=StandIn([later]))

    assert [row.status for row in rows] == ["kept"] * 3
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


def other_ids() -> Dialogue:
    """The same prompt with the same text in another split: the model of a newer engine."""
    ids = [8, 83, *PLAIN.output_ids[1:]]
    generated = generate(output_ids=ids, meta_info=PLAIN.generate["meta_info"] | {"completion_tokens": len(ids)})
    bill = PLAIN.chat["usage"] | {"completion_tokens": len(ids), "total_tokens": 15 + len(ids)}
    return replace(PLAIN, output_ids=ids, generate=generated, chat=changed(PLAIN.chat, usage=bill))


@pytest.mark.parametrize("allowed", [(), ("create",), ("update",), ("create", "update")])
def test_a_golden_is_never_replaced_without_fix(tmp_path: Path, allowed: tuple[Change, ...]) -> None:
    """Other ids than recorded: pending, with the place where they part and a diff; the file is as it was."""
    with standing(tmp_path) as again:
        path = tmp_path / "e-generate/plain.json"
        value = json.loads(path.read_text())
        path.write_text(golden_text(value | {"true_ids": [1, *value["true_ids"][1:]], "prompt_ids": [1]}))
        before = path.read_bytes()

        row = again(*allowed)[0]

    assert (row.status, row.change) == ("pending", "fix")
    assert row.reason == "another prompt_ids; not written: --fix does"
    assert path.read_bytes() == before
    assert any(line.startswith('- "prompt_ids": [1]') for line in row.diff)
    assert any(line.startswith('+ "prompt_ids": [163587, ') for line in row.diff)


def test_fix_replaces_and_shows(tmp_path: Path) -> None:
    """With --fix the new ids stand there, and the row tells where the old ones parted from them."""
    with standing(tmp_path) as again:
        rows = again("fix", engine=StandIn([other_ids()]))

    assert rows[0].status == "fixed"
    assert rows[0].reason == "recorded and now: ids part at 0: 1008 'The' and 8 ')' (21 and 22 ids)"
    assert json.loads((tmp_path / "e-generate/plain.json").read_text())["true_ids"] == other_ids().output_ids
    assert rows[1].status == "refused"
    assert "another text than the ids make" in rows[1].reason


def test_update_rewrites_what_says_the_same(tmp_path: Path) -> None:
    """Another layout or another source is no other golden: --update brings it into form, and nothing else does."""
    with standing(tmp_path) as again:
        path = tmp_path / "e/plain.chat.json"
        right = path.read_text()
        path.write_text(json.dumps(json.loads(right) | {"source": "?"}))

        waiting, done = again("create", "fix")[1], again("update")[1]

    assert (waiting.status, waiting.change) == ("pending", "update")
    assert (done.status, done.reason) == ("updated", "says the same in another way")
    assert path.read_text() == right


def test_a_file_that_is_no_golden_is_not_overwritten_by_create(tmp_path: Path) -> None:
    """Whatever stands there: --create leaves it alone."""
    (tmp_path / "e-generate").mkdir()
    path = tmp_path / "e-generate/plain.json"
    for text in ("my notes", "[]", "{}"):
        path.write_text(text)
        rows = captured(StandIn([PLAIN]), asks(tmp_path, PLAIN.line()), plan(tmp_path, "create"))
        assert rows[0].status == "pending"
        assert path.read_text() == text


def test_without_a_flag_nothing_is_written(tmp_path: Path) -> None:
    """Each golden waits, and the first lines of its file are shown."""
    out = tmp_path / "out"

    rows = captured(StandIn([PLAIN]), asks(tmp_path, PLAIN.line()), plan(out))

    assert [(row.status, row.change) for row in rows] == [("pending", "create")] * 3
    assert rows[0].reason == "not written: --create does"
    assert rows[0].diff[3:5] == ("+{", '+ "name": "e-generate/plain",')
    assert not out.exists()
