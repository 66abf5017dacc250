"""`tokenproof gate`: the ticket that opens a paid run, or every reason why there is none.

Part of the command: it may print. Knows nothing of how anything is found out.
"""

import json
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import report, store
from harness.cli_base import HabitsOption, clean_ends, complain, judging
from harness.errors import SetupError
from harness.report import EXIT_OK, EXIT_REJECTED
from harness.settings import settings

if TYPE_CHECKING:
    from harness.gate import Checked
    from harness.proof import Wanted
    from harness.ticket import Ticket

DAY = timedelta(days=1)
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
        "--max-age", metavar="DAYS", min=0.0, help="Older recordings prove nothing, and the ticket ends then."
    ),
]
MinOption = Annotated[
    float, typer.Option("--min-verified", metavar="SHARE", min=0.0, max=1.0, help="Of a provider's recorded answers.")
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where the run will call (TOKENPROOF_BASE_URL).")
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="HOST", help="Another host that may be meant; again for more."),
]
JunitOption = Annotated[str | None, typer.Option("--junit", metavar="FILE", help="pytest's own JUnit XML.")]
ReportOption = Annotated[
    str | None, typer.Option("--report", metavar="FILE", help="The JSON of --json, in a file too.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object, and nothing else.")]


def gate(
    model: ModelOption,
    provider: ProvidersOption,
    ticket: TicketOption = "gate.json",
    cassettes: CassettesOption = None,
    max_age: MaxAgeOption = 7.0,
    min_verified: MinOption = 0.5,
    base_url: BaseUrlOption = None,
    allow_host: AllowOption = None,
    habits: HabitsOption = None,
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

    \b
    exit code 0  the ticket is written
              1  there is none, for the reasons told
              2  wrong call, or no checkout

    \b
    examples:
      tokenproof gate --model moonshotai/kimi-k2.5 --provider siliconflow/int4 --provider chutes/int4
      tokenproof gate --model moonshotai/kimi-k2.5 --provider novita --max-age 2 --json | jq -r '.reasons[]'
      tokenproof gate --model moonshotai/kimi-k2.5 --provider chutes --junit junit.xml --report gate-report.json
    """
    with clean_ends():
        from harness.gate import checkout_root  # late: no other command needs any of it

        root = checkout_root()
        _may_replace(ticket)
        wanted = _wanted(base_url, allow_host, model, max_age, min_verified)
        folder = Path(cassettes) if cassettes else root / "cassettes"
        found, xml = _checked(root, wanted, provider, folder, habits or settings().habits)
        if junit is not None:
            store.write_atomic(junit, xml)
        raise typer.Exit(_end(found, ticket, report_to, as_json))


def _wanted(
    base_url: str | None, allow_host: list[str] | None, model: str, max_age: float, min_verified: float
) -> "Wanted":
    from harness.proof import Wanted
    from harness.transport import target

    place = target(base_url or settings().base_url, None, allow_host or (), offline=True)
    return Wanted(place, model, datetime.now(UTC), max_age * DAY, min_verified)


def _checked(
    root: Path, wanted: "Wanted", pins: list[str], folder: Path, habits: str | None
) -> "tuple[Checked, bytes]":
    """What the gate found, and pytest's XML."""
    from harness.evidence import read_cassettes
    from harness.flow import judge
    from harness.gate import Subject, Tools, check
    from harness.hashes import hashes

    complain(f"runs the required tests of {root}; that takes about half a minute")
    subject = Subject(root, tuple(dict.fromkeys(pins)), read_cassettes(folder, root), habits)
    with tempfile.TemporaryDirectory() as spare:
        xml = Path(spare) / "junit.xml"
        try:
            kit = judging(None, None, False, habits).kit
            tools = Tools(lambda exchange: judge(exchange, kit), hashes(kit.habits))
        except SetupError as error:  # another vocabulary, or habits that cannot be read
            tools = Tools(trouble=str(error))
        found = check(subject, wanted, tools, lambda: datetime.now(UTC), xml)
        return found, xml.read_bytes() if xml.exists() else b""


def _may_replace(path: str) -> None:
    """Nothing but a ticket is ever overwritten."""
    if Path(path).exists():
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
