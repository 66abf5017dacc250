"""From a run file to a run: what must hold before the first request, and the engine put together.

Knows nothing of terminals; clocks, chance and the transport are arguments.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from pathlib import Path
from shutil import disk_usage

from harness.catalog import Endpoint, pinned
from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.record import offers
from harness.ticket import Ticket
from harness.transport import Transport
from runners import ledger_meta
from runners import ledger_writes as w
from runners.admission import endpoint_differences
from runners.amending import layout, places
from runners.attempts import Outside
from runners.budget import Price, dearest, nano_of
from runners.data_sets import RESTORE, Surveyed, surveyed_prompts
from runners.desk import Orders
from runners.generate import Run
from runners.identity import canonical_run, changes, run_sha256
from runners.jobs import Prompt
from runners.judging import Judges, Recipe
from runners.ledger import Ledger, open_ledger, read_ledger
from runners.limits import above_max_price, limits
from runners.output import LEDGER
from runners.plan import Begun, begun_of, refuse_full
from runners.progress import Stop, Watch
from runners.recovery import refuse_dropped
from runners.runfile import RunFile
from runners.samples import JUDGE_ANEW, other_hashes
from runners.summary import Asked
from runners.verdicts import Facts, unpack


@dataclass(frozen=True, slots=True)
class Launch:
    """A run that may start: the file, what it asks for, and what let it in.

    Attributes:
        counting: Around the pass over all prompts of a run that was amended; what it gives is called once a prompt.
        amend: Why the run file may differ from the one that the ledger knows; None: it may not.
        probe: Prompts of each data set that are asked; None for all.
        n_judges: Processes that judge; 0: a thread.
        free_bytes: On the disk of a folder.
    """

    run: RunFile
    surveyed: tuple[Surveyed, ...]
    recipe: Recipe
    ticket: Ticket | None = None
    amend: str | None = None
    probe: int | None = None
    n_judges: int = 1
    free_bytes: Callable[[Path], int] = lambda folder: disk_usage(folder).free
    counting: Callable[[], AbstractContextManager[Callable[[], None]]] = lambda: nullcontext(lambda: None)

    @property
    def facts(self) -> Facts:
        """What every row carries."""
        return self.recipe.facts


async def generate(
    launch: Launch, outside: Outside, watch: Watch, started: Callable[[Run], None] = lambda run: None
) -> Stop:
    """Ask for everything that is open, until it is there or something stops it.

    Args:
        started: Is given the run before its first request, for whoever may interrupt it.

    Raises:
        SetupError: It may not start, a line a reason; no chat request was sent then.
    """
    run = launch.run
    text = canonical_run(run, launch.surveyed)
    _folder(run)
    with open_ledger(run.out / LEDGER) as ledger, read_ledger(run.out / LEDGER) as reader:
        changed = _unchanged(launch, ledger, text)
        _same_judge(launch, reader)
        endpoints = await admitted(launch, outside.transport)
        refuse_dropped(ledger, endpoints)
        price = dearest(endpoints)
        if launch.probe is None:  # the few prompts of a probe need little
            refuse_full(run, launch.surveyed, endpoints, ledger, launch.free_bytes(run.out))
        _begin(launch, ledger, reader, text, price, changed, outside.now())
        judges = Judges(launch.recipe, launch.n_judges)
        try:
            orders = _orders(run, endpoints, price, amended=bool(ledger.amendments()))
            made = Run(orders, ledger, reader, _prompts(launch), judges, outside, watch)
            made.recheck = partial(still_admitted, launch, outside.transport, price)
            started(made)
            return await made.run()
        finally:
            judges.close()


async def admitted(launch: Launch, transport: Transport) -> tuple[Endpoint, ...]:
    """The endpoints that the run's pins mean today.

    Raises:
        SetupError: There are none, the ticket does not know them, or they cannot take the run's requests.
    """
    found, reasons = _fitting(launch, await offers(transport, launch.run.model))
    if reasons:
        raise SetupError("\n".join([*reasons, "the run does not start; nothing was asked"]))
    return found


def _fitting(launch: Launch, listed: tuple[Endpoint, ...]) -> tuple[tuple[Endpoint, ...], list[str]]:
    """The endpoints of a listing that the run's pins mean, and why they may not be asked."""
    run = launch.run
    found = pinned(run.pins, listed, run.provider.get("quantizations") or ())
    reasons = [
        *(endpoint_differences(launch.ticket, found) if launch.ticket else ()),
        *limits(run, launch.surveyed, found),
        *above_max_price(run.provider.get("max_price") or {}, found),
    ]
    return found, reasons


async def still_admitted(launch: Launch, transport: Transport, price: Price) -> str | None:
    """Why a run may not go on: its endpoints, or what they ask for, are not what they were at its start.

    None where all is as it was, and where nobody tells: a listing that does not come now comes later.
    """
    try:
        listed = await offers(transport, launch.run.model)
    except SetupError:
        return None
    try:
        found, reasons = _fitting(launch, listed)
    except SetupError as error:
        return str(error)
    return "; ".join([*reasons, *_rises(_told(price), _told(dearest(found)), "when this part of it began")]) or None


def _told(price: Price) -> dict[str, str]:
    """Dollars in digits."""
    return {name: str(usd) for name, usd in asdict(price).items()}


@dataclass(frozen=True, slots=True)
class Outlook:
    """A run as it would start now; `against` would refuse it, `notes` would not."""

    endpoints: tuple[Endpoint, ...]
    begun: Begun
    against: tuple[str, ...]
    notes: tuple[str, ...]


async def outlook(launch: Launch, transport: Transport) -> Outlook:
    """All that `generate` looks at before its first request, and nothing of it written.

    Raises:
        SetupError: Nobody tells of endpoints, no pin means one, or the ledger cannot be read.
    """
    run = launch.run
    found, against = _fitting(launch, await offers(transport, run.model))
    if not (run.out / LEDGER).is_file():
        return Outlook(found, Begun(), tuple(against), ())
    with read_ledger(run.out / LEDGER) as reader:
        totals, known_price = reader.totals(), ledger_meta.price(reader)
        known, now = reader.meta().get("run"), canonical_run(run, launch.surveyed)
        other = list(changes(known, now)) if known is not None else []
        checks: list[Callable[[], object]] = [
            partial(_same_judge, launch, reader),
            partial(refuse_dropped, reader, found),
        ]
        checks += [partial(max, _places(launch, reader, lambda: None), default=None)] if other else []
        for check in checks:
            try:
                check()
            except SetupError as error:
                against.extend(str(error).splitlines())
    other += _rises(known_price, _told(dearest(found)))
    notes = [*other, "`tokenproof generate` will start with --amend only"] if other else []
    return Outlook(found, begun_of(totals), tuple(against), tuple(notes))


def _folder(run: RunFile) -> None:
    try:
        run.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"{run.out} cannot be made: {error.strerror or error}; choose another `out`") from error


def _unchanged(launch: Launch, ledger: Ledger, text: str) -> tuple[str, ...]:
    """How the run differs from the one that the ledger knows; refused where that was not named."""
    known = ledger.meta().get("run")
    found = changes(known, text) if known is not None else ()
    if found and launch.amend is None:
        raise SetupError(
            "\n".join([*found, f"{launch.run.path} is not the run that was begun in {launch.run.out}; {RESTORE}"])
        )
    return found


def _same_judge(launch: Launch, reader: Ledger) -> None:
    """All verdicts of a ledger are of one judge: its last one tells of which."""
    for _, _, packed in reader.latest_verdicts(1):
        if parted := other_hashes(asdict(unpack(packed)[1]), asdict(launch.facts)):
            raise SetupError(f"{reader.path}: judged so far with {parted}; {JUDGE_ANEW}; nothing was asked")


def _begin(
    launch: Launch, ledger: Ledger, reader: Ledger, text: str, price: Price, changed: Sequence[str], now: float
) -> None:
    """Write into the ledger what the run is; a price that rose since it was begun is a change as well."""
    told, meta = _told(price), ledger.meta()
    before = ledger_meta.price(ledger)
    rises = [*_rises(before, told)]
    if rises and launch.amend is None:
        raise SetupError("\n".join([*rises, f"the price rose since the run was begun; {RESTORE}"]))
    name, facts, lies = run_sha256(text), launch.facts, layout(launch.surveyed)
    pairs = zip(launch.run.data_sets, launch.surveyed, strict=True)
    asked = {data.name: asdict(Asked(found.n_prompts, data.tokens)) for data, found in pairs}
    gate = {"ticket_id": facts.ticket_id or "", "ungated": facts.ungated or "", "layout": lies}
    dear = {kind: max(usd, before.get(kind, usd), key=Decimal) for kind, usd in told.items()}
    writes = [w.meta(run=text, run_sha256=name, price=json.dumps(dear), asked=json.dumps(asked), **gate)]
    writes.append(w.datasets(tuple(asked)))
    if (changed or rises) and launch.amend is not None:
        writes.append(w.amended(now, name, "; ".join([launch.amend, *changed, *rises])))
    moved = meta["layout"] != lies if "layout" in meta else bool(changed or ledger.amendments())
    with launch.counting() as tick:
        if moved:
            writes.append(w.placed(_places(launch, reader, tick)))
        ledger.commit(writes)


def _places(launch: Launch, reader: Ledger, tick: Callable[[], None]) -> Iterator[tuple[int, int, int]]:
    """Where the prompts lie now; Ctrl-C ends it, and all of `_begin` with it."""
    task = asyncio.current_task()

    def counted() -> None:
        tick()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError

    every = _prompts(replace(launch, probe=None))
    return places(every, reader, reader.datasets(), counted)


def _rises(before: Mapping[str, str], now: Mapping[str, str], when: str = "when the run was begun") -> Iterator[str]:
    for name, usd in now.items():
        if name in before and Decimal(usd) > Decimal(before[name]):
            yield f"a {name} token or request costs ${usd} today, ${before[name]} {when}"


def _orders(run: RunFile, endpoints: tuple[Endpoint, ...], price: Price, *, amended: bool) -> Orders:
    return Orders(
        model=run.model,
        datasets=tuple(data.name for data in run.data_sets),
        endpoints=endpoints,
        block=dict(run.provider),
        price=price,
        cap_nano=nano_of(run.budget_usd),
        concurrency=run.concurrency,
        targets={data.name: data.tokens for data in run.data_sets if data.tokens is not None},
        max_rejected=run.max_rejected,
        window=run.window,
        amended=amended,
    )


def _prompts(launch: Launch) -> Iterator[Prompt]:
    """All prompts in the order of the run file, or the first of each data set."""
    pairs = zip(launch.run.data_sets, launch.surveyed, strict=True)
    every = (surveyed_prompts(launch.run, data, told, encode_prompt_text) for data, told in pairs)
    return chain.from_iterable(islice(some, launch.probe) for some in every)
