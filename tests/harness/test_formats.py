"""Formats: which model id belongs to which family, what the shipped files say, and what a file may not say."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

import harness.formats
from harness.encoder import encode_ordinary
from harness.errors import SetupError
from harness.formats import FILES, MAX_MODEL_CHARS, Format, base_model, find_format, formats, parse_format, same_model
from harness.vocab import CONTROL_IDS

FOLDER = Path(harness.formats.__file__).parent

MODELS = {
    "kimi-k2.5": [
        "kimi-k2.5",
        "Kimi-K2.5",
        "KIMI-K2.5",
        " kimi-k2.5 ",
        "moonshotai/kimi-k2.5",
        "moonshotai/Kimi-K2.5",
        "OpenRouter/moonshotai/kimi-k2.5",
        "@cf/moonshotai/kimi-k2.5",
        "moonshotai.kimi-k2.5",
        "moonshotai/kimi-k2.5-0127",
        "kimi-k2.5:free",
        "kimi-k2.5:exacto",
        "kimi-k2.5-free",
        "moonshotai/Kimi-K2.5-TEE",
        "kimi-k2-5",
        "kimi-k2p5",
        "accounts/fireworks/models/kimi-k2p6",
        "kimi-k2.6",
        "moonshotai/kimi-k2.6-20260420",
        "moonshotai/Kimi-K2.6",
        "Kimi-K2.6-NVFP4",
        "kimi-k2.6-turbo",
        "kimi-k2.7-code",
        "kimi-k2p7-code",
        "moonshotai/Kimi-K2.7-Code",
        "kimi-k2.7-code-highspeed",
        "kimi-k2.7-code:cloud",
    ],
    "kimi-k2-thinking": [
        "kimi-k2-thinking",
        "Kimi-K2-Thinking",
        "moonshotai/kimi-k2-thinking",
        "moonshot.kimi-k2-thinking",
        "kimi-k2-thinking-turbo",
        "kimi-k2-thinking-20251106",
        "kimi-k2-thinking:cloud",
        "moonshotai/kimi-k2-thinking-maas",
        "moonshotai/Kimi-K2-Thinking-TEE",
        "accounts/fireworks/models/kimi-k2-thinking",
    ],
    "kimi-k2": [
        "kimi-k2",
        "Kimi-K2",
        "moonshotai/kimi-k2",
        "moonshotai/kimi-k2-0905",
        "moonshotai/kimi-k2-0905:exacto",
        "moonshotai/kimi-k2:free",
        "moonshotai/kimi-k2-instruct",
        "moonshotai/Kimi-K2-Instruct-0905",
        "accounts/fireworks/models/kimi-k2-instruct-0905",
        "kimi-k2-0711",
        "kimi-k2-0711-preview",
        "kimi-k2-0905-preview",
        "kimi-k2-turbo-preview",
        "kimi-k2-turbo",
    ],
    # Other tokens, another template, or unknown: never taken for a relative.
    None: [
        None,
        "",
        " ",
        "/",
        "moonshotai/",
        ":free",
        "kimi",
        "kimi-latest",
        "kimi-for-coding",
        "kimi-k1.5",
        "kimi-k3",
        "moonshotai/kimi-k3",
        "kimi-k2.4",
        "kimi-k2.7",
        "kimi-k2.8",
        "kimi-k2.55",
        "kimi-k25",
        "kimi-k2x5",
        "kimi-k20905",
        "kimi-k2-0905-thinking",
        "kimi-k2-base",
        "kimi-k2:thinking",
        "kimi-k2.5:thinking",
        "kimi-k2.5:unknown",
        "kimi-k2.5:free:free",
        "kimi-k2.5-eagle3",
        "kimi-k2.5\nkimi-k3",
        "not-kimi-k2.5",
        "kimi-linear",
        "kimi-linear-48b-a3b-instruct",
        "moonlight",
        "moonlight-16b-a3b-instruct",
        "kimi-vl-a3b-thinking",
        "kimi-dev-72b",
        "deepseek-r1",
        "kimi-k2.5/kimi-k3",
        "ｋimi-k2.5",
        "Kimi-k2.5".replace("K", "\u212a"),
        "kimi-k2.\u0665",
        "kimi-k2-\u0660\u0669\u0660\u0665",
        "kimi-k2.5" + "-fp8" * 50,
        "o/" * 200 + "kimi-k2.5",
    ],
}
ROWS = [(model, name) for name, models in MODELS.items() for model in models]


@pytest.mark.required
@pytest.mark.parametrize(("model", "name"), ROWS)
def test_format_of_a_model_id(model: str | None, name: str | None) -> None:
    """Every spelling of a known model finds its one format; anything else finds none."""
    found = find_format(model, formats())

    assert (found.name if found else None) == name


@pytest.mark.required
def test_two_formats_that_claim_one_model_give_none() -> None:
    """Where patterns overlap nothing is guessed."""
    first = formats()[0]

    assert find_format(first.name, [first]) is first
    assert find_format(first.name, [first, first]) is None
    assert find_format(first.name, []) is None


@pytest.mark.required
@pytest.mark.parametrize(
    ("model", "bare"),
    [
        ("accounts/fireworks/models/Kimi-K2p6", "kimi-k2p6"),
        ("moonshotai/kimi-k2-0905:exacto", "kimi-k2-0905"),
        ("kimi-k2:other", None),
        ("x" * MAX_MODEL_CHARS, "x" * MAX_MODEL_CHARS),
        ("x" * (MAX_MODEL_CHARS + 1), None),
    ],
)
def test_base_model(model: str, bare: str | None) -> None:
    """Organisations and known variants go; an unknown variant, or an id too long for one, leaves no model."""
    assert base_model(model) == bare


# The answers of real providers, by the model that they or their requests name.
REAL = {
    "responses": {"kimi-k2.5": 32, "kimi-k2-thinking": 2, "kimi-k2": 689, None: 5},
    "long_responses": {"kimi-k2.5": 11, "kimi-k2-thinking": 78},
}


@pytest.mark.shared
@pytest.mark.parametrize("file", REAL)
def test_model_ids_of_real_answers(shared: Path, file: str) -> None:
    """Every model id in the real answers maps to its family; K3 alone, by name, to none."""
    seen: Counter[str | None] = Counter()
    with gzip.open(shared / "real" / f"{file}.jsonl.gz", "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            model = _model(json.loads(line)["response"])
            found = find_format(model, formats())
            assert (found is None) == ("k3" in model)
            seen[found.name if found else None] += 1

    assert seen == REAL[file]


def _model(response: object) -> str:
    """The model of a body, or of the first event that names one."""
    events = response if isinstance(response, list) else [response]
    return next(e["model"] for e in events if isinstance(e, dict) and e.get("model"))


def test_every_file_of_the_folder_is_shipped() -> None:
    """No format lies in the folder without being loaded, and each bears its file's name."""
    assert sorted(FILES) == sorted(p.name for p in FOLDER.glob("*.toml"))
    assert [f"{f.name}.toml" for f in formats()] == list(FILES)
    assert formats() is formats()


WRITER = {
    "kimi-k2.5": ("prompt", (True, False)),
    "kimi-k2-thinking": ("sampled", (True,)),
    "kimi-k2": ("none", (False,)),
}


@pytest.mark.parametrize("found", formats(), ids=lambda f: f.name)
def test_shipped_control_ids(found: Format) -> None:
    """Each family uses the same nine control ids, and the five tool and two think marks are its markers."""
    assert (found.think_open, found.think_close, found.terminator) == (163606, 163607, 163586)
    assert (found.section_begin, found.section_end) == (163595, 163596)
    assert (found.call_begin, found.argument_begin, found.call_end) == (163597, 163598, 163599)
    assert dict(found.markers) == {
        "<|tool_calls_section_begin|>": 163595,
        "<|tool_calls_section_end|>": 163596,
        "<|tool_call_begin|>": 163597,
        "<|tool_call_argument_begin|>": 163598,
        "<|tool_call_end|>": 163599,
        "<think>": 163606,
        "</think>": 163607,
    }
    assert found.id_prefix == "functions."
    assert (found.think, found.thinking_modes) == WRITER[found.name]


ENDS = [
    ("kimi-k2.5", True, [163588, 69702, 163601, 163606]),
    ("kimi-k2.5", False, [163588, 69702, 163601, 163606, 163607]),
    ("kimi-k2-thinking", True, [163588, 69702, 163601]),
    ("kimi-k2", False, [163588, 69702, 163601]),
]


@pytest.mark.required
@pytest.mark.parametrize(("name", "thinking", "ids"), ENDS)
def test_prompt_end(name: str, thinking: bool, ids: list[int]) -> None:
    """Prompts end in the ids that the model family was trained on, for each mode that it has."""
    found = find_format(name, formats())
    assert found is not None
    got = [
        token
        for part in found.prompt_end[thinking]
        for token in ([CONTROL_IDS[part]] if part in CONTROL_IDS else encode_ordinary(part))
    ]

    assert got == ids
    assert set(found.prompt_end) == set(found.thinking_modes)


PROMPTS = {
    "kimi-k2.5": (None, "typescript", True),
    "kimi-k2-thinking": (None, "json", True),
    "kimi-k2": ("You are Kimi, an AI assistant created by Moonshot AI.", "json", False),
}


@pytest.mark.required
@pytest.mark.parametrize("found", formats(), ids=lambda f: f.name)
def test_prompt_facts(found: Format) -> None:
    """Default system text, form of tool declarations and think pairs of the history are as observed for the family."""
    assert (found.default_system, found.tool_declaration, found.history_think) == PROMPTS[found.name]


GOOD = (FOLDER / "kimi-k2.toml").read_text(encoding="utf-8")


@pytest.mark.required
def test_a_format_from_text() -> None:
    """A text that follows the shipped ones is a format of its own, with the mode and the names that it gives."""
    text = GOOD.replace('name = "kimi-k2"', 'name = "other"').replace("off = [", "on = [")

    made = parse_format(text)

    assert (made.name, made.thinking_modes, made.prompt_end[True][0]) == ("other", (True,), "<|im_assistant|>")
    assert find_format("Kimi-K2", [parse_format(GOOD.replace("kimi-k2", "KIMI-K2"))]) is not None


BROKEN = [
    pytest.param("name = ", "not TOML", id="not-toml"),
    pytest.param("", "unknown or missing", id="empty"),
    pytest.param(
        GOOD.replace("\nthink = ", "\nthinks = "), "['think', 'thinks'] unknown or missing", id="key-misspelt"
    ),
    pytest.param("colour = 1\n" + GOOD, "['colour'] unknown or missing", id="key-too-many"),
    pytest.param(GOOD.replace('"none"', '"maybe"'), "think is 'maybe', expected one of ['prompt'", id="think"),
    pytest.param(GOOD.replace('"json"', '"xml"'), "tool_declaration is 'xml'", id="tool-declaration"),
    pytest.param(GOOD.replace("history_think = false", "history_think = 0"), "expected bool", id="int-for-bool"),
    pytest.param(GOOD.replace('think = "none"', "think = []"), "think is [], expected str", id="list-for-text"),
    pytest.param(GOOD.replace("think_close", "think_stop"), "'think_close', 'think_stop'", id="use-misspelt"),
    pytest.param(GOOD.replace('"</think>"', '"</thinking>"'), "'</thinking>' is no control token", id="no-such-token"),
    pytest.param(GOOD.replace('"</think>"', "163607"), "163607 is no control token", id="id-for-a-name"),
    pytest.param(GOOD.replace('"</think>"', '"<think>"'), "two of [tokens] are one", id="one-token-twice"),
    pytest.param(GOOD.replace("off = [", "of = ["), "['of'] unknown or missing", id="mode-misspelt"),
    pytest.param(GOOD.partition("off = [")[0], "no mode given", id="no-mode"),
    pytest.param(GOOD.partition("off = [")[0] + "off = []", "off is []", id="empty-end"),
    pytest.param(GOOD.partition("off = [")[0] + "off = [1]", "off is [1]", id="end-is-no-text"),
    pytest.param(GOOD.replace("'(moonshot(ai)", "'(moonshot(ai"), "is no pattern", id="pattern-broken"),
    pytest.param(GOOD.replace("  '(moon", "  7, '(moon", 1), "7 is no pattern", id="pattern-is-a-number"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_a_broken_format_is_refused(text: str, said: str) -> None:
    """A file with a key too many, a name that is no control token, or a value of another kind is refused by name."""
    with pytest.raises(SetupError) as error:
        parse_format(text)

    assert said in str(error.value)


K25, K2 = "moonshotai/kimi-k2.5", "moonshotai/kimi-k2"
SAME = [
    *[(K25, name) for name in MODELS["kimi-k2.5"][:15]],
    (K25, "moonshotai/kimi-k2.5-0127"), (K25, "kimi-k2.5-20260127"), (K25, "kimi-k2p5-turbo"), (K25, "Kimi-K2-5-NVFP4"),
    (K25 + ":exacto", K25), (K25 + "-0127", K25 + "-0127:free"),
    ("moonshotai/kimi-k2.6", "accounts/fireworks/models/kimi-k2p6"),
    ("moonshotai/kimi-k2-thinking", "kimi-k2-thinking-20251106"), (K2, "moonshotai/Kimi-K2-Instruct"),
    (K2, "kimi-k2-0711-preview"), (K2 + "-0711", K2), (K2 + "-0905", "moonshotai/Kimi-K2-Instruct-0905"),
    ("a/b", "b"), ("x:thinking", "x:thinking"),
]  # fmt: skip
OTHER = [
    (K25, "moonshotai/kimi-k2.6"), (K25, "kimi-k2p6"), (K25, "kimi-k2.6:free"), (K25, "moonshotai/kimi-k2.6-0420"),
    (K25, "moonshotai/kimi-k2.7-code"), (K25, K2), (K25, K2 + "-thinking"), (K25, "openai/gpt-5"), (K25, "kimi-k2.55"),
    (K25, K25 + ":thinking"), (K25, "kimi-k2.5-mini"), (K25, "k\u0456mi-k2.5"), (K25, ""), (K25, "x" * 300), (K25, "/"),
    (K2, K2 + "-0905"), (K2 + "-0905", K2), (K2, K2 + "-thinking"), (K25 + "-0127", K25 + "-0420"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "answered", "same"), [*((*p, True) for p in SAME), *((*p, False) for p in OTHER)])
def test_whether_the_model_that_was_asked_has_answered(asked: str, answered: str, same: bool) -> None:
    """Spelling, date and how a host runs it make no other model; a version, a name or another date does."""
    assert same_model(asked, answered) is same
