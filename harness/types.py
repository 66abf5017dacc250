"""One frozen type per arrow of the sentence; every other module speaks in these.

Knows nothing of files, providers or tokenizers. Imports nothing of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

Encode = Callable[[str], list[int]]
"""Ordinary text -> ids; can never give a control id."""

VerdictName = Literal["exact", "verified", "unverified", "rejected"]


class Origin(IntEnum):
    """Where an id came from; an `Ids` keeps one byte an id."""

    REPORTED = 0  # the host sent the id
    MATCHED = 1  # the host sent the token's bytes; one vocabulary entry has them
    TEMPLATE = 2  # a control id that the format fixes
    CANONICAL = 3  # text encoded by us, the witnesses agree
    INFERRED = 4  # several values are possible: context only, loss mask 0


ORIGIN_NAMES = tuple(o.name.lower() for o in Origin)
_MASK = bytes(int(o != Origin.INFERRED) for o in range(256))  # by the byte of an origin


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came back.

    Attributes:
        name: What reports call it.
        response: A body as bytes (JSON or SSE), or what a JSON parser made of it: an object, or the list of SSE events.
        request: The body sent, {} where unknown.
        provider, model: As the file says; None leaves it to the response.
        thinking: The line's own switch; None leaves it to the request.
    """

    name: str
    response: bytes | dict[str, Any] | list[Any]
    request: Mapping[str, Any] = field(default_factory=dict)
    provider: str | None = None
    model: str | None = None
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A parsed call as it came; `id` is "" where none came, `arguments` is the string byte for byte."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The bill, in tokens; `cost` in USD. None: not said."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """What a host said about single tokens. Each part is None where it did not come whole.

    Attributes:
        ids: Output ids, first to last, shape [T].
        token_bytes: Each token's bytes from logprob entries, shape [T].
        prompt_ids: Ids of the prompt, shape [P].
    """

    ids: tuple[int, ...] | None = None
    token_bytes: tuple[bytes, ...] | None = None
    prompt_ids: tuple[int, ...] | None = None


SECTION = "<|tool_calls_section_begin|>"


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer, whatever its framing was.

    Attributes:
        reasoning, content: Text of the two channels, "" where nothing came.
        tool_calls: In the order of their index.
        finish_reason: As sent; None where none came.
        created: Unix time in seconds, None where not said.
        chunks: For a stream, the non-empty texts of each channel as they came; channels are "reasoning", "content"
            and "call:K" (arguments of call K). None for a whole body.
        order: Channels of a stream in the order in which they were entered ("call" for any call); () for a whole body.
        interludes: For a stream, the content that came after call K, a text a call; `content` ends with these texts. ()
            where none came.
        reported: Single-token reports, None where the host sent none.
        sealed: True where reasoning came encrypted or summarised, so that its text is not what was sampled.
        id: What the host calls this generation, None where not said.
    """

    reasoning: str
    content: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str | None
    native_finish_reason: str | None = None
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None
    created: int | None = None
    chunks: Mapping[str, tuple[str, ...]] | None = None
    order: tuple[str, ...] = ()
    interludes: tuple[str, ...] = ()
    reported: Reported | None = None
    sealed: bool = False
    id: str | None = None

    @property
    def shows_section(self) -> bool:
        """Whether a tool section came as text, unparsed."""
        return SECTION in self.content or SECTION in self.reasoning


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of model output: one control id, or one text.

    Attributes:
        control: The control id, -1 for text.
        text: The text, "" for a control id.
        lead, trail: True where white space may have been lost at that edge of the text, so that ids which it would have
            changed without changing their number are INFERRED.
        inferred: True where the whole segment stands for something that did not reach the wire.
        chunks: Where given, the text is encoded chunk by chunk: the non-canonical split that a stream showed.
        channel: "reasoning", "content", "call:K", "header:K" or "" for what the template fixes.
        masked_tail: Ids at the end that are INFERRED whatever the edge (a call index that the host may have written).
        alternates: Texts that may have been sampled in its stead (other orders of keys): where their ids differ, the
            ids are INFERRED, and where their number does, the length is not certain.
        lookalikes: Texts that may have been sampled in its stead and have another count, as a rule; where one has the
            same, the ids that differ are INFERRED.
    """

    control: int = -1
    text: str = ""
    lead: bool = False
    trail: bool = False
    inferred: bool = False
    chunks: tuple[str, ...] | None = None
    channel: str = ""
    masked_tail: int = 0
    alternates: tuple[str, ...] = ()
    lookalikes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """One way in which the answer can have been sampled.

    Attributes:
        rank: 0 where every assumption is a trait; 1 where the model did one rare thing.
        assumptions: Names, in the order of the answer.
        own_witness: The witnesses that must all speak for a rank 1 reading beside the bill.
        rival: Why the reading is never believed and only stands against others: "trait" (another value of an unknown
            trait), "spelled" (a marker in ordinary ids) or "malformed" (a section that breaks the grammar); "" for
            none.
    """

    segments: tuple[Segment, ...]
    rank: int = 0
    assumptions: tuple[str, ...] = ()
    own_witness: tuple[str, ...] = ()
    rival: Literal["", "trait", "spelled", "malformed"] = ""


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids [T] and one Origin byte an id [T]; `ambiguous` says why the length is not certain, "" where it is."""

    ids: list[int]
    origins: bytes
    ambiguous: str = ""


@dataclass(frozen=True, slots=True)
class Testimony:
    """What one witness says of one reading: supports, contradicts or silent, and why."""

    witness: str
    says: Literal["supports", "contradicts", "silent"]
    reason: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a check saw. `fatal` findings reject the answer; the others are tags."""

    code: str
    where: str
    text: str
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer stands for and how sure that is.

    Attributes:
        ids: Output ids [T], [] unless accepted; loss_mask [T] is 0 where the origin is INFERRED.
        premise: "count" where only the count and text spoke, "none" where tokens were seen singly; None unless
            accepted.
        prompt: Whether the prompt that the host read is the one rendered.
        n_readings: Readings that were tried.
    """

    name: VerdictName
    ids: Ids = field(default_factory=lambda: Ids([], b""))
    assumptions: tuple[str, ...] = ()
    witnesses: tuple[Testimony, ...] = ()
    findings: tuple[Finding, ...] = ()
    premise: Literal["count", "none"] | None = None
    truncated: bool = False
    format: str | None = None
    thinking: bool | None = None
    provider: str | None = None
    model: str | None = None
    completion_tokens: int | None = None
    prompt: Literal["verified", "unverified", "contradicted"] = "unverified"
    n_readings: int = 0

    @property
    def accepted(self) -> bool:
        """True where the ids may be trained on."""
        return self.name in ("exact", "verified")

    @property
    def loss_mask(self) -> list[int]:
        """1 where the id may be trained on, shape [T]."""
        return list(self.ids.origins.translate(_MASK))
