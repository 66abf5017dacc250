"""Provider leaks: marker text that a parser should have eaten, wherever it turns up and however a stream was cut.

A marker in reasoning or content is tagged, and the bill decides between a control id and ordinary text. A marker inside
a parsed call, or U+FFFD anywhere, means that bytes are gone: rejected.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from harness.response import parse
from harness.types import Verdict
from harness.vocab import CONTROL_IDS, CONTROL_NAMES
from tests.harness.answers import chunk, encoded, framed, piece
from tests.providerx import AS_SENT, MODEL, OFFSET, answer, call, codes, ids, judged

LEAKS = (
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
KNOWN = {**OFFSET, **AS_SENT}
WHERE = ("reasoning", "content", "arguments", "id", "name")


def leaking(text: str, where: str) -> dict[str, Any]:
    """A message that is sound but for a text in one place."""
    message: dict[str, Any] = {"reasoning": "Think.", "content": "Say."}
    if where in message:
        return {**message, where: text}
    made = call("ping", '{"a": "b"}')
    if where == "id":
        return {**message, "tool_calls": [{**made, "id": f"functions.ping:0{text}"}]}
    function = {"name": "ping", "arguments": '{"a": "b"}'} | {where: f'{{"a": "{text}"}}' if where != "name" else text}
    return {**message, "tool_calls": [{**made, "function": function}]}


def verdict_on(message: dict[str, Any], billed: int = 12) -> Verdict:
    """The verdict, the host known to hand out what was sampled."""
    return judged(answer(message, billed, "tool_calls" if "tool_calls" in message else "stop"), KNOWN)


@pytest.mark.required
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("marker", LEAKS)
def test_every_marker_is_seen_in_every_place(marker: str, where: str) -> None:
    """Tagged in the two texts; in a call's arguments, id or name it rejects the answer."""
    for text in (marker, f"a{marker}b", f"{marker}{marker}", f" {marker}\n"):
        verdict = verdict_on(leaking(text, where))
        code = "marker-in-text" if where in ("reasoning", "content") else "marker-in-call"
        finding = next(f for f in verdict.findings if f.code == code)
        assert marker in finding.text
        assert where in finding.where
        assert finding.fatal == (code == "marker-in-call")
        assert finding.fatal <= (verdict.name == "rejected")


@pytest.mark.required
@pytest.mark.parametrize("where", WHERE)
def test_a_sound_answer_has_no_leak(where: str) -> None:
    """What only looks like a marker is none; neither is 163533, the text `chas`, once mistaken for a terminator."""
    for text in ("<|im_end|", "|im_end|>", "<im_end>", "<|IM_END|>", "<thinking>", "</ think>", "think>", "chas", "<|"):
        assert not {"marker-in-text", "marker-in-call"} & set(codes(verdict_on(leaking(text, where))))


def test_every_control_name_is_a_leak() -> None:
    """All 256 names, not only those flagged special: in a call each rejects, in text each with a `<` is tagged."""
    for name in CONTROL_NAMES:
        assert "marker-in-call" in codes(verdict_on(leaking(name, "arguments"))), name
        assert ("marker-in-text" in codes(verdict_on(leaking(name, "content")))) == name.startswith("<"), name


@pytest.mark.required
def test_a_lost_character_rejects_everywhere() -> None:
    """U+FFFD stands for bytes that nobody can bring back."""
    for where in WHERE:
        assert "replacement-character" in codes(verdict_on(leaking("a\ufffdb", where)))


# --- across the edges of chunks -------------------------------------------------------------------------------------


def cuts(text: str) -> Iterator[tuple[str, ...]]:
    """A text cut in two at each place, and into single characters."""
    for k in range(1, len(text)):
        yield text[:k], text[k:]
    yield tuple(text)


def streamed(pieces: tuple[str, ...], where: str) -> bytes:
    """A stream whose text in one place comes in pieces."""
    head = [chunk({"reasoning": "Think."}), chunk({"content": "Say."})]
    if where in ("reasoning", "content"):
        rows = [chunk({where: p}) for p in pieces]
        head = [*rows, head[1]] if where == "reasoning" else [head[0], *rows]
        return framed([*head, chunk(finish="stop")])
    first = chunk(piece(0, "functions.ping:0", "ping", '{"a": "'))
    rows = [chunk(piece(0, arguments=p)) for p in (*pieces, '"}')]
    return framed([*head, first, *rows, chunk(finish="tool_calls")])


@pytest.mark.required
@pytest.mark.parametrize("where", ["reasoning", "content", "arguments"])
@pytest.mark.parametrize("marker", LEAKS)
def test_a_marker_cut_by_chunks_is_the_same_marker(marker: str, where: str) -> None:
    """However a stream cuts a marker, the findings are those of the uncut one."""
    whole = judged(streamed((marker,), where), KNOWN, model=MODEL, provider="ProviderX")
    assert {"marker-in-text", "marker-in-call"} & set(codes(whole))
    for pieces in cuts(marker):
        verdict = judged(streamed(pieces, where), KNOWN, model=MODEL, provider="ProviderX")
        assert verdict.findings == whole.findings
        assert verdict.ids == whole.ids


@pytest.mark.required
def test_a_marker_cut_by_bytes_is_the_same_marker() -> None:
    """Pieces of the network are not chunks: a stream in bytes gives one turn, wherever they were cut."""
    body = framed([chunk({"content": "Hé<|im"}), chunk({"content": "_end|>"}), chunk(finish="stop")])
    turn = parse(body)
    assert turn.content == "Hé<|im_end|>"
    assert codes(judged(body, KNOWN, model=MODEL)) == codes(judged(encoded(answer({"content": turn.content})), KNOWN))


# --- what a leak stands for ------------------------------------------------------------------------------------------


@pytest.mark.required
@pytest.mark.parametrize("marker", ["<|im_user|>", "<|media_pad|>", "<|reserved_token_163700|>", "<think>"])
def test_the_bill_decides_what_a_marker_was(marker: str) -> None:
    """One control id, or its letters: each is accepted under its own bill alone, and no other bill is."""
    message = {"reasoning": "Think.", "content": f"a{marker}b"}
    control, spelled = (
        ids("Think.", "</think>", *parts, "<|im_end|>") for parts in (("a", marker, "b"), (f"a{marker}b",))
    )
    assert CONTROL_IDS[marker] in control
    assert CONTROL_IDS[marker] not in spelled
    traits = {**KNOWN, "lost_text": "no", "swallows_think": "no"}
    for billed in range(len(control) - 2, len(spelled) + 3):
        verdict = judged(answer(message, billed), traits)
        expected = {len(control): control, len(spelled): spelled}.get(billed)
        assert verdict.ids.ids == (expected or [])


@pytest.mark.required
def test_a_terminator_in_the_text_was_spelled() -> None:
    """A real terminator ends the turn: one with text behind it is never 163586, whatever the bill says."""
    message = {"reasoning": "Think.", "content": "It writes <|im_end|> there."}
    spelled = ids("Think.", "</think>", "It writes <|im_end|> there.", "<|im_end|>")
    for billed in range(8, len(spelled) + 3):
        verdict = judged(answer(message, billed), KNOWN)
        assert verdict.ids.ids == (spelled if billed == len(spelled) else [])


@pytest.mark.required
def test_a_second_close_is_never_taken_for_the_first() -> None:
    """`</think>` in content after reasoning: a second real one and a spelled first one have one count.

    So only the bill of a spelled second one is believed; under the bill of two readings nobody can tell.
    """
    message = {"reasoning": "Think.", "content": "a</think>b"}
    spelled = ids("Think.", "</think>", "a</think>b", "<|im_end|>")
    assert len(ids("Think.", "</think>", "a", "</think>", "b", "<|im_end|>")) == 7
    assert len(ids("Think.</think>a", "</think>", "b", "<|im_end|>")) == 7
    traits = {**KNOWN, "lost_text": "no", "swallows_think": "no"}
    verdicts = {billed: judged(answer(message, billed), traits) for billed in range(3, 16)}
    assert {billed: v.ids.ids for billed, v in verdicts.items() if v.accepted} == {8: spelled}
    assert "too-many-masked" in codes(verdicts[7])
