"""runners.admission: no run without a ticket that fits it, and each reason in a line of its own."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import Endpoint
from harness.errors import SetupError
from harness.ticket import Hashes, Ticket, TicketCassette, TicketProvider, dump_ticket, sealed, utc_text
from runners.admission import admit, differences, endpoint_differences
from runners.runfile import RunFile
from runners.verdicts import Facts
from tests.runners.run_kit import ONE, PROVIDER, run_of, run_text

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
HASHES = Hashes("c" * 64, "d" * 64, "e" * 64, "f" * 64)
CHUTES = TicketProvider("chutes/int4", "Chutes", "int4")


def ticket(**how: Any) -> Ticket:
    """A ticket that fits the run of run_kit."""
    made = Ticket(
        created_at=utc_text(NOW - timedelta(days=1)),
        expires_at=utc_text(NOW + timedelta(days=6)),
        content_hash=HASHES.content_hash,
        vocab_sha256=HASHES.vocab_sha256,
        formats_sha256=HASHES.formats_sha256,
        habits_sha256=HASHES.habits_sha256,
        base_url="https://openrouter.ai/api/v1",
        model="moonshotai/kimi-k2.5",
        providers=(CHUTES,),
        cassettes=(TicketCassette("c.yaml", "a" * 64, utc_text(NOW - timedelta(days=1))),),
        required={"tests/test_a.py::test_b": "passed"},
        kill_rate=1.0,
        commit="b" * 40,
    )
    return sealed(replace(made, **how))


def run_with(folder: Path, one: Ticket | None, *tables: str, **keys: str) -> RunFile:
    """The run of a folder whose gate.json is this ticket."""
    if one is not None:
        (folder / "gate.json").write_bytes(dump_ticket(one))
    return run_of(folder, text=run_text(*tables, ticket='"gate.json"' if one else None, **keys))


def reasons(run: RunFile) -> list[str]:
    """Why a run does not start, without the place and the remedy."""
    with pytest.raises(SetupError) as caught:
        admit(run, HASHES, NOW)
    *lines, last = str(caught.value).splitlines()
    assert "tokenproof gate" in last
    return [line.partition("gate.json: ")[2] for line in lines]


def test_a_ticket_that_fits_opens_the_run(tmp_path: Path) -> None:
    """Every row will carry its id and the hashes."""
    one = ticket()

    facts = Facts("c" * 64, "d" * 64, "e" * 64, "f" * 64, ticket_id=one.ticket_id)
    assert admit(run_with(tmp_path, one), HASHES, NOW) == (facts, one)


def test_no_ticket(tmp_path: Path) -> None:
    """Neither named, nor there, nor one."""
    with pytest.raises(SetupError, match=r"^no ticket: expected `ticket = PATH` in .*run\.toml or --ticket PATH"):
        admit(run_with(tmp_path, None), HASHES, NOW)
    run = run_with(tmp_path, ticket())
    for spoil in (lambda p: p.write_text("{}"), lambda p: p.unlink()):
        spoil(tmp_path / "gate.json")
        with pytest.raises(SetupError, match=r"gate\.json"):
            admit(run, HASHES, NOW)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"expires_at": utc_text(NOW)}, "it expired at 2026-05-01T12:00:00Z; run `tokenproof gate` again"),
        (
            {"content_hash": "0" * 64},
            f"other code than was tested: content_hash is {'c' * 12} here, {'0' * 12} in the ticket",
        ),
        (
            {"vocab_sha256": "0" * 64},
            f"other vocabulary than was tested: vocab_sha256 is {'d' * 12} here, {'0' * 12} in the ticket",
        ),
        (
            {"formats_sha256": "0" * 64},
            f"other formats than was tested: formats_sha256 is {'e' * 12} here, {'0' * 12} in the ticket",
        ),
        (
            {"habits_sha256": "0" * 64},
            f"other habits than was tested: habits_sha256 is {'f' * 12} here, {'0' * 12} in the ticket",
        ),
        (
            {"base_url": "http://127.0.0.1:1/api/v1"},
            "it opens runs at http://127.0.0.1:1/api/v1, this one calls https://openrouter.ai/api/v1",
        ),
        (
            {"model": "moonshotai/kimi-k2.6"},
            "it is for the model moonshotai/kimi-k2.6, this run asks moonshotai/kimi-k2.5",
        ),
        (
            {"providers": (TicketProvider("novita/int4", "Novita", "int4"),)},
            "the provider chutes/int4 was not tested; the ticket has novita/int4 (int4)",
        ),
        ({"required": {"t": "skipped"}}, "required tests did not pass: t skipped"),
    ],
)
def test_each_member_is_compared(tmp_path: Path, how: dict[str, Any], reason: str) -> None:
    """One difference is one line, and the run does not start."""
    assert reasons(run_with(tmp_path, ticket(**how))) == [reason]


def test_every_reason_is_told(tmp_path: Path) -> None:
    """Not the first alone; and a ticket that was edited by hand is one."""
    one = replace(ticket(), model="other", base_url="http://127.0.0.1:1/v1")

    assert [line.split()[:3] for line in reasons(run_with(tmp_path, one))] == [
        ["it", "was", "changed"], ["it", "opens", "runs"], ["it", "is", "for"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('only = ["chutes/int4"]', ""),
        ('only = ["Chutes/INT4"]', ""),
        ('only = ["chutes"]\nquantizations = ["int4"]', ""),
        ('order = ["chutes/int4"]\nallow_fallbacks = false', ""),
        ('only = ["chutes"]', 'chutes names no variant, so that any may answer; add quantizations = ["int4"]'),
        ('only = ["chutes/fp8"]', "the provider chutes/fp8 was not tested"),
        ('only = ["chutes"]\nquantizations = ["int4", "fp8"]', "the provider chutes was not tested in fp8"),
        ('only = ["chutes/int4", "groq"]', "the provider groq was not tested"),
        ('only = ["chut"]', "the provider chut was not tested"),
    ],
)
def test_pins_admit_what_was_tested_and_no_more(tmp_path: Path, table: str, said: str) -> None:
    """A slug without its variant means every quantization of that host, unless the run names them."""
    run = run_with(tmp_path, ticket(), f"[provider]\n{table}\n", ONE)

    told = differences(ticket(), run, HASHES)
    assert [line[: len(said)] for line in told] == ([said] if said else [])


def test_what_a_pin_means_today(tmp_path: Path) -> None:
    """The listing of today is compared too: tag, display name and quantization."""
    tested = Endpoint("chutes/int4", "Chutes", "int4", Decimal(1), Decimal(1))

    assert endpoint_differences(ticket(), [tested]) == ()
    for other in (
        replace(tested, quantization="fp8"),
        replace(tested, provider_name="X"),
        replace(tested, tag="chutes"),
    ):
        (line,) = endpoint_differences(ticket(), [tested, other])
        assert line == (
            f"{other.tag} is {other.provider_name} in {other.quantization} today, which was not tested; "
            "the ticket has chutes/int4 = Chutes (int4)"
        )


def test_without_a_ticket_for_a_reason(tmp_path: Path) -> None:
    """The reason stands in every row, whatever the ticket says; blanks are none."""
    run = run_with(tmp_path, ticket(expires_at=utc_text(NOW)), PROVIDER, ONE)

    assert admit(run, HASHES, NOW, "  trying the emulator ") == (
        Facts("c" * 64, "d" * 64, "e" * 64, "f" * 64, ungated="trying the emulator"), None,
    )  # fmt: skip
    with pytest.raises(SetupError, match="needs a reason"):
        admit(run, HASHES, NOW, "  ")
