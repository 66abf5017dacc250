"""The keys of a run file: what may stand under each. Tables alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType
from typing import Any

Holds = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Key:
    """One key: which values may stand there, in code and in words, and what holds where it is left out.

    Attributes:
        members: Of a table that stands there; none other may.
    """

    holds: Holds
    expected: str
    default: Any = None
    required: bool = False
    members: "Mapping[str, Key] | None" = None


def _is_number(value: Any) -> bool:
    return isfinite(value) if type(value) is float else type(value) is int and -(2**63) <= value < 2**63


def _number(low: float, high: float) -> Holds:
    return lambda value: _is_number(value) and low <= value <= high


def _whole(low: int, high: int = 2**53) -> Holds:
    return lambda value: type(value) is int and low <= value <= high


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_text, value))


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _table(value: Any) -> bool:
    return isinstance(value, dict)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_table, value))


def _some(value: Any) -> bool:
    return _table(value) and bool(value)


RUN: Mapping[str, Key] = MappingProxyType(
    {
        "model": Key(_text, "a model id such as moonshotai/kimi-k2.5", required=True),
        "thinking": Key(_flag, "true or false"),
        "max_tokens": Key(_whole(1, 1_000_000), "the longest answer in tokens, from 1", required=True),
        "budget_usd": Key(
            lambda value: _is_number(value) and value > 0, "the most that may be spent, in USD", required=True
        ),
        "out": Key(_text, "the folder of the ledger and the samples", required=True),
        "concurrency": Key(_whole(1, 4096), "requests in flight, 1 to 4096", 64),
        "ticket": Key(_text, "the path of a ticket of `tokenproof gate`"),
        "base_url": Key(_text, "a base URL such as https://openrouter.ai/api/v1"),
        "sampling": Key(_table, "a table", MappingProxyType({})),
        "provider": Key(_table, "a table that names the providers: only = [...]", MappingProxyType({}), required=True),
        "quality": Key(_table, "a table", MappingProxyType({})),
        "data": Key(_tables, "a data set or more, each under [[data]]", (), required=True),
    }
)
DATA: Mapping[str, Key] = MappingProxyType(
    {
        "path": Key(_text, "a file of prompts, JSONL (.gz) or Parquet", required=True),
        "name": Key(_text, "a name; without one the file's is taken"),
        "limit": Key(_whole(1), "the number of prompts to take, from 1"),
        "tokens": Key(_whole(1), "completion tokens after which to stop, from 1"),
        "ignore": Key(_texts, "names of columns that say nothing of the prompt", ()),
    }
)
SAMPLING: Mapping[str, Key] = MappingProxyType(
    {
        "temperature": Key(_number(0, 2), "a number from 0 to 2"),
        "top_p": Key(_number(0, 1), "a number from 0 to 1"),
        "min_p": Key(_number(0, 1), "a number from 0 to 1"),
        "top_k": Key(_whole(0, 200_000), "a whole number from 0"),
        "seed": Key(_whole(0), "a whole number from 0"),
        "frequency_penalty": Key(_number(-2, 2), "a number from -2 to 2"),
        "presence_penalty": Key(_number(-2, 2), "a number from -2 to 2"),
        "repetition_penalty": Key(_number(0, 2), "a number from 0 to 2"),
        "logprobs": Key(_flag, "true or false"),
        "top_logprobs": Key(_whole(0, 20), "a whole number from 0 to 20"),
    }
)
"""Members of a request; `stop` is not among them, since what it cuts off is lost."""
MAX_PRICE: Mapping[str, Key] = MappingProxyType(
    {
        name: Key(_number(0, 2**53), f"USD {unit}, a number from 0")
        for name, unit in (
            ("prompt", "a million tokens"),
            ("completion", "a million tokens"),
            ("request", "a request"),
            ("image", "an image"),
            ("audio", "a million tokens"),
        )
    }
)
PROVIDER: Mapping[str, Key] = MappingProxyType(
    {
        "only": Key(_texts, 'tags or slugs, such as ["siliconflow/int4"]'),
        "order": Key(_texts, 'tags or slugs, such as ["siliconflow/int4"]'),
        "ignore": Key(_texts, "tags or slugs"),
        "allow_fallbacks": Key(_flag, "true or false"),
        "quantizations": Key(_texts, 'names such as ["int4"]'),
        "require_parameters": Key(_flag, "true or false"),
        "data_collection": Key(lambda value: value in ("allow", "deny"), "allow or deny"),
        "zdr": Key(_flag, "true or false"),
        "enforce_distillable_text": Key(_flag, "true or false"),
        "max_price": Key(_some, "a table of prices such as { completion = 3.0 }", members=MAX_PRICE),
        "sort": Key(lambda value: value in ("price", "throughput", "latency"), "price, throughput or latency"),
    }
)
"""OpenRouter's provider block, as its public documentation names it."""
QUALITY: Mapping[str, Key] = MappingProxyType(
    {
        "max_rejected": Key(_number(0, 1), "a share from 0 to 1", 0.05),
        "window": Key(_whole(1, 100_000), "a number of answers, from 1", 200),
    }
)
