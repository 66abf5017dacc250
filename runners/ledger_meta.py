"""What a ledger says of its run in JSON, as values: damage there is told as damage.

Knows nothing of files.
"""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from harness.errors import SetupError
from runners.ledger import Ledger
from runners.ledger_rows import DAMAGED
from runners.summary import Asked

T = TypeVar("T")


def asked(ledger: Ledger) -> dict[str, Asked]:
    """What the run asks of each data set; {} where nobody has said.

    Raises:
        SetupError: As all here: it is not what a run writes.
    """
    return _read(ledger, "asked", "{}", _asked)


def price(ledger: Ledger) -> dict[str, str]:
    """The dearest price so far, dollars in digits by kind; {} where nobody has said."""
    return _read(ledger, "price", "{}", _price)


def dropped(ledger: Ledger) -> list[str]:
    """Display names of providers that an earlier part of the run has dropped, as they were written."""
    return _read(ledger, "dropped", "[]", _names)


def _read(ledger: Ledger, key: str, otherwise: str, made: Callable[[object], T]) -> T:
    text = ledger.meta().get(key, otherwise)
    try:
        return made(json.loads(text))
    except (ValueError, TypeError, InvalidOperation, RecursionError) as error:
        said = f"{ledger.path}: what it says of its run ({key}) cannot be read: {text!r:.100}"
        raise SetupError(f"{said}; {DAMAGED}") from error


def _asked(told: object) -> dict[str, Asked]:
    return {name: Asked(*_counts(**fields)) for name, fields in _mapping(told).items()}


def _counts(n_prompts: object, tokens: object = None) -> tuple[int, int | None]:
    if type(n_prompts) is not int or (tokens is not None and type(tokens) is not int):
        raise ValueError("counts that are none")
    return n_prompts, tokens


def _price(told: object) -> dict[str, str]:
    found = {kind: str(usd) for kind, usd in _mapping(told).items()}
    if not all(Decimal(usd).is_finite() for usd in found.values()):
        raise ValueError("a price that is no number")
    return found


def _names(told: object) -> list[str]:
    if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
        raise ValueError("names that are none")
    return told


def _mapping(told: object) -> Mapping[str, dict[str, object]]:
    if not isinstance(told, dict):
        raise ValueError("no object")
    return told
