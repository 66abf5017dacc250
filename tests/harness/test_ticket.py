"""harness.ticket: its canonical form and id, what is read and what is refused, and when it still opens a run."""

import hashlib
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupError
from harness.store import read_ticket, write_atomic
from harness.ticket import (
    MAX_BYTES,
    Hashes,
    Ticket,
    TicketCassette,
    TicketProvider,
    canonical,
    dump_ticket,
    parse_ticket,
    sealed,
    utc_text,
    utc_time,
    verify,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MEMBERS: dict[str, Any] = {
    "version": 1,
    "created_at": "2026-03-01T10:00:00Z",
    "expires_at": "2026-03-08T09:00:00Z",
    "content_hash": "1" * 64,
    "vocab_sha256": "2" * 64,
    "formats_sha256": "3" * 64,
    "habits_sha256": "4" * 64,
    "base_url": "https://openrouter.ai/api/v1",
    "model": "moonshotai/kimi-k2.5",
    "providers": [{"slug": "chutes/int4", "name": "Chutes", "quantization": "int4"}],
    "cassettes": [
        {"path": "cassettes/chutes/plain.yaml", "sha256": "5" * 64, "recorded_at": "2026-03-01T09:00:00Z"},
    ],
    "required": {"tests/test_gate.py::test_b": "passed", "tests/test_gate.py::test_a": "passed"},
    "kill_rate": 1.0,
    "commit": "a" * 40,
}
ISSUED = {"version", *(f.name for f in fields(Ticket))}


def ticket(**changes: Any) -> Ticket:
    """A sound ticket with some members changed, sealed after the change."""
    made = Ticket(
        **{
            **MEMBERS,
            "providers": (TicketProvider("chutes/int4", "Chutes", "int4"),),
            "cassettes": (TicketCassette("cassettes/chutes/plain.yaml", "5" * 64, "2026-03-01T09:00:00Z"),),
            **changes,
        }
    )
    return sealed(made)


def text(**changes: Any) -> bytes:
    """The file of a ticket with its JSON members changed by hand; None takes one out."""
    value = {**MEMBERS, "ticket_id": "0" * 64, **changes}
    return json.dumps({k: v for k, v in value.items() if v is not None}).encode()


def test_the_id_is_the_hash_of_the_canonical_rest() -> None:
    """sha256 over all other members as JSON with sorted keys and no blanks: what another program would compute."""
    expected = hashlib.sha256(json.dumps(MEMBERS, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert (ticket().ticket_id, sealed(ticket()).ticket_id) == (expected, expected)


def test_writing_and_reading_give_the_same_ticket() -> None:
    """What a file says is what was sealed; its members are the promised ones."""
    data = dump_ticket(ticket())
    assert parse_ticket(data) == ticket()
    assert set(json.loads(data)) == set(MEMBERS) | {"ticket_id"} == ISSUED
    assert json.loads(data)["ticket_id"] == ticket().ticket_id
    assert canonical(parse_ticket(data)) == canonical(ticket())


def test_a_sound_ticket_opens() -> None:
    """Intact, every test passed, in time: no reason against it; its hashes are told together."""
    read = parse_ticket(dump_ticket(ticket()))
    assert verify(read, NOW) == ()
    assert read.hashes == Hashes("1" * 64, "2" * 64, "3" * 64, "4" * 64)


@pytest.mark.parametrize("name", sorted(ISSUED - {"ticket_id", "version"}))
def test_any_change_breaks_the_seal(name: str) -> None:
    """Each member is part of the id: a file in which one was edited is told to be changed."""
    other: dict[str, Any] = {
        "created_at": "2026-03-01T10:00:01Z",
        "expires_at": "2027-03-08T09:00:00Z",
        "base_url": "https://other.example/v1",
        "model": "m",
        "providers": (TicketProvider("chutes/int4", "Chutes", "fp8"),),
        "cassettes": (TicketCassette("cassettes/chutes/plain.yaml", "6" * 64, "2026-03-01T09:00:00Z"),),
        "required": {"tests/test_gate.py::test_b": "passed"},
        "kill_rate": 0.5,
        "commit": "b" * 40,
    }
    edited = replace(ticket(), **{name: other.get(name, "9" * 64)})
    assert verify(edited, NOW)[:1] == ("it was changed after it was written: ticket_id does not fit",)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (datetime(2026, 3, 1, 10, tzinfo=UTC), ""),
        (datetime(2026, 3, 8, 8, 59, 59, tzinfo=UTC), ""),
        (datetime(2026, 3, 8, 9, tzinfo=UTC), "it expired at 2026-03-08T09:00:00Z; run `tokenproof gate` again"),
        (
            datetime(2026, 3, 1, 9, 59, 59, tzinfo=UTC),
            "it was made at 2026-03-01T10:00:00Z, which is still to come; look at the clock",
        ),
    ],
)
def test_the_clock(now: datetime, reason: str) -> None:
    """It holds from the second in which it was made up to the one in which it expires, that one excluded."""
    assert verify(ticket(), now) == ((reason,) if reason else ())


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"required": {}}, ("it lists no required test",)),
        ({"required": {"t": "skipped"}}, ("required tests did not pass: t skipped",)),
        (
            {"required": dict.fromkeys("abcde", "failed") | {"f": "passed"}},
            ("required tests did not pass: a failed, b failed, c failed and 2 more",),
        ),
        ({"providers": ()}, ("it lists no provider",)),
        ({"kill_rate": 0.97}, ("its required tests noticed 97.0% of the planted mutants, not all",)),
        ({"cassettes": ()}, ("it lists no evidence",)),
        ({"required": {}, "cassettes": ()}, ("it lists no required test", "it lists no evidence")),
    ],
)
def test_a_seal_does_not_make_a_ticket_sound(changes: dict[str, Any], reasons: tuple[str, ...]) -> None:
    """Whoever seals a ticket that proves nothing has a ticket that opens nothing; every reason is told."""
    assert verify(ticket(**changes), NOW) == reasons


WRONG = [
    pytest.param(b"", "no ticket: ", id="empty"),
    pytest.param(b"[]", "the ticket is list, no object", id="list"),
    pytest.param(b"\xff", "no ticket: ", id="no-utf-8"),
    pytest.param(b'{"version": 1, "version": 1}', "no ticket: a member comes twice", id="twice"),
    pytest.param(b"[" * 100_000, "no ticket: ", id="deep"),
    pytest.param(b" " * (MAX_BYTES + 1), "more than 4 MiB", id="long"),
    pytest.param(text(version=2), "version 2; this release reads version 1", id="newer"),
    pytest.param(text(version=True), "version is True, not a whole number", id="version"),
    pytest.param(text(model=None), "'model' missing or unknown", id="missing"),
    pytest.param(text(signature="x"), "'signature' missing or unknown", id="unknown"),
    pytest.param(text(model=""), "model is '', not a text", id="blank"),
    pytest.param(text(ticket_id="A" * 64), "ticket_id is 'AAAA", id="id"),
    pytest.param(text(content_hash="1" * 63), "not a sha256 in hex", id="short-hash"),
    pytest.param(text(commit="HEAD"), "commit is 'HEAD', not a commit in hex", id="commit"),
    pytest.param(text(created_at="2026-03-01"), "created_at is '2026-03-01', not a time in UTC", id="day"),
    pytest.param(text(expires_at="2026-3-1T1:1:1Z"), "expires_at is '2026-3-1T1:1:1Z'", id="loose-time"),
    pytest.param(text(expires_at="2026-03-01T10:00:00+02:00"), "expires_at is", id="other-zone"),
    pytest.param(text(kill_rate="1"), "kill_rate is '1', not a number from 0 to 1", id="rate"),
    pytest.param(text(kill_rate=True), "kill_rate is True", id="rate-bool"),
    pytest.param(text(kill_rate=1.5), "kill_rate is 1.5", id="rate-high"),
    pytest.param(text().replace(b"1.0", b"NaN"), "NaN is no JSON", id="nan"),
    pytest.param(text(required=["t"]), "required is ['t'], not an object of test ids and outcomes", id="required"),
    pytest.param(text(required={"t": 1}), "required is {'t': 1}", id="outcome"),
    pytest.param(text(providers={}), "providers is {}, not a list", id="providers"),
    pytest.param(text(providers=["chutes"]), "providers[0] is str, no object", id="provider"),
    pytest.param(text(providers=[{"slug": "a", "name": "A"}]), "providers[0]: 'quantization' missing", id="bare-slug"),
    pytest.param(
        text(cassettes=[{"path": "a", "sha256": "x", "recorded_at": "2026-03-01T09:00:00Z"}]),
        "cassettes[0]: sha256 is 'x', not a sha256 in hex",
        id="cassette",
    ),
]


@pytest.mark.parametrize(("data", "said"), WRONG)
def test_what_is_no_ticket_is_refused(data: bytes, said: str) -> None:
    """Every member is checked, none is guessed; the error says what came, what was expected and what to do."""
    with pytest.raises(SetupError) as caught:
        parse_ticket(data)
    assert said in str(caught.value)
    assert str(caught.value).endswith("expected a ticket of `tokenproof gate`; run it again")


def test_files(tmp_path: Path) -> None:
    """A ticket is read from its file; a missing file, a folder and a huge file are errors that name the path."""
    path = tmp_path / "gate.json"
    write_atomic(path, dump_ticket(ticket()))
    assert read_ticket(path) == ticket()
    path.write_bytes(b" " * (MAX_BYTES + 100))
    for wrong, said in ((tmp_path / "none.json", "no ticket can be read"), (tmp_path, "no ticket"), (path, "4 MiB")):
        with pytest.raises(SetupError, match=said) as caught:
            read_ticket(wrong)
        assert str(caught.value).startswith(str(wrong))


def test_times() -> None:
    """A moment is spelt in UTC and whole seconds, never later than it is; what is no such text is refused."""
    moment = datetime(2026, 3, 1, 1, 59, 59, 999_999, tzinfo=UTC) + timedelta(hours=1)
    assert utc_text(moment) == "2026-03-01T02:59:59Z"
    assert utc_time("2026-03-01T02:59:59Z") == datetime(2026, 3, 1, 2, 59, 59, tzinfo=UTC)
    with pytest.raises(SetupError, match="'yesterday' is no time"):
        utc_time("yesterday")
