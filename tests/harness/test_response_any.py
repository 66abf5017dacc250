"""response.py under random texts, random cuts, random members and random bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ProviderError
from harness.response import EventStream, loads, parse
from harness.types import Turn
from tests.harness.answers import body, chunk, encoded, framed, piece

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
EVENTS = st.lists(
    st.one_of(
        st.builds(lambda text: chunk({"content": text}), TEXTS),
        st.builds(lambda text: chunk({"reasoning": text, "reasoning_content": text}), TEXTS),
        st.builds(lambda i, text: chunk(piece(i, f"id{i}", "f", text)), st.integers(0, 2), TEXTS),
        st.builds(lambda n: {"choices": [], "usage": {"completion_tokens": n}}, st.integers(0, 9)),
    ),
    min_size=1,
    max_size=10,
).map(lambda events: [*events, chunk({}, "stop")])


@given(events=EVENTS, data=st.data())
def test_any_cut_of_random_answers(events: list[dict[str, Any]], data: st.DataObject) -> None:
    """Random texts, framed and cut at random places, give the events, and so the Turn, of the parsed list."""
    stream = framed(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
    sse = EventStream()
    got = [p for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) for p in sse.feed(stream[a:b])]

    assert [loads(payload) for payload in [*got, *sse.close()]] == events
    turn = parse(stream)
    assert turn == parse(events)
    contents = [e["choices"][0]["delta"].get("content", "") for e in events if e["choices"]]
    assert turn.content == "".join(contents)
    assert (turn.chunks or {}).get("content", ()) == tuple(filter(None, contents))
    assert turn.content.endswith("".join(turn.interludes))


MEMBERS = """choices message delta content reasoning reasoning_details tool_calls function_call function name arguments
    id index type text usage completion_tokens error code metadata logprobs bytes token token_ids sglext output_ids
    prompt_token_ids finish_reason detail meta_info"""
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.sampled_from(["", "4", "stop", "error"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS.split()), inner, max_size=4),
    max_leaves=25,
)


def outcome(answer: Any) -> Turn | str:
    """The Turn, or the words of the ProviderError."""
    try:
        return parse(answer)
    except ProviderError as error:
        return str(error)


@given(value=NONSENSE, depth=st.integers(0, 2))
def test_nonsense_is_an_answer_or_a_provider_error(value: Any, depth: int) -> None:
    """Known members in wrong places and of wrong types never raise anything but ProviderError."""
    answer = (value, {"choices": [value]}, body(value if isinstance(value, dict) else {"content": value}))[depth]
    text = json.dumps(answer).encode()

    for form in (answer, [answer], text, b"data: " + text + b"\n\n"):
        assert isinstance(outcome(form), Turn | str)
    if "NaN" not in (words := text.decode()) and "Infinity" not in words:
        assert outcome([answer]) == outcome(b"[" + text + b"]")


@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda t: b"data: " + t.encode("utf-8", "surrogatepass")))
def test_random_bytes_are_an_error(data: bytes) -> None:
    """Bytes that hold no answer raise ProviderError and nothing else."""
    with pytest.raises(ProviderError):
        parse(data)


@given(position=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_changed_byte_is_an_answer_or_an_error(position: int, byte: int) -> None:
    """One byte of a stream or a body changed: still a Turn or a ProviderError."""
    stream = framed([chunk({"content": "é\u2028"}), chunk(piece(0, "a", "f", "{}"), "stop")])
    for whole in (stream, encoded(body(usage={"cost": 1}))):
        place = position % len(whole)
        changed = whole[:place] + bytes([byte]) + whole[place + 1 :]
        assert isinstance(outcome(changed), Turn | str)
        assert outcome(whole) == parse(whole)
