"""`tokenproof record`: scenarios asked of pinned providers, a cassette an answer; what changed where one was replaced.

Part of the command: it may print. Knows nothing of HTTP, YAML or prices.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import report
from harness.cli_base import KeyHostOption, clean_ends, finite, judging
from harness.errors import SetupError
from harness.settings import settings
from harness.types import Exchange

if TYPE_CHECKING:
    from harness.catalog import Endpoint
    from harness.record import Job, Plan, Row
    from harness.scenarios import Scenario, Scenarios
    from harness.transport import Transport

MAX_SCENARIOS_BYTES = 4 << 20
PinOption = Annotated[
    list[str], typer.Option("--provider", metavar="P", help="A slug or tag, such as siliconflow/int4; again for more.")
]
BudgetOption = Annotated[
    str, typer.Option("--budget", metavar="USD", help="Never send what could cost more than this.")
]
ScenarioOption = Annotated[
    list[str] | None, typer.Option("--scenario", metavar="NAME", help="This one only; again for more.")
]
FileOption = Annotated[str, typer.Option("--scenarios", metavar="FILE", help="What is asked.")]
OutOption = Annotated[str, typer.Option("--out", metavar="FOLDER", help="Where cassettes stand.")]
ModelOption = Annotated[str | None, typer.Option("--model", metavar="M", help="Another model than the file names.")]
QuantizationOption = Annotated[
    list[str] | None, typer.Option("--quantization", metavar="Q", help="Endpoints of this one only, such as int4.")
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="In place of OpenRouter's (TOKENPROOF_BASE_URL).")
]
RewriteOption = Annotated[bool, typer.Option("--rewrite", help="Record again what exists, and say what changed.")]
ErrorsOption = Annotated[bool, typer.Option("--keep-errors", help="Write refusals as cassettes too.")]
DryOption = Annotated[
    bool, typer.Option("--dry-run", help="Tell what would be asked and its highest price; ask nothing.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", min=0.1, help="Longest silence, in seconds.", callback=finite)
]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a cassette, and nothing else.")]


def record(
    provider: PinOption,
    budget: BudgetOption,
    scenario: ScenarioOption = None,
    scenarios: FileOption = "cassettes/scenarios.toml",
    out: OutOption = "cassettes",
    model: ModelOption = None,
    quantization: QuantizationOption = None,
    base_url: BaseUrlOption = None,
    allow_host: KeyHostOption = None,
    rewrite: RewriteOption = False,
    keep_errors: ErrorsOption = False,
    dry_run: DryOption = False,
    timeout: TimeoutOption = 600.0,
    as_json: JsonLines = False,
) -> None:
    """Ask scenarios of pinned providers and write each answer as a cassette: OUT/PROVIDER/SCENARIO.yaml.

    A provider is pinned (`only`, no fallbacks, its quantization, all parameters required), and an answer of any other
    is not written. Prices are read first; the highest price of all is told before anything is sent, and a request that
    could break the budget is never sent. Keys, cookies and ids of users and organisations are removed before writing.

    What exists is kept, so that a run which was broken off is taken up by the same command; with --rewrite it is
    recorded again, and what the provider changed since is told. Ctrl-C leaves whole cassettes. The key is read from
    OPENROUTER_API_KEY and sent to OpenRouter, to loopback or to --allow-host, and nowhere else.

    \b
    exit code 0  every cassette stands
              1  one does not: refused, failed, unpaid, or one that exists asks something else
              2  wrong call, no key, no such provider or scenario, or nobody answers
            130  Ctrl-C

    \b
    examples:
      tokenproof record --provider siliconflow/int4 --provider novita --budget 0.50
      tokenproof record --provider chutes --budget 0 --dry-run
      tokenproof record --provider chutes --scenario hello --budget 0.01 --rewrite
      tokenproof record --provider novita --budget 1 --base-url http://127.0.0.1:8000/api/v1 --out /dev/shm/c --json
    """
    import asyncio  # late, as all that follows: no other command should pay for what recording needs

    from harness.spending import budget_of
    from harness.transport import target

    with clean_ends():
        cap, listed = budget_of(budget), read_scenarios(scenarios)
        goal = target(base_url or settings().base_url, settings().api_key, allow_host or ())
        from harness.record import Plan

        plan = Plan(goal, model or listed.model, Path(out), lambda: datetime.now(UTC), rewrite, keep_errors, timeout)
        picked = listed.picked(scenario or ())
        ask = _Ask(tuple(provider), tuple(quantization or ()), picked, cap, dry_run, as_json)
        raise typer.Exit(asyncio.run(_run(plan, ask)))


@dataclass(frozen=True, slots=True)
class _Ask:
    """What was typed, beside the plan."""

    pins: Sequence[str]
    quantizations: Sequence[str]
    scenarios: "Sequence[Scenario]"
    budget: Decimal
    dry_run: bool
    as_json: bool


def read_scenarios(path: str) -> "Scenarios":
    """The scenarios of a file; SetupError, with the path, where it is none."""
    from harness.scenarios import scenarios_of

    text = _read(path)
    try:
        return scenarios_of(text)
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from error


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SCENARIOS_BYTES + 1)
        if len(data) > MAX_SCENARIOS_BYTES:
            raise SetupError(f"{path}: more than {MAX_SCENARIOS_BYTES >> 20} MiB; expected a file of scenarios")
        return data.decode()
    except OSError as error:
        said = error.strerror or error
        raise SetupError(f"{path}: cannot be read: {said}; expected a file of scenarios (--scenarios)") from error
    except UnicodeDecodeError as error:
        raise SetupError(f"{path}: not UTF-8 text; expected a file of scenarios") from error


async def _run(plan: "Plan", ask: _Ask) -> int:
    from harness.catalog import pinned
    from harness.client import HttpxTransport
    from harness.record import GOOD, Job, bound, offers, to_ask
    from harness.spending import usd

    transport = HttpxTransport(plan.target)
    try:
        endpoints = pinned(ask.pins, await offers(transport, plan.model), ask.quantizations)
        _check_folders(endpoints)
        jobs = [Job(scenario, endpoint) for endpoint in endpoints for scenario in ask.scenarios]
        left = to_ask(plan, jobs)
        most = bound(plan, left)
        said = f"{len(left)} of {len(jobs)} cassettes to record, at most ${usd(most)}, budget ${usd(ask.budget)}"
        print(said, file=sys.stderr if ask.as_json else sys.stdout, flush=True)
        if ask.dry_run:
            return report.EXIT_OK
        rows = await _rows(plan, ask, jobs, transport)
    finally:
        await transport.close()
    _tell_drift([row for row in rows if row.before], ask.as_json)
    return report.EXIT_OK if {row.status for row in rows} <= GOOD else report.EXIT_REJECTED


def _check_folders(endpoints: "Sequence[Endpoint]") -> None:
    tags: dict[str, str] = {}
    for endpoint in endpoints:
        other = tags.setdefault(endpoint.slug, endpoint.tag)
        if other != endpoint.tag:
            raise SetupError(
                f"{other} and {endpoint.tag} would share a folder; pin one of them, or add --quantization, "
                "and record the other with another --out"
            )


async def _rows(plan: "Plan", ask: _Ask, jobs: "Sequence[Job]", transport: "Transport") -> "list[Row]":
    from harness.record import record as recorded
    from harness.spending import Meter, usd

    rows: list[Row] = []
    meter = Meter(ask.budget)
    try:
        async for row in recorded(plan, jobs, transport, meter):
            rows.append(row)
            _print_row(row, ask.as_json)
    finally:  # after Ctrl-C too: what is on its way may be billed
        counts = Counter(row.status for row in rows)
        said = ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) or "nothing done"
        print(f"{said}; cost ${usd(meter.committed)}", file=sys.stderr if ask.as_json else sys.stdout, flush=True)
    return rows


def _print_row(row: "Row", as_json: bool) -> None:
    from harness.record import row_json

    if as_json:
        print(row_json(row), flush=True)
    else:
        said = f"{row.status:<11} {row.name}" + (f": {row.reason}" if row.reason else "")
        print(report.printable(said), flush=True)


def _tell_drift(replaced: "Sequence[Row]", as_json: bool) -> None:
    """What the provider changed since the cassettes that were replaced; on stderr where stdout is for a machine."""
    if not replaced:
        return
    from harness.cassette import read_cassette
    from harness.drift import compare
    from harness.evidence_report import drift_lines

    def exchanges(texts: dict[str, bytes]) -> dict[str, Exchange]:
        entries = {name: next(read_cassette(name, text)) for name, text in texts.items()}
        return {name: entry.exchange for name, entry in entries.items() if entry.exchange}

    old = exchanges({row.name: row.before for row in replaced})
    new = exchanges({row.name: Path(row.path).read_bytes() for row in replaced})
    found = compare(old, new, judging(None, None, False, None).kit)
    print(*drift_lines(found), sep="\n", file=sys.stderr if as_json else sys.stdout)
