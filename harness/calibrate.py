"""Answers -> evidence of what their providers do: each answer read in every way that the count could tell apart.

On the level of `flow`: it uses the stages, and `learn` makes habits of what it finds. Reads no file.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product

from harness import checks, ids, readings, witnesses
from harness.asked import asked_thinking
from harness.calls import id_style
from harness.checks import Case
from harness.errors import ProviderError
from harness.flow import Kit, completion_tokens, find_answer_format, same_provider
from harness.formats import Format
from harness.learn import Evidence, Way
from harness.response import parse
from harness.types import Exchange, Reading, Turn

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
        "long-run",
        "sealed",
        "zero-bill",
    }
)
"""Findings after which the number of ids proves nothing about the provider."""

PLAIN: Mapping[str, str] = {"terminator_sampled": "no"} | {
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
    thinking = exchange.thinking if exchange.thinking is not None else asked_thinking(exchange.request)
    modes = readings.modes(turn, fmt, thinking)
    found = checks.check(Case(turn, fmt, thinking, {}, exchange.request, provider, same_provider))
    if len(modes) != 1 or any(f.code in UNCOUNTABLE for f in found):
        return None
    tokens, _ = completion_tokens(turn.usage)
    return Evidence(
        provider=provider,
        model=exchange.model or turn.model or fmt.name,
        format=fmt.name,
        thinking=modes[0],
        finish="length" if turn.finish_reason == "length" else "tool_calls" if turn.tool_calls else "stop",
        date=datetime.fromtimestamp(turn.created, UTC).date().isoformat() if turn.created else "",
        thinks_in_prompt=fmt.think == "prompt" and modes[0],
        excess={} if tokens is None else dict(_excess(turn, fmt, modes[0], kit, tokens)),
        split=dict(_splits(turn, kit)),
        told_edges=frozenset(_told_edges(turn, kit)),
        reasoning_excess=_reasoning_excess(turn, kit),
        keys_unsorted=_keys_unsorted(turn),
    )


def _ways(turn: Turn) -> Iterator[Way]:
    arguments = ("as-sent", "spaced", "compact") if turn.tool_calls else ("as-sent",)
    styles = {id_style(call) for call in turn.tool_calls}
    ids_as = ("as-sent", "prefixed") if styles - {"native", "minted"} else ("as-sent", "minted")[: 1 + bool(styles)]
    spaced = any(t[:1] == " " or t[-1:] == " " for t in (turn.reasoning, turn.content))
    for row in product(arguments, ids_as, ("none", "inserted")[: 1 + spaced]):
        yield Way(*row)


def _excess(turn: Turn, fmt: Format, mode: bool, kit: Kit, tokens: int) -> Iterator[tuple[Way, int]]:
    for way in _ways(turn):
        traits = {**PLAIN, **way._asdict()}
        rows = readings.readings(turn, fmt, mode, traits)
        if rows:
            yield way, tokens - len(ids.build(_as_streamed(rows[0], turn, kit), kit.encode).ids)


def _as_streamed(reading: Reading, turn: Turn, kit: Kit) -> Reading:
    """The reading with arguments split as the stream split them: grammars make models sample them oddly."""
    split = witnesses.chunkwise(reading, turn, {"chunks_arguments": "tokens"}, kit.encode, kit.vocab.ranks)
    return split or reading


def _splits(turn: Turn, kit: Kit) -> Iterator[tuple[str, bool]]:
    found: dict[str, list[bool]] = {}
    for channel, pieces in (turn.chunks or {}).items():
        text = "".join(pieces)
        bounds = witnesses.chunk_bounds(pieces, text)
        if bounds:
            trait = "chunks_arguments" if channel.startswith("call:") else "chunks"
            cut = witnesses.violated((text,), bounds, kit.encode, kit.vocab.ranks)
            found.setdefault(trait, []).append(bool(cut))
    for trait, cuts in found.items():
        yield trait, any(cuts)


def _told_edges(turn: Turn, kit: Kit) -> Iterator[str]:
    for channel, text in (("reasoning", turn.reasoning), ("content", turn.content)):
        if text and not ids.open_lead(text, kit.encode):
            yield f"{channel}_start"
        if text and not ids.open_trail(text, kit.encode):
            yield f"{channel}_end"


def _reasoning_excess(turn: Turn, kit: Kit) -> int | None:
    told = turn.usage.reasoning_tokens if turn.usage else None
    return None if told is None or not turn.reasoning else told - len(kit.encode(turn.reasoning))


def _keys_unsorted(turn: Turn) -> bool | None:
    rows = [keys for keys in (checks.KEY.findall(call.arguments) for call in turn.tool_calls) if len(keys) > 1]
    return any(keys != sorted(keys) for keys in rows) if rows else None
