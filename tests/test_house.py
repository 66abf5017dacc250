"""The rules of the house, checked by reading the sources: who may import whom, what the core may touch, how long things
get, and what no file may say.

The tables are the rules. Whoever changes the picture changes them in the same commit, and says why.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

GROUPS: dict[str, tuple[str, ...]] = {
    # from the ground up; a module imports lower groups and its own
    "errors": ("errors",),
    "types": ("types",),
    "vocab": ("vocab",),
    "formats": ("formats",),
    "json_keys": (
        "json_keys",
        "json_spellings",
    ),  # JSON text as text: calls, checks and evidence look at it in the same way
    "ticket": ("ticket",),  # a value of its own: what a run compares itself with
    "stream": ("stream",),  # chunks laid over segments: readings cut by them and witnesses judge by them
    # stages: none imports another
    "prompt": ("prompt", "declare", "messages"),  # tool declarations and messages are each a grammar of their own
    "response": ("response", "sse", "deltas", "token_reports", "failures", "records"),  # bytes, events, fields, reports
    "habits": ("habits", "equations", "learn"),  # evidence is voted on before it is a habit
    "readings": ("readings", "calls", "markers"),  # a section's options and a text's markers are half of the readings
    "ids": ("ids", "joins"),
    "witnesses": ("witnesses",),
    "checks": ("checks",),
    "exact": ("exact",),
    "verdict": ("verdict",),
    # what an engine makes of ids, for the emulator and for reported ids: as pure as a stage
    "engines": (
        *("stacks", "stack_plain", "stack_vllm", "stack_sglang", "vllm_machine", "coercion"),
        *("preset_table", "presets", "wire", "faults", "chat_request", "openrouter_lists"),
    ),
    # cassettes as values: what they hold, what must go, what matches, what is asked
    "tapes": ("recording", "cassette_text", "matching", "scrub"),
    # the order of the stages, and what uses several of them in some order
    "flow": (
        *("asked", "replay", "flow", "calibrate", "traces"),
        *("sightings", "aspects", "drift_bills", "drift"),  # two recordings of one request, held against each other
    ),
    # each owns one outside thing; `inputs` is the shape of what the files hold
    "shell": (
        *("settings", "encoder", "cassette", "cassette_files", "emulator", "inputs", "store", "report"),
        *(
            "checkout",
            "evidence_report",
            "markup",
            "page",
            "page_answers",
        ),  # git; what recordings say of providers, for a terminal
        *("sockets", "tape", "scenarios", "spending", "record", "session_tapes"),  # records and plays exchanges
        "scoreboard",
        *("evidence", "proof", "outcomes", "required_tests", "fresh", "gate"),  # what a ticket needs, who finds it out
        "hashes",  # what a ticket and a sample say of the code and tables that made them
        *(
            "transport",
            "client",
            "client_bulk",
            "catalog",
        ),  # where calls go, what carries them, what the price list says
    ),
    "cli": (
        *("cli", "cli_base", "cli_calibrate", "cli_drift", "cli_extract", "cli_gate", "cli_golden", "cli_record"),
        *("cli_backends", "cli_proving", "cli_roundtrip", "__main__"),
        *("cli_samples", "cli_plan", "cli_shards", "cli_generate", "cli_providers", "cli_report"),
    ),
    "plugin": ("plugin", "plugin_fixtures"),  # the other way in: a test suite
}
GROUND = ("errors", "types", "vocab", "formats", "json_keys", "ticket", "stream")
STAGES = ("prompt", "response", "habits", "readings", "ids", "witnesses", "checks", "exact", "verdict", "engines")
LEVEL = {name: k for k, name in enumerate(GROUND)} | dict.fromkeys(STAGES, 10) | {"flow": 11, "tapes": 11}
LEVEL |= {"shell": 12, "cli": 13, "plugin": 14}
GROUP_OF = {module: group for group, modules in GROUPS.items() for module in modules}
CORE = {module for module, group in GROUP_OF.items() if group not in ("shell", "cli", "plugin")}
EXCEPTIONS = {
    ("checks", "calls"): "the shape of a call id is told in one place",
}
LAZY_ONLY = {
    "replay": {"presets"},  # most answers carry no ids, and the presets cost a cold start
}

FORBIDDEN = frozenset(
    {
        *("os", "io", "pathlib", "shutil", "tempfile", "glob", "gzip", "sys", "subprocess", "pkgutil", "importlib"),
        *("socket", "ssl", "http", "urllib.request", "asyncio", "threading", "multiprocessing", "signal", "select"),
        *("time", "random", "secrets", "uuid", "logging", "warnings", "getpass", "locale", "platform"),
    }
)
TOUCHES = {("formats", "pkgutil"): "the package's own TOML files are part of the code"}
CALLS = frozenset({"open", "print", "input", "exec", "eval", "breakpoint", "__import__"})
CLOCKS = frozenset({"now", "utcnow", "today"})

OWNERS = {
    "splintr": {"encoder"},
    "tiktoken": {"encoder"},
    "msgspec": {"records"},
    "yaml": {"cassette"},
    "rich": {"report"},
    "httpx": {"client"},
    "vcr": {"tape"},
    "pytest": set(GROUPS["plugin"]),  # hooks and fixtures
    "aiohttp": {"client_bulk"},
    "uvloop": {"client_bulk"},
    "typer": set(GROUPS["cli"]),  # the command, a file per group of subcommands
}
RUNNER_OWNERS = {
    "fsspec": {"places"},
    "ray": {"scale"},
    "httpx": {"engine_http"},
    "pyarrow": {"tables"},
    "datasets": {"layout_speculators"},
    "rich": {"live_view"},
    "safetensors": {"tensor_files"},
    "torch": {"tensors"},
    "transformers": {"backend_transformers"},
}

TESTED_BY = {
    "plugin_fixtures": "test_plugin",
    "ledger_rows": "test_ledger",  # what is written is read again: one claim over four modules
    "ledger_writes": "test_ledger",
    "ledger_file": "test_ledger",
    "attempts": "test_generate",  # the parts of the one loop
    "assess": "test_generate",
    "desk": "test_generate",
    "recovery": "test_generate",
    # modules whose tests stand with those of the module that they are a part of
    "cli_base": "test_cli",
    "cli_backends": "test_cli_extract",  # the same command
    "runfile_keys": "test_runfile",
    "runfile_faults": "test_runfile",
    "stack_plain": "test_stacks",
    "stack_vllm": "test_stacks",
    "stack_sglang": "test_stacks",
    "vllm_machine": "test_stacks",
    "preset_table": "test_presets",
    "openrouter_lists": "test_emulator",
    "replay": "test_exact",
    "aspects": "test_sightings",
    "drift_bills": "test_drift",
    "evidence_report": "test_cli_drift",
    "errors": "test_failures",  # whose fault, and whether trying again can help
    "types": "test_flow",  # what a verdict says of its ids
}
MAX_FILE_LINES, MAX_FUNCTION_LINES = 300, 40
TOP = frozenset(
    {
        *("pyproject.toml", "Makefile", ".gitignore", ".ci", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"),
        *("harness", "runners", "tests", "cassettes", "golden"),
    }
)
UNSPOKEN = {
    "a package host": r"\b(py"
    r"pi\.org|pythonhos"
    r"ted\.org|npm"
    r"js\.(com|org)|cra"
    r"tes\.io|proxy\.gol"
    r"ang\.org)",
    "a path of one machine": r"(?<![\w.~}-])/(wor" r"k|tm" r"p|ro" r"ot)(?![\w-])",
    "an issue's number": r"(?i)\bissues? #?\d+\b",
}
TEXT = frozenset({".py", ".toml", ".md", ".yaml", ".yml", ".json", ".txt", ".cfg", "", ".css", ".html", ".svg"})


@cache
def sources(package: str) -> dict[str, Path]:
    """Module -> file; a package's own `__init__` goes by the name of the package."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        if path != ROOT / package / "__init__.py":
            found[path.parent.name if path.name == "__init__.py" else path.stem] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """Dotted names that one import statement brings in; for a package, its modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        module = node.module or ""
        whole = module in ("harness", "runners")
        yield from (f"{module}.{alias.name}" for alias in node.names) if whole else (module,)


def imports(path: Path, *, lazy: bool = True) -> set[str]:
    """All that a file imports; without `lazy` only what loading it loads."""
    if lazy:
        return {name for node in ast.walk(tree(path)) for name in imported(node)}
    return {name for node in tree(path).body for name in imported(node)}


def own(names: set[str], package: str) -> set[str]:
    """Modules of our package among dotted names."""
    return {name.split(".")[1] for name in names if name.startswith(f"{package}.") and name != f"{package}.__version__"}


def files() -> list[Path]:
    """Everything that git tracks, or would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        out = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: nobody knows which files belong to the project")
    return [path for line in out.splitlines() if (path := ROOT / line).is_file()]


# --- directions -----------------------------------------------------------------------------------------------------


def test_every_module_has_a_room() -> None:
    """The table of groups names each module of harness once, and no other."""
    listed = [module for modules in GROUPS.values() for module in modules]
    assert sorted(listed) == sorted(sources("harness"))


@pytest.mark.parametrize("module", sorted(GROUP_OF))
def test_imports_point_down(module: str) -> None:
    """A module imports lower levels and its own group; stages never import each other."""
    group = GROUP_OF[module]
    for name in own(imports(sources("harness")[module]), "harness"):
        below = LEVEL[GROUP_OF[name]] < LEVEL[group]
        assert below or GROUP_OF[name] == group or (module, name) in EXCEPTIONS, f"{module} imports {name}"


def test_no_exception_is_stale() -> None:
    """Every exception to a rule is still needed."""
    for module, name in EXCEPTIONS:
        assert name in own(imports(sources("harness")[module]), "harness")
    for module, library in TOUCHES:
        assert library in imports(sources("harness")[module])
    for module, names in LAZY_ONLY.items():
        assert names <= own(imports(sources("harness")[module]), "harness")
        assert not names & own(imports(sources("harness")[module], lazy=False), "harness")


def test_imports_have_no_circle() -> None:
    """Within a group too, somebody is first."""
    left = {m: own(imports(p), "harness") & set(GROUP_OF) for m, p in sources("harness").items()}
    while free := [m for m, needs in left.items() if not needs & set(left)]:
        for module in free:
            del left[module]
    assert left == {}


def test_harness_never_imports_runners() -> None:
    """The command alone may, and only when it needs one."""
    for module, path in sources("harness").items():
        names = own(imports(path), "runners")
        assert not names or GROUP_OF[module] == "cli", f"{module} imports runners: {names}"
        assert not own(imports(path, lazy=False), "runners"), f"{module} loads runners when it is loaded"


def test_runners_never_import_the_command() -> None:
    """Runners stand on harness, below the command."""
    for module, path in sources("runners").items():
        assert not own(imports(path), "harness") & set(GROUPS["cli"]), module


# --- what the core may touch ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", sorted(CORE))
def test_the_core_is_pure(module: str) -> None:
    """No file, network, clock, chance, environment or printing: values in, values out."""
    path = sources("harness")[module]
    for name in imports(path):
        touched = name in FORBIDDEN or name.split(".")[0] in FORBIDDEN
        assert not touched or (module, name) in TOUCHES, f"{module} imports {name}"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in CALLS, f"{module}:{node.lineno} calls {node.func.id}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in CLOCKS, f"{module}:{node.lineno} reads a clock"


@pytest.mark.parametrize(("package", "owners"), [("harness", OWNERS), ("runners", RUNNER_OWNERS)])
def test_each_library_has_one_owner(package: str, owners: dict[str, set[str]]) -> None:
    """An outside library is imported by the one module that owns it, and every library is in the table."""
    found: dict[str, set[str]] = {}
    for module, path in sources(package).items():
        for name in imports(path):
            root = name.split(".")[0]
            if root not in sys.stdlib_module_names | {"harness", "runners"}:
                found.setdefault(root, set()).add(module)
    assert set(found) == set(owners)
    for library, modules in found.items():
        assert modules <= owners[library], f"{library} belongs to {owners[library]}, imported by {modules}"


# --- sizes and words ------------------------------------------------------------------------------------------------

CODE = [pytest.param(path, id=f"{p}/{m}") for p in ("harness", "runners") for m, path in sources(p).items()]


@pytest.mark.parametrize("path", CODE)
def test_files_and_functions_are_short(path: Path) -> None:
    """At most 300 lines a file, 40 a function without its docstring."""
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert n_lines <= MAX_FILE_LINES, f"{n_lines} lines"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0] if ast.get_docstring(node) else None
            n = (node.end_lineno or 0) - node.lineno + 1 - ((doc.end_lineno or 0) - doc.lineno + 1 if doc else 0)
            assert n <= MAX_FUNCTION_LINES, f"{node.name}: {n} lines"


@pytest.mark.parametrize("path", CODE)
def test_modules_say_their_job(path: Path) -> None:
    """Each module begins with a docstring."""
    assert ast.get_docstring(tree(path))


def test_every_test_states_its_claim() -> None:
    """Each test function has a docstring."""
    mute = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert mute == []


@pytest.mark.parametrize("package", ["harness", "runners"])
def test_every_module_has_a_test_module(package: str) -> None:
    """tests/ mirrors the sources, file for file; the few that are tested with a neighbour are listed."""
    folders = (ROOT / "tests" / package, ROOT / "tests")  # the order of the stages is tested above them
    there = {path.stem for folder in folders for path in folder.glob("test_*.py")}
    wanted = {module: TESTED_BY.get(module, f"test_{module}") for module in sources(package)}
    assert {module: test for module, test in wanted.items() if test not in there} == {}


def test_the_top_level_is_complete_and_nothing_else() -> None:
    """The tree shows what the project is: the allowed names, all of them, and no other."""
    assert {path.relative_to(ROOT).parts[0] for path in files()} == TOP


@pytest.mark.parametrize("what", sorted(UNSPOKEN))
def test_what_no_file_says(what: str) -> None:
    """No file of ours names package hosts, paths of one machine or numbers of issues; recordings say what they say."""
    pattern = re.compile(UNSPOKEN[what])
    ours = [p for p in files() if p.suffix in TEXT and p.relative_to(ROOT).parts[0] not in ("golden", "cassettes")]
    assert len(ours) > 100
    said = []
    for path in ours:
        for k, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if pattern.search(line):
                said.append(f"{path.relative_to(ROOT)}:{k}: {line.strip()[:100]}")
    assert said == []
