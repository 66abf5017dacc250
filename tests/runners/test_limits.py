"""runners.limits: what endpoints say that they do not do, and what is asked of them all the same."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from harness.catalog import Endpoint
from runners.data_sets import Surveyed
from runners.limits import above_max_price, limits, unheard
from tests.runners.run_kit import ONE, run_of, run_text

PLAIN = Endpoint("chutes/int4", "Chutes", "int4", Decimal(0), Decimal(0))
LISTS = replace(PLAIN, supported_parameters=frozenset({"max_tokens", "reasoning", "temperature"}))
SAMPLING = "[sampling]\nmin_p = 0.1\ntemperature = 1.0\ntop_k = 5\n"
REQUIRED = '[provider]\nonly = ["chutes/int4"]\nallow_fallbacks = false\nrequire_parameters = true\n'
FREE = REQUIRED.replace("require_parameters = true\n", "")


def test_sampling_that_an_endpoint_does_not_list(tmp_path: Path) -> None:
    """Told by name where it would be left out in silence; where the run requires it, nobody would answer."""
    free, required = (run_of(tmp_path, text=run_text(block, ONE, SAMPLING)) for block in (FREE, REQUIRED))

    (note,) = unheard(free, [LISTS])
    assert note.startswith(
        "chutes/int4 does not list min_p, top_k, and may answer without; `require_parameters = true`"
    )
    assert list(unheard(required, [LISTS])) == []
    assert list(unheard(free, [PLAIN])) == []  # it lists nothing at all
    told = Surveyed("a", 1, 10, 10, 100, "s")
    assert [line.partition(", and")[0] for line in limits(required, [told], [LISTS])] == [
        "chutes/int4 does not take min_p, top_k"
    ]
    assert list(limits(free, [told], [LISTS])) == []


def test_what_all_take_is_no_note(tmp_path: Path) -> None:
    """Each endpoint is looked at by itself."""
    run = run_of(tmp_path, text=run_text(FREE, ONE, SAMPLING))
    every = replace(LISTS, tag="a", supported_parameters=LISTS.supported_parameters | {"min_p", "top_k"})

    assert list(unheard(run, [every])) == []
    assert [note.split()[0] for note in unheard(run, [every, LISTS, replace(LISTS, tag="b")])] == ["chutes/int4", "b"]


def test_prices_above_max_price() -> None:
    """Of a million tokens each way, and of a request; a price that is met is not above."""
    dear = replace(PLAIN, prompt_usd=Decimal("5e-7"), completion_usd=Decimal("3e-6"), request_usd=Decimal("0.02"))

    assert list(above_max_price({"prompt": 0.5, "completion": 3, "request": 0.02}, [PLAIN, dear])) == []
    assert list(above_max_price({"prompt": 0.4, "completion": 2.9, "request": 0.01}, [dear])) == [
        "chutes/int4 takes $0.5000000 a million prompt tokens, above max_price $0.4",
        "chutes/int4 takes $3.000000 a million completion tokens, above max_price $2.9",
        "chutes/int4 takes $0.02 a request, above max_price $0.01",
    ]
