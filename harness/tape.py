"""A tape between any HTTP client and the network: it plays a recording, or takes one.

The owner of vcrpy, which is told to match on method, URL and canonical body, to play each interaction once, and to
write nothing itself: what was taken comes as values, already scrubbed, and whole or not at all. A request that no
interaction answers is a MissError that names the nearest one; the tape remembers it too, for clients that swallow
errors.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vcr.cassette import Cassette  # type: ignore[import-untyped]
from vcr.patch import force_reset  # type: ignore[import-untyped]
from vcr.record_mode import RecordMode  # type: ignore[import-untyped]
from vcr.request import Request  # type: ignore[import-untyped]
from vcr.util import read_body  # type: ignore[import-untyped]

from harness.cassette import unpacked
from harness.errors import SetupError
from harness.inputs import Unusable
from harness.matching import Sent, nearest, same, sent
from harness.recording import Interaction, Recording, complaints
from harness.scrub import Scrubber


class MissError(SetupError):
    """A request that no recorded interaction answers, or that was played already."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What stands in front of the network while a tape records; both take the request as it was sent.

    Attributes:
        admit: Called before it leaves, perhaps more than once, with a token of the request; raises to stop it.
        settle: Called with the same token and the reply.
    """

    admit: Callable[[int, Sent], None] = lambda token, asked: None
    settle: Callable[[int, Sent, Interaction], None] = lambda token, asked, reply: None


@dataclass(slots=True)
class Tape:
    """What goes over one tape.

    Attributes:
        recording: What is played; None while recording.
        taken: What was recorded, scrubbed; `removed` says of each what went.
        misses: Every request that found no answer.
        plays: How often each interaction of the recording was played.
    """

    recording: Recording | None
    scrubber: Scrubber
    gate: Gate = field(default_factory=Gate)
    taken: list[Interaction] = field(default_factory=list)
    removed: list[tuple[str, ...]] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    plays: list[int] = field(default_factory=list)
    seen: dict[int, Any] = field(default_factory=dict, repr=False)  # keeps requests alive: their id() is the token

    def complaints(self) -> tuple[str, ...]:
        """What did not go as recorded: misses, and interactions that nobody asked for; () for a clean play."""
        found = self.recording.interactions if self.recording else ()
        unplayed = [
            f"interaction {k} ({one.method} {one.uri}) was never asked for"
            for k, (one, n) in enumerate(zip(found, self.plays, strict=True), 1)
            if not n
        ]
        return (*self.misses, *unplayed)

    def miss(self, asked: Sent) -> MissError:
        """Says which recorded request is nearest and where it differs, and remembers that."""
        assert self.recording is not None
        known = [sent(one) for one in self.recording.interactions]
        what = f"no recording for {asked.method} {asked.uri} in {self.recording.path or 'the cassette'}"
        again = [k for k, one in enumerate(known, 1) if same(one, asked)]
        near = nearest(asked, known)
        if again:
            said = f"{what}: interaction {again[-1]} was played already, and each is played once"
        elif near is None:
            said = f"{what}, which holds nothing"
        else:
            said = f"{what}; nearest is interaction {near[0] + 1}, which differs in {near[1]}"
        self.misses.append(said)
        return MissError(f"{said}; record it again with --record if the request changed on purpose")

    # what vcrpy asks of a persister
    def load_cassette(self, path: str, serializer: Any) -> tuple[list[Any], list[Any]]:
        """The recording as vcrpy's requests and responses."""
        found = self.recording.interactions if self.recording else ()
        return [_request(one) for one in found], [_response(one) for one in found]

    def save_cassette(self, path: str, cassette_dict: Any, serializer: Any) -> None:
        """Nothing: what was taken is written by who knows where it belongs."""


class _Deck(Cassette):  # type: ignore[misc] # vcrpy has no types
    """vcrpy's cassette with our matching, our errors and our scrubbing."""

    @property
    def tape(self) -> Tape:
        tape: Tape = self._persister
        return tape

    def can_play_response_for(self, request: Any) -> bool:
        asked = _asked(request)
        if self.tape.recording is None:
            self.tape.seen[id(request)] = request
            self.tape.gate.admit(id(request), asked)
            return False
        if not super().can_play_response_for(request):
            clean = Sent(asked.method, self.tape.scrubber.uri(asked.uri, []), _clean(self.tape, asked.body))
            raise self.tape.miss(clean)
        return True

    def play_response(self, request: Any) -> Any:
        response = super().play_response(request)
        self.tape.plays[:] = [self.play_counts[k] for k in range(len(self.data))]
        return response

    def append(self, request: Any, response: Any) -> None:
        if self.tape.recording is not None:
            super().append(request, response)
            return
        asked = _asked(request)
        reply = _interaction(request, asked, response)
        self.tape.gate.settle(id(request), asked, reply)
        clean, removed = self.tape.scrubber.interaction(reply)
        self.tape.taken.append(clean)
        self.tape.removed.append(removed)


@contextmanager
def playing(recording: Recording, known: Collection[str] = ()) -> Iterator[Tape]:
    """Within it every HTTP request of this process is answered from the recording, or fails.

    Raises:
        SetupError: Its bytes are not those that were recorded.
    """
    wrong = complaints(recording)
    if wrong:
        raise SetupError(f"{recording.path}: {'; '.join(wrong)}; the cassette was edited, record it again")
    if odd := _unplayable(recording):
        raise SetupError(f"{recording.path}: no HTTP reply has {odd}; record it again")
    tape = Tape(recording, Scrubber(known), plays=[0] * len(recording.interactions))
    with _deck(tape, recording.path, RecordMode.NONE):
        yield tape


@contextmanager
def taking(known: Collection[str] = (), gate: Gate | None = None) -> Iterator[Tape]:
    """Within it requests go out and what comes is taken, without what is secret; `known` are secrets in use."""
    tape = Tape(None, Scrubber(known), gate or Gate())
    with _deck(tape, "", RecordMode.ALL):
        yield tape


def _unplayable(recording: Recording) -> str:
    """What of a reply no client could have been sent, "" for nothing."""
    for one in recording.interactions:
        if not 100 <= one.status <= 599:
            return f"the status {one.status}"
        texts = (one.reason, *one.headers, *(value for values in one.headers.values() for value in values))
        if odd := [text for text in texts if not (text.isascii() and text.replace("\t", " ").isprintable())]:
            return f"the text {odd[0]!r:.60} in its head"
    return ""


@contextmanager
def past() -> Iterator[None]:
    """Within it clients reach the network past every tape: for price lists, which belong on none."""
    with force_reset():
        yield


@contextmanager
def _deck(tape: Tape, path: str, mode: Any) -> Iterator[None]:
    def clean(request: Any) -> Any:
        asked = _asked(request)
        return Request(request.method, tape.scrubber.uri(asked.uri, []), _clean(tape, asked.body), request.headers)

    def matches(asked: Any, recorded: Any) -> bool:
        return same(_asked(recorded), _asked(asked))

    with _Deck.use(
        path=path or "(recording)",
        persister=tape,
        record_mode=mode,
        match_on=(matches,),
        before_record_request=clean,
        allow_playback_repeats=False,
    ):
        yield


def _clean(tape: Tape, body: bytes) -> bytes:
    return tape.scrubber.body(body, "request.body", [])


def _asked(request: Any) -> Sent:
    body = read_body(request) or b""
    return Sent(request.method, request.uri, body.encode() if isinstance(body, str) else bytes(body))


def _interaction(request: Any, asked: Sent, response: Any) -> Interaction:
    status, headers = response["status"], _lists(response["headers"])
    try:
        body = unpacked(response["body"]["string"] or b"", headers)
    except Unusable as error:
        raise SetupError(f"the reply cannot be recorded: {error}") from error
    kept = {name: values for name, values in headers.items() if name != "content-encoding"}
    sent_headers = {name.lower(): [str(value)] for name, value in request.headers.items()}
    reason = str(status.get("message") or "")
    reason = reason if reason.isascii() and reason.isprintable() else ""
    return Interaction(asked.method, asked.uri, asked.body, status["code"], body, sent_headers, kept, reason)


def _lists(headers: Any) -> dict[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers.items():
        found.setdefault(str(name).lower(), []).extend(map(str, value if isinstance(value, list | tuple) else [value]))
    return dict(found)


def _request(one: Interaction) -> Any:
    return Request(one.method, one.uri, one.request_body, {k: list(v) for k, v in one.request_headers.items()})


def _response(one: Interaction) -> dict[str, Any]:
    headers = {name: list(values) for name, values in one.headers.items()}
    return {"status": {"code": one.status, "message": one.reason}, "headers": headers, "body": {"string": one.body}}
