"""harness.required_tests: a checkout's required tests, run in a process of their own, and the kill rate."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.errors import SetupError
from harness.hashes import content_hash, hash_of_tests
from harness.required_tests import kill_rate, listed, run_required, some

EVERY_END = """
import socket
import pytest

pytestmark = pytest.mark.required


def test_good(): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_xfailed(): assert False
@pytest.mark.xfail(strict=False)
def test_xpassed(): pass
def test_failed(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
@pytest.mark.parametrize("k", [1, 2])
def test_cases(k): assert k == 1
def test_reaches():
    try:
        socket.create_connection(("127.0.0.1", 9))
    except OSError:
        pass
def test_unlisted(): pass
def test_taken(): pass
"""
CONFTEST = """
def pytest_collection_modifyitems(config, items):
    gone = [i for i in items if i.name == "test_taken"]
    items[:] = [i for i in items if i not in gone]
    config.hook.pytest_deselected(items=gone)
"""
SETTINGS = '[tool.pytest.ini_options]\nmarkers = ["required: r"]\naddopts = "--strict-markers"\n'


def small(root: Path, tests: str, *names: str, **files: str) -> Path:
    """A folder with tests/test_a.py, the list of the required ones, and more files of tests/."""
    (root / "tests").mkdir()
    (root / "pyproject.toml").write_text(SETTINGS)
    (root / "tests" / "test_a.py").write_text(tests)
    (root / "tests" / "required.txt").write_text("".join(f"tests/test_a.py::test_{n}\n" for n in names))
    for name, text in files.items():
        (root / "tests" / f"{name}.py").write_text(text)
    return root


def test_every_end_has_its_reason(tmp_path: Path) -> None:
    """One run in which each required test ends in another way: outcomes by id, and a line a kind of end."""
    names = ("good", "skipped", "xfailed", "xpassed", "failed", "error", "cases", "reaches", "taken", "gone")
    ran = run_required(small(tmp_path, EVERY_END, *names, conftest=CONFTEST), tmp_path / "junit.xml")
    expected = {"good": "passed", "cases": "failed", "reaches": "passed", "taken": "deselected", "gone": "missing"}
    ends = {n: expected.get(n, n) for n in names}
    assert dict(ran.outcomes) == {f"tests/test_a.py::test_{n}": end for n, end in ends.items()}
    assert ran.reasons == (
        "1 required tests deselected: tests/test_a.py::test_taken",
        "1 required tests error: tests/test_a.py::test_error",
        "2 required tests failed: tests/test_a.py::test_failed, tests/test_a.py::test_cases",
        "1 required tests missing: tests/test_a.py::test_gone",
        "1 required tests skipped: tests/test_a.py::test_skipped",
        "1 required tests xfailed: tests/test_a.py::test_xfailed",
        "1 required tests xpassed: tests/test_a.py::test_xpassed",
        "1 tests carry the mark `required` and are not in tests/required.txt: tests/test_a.py::test_unlisted",
        "required tests reached for the network: tests/test_a.py::test_reaches: socket.getaddrinfo '127.0.0.1'",
    )
    cases = {c.get("name") for c in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    assert {"test_good", "test_cases[2]"} <= cases


GOOD = "import pytest\n\n@pytest.mark.required\ndef test_good(): pass\n\ndef test_other(): assert False\n"


UVLOOP = """
import pytest

@pytest.mark.required
def test_good():
    uvloop = pytest.importorskip("uvloop")

    async def reach():
        import asyncio
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, "192.0.2.1", 443)

    try:
        uvloop.run(reach())
    except OSError:
        pass
    except Exception as error:
        assert "loopback" in str(error)
"""


def test_a_loop_in_c_is_seen_too(tmp_path: Path) -> None:
    """uvloop opens sockets where no audit hook hears them; what it asks for is refused and told all the same."""
    ran = run_required(small(tmp_path, UVLOOP, "good"))
    assert ran.reasons == ("required tests reached for the network: uvloop: 192.0.2.1",)


def test_a_sound_run_has_no_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All passed; tests without the mark are not run, and what the environment asks of pytest is not heard."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    ran = run_required(small(tmp_path, GOOD, "good"))
    assert (dict(ran.outcomes), ran.reasons) == ({"tests/test_a.py::test_good": "passed"}, ())


def test_what_cannot_be_collected(tmp_path: Path) -> None:
    """A file that breaks may have held any test: nothing ran, and it is named."""
    ran = run_required(small(tmp_path, GOOD, "good", test_b="import no_such_module\n"))
    assert ran.reasons == (
        "1 required tests missing: tests/test_a.py::test_good",
        "1 test files could not be collected: tests/test_b.py",
    )


def test_a_run_that_tells_nothing(tmp_path: Path) -> None:
    """pytest that dies before its end leaves no outcome behind: everything is missing, with its last words."""
    ran = run_required(small(tmp_path, GOOD + "\nimport os; os._exit(0)\n", "good"))
    assert dict(ran.outcomes) == {"tests/test_a.py::test_good": "missing"}
    assert [r.startswith("pytest ended without telling what became of") for r in ran.reasons] == [True]
    (tmp_path / "tests" / "conftest.py").write_text("raise SystemExit(0)\n")
    assert run_required(tmp_path).reasons[0].startswith("pytest ended without telling")
    assert run_required(tmp_path, python=str(tmp_path / "no-python")).reasons[0].startswith("pytest ended without")


@pytest.mark.parametrize("line", ["--deselect=x", "tests/test_a.py", "../tests/test_a.py::test_x", "test_x", "a::b"])
def test_a_line_that_is_no_id(tmp_path: Path, line: str) -> None:
    """Nothing but ids of test functions may stand in the list."""
    root = small(tmp_path, GOOD)
    (root / "tests" / "required.txt").write_text(f"{line}\n")
    with pytest.raises(SetupError, match="is no id of a test function"):
        listed(root)


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    """No list is an error, an empty one a reason."""
    with pytest.raises(SetupError, match=r"required\.txt cannot be read"):
        listed(tmp_path)
    assert listed(small(tmp_path, GOOD)) == ()


def test_a_conftest_above_the_tests_is_not_loaded(tmp_path: Path) -> None:
    """Whatever lies at the top of a checkout, a test that fails is told to have failed."""
    root = small(tmp_path, "import pytest\n@pytest.mark.required\ndef test_no(): assert False\n", "no")
    (root / "conftest.py").write_text("def pytest_collection_modifyitems(items): items[0].obj = lambda: None\n")
    ran = run_required(root)
    assert (set(ran.outcomes.values()), len(ran.reasons)) == ({"failed"}, 1)


def rate(root: Path, **changes: object) -> tuple[float, tuple[str, ...]]:
    """What is told of a kill rate of these figures."""
    sound = {"kill_rate": 1.0, "survivors": [], "content_hash": content_hash(root), "tests_hash": hash_of_tests(root)}
    (root / "build").mkdir(exist_ok=True)
    (root / "build" / "kill_rate.json").write_text(json.dumps(sound | changes))
    return kill_rate(root)


def test_a_kill_rate_that_counts(tmp_path: Path) -> None:
    """All killed, of this content and these tests."""
    assert rate(small(tmp_path, GOOD)) == (1.0, ())
    (tmp_path / "tests" / "test_a.py").write_text("")
    assert kill_rate(tmp_path)[1] == ("the kill rate belongs to other tests; run `make mutants`",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"content_hash": "0" * 64}, "the kill rate belongs to another content of the package; run `make mutants`"),
        ({"content_hash": ""}, "the kill rate belongs to another content of the package; run `make mutants`"),
        ({"survivors": ["a", "b"]}, "the required tests miss 2 planted mutants: a, b"),
        ({"kill_rate": 0.5}, "the required tests miss 0 planted mutants: "),
        ({"kill_rate": 2}, "build/kill_rate.json cannot be read (no kill rate in it); run `make mutants`"),
        ({"kill_rate": True}, "build/kill_rate.json cannot be read (no kill rate in it); run `make mutants`"),
        ({"survivors": None}, "build/kill_rate.json cannot be read (no kill rate in it); run `make mutants`"),
    ],
)
def test_a_kill_rate_that_does_not_count(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    """Of other content, with survivors, or no figures at all."""
    assert rate(small(tmp_path, GOOD), **changes)[1] == (reason,)


def test_a_kill_rate_that_is_not_there(tmp_path: Path) -> None:
    """Missing, or no JSON."""
    assert kill_rate(tmp_path)[1] == ("no kill rate: build/kill_rate.json is not there; run `make mutants`",)
    (tmp_path / "build").mkdir()
    for text in ("{", "[]", '{"kill_rate": 1}'):
        (tmp_path / "build" / "kill_rate.json").write_text(text)
        assert kill_rate(tmp_path)[1][0].startswith("build/kill_rate.json cannot be read")


def test_some() -> None:
    """The first three, and how many more."""
    assert (some(["a", "b", "c"]), some(["a", "b", "c", "d", "e"])) == ("a, b, c", "a, b, c and 2 more")
