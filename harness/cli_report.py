"""`tokenproof report`: one HTML page of what was judged: scores, drift, habits, and why answers were rejected.

Part of the command: it may print. Knows nothing of how a page is made.
"""

import json
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import __version__, report, store
from harness.cli_base import (
    BlindOption,
    HabitsOption,
    Judging,
    ModelOption,
    Paths,
    ProviderOption,
    bug,
    clean_ends,
    complain,
    judging,
    may_replace,
)
from harness.cli_drift import place_of, recordings, unpaired
from harness.cli_providers import provenance_of, seen_of
from harness.errors import SetupError
from harness.report import EXIT_OK, EXIT_UNUSABLE
from harness.settings import settings
from harness.types import Exchange, Verdict

if TYPE_CHECKING:
    from harness.drift import Comparison
    from harness.page import Page
    from harness.page_answers import Rejections
    from harness.scoreboard import Seen
    from harness.traces import Trace
    from harness.transport import Target

OutOption = Annotated[str, typer.Option("--out", metavar="FILE", help="The page; only a page is ever overwritten.")]
OldOption = Annotated[
    str | None,
    typer.Option("--old", metavar="OLD", help="Also what changed since these: file, folder, REV or REV:FOLDER."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="Rejected answers shown of each provider and finding.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Say what was written as one JSON object.")]


def report_page(
    paths: Paths,
    out: OutOption = "report.html",
    old: OldOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
    model: ModelOption = None,
    provider: ProviderOption = None,
    blind: BlindOption = False,
    habits: HabitsOption = None,
) -> None:
    """Write what was judged as one HTML page that needs nothing else: no script, no network, no other file.

    It has the scoreboard of `tokenproof providers`, the habits known of the providers seen, with --old also the drift,
    and of rejected answers the tokens in colour, the readings that were tried, and where witness and reading part. Of
    many answers it shows some of each kind and says how many were left out. Ages and evidence hold for this moment and
    for the place that TOKENPROOF_BASE_URL names.

    \b
    exit code 0  the page is written, whatever the verdicts are (`check` tells those)
              2  wrong call, no answer at all (then nothing is written), or an input that is no answer (it is named)

    \b
    examples:
      tokenproof report cassettes
      tokenproof report answers.jsonl.gz --habits habits.toml --limit 5 --out answers.html
      tokenproof report cassettes --old HEAD~1 --out drift.html
      tokenproof report answers.jsonl --json | jq .left_out
    """
    with clean_ends():
        _refuse_out(out, paths)
        if old is not None and len(paths) != 1:
            raise SetupError(
                f"--old is compared with one PATH, {len(paths)} were given; name the folder of all of them"
            )
        judge_of = judging(model, provider, blind, habits)
        found = _Run(judge_of, limit, old)
        page = _page(paths, found)
        from harness.page import html

        text = html(page).encode()
        store.write_atomic(out, text)
        _tell(out, len(text), page, as_json)
        raise typer.Exit(EXIT_UNUSABLE if page.n_unusable or found.n_bad_old else EXIT_OK)


def _refuse_out(out: str, paths: list[str]) -> None:
    """Before any work: nothing but a page is ever overwritten."""
    from harness.page import is_page

    target = Path(out).resolve()
    if target in (Path(p).resolve() for p in paths):
        raise SetupError(f"{out} is one of the files to judge; choose another --out")
    may_replace(out, "--out", "page of `tokenproof report`", is_page)


@dataclass(slots=True)
class _Run:
    """What one pass over the answers gathers."""

    judge_of: Judging
    limit: int
    old: str | None
    verdicts: Counter[str] = field(default_factory=Counter)
    providers: set[str] = field(default_factory=set)
    unusable: list[str] = field(default_factory=list)
    n_unusable: int = 0
    n_bad_old: int = 0


def _page(paths: list[str], run: _Run) -> "Page":
    from harness.evidence_report import score_table  # late: no other command needs them
    from harness.page import Page
    from harness.page_answers import Rejections
    from harness.scoreboard import scoreboard
    from harness.transport import target

    kit = run.judge_of.kit
    rejected = Rejections(kit.vocab, run.limit)
    place = target(settings().base_url, None, (), offline=True)
    scores = scoreboard(_judged(paths, run, place, rejected))
    if not scores:
        raise SetupError(f"no answer in {', '.join(paths[:5])}; nothing is written")
    compared = None if run.old is None else (run.old, _compared(run.old, paths[0], run))
    return Page(
        version=__version__,
        style=(pkgutil.get_data("harness", "page.css") or b"").decode(),
        sources=paths,
        habits_sha256=kit.habits.sha256,
        verdicts=run.verdicts,
        scores=score_table(scores, kit.habits, datetime.now(UTC)),
        habits=[h for h in kit.habits.lines if h.provider in run.providers],
        compared=compared,
        rejected=rejected,
        unusable=run.unusable,
        n_unusable=run.n_unusable,
    )


def _judged(paths: list[str], run: _Run, place: "Target", rejected: "Rejections") -> "Iterator[Seen]":
    from harness.page import MAX_ROWS

    provenance = cache(provenance_of)
    with report.Progress(sys.stderr.isatty()) as tick:
        for entry in store.read(paths):
            tick()
            name, found = run.judge_of.judged(entry)
            exchange = entry.exchange
            if exchange is None or not isinstance(found, Verdict):
                trouble = f"{entry.place}: {entry.trouble or getattr(found, 'trouble', '')}"
                complain(trouble)
                run.n_unusable += 1
                run.unusable += [trouble] if len(run.unusable) < MAX_ROWS else []
                continue
            run.verdicts[found.name] += 1
            run.providers |= {found.provider} if found.provider else set()
            if found.name == "rejected":
                rejected.add(name, found, partial(_traced, exchange, found, run.judge_of))
            yield seen_of(exchange, found, provenance(entry.path), place)


def _traced(exchange: Exchange, verdict: Verdict, judge_of: Judging) -> "Trace":
    """What there is to show; an answer that cannot be shown never ends the rest."""
    from harness.traces import Trace, trace
    from harness.verdict import NOTHING

    try:
        return trace(exchange, verdict, judge_of.kit, judge_of.model, judge_of.provider, judge_of.blind)
    except Exception as error:
        return Trace(NOTHING, (), (), bug(error))


def _compared(old: str, new: str, run: _Run) -> "Comparison":
    from harness.drift import compare

    with ExitStack() as places:
        before, run.n_bad_old = recordings(place_of(old, places))
        now, _ = recordings(place_of(new, places), say=lambda _: None)  # named when they were judged
        found = compare(before, now, run.judge_of.kit)
    if not found.n_pairs:
        raise unpaired(old, new, found)
    return found


def _tell(out: str, n_bytes: int, page: "Page", as_json: bool) -> None:
    n_rejected, n_shown = page.rejected.seen.total(), page.rejected.n_shown
    drifts = None if page.compared is None else len(page.compared[1].drifts)
    told = {
        "out": out,
        "bytes": n_bytes,
        "verdicts": dict(page.verdicts),
        "unusable": page.n_unusable,
        "rejected": n_rejected,
        "shown": n_shown,
        "left_out": n_rejected - n_shown,
        "drifts": drifts,
    }
    if as_json:
        print(json.dumps(told))
        return
    more = "" if drifts is None else f", {drifts} changes"
    left = f", {n_rejected - n_shown} left out" if n_rejected > n_shown else ""
    bad = f"; inputs that are no answers, named on stderr: {page.n_unusable}" if page.n_unusable else ""
    total = sum(page.verdicts.values())
    print(report.printable(f"{out}: {n_rejected} of {total} answers rejected, {n_shown} shown{left}{more}{bad}"))
