"""harness.catalog: endpoints, prices, pins, generations and keys, as the emulator and the documentation tell them."""

import json
from decimal import Decimal
from typing import Any

import pytest

from harness.catalog import BILLED, Endpoint, KeyInfo, endpoints_of, generation_of, key_of, pinned, provider_block
from harness.errors import ProviderError, SetupError
from harness.response import loads
from tests.emulator_kit import LIST, asked, chat, emulator, parsed, whole


def listing(**fields: Any) -> bytes:
    """A listing of one endpoint, hand-made."""
    priced = {"prompt": "0.0000005", "completion": "0.0000025"}
    one = {"tag": "siliconflow/int4", "provider_name": "SiliconFlow", "quantization": "int4", "pricing": priced}
    return json.dumps({"data": {"endpoints": [{**one, **fields}]}}).encode()


def test_the_emulators_endpoints() -> None:
    """Tags, names, prices and parameters of every endpoint are read."""
    found = endpoints_of(whole(emulator().reply("GET", LIST, {})))
    chutes = next(e for e in found if e.slug == "chutes")
    assert len(found) == 14
    assert (chutes.tag, chutes.provider_name, chutes.quantization) == ("chutes/int4", "Chutes", "int4")
    assert (chutes.prompt_usd, chutes.completion_usd) == (Decimal("5e-7"), Decimal("2.5e-6"))
    assert {"tools", "max_tokens"} <= chutes.supported_parameters
    assert (chutes.context_length, chutes.max_completion_tokens) == (262_144, None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "`data` is no object"),
        (b'{"data": {"endpoints": [1]}}', "no list of objects"),
        (listing(tag=""), "without `tag`"),
        (listing(provider_name=None), "without `tag` or `provider_name`"),
        (listing(pricing={"prompt": "0"}), "states no price"),
        (listing(pricing={"prompt": "-1", "completion": "1"}), "money that is none: '-1'"),
        (listing(pricing={"prompt": "NaN", "completion": "1"}), "money that is none"),
        (listing(pricing={"prompt": "free", "completion": "1"}), "money that is none: 'free'"),
        (listing(pricing={"prompt": True, "completion": "1"}), "money that is none: True"),
    ],
)
def test_no_listing(body: bytes, said: str) -> None:
    """A price that is none never becomes a cheap one."""
    with pytest.raises(ProviderError, match=said):
        endpoints_of(body)


@pytest.mark.parametrize("name", [name for names in BILLED.values() for name in names])
@pytest.mark.parametrize(
    "value",
    ["1e999999", "-1e999999", "1e4", "NaN", "sNaN", "Infinity", "-Infinity", "-0.1", "9" * 5000, "0." + "9" * 5000, "",
     True, [1], {}, 1e300, "1e9999999999999999999999"],
)  # fmt: skip
def test_an_absurd_price_is_refused_by_name(name: str, value: Any) -> None:
    """Whatever is no amount that a token can cost: the endpoint and the member are named, nothing else is raised."""
    pricing = {"prompt": "0.0000005", "completion": "0.0000025", name: value}
    with pytest.raises(
        ProviderError, match=f"endpoint siliconflow/int4, pricing.{name}: an amount of money that is no"
    ):
        endpoints_of(listing(pricing=pricing))


@pytest.mark.parametrize("number", ["1e999999", "-1e999999", "1" + "0" * 5000, "NaN", "Infinity", "1.5e400"])
def test_numbers_that_no_float_holds_are_no_price(number: str) -> None:
    """As numbers of JSON too, however the parser takes them."""
    body = listing(pricing={"prompt": "0", "completion": "MARK"}).replace(b'"MARK"', number.encode())
    with pytest.raises(ProviderError):
        endpoints_of(body)


def test_the_dearest_way_to_bill_a_token_counts() -> None:
    """All that is answered may be reasoning, and a prompt may be written into a cache: the price is the dearer one."""
    cheap = {"prompt": "1e-6", "completion": "2e-6"}
    dear = {"internal_reasoning": "5e-6", "input_cache_write": "1.25e-6", "input_cache_read": "1e-7", "image": "9"}
    less = {"internal_reasoning": "0", "input_cache_write": "5e-7", "request": "0.001"}

    (one,), (two,) = endpoints_of(listing(pricing=cheap | dear)), endpoints_of(listing(pricing=cheap | less))

    assert (one.prompt_usd, one.completion_usd, one.request_usd) == (Decimal("1.25e-6"), Decimal("5e-6"), 0)
    assert (two.prompt_usd, two.completion_usd, two.request_usd) == (Decimal("1e-6"), Decimal("2e-6"), Decimal("0.001"))


def test_a_price_next_to_nothing_is_not_nothing() -> None:
    """No float makes 0 of it, by which a plan would divide."""
    (one,) = endpoints_of(listing(pricing={"prompt": "0", "completion": "1e-999999"}))
    assert (one.prompt_usd, one.completion_usd) == (0, Decimal("1e-18"))


OFFERS = (
    Endpoint("siliconflow/int4", "SiliconFlow", "int4", Decimal(1), Decimal(1)),
    Endpoint("siliconflow/fp8", "SiliconFlow", "fp8", Decimal(1), Decimal(1)),
    Endpoint("chutes", "Chutes", "int4", Decimal(1), Decimal(1)),
)


@pytest.mark.parametrize(
    ("pins", "quantizations", "tags"),
    [
        (["siliconflow/int4"], [], ["siliconflow/int4"]),
        (["SiliconFlow"], [], ["siliconflow/int4", "siliconflow/fp8"]),
        (["siliconflow"], ["fp8"], ["siliconflow/fp8"]),
        (["chutes", "siliconflow", "siliconflow/fp8"], [], ["chutes", "siliconflow/int4", "siliconflow/fp8"]),
    ],
)
def test_pins(pins: list[str], quantizations: list[str], tags: list[str]) -> None:
    """A tag means its endpoint, a slug all of its variants, in the order of the pins and each once."""
    assert [e.tag for e in pinned(pins, OFFERS, quantizations)] == tags


@pytest.mark.parametrize(("pins", "quantizations"), [(["silicon"], []), (["chutes"], ["fp8"]), ([""], [])])
def test_an_unknown_pin_is_an_error(pins: list[str], quantizations: list[str]) -> None:
    """No part of a slug, no other quantization: the error lists what there is."""
    with pytest.raises(SetupError, match=r"the listing has chutes \(int4\), siliconflow/fp8 \(fp8\)"):
        pinned(pins, OFFERS, quantizations)


def test_the_block_is_hard() -> None:
    """`only` without fallbacks: `order` alone would be a wish."""
    assert provider_block(["chutes"], ["int4"]) == {
        "only": ["chutes"],
        "allow_fallbacks": False,
        "require_parameters": True,
        "quantizations": ["int4"],
    }
    assert "quantizations" not in provider_block(["chutes"])


def test_a_generation_of_the_emulator() -> None:
    """What was billed can be asked for later."""
    app = emulator()
    told = parsed(chat(app, asked()))
    data = whole(app.reply("GET", "/api/v1/generation", {}, f"id={told['id']}"))
    found = generation_of(data)
    assert (found.id, found.provider_name, found.finish_reason) == (told["id"], "Chutes", "stop")
    assert found.native_tokens_completion == told["usage"]["completion_tokens"]
    assert found.total_cost == Decimal(str(loads(data)["data"]["total_cost"]))


def test_a_key() -> None:
    """Money is exact, and no limit is None."""
    assert key_of(b'{"data": {"limit": 100, "limit_remaining": 74.5, "usage": 25.5}}') == KeyInfo(
        Decimal(100), Decimal("74.5"), Decimal("25.5")
    )
    assert key_of(b'{"data": {"limit": null, "usage": 0}}') == KeyInfo(None, None, Decimal(0))
