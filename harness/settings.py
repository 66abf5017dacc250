"""What the environment says, read once and in one place.

Knows nothing of what the settings are for.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Settings:
    """Flags of a command go before these.

    Attributes:
        habits: TOKENPROOF_HABITS, a habits file instead of the shipped one; None where unset.
        vocab: TOKENPROOF_VOCAB, a `tiktoken.model` file or a local Hugging Face folder; None for splintr's ranks.
        api_key: OPENROUTER_API_KEY; never shown.
        base_url: TOKENPROOF_BASE_URL, in place of OpenRouter's own.
        shared: TOKENPROOF_SHARED, the optional folder of extra recordings.
        colour: False with NO_COLOR, True with FORCE_COLOR, None to ask the terminal.
    """

    habits: str | None = None
    vocab: str | None = None
    colour: bool | None = None
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    shared: str | None = None


def settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings that `environ` holds; an empty variable counts as unset."""
    colour = False if environ.get("NO_COLOR") else True if environ.get("FORCE_COLOR") else None
    return Settings(
        environ.get("TOKENPROOF_HABITS") or None,
        environ.get("TOKENPROOF_VOCAB") or None,
        colour,
        environ.get("OPENROUTER_API_KEY") or None,
        environ.get("TOKENPROOF_BASE_URL") or None,
        environ.get("TOKENPROOF_SHARED") or None,
    )


def child_environment(
    without: Collection[str] = (), *, prefix: str = "OPENROUTER_API_KEY", environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment for a process of ours: without these names, those that begin with `prefix`, and the API key."""
    gone = {*without, "OPENROUTER_API_KEY"}
    return {name: value for name, value in environ.items() if name not in gone and not name.startswith(prefix)}
