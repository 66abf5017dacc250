"""`tokenproof calibrate`: learn what providers do from answers, print it, and write a habits file.

Part of the command: it may print. Knows nothing of single answers.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import report, store
from harness.cli_base import HabitsOption, JsonOption, Paths, clean_ends, complain, habits_of, judging
from harness.errors import SetupError
from harness.flow import Kit
from harness.habits import Habit, Habits, dump_habits, load_habits
from harness.report import EXIT_UNUSABLE

if TYPE_CHECKING:
    from harness.learn import Evidence, Unknown

SHIPPED = Path(__file__).with_name("habits.toml")
HEADER = """What providers do to counts, ids, arguments and white space: one line a habit, as harness/habits.py tells.
evidence = "answers": learned by `tokenproof calibrate`; "table": a measured table of public answers; "engine": seen in
recordings of that engine with true ids. A line leaves out what is as usual: "answers", and 0 answers for or against."""

OutOption = Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write what was learned to this file.")]
UpdateOption = Annotated[bool, typer.Option("--update", help="Allow --out to be the file that ships with the package.")]


def calibrate(
    paths: Paths,
    out: OutOption = None,
    update: UpdateOption = False,
    as_json: JsonOption = False,
    habits: HabitsOption = None,
) -> None:
    """Learn each provider's habits from answers: what it bills, how it writes ids and arguments, what it strips.

    A trait is set when at least 5 answers speak for it and at least 90% of those that can speak agree, at the narrowest
    key that has them. What the evidence does not show stays unknown, and is printed with the reason. The file written
    keeps the lines of the habits file in use that were not learned from answers.

    \b
    exit code 0  done
              2  wrong call, or an input that is no answer (the rest is still used)

    \b
    examples:
      tokenproof calibrate answers.jsonl.gz
      tokenproof calibrate recorded/ --out habits.toml && tokenproof check new.jsonl --habits habits.toml
      tokenproof calibrate recorded/ --json | jq '.unknown[] | .provider'
    """
    from harness.learn import learn  # late: no other command needs it

    with clean_ends():
        _refuse_out(out, paths, update)
        kit = judging(None, None, False, habits).kit
        base = kit.habits
        found, n_used, n_bad = _gather(paths, kit)
        if not n_used:
            raise SetupError("no answer in the inputs: nothing was learned, and nothing is written")
        learned, unknown = learn(found, [h for h in base.lines if h.evidence != "answers"])
        written = _written(base, learned)
        if out is not None:
            store.write_atomic(out, written.encode())
        if as_json:
            print(json.dumps(_object(learned, unknown, n_used, n_bad, load_habits(written), out)))
        else:
            _print(learned, unknown, len(found), n_used, out)
        raise typer.Exit(EXIT_UNUSABLE if n_bad else 0)


def _refuse_out(out: str | None, paths: list[str], update: bool) -> None:
    """Nothing but a habits file is ever overwritten, and the shipped one only by --update."""
    if out is None:
        return
    target = Path(out).resolve()
    if target == SHIPPED.resolve() and not update:
        raise SetupError(
            f"{out} is the file that ships with the package; --update overwrites it, another --out does not"
        )
    if any(target == Path(p).resolve() for p in paths):
        raise SetupError(f"{out} is one of the files to learn from; choose another --out")
    if target.exists():
        if not target.is_file():
            raise SetupError(f"{out} is no regular file; choose another --out")
        habits_of(out)  # what is no habits file is not overwritten


def _gather(paths: list[str], kit: Kit) -> "tuple[list[Evidence], int, int]":
    """(evidence, answers that gave or could have given some, inputs that are no answers)."""
    from harness.calibrate import evidence

    found: list[Evidence] = []
    n_used = n_bad = 0
    with report.Progress(sys.stderr.isatty()) as tick:
        for entry in store.read(paths):
            tick()
            if entry.exchange is None:
                n_bad += 1
                complain(f"{entry.place}: {entry.trouble}")
                continue
            n_used += 1
            row = evidence(entry.exchange, kit)
            found += [row] if row is not None else []
    return found, n_used, n_bad


def _written(base: Habits, learned: Iterable[Habit]) -> str:
    kept = [h for h in base.lines if h.evidence != "answers"]
    return dump_habits(replace(base, lines=(*kept, *learned)), header=HEADER)


def _object(
    learned: list[Habit], unknown: "list[Unknown]", n_used: int, n_bad: int, new: Habits, out: str | None
) -> dict[str, Any]:
    rows = [
        {"provider": h.provider, "key": h.key, "trait": h.trait, "value": h.value, "for": h.n_for}
        | {"against": h.n_against, "first": h.first, "last": h.last}
        for h in learned
    ]
    return {
        "answers": n_used,
        "unusable": n_bad,
        "learned": rows,
        "unknown": [u._asdict() for u in unknown],
        "out": out,
        "habits_sha256": new.sha256,
    }


def _print(learned: list[Habit], unknown: "list[Unknown]", n_found: int, n_used: int, out: str | None) -> None:
    heads = ("provider", "key", "trait", "value", "for", "against", "answers of")
    rows = [
        (h.provider, h.key, h.trait, h.value, str(h.n_for), str(h.n_against), f"{h.first}..{h.last}") for h in learned
    ]
    print(*report.plain_table(heads, rows), sep="\n")
    print("", "stays unknown", *report.plain_table(("provider", "key", "trait", "why"), unknown), sep="\n")
    print(
        f"\n{len(learned)} traits learned from {n_found} of {n_used} answers" + (f", written to {out}" if out else "")
    )
