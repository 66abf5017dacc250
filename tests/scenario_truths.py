"""What the emulator's model samples for each shipped scenario: ids chosen here, so that every answer is known.

`recording_app` serves them over any presets, and can plant secrets in every header, cookie and body that it sends.
"""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from harness.emulator import Emulator, Truth
from harness.encoder import encode_ordinary, load_vocab
from harness.openrouter_lists import PARAMETERS, Endpoint
from harness.preset_table import PRESETS
from harness.scenarios import Scenarios, scenarios_of
from tests.conftest import ROOT
from tests.emulator_kit import END, TE, ids, section

Part = str | int
OSLO, BERGEN = ("functions.get_weather:0", '{"city": "Oslo"}'), ("functions.get_weather:0", '{"city":"Bergen"}')
ROME, PARIS = ("functions.get_weather:1", '{"city": "Rome"}'), ("functions.get_weather:0", '{"city": "Paris"}')
KYOTO, TROMSO = ("functions.get_weather:1", '{"city": "Kyoto"}'), ("functions.get_weather:0", '{"city": "Tromsø"}')
MILK = ("functions.save_note:0", '{"title": "Milk", "text": "The milk is out."}')
BREAD = ("functions.save_note:0", '{"title": "Bread", "text": "The bread is out.", "tags": ["food"]}')
TABLE = ("functions.book_table:0", '{"restaurant": "Maaemo", "guests": 4, "outdoors": true, "at": {"day": "Friday", "hour": 19.5}}')  # fmt: skip # noqa: E501
LONG = ("functions.save_note:0", '{"title": "Shopping", "text": "' + ", ".join(f"item {k}" for k in range(40)) + '"}')
SUM = "Let x be the hens. Then 2x + 4(35 - x) = 94, so x = 23.\n\n" * 12
ANSWERS: Mapping[str, Sequence[Part | Sequence[int]]] = {
    "hello": ("They want three words.", TE, "Hello there friend.", END),
    "plain-short": ("The capital is Oslo.", TE, "The capital of Norway is Oslo.", END),
    "plain-short-stream": ("Norway's capital: Oslo.", TE, "The capital of Norway is Oslo.", END),
    "one-word": ("Just that word.", TE, "Done", END),
    "long-reasoning": (SUM, TE, "23 hens and 12 rabbits.", END),
    "long-reasoning-stream": ("Try 23, then 58: both fit.\n" * 30, TE, "23 and 58.", END),
    "tool-call": ("I use the tool.", TE, section(OSLO), END),
    "tool-call-stream": ("The tool knows.", TE, section(BERGEN), END),
    "tool-call-raw": ("I call it.", TE, section(OSLO), END),
    "two-calls": ("Both at once.", TE, section(OSLO, ROME), END),
    "two-calls-stream": ("Both.", TE, section(PARIS, KYOTO), END),
    "text-before-call": ("One sentence first.", TE, "I look up Tromsø now.", section(TROMSO), END),
    "forced-call": ("A note.", TE, section(MILK), END),
    "named-call": ("A note with a tag.", TE, section(BREAD), END),
    "typed-arguments": ("Four, outdoors.", TE, section(TABLE), END),
    "tool-loop": ("Now Rome.", TE, section(ROME), END),
    "tool-loop-end": ("It is cold.", TE, "It is -3 degrees in Oslo.", END),
    "unicode": ("Six scripts.", TE, "Καλημέρα\nבוקר טוב\nसुप्रभात\nสวัสดีตอนเช้า\n좋은 아침\nእንደምን አደርክ", END),
    "emoji-stream": ("Emoji only.", TE, "👨‍👩‍👧‍👦🏖️ 🏴󠁧󠁢󠁳󠁣󠁴󠁿 👩‍🚀", END),
    "han-code": ("写代码。", TE, "def 求和(数): # 偶数求和\n    return sum(x for x in 数 if x % 2 == 0)", END),
    "whitespace-edges": ("Blank lines. ", TE, "\n    middle\n\n", END),
    "marker-text": ("Two markers.", TE, "It ends a turn. The other ends thinking.", END),
    "code-block": ("A rule.", TE, '```make\nall:\n\t@printf "\\t\\"\\\\"\n```', END),
    "cut-in-reasoning": ("Seven dinners, six people: " * 10, TE, "Monday: soup.", END),
    "cut-in-content": ("Sigurd was the son of Sigmund, and he was raised by Regin. " * 5, END),
    "cut-in-call": (section(LONG), END),
    "cut-in-call-stream": (section(LONG), END),
    "thinking-off": ("Ganges, Mekong, Lena.", END),
    "thinking-off-stream": ("Nile, Congo, Niger.", END),
    "logprobs": ("Three.", TE, "Mercury, Venus, Earth.", END),
    "logprobs-stream": ("Three.", TE, "Saturn, Uranus, Neptune.", END),
}
"""Scenario -> the parts of what is sampled."""


@cache
def shipped() -> Scenarios:
    """The shipped file."""
    return scenarios_of((ROOT / "cassettes" / "scenarios.toml").read_text(encoding="utf-8"))


def sampled(name: str) -> list[int]:
    """The ids of a scenario's answer."""
    made: list[int] = []
    for part in ANSWERS[name]:
        made += ids(part) if isinstance(part, str | int) else part
    return made


def truth_of(request: Mapping[str, Any]) -> Truth | None:
    """By the whole request: two scenarios may ask the same words, one as a stream."""
    asked = {name: value for name, value in request.items() if name not in ("model", "provider")}
    for scenario in shipped().scenarios:
        if asked == dict(scenario.request):
            thinking = scenario.request.get("reasoning") != {"enabled": False}
            return Truth(sampled(scenario.name), thinking, prompt_tokens=len(encode_ordinary(json.dumps(request))))
    return None


def endpoints(presets: Sequence[str]) -> tuple[Endpoint, ...]:
    """An INT4 endpoint of each preset that offers every parameter that a scenario asks."""
    return tuple(Endpoint(f"{name}/int4", PRESETS[name], parameters=(*PARAMETERS, "logprobs")) for name in presets)


def recording_app(presets: Sequence[str], **how: Any) -> Emulator:
    """An emulator that answers every scenario."""
    made: dict[str, Any] = {"clock": time.time, "rng": random.Random(7), "endpoints": endpoints(presets), **how}
    return Emulator(truth_of, load_vocab().token_bytes, **made)


def planted(app: Any, headers: Mapping[str, str], body: Callable[[bytes], bytes] = lambda part: part) -> Any:
    """The app with these headers on every reply, and bodies changed."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in headers.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            elif message.get("body"):
                message = {**message, "body": body(message["body"])}
            await send(message)

        await app(scope, receive, sending)

    return wrapped
