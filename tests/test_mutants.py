"""The gate is tested: errors planted in the rules must turn the required tests red.

Here only that the table applies, that the required tests are the listed ones, and three mutants; all of them:
`make mutants`. Not one of the required tests itself.
"""

import ast
import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from harness.hashes import content_hash
from tests.mutants import MUTANTS, Mutant
from tests.report_mutants import ROOT, edited, required, run

SAMPLE = ("163533 for <|im_end|>", "rivals ignored", "zero bill accepted")


def collected(folder: Path) -> list[tuple[str, set[str]]]:
    """Every test that carries the mark, as pytest sees it, with its fixtures and marks."""
    script = (
        "import json, sys, pytest\n"
        "class Plugin:\n"
        "    def pytest_collection_finish(self, session):\n"
        "        rows = [(i.nodeid.partition('[')[0], [*i.fixturenames, *(m.name for m in i.iter_markers())])"
        " for i in session.items]\n"
        "        print('\\n' + json.dumps(rows))\n"
        "pytest.main(['--collect-only', '-qq', '-p', 'no:cacheprovider', '-m', 'required', sys.argv[1]], [Plugin()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    listed = next(line for line in done.stdout.splitlines() if line.startswith("[["))
    return [(test, set(names)) for test, names in json.loads(listed)]


def test_marks_and_list_are_equal() -> None:
    """tests/required.txt lists exactly the tests that carry the mark `required`, a function a line, in order.

    None of them needs the optional folder, and none is a test of this file.
    """
    found = collected(ROOT / "tests")
    assert required() == sorted({test for test, _ in found})
    assert [test for test, names in found if "shared" in names or "test_mutants" in test] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_each_mutant_applies(mutant: Mutant) -> None:
    """The old text stands exactly once in its file, the new one is another, and what comes of it can be loaded."""
    path = ROOT / "harness" / mutant.file
    source = path.read_text()
    changed = edited(source, mutant)
    assert changed != source
    if path.suffix == ".toml":
        assert tomllib.loads(changed) != tomllib.loads(source)
    else:
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_the_table() -> None:
    """At least 40 mutants, each with a name of its own, no two alike."""
    assert len(MUTANTS) >= 40
    assert [name for name, n in Counter(m.name for m in MUTANTS).items() if n > 1] == []
    assert len({(m.file, edited((ROOT / "harness" / m.file).read_text(), m)) for m in MUTANTS}) == len(MUTANTS)


def test_a_text_that_is_not_there_is_an_error() -> None:
    """A mutant whose old text is missing, or stands twice, is refused by name, never applied in part."""
    for source, n in (("", 0), ("a a", 2)):
        with pytest.raises(ValueError, match=f"x: its old text stands {n} times in f.py"):
            edited(source, Mutant("x", "f.py", "a", "b"))


def test_the_code_as_it_is() -> None:
    """Without a mutant the required tests are green, and without the optional folder."""
    result = run(None)
    assert (result.state, result.by, result.killed) == ("green", "", False)


@pytest.mark.parametrize("name", SAMPLE)
def test_some_mutants_are_killed(name: str) -> None:
    """A mutant turns a required test red, by a failure of a test and not of its collection; no file is changed."""
    before = content_hash()
    result = run(next(m for m in MUTANTS if m.name == name))
    assert (result.state, result.killed) == ("red", True)
    assert result.by.partition("[")[0] in required()
    assert content_hash() == before


def test_a_mutant_that_cannot_be_loaded_proves_nothing() -> None:
    """Tests that cannot even be collected are no tests that failed: `broken`, which counts as a survivor."""
    first = (ROOT / "harness" / "types.py").read_text().splitlines()[0]
    result = run(Mutant("no module", "types.py", first, "raise ImportError"))
    assert (result.state, result.killed) == ("broken", False)
