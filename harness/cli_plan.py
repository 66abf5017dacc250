"""`tokenproof plan`: what a run will take, before it is paid for.

Part of the command: it may print. The work is in `runners`, imported inside the functions.
"""

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import report
from harness.cli_base import INTERRUPTED, HabitsOption, JsonOption, KeyHostOption, clean_ends, complain, habits_of
from harness.cli_generate import TicketOption, UngatedOption, launched, refuse_both, run_it
from harness.cli_samples import BaseUrlOption, RunFileArgument, ScoreboardOption, ledger_path
from harness.errors import SetupError
from harness.settings import settings

if TYPE_CHECKING:
    from runners.bulk import Launch, Outlook
    from runners.plan import Measured, Plan, Range
    from runners.runfile import RunFile

FromOption = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="FOLDER", help="Output folder of an earlier run; again for more."),
]
ProbeOption = Annotated[
    int | None,
    typer.Option("--probe", metavar="N", min=1, help="Ask N prompts of the run now, and pay for them; they are kept."),
]
HEADERS = (
    "data set",
    "prompts",
    "prompt ids",
    "measured",
    "tokens p50",
    "tokens p95",
    "USD p50",
    "USD p95",
    "USD worst",
)


def plan(
    run: RunFileArgument,
    earlier: FromOption = None,
    probe: ProbeOption = None,
    ticket: TicketOption = None,
    ungated: UngatedOption = None,
    scoreboard: ScoreboardOption = None,
    base_url: BaseUrlOption = None,
    allow_host: KeyHostOption = None,
    habits: HabitsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a run will take: dollars, hours, tokens and disk, at the prices of today.

    Every prompt is read, rendered and checked first. The lengths of answers come from the run's own ledger, where it
    has begun, and from earlier runs; --probe asks a few of its prompts first, which is the beginning of the run itself
    (it needs its ticket, and nothing is paid twice). p95 is what 95 of 100 such runs stay below. Of a run that has
    begun the figures are of what is still open, held against what is left of the budget. Whatever `tokenproof generate`
    would refuse now is told as a reason: its ticket, prices above max_price, limits, habits. A whole run file:

    \b
      model = "moonshotai/kimi-k2.5"
      thinking = true
      max_tokens = 8192
      budget_usd = 100.0
      out = "runs/first"          # ledger, samples, summary; paths are relative to this file
      concurrency = 256           # 64
      ticket = "gate.json"        # of `tokenproof gate`
      base_url = "https://openrouter.ai/api/v1"
      [sampling]                  # temperature, top_p, top_k, min_p, seed, penalties, logprobs, top_logprobs
      temperature = 1.0
      [provider]                  # OpenRouter's block; or --from-scoreboard FILE
      only = ["siliconflow/int4"]
      quantizations = ["int4"]
      allow_fallbacks = false
      [quality]
      max_rejected = 0.05         # of the last `window` answers of a provider, before it is dropped
      window = 200
      [[data]]                    # JSONL (.gz) or Parquet: messages or prompt, perhaps id and tools
      path = "chat.jsonl"
      limit = 10000               # prompts
      tokens = 20_000_000         # completion tokens after which to stop
      ignore = ["source"]         # columns that say nothing of the prompt

    \b
    exit code 0  it fits the budget, the disk and the providers' limits
              1  it does not, or nothing is known of its lengths; the reasons are told
            130  interrupted; what the probe was answered is kept
              2  wrong call, or a fault in the run file or its data sets, each with its line

    \b
    examples:
      tokenproof plan run.toml
      tokenproof plan run.toml --probe 60
      tokenproof plan run.toml --from runs/small --json | jq .usd
    """
    from runners.runfile import load_run

    with clean_ends():
        refuse_both(ticket, ungated)
        loaded = load_run(run, base_url=base_url or settings().base_url, scoreboard=scoreboard, ticket=ticket)
        # first: a wrong --from is told before anything is asked; what the run has itself is read once, after the probe
        known = measured_in(map(Path, earlier or []), but=loaded.out)
        if probe is not None:
            _probe(loaded, probe, ungated, habits, allow_host or [])
        told = _planned(loaded, known, ungated, habits, allow_host or [])
        if as_json:
            print(json.dumps(_object(told), default=str))
        else:
            _print(told, loaded)
        raise typer.Exit(1 if told.against else 0)


def _probe(run: "RunFile", n: int, ungated: str | None, habits: str | None, allow_host: list[str]) -> None:
    """Ask the first prompts of each data set; what came is in the run's ledger."""
    from harness.transport import target
    from runners.live_view import said

    to = target(run.base_url, settings().api_key, allow_host)
    each = -(-n // len(run.data_sets))
    stop = run_it(launched(run, ungated, habits, 0), to, probe=each)
    if not stop.good:
        complain(f"the probe stopped: {said(stop)}")
    if stop.why == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _planned(
    run: "RunFile", known: "dict[str, list[Measured]]", ungated: str | None, habits: str | None, allow_host: list[str]
) -> "Plan":
    import asyncio  # late: no other command should pay for it

    from runners.plan import make_plan

    launch, against, notes = _launch(run, ungated, habits)
    seen = asyncio.run(_outlook(launch, allow_host))
    place = next(folder for folder in (run.out, *run.out.absolute().parents) if folder.is_dir())
    own = measured_in([run.out] if ledger_path(run.out).is_file() else [])
    measured = {name: own.get(name, []) + known.get(name, []) for name in {**own, **known}}
    beside = {"against": (*against, *seen.against), "notes": (*notes, *seen.notes)}
    free = shutil.disk_usage(place).free
    return make_plan(run, launch.surveyed, seen.endpoints, measured, free, Random(0), seen.begun, **beside)


def _launch(run: "RunFile", ungated: str | None, habits: str | None) -> "tuple[Launch, list[str], list[str]]":
    """The run, what would refuse its start here, and what should be known."""
    from harness.hashes import hashes
    from runners.admission import admit

    launch = launched(run, "a plan", habits, 0)
    if run.ticket is None and ungated is None:
        return launch, [], ["no ticket: `tokenproof generate` wants one of `tokenproof gate`, or --ungated"]
    try:
        mine = hashes(habits_of(habits or settings().habits))
        return replace(launch, ticket=admit(run, mine, datetime.now(UTC), ungated)[1]), [], []
    except SetupError as error:
        return launch, str(error).splitlines(), []


async def _outlook(launch: "Launch", allow_host: list[str]) -> "Outlook":
    """What `generate` would find now; asks for the price list alone."""
    from harness.client import HttpxTransport
    from harness.transport import target
    from runners.bulk import outlook

    transport = HttpxTransport(target(launch.run.base_url, settings().api_key, allow_host))
    try:
        return await outlook(launch, transport)
    finally:
        await transport.close()


def measured_in(folders: Iterable[Path], but: Path | None = None) -> "dict[str, list[Measured]]":
    """The answers of earlier runs, by data set: each ledger once, by whatever path, and that of `but` not."""
    from runners.ledger import read_ledger
    from runners.plan import measured_in as measured

    found: dict[str, list[Measured]] = {}
    seen = {_file(but)} if but else set()
    for folder in folders:
        with read_ledger(ledger_path(folder)) as ledger:
            if (file := _file(folder)) in seen:
                continue
            seen.add(file)
            for name, answers in measured(ledger).items():
                found.setdefault(name, []).extend(answers)
    return found


def _file(folder: Path) -> tuple[int, int] | None:
    """Which file the ledger of a folder is; None where there is none."""
    try:
        stat = ledger_path(folder).stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _object(told: "Plan") -> dict[str, Any]:
    return asdict(told) | {"fits": not told.against}


def _print(told: "Plan", run: "RunFile") -> None:
    from runners.live_view import duration
    from runners.plan import size

    rows = [
        (
            report.printable(one.name),
            f"{one.n_prompts:,}",
            f"{one.prompt_tokens:,}",
            f"{one.n_measured:,}" + (" of others" if one.borrowed else ""),
            *_pair(one.tokens, "{:,.0f}"),
            *_pair(one.usd, "{:.2f}"),
            f"{one.worst_usd:.2f}",
        )
        for one in told.sets
    ]
    print(*report.plain_table(HEADERS, rows), sep="\n")
    for name, found, form in (("tokens", told.tokens, "{:,.0f}"), ("USD", told.usd, "{:.2f}")):
        print(f"{name}: p50 {_pair(found, form)[0]}, p95 {_pair(found, form)[1]}")
    if told.spent_usd:
        print(
            f"already spent: ${told.spent_usd:.4f}; ${told.left_usd:.4f} are left, and this is for what is still open"
        )
    hours = told.hours
    spans = [duration(h * 3600) for h in (hours.p50, hours.p95)] if hours else ["unknown", "unknown"]
    print(f"time: p50 {spans[0]}, p95 {spans[1]}, with {run.concurrency} in flight")
    print(f"disk: p50 {size(told.disk_bytes.p50)}, p95 {size(told.disk_bytes.p95)}")
    price = told.price
    prices = [f"${float(p) * 1e6:.10g}" for p in (price.prompt, price.completion)]
    print(f"price of a million tokens: {prices[0]} in, {prices[1]} out")
    for note in told.notes:
        print(report.printable(f"note: {note}"))
    for reason in told.against:
        print(report.printable(f"does not fit: {reason}"))
    print("fits" if not told.against else "does not fit")


def _pair(found: "Range | None", form: str) -> tuple[str, str]:
    return (form.format(found.p50), form.format(found.p95)) if found else ("unknown", "unknown")
