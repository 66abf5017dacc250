"""What a provider does to counts, ids, arguments and white space: load, look up, write.

A habit is one trait of one provider with the answers for and against it. A trait without a habit is unknown, and an
unknown trait is never assumed. Knows nothing of single answers; `learn.py` makes habits from evidence.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from harness.errors import SetupError

COUNT_TRAITS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "terminator_sampled": ("yes", "no"),  # does the stack let the model sample its terminator?
        "terminator_billed": ("yes", "no"),  # is it in completion_tokens?
        "think_billed": ("yes", "no"),  # is the prompt's last <think> in completion_tokens?
        "offset": ("0", "1", "2"),  # their sum, where the answers cannot tell the two apart
        "prompt_offset": ("-1", "0", "1"),  # prompt_tokens - ids of the rendered prompt
        "default_system": ("added", "none"),  # is the template's own system message there where none was sent?
    }
)
STYLE_TRAITS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # reasoning_tokens: ids before </think>; through </think>; the same but low for split characters; a guess
        "reasoning_tokens": ("ids", "ids+1", "undercount", "estimate"),
        # call ids: as sampled; sampled with `functions.` in front; numbered anew; invented by the host
        "call_id": ("as-sent", "prefixed", "renumbered", "minted"),
        "call_index": ("kept", "rewritten"),
        "header_edges": ("kept", "lost"),  # white space around a call id
        "arguments": ("as-sent", "spaced", "compact"),  # how they were sampled, whatever came
        "argument_keys": ("kept", "sorted"),
        "argument_types": ("kept", "coerced"),  # values written anew where they miss the declared type
        "argument_edges": ("kept", "lost"),
        "reasoning_start": ("kept", "lost"),
        "reasoning_end": ("kept", "lost"),
        "content_start": ("kept", "lost"),
        "content_end": ("kept", "lost"),
        "spaces": ("none", "inserted"),  # the detokenizer's one space at each side of a control id
        "raw_sections": ("shown", "never"),  # can a sampled tool section reach content as text?
        "section_text": ("dropped", "merged"),  # text within a tool section: gone, or merged into content
        "unclosed_calls": ("shown", "vanish"),  # can a call without its end look like a whole one?
        "lost_text": ("yes", "no"),  # can whole stretches vanish without a trace?
        "swallows_think": ("yes", "no"),  # a <think> sampled again at the start leaves no trace
        "control_ids": ("shown", "vanish"),  # other control ids in text
        "chunks": ("tokens", "merged"),  # do text chunks end on token boundaries?
        "chunks_at_markers": ("tokens", "held"),  # next to a "<" too?
        "chunks_arguments": ("tokens", "merged"),
    }
)
TRAITS: Mapping[str, tuple[str, ...]] = MappingProxyType({**COUNT_TRAITS, **STYLE_TRAITS})

KEY_VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "thinking": ("", "on", "off"),
        "finish": ("", "stop", "tool_calls", "length"),
        "stream": ("", "yes", "no"),
        "tools": ("", "yes", "no"),
        "wire": ("", "spaced", "compact", "mixed"),
        "evidence": ("answers", "table", "engine"),
    }
)
"""Parts of a key that have a closed set of values: a misspelt one would never hold, and nobody would notice."""
MAX_CACHED = 4096

Traits = Mapping[str, str]
"""Trait -> value; a missing key is an unknown trait."""


@dataclass(frozen=True, slots=True)
class Habit:
    """One line of evidence.

    Attributes:
        model, format, thinking, finish, stream, tools: The key; "" is any. `finish` is stop, tool_calls or length;
            `tools` says whether the request offered any, `wire` how the arguments came (spaced, compact).
        n_for, n_against: Answers that speak for it and against it; 0 where a table gave no number.
        first, last: Dates (UTC, YYYY-MM-DD) of the earliest and latest of these answers, "" where not known.
        evidence: "answers" (learned by `tokenproof calibrate`), "table" (a measured table) or "engine" (recorded with
            true ids).
    """

    provider: str
    trait: str
    value: str
    model: str = ""
    format: str = ""
    thinking: Literal["", "on", "off"] = ""
    finish: str = ""
    stream: Literal["", "yes", "no"] = ""
    tools: Literal["", "yes", "no"] = ""
    wire: str = ""
    n_for: int = 0
    n_against: int = 0
    first: str = ""
    last: str = ""
    evidence: str = "answers"

    def __post_init__(self) -> None:
        for name, kind in KEY_VALUES.items():
            if getattr(self, name) not in kind:
                raise SetupError(f"habit of {self.provider!r}: {name} = {getattr(self, name)!r} is not one of {kind}")
        texts = (self.provider, self.trait, self.value, self.model, self.format, self.first, self.last)
        if not self.provider or not all(isinstance(text, str) for text in texts):
            raise SetupError(f"habit of {self.provider!r}: provider, trait, value, model, format and dates are texts")
        if not all(type(n) is int and n >= 0 for n in (self.n_for, self.n_against)):
            raise SetupError(f"habit of {self.provider!r}: n_for and n_against are numbers of answers, from 0")
        allowed = TRAITS.get(self.trait)
        if allowed is None:
            raise SetupError(f"habit of {self.provider!r}: trait {self.trait!r} is not one of {sorted(TRAITS)}")
        if self.value not in allowed:
            raise SetupError(f"habit of {self.provider!r}: {self.trait} = {self.value!r} is not one of {allowed}")

    @property
    def key(self) -> str:
        """Which answers it holds for, in words."""
        told = ((name, getattr(self, name)) for name in ("thinking", "finish", "stream", "tools", "wire"))
        narrowed = [value if name == "finish" else f"{name} {value}" for name, value in told if value]
        return ", ".join([self.model or self.format or "any format", *narrowed])

    def line(self) -> str:
        """This habit as one line of the file."""
        told = ((f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default)
        body = ", ".join(f"{name} = {_toml(value)}" for name, value in told)
        return f"  {{ {body} }},"


def _toml(value: str | int) -> str:
    """A TOML literal; names come from answers, so that any character may stand in them."""
    if isinstance(value, int):
        return str(value)
    escaped = re.sub(r'[\x00-\x1f\x7f"\\]', lambda match: f"\\u{ord(match[0]):04x}", value)
    return f'"{escaped}"'


@dataclass(frozen=True, eq=False)
class Habits:
    """All habits of one file.

    Attributes:
        aliases: Other spellings of a provider (lower case) -> the name used here.
        implies_format: Provider -> format, for recorded stacks that served one model only.
        sha256: Of the file's text.
    """

    lines: tuple[Habit, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    implies_format: Mapping[str, str] = field(default_factory=dict)
    sha256: str = hashlib.sha256(b"").hexdigest()

    @cached_property
    def _by_provider(self) -> dict[str, list[Habit]]:
        table: dict[str, list[Habit]] = {}
        for habit in self.lines:
            table.setdefault(habit.provider.lower(), []).append(habit)
        return table

    @cached_property
    def _cache(self) -> dict[tuple[str | bool, ...], Traits]:
        return {}

    @cached_property
    def _names(self) -> dict[str, str]:
        return {}

    def provider_name(self, spelling: str | None) -> str | None:
        """The one name of a provider: `OR/Moonshot AI` and `moonshot ai` are `Moonshot AI`; None for none."""
        if not spelling:
            return None
        name = self._names.get(spelling)
        if name is None:
            if len(self._names) >= MAX_CACHED:
                self._names.clear()
            name = self._names[spelling] = self._name(spelling)
        return name or None

    def _name(self, spelling: str) -> str:
        bare = re.sub(r"^OR/", "", spelling.strip(), flags=re.IGNORECASE).strip()
        known = self._by_provider.get(bare.lower())
        return self.aliases.get(bare.lower()) or (known[0].provider if known else bare)

    def traits(
        self,
        provider: str | None,
        *,
        model: str,
        format: str,
        thinking: bool,
        finish: str,
        stream: bool,
        tools: bool,
        wire: str = "",
    ) -> Traits:
        """The known traits for one key; of several lines the one with the narrowest key holds."""
        key = (provider or "", model, format, thinking, finish, stream, tools, wire)
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= MAX_CACHED:  # names come from answers: there may be as many as there are lines
                self._cache.clear()
            known = self._by_provider.get((provider or "").lower(), ())
            asked = {
                "model": model,
                "format": format,
                "thinking": "on" if thinking else "off",
                "finish": finish,
                "stream": "yes" if stream else "no",
                "tools": "yes" if tools else "no",
                "wire": wire,
            }
            found = self._cache[key] = MappingProxyType(_resolve(known, asked))
        return found


WEIGHT = {"model": 64, "format": 32, "thinking": 16, "finish": 8, "stream": 4, "tools": 2, "wire": 1}


def _resolve(lines: Iterable[Habit], asked: Mapping[str, str]) -> dict[str, str]:
    """The value of each trait at the narrowest key that has one; none where lines of that key contradict each other."""
    best: dict[str, tuple[int, str]] = {}
    for habit in lines:
        if habit.trait in COUNT_TRAITS and not (habit.model or habit.format):
            continue  # traits of the count never cross formats
        if any(getattr(habit, k) not in ("", asked[k]) for k in WEIGHT):
            continue
        weight = sum(w for k, w in WEIGHT.items() if getattr(habit, k))
        held, value = best.get(habit.trait, (-1, ""))
        if weight > held:
            best[habit.trait] = (weight, habit.value)
        elif weight == held and value != habit.value:
            best[habit.trait] = (weight, "")
    total = best.get("offset", (-1, ""))[0]
    for part in ("terminator_billed", "think_billed"):
        if best.get(part, (total, ""))[0] < total:
            del best[part]  # the sum was learned for a narrower key: this part is of another stack
    return {trait: value for trait, (_, value) in best.items() if value}


def load_habits(text: str) -> Habits:
    """Habits from the text of a habits file.

    Raises:
        SetupError: The text is no TOML, or a line has an unknown key, trait or value.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"habits file is no TOML ({error!s:.200}); see harness/habits.toml for its form") from error
    unknown = set(table) - {"habits", "aliases", "implies_format"}
    if unknown:
        raise SetupError(f"habits file has unknown tables {sorted(unknown)}; known: aliases, habits, implies_format")
    for name, kind in (("habits", list), ("aliases", dict), ("implies_format", dict)):
        if not isinstance(table.get(name, kind()), kind):
            raise SetupError(f"habits file: {name} is {type(table[name]).__name__}, expected {kind.__name__}")
    lines = tuple(_habit(row) for row in table.get("habits", []))
    return Habits(
        lines,
        {k.lower(): str(v) for k, v in table.get("aliases", {}).items()},
        dict(table.get("implies_format", {})),
        hashlib.sha256(text.encode()).hexdigest(),
    )


def _habit(row: Any) -> Habit:
    if not isinstance(row, dict):
        raise SetupError(f"habit {row!r} is no table of trait, value and key")
    try:
        return Habit(**row)
    except TypeError as error:
        known = ", ".join(f.name for f in fields(Habit))
        raise SetupError(f"habit {row!r}: {error}; the keys are {known}") from error


def dump_habits(habits: Habits, *, header: str = "") -> str:
    """The text of a habits file: one line a habit, sorted, so that a change is a one-line diff."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    aliases = "".join(f"{_toml(k)} = {_toml(v)}\n" for k, v in sorted(habits.aliases.items()))
    implied = "".join(f"{_toml(k)} = {_toml(v)}\n" for k, v in sorted(habits.implies_format.items()))
    order = sorted(habits.lines, key=lambda h: (h.provider.lower(), h.evidence, h.model, h.format, h.trait, h.line()))
    body = "".join(habit.line() + "\n" for habit in order)
    return f"{comment}habits = [\n{body}]\n\n[aliases]\n{aliases}\n[implies_format]\n{implied}"
