"""`tokenproof drift`: what changed at providers between two recordings of the same requests.

Part of the command: it may print. Knows nothing of how a change is told.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import store
from harness.cli_base import HabitsOption, JsonOption, clean_ends, complain, judging
from harness.errors import SetupError
from harness.types import Exchange

if TYPE_CHECKING:
    from harness.drift import Comparison

CASSETTES = "cassettes"
SideArgument = Annotated[str, typer.Argument(help="A file, a folder, or a git revision: REV, or REV:FOLDER.")]


def drift(old: SideArgument, new: SideArgument, as_json: JsonOption = False, habits: HabitsOption = None) -> None:
    """Say what providers changed between two recordings of the same requests, and which recordings show it.

    Recordings are paired by their place in the two folders (for two files: by name, else by position). A change is told
    where two answers that say the same differ in it, where no model could have made it, or where chance cannot explain
    the numbers. A revision without a folder means its `cassettes`.

    \b
    exit code 0  nothing changed that touches ids
              1  something changed that touches ids
              2  wrong call, nothing to compare, or an input that is no answer (the rest is still compared)

    \b
    examples:
      tokenproof drift cassettes rerecorded
      tokenproof drift HEAD~1 HEAD
      tokenproof drift v0.1:cassettes/chutes cassettes/chutes --json | jq '.drifts[] | [.provider, .aspect, .new]'
    """
    from harness.drift import compare  # late: no other command needs them
    from harness.evidence_report import drift_lines, drift_object

    with clean_ends(), ExitStack() as places:
        kit = judging(None, None, False, habits).kit
        (before, n_bad), (now, n_bad_now) = (recordings(place_of(side, places)) for side in (old, new))
        found = compare(before, now, kit)
        if not found.n_pairs:
            raise unpaired(old, new, found)
        if as_json:
            print(json.dumps(drift_object(found)))
        else:
            print(*drift_lines(found), sep="\n")
        raise typer.Exit(2 if n_bad + n_bad_now else int(found.touches_ids))


def unpaired(old: str, new: str, found: "Comparison") -> SetupError:
    """That nothing could be compared is no success."""
    keys = ", ".join([*found.only_old[:2], *found.only_new[:2]]) or "nothing at all"
    return SetupError(f"no recording of {old} has a counterpart in {new} (found {keys}); nothing was compared")


def place_of(side: str, places: ExitStack) -> Path:
    """What is there, else what a revision has."""
    from harness.checkout import checkout_of, files_at

    if Path(side).exists():
        return Path(side)
    root = checkout_of(Path.cwd())
    if root is None:
        raise SetupError(f"{side}: no such file or folder, and no git checkout here that could have such a revision")
    revision, _, folder = side.partition(":")
    return places.enter_context(files_at(root, revision, folder.strip("/") or CASSETTES))


def recordings(place: Path, say: Callable[[str], None] = complain) -> tuple[dict[str, Exchange], int]:
    """Key -> exchange of every answer in a file or folder, and how many inputs are none; of those it says why.

    The key is the file's place in the folder; of several answers in one file also the name, or the position.
    """
    found: dict[str, Exchange] = {}
    n_bad = 0
    for path, entries in groupby(store.read([place]), key=lambda entry: entry.path):
        good = []
        for entry in entries:
            if entry.exchange is None:
                n_bad += 1
                say(f"{entry.place}: {entry.trouble}")
            else:
                good.append((entry.place, entry.exchange))
        file = Path(path).relative_to(place).with_suffix("").as_posix() if place.is_dir() else ""
        found |= _keyed(file, good)
    return found, n_bad


def _keyed(file: str, answers: list[tuple[str, Exchange]]) -> dict[str, Exchange]:
    if file and len(answers) == 1:
        return {file: answers[0][1]}
    names = [e.name if e.name != place else f"#{k}" for k, (place, e) in enumerate(answers, 1)]
    if len(set(names)) < len(names):  # names that come twice pair nothing
        names = [f"#{k}" for k in range(1, len(names) + 1)]
    return {f"{file}/{name}".lstrip("/"): e for name, (_, e) in zip(names, answers, strict=True)}
