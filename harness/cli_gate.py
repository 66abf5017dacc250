"""`tokenproof gate`: the ticket that opens a paid run, or every reason why there is none.

Part of the command: it may print. Knows nothing of how anything is found out.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import report, store
from harness.cli_base import (
    HabitsOption,
    JsonOption,
    MeantHostOption,
    RunUrlOption,
    clean_ends,
    complain,
    finite,
    holds,
    judging,
    may_replace,
)
from harness.errors import SetupError
from harness.flow import Kit
from harness.report import EXIT_OK, EXIT_REJECTED
from harness.settings import settings

if TYPE_CHECKING:
    from harness.evidence import Filed
    from harness.gate import Ask, Checked, Subject
    from harness.proof import Wanted
    from harness.scenarios import Scenario
    from harness.ticket import Ticket
    from harness.transport import Target

DAY = timedelta(days=1)
SCENARIOS = Path("cassettes") / "scenarios.toml"
PROBED = Path("build") / "gate"
ModelOption = Annotated[str, typer.Option("--model", metavar="M", help="As requests name it: moonshotai/kimi-k2.5.")]
ProvidersOption = Annotated[
    list[str], typer.Option("--provider", metavar="P", help="A tag or slug (siliconflow/int4); again for each more.")
]
TicketOption = Annotated[str, typer.Option("--ticket", metavar="PATH", help="Where the ticket goes.")]
CassettesOption = Annotated[
    str | None,
    typer.Option("--cassettes", metavar="DIR", help="Recordings; the checkout's own `cassettes` if not given."),
]
MaxAgeOption = Annotated[
    float,
    typer.Option(
        "--max-age",
        metavar="DAYS",
        min=0.0,
        max=365.0,
        help="Older recordings prove nothing, and the ticket ends then.",
        callback=finite,
    ),
]
MinOption = Annotated[
    float,
    typer.Option(
        "--min-verified", metavar="SHARE", min=0.0, max=1.0, help="Of a provider's recorded answers.", callback=finite
    ),
]
LiveOption = Annotated[bool, typer.Option("--live", help="Ask each provider a few scenarios now; needs --budget.")]
BudgetOption = Annotated[
    str | None, typer.Option("--budget", metavar="USD", help="With --live: never send what could cost more than this.")
]
ProbeOption = Annotated[
    list[str] | None, typer.Option("--probe", metavar="NAME", help="With --live: ask this scenario; again for more.")
]
ScenariosOption = Annotated[
    str | None, typer.Option("--scenarios", metavar="FILE", help="With --live: what the probes are taken from.")
]
JunitOption = Annotated[str | None, typer.Option("--junit", metavar="FILE", help="pytest's own JUnit XML.")]
ReportOption = Annotated[
    str | None, typer.Option("--report", metavar="FILE", help="The JSON of --json, in a file too.")
]


def gate(
    model: ModelOption,
    provider: ProvidersOption,
    ticket: TicketOption = "gate.json",
    cassettes: CassettesOption = None,
    max_age: MaxAgeOption = 7.0,
    min_verified: MinOption = 0.5,
    base_url: RunUrlOption = None,
    allow_host: MeantHostOption = None,
    habits: HabitsOption = None,
    live: LiveOption = False,
    budget: BudgetOption = None,
    probe: ProbeOption = None,
    scenarios: ScenariosOption = None,
    junit: JunitOption = None,
    report_to: ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the ticket without which no paid run starts, or say in a line each why there is none.

    In a clean checkout of tokenproof, the required tests (tests/required.txt) are run, the kill rate of `make mutants`
    must be of the same content, and recordings of each provider, made at this base URL, must verify. The ticket opens
    runs of this model, at this URL, at these providers, with this code, vocabulary, formats and habits. It expires when
    its oldest recording is older than --max-age. Where there is a reason against it, an older ticket at PATH is taken
    away too.

    With --live a few scenarios are asked of each provider now, once nothing else stands against the ticket. Their
    answers are kept as cassettes below build/gate and are evidence like the others; and what a provider has changed
    since its cassettes were recorded is a reason against the ticket. The key is read from OPENROUTER_API_KEY.

    \b
    exit code 0  the ticket is written
              1  there is none, for the reasons told
              2  wrong call, or no checkout

    \b
    examples:
      tokenproof gate --model moonshotai/kimi-k2.5 --provider siliconflow/int4 --provider chutes/int4
      tokenproof gate --model moonshotai/kimi-k2.5 --provider novita --max-age 2 --json | jq -r '.reasons[]'
      tokenproof gate --model moonshotai/kimi-k2.5 --provider novita/int4 --live --budget 0.10
      tokenproof gate --model moonshotai/kimi-k2.5 --provider chutes --junit junit.xml --report gate-report.json
    """
    with clean_ends():
        from harness.gate import checkout_root  # late: no other command needs any of it

        root = checkout_root()
        _may_replace(ticket)
        may_replace(junit, "--junit", "JUnit report", holds(b"<testsuite"))
        may_replace(report_to, "--report", "report of `tokenproof gate`", holds(b'"ticket_id"'))
        if live != (budget is not None):
            raise SetupError("--live and --budget USD belong together: what is asked now costs money")
        place = _target(base_url, allow_host, live)
        wanted = _wanted(place, model, max_age, min_verified)
        probes = _live(probe or [], scenarios or str(root / SCENARIOS), budget) if budget is not None else None
        folder = Path(cassettes) if cassettes else root / "cassettes"
        found, xml = _checked(root, wanted, provider, folder, habits or settings().habits, probes)
        if junit is not None:
            store.write_atomic(junit, xml)
        raise typer.Exit(_end(found, ticket, report_to, as_json))


@dataclass(frozen=True, slots=True)
class _Live:
    """What is to be asked now, and what it may cost in USD."""

    scenarios: "tuple[Scenario, ...]"
    budget: Decimal


def _live(names: list[str], file: str, budget: str) -> _Live:
    from harness.cli_record import read_scenarios
    from harness.fresh import probes
    from harness.spending import budget_of

    return _Live(probes(read_scenarios(file), names), budget_of(budget))


def _target(base_url: str | None, allow_host: list[str] | None, live: bool) -> "Target":
    from harness.transport import target

    key = settings().api_key if live else None
    return target(base_url or settings().base_url, key, allow_host or (), offline=not live)


def _wanted(place: "Target", model: str, max_age: float, min_verified: float) -> "Wanted":
    from harness.proof import Wanted

    return Wanted(place, model, datetime.now(UTC), max_age * DAY, min_verified)


def _checked(
    root: Path, wanted: "Wanted", pins: list[str], folder: Path, habits: str | None, live: _Live | None
) -> "tuple[Checked, bytes]":
    """What the gate found, and pytest's XML."""
    from harness.evidence import read_cassettes
    from harness.flow import judge
    from harness.gate import Subject, Tools, check
    from harness.hashes import hashes

    subject = Subject(root, tuple(dict.fromkeys(pins)), read_cassettes(folder, root), habits)
    with tempfile.TemporaryDirectory() as spare:
        xml, ask = Path(spare) / "junit.xml", None
        try:
            kit = judging(None, None, False, habits).kit
            tools = Tools(lambda exchange: judge(exchange, kit), hashes(kit.habits))
            ask = _asker(subject, wanted, live, kit) if live else None
        except SetupError as error:  # another vocabulary, or habits that cannot be read
            tools = Tools(trouble=str(error))
        complain(f"runs the required tests of {root}; that takes about half a minute")
        found = check(subject, wanted, tools, lambda: datetime.now(UTC), xml, ask)
        return found, xml.read_bytes() if xml.exists() else b""


def _asker(subject: "Subject", wanted: "Wanted", live: _Live, kit: Kit) -> "Ask":
    """Asks the probes when it is called."""
    from harness import fresh
    from harness.client import HttpxTransport
    from harness.evidence import read_cassettes, speaks
    from harness.record import Plan

    folder = subject.root / PROBED / f"{wanted.now:%Y%m%dT%H%M%SZ}"

    async def asked() -> fresh.Fresh:
        transport = HttpxTransport(wanted.target)
        try:
            plan = Plan(wanted.target, wanted.model, folder, lambda: datetime.now(UTC), rewrite=True)
            return await fresh.ask(plan, transport, subject.pins, live.scenarios, live.budget)
        finally:
            await transport.close()

    known = [f for f in subject.filed if speaks(f.provenance, wanted.target)]

    def ask() -> "tuple[tuple[Filed, ...], tuple[str, ...]]":
        complain(f"asks {len(live.scenarios)} scenarios of {len(subject.pins)} providers at {wanted.target.base_url}")
        import asyncio  # late: no other command should pay for it

        found = asyncio.run(asked())
        filed = read_cassettes(folder, subject.root)
        complain(fresh.told(found, len(filed)))
        return filed, (*found.reasons, *fresh.changed(known, filed, kit))

    return ask


def _may_replace(path: str) -> None:
    """Nothing but a ticket is ever overwritten."""
    if Path(path).exists():
        store.file_mode(path)  # a pipe would wait for somebody to write
        try:
            store.read_ticket(path)
        except SetupError as error:
            raise SetupError(f"{error}; it is not overwritten: choose another --ticket") from error


def _end(found: "Checked", path: str, report_to: str | None, as_json: bool) -> int:
    """Writes the ticket or takes an old one away, tells what was found, and gives the exit code."""
    from harness.ticket import dump_ticket

    if found.ticket is not None:
        store.write_atomic(path, dump_ticket(found.ticket))
    else:
        Path(path).unlink(missing_ok=True)
    told = _object(found, path)
    if report_to is not None:
        store.write_atomic(report_to, json.dumps(told, indent=1).encode() + b"\n")
    if as_json:
        print(json.dumps(told))
    elif found.ticket is None:
        print(*(report.printable(reason) for reason in found.reasons), sep="\n")
        print(f"no ticket: {len(found.reasons)} reasons")
    else:
        _print_ticket(found.ticket, path)
    return EXIT_REJECTED if found.ticket is None else EXIT_OK


def _print_ticket(ticket: "Ticket", path: str) -> None:
    providers = ", ".join(f"{p.slug} = {p.name} ({p.quantization})" for p in ticket.providers)
    print(report.printable(f"{path}: opens runs of {ticket.model} at {ticket.base_url}: {providers}"))
    print(f"until {ticket.expires_at}, with this code, vocabulary, formats and habits; ticket {ticket.ticket_id[:12]}")
    n_passed = len(ticket.required)
    print(f"{n_passed} required tests passed, kill rate {ticket.kill_rate:.0%}, {len(ticket.cassettes)} cassettes")


def _object(found: "Checked", path: str) -> dict[str, Any]:
    return {
        "ticket": path if found.ticket else None,
        "ticket_id": found.ticket.ticket_id if found.ticket else None,
        "expires_at": found.ticket.expires_at if found.ticket else None,
        "reasons": list(found.reasons),
        "required": dict(found.ran.outcomes),
        "kill_rate": found.kill_rate,
        "providers": [
            {
                "pin": proof.pin,
                "provider": asdict(proof.provider) if proof.provider else None,
                "cassettes": [asdict(c) for c in proof.cassettes],
                "reasons": list(proof.reasons),
            }
            for proof in found.proofs
        ],
    }
