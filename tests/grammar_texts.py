"""Texts, arguments and requests for drawn answers: every script, every kind of punctuation, white space inside only.

Knows nothing of ids.
"""

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from harness.vocab import CONTROL_IDS

FRAGMENTS = (
    ["The", " cat", " sat", "Let", " me", " think", " about", " it", " function", "return", "Hello", " world", " OK"],
    [".", ". ", ".\n", ".\n\n", ", ", "!", "?", ": ", ";", " - ", "...", "?!\n", ")\n", " (", ")", '"', "'", "`"],
    ["4", "2024", " 17", "3.14", "1,000", "0", " 5%"],
    ["```python\n", "def f(x):\n    return x\n", "```", "    ", "\t", "\n\n", "\r\n", "{", "}", "};\n", "[1, 2]", "//"],
    [
        "你好",
        "世界。",
        "，",
        "的",
        "我们",
        "！\n",
        "「",
        "」",
        "日本語",
        "カタカナ",
        "한국어",
        " ไทย",
        "Привет",
        " مرحبا",
    ],
    ["🙂", "👩‍💻", " 🎉", "é", " naïve", "e\u0301", "\u00a0", "\u200b", "\u3000", "−", "→", "“", "”", "—", "…"],
    ["<", "</", "<|", "|>", ">", "think", "<b>", "</b>", "<br/>\n", "don't", "I'm", "$x^2$", "http://a.b/c?d=e", "**"],
)
TOOL_NAMES = ("get_weather", "save", "run", "f", "list_files2", "edit.file", "search-web")
END_LIKE_A_MARKER = re.compile(r"(?:\s|<[/|]?)+$")  # some stacks keep it back, and lose it
MAX_DRAWN = 40  # fragments of a text that are drawn one by one
MARKERS = tuple(n for n in CONTROL_IDS if "reserved" not in n)

TYPES: dict[str, Any] = {
    "path": {"type": "string"},
    "n": {"type": "integer"},
    "x": {"type": "number"},
    "ok": {"type": "boolean"},
    "items": {"type": "array", "items": {"type": "string"}},
    "options": {"type": "object"},
}
TOOLS = [
    {"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": TYPES}}}
    for n in TOOL_NAMES
]


def size(rng: Random, limit: int | None = None) -> int:
    """Fragments of a text: mostly few; without a limit now and then enough for 3,000 ids."""
    if limit is not None:
        return rng.randrange(limit + 1)
    return rng.choice((0, 0, 1, 1, 2, 3, 4, 6, 8, 12) * 30 + (60, 200, 2000) * 2)


def text(rng: Random, n: int) -> str:
    """A text of `n` fragments: no marker in it, no white space at its edges, no end that may become a marker."""
    made = "".join(rng.choice(rng.choice(FRAGMENTS)) for _ in range(min(n, MAX_DRAWN)))
    # A long text repeats itself: its ids matter, not its words.
    made = " ".join([made] * max(1, n // MAX_DRAWN))
    for marker in MARKERS:
        made = made.replace(marker, "")
    return END_LIKE_A_MARKER.sub("", made).strip()


VALUES: Mapping[str, Callable[[Random], Any]] = {
    "path": lambda rng: text(rng, rng.choice((0, 1, 2, 5))),
    "n": lambda rng: rng.choice((0, 7, -3, 20241129)),
    "x": lambda rng: rng.choice((0.5, -2.25, 1e-05)),
    "ok": lambda rng: rng.random() < 0.5,
    "items": lambda rng: [text(rng, 1) for _ in range(rng.randrange(3))],
    "options": lambda rng: {rng.choice("kab"): VALUES[rng.choice(("path", "n", "x", "ok", "items"))](rng)},
}
"""Parameter -> a value of its declared type."""


def arguments(rng: Random) -> str:
    """A JSON object in the style that the model writes: `{"a": 1}`."""
    names = rng.sample(list(TYPES), rng.choice((0, 1, 1, 2, 3)))
    return json.dumps({name: VALUES[name](rng) for name in names}, ensure_ascii=False)


def request(rng: Random, history: int, called: bool) -> dict[str, Any]:
    """A request that may have led to the answer."""
    made: dict[str, Any] = {"messages": [{"role": "user", "content": "Go on."}]}
    if history:
        calls = [{"id": f"functions.f:{k}"} for k in range(history)]
        made["messages"].insert(0, {"role": "assistant", "content": "", "tool_calls": calls})
    if rng.random() < (0.9 if called else 0.4):
        made["tools"] = TOOLS
    if rng.random() < 0.04:
        made["tool_choice"] = "none"
    return made
