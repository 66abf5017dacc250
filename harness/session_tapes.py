"""Cassettes in a test session: which one a test has in use, played or recorded, and what must hold when it ends.

The work behind the fixtures of `plugin`; imported when the first test asks for one. Knows nothing of pytest.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from harness.cassette_files import cassette_path, read_recording
from harness.catalog import Endpoint, pinned
from harness.client import HttpxTransport
from harness.errors import HarnessError, SetupError
from harness.matching import Sent
from harness.record import CHAT, gate, keep, kind_of, offers, wrong_answer
from harness.recording import Interaction, Provenance, Recording
from harness.response import loads
from harness.sockets import only_loopback, open_network
from harness.spending import Meter, usd
from harness.tape import Gate, Tape, past, playing, taking
from harness.transport import Target

PLAYED_KEY = "played-from-a-cassette"


@dataclass(slots=True)
class Use:
    """One cassette in use by one test.

    Attributes:
        recording: What is played; None while recording.
        target: Where a client is to call, with which key: as recorded, or as the settings say.
        problems: What did not go as recorded; looked at after a test that passed.
        finish: Run after a test that passed, before problems are looked at.
    """

    name: str
    path: Path
    target: Target
    tape: Tape
    recording: Recording | None = None
    blocked: list[str] = field(default_factory=list)
    finish: Callable[[], None] = lambda: None

    def problems(self) -> tuple[str, ...]:
        """Misses, interactions nobody asked for, and places that something wanted to reach."""
        away = tuple(f"something reached for {host}, past the cassette" for host in self.blocked)
        return (*self.tape.complaints(), *away)


@dataclass(slots=True)
class Tolls:
    """Prices and the budget of a session that records or goes live.

    Attributes:
        rows: A line for every cassette that was written.
    """

    target: Target
    meter: Meter
    rows: list[str] = field(default_factory=list)
    _listed: dict[str, tuple[Endpoint, ...]] = field(default_factory=dict)

    def gate(self) -> Gate:
        """Stands before the network: nothing unpinned, nothing that the budget could not bear."""
        return gate(self.meter, self.endpoint)

    def endpoint(self, asked: Sent) -> Endpoint:
        """The one endpoint that a chat request is pinned to.

        Raises:
            SetupError: It could be answered by another.
        """
        try:
            request = loads(asked.body)
        except HarnessError as error:
            raise SetupError(f"a request that is no JSON cannot be pinned or priced: {error}") from error
        block = request.get("provider") if isinstance(request, dict) else None
        block = block if isinstance(block, dict) else {}
        only = block.get("only")
        if not asked.uri.startswith(self.target.base_url + CHAT):
            raise SetupError(f"POST {asked.uri}; expected {self.target.base_url}{CHAT}, the only path with a price")
        if not isinstance(only, list) or len(only) != 1 or block.get("allow_fallbacks") is not False:
            raise SetupError(
                "the request is not pinned; expected `provider` with `only` of one endpoint and `allow_fallbacks` false"
            )
        found = pinned(only, self._offers(str(request.get("model"))), block.get("quantizations") or ())
        if len(found) != 1:
            raise SetupError(f"{only[0]!r} means {', '.join(e.tag for e in found)}; pin one of them")
        return found[0]

    def _offers(self, model: str) -> tuple[Endpoint, ...]:
        if model not in self._listed:
            self._listed[model] = _in_a_thread(self.target, model)
        return self._listed[model]

    def said(self) -> str:
        """What it cost, for the end of the session."""
        return f"cost ${usd(self.meter.committed)} of ${usd(self.meter.budget)}"


def _in_a_thread(target: Target, model: str) -> tuple[Endpoint, ...]:
    """The listing, from wherever this is called: a loop may be running here."""
    found: list[tuple[Endpoint, ...]] = []
    failed: list[HarnessError] = []

    async def ask() -> tuple[Endpoint, ...]:
        transport = HttpxTransport(target)
        try:
            return await offers(transport, model)
        finally:
            await transport.close()

    def work() -> None:
        try:
            found.append(asyncio.run(ask()))
        except HarnessError as error:
            failed.append(error)

    with past():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    if failed:
        raise failed[0]
    return found[0]


@contextmanager
def played(folder: Path, name: str) -> Iterator[Use]:
    """The cassette plays, and nothing else answers."""
    path = cassette_path(folder, name)
    recording = read_recording(path)
    with ExitStack() as stack:
        blocked = stack.enter_context(only_loopback())
        tape = stack.enter_context(playing(recording))
        yield Use(name, path, Target(base_of(recording), PLAYED_KEY), tape, recording, blocked)


def base_of(recording: Recording) -> str:
    """The base URL that its requests went to."""
    uri = recording.interactions[0].uri if recording.interactions else ""
    return recording.provenance.base_url or uri.partition(CHAT)[0]


@contextmanager
def recorded(folder: Path, name: str, tolls: Tolls) -> Iterator[Use]:
    """Requests go out; after a test that passed the cassette is written, whole."""
    path = cassette_path(folder, name)
    known = (tolls.target.key,) if tolls.target.key else ()
    if path.exists() and tolls.target.is_loopback and _is_live(path):
        raise SetupError(f"{path} was recorded live; what answers on loopback never replaces that")
    before = tolls.meter.committed
    with open_network(), taking(known, tolls.gate()) as tape:
        use = Use(name, path, tolls.target, tape)

        def finish() -> None:
            cost = tolls.meter.committed - before
            keep(path, tape, _provenance(use, tolls, cost), known)
            tolls.rows.append(f"recorded {name}: {len(tape.taken)} interactions, ${usd(cost)}")

        use.finish = finish
        yield use


@contextmanager
def live(tolls: Tolls) -> Iterator[Target]:
    """Requests go out within the budget, and nothing is kept."""
    known = (tolls.target.key,) if tolls.target.key else ()
    with open_network(), taking(known, tolls.gate()):
        yield tolls.target


def _is_live(path: Path) -> bool:
    try:
        return read_recording(path).provenance.is_live
    except SetupError:
        return False


def _provenance(use: Use, tolls: Tolls, cost: Decimal) -> Provenance:
    """Of what a test recorded: one endpoint, which answered itself and has the folder's name."""
    asked = [one for one in use.tape.taken if one.method.upper() == "POST"]
    if not asked:
        raise SetupError(f"{use.name}: the test sent no chat request; nothing was recorded")
    ends = {_answered(use, one, tolls) for one in asked}
    if len(ends) != 1:
        raise SetupError(f"{use.name}: answers of {', '.join(sorted(e.tag for e in ends))}; a cassette holds one's")
    end = ends.pop()
    folder, _, scenario = use.name.partition("/")
    if folder != end.slug:
        raise SetupError(
            f"{use.name}: the requests are pinned to {end.tag}; expected the cassette {end.slug}/{scenario}"
        )
    model = str(loads(asked[0].request_body)["model"])
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    where = tolls.target
    return Provenance(
        kind_of(where), at, where.base_url, model, scenario, end.tag, end.provider_name, end.quantization, f"{cost:f}"
    )


def _answered(use: Use, one: Interaction, tolls: Tolls) -> Endpoint:
    end = tolls.endpoint(Sent(one.method, one.uri, one.request_body))
    if one.status == 200:
        wrong = wrong_answer(one.body, end, str(loads(one.request_body).get("model")))
        if wrong:
            raise SetupError(f"{use.name}: {wrong}; not written")
    return end
