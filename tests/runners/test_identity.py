"""runners.identity: a run is known by what it asks, and what changed can be told."""

from pathlib import Path

from harness.encoder import encode_prompt_text
from runners.data_sets import survey
from runners.identity import canonical_run, changes, run_sha256
from runners.runfile import RunFile
from tests.runners.run_kit import ONE, PROVIDER, run_of, run_text


def canonical(run: RunFile) -> str:
    """The canonical text of a run."""
    return canonical_run(run, survey(run, encode_prompt_text))


def test_the_same_run_has_one_name(tmp_path: Path) -> None:
    """However the file is written, wherever its output and its ticket lie."""
    first = canonical(run_of(tmp_path))
    other = run_text(ONE, "# later\n" + PROVIDER, out='"elsewhere"', ticket='"t.json"', concurrency="64")

    assert canonical(run_of(tmp_path, text=other)) == first
    assert changes(first, first) == ()
    assert len(run_sha256(first)) == 64


def test_changes_are_named(tmp_path: Path) -> None:
    """A line a member, with what it was and what it is; a data set counts by what it asks."""
    old = canonical(run_of(tmp_path))
    text = run_text(PROVIDER, ONE + "limit = 3\n", "[sampling]\ntop_p = 0.5\n", budget_usd="9")
    new = canonical(run_of(tmp_path, {"prompt": "hello"}, text=text))

    told = changes(old, new)
    assert [line.partition(": ")[0] for line in told] == [
        "budget_usd", "data.a.limit", "data.a.requests", "sampling.top_p",
    ]  # fmt: skip
    assert told[0] == "budget_usd: 1.5 -> 9.0"
    assert told[1] == "data.a.limit: null -> 3"
    assert told[-1] == "sampling.top_p: absent -> 0.5"
    assert run_sha256(old) != run_sha256(new)


def test_order_counts(tmp_path: Path) -> None:
    """Data sets in another order make another run: output comes in their order."""
    both = [ONE, '[[data]]\npath = "a.jsonl"\nname = "b"\n']
    old, new = (canonical(run_of(tmp_path, text=run_text(PROVIDER, *order))) for order in (both, both[::-1]))

    assert changes(old, new) == ("data.a.order: 0 -> 1", "data.b.order: 1 -> 0")
