"""The run file: what is asked of whom, how long and for how much. TOML, read strictly: what is not known is refused.

Every fault of a file is told at once, with its line. Knows nothing of prompts, tickets or HTTP.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.errors import SetupError
from harness.formats import Format, find_format, formats
from harness.json_keys import loads_once
from harness.store import path_trouble
from harness.transport import OPENROUTER
from runners.runfile_faults import Faults
from runners.runfile_keys import DATA, PROVIDER, QUALITY, RUN, SAMPLING

MAX_BYTES = 1 << 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
BOARD = "a scoreboard, the JSON file of `tokenproof providers --write FILE`"
EXPECTED = "see `tokenproof plan --help` for a whole run file"


@dataclass(frozen=True, slots=True)
class DataSet:
    """One file of prompts.

    Attributes:
        path: JSONL (.gz) or Parquet.
        shown: The path as the run file has it.
        limit: Prompts taken from its beginning; None for all.
        tokens: Completion tokens after which nothing more is asked of it; None for no target.
        ignore: Columns that are known to say nothing of the prompt.
    """

    name: str
    path: Path
    shown: str
    limit: int | None = None
    tokens: int | None = None
    ignore: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run as it was written down.

    Attributes:
        path: The file itself; paths in it are relative to its folder.
        sampling, provider: Members of each request, as OpenRouter names them.
        budget_usd: The most that may be spent, over all resumes.
        out: Folder of the ledger and of what is written from it.
        ticket: The gate's ticket; None where the file names none.
        max_rejected, window: Share of the last `window` answers of a provider above which it is dropped.
    """

    path: Path
    model: str
    format: Format
    thinking: bool
    sampling: Mapping[str, Any]
    provider: Mapping[str, Any]
    data_sets: tuple[DataSet, ...]
    max_tokens: int
    concurrency: int
    budget_usd: float
    out: Path
    ticket: Path | None
    base_url: str
    max_rejected: float
    window: int

    @property
    def pins(self) -> tuple[str, ...]:
        """The only providers that may answer, as their tags or slugs."""
        return tuple(self.provider.get("only") or self.provider.get("order") or ())


def load_run(
    path: str | Path, *, base_url: str | None = None, scoreboard: str | None = None, ticket: str | None = None
) -> RunFile:
    """The run that a file describes.

    Args:
        base_url: As typed or from the environment; must not differ from the file's own.
        scoreboard: A file of `tokenproof providers` with the provider block, where the run file has none.
        ticket: In the place of the file's own.

    Raises:
        SetupError: Every fault of the file, a line each: FILE:LINE: what came, what was expected.
    """
    from runners.output import is_own  # late: what writes samples knows run files

    text = _read(path)
    table = _table(path, text)
    faults, board = Faults(str(path), text), _board(scoreboard)
    if ticket and (trouble := path_trouble(ticket)) is not None:
        faults.lines.append(f"--ticket {ticket:.200}: {trouble}; expected a file of `tokenproof gate`")
    if scoreboard is not None and "provider" not in table:
        table["provider"], faults.files["provider"] = board["provider"], scoreboard
    elif scoreboard is not None:
        faults.add("it has a provider table, and --from-scoreboard gives another; leave one out", "provider")
    run = _checked(Path(path), table, faults, base_url, ticket)
    if run is not None:
        for k, data in enumerate(run.data_sets):
            if is_own(data.path, run.out):
                said = f"data set {data.name} is {data.shown}, which the run itself writes: choose another `out`"
                faults.add(said, "path", "data", k)
        for key, here in (("model", run.model), ("base_url", run.base_url)):
            if board.get(key, here) != here:
                faults.add(f"{key} is {here} here, and {board[key]} in {scoreboard}; write that anew for this run", key)
    if run is None or faults.lines:
        raise SetupError("\n".join(faults.lines))
    return run


def out_of(path: str | Path) -> Path:
    """The output folder that a run file names; nothing else of it is looked at.

    Raises:
        SetupError: It names none, or one that cannot be.
    """
    text = _read(path)
    out = _table(path, text).get("out")
    if not isinstance(out, str) or not out.strip():
        raise SetupError(f"{path}: 'out' is missing; expected {RUN['out'].expected}")
    faults = Faults(str(path), text)
    folder = faults.path(Path(path).parent, out, "out")
    if faults.lines:
        raise SetupError("\n".join(faults.lines))
    return folder


def data_of(path: str | Path) -> tuple[Path, ...]:
    """The data files that a run file names, as far as it names any; nothing else of it is looked at.

    Raises:
        SetupError: It is no TOML.
    """
    rows = _table(path, _read(path)).get("data")
    named = (row.get("path") for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
    texts = (name for name in named if isinstance(name, str))
    return tuple(Path(path).parent / name for name in texts if path_trouble(name) is None)


def _table(path: str | Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SetupError(f"{path}: no TOML: it nests too deeply; {EXPECTED}") from None
    except ValueError as error:  # of numbers of thousands of digits too
        raise SetupError(f"{path}: no TOML: {error!s:.200}; {EXPECTED}") from None


def _checked(
    path: Path, table: dict[str, Any], faults: Faults, base_url: str | None, ticket: str | None
) -> RunFile | None:
    values = faults.check(table, RUN)
    sampling = faults.check(values["sampling"], SAMPLING, "sampling")
    provider = _provider(values["provider"], faults, said="provider" in table)
    quality = faults.check(values["quality"], QUALITY, "quality")
    data_sets = tuple(_data_set(path.parent, row, faults, k) for k, row in enumerate(values["data"]))
    _unique_names(data_sets, faults)
    told = values["base_url"]
    if base_url and told and base_url.rstrip("/") != told.rstrip("/"):
        said = f"base_url is {told!r} here and {base_url!r} by --base-url or TOKENPROOF_BASE_URL; leave one out"
        faults.add(said, "base_url")
    fmt = find_format(values["model"], formats()) if values["model"] else None
    thinking = _thinking(fmt, values, faults)
    out = faults.path(path.parent, values["out"] or "", "out")
    own = faults.path(path.parent, values["ticket"] or "", "ticket") if values["ticket"] and not ticket else None
    if fmt is None or thinking is None or faults.lines:
        return None
    return RunFile(
        path=path,
        model=values["model"],
        format=fmt,
        thinking=thinking,
        sampling=_said(sampling),
        provider=_said(provider),
        data_sets=data_sets,
        max_tokens=values["max_tokens"],
        concurrency=values["concurrency"],
        budget_usd=float(values["budget_usd"]),
        out=out,
        ticket=Path(ticket) if ticket else own,
        base_url=(base_url or told or OPENROUTER).rstrip("/"),
        **quality,
    )


def _provider(block: Mapping[str, Any], faults: Faults, *, said: bool) -> Mapping[str, Any]:
    """The provider block, where there is one: it names who may answer, and ignores none of them."""
    n_before = len(faults.lines)
    provider = faults.check(block, PROVIDER, "provider")
    if not said or len(faults.lines) > n_before:
        return provider
    if not (provider["only"] or (provider["order"] and provider["allow_fallbacks"] is False)):
        told = "it admits every provider; name them: only = [...], or order = [...] with allow_fallbacks = false"
        faults.add(told, "provider")
    for key in ("only", "order"):
        for pin in provider[key] or ():
            for ignored in provider["ignore"] or ():
                if ignored.lower() in (pin.lower(), pin.lower().partition("/")[0]):
                    told = f"{pin} stands in {key}, and ignore = {ignored!r:.60} takes it out; leave it out of one"
                    faults.add(told, "ignore", "provider")
    return provider


def _thinking(fmt: Format | None, values: Mapping[str, Any], faults: Faults) -> bool | None:
    """The mode; None, and a fault, where it is not said or the format has no such mode."""
    if fmt is None:
        if values["model"]:
            names = ", ".join(f.name for f in formats())
            faults.add(f"model {values['model']!r:.100}: no one format covers it; the formats are {names}", "model")
        return None
    thinking, modes = values["thinking"], fmt.thinking_modes
    mode = modes[0] if thinking is None and len(modes) == 1 else thinking
    if mode not in modes:
        said = f"thinking is {'not said' if thinking is None else thinking}, and every id depends on it; format"
        faults.add(f"{said} {fmt.name} has {' and '.join(str(m).lower() for m in modes)}", "thinking")
        return None
    return bool(mode)


def _data_set(folder: Path, row: Any, faults: Faults, k: int) -> DataSet:
    values = faults.check(row, DATA, "data", k)
    shown = values["path"] or ""
    name = values["name"] or re.sub(r"\..*", "", Path(shown).name)
    if shown and not NAME.fullmatch(name):
        faults.add(f"the name {name[:60]!r}; expected letters, digits, `.`, `_` and `-`", "name", "data", k)
    n_before = len(faults.lines)
    path = faults.path(folder, shown, "path", "data", k)
    if shown and len(faults.lines) == n_before and not path.is_file():
        faults.add(f"no file {shown!r:.200}; paths are relative to the run file's folder", "path", "data", k)
    return DataSet(name, path, shown, values["limit"], values["tokens"], frozenset(values["ignore"]))


def _unique_names(data_sets: tuple[DataSet, ...], faults: Faults) -> None:
    seen: set[str] = set()
    for k, data in enumerate(data_sets):
        if data.name in seen:
            faults.add(f"two data sets are called {data.name!r}; give one a name of its own", "name", "data", k)
        seen.add(data.name)


def _said(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({key: value for key, value in values.items() if value is not None})


def _read(path: str | Path, expected: str = "a run file in TOML") -> str:
    if (trouble := path_trouble(path)) is not None:
        raise SetupError(f"{path!s:.200} cannot be read: {trouble}; expected {expected}")
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SetupError(f"{path}: more than {MAX_BYTES >> 20} MiB; expected {expected}")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror or error}; expected {expected}") from error
    except UnicodeDecodeError:
        raise SetupError(f"{path}: not UTF-8 text; expected {expected}") from None


def _board(path: str | None) -> dict[str, Any]:
    """What `tokenproof providers` wrote: `provider`, and the model and base URL that it is of; {} for no file.

    A bare provider block is taken too.
    """
    if path is None:
        return {}
    try:
        value = loads_once(_read(path, BOARD))
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{path}: no JSON: {error!s:.120}; expected {BOARD}") from None
    board = value if isinstance(value, dict) and "provider" in value else {"provider": value}
    block = board["provider"]
    if not isinstance(block, dict) or not set(block) & {"only", "order"}:
        raise SetupError(f"{path}: no provider block that names anybody (only, or order); expected {BOARD}")
    return board
