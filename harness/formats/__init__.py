"""Formats: what a model family writes around its text. One TOML file a family, loaded and validated here.

Adding a family is adding a file and its name to FILES. Knows nothing of providers, and not what an answer holds.
"""

import pkgutil
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Literal, get_args

from harness.errors import SetupError
from harness.vocab import CONTROL_IDS

FILES = ("kimi-k2.5.toml", "kimi-k2-thinking.toml", "kimi-k2.toml")
MAX_MODEL_CHARS = 200
"""A longer model id is no model id."""
VARIANTS = frozenset({"exacto", "free", "nitro", "floor", "online", "extended", "cloud"})
"""What hosts append after a colon and what leaves the format alone. Any other suffix is another model."""

RELEASES = {"kimi-k2": "-0711"}
"""Which release a name without a date means, where a later one bears the same name: that one is another model."""
_NUMBER = re.compile(r"(?<=\d)[p_-](?=\d(?!\d))")  # kimi-k2p5, kimi-k2-5
_SERVED = re.compile(
    r"(?:moonshot(?:ai)?\.)?(?P<name>.+?)(?P<date>-\d{4}|-\d{6}|-\d{8})?(?:-preview)?"
    r"(?:-(?:turbo|fast|highspeed|free|tee|maas|fp4|fp8|nvfp4|int4))*"
)
"""A bare model id: the model, its date, how a host runs it."""

Think = Literal["prompt", "sampled", "none"]
ToolDeclaration = Literal["json", "typescript"]
TOKENS = (
    "think_open",
    "think_close",
    "section_begin",
    "section_end",
    "call_begin",
    "argument_begin",
    "call_end",
    "terminator",
)


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """One model family.

    Attributes:
        name: What verdicts call it; also the name of its file.
        models: Patterns over bare model ids (`base_model`), case-insensitive, full match.
        think: Who writes `<think>`: the prompt, the model ("sampled"), or nobody ("none").
        thinking_modes: The modes that the family has; True is thinking on.
        think_open ... terminator: Control ids by their use.
        markers: The seven think and tool control ids by name, in the order of their ids.
        id_prefix: What the id of a call begins with; NAME:IDX follows.
        prompt_end: For each thinking mode the control names and texts with which a prompt ends.
        default_system: The system text that the template adds where a request has none; None: it adds none.
        tool_declaration: The form in which tools are declared.
        history_think: Whether earlier assistant turns are rendered with an empty think pair.
        blank_free: Edges at which the family was never seen to write white space, over enough answers of enough hosts
            that some would have shown it ("content_start"). What a host might strip there is not there to be stripped.
    """

    name: str
    models: tuple[str, ...]
    think: Think
    thinking_modes: tuple[bool, ...]
    think_open: int
    think_close: int
    section_begin: int
    section_end: int
    call_begin: int
    argument_begin: int
    call_end: int
    terminator: int
    markers: Mapping[str, int]
    id_prefix: str
    prompt_end: Mapping[bool, tuple[str, ...]]
    default_system: str | None
    tool_declaration: ToolDeclaration
    history_think: bool
    blank_free: tuple[str, ...] = ()


_KEYS = {
    "name": str,
    "models": list,
    "think": str,
    "id_prefix": str,
    "default_system": str,
    "tool_declaration": str,
    "history_think": bool,
    "tokens": dict,
    "prompt_end": dict,
    "blank_free": list,
}
_OPTIONAL = {"default_system", "blank_free"}
EDGES = (
    "reasoning_start",
    "reasoning_end",
    "content_start",
    "content_end",
    "argument_edges",
    "argument_inner",
    "header_edges",
    "section_text",
)
_MODES = {"on": True, "off": False}


def parse_format(text: str) -> Format:
    """The format that a TOML text describes; every key is checked, and none is ignored.

    Raises:
        SetupError: Not TOML, a key too many or too few, a control token that is none.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"a format is not TOML: {error}") from None
    where = f"format {raw.get('name', '?')!r}"
    _check_keys(where, raw, set(_KEYS), set(_KEYS) - _OPTIONAL)
    for key, kind in _KEYS.items():
        if key in raw and not isinstance(raw[key], kind):
            raise SetupError(f"{where}: {key} is {raw[key]!r}, expected {kind.__name__}")
    _check_keys(f"{where}, [tokens]", raw["tokens"], set(TOKENS), set(TOKENS))
    ids = {use: _control_id(f"{where}, [tokens] {use}", name) for use, name in raw["tokens"].items()}
    if len(set(ids.values())) != len(TOKENS):
        raise SetupError(f"{where}: two of [tokens] are one control token")
    prompt_end = _prompt_end(where, raw["prompt_end"])
    marked = sorted((i, raw["tokens"][use]) for use, i in ids.items() if use != "terminator")
    return Format(
        name=raw["name"],
        models=tuple(_pattern(where, p) for p in raw["models"]),
        think=_one_of(where, "think", raw["think"], get_args(Think)),
        thinking_modes=tuple(prompt_end),
        markers=MappingProxyType({name: i for i, name in marked}),
        id_prefix=raw["id_prefix"],
        prompt_end=prompt_end,
        default_system=raw.get("default_system"),
        tool_declaration=_one_of(where, "tool_declaration", raw["tool_declaration"], get_args(ToolDeclaration)),
        history_think=raw["history_think"],
        blank_free=tuple(_one_of(where, "blank_free", edge, EDGES) for edge in raw.get("blank_free", ())),
        **ids,
    )


@cache
def formats() -> tuple[Format, ...]:
    """The formats that ship with the package."""
    texts = (pkgutil.get_data(__name__, file) for file in FILES)
    return tuple(parse_format((text or b"").decode()) for text in texts)


def find_format(model: str | None, known: Sequence[Format]) -> Format | None:
    """The format that a model id belongs to; None where no format, or more than one, covers it."""
    bare = base_model(model) if model else None
    found = [f for f in known if bare and _covers(f.models, bare)]
    return found[0] if len(found) == 1 else None


def base_model(model: str) -> str | None:
    """A model id without the organisations in front of it and the host's variant behind it, in lower case.

    `accounts/fireworks/models/kimi-k2p6` -> `kimi-k2p6`; `moonshotai/kimi-k2-0905:exacto` -> `kimi-k2-0905`.
    None where what stands behind the colon is not known to leave the format alone.
    """
    if len(model) > MAX_MODEL_CHARS or not model.isascii():  # a look-alike letter is another name
        return None
    bare, colon, variant = model.strip().lower().rpartition("/")[2].partition(":")
    return bare if not colon or variant in VARIANTS else None


def same_model(asked: str, answered: str) -> bool:
    """Whether the model that answered is the one that was asked, by their names.

    Organisations, a host's variant and its way to run the model say nothing; a date is told where only one name has it.

    >>> same_model("moonshotai/kimi-k2.5", "Kimi-K2.5-0127"), same_model("moonshotai/kimi-k2.5", "moonshotai/kimi-k2.6")
    (True, False)
    """
    one, other = _plain_name(asked), _plain_name(answered)
    if one is None or other is None:
        return asked == answered
    return one[0] == other[0] and other[1] in (one[1], one[1] or other[1])


@lru_cache(maxsize=1024)
def _plain_name(model: str) -> tuple[str, str] | None:
    """(name, date) of a model, "" where it has none; None for what is no model id."""
    found = _SERVED.fullmatch(_NUMBER.sub(".", (base_model(model) or "").replace("-instruct", "")))
    name, date = found.group("name", "date") if found else ("", None)
    return (name, date or RELEASES.get(name, "")) if name else None


@lru_cache(maxsize=1024)
def _covers(patterns: tuple[str, ...], bare: str) -> bool:
    return any(_compiled(p).fullmatch(bare) for p in patterns)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


def _check_keys(where: str, table: Mapping[str, Any], known: set[str], needed: set[str]) -> None:
    wrong = (set(table) - known) | (needed - set(table))
    if wrong:
        raise SetupError(f"{where}: {sorted(wrong)} unknown or missing; the keys are {sorted(known)}")


def _control_id(where: str, name: Any) -> int:
    if not isinstance(name, str) or name not in CONTROL_IDS:
        raise SetupError(f"{where}: {name!r} is no control token of the vocabulary")
    return CONTROL_IDS[name]


def _prompt_end(where: str, table: Mapping[str, Any]) -> Mapping[bool, tuple[str, ...]]:
    _check_keys(f"{where}, [prompt_end]", table, set(_MODES), set())
    for mode, parts in table.items():
        if not parts or not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise SetupError(f"{where}, [prompt_end]: {mode} is {parts!r}, expected control names and texts")
    if not table:
        raise SetupError(f"{where}, [prompt_end]: no mode given; the modes are {sorted(_MODES)}")
    return MappingProxyType({value: tuple(table[mode]) for mode, value in _MODES.items() if mode in table})


def _one_of(where: str, key: str, value: str, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise SetupError(f"{where}: {key} is {value!r}, expected one of {list(known)}")
    return value


def _pattern(where: str, pattern: Any) -> str:
    try:
        return _compiled(pattern).pattern
    except (re.error, TypeError) as error:
        raise SetupError(f"{where}: {pattern!r} is no pattern: {error}") from None
