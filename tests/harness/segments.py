"""Readings as text, for the tests of the stages that make them."""

from collections.abc import Iterable

from harness.types import Reading, Segment
from harness.vocab import CONTROL_NAMES, N_RANKS


def short(control: int) -> str:
    """`call_end` for `<|tool_call_end|>`, `/think` for `</think>`."""
    return CONTROL_NAMES[control - N_RANKS].strip("<|>").removeprefix("tool_")


def shown(segments: Iterable[Segment]) -> str:
    """Segments as text; control ids by a short name, what is masked whole behind a ~."""
    return "".join("~" * s.inferred + (s.text if s.control < 0 else f"<{short(s.control)}>") for s in segments)


def told(readings: Iterable[Reading]) -> list[tuple[str, tuple[str, ...], str]]:
    """(text, assumptions, rival) of each reading."""
    return [(shown(r.segments), r.assumptions, r.rival) for r in readings]
