"""What an answer shows of its provider, a name an aspect: the table by which recordings are compared.

On the level of `flow`. Names and values are those of habits where habits have the trait. Knows nothing of comparing.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from harness.calls import id_style
from harness.json_keys import keys_sorted, wire_style
from harness.learn import Evidence
from harness.markers import marker_names
from harness.sightings import Sighting
from harness.vocab import control_pattern


class Aspect(NamedTuple):
    """One thing that an answer shows.

    Attributes:
        value: What the answer shows, in the words of habits where there are some; None where it cannot tell.
        touches_ids: Whether a change of it can change which ids an answer stands for.
        proofs: Beginnings of values of which one answer is proof, because no model writes them.
        exact: What two answers that say the same are compared by; None: the value.
    """

    value: Callable[[Sighting], str | None]
    touches_ids: bool = True
    proofs: tuple[str, ...] = ()
    exact: Callable[[Sighting], str | None] | None = None


def _call_id(s: Sighting) -> str | None:
    styles = {id_style(call) for call in s.turn.tool_calls} if s.turn else set()
    return "+".join(sorted(styles)) or None


def _indexes(s: Sighting) -> list[int] | None:
    """The index in each call's id; None where one has none."""
    calls = s.turn.tool_calls if s.turn else ()
    found = [re.search(r"(\d{1,9})$", call.id) for call in calls if id_style(call) != "minted"]
    return [int(match[1]) for match in found if match] if found and len(found) == len(calls) and all(found) else None


def _call_index(s: Sighting) -> str | None:
    """An index that no host would have counted proves that it came through; the others may be the host's or not."""
    told = _indexes(s)
    if told is None:
        return None
    counts = [list(range(start, start + len(told))) for start in {0, s.history_calls}]
    return "counted" if told in counts else "kept"


def _told_indexes(s: Sighting) -> str | None:
    told = _indexes(s)
    return None if told is None else str(told)


def _edge(channel: str, at: int) -> Callable[[Sighting], str | None]:
    """Whether white space arrived at an edge; what leaked there, and a section that came as text, are not looked at."""

    def edge(s: Sighting) -> str | None:
        text = control_pattern().sub("", getattr(s.turn, channel)) if s.turn and not s.turn.shows_section else ""
        return ("kept" if text[at].isspace() else "lost") if text.strip() else None

    return edge


def _raw_section(s: Sighting) -> str | None:
    if s.turn is None:
        return None
    return "shown" if s.turn.shows_section else "parsed" if s.turn.tool_calls else None


def _leaks(s: Sighting) -> str | None:
    """Names of control tokens in the text, but those of the prompt (an answer may quote them) and of raw sections."""
    if s.turn is None:
        return None
    names = set(marker_names(s.turn.reasoning)) | set(marker_names(s.turn.content))
    own = {n for n in names if n not in s.request and not (s.turn.shows_section and n.startswith("<|tool_call"))}
    return "shown: " + " ".join(sorted(own)) if own else "none"


def _split(trait: str) -> Callable[[Sighting], str | None]:
    def split(s: Sighting) -> str | None:
        if s.evidence is None or trait not in s.evidence.split:
            return None
        return "within tokens" if s.evidence.split[trait] else "tokens"

    return split


def _of_evidence(read: Callable[[Evidence], str | None]) -> Callable[[Sighting], str | None]:
    return lambda s: None if s.evidence is None else read(s.evidence)


def _counted_reasoning(e: Evidence) -> str | None:
    if e.reasoning_excess is None:
        return None
    return {0: "ids", 1: "ids+1"}.get(e.reasoning_excess, "other")


def _told_reasoning(s: Sighting) -> str | None:
    """The number itself: a text that lost a blank has another count, and its host may count as before."""
    told = s.turn.usage.reasoning_tokens if s.turn and s.turn.usage else None
    return None if told is None else str(told)


def _spaces(e: Evidence) -> str | None:
    return None if e.edge_spaces is None else "inserted" if e.edge_spaces else "none"


def _wire(s: Sighting) -> str | None:
    return wire_style(call.arguments for call in s.turn.tool_calls) or None if s.turn else None


def _keys(s: Sighting) -> str | None:
    told = {keys_sorted(call.arguments) for call in s.turn.tool_calls} - {None} if s.turn else set()
    return ("kept" if False in told else "sorted") if told else None


def _calls_finish(s: Sighting) -> str | None:
    return (s.turn.finish_reason or "none") if s.turn and s.turn.tool_calls else None


ASPECTS: Mapping[str, Aspect] = MappingProxyType(
    {
        "answered": Aspect(lambda s: s.trouble or "answer", touches_ids=False, proofs=("error", "no answer")),
        "provider": Aspect(lambda s: s.provider or None),
        "model": Aspect(lambda s: s.model or None),
        "finish_of_calls": Aspect(_calls_finish),
        "call_id": Aspect(_call_id, proofs=("minted",)),
        "call_index": Aspect(_call_index, exact=_told_indexes),
        "arguments": Aspect(_wire),
        "argument_keys": Aspect(_keys),
        "reasoning_start": Aspect(_edge("reasoning", 0)),
        "reasoning_end": Aspect(_edge("reasoning", -1)),
        "content_start": Aspect(_edge("content", 0)),
        "content_end": Aspect(_edge("content", -1)),
        "reasoning_tokens": Aspect(_of_evidence(_counted_reasoning), exact=_told_reasoning),
        "spaces": Aspect(_of_evidence(_spaces)),
        "raw_sections": Aspect(_raw_section, proofs=("shown",)),
        "control_ids": Aspect(_leaks, proofs=("shown",)),
        "chunks": Aspect(_split("chunks")),
        "chunks_arguments": Aspect(_split("chunks_arguments")),
    }
)
"""By their names; those of habits where habits have the trait."""
