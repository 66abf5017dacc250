"""Ids, or the bytes of single tokens, that a host reported -> the ids themselves, or why they are not believed.

Literal decoding is no test: stacks drop and strip. Where the stack is known, the answer on the wire must be what its
transformations make of the ids. Where it is not, reasoning, content and arguments must each stand in the decoded ids,
in order, and no other text may but tool sections and white space. Knows nothing of readings.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.errors import ProviderError
from harness.formats import Format
from harness.types import Ids, Origin, ToolCall, Turn
from harness.vocab import CONTROL_IDS, Vocab, control_pattern

HEADERS = re.compile(r"<\|tool_call_begin\|>[^<]*?\d+\s*<\|tool_call_argument_begin\|>")
BARE_HEADER = re.compile(r"<\|tool_call_begin\|>\s*\d+\s*<\|tool_call_argument_begin\|>")
BELIEVED_WITH_IDS = frozenset(
    {
        "minted-id",
        "keys-sorted",
        "keys-maybe-sorted",
        "value-maybe-coerced",
        "all-reasoning",
        "no-reasoning",
        "replacement-character",
        "marker-in-call",
        "text-behind-calls",
        "channels-interleaved",
    }
)
"""Fatal findings that only say that text is not enough."""
REPORTED, MATCHED = bytes([Origin.REPORTED]), bytes([Origin.MATCHED])

Replayed = tuple[str, str, tuple[ToolCall, ...], str]
"""(reasoning, content, calls, finish_reason) that a known stack makes of ids."""
Replay = Callable[[list[int]], Replayed]


@dataclass(frozen=True, slots=True)
class Report:
    """Ids as reported, and the reason not to believe them ("" where there is none)."""

    ids: Ids
    doubt: str = ""


def reported(
    turn: Turn, fmt: Format, vocab: Vocab, completion_tokens: int | None, offset: int | None, replay: Replay | None
) -> Report | None:
    """What the host said of single tokens; None where it said nothing of all of them.

    Args:
        offset: completion_tokens - ids before the terminator, where the provider's equation is known.
        replay: What the provider's stack makes of ids, where that is known.
    """
    told = turn.reported
    if told is None:
        return None
    if told.ids is not None:
        row, origin = list(told.ids), REPORTED
    else:
        matched = None if told.token_bytes is None else [_match(b, vocab) for b in told.token_bytes]
        if matched is None or any(i is None for i in matched):
            return None  # bytes of split characters are wrong at some hosts: no report, not a contradiction
        row, origin = [i for i in matched if i is not None], MATCHED
    doubt = _count_doubt(row, turn, fmt, completion_tokens, offset) or _text_doubt(row, turn, fmt, vocab, replay)
    return Report(Ids(row, origin * len(row)), doubt)


def _match(token: bytes, vocab: Vocab) -> int | None:
    ordinary = vocab.find(token)
    return ordinary if ordinary is not None else CONTROL_IDS.get(token.decode("utf-8", "replace"))


def _count_doubt(row: list[int], turn: Turn, fmt: Format, completion_tokens: int | None, offset: int | None) -> str:
    if not row:
        return "no ids in the report"
    ended = row[-1] == fmt.terminator
    if turn.finish_reason == "length" and ended:
        return "a cut answer cannot hold its terminator"
    if fmt.terminator in row[:-1]:
        return "the terminator stands before the end"
    complete = ended or turn.finish_reason == "length"  # else the bill may hold a terminator that was not reported
    expected = len(row) - ended + offset if complete and offset is not None else len(row)
    if completion_tokens is not None and completion_tokens != expected:
        return f"{len(row)} ids reported, {completion_tokens} tokens billed"
    closed = bool(turn.tool_calls) and row[-1] in (fmt.section_end, fmt.call_end)  # some hosts stop at a section's end
    if turn.finish_reason in ("stop", "tool_calls") and not ended and not closed:
        return "the answer stopped by itself and its terminator is not among the ids"
    return ""


def _text_doubt(row: list[int], turn: Turn, fmt: Format, vocab: Vocab, replay: Replay | None) -> str:
    try:
        vocab.decode(row)
    except ProviderError as error:
        return str(error)
    if replay is not None:
        return _replay_doubt(replay(row), turn)
    doubts = [_order_doubt(decoded, turn) for decoded in _spellings(row, fmt, vocab)]
    return "" if "" in doubts else doubts[0]


def _replay_doubt(made: Replayed, turn: Turn) -> str:
    calls = [(c.name, c.arguments) for c in made[2]]
    pairs = (
        ("reasoning", made[0], turn.reasoning),
        ("content", made[1], turn.content),
        ("tool_calls", calls, [(c.name, c.arguments) for c in turn.tool_calls]),
        ("finish_reason", made[3], turn.finish_reason),
    )
    for where, expected, came in pairs:
        if expected != came:
            return f"{where}: the stack would make {str(expected)[:60]!r} of these ids, {str(came)[:60]!r} came"
    return ""


# --- stacks that are not known ----------------------------------------------------------------------


def _spellings(row: list[int], fmt: Format, vocab: Vocab) -> Iterator[tuple[str, str]]:
    """(decoded text, the same without its tool sections) with control ids as names, and with some or all left out."""
    section = _without_sections(row, fmt)
    spells = (
        vocab.control_name,
        lambda i: "" if i == fmt.think_close else vocab.control_name(i),  # a second one is cut out at some hosts
        lambda _: "",
    )
    for spell in spells:
        yield _decoded(row, vocab, spell), _decoded(section, vocab, spell)


def _without_sections(row: list[int], fmt: Format) -> list[int]:
    out, inside = [], False
    for i in row:
        inside = inside or i in (fmt.section_begin, fmt.call_begin)
        if not inside:
            out.append(i)
        inside = inside and i != fmt.section_end
    return out


def _decoded(row: list[int], vocab: Vocab, spell: Callable[[int], str]) -> str:
    parts = (spell(i).encode() if vocab.is_control(i) else vocab.token_bytes(i) for i in row)
    return b"".join(parts).decode("utf-8", "replace")


def _order_doubt(decoded: tuple[str, str], turn: Turn) -> str:
    """Whether the texts stand in the decoded ids, in order, with nothing between them that should have come."""
    whole, outside = decoded
    texts = [("reasoning", turn.reasoning), ("content", turn.content)]
    for k, call in enumerate(turn.tool_calls):
        named = call.name if call.name in whole or not BARE_HEADER.search(whole) else ""  # some hosts find a name
        texts += [(f"tool_calls[{k}].name", named), (f"tool_calls[{k}].arguments", call.arguments)]
    doubt, _ = _found(whole, texts)
    if doubt:
        return doubt
    if len(HEADERS.findall(whole)) < len(turn.tool_calls) and "<|tool_call_begin|>" in whole:
        return "tool_calls: the ids do not hold a whole header for each call"
    shown = "<|tool_call" in turn.reasoning + turn.content  # sections that came as text were not dropped
    _, gaps = _found(whole if shown else outside, texts[:2])
    left = "".join(_unexplained(gap) for gap in gaps)
    return f"the ids hold {left[:60]!r}, which is not in the answer" if left else ""


def _found(decoded: str, texts: list[tuple[str, str]]) -> tuple[str, list[str]]:
    start = 0
    gaps: list[str] = []
    for where, text in texts:
        at, size = _place(decoded, text, start)
        if at < 0:
            return f"{where} is not in the decoded ids", gaps
        gaps.append(decoded[start:at])
        start = at + size
    return "", [*gaps, decoded[start:]]


def _place(decoded: str, text: str, start: int) -> tuple[int, int]:
    """Where a text stands: as it came, or without the one space that detokenizers put at each side of control ids.

    A space taken off must not be there in the ids: then it was the model's, and stood elsewhere.
    """
    at = decoded.find(text, start)
    if at >= 0:
        return at, len(text)
    inner = re.sub(f" ?({control_pattern().pattern}) ?", r"\1", text)
    form = inner.removeprefix(" ").removesuffix(" ")
    at = decoded.find(form, start)
    led = inner.startswith(" ") and " " in decoded[start:at]
    trailed = inner.endswith(" ") and decoded[at + len(form) : at + len(form) + 1].isspace()
    return (-1, 0) if led or trailed else (at, len(form))


def _unexplained(gap: str) -> str:
    """What is left of a gap between two texts without control ids and white space."""
    parts = control_pattern().split(gap)
    return "".join(part for part in parts if part.strip())
