"""Ways to a false green, one a line: what is done to a checkout whose gate opens, and the reason that must be told.

Each leaves everything else sound: what is planted in files is committed, and the kill rate belongs to it, so that no
other check stands in. Knows nothing of how the gate sees it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.cassette_text import cassette_text
from harness.encoder import load_vocab
from harness.recording import pair_of
from harness.vocab import tiktoken_model_text
from tests.gate_kit import CAST, PLAYED, TESTS, URL, Checkout, recording

SMALL = "tests/test_small.py"
FIRST, SECOND, OTHER = (Checkout.cassette(CAST[0], PLAYED[k]) for k in (0, 1, 3))


@dataclass(frozen=True, slots=True)
class Call:
    """How the gate is called."""

    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


PLAIN = Call()
Plant = Callable[[Checkout], Call]


def committed(*edits: tuple[str, str, str]) -> Plant:
    """Texts exchanged, and committed."""

    def plant(made: Checkout) -> Call:
        for name, old, new in edits:
            made.edit(name, old, new)
        made.commit()
        return PLAIN

    return plant


def written(**files: str) -> Plant:
    """Files of tests/ written, and committed."""

    def plant(made: Checkout) -> Call:
        made.write({f"tests/{name}.py": text for name, text in files.items()})
        made.commit()
        return PLAIN

    return plant


def recorded(**how: Any) -> Plant:
    """All cassettes recorded otherwise, and committed."""

    def plant(made: Checkout) -> Call:
        made.record(**how)
        made.commit()
        return PLAIN

    return plant


def no_cassette(made: Checkout) -> Call:
    """Those of one provider are gone."""
    for scenario in PLAYED:
        (made.root / made.cassette(CAST[0], scenario)).unlink()
    made.commit()
    return PLAIN


def one_old(made: Checkout) -> Call:
    """One cassette is eight days old."""
    at = made.now.replace(microsecond=0) - _days(8)
    made.write({FIRST: cassette_text(recording(PLAYED[0], CAST[0], at))})
    made.commit()
    return PLAIN


def _days(n: float) -> Any:
    from datetime import timedelta

    return timedelta(days=n)


def swapped(made: Checkout) -> Call:
    """The reply's bodies of two cassettes, exchanged by hand; their hashes stay where they were."""
    texts = {name: (made.root / name).read_text() for name in (FIRST, SECOND)}
    parts = {name: re.search(r"      string: .*?(?=\nmetadata:)", text, re.DOTALL) for name, text in texts.items()}
    bodies = {name: part[0] for name, part in parts.items() if part}
    for name, other in ((FIRST, SECOND), (SECOND, FIRST)):
        made.edit(name, bodies[name], bodies[other])
    made.commit()
    return PLAIN


def swapped_whole(made: Checkout) -> Call:
    """The same with their hashes, as a careless recorder would have written them."""
    at = made.now - _days(1)
    one, two = (recording(scenario, CAST[0], at) for scenario in (PLAYED[0], PLAYED[3]))
    for path, request, reply in ((FIRST, one, two), (OTHER, two, one)):
        whole = replace(request.interactions[0], body=reply.interactions[0].body)
        provenance = replace(request.provenance, pairs=(pair_of(whole),))
        made.write({path: cassette_text(replace(request, interactions=(whole,), provenance=provenance))})
    made.commit()
    return PLAIN


def another_answered(made: Checkout) -> Call:
    """One cassette's answer came from another provider than the one that is pinned."""
    one = recording(PLAYED[0], CAST[0], made.now - _days(1), answered_by=CAST[1])
    made.write({FIRST: cassette_text(one)})
    made.commit()
    return PLAIN


def edited_habits(made: Checkout) -> Call:
    """Habits in which a trait was turned, in a file beside the checkout."""
    text = (made.root / "harness" / "habits.toml").read_text()
    other = made.root.parent / "habits.toml"
    other.write_text(
        text.replace('trait = "terminator_billed", value = "yes"', 'trait = "terminator_billed", value = "no"')
    )
    assert other.read_text() != text
    return Call(environment={"TOKENPROOF_HABITS": str(other)})


def shipped_habits(made: Checkout) -> Call:
    """The shipped habits edited and committed, with the kill rate of what was there before."""
    made.edit(
        "harness/habits.toml", 'trait = "terminator_billed", value = "yes"', 'trait = "terminator_billed", value = "no"'
    )
    rate = (made.root / "build" / "kill_rate.json").read_bytes()
    made.commit()
    made.write({"build/kill_rate.json": rate})
    return PLAIN


def other_vocabulary(made: Checkout) -> Call:
    """A vocabulary in which two ranks are exchanged."""
    ranks = list(load_vocab().ranks)
    ranks[1000], ranks[1001] = ranks[1001], ranks[1000]
    path = made.root.parent / "tiktoken.model"
    path.write_bytes(tiktoken_model_text(ranks))
    return Call(environment={"TOKENPROOF_VOCAB": str(path)})


def dirty(made: Checkout) -> Call:
    """An edit that nobody committed."""
    made.edit(SMALL, "assert 1 + 1 == 2", "assert True")
    made.measure()
    return PLAIN


def untold(made: Checkout) -> Call:
    """No kill rate at all."""
    (made.root / "build" / "kill_rate.json").unlink()
    return PLAIN


def measured(**changes: Any) -> Plant:
    """A kill rate that says something else."""

    def plant(made: Checkout) -> Call:
        made.measure(**changes)
        return PLAIN

    return plant


def turned_green(made: Checkout) -> None:
    """A required test that fails, and a conftest.py at the top that lets it pass."""
    made.edit(SMALL, "assert 1 + 1 == 2", "assert 1 + 1 == 3")
    made.commit()
    made.write({"conftest.py": "def pytest_pyfunc_call(pyfuncitem): return True\n"})


def conftest_above(made: Checkout) -> Call:
    """It is committed, and the kill rate belongs to it."""
    turned_green(made)
    made.commit()
    return PLAIN


def conftest_later(made: Checkout) -> Call:
    """It is committed after the kill rate was measured."""
    turned_green(made)
    rate = (made.root / "build" / "kill_rate.json").read_bytes()
    made.commit()
    made.write({"build/kill_rate.json": rate})
    return PLAIN


def conftest_hidden(made: Checkout) -> Call:
    """Git was told to ignore it."""
    turned_green(made)
    made.write({".git/info/exclude": "/conftest.py\n"})
    made.commit()
    return PLAIN


TAKEN_OUT = """
def pytest_collection_modifyitems(config, items):
    gone = [i for i in items if i.name == "test_one"]
    items[:] = [i for i in items if i not in gone]
    config.hook.pytest_deselected(items=gone)
"""
REACHES = """
    import socket

    try:
        socket.create_connection(("192.0.2.1", 443), timeout=1)
    except OSError:
        pass
"""
MARK = "pytestmark = pytest.mark.required"

WAYS: Mapping[str, tuple[Plant, str]] = {
    "a ticket of another base URL": (
        lambda _: Call(("--base-url", URL.replace(":9", ":10"))),
        "no recording of moonshotai/kimi-k2.5 at http://127.0.0.1:10/api/v1 speaks for it (found 5 emulator of",
    ),
    "only hand-made evidence": (recorded(kind="hand-made"), "speaks for it (found 5 hand-made of moonshotai/kimi-k2.5"),
    "all required tests skipped": (
        committed((SMALL, MARK, f"{MARK[:13]}[pytest.mark.required, pytest.mark.skip]")),
        "2 required tests skipped: tests/test_small.py::test_one, tests/test_small.py::test_two",
    ),
    "one xfailed": (
        committed((SMALL, "def test_one() -> None:\n", "@pytest.mark.xfail\ndef test_one() -> None:\n"),
                  (SMALL, "assert 1 + 1 == 2", "assert 1 + 1 == 3")),
        "1 required tests xfailed: tests/test_small.py::test_one",
    ),
    "one deselected": (written(conftest=TAKEN_OUT), "1 required tests deselected: tests/test_small.py::test_one"),
    "no tests collected": (
        written(conftest='collect_ignore_glob = ["*"]\n'), "pytest collected no required test"
    ),
    "no cassette": (no_cassette, "speaks for it (found none at all)"),
    "a stale one": (one_old, f"{CAST[0]}: 1 cassettes are older than 7 days; record them again: {FIRST}"),
    "bodies of two cassettes swapped": (
        swapped, f"{FIRST}: the reply of interaction 1 is not the one that was recorded for this request"
    ),
    "emptied list of required tests": (
        committed(("tests/required.txt", TESTS["tests/required.txt"], "")),
        "tests/required.txt lists no test: a gate that tests nothing opens nothing",
    ),
    "edited habits": (edited_habits, "is no part of the checkout; commit it, or use the shipped one"),
    "other vocabulary": (other_vocabulary, "not the vocabulary of Kimi K2"),
    "evidence of another provider": (
        another_answered, f"{FIRST}: evidence of another provider: AtlasCloud answered, not Chutes"
    ),
    "a request that reached the network": (
        committed((SMALL, "    assert 1 + 1 == 2\n", f"{REACHES}    assert 1 + 1 == 2\n")),
        "required tests reached for the network: tests/test_small.py::test_one: socket.",
    ),
}  # fmt: skip
"""The fourteen by their names."""

MORE: Mapping[str, tuple[Plant, str]] = {
    "bodies of two cassettes swapped with their hashes": (
        swapped_whole, f"{OTHER}: billed another prompt than its request's; answers may have been exchanged"
    ),
    "a dirty tree": (dirty, "the tree is dirty: tests/test_small.py"),
    "no kill rate": (untold, "no kill rate: build/kill_rate.json is not there; run `make mutants`"),
    "a kill rate of other content": (
        measured(content_hash="0" * 64), "the kill rate belongs to another content of the package; run `make mutants`"
    ),
    "a kill rate of other tests": (measured(tests_hash=""), "the kill rate belongs to other tests; run `make mutants`"),
    "a mutant that survived": (
        measured(kill_rate=0.99, survivors=["a second terminator"]),
        "the required tests miss 1 planted mutants: a second terminator",
    ),
    "edited shipped habits": (shipped_habits, "the kill rate belongs to another content of the package"),
    "engine-recorded evidence": (recorded(kind="engine"), "speaks for it (found 5 engine of moonshotai/kimi-k2.5"),
    "evidence that does not say where it is from": (
        recorded(kind="unstated"), "speaks for it (found 5 unstated of moonshotai/kimi-k2.5"
    ),
    "evidence of another model": (
        recorded(model="moonshotai/kimi-k2"), "speaks for it (found 5 emulator of moonshotai/kimi-k2 at"
    ),
    "evidence from the future": (recorded(days_old=-1.0), "were made in the future; look at the clock"),
    "a listed test that is gone": (
        committed((SMALL, "def test_one", "def test_uno")),
        "1 required tests missing: tests/test_small.py::test_one",
    ),
    "one that passes although it should fail": (
        committed((SMALL, "def test_one() -> None:\n", "@pytest.mark.xfail(strict=False)\ndef test_one() -> None:\n")),
        "1 required tests xpassed: tests/test_small.py::test_one",
    ),
    "one case of a test that fails": (
        committed((SMALL, "assert k in (1, 2)", "assert k == 1")),
        "1 required tests failed: tests/test_small.py::test_two",
    ),
    "a marked test that is not listed": (
        committed(("tests/required.txt", "tests/test_small.py::test_one\n", "")),
        "1 tests carry the mark `required` and are not in tests/required.txt: tests/test_small.py::test_one",
    ),
    "a file that cannot be collected": (
        written(test_other="raise ImportError\n"), "1 test files could not be collected: tests/test_other.py"
    ),
    "a conftest.py above the tests": (conftest_above, "1 required tests failed: tests/test_small.py::test_one"),
    "one that came after the kill rate": (conftest_later, "the kill rate belongs to other tests; run `make mutants`"),
    "one that git ignores": (
        conftest_hidden, "files that git ignores take part: conftest.py; commit them or take them out"
    ),
    "settings that take tests out": (
        committed(("pyproject.toml", "--benchmark-skip", "--benchmark-skip --deselect tests/test_small.py::test_one")),
        "1 required tests deselected: tests/test_small.py::test_one",
    ),
}  # fmt: skip
"""Others that were thought of."""
