"""The gate's ticket: what was tested, with what and when; a paid run starts only with one that still holds.

A ticket is no signature: whoever can write the file can write another one. It keeps honest people from running what
was not tested, so everything that it says is compared with the run. Reads no file (`store.read_ticket`) and no clock.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from harness.errors import SetupError
from harness.json_keys import once

VERSION = 1
PASSED = "passed"
"""The one outcome of a required test that opens anything."""
MAX_BYTES = 4 << 20
"""Of a ticket file; one of 300 required tests and 1,000 cassettes has about 0.3 MB."""
EXPECTED = "expected a ticket of `tokenproof gate`; run it again"


@dataclass(frozen=True, slots=True)
class TicketProvider:
    """A provider that the evidence is of: its pin (`siliconflow/int4`), display name and quantization."""

    slug: str
    name: str
    quantization: str


@dataclass(frozen=True, slots=True)
class TicketCassette:
    """A recording that speaks for a provider: where it lies, the sha256 of the file, when it was recorded (UTC)."""

    path: str
    sha256: str
    recorded_at: str


@dataclass(frozen=True, slots=True)
class Hashes:
    """What a verdict depends on beside the answer; each a sha256 in hex.

    Attributes:
        content_hash: Of the package's own sources and tables (`hashes.content_hash`).
        vocab_sha256: Of the ranks, as `tiktoken.model` spells them.
        formats_sha256: Of the formats' files.
        habits_sha256: Of the habits file in use.
    """

    content_hash: str
    vocab_sha256: str
    formats_sha256: str
    habits_sha256: str


@dataclass(frozen=True, slots=True)
class Ticket:
    """What `tokenproof gate` writes; the members stand in the file under these names.

    Attributes:
        created_at, expires_at: UTC, `2026-01-31T12:00:00Z`. It expires when its oldest evidence is too old.
        content_hash ... habits_sha256: As in `Hashes`.
        base_url: The one place at which a run may call with this ticket.
        model: As requests name it.
        required: Id of each required test -> outcome, all of them PASSED.
        kill_rate: Share of the planted mutants that the required tests of this content notice, 0 to 1.
        commit: Of the clean checkout in which the gate ran.
        ticket_id: sha256 of the canonical rest.
    """

    created_at: str
    expires_at: str
    content_hash: str
    vocab_sha256: str
    formats_sha256: str
    habits_sha256: str
    base_url: str
    model: str
    providers: tuple[TicketProvider, ...]
    cassettes: tuple[TicketCassette, ...]
    required: Mapping[str, str]
    kill_rate: float
    commit: str
    version: int = VERSION
    ticket_id: str = ""

    @property
    def hashes(self) -> Hashes:
        """The four hashes, to be compared with those of a run."""
        return Hashes(self.content_hash, self.vocab_sha256, self.formats_sha256, self.habits_sha256)


def sealed(ticket: Ticket) -> Ticket:
    """The ticket with the id that belongs to the rest of it."""
    return replace(ticket, ticket_id=hashlib.sha256(canonical(ticket)).hexdigest())


def canonical(ticket: Ticket) -> bytes:
    """All but ticket_id as JSON: keys sorted, no blanks, ASCII."""
    rest = {name: value for name, value in _plain(ticket).items() if name != "ticket_id"}
    return json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()


def dump_ticket(ticket: Ticket) -> bytes:
    """The file's text: JSON for eyes, a member a line."""
    return json.dumps(_plain(ticket), indent=1).encode() + b"\n"


def _plain(ticket: Ticket) -> dict[str, Any]:
    plain = {f.name: getattr(ticket, f.name) for f in fields(Ticket)}
    rows = {name: [asdict(row) for row in plain[name]] for name in ("providers", "cassettes")}
    return plain | rows | {"required": dict(sorted(ticket.required.items()))}


# --- reading --------------------------------------------------------------------------------------------------------


def parse_ticket(data: bytes) -> Ticket:
    """The ticket that a file holds; that it is intact and in time is for `verify`.

    Raises:
        SetupError: Not JSON, a member too many or too few, a value that cannot stand there.
    """
    if len(data) > MAX_BYTES:
        raise SetupError(f"a ticket of {len(data):,} bytes, more than {MAX_BYTES >> 20} MiB; {EXPECTED}")
    try:
        value = json.loads(data, object_pairs_hook=once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"no ticket: {error!s:.200}; {EXPECTED}") from None
    row = _members(value, Ticket, "the ticket", _KINDS)
    if row["version"] != VERSION:
        raise SetupError(f"a ticket of version {row['version']}; this release reads version {VERSION}; {EXPECTED}")
    row["providers"] = tuple(TicketProvider(**p) for p in _rows(row["providers"], TicketProvider, "providers", {}))
    row["cassettes"] = tuple(
        TicketCassette(**c) for c in _rows(row["cassettes"], TicketCassette, "cassettes", _CASSETTE_KINDS)
    )
    row["required"] = MappingProxyType(row["required"])
    return Ticket(**row)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _hex(*lengths: int) -> Callable[[Any], bool]:
    pattern = re.compile("|".join(f"[0-9a-f]{{{n}}}" for n in lengths))
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_time(value: Any) -> bool:
    return _text(value) and _parsed(value) is not None


def _outcomes(value: Any) -> bool:
    return isinstance(value, dict) and all(_text(v) for row in value.items() for v in row)


def _share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


_Kinds = Mapping[str, tuple[Callable[[Any], bool], str]]
_SHA = (_hex(64), "a sha256 in hex")
_TIME = (_is_time, "a time in UTC such as 2026-01-31T12:00:00Z")
_TEXT = (_text, "a text")
_LIST = (lambda value: isinstance(value, list), "a list")
_KINDS: _Kinds = {
    "version": (lambda value: type(value) is int, "a whole number"),
    "ticket_id": _SHA,
    "created_at": _TIME,
    "expires_at": _TIME,
    "content_hash": _SHA,
    "vocab_sha256": _SHA,
    "formats_sha256": _SHA,
    "habits_sha256": _SHA,
    "providers": _LIST,
    "cassettes": _LIST,
    "required": (_outcomes, "an object of test ids and outcomes"),
    "kill_rate": (_share, "a number from 0 to 1"),
    "commit": (_hex(40, 64), "a commit in hex"),
}
_CASSETTE_KINDS: _Kinds = {"sha256": _SHA, "recorded_at": _TIME}


def _members(value: Any, kind: type, where: str, kinds: _Kinds) -> dict[str, Any]:
    """The members of one object: exactly those of the type, each of its kind (a text where none is told)."""
    if not isinstance(value, dict):
        raise SetupError(f"{where} is {type(value).__name__}, no object; {EXPECTED}")
    known = [f.name for f in fields(kind)]
    if wrong := sorted(set(value) ^ set(known)):
        raise SetupError(f"{where}: {', '.join(map(repr, wrong))} missing or unknown; members are {known}; {EXPECTED}")
    for name in known:
        holds, expected = kinds.get(name, _TEXT)
        if not holds(value[name]):
            raise SetupError(f"{where}: {name} is {value[name]!r:.80}, not {expected}; {EXPECTED}")
    return dict(value)


def _rows(listed: list[Any], kind: type, where: str, kinds: _Kinds) -> list[dict[str, Any]]:
    return [_members(row, kind, f"{where}[{k}]", kinds) for k, row in enumerate(listed)]


# --- judging --------------------------------------------------------------------------------------------------------


def utc_text(moment: datetime) -> str:
    """A moment as tickets and cassettes spell it; seconds, never later than it is."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_time(text: str) -> datetime:
    """The moment that such a text names.

    Raises:
        SetupError: It names none.
    """
    moment = _parsed(text)
    if moment is None:
        raise SetupError(f"{text!r:.80} is no time; expected UTC such as 2026-01-31T12:00:00Z")
    return moment


def _parsed(text: str) -> datetime | None:
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment if utc_text(moment) == text else None  # strptime also takes 2026-1-1T1:1:1Z


def verify(ticket: Ticket, now: datetime) -> tuple[str, ...]:
    """Why the ticket opens nothing, a line a reason; () where it is intact, whole and in time.

    What it was made for (base URL, model, providers, hashes) is for the run to compare.
    """
    failed = sorted(f"{test} {outcome}" for test, outcome in ticket.required.items() if outcome != PASSED)
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    created, expires = utc_time(ticket.created_at), utc_time(ticket.expires_at)
    checks = (
        (sealed(ticket).ticket_id != ticket.ticket_id, "it was changed after it was written: ticket_id does not fit"),
        (created > now, f"it was made at {ticket.created_at}, which is still to come; look at the clock"),
        (expires <= now, f"it expired at {ticket.expires_at}; run `tokenproof gate` again"),
        (not ticket.required, "it lists no required test"),
        (bool(failed), f"required tests did not pass: {', '.join(failed[:3])}{more}"),
        (ticket.kill_rate < 1, f"its required tests noticed {ticket.kill_rate:.1%} of the planted mutants, not all"),
        (not ticket.providers, "it lists no provider"),
        (not ticket.cassettes, "it lists no evidence"),
    )
    return tuple(reason for wrong, reason in checks if wrong)
