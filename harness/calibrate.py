"""Answers -> evidence of what their providers do: each answer read in every way that the count could tell apart.

On the level of `flow`: it uses the stages, and `learn` makes habits of what it finds. Reads no file.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product

from harness import checks, ids, readings, stream
from harness.asked import same_provider, thinking_of
from harness.checks import Case
from harness.errors import ProviderError
from harness.flow import Kit, completion_tokens, find_answer_format
from harness.formats import Format
from harness.json_keys import keys_sorted, wire_style
from harness.learn import Evidence, Way
from harness.markers import marker_names
from harness.response import parse
from harness.types import Exchange, Reading, Segment, Turn

UNCOUNTABLE = frozenset(
    {
        "no-finish",
        "unknown-finish",
        "cut-in-call",
        "cut-unsaid",
        "stop-strings",
        "calls-lost",
        "thinks-although-off",
        "all-reasoning",
        "replacement-character",
        "marker-in-call",
        "marker-in-text",
        "gateway-edits",
        "long-run",
        "sealed",
        "zero-bill",
    }
)
"""Findings after which the number of ids proves nothing about the provider."""

PLAIN: Mapping[str, str] = {"terminator_sampled": "no", "spaces": "none"} | {
    f"{channel}_{side}": "kept" for channel in ("reasoning", "content") for side in ("start", "end")
}


def evidence(exchange: Exchange, kit: Kit) -> Evidence | None:
    """What one answer can say about its provider; None where it can say nothing (an error, no provider, no format)."""
    try:
        turn = parse(exchange.response)
    except ProviderError:
        return None
    provider = kit.habits.provider_name(exchange.provider or turn.provider)
    fmt = find_answer_format(exchange.model or turn.model, turn.model, provider, kit)
    if provider is None or fmt is None:
        return None
    thinking = thinking_of(exchange)
    modes = readings.modes(turn, fmt, thinking)
    tokens, _ = completion_tokens(turn.usage)
    found = checks.check(Case(turn, fmt, thinking, {}, exchange.request, provider, same_provider, tokens))
    named = any(marker_names(text) for text in (turn.reasoning, turn.content))  # [EOS] is no finding
    if len(modes) != 1 or named or any(f.code in UNCOUNTABLE for f in found):
        return None
    return Evidence(
        provider=provider,
        model=exchange.model or turn.model or fmt.name,
        format=fmt.name,
        thinking=modes[0],
        finish="length" if turn.finish_reason == "length" else "tool_calls" if turn.tool_calls else "stop",
        date=_date(turn.created),
        thinks_in_prompt=fmt.think == "prompt" and modes[0],
        excess={} if tokens is None else dict(_excess(turn, fmt, modes[0], kit, tokens)),
        split=dict(_splits(turn, kit)),
        told_edges=frozenset(_told_edges(turn, kit)),
        reasoning_excess=_reasoning_excess(turn, fmt, kit),
        keys_unsorted=_keys_unsorted(turn),
        edge_spaces=_edge_spaces(turn, fmt, modes[0]),
        wire=wire_style(call.arguments for call in turn.tool_calls),
    )


def _ways(turn: Turn) -> Iterator[Way]:
    if turn.tool_calls:
        yield from (Way(*row) for row in product(("as-sent", "spaced", "compact"), ("as-sent", "prefixed", "minted")))
    else:
        yield Way("as-sent", "as-sent")


def _excess(turn: Turn, fmt: Format, mode: bool, kit: Kit, tokens: int) -> Iterator[tuple[Way, int]]:
    for way in _ways(turn):
        traits = {**PLAIN, **way._asdict()}
        rows = readings.readings(turn, fmt, mode, traits)
        if rows:
            yield way, tokens - len(ids.build(_as_streamed(rows[0], turn, kit), kit.encode).ids)


def _as_streamed(reading: Reading, turn: Turn, kit: Kit) -> Reading:
    """The reading with arguments split as the stream split them: grammars make models sample them oddly."""
    split = stream.chunkwise(reading, turn, {"chunks_arguments": "tokens"}, kit.encode, kit.vocab.ranks)
    return split or reading


def _splits(turn: Turn, kit: Kit) -> Iterator[tuple[str, bool]]:
    """Per kind of channel, whether a chunk ended inside a canonical id; nothing where no boundary can speak."""
    texts = {"reasoning": turn.reasoning, "content": turn.content}
    texts |= {f"call:{k}": call.arguments for k, call in enumerate(turn.tool_calls)}
    reading = Reading(tuple(Segment(text=text, channel=channel) for channel, text in texts.items()))
    found: dict[str, list[bool]] = {}
    for row in stream.laid(reading, turn, {"chunks": "tokens", "chunks_arguments": "tokens"}):
        if row.bounds:
            trait = "chunks_arguments" if row.segment.channel.startswith("call:") else "chunks"
            found.setdefault(trait, []).append(bool(stream.violated(row, kit.encode, kit.vocab.ranks)))
    for trait, cuts in found.items():
        yield trait, any(cuts)


def _told_edges(turn: Turn, kit: Kit) -> Iterator[str]:
    """Edges that speak for being kept: those at which white space arrived.

    That none was ever there proves nothing: a host that strips (vLLM, before `</think>`) looks the same, until `.\\n`
    comes as `.`, one id each. Only the end of a content also speaks by a bill that lost white space would have changed:
    models are free to write it there, and seldom do where it can be seen.
    """
    for channel, text in (("reasoning", turn.reasoning), ("content", turn.content)):
        if text[:1].isspace():
            yield f"{channel}_start"
        if text[-1:].isspace() or (channel == "content" and text and not ids.open_trail(text, kit.encode)):
            yield f"{channel}_end"


def _date(created: int | float | None) -> str:
    """The day (UTC) of a Unix time; "" where there is none, or where it is in other units."""
    try:
        return datetime.fromtimestamp(created, UTC).date().isoformat() if created else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _reasoning_excess(turn: Turn, fmt: Format, kit: Kit) -> int | None:
    """reasoning_tokens - ids before `</think>`, a `<think>` that the model sampled among them."""
    told = turn.usage.reasoning_tokens if turn.usage else None
    if told is None or not turn.reasoning:
        return None
    return told - len(kit.encode(turn.reasoning)) - (fmt.think == "sampled")


def _edge_spaces(turn: Turn, fmt: Format, mode: bool) -> bool | None:
    """Detokenizers that put a space at each side of a control id do so everywhere: at starts and at inner ends."""
    rows = readings.readings(turn, fmt, mode, PLAIN)
    if not rows:
        return None
    row = rows[0].segments
    texts = [(k, s) for k, s in enumerate(row) if s.control < 0 and s.channel in ("reasoning", "content") and s.text]
    edges = [s.text[0] == " " for _, s in texts] + [s.text[-1] == " " for k, s in texts if k < len(row) - 1]
    return all(edges) if edges else None


def _keys_unsorted(turn: Turn) -> bool | None:
    told = [row for row in (keys_sorted(call.arguments) for call in turn.tool_calls) if row is not None]
    return not all(told) if told else None
