"""What a run will take: dollars, hours, tokens and disk, with what that rests on and what stands against it.

From the survey of the data sets, the price list, and answers that were measured (earlier runs, probes). Pure: chance is
an argument.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean, pstdev

from harness.catalog import Endpoint
from harness.errors import SetupError
from runners.backoff import ENDS
from runners.budget import NANO, Price, dearest, worst_case
from runners.data_sets import Surveyed
from runners.ledger import Ledger, Totals
from runners.ledger_rows import ANSWERED
from runners.limits import limits, unheard
from runners.runfile import DataSet, RunFile

ROUNDS = 400
"""Runs that are drawn from the measured answers."""
MAX_MEASURED = 500
"""Answers of a data set that are looked at; more would not move the figures."""
FEW = 20
"""Fewer measured answers than this say little of the longest ones, and the plan says so."""
EMPTY_BYTES, PER_PROMPT_BYTES, PER_BODY_BYTE, PER_ID_BYTES = 120_000, 3_000, 2.5, 34.0
"""Disk: a ledger before its first row; then what ledger, Parquet, JSONL and rejected rows take a prompt, a byte of its
request and an id; on the safe side of what `tests/runners/test_plan.py` measures."""
LOG_BYTES = 4_000_000
"""What SQLite writes beside a ledger while it is open, at most."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One answer that came: completion tokens as billed, and the seconds from its reservation to its end."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Range:
    """A figure in the middle of what was drawn, and one that 95 of 100 runs stay below."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Begun:
    """What the ledger of a run has already; by data set where it is a mapping.

    Attributes:
        spent_usd: Reservations that are not settled included.
        n_ended: Prompts that are not asked again.
        n_tokens: Completion tokens of the answers.
    """

    spent_usd: float = 0.0
    n_ended: Mapping[str, int] = field(default_factory=dict)
    n_tokens: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetPlan:
    """One data set.

    Attributes:
        n_prompts, prompt_tokens: Those that are still to be asked.
        n_measured: Answers that its figures rest on; `borrowed` where they are of other data sets.
        tokens: Completion tokens; None where nothing was measured.
        worst_usd: If every answer were as long as max_tokens allows.
    """

    name: str
    n_prompts: int
    prompt_tokens: int
    n_measured: int
    borrowed: bool
    tokens: Range | None
    usd: Range | None
    worst_usd: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left of a run; `against` are reasons not to start it, `notes` what else should be known."""

    sets: tuple[SetPlan, ...]
    price: Price
    tokens: Range | None
    usd: Range | None
    hours: Range | None
    disk_bytes: Range
    worst_usd: float
    spent_usd: float
    left_usd: float
    against: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """One drawn run of one data set."""

    tokens: float
    usd: float
    seconds: float


def make_plan(
    run: RunFile,
    surveyed: Sequence[Surveyed],
    endpoints: Sequence[Endpoint],
    measured: Mapping[str, Sequence[Measured]],
    free_bytes: int,
    rng: Random,
    begun: Begun = Begun(),
    against: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Plan:
    """The plan of what is left of a run.

    Args:
        endpoints: Those that the run's pins mean; the dearest price of each kind is taken.
        measured: Answers by data set; a set without any borrows those of all others.
        free_bytes: Where the output goes.
        against, notes: What is known of the run beside lengths, money and disk.
    """
    price = dearest(endpoints)
    left_usd = run.budget_usd - begun.spent_usd
    known = {name: found[-MAX_MEASURED:] for name, found in measured.items() if found}
    pairs = [_open(data, told, begun) for data, told in zip(run.data_sets, surveyed, strict=True)]
    rounds = [_drawn(pairs, known, price, rng) for _ in range(ROUNDS)] if known else []
    sets = tuple(_set_plan(run, told, known, [one[told.name] for one in rounds], price) for _, told in pairs)
    usd = _range([sum(d.usd for d in one.values()) for one in rounds])
    hours = _range([sum(d.seconds for d in one.values()) / run.concurrency / 3600 for one in rounds])
    worst = sum(one.worst_usd for one in sets)
    tokens = _range([sum(d.tokens for d in one.values()) for one in rounds])
    paid = max(0.0, left_usd) / float(price.completion) if price.completion else float("inf")
    disk = _disk([told for _, told in pairs], run.max_tokens, tokens, paid)
    most = max(
        (worst_case(told.longest, run.max_tokens, price) / NANO for _, told in pairs if told.n_prompts), default=0
    )
    reasons = (*_of_money(run.budget_usd, left_usd, usd, worst, most), *_of_disk(run, disk, free_bytes))
    every = tuple(dict.fromkeys((*reasons, *limits(run, surveyed, endpoints), *against)))
    told = (*notes, *_notes(sets, run, endpoints))
    return Plan(sets, price, tokens, usd, hours, disk, worst, begun.spent_usd, left_usd, every, told)


def _open(data: DataSet, told: Surveyed, begun: Begun) -> tuple[DataSet, Surveyed]:
    """What is still to be asked of a data set; its prompts are taken to be as long as all of them are on average."""
    n, tokens = max(0, told.n_prompts - begun.n_ended.get(told.name, 0)), data.tokens
    if tokens is not None:
        tokens -= begun.n_tokens.get(told.name, 0)
        n = n if tokens > 0 else 0
    part = n / told.n_prompts if told.n_prompts else 0.0
    left = {name: round(part * getattr(told, name)) for name in ("prompt_tokens", "body_bytes")}
    return replace(data, tokens=tokens), replace(told, n_prompts=n, **left)


def _drawn(
    pairs: Sequence[tuple[DataSet, Surveyed]],
    known: Mapping[str, Sequence[Measured]],
    price: Price,
    rng: Random,
) -> dict[str, Draw]:
    """One run: the measured answers are drawn anew, since their mean is not known well, and whoever borrows them errs
    with their owner."""
    drawn = {name: rng.choices(found, k=len(found)) for name, found in known.items()}
    pool = [one for found in drawn.values() for one in found]
    return {data.name: _draw(data, told, drawn.get(data.name) or pool, price, rng) for data, told in pairs}


def _draw(data: DataSet, told: Surveyed, drawn: Sequence[Measured], price: Price, rng: Random) -> Draw:
    lengths = [one.tokens for one in drawn]
    spread = pstdev(lengths) * told.n_prompts**0.5
    tokens = max(0.0, fmean(lengths) * told.n_prompts + rng.gauss(0, 1) * spread)
    part = min(1.0, data.tokens / tokens) if data.tokens and tokens else 1.0
    fixed = told.prompt_tokens * float(price.prompt) + told.n_prompts * float(price.request)
    usd = part * (fixed + tokens * float(price.completion))
    return Draw(tokens * part, usd, fmean(one.seconds for one in drawn) * told.n_prompts * part)


def _set_plan(
    run: RunFile,
    told: Surveyed,
    known: Mapping[str, Sequence[Measured]],
    draws: Sequence[Draw],
    price: Price,
) -> SetPlan:
    own, n_pool = len(known.get(told.name, ())), sum(map(len, known.values()))
    return SetPlan(
        told.name,
        told.n_prompts,
        told.prompt_tokens,
        own or n_pool,
        not own and bool(n_pool),
        _range([d.tokens for d in draws]),
        _range([d.usd for d in draws]),
        told.n_prompts * worst_case(-(-told.prompt_tokens // max(1, told.n_prompts)), run.max_tokens, price) / NANO,
    )


def _range(values: Sequence[float]) -> Range | None:
    if not values:
        return None
    ordered = sorted(values)
    return Range(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)])


def _disk(surveyed: Sequence[Surveyed], max_tokens: int, tokens: Range | None, paid: float) -> Range:
    """Bytes of all that a run writes; without measured answers each is as long as it may be; `paid` tokens at most."""
    n = sum(told.n_prompts for told in surveyed)
    fixed = (n and EMPTY_BYTES) + n * PER_PROMPT_BYTES + sum(told.body_bytes for told in surveyed) * PER_BODY_BYTE
    fixed += sum(told.prompt_tokens for told in surveyed) * PER_ID_BYTES / 3  # no origins, no mask
    ids = tokens or Range(*[min(paid, n * max_tokens)] * 2)
    return Range(fixed + ids.p50 * PER_ID_BYTES, fixed + ids.p95 * PER_ID_BYTES)


def _of_money(budget: float, left: float, usd: Range | None, worst: float, most: float) -> Iterator[str]:
    """Why the money may not suffice; `most` is what one request may cost, which must be free when it is sent."""
    has = f"the budget is ${budget:.2f}" + (f", of which ${left:.4f} are left" if left < budget else "")
    if usd is None and worst > left:
        yield (
            f"{has}; nothing was measured, and at max_tokens the run would cost "
            f"${worst:.2f}; measure with --probe N, or name an earlier run with --from FOLDER"
        )
    if usd is not None and usd.p95 > left:
        yield f"{has}, and 5 runs of 100 would cost more than ${usd.p95:.{2 if usd.p95 >= 1 else 4}f}"
    elif usd is not None and usd.p95 + most > left:
        yield f"{has}; the run takes ${usd.p95:.4f}, and a request is sent only while ${most:.4f} more are free"


def _of_disk(run: RunFile, disk: Range, free_bytes: int) -> Iterator[str]:
    most = disk.p95 + LOG_BYTES
    if disk.p95 and most > free_bytes:
        yield f"the run may write {size(most)}, and {size(free_bytes)} are free at {run.out}"


def refuse_full(
    run: RunFile, surveyed: Sequence[Surveyed], endpoints: Sequence[Endpoint], ledger: Ledger, free_bytes: int
) -> None:
    """Where the disk is too small for what is left of a run, it does not start (SetupError)."""
    plan = make_plan(run, surveyed, endpoints, measured_in(ledger), free_bytes, Random(0), begun_of(ledger.totals()))
    known = "" if plan.tokens else "; nothing was measured yet: `tokenproof plan --probe N` may show that it is less"
    for said in _of_disk(run, plan.disk_bytes, free_bytes):
        raise SetupError(
            f"{said}{known}; make room, or choose another `out`; the run does not start, nothing was asked"
        )


def measured_in(ledger: Ledger) -> dict[str, list[Measured]]:
    """The last answers of each data set of a run."""
    found: dict[str, list[Measured]] = {}
    for name, tokens, seconds in ledger.lengths(MAX_MEASURED):
        found.setdefault(name, []).append(Measured(tokens, seconds))
    return found


def begun_of(totals: Totals) -> Begun:
    """What a ledger has already."""
    done = (ANSWERED, *(end for end, again in ENDS.items() if not again))
    ended = {name: sum(ends[end] for end in done) for name, ends in totals.ends.items()}
    return Begun((totals.spent_nano + totals.reserved_nano) / NANO, ended, totals.n_tokens)


def _notes(sets: Sequence[SetPlan], run: RunFile, endpoints: Sequence[Endpoint]) -> Iterator[str]:
    for one in sets:
        if one.borrowed:
            yield f"{one.name}: nothing measured, taken to be as long as the answers of the other data sets"
        elif 0 < one.n_measured < FEW:
            yield f"{one.name}: {one.n_measured} answers measured; {FEW} or more would say more of the longest"
    prices = {(e.prompt_usd, e.completion_usd) for e in endpoints}
    if len(prices) > 1:
        yield f"the {len(endpoints)} endpoints have {len(prices)} prices; the dearest is taken"
    yield from unheard(run, endpoints)


def size(n_bytes: float) -> str:
    """Bytes for people, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000 or unit == "TB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    raise AssertionError("the last unit takes all")
