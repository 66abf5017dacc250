"""`tokenproof rejudge` and `tokenproof export`: what is made from a run's ledger, without a request.

Part of the command: it may print. The work is in `runners`, imported inside the functions.
"""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import report
from harness.cli_base import HabitsOption, JsonOption, RayOption, clean_ends, habits_text, judging
from harness.errors import SetupError
from harness.flow import Kit
from harness.settings import settings
from harness.store import path_trouble

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run file, or the run's output folder.")]
UnverifiedOption = Annotated[
    bool,
    typer.Option(
        "--allow-unverified-prompt",
        help="Also take answers whose prompt nobody verified; each such row says so.",
    ),
]
RunFileArgument = Annotated[str, typer.Argument(metavar="RUN.TOML", help="The run file.")]
ScoreboardOption = Annotated[
    str | None,
    typer.Option("--from-scoreboard", metavar="FILE", help="The provider block that `tokenproof providers` wrote."),
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where to call (TOKENPROOF_BASE_URL).")
]
LayoutOption = Annotated[str, typer.Option("--layout", metavar="NAME", help="samples, or specforge.")]
OutOption = Annotated[
    str | None, typer.Option("--out", metavar="FILE", help="Where to write; NAME.jsonl in the output folder.")
]
WorkersOption = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="With --ray: processes that judge.")]


def rejudge(
    run: RunArgument,
    allow_unverified_prompt: UnverifiedOption = False,
    habits: HabitsOption = None,
    ray: RayOption = None,
    workers: WorkersOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Judge every raw answer of a run again, without a request, and write its samples and summary anew.

    All verdicts change or none does: a run that is broken off leaves the ledger as it was. What let an answer be asked
    for stays with it; the hashes of code, vocabulary and habits become today's.

    --ray judges on the machines of a cluster, --workers processes at a time; the ledger stays here, and the verdicts
    are the same bytes. Every machine needs this very tokenproof, and the file of TOKENPROOF_VOCAB at the same path. A
    worker that dies is replaced, and what it had is judged again.

    \b
    exit code 0  done
              2  wrong call, no such ledger, a run is using it, or no such cluster

    \b
    examples:
      tokenproof rejudge run.toml
      tokenproof rejudge runs/one --habits new.toml --json | jq .changes
      tokenproof rejudge run.toml --ray local --workers 8
      tokenproof rejudge run.toml --ray 10.0.0.1:6379 --workers 200
    """
    with clean_ends():
        if workers != 1 and not ray:
            raise SetupError("--workers is of a cluster: add --ray, or leave it out")
        out = out_folder(run)
        kit = judging(None, None, False, habits).kit
        with report.Progress(sys.stderr.isatty(), what="answers judged") as tick:
            changes = _changes(out, kit, habits, ray, workers, tick)
        told = write_samples(out, kit, allow_unverified_prompt)
        rows = [{"was": was, "is": now, "answers": n} for (was, now), n in sorted(changes.items())]
        if as_json:
            print(json.dumps({"changes": rows, "summary": told}, ensure_ascii=False))
            return
        for row in rows:
            print(f"{row['was']:<10} -> {row['is']:<10} {row['answers']:>8,}")
        print_summary(told)


def _changes(
    out: Path, kit: Kit, habits: str | None, ray: str | None, workers: int, tick: Callable[[], None]
) -> Counter[tuple[str, str]]:
    from harness.hashes import hashes
    from runners.rejudge import rejudge as judge_again

    path, now = ledger_path(out), hashes(kit.habits)
    if not ray:
        return judge_again(path, kit, now, tick)
    from runners.judging import Recipe
    from runners.scale import Cluster
    from runners.scale_rejudge import rejudge_on_cluster
    from runners.verdicts import Facts

    source = settings().vocab
    vocab = str(Path(source).absolute()) if source else None  # a worker may stand in another folder
    recipe = Recipe(habits_text(habits or settings().habits), vocab, Facts(**asdict(now)))
    return rejudge_on_cluster(path, recipe, Cluster(ray, workers), tick)


def export(
    run: RunArgument,
    layout: LayoutOption = "samples",
    out: OutOption = None,
    allow_unverified_prompt: UnverifiedOption = False,
    habits: HabitsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run's samples from its ledger, without a request.

    `samples`: samples.parquet, samples.jsonl, rejected.parquet and summary.json in the output folder, the same bytes
    each time. `specforge`: the conversation JSONL that SpecForge reads, a row a generated turn with its reasoning, for
    training on the last turn only; cut answers are left out, since a template would end them as if the model had.

    Prompts are rendered anew, so that code, vocabulary, formats and habits must be those that judged: else it is
    refused, both hashes named, until `tokenproof rejudge` has judged anew. A ledger whose bytes changed is refused too.

    \b
    exit code 0  done
              1  there is no sample
              2  wrong call, no or a damaged ledger, an answer that is not judged yet or was by other code or habits

    \b
    examples:
      tokenproof export run.toml
      tokenproof export runs/one --layout specforge --out train.jsonl
    """
    with clean_ends():
        folder = out_folder(run)
        kit = judging(None, None, False, habits).kit
        if layout == "samples":
            if out is not None:
                raise SetupError("--layout samples writes into the output folder; leave --out out")
            told = write_samples(folder, kit, allow_unverified_prompt)
            print(json.dumps(told, ensure_ascii=False)) if as_json else print_summary(told)
            raise typer.Exit(0 if told["samples"] else 1)
        path = Path(out) if out else folder / f"{layout}.jsonl"
        _refuse_out(path, folder, Path(run))
        raise typer.Exit(_layout(folder, kit, layout, path, allow_unverified_prompt, as_json))


def _refuse_out(out: Path, folder: Path, run: Path) -> None:
    """Before any work: no file of the run is overwritten."""
    from runners.output import is_own
    from runners.runfile import data_of

    if (trouble := path_trouble(out)) is not None:
        raise SetupError(f"--out {out!s:.200}: {trouble}")
    read = () if run.is_dir() else (run, *data_of(run))
    if is_own(out, folder) or out.resolve() in (path.resolve() for path in read):
        raise SetupError(f"{out} is a file of this run; choose another --out")


def _layout(folder: Path, kit: Kit, layout: str, path: Path, allow: bool, as_json: bool) -> int:
    from harness.hashes import hashes
    from runners.layouts import export as export_layout
    from runners.ledger import read_ledger

    used = hashes(kit.habits)
    with read_ledger(ledger_path(folder)) as ledger, report.Progress(sys.stderr.isatty()) as tick:
        n = export_layout(ledger, kit, layout, path, used=used, allow_unverified_prompt=allow, tick=tick)
    if as_json:
        print(json.dumps({"path": str(path), **n}))
    else:
        left = ", ".join(f"{count:,} {why}" for why, count in sorted(n.items()) if why != "written")
        print(report.printable(f"{path}: {n['written']:,} rows" + (f"; left out: {left}" if left else "")))
    return 0 if n["written"] else 1


def out_folder(run: str) -> Path:
    """The output folder of a run file, or the folder itself.

    Raises:
        SetupError: It is neither.
    """
    from runners.runfile import out_of

    path = Path(run)
    if (trouble := path_trouble(path)) is not None:
        raise SetupError(f"{run:.200}: {trouble}; expected a run file or the output folder of a run")
    if path.is_dir():
        return path
    if not path.is_file():
        raise SetupError(f"{run}: no such file or folder; expected a run file or the output folder of a run")
    return out_of(path)


def ledger_path(out: Path) -> Path:
    """The ledger of an output folder."""
    from runners.output import LEDGER

    return out / LEDGER


def write_samples(out: Path, kit: Kit, allow_unverified_prompt: bool) -> dict[str, Any]:
    """Samples and summary of an output folder, written from its ledger; gives the summary."""
    from harness.hashes import hashes
    from runners.ledger import read_ledger
    from runners.output import write_output

    used = hashes(kit.habits)
    with read_ledger(ledger_path(out)) as ledger, report.Progress(sys.stderr.isatty(), what="rows written") as tick:
        return write_output(ledger, kit, out, used=used, allow_unverified_prompt=allow_unverified_prompt, tick=tick)


def print_summary(told: dict[str, Any]) -> None:
    """The end table of a run, the ids against the bill, and the dollars."""
    from runners.summary import HEADERS, amended_lines, bill_lines, narrow, table

    rows = [tuple(map(report.printable, row)) for row in table(told)]
    widths = [max(map(len, column)) for column in zip(HEADERS, *rows, strict=True)]
    if sys.stdout.isatty() and sum(widths) + 3 * len(widths) + 1 > shutil.get_terminal_size().columns:
        print(*narrow(rows), sep="\n")
    elif rows and sys.stdout.isatty():
        sys.stdout.flush()
        report.rich_table(HEADERS, rows)
    elif rows:
        print(*report.plain_table(HEADERS, rows), sep="\n")
    print(*map(report.printable, [*bill_lines(told["bill"]), *amended_lines(told)]), sep="\n")
    if told["dropped_why"]:
        print(report.printable(f"dropped {told['dropped_why']}"))
    print(f"{told['samples']:,} samples, ${told['spent_usd']:.4f} spent, {told['open']:,} prompts open")
