"""The gate: everything that a ticket needs, or each reason why there is none.

Puts checkout, required tests, kill rate and cassettes together; the clock and the judge are arguments. Knows nothing of
how any of them is found out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from harness.checkout import changes, commit_of, is_tracked, tracked
from harness.errors import SetupError
from harness.evidence import Filed
from harness.formats import find_format, formats
from harness.hashes import ROOT, hashed_files
from harness.proof import Judge, Proof, Wanted, prove, some
from harness.required_tests import Ran, kill_rate, run_required
from harness.ticket import Hashes, Ticket, sealed, utc_text, utc_time

Clock = Callable[[], datetime]
Ask = Callable[[], tuple[tuple[Filed, ...], tuple[str, ...]]]
"""Fresh recordings, and what went wrong in getting them."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the gate found.

    Attributes:
        ticket: None where there is a reason against it.
        reasons: A line each.
    """

    ticket: Ticket | None
    reasons: tuple[str, ...]
    ran: Ran
    proofs: tuple[Proof, ...]
    kill_rate: float


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be tested: a clean checkout, the habits file in use (None: the shipped one), providers and cassettes.

    Attributes:
        pins: Tags or slugs.
    """

    root: Path
    pins: tuple[str, ...]
    filed: tuple[Filed, ...]
    habits: str | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    """The judge and the hashes of this process, or why they cannot be had."""

    judge: Judge | None = None
    hashes: Hashes | None = None
    trouble: str = ""


def check(
    subject: Subject, wanted: Wanted, tools: Tools, clock: Clock, junit: Path | None = None, ask: Ask | None = None
) -> Checked:
    """Runs everything; a reason against the ticket never hides the others.

    Args:
        junit: Where pytest's own XML report goes.
        ask: Asks the providers now; called where nothing else stands against the ticket, since it costs money.
    """
    root, judge = subject.root, tools.judge
    commit, before = commit_of(root), changes(root)
    rate, why = kill_rate(root)
    ran = run_required(root, junit)
    reasons = [*_setup(subject, wanted, before), *([tools.trouble] if tools.trouble else []), *why, *ran.reasons]
    fresh: tuple[Filed, ...] = ()
    if ask is not None and not reasons:
        fresh, wrong = ask()
        reasons += wrong
    elif ask is not None:
        reasons.append("live: nothing was asked, because of the other reasons")
    wanted = replace(wanted, now=clock())  # what was asked meanwhile is not from the future
    filed = (*subject.filed, *fresh)
    proofs = tuple(prove(pin, filed, wanted, judge) for pin in subject.pins) if judge else ()
    reasons += [reason for proof in proofs for reason in proof.reasons]
    if (commit_of(root), changes(root)) != (commit, before):
        reasons.append("the checkout changed while the gate ran; run it again")
    ticket = None
    if tools.hashes is not None and not reasons:
        ticket = _ticket(proofs, wanted, tools.hashes, ran, rate, commit, clock())
    return Checked(ticket, tuple(dict.fromkeys(reasons)), ran, proofs, rate)


def _setup(subject: Subject, wanted: Wanted, changed: Sequence[str]) -> Iterator[str]:
    if subject.root.resolve() != ROOT:
        yield f"the package in use is not the one of the checkout {subject.root}; install that one (`make setup`)"
    if changed:
        yield f"the tree is dirty: {some(changed)}; commit it or take it out"
    if hidden := sorted(hashed_files(subject.root) - tracked(subject.root) - set(changed)):
        yield f"files that git ignores take part: {some(hidden)}; commit them or take them out"
    if subject.habits is not None and not is_tracked(subject.root, Path(subject.habits)):
        yield f"the habits file {subject.habits} is no part of the checkout; commit it, or use the shipped one"
    if find_format(wanted.model, formats()) is None:
        yield f"no format is known for the model {wanted.model}"
    if not subject.pins:
        yield "no provider was named"


def _ticket(
    proofs: Sequence[Proof], wanted: Wanted, hashes: Hashes, ran: Ran, rate: float, commit: str, now: datetime
) -> Ticket:
    """The ticket; it expires when its oldest evidence does."""
    cassettes = {c.path: c for proof in proofs for c in proof.cassettes}
    oldest = min(utc_time(c.recorded_at) for c in cassettes.values())
    return sealed(
        Ticket(
            created_at=utc_text(now),
            expires_at=utc_text(oldest + wanted.max_age),
            content_hash=hashes.content_hash,
            vocab_sha256=hashes.vocab_sha256,
            formats_sha256=hashes.formats_sha256,
            habits_sha256=hashes.habits_sha256,
            base_url=wanted.target.base_url,
            model=wanted.model,
            providers=tuple(dict.fromkeys(p.provider for p in proofs if p.provider)),
            cassettes=tuple(cassettes[path] for path in sorted(cassettes)),
            required=ran.outcomes,
            kill_rate=rate,
            commit=commit,
        )
    )


def checkout_root() -> Path:
    """The checkout that this package runs from.

    Raises:
        SetupError: It runs from anywhere else, where there are no tests to run.
    """
    if not (ROOT / "tests" / "required.txt").is_file() or not (ROOT / ".git").exists():
        raise SetupError(
            f"the gate needs a checkout of tokenproof with its tests; this one is installed in {ROOT}. "
            "Clone the repository, `make setup` there, and run its tokenproof"
        )
    return ROOT
