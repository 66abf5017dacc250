"""Texts, arguments and requests for drawn answers: every script, every kind of punctuation, white space inside only.

Knows nothing of ids.
"""

import json
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
    return rng.choice((0, 0, 1, 1, 2, 3, 4, 6, 8, 12) * 30 + (60, 200, 1000) * 2)


def text(rng: Random, n: int) -> str:
    """A text of `n` fragments with no white space at its edges and no marker in it."""
    made = ""
    for _ in range(min(n, 40)):
        kind = FRAGMENTS[rng.randrange(len(FRAGMENTS))]
        made += kind[rng.randrange(len(kind))]
    made = (
        " ".join([made] * (n // 40)) if n >= 80 else made
    )  # a long text repeats itself: its ids matter, not its words
    for marker in MARKERS:
        made = made.replace(marker, "")
    return made.strip()


def value(rng: Random, name: str, depth: int = 0) -> Any:
    """A value that fits the declared type of a parameter."""
    made = {
        "path": lambda: text(rng, rng.choice((0, 1, 2, 5))),
        "n": lambda: rng.choice((0, 7, -3, 20241129)),
        "x": lambda: rng.choice((0.5, -2.25, 1e-05)),
        "ok": lambda: rng.random() < 0.5,
        "items": lambda: [text(rng, 1) for _ in range(rng.randrange(3))],
        "options": lambda: {} if depth else {rng.choice("kab"): value(rng, rng.choice(list(TYPES)), 1)},
    }
    return made[name]()


def arguments(rng: Random) -> str:
    """A JSON object in the style that the model writes: `{"a": 1}`."""
    names = rng.sample(list(TYPES), rng.choice((0, 1, 1, 2, 3)))
    return json.dumps({name: value(rng, name) for name in names}, ensure_ascii=False)


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
