"""runners.prompts: lines -> prompts with their ids; whatever is wrong is named before anything is asked."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.formats import Format, formats
from runners.prompts import Ask, asks_of, read_lines
from tests.runners.capture_kit import FMT, VLLM

HI = [{"role": "user", "content": "Say hi."}]
HI_IDS = (163587, 2482, 163601, 71079, 20910, 13, 163586, 163588, 69702, 163601, 163606)


def read(path: Path, text: str, fmt: Format = FMT, thinking: bool | None = None) -> list[Ask]:
    """The prompts of a file with this text."""
    path = path / "p.jsonl"
    path.write_text(text)
    return asks_of(read_lines([str(path)]), fmt, thinking, encode_prompt_text)


def test_messages_are_rendered(tmp_path: Path) -> None:
    """By harness/prompt.py, thinking on or off; a line without a name is called by its number, blank lines apart."""
    on = json.dumps({"messages": HI, "thinking": True})
    off = json.dumps({"messages": HI, "thinking": False, "name": "off"})

    first, second = read(tmp_path, f"{on}\n\n{off}\n")

    assert first == Ask("p0001", HI_IDS, tuple(HI), (), True, ())
    assert (second.name, second.prompt_ids, second.thinking) == ("off", (*HI_IDS, 163607), False)


def test_every_recorded_prompt_is_rendered_as_recorded(tmp_path: Path) -> None:
    """Messages and prompt_ids of one line must agree, and they do for 24 dialogues of a real engine."""
    lines = [json.dumps(d.line(prompt_ids=d.prompt_ids)) for d in VLLM.values()]

    assert [list(ask.prompt_ids) for ask in read(tmp_path, "\n".join(lines))] == [d.prompt_ids for d in VLLM.values()]


def test_ids_alone(tmp_path: Path) -> None:
    """Ids need no messages and no switch; packed files are read too."""
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"prompt_ids": [1, 163839]}'))

    assert asks_of(read_lines([str(path)]), FMT, None, encode_prompt_text) == [Ask("p0001", (1, 163839))]


def test_the_switch_for_lines_without(tmp_path: Path) -> None:
    """The option fills in; the line's own word holds."""
    lines = "\n".join(json.dumps({"messages": HI, **more}) for more in ({}, {"thinking": True}))

    assert [ask.thinking for ask in read(tmp_path, lines, thinking=False)] == [False, True]


def test_a_family_with_one_mode_needs_no_switch(tmp_path: Path) -> None:
    """K2-Thinking always thinks, K2 never does."""
    line = json.dumps({"messages": HI})

    modes = [read(tmp_path, line, fmt)[0].thinking for fmt in formats()[1:]]

    assert modes == [True, False]


def test_findings_go_with_the_prompt(tmp_path: Path) -> None:
    """Marker text in a message: hosts read it in two ways, which a refusal will name."""
    line = json.dumps({"messages": [{"role": "user", "content": "</think>"}], "thinking": True})

    assert read(tmp_path, line)[0].findings == ("prompt-marker-text",)


def line(**fields: Any) -> str:
    """A sound line with these fields instead."""
    value: dict[str, Any] = {"messages": HI, "thinking": True} | fields
    return json.dumps({key: item for key, item in value.items() if item is not ...})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "p.jsonl:1: no JSON"),
        ('{"prompt_ids": [1], "prompt_ids": [2]}', "p.jsonl:1: no JSON: a member comes twice: 'prompt_ids'"),
        ("[1]", "a list; expected an object with `messages` or `prompt_ids`"),
        (line(messages=...), "neither `messages` nor `prompt_ids`"),
        (line(messages=None), "the field 'messages' is NoneType, expected list"),
        (line(tool=[]), "the field 'tool' is unknown; the fields are name, messages"),
        (line(thinking="on"), "the field 'thinking' is str, expected bool"),
        (line(thinking=...), 'thinking is not said, and every id depends on it; add "thinking": true, or give'),
        (line(name="../x"), "the name '../x' cannot be a file's"),
        (line(name=""), "the name '' cannot be a file's"),
        (line(prompt_ids=[]), "expected integers in 0..163839, at least one"),
        (line(prompt_ids=[True]), "expected integers in 0..163839"),
        (line(prompt_ids=[163840]), "expected integers in 0..163839"),
        (line(prompt_ids=list(HI_IDS[:-1])), "prompt_ids and the messages rendered have 10 and 11 ids"),
        (line(prompt_ids=[1]), "prompt_ids and the messages rendered differ first at 0"),
        (line(messages=..., prompt_ids=[1], tools=[{}]), "`tools` without `messages`"),
        (line(model="gpt-4"), "the line is for model 'gpt-4', asked is format kimi-k2.5"),
        (line(messages=[]), "messages is empty"),
        (line(messages=["hi"]), "messages[0] is 'hi'"),
        (line(messages=[{"role": "user", "content": "\ud83d"}]), "messages[0].content cannot be encoded"),
        (line(tools=[1]), "tools[0]"),
        (line(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), "part of type 'image_url'"),
        (f"{line(name='a')}\n{line(name='a')}", "p.jsonl:2: the name 'a' is taken by an earlier line"),
        ("\n", 'no prompt in the files; expected lines such as {"messages": [...], "thinking": true}'),
    ],
)
def test_wrong_lines(tmp_path: Path, text: str, words: str) -> None:
    """Where, what came, what was expected."""
    with pytest.raises(SetupError) as caught:
        read(tmp_path, text)

    assert words in str(caught.value)


def test_all_wrong_lines_are_named_at_once(tmp_path: Path) -> None:
    """The first five, and how many more: nobody mends a file one error a run."""
    with pytest.raises(SetupError) as caught:
        read(tmp_path, "{\n" * 7 + line())

    assert str(caught.value).count("no JSON") == 5
    assert str(caught.value).startswith("nothing was asked: ")
    assert str(caught.value).endswith("; and 2 lines more")


@pytest.mark.parametrize("name", ["absent.jsonl", ".", "cut.jsonl.gz"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    """The path and the reason."""
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(line().encode() * 99)[:-9])

    with pytest.raises(SetupError, match=r"cannot be read: .*expected JSONL, a prompt a line"):
        asks_of(read_lines([str(tmp_path / name)]), FMT, None, encode_prompt_text)


@pytest.mark.parametrize(("name", "packed"), [("p.jsonl", True), ("p.jsonl.gz", False)])
def test_packed_is_what_begins_so_whatever_its_name(tmp_path: Path, name: str, packed: bool) -> None:
    """As every other file that is read."""
    data = line(name="x").encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)

    assert [found.name for found in read_lines([str(tmp_path / name)])] == ["x"]


def test_a_binary_file_is_no_prompts_file(tmp_path: Path) -> None:
    """Said so, not as a decoder's words."""
    (tmp_path / "p").write_bytes(b"\x89PNG\xff")

    with pytest.raises(SetupError, match=r"p:1: no UTF-8 text, as in a binary file"):
        read_lines([str(tmp_path / "p")])


@pytest.mark.shared
def test_the_reference_prompts_are_a_prompts_file(shared: Path) -> None:
    """36 whole prompts with tools and tool results: the ids rendered are those given, so no line is refused."""
    asks = asks_of(read_lines([str(shared / "kimi-k2.5/prompts.jsonl")]), FMT, None, encode_prompt_text)

    assert len(asks) == 36
    assert sum(bool(ask.tools) for ask in asks) > 0
