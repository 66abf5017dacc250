"""Ids, or the bytes of single tokens, that a host reported -> the ids themselves, or why they are not believed.

Reported ids are believed only if they are the whole answer: the texts on the wire stand in them, in order, and nothing
else does but control ids, call headers and white space. Knows nothing of readings.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.errors import ProviderError
from harness.formats import Format
from harness.types import Ids, Origin, Turn
from harness.vocab import CONTROL_IDS, Vocab, control_pattern

REPORTED, MATCHED = bytes([Origin.REPORTED]), bytes([Origin.MATCHED])
HEADER = re.compile(r"\s*(?:functions\.)?[\w.\-]+:\d+\s*")


@dataclass(frozen=True, slots=True)
class Report:
    """Ids as reported, and the reason not to believe them ("" where there is none)."""

    ids: Ids
    doubt: str = ""


def reported(turn: Turn, fmt: Format, vocab: Vocab, completion_tokens: int | None, offset: int | None) -> Report | None:
    """What the host said of single tokens; None where it said nothing of all of them.

    Args:
        offset: completion_tokens - ids before the terminator, where the provider's equation is known.
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
    return Report(Ids(row, origin * len(row)), _doubt(row, turn, fmt, vocab, completion_tokens, offset))


def _match(token: bytes, vocab: Vocab) -> int | None:
    ordinary = vocab.find(token)
    return ordinary if ordinary is not None else CONTROL_IDS.get(token.decode("utf-8", "replace"))


def _doubt(
    row: list[int], turn: Turn, fmt: Format, vocab: Vocab, completion_tokens: int | None, offset: int | None
) -> str:
    if not row:
        return "no ids in the report"
    n = len(row) - (row[-1] == fmt.terminator)
    if completion_tokens is not None and not _count_fits(completion_tokens - n, offset):
        return f"{len(row)} ids reported, {completion_tokens} tokens billed"
    if turn.finish_reason == "length" and row[-1] == fmt.terminator:
        return "a cut answer cannot hold its terminator"
    if fmt.terminator in row[:-1]:
        return "the terminator stands before the end"
    return _text_doubt(row, turn, vocab)


def _count_fits(excess: int, offset: int | None) -> bool:
    return excess == offset if offset is not None else excess in (0, 1, 2)


def _pieces(turn: Turn) -> Iterator[tuple[str, bytes]]:
    yield "reasoning", turn.reasoning.encode()
    yield "content", turn.content.encode()
    for k, call in enumerate(turn.tool_calls):
        yield f"tool_calls[{k}].arguments", call.arguments.encode()


def _text_doubt(row: list[int], turn: Turn, vocab: Vocab) -> str:
    try:
        data = vocab.decode(row)
    except ProviderError as error:
        return str(error)
    start, gaps = 0, []
    for where, piece in _pieces(turn):
        at = data.find(piece, start) if piece else start
        if at < 0:
            return f"{where} is not in the decoded ids"
        gaps.append(data[start:at])
        start = at + len(piece)
    gaps.append(data[start:])
    left = "".join(_unexplained(gap) for gap in gaps)
    return f"the ids hold {left[:60]!r}, which is not in the answer" if left else ""


def _unexplained(gap: bytes) -> str:
    """What is left of a gap between two texts without control ids, call headers and white space."""
    parts = control_pattern().split(gap.decode("utf-8", "replace"))
    return "".join(part for part in parts if part.strip() and not HEADER.fullmatch(part))
