"""What is asked of every provider: the text of scenarios.toml -> scenarios, and a scenario + a pin -> a request body.

A scenario states `max_tokens`, so that its price has a bound before it is sent. Pure.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from harness.catalog import Endpoint, provider_block
from harness.errors import SetupError

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
MAX_SCENARIOS = 500
KINDS: Mapping[str, type | tuple[type, ...]] = MappingProxyType(
    {
        "messages": list,
        "max_tokens": int,
        "stream": bool,
        "tools": list,
        "tool_choice": (str, dict),
        "reasoning": dict,
        "parallel_tool_calls": bool,
        "logprobs": bool,
        "top_logprobs": int,
        "temperature": (int, float),
        "top_p": (int, float),
        "seed": int,
        "stop": list,
        "response_format": dict,
    }
)
"""Members of a request that a scenario may state; `model` and `provider` are put in."""
NEEDED = ("messages", "max_tokens")
NOT_PARAMETERS = frozenset({"messages", "model", "provider", "stream"})


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to ask.

    Attributes:
        why: What it is there to show.
        request: The body, without model and provider.
    """

    name: str
    why: str
    request: Mapping[str, Any]

    def body(self, model: str, endpoint: Endpoint) -> bytes:
        """The request that only this endpoint may answer."""
        quantizations = [endpoint.quantization] if endpoint.quantization not in ("", "unknown") else []
        block = provider_block([endpoint.tag], quantizations)
        return json.dumps({"model": model, **self.request, "provider": block}, ensure_ascii=False).encode()

    def lacking(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Parameters of it that the endpoint does not offer: with `require_parameters` it would answer 404."""
        offered = endpoint.supported_parameters
        return tuple(sorted(set(self.request) - NOT_PARAMETERS - offered)) if offered else ()


@dataclass(frozen=True, slots=True)
class Scenarios:
    """A file of them."""

    model: str
    scenarios: tuple[Scenario, ...]

    def picked(self, names: Sequence[str]) -> tuple[Scenario, ...]:
        """Those of these names, all for none.

        Raises:
            SetupError: For a name that none has.
        """
        known = {s.name: s for s in self.scenarios}
        for name in names:
            if name not in known:
                raise SetupError(f"no scenario {name!r}; scenarios: {', '.join(known)}")
        return tuple(known[name] for name in dict.fromkeys(names)) if names else self.scenarios


def scenarios_of(text: str) -> Scenarios:
    """The scenarios that a file states.

    Raises:
        SetupError: It is no such file; says which scenario and which member.
    """
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"no readable TOML: {error}") from None
    model, listed, tools = value.get("model"), value.get("scenario"), value.get("tools", {})
    if not isinstance(model, str) or not model or not isinstance(listed, list) or not isinstance(tools, dict):
        raise SetupError(
            "no file of scenarios; expected `model = ...` and `[[scenario]]` tables, perhaps `[tools.NAME]`"
        )
    if not 0 < len(listed) <= MAX_SCENARIOS:
        raise SetupError(f"{len(listed)} scenarios; expected 1 to {MAX_SCENARIOS}")
    found = tuple(_scenario(number, item, tools) for number, item in enumerate(listed, 1))
    names = [s.name for s in found]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise SetupError(f"two scenarios are called {twice[0]!r}; a name is a file's name")
    return Scenarios(model, found)


def _scenario(number: int, item: Any, tools: Mapping[str, Any]) -> Scenario:
    fields = dict(item) if isinstance(item, dict) else {}
    name, why = fields.pop("name", None), fields.pop("why", "")
    if not isinstance(name, str) or not NAME.fullmatch(name) or not isinstance(why, str):
        raise SetupError(f"scenario {number} has the name {name!r:.60}; expected letters a-z, digits, `-` and `.`")
    for member, given in fields.items():
        kind = KINDS.get(member)
        if kind is None or not isinstance(given, kind) or (isinstance(given, bool) and kind is not bool):
            wanted = f"one of {', '.join(KINDS)}" if kind is None else f"another kind of value than {given!r:.40}"
            raise SetupError(f"scenario {name}: `{member}`; expected {wanted}")
    if lacking := [member for member in NEEDED if not fields.get(member)]:
        raise SetupError(f"scenario {name}: no `{lacking[0]}`; expected messages and a bound on the answer's length")
    if fields["max_tokens"] < 1 or not all(isinstance(m, dict) and m.get("role") for m in fields["messages"]):
        raise SetupError(f"scenario {name}: max_tokens of at least 1 and messages with a `role` were expected")
    if "tools" in fields:
        fields["tools"] = [_tool(name, tool, tools) for tool in fields["tools"]]
    return Scenario(name, why, MappingProxyType(fields))


def _tool(name: str, tool: Any, tools: Mapping[str, Any]) -> dict[str, Any]:
    declared = tools.get(tool) if isinstance(tool, str) else None
    if not isinstance(declared, dict):
        raise SetupError(f"scenario {name}: the tool {tool!r:.60} is not declared; expected a table [tools.NAME]")
    return {"type": "function", "function": {"name": tool, **declared}}
