"""What a known engine makes of ids: the presets that recordings were held to, as one function for `exact`.

On the level of `flow`. Loads the presets at first use, since most answers carry no ids.
"""

from collections.abc import Mapping
from typing import Any

from harness.exact import Replay, Replayed
from harness.vocab import Vocab

ENGINES = frozenset({"vllm-0.32", "sglang-0.5.23"})


def replay_of(provider: str | None, request: Mapping[str, Any], thinking: bool, vocab: Vocab) -> Replay | None:
    """The engine's transformation for this request; None for any other provider, and for what no engine answers."""
    if provider not in ENGINES or not request:
        return None
    from harness.chat_request import wrong
    from harness.presets import answer, find_preset

    if wrong({"model": provider, **request}):
        return None

    preset = find_preset(provider)

    def replay(ids: list[int]) -> Replayed:
        made = answer(ids, request, thinking, preset, vocab.token_bytes)
        return made.reasoning, made.content, made.calls, made.finish_reason

    return replay
