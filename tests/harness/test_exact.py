"""exact.py: ids and token bytes that a host reported, believed only as the whole answer."""

from typing import Any

import pytest

from harness.encoder import load_vocab
from harness.exact import Replayed, Report, reported
from harness.types import Ids, Reported, ToolCall, Turn
from tests.harness.chat import K25

pytestmark = pytest.mark.required

row = pytest.param

# The control ids of K2.5, and texts with their ids.
END, BEGIN_ALL, END_ALL, BEGIN, ARGS, DONE = 163586, 163595, 163596, 163597, 163598, 163599
THINK, CLOSE = 163606, 163607
HI, HELLO, SPACED_HI, SPACE = 18699, 19180, 38237, 220
HEADER = [41937, 1654, 25, 15]  # functions.f:0
EMPTY = 13071  # {}
SECTION = [BEGIN_ALL, BEGIN, *HEADER, ARGS, EMPTY, DONE, END_ALL]
CALL = ToolCall("functions.f:0", "f", "{}")
UNKNOWN = "no offset"


def turn(
    reasoning: str = "", content: str = "Hi", calls: tuple[ToolCall, ...] = (), finish: str = "stop", **said: Any
) -> Turn:
    """An answer with what its host said of single tokens."""
    return Turn(reasoning, content, calls, finish, reported=Reported(**said) if said else None)


def told(answer: Turn, *, billed: int | None = None, offset: int | None = None, replay: Any = None) -> Report | None:
    """What `reported` makes of an answer in the format of K2.5."""
    return reported(answer, K25, load_vocab(), billed, offset, replay)


NO_REPORT = [
    row(turn(), id="nothing-said"),
    row(turn(prompt_ids=(1, 2)), id="ids-of-the-prompt-alone"),
    row(turn(token_bytes=(b"Hi", b"\xff\xfe\xff")), id="bytes-that-no-id-has"),
    row(turn(token_bytes=(b"Hi", b"")), id="a-token-without-bytes"),
    row(turn(token_bytes=(b"Hi", b"<|im_end|")), id="half-a-control-name"),
]


@pytest.mark.parametrize("answer", NO_REPORT)
def test_no_report(answer: Turn) -> None:
    """Where not every token is told, nothing is: no report, and no contradiction either."""
    assert told(answer) is None


ROWS = [
    row(turn(ids=(HI, END)), [HI, END], [0, 0], id="ids"),
    row(turn(token_bytes=(b"Hi", b"<|im_end|>")), [HI, END], [1, 1], id="bytes-and-a-control-name"),
    row(turn(ids=(HI, END), token_bytes=(b"He", b"llo")), [HI, END], [0, 0], id="ids-go-before-bytes"),
    row(
        turn(content="🙂", token_bytes=(b"\xf0\x9f", b"\x99\x82", b"<|im_end|>")),
        [5885, 46813, END],
        [1, 1, 1],
        id="a-split",
    ),
    row(
        turn("Hi", "", (CALL,), "tool_calls", ids=(HI, CLOSE, *SECTION, END)),
        [HI, CLOSE, *SECTION, END],
        [0] * 13,
        id="a-call",
    ),
]


@pytest.mark.parametrize(("answer", "ids", "origins"), ROWS)
def test_a_whole_report_is_believed(answer: Turn, ids: list[int], origins: list[int]) -> None:
    """Each id with the origin `reported` (0), or `matched` (1) where the host named its bytes."""
    assert told(answer) == Report(Ids(ids, bytes(origins)))


def test_bytes_that_look_like_text_are_text() -> None:
    """Bytes of an ordinary id are that id, never a control id whose name looks alike: `chas` is 163533."""
    report = told(turn(content="chas", token_bytes=(b"chas", b"<|im_end|>")))

    assert report == Report(Ids([163533, END], b"\x01\x01"))


COUNTS = [
    # ids, finish, billed, offset, doubt
    row((HI, END), "stop", None, None, "", id="no-bill"),
    row((HI, END), "stop", 2, None, "", id="bill-is-the-row"),
    row((HI, END), "stop", 1, None, "2 ids reported, 1 tokens billed", id="unknown-equation-one-less"),
    row((HI, END), "stop", 3, None, "2 ids reported, 3 tokens billed", id="unknown-equation-one-more"),
    row((HI, END), "stop", 1, 0, "", id="terminator-not-billed"),
    row((HI, END), "stop", 3, 2, "", id="terminator-and-think-billed"),
    row((HI, END), "stop", 2, 2, "2 ids reported, 2 tokens billed", id="known-equation-is-not-met"),
    row((), "stop", 1, None, "no ids in the report", id="empty"),
    row((HI, END), "length", 2, 0, "a cut answer cannot hold its terminator", id="cut-with-terminator"),
    row((END, HI), "stop", 2, 1, "the terminator stands before the end", id="terminator-first"),
    row((HI, END, END), "stop", 3, 1, "the terminator stands before the end", id="two-terminators"),
    row((HI,), "length", 1, 0, "", id="cut"),
    row((HI,), "length", 2, 1, "", id="cut-with-think-billed"),
    row((HI,), "length", 2, 0, "1 ids reported, 2 tokens billed", id="cut-with-an-id-missing"),
    row((HI,), "stop", 1, 0, "the answer stopped by itself and its terminator is not among the ids", id="no-end"),
    row((HI,), "stop", 2, 1, "1 ids reported, 2 tokens billed", id="billed-terminator-that-was-not-reported"),
]


@pytest.mark.parametrize(("ids", "finish", "billed", "offset", "doubt"), COUNTS)
def test_a_report_must_be_as_long_as_the_bill(
    ids: tuple[int, ...], finish: str, billed: int | None, offset: int | None, doubt: str
) -> None:
    """An id that was billed and not reported, or the reverse, or an end in a wrong place: not the whole answer."""
    report = told(turn(finish=finish, ids=ids), billed=billed, offset=offset)

    assert report == Report(Ids(list(ids), bytes(len(ids))), doubt)


def test_a_call_without_a_reported_terminator() -> None:
    """Hosts that stop at the section's end sample no terminator; a bill of one more means that it was left out."""
    answer = turn("Hi", "", (CALL,), "tool_calls", ids=(HI, CLOSE, *SECTION))

    assert told(answer, billed=12, offset=0) == Report(Ids([HI, CLOSE, *SECTION], bytes(12)))
    report = told(answer, billed=13, offset=1)
    assert report is not None
    assert report.doubt == "12 ids reported, 13 tokens billed"


def holds(text: str) -> str:
    """The doubt about a text that did not come."""
    return f"the ids hold {text!r}, which is not in the answer"


TEXTS = [
    # what came, ids, doubt
    row(turn("Hi", "Hello"), [HI, CLOSE, HELLO], "", id="reasoning-and-content"),
    row(turn("Hi", "Hello"), [THINK, HI, CLOSE, HELLO], "", id="think-sampled-again"),
    row(turn("Hi", "Hello"), [HI, 198, CLOSE, HELLO], "", id="white-space-that-the-host-stripped"),
    row(turn("Hi", "Hello"), [HELLO, CLOSE, HI], "content is not in the decoded ids", id="the-wrong-way-round"),
    row(turn("Hello", ""), [HI, CLOSE], "reasoning is not in the decoded ids", id="another-text"),
    row(turn("", "Hi"), [CLOSE, HI, 6184], holds(" extra"), id="more-text"),
    row(turn("", "Hi"), [CLOSE, 163_840, HI], "id 163840 is outside the vocabulary (0..163839)", id="no-such-id"),
    row(turn("", "Hi"), [CLOSE, -1, HI], "id -1 is outside the vocabulary (0..163839)", id="negative"),
    row(turn("", "a<think>b"), [CLOSE, 64, THINK, 65], "", id="a-control-id-that-came-as-text"),
    row(turn("", "ab"), [CLOSE, 64, THINK, 65], "", id="a-control-id-that-left-no-trace"),
    row(turn("", "a <think> b"), [CLOSE, 64, THINK, 65], "", id="spaces-beside-a-control-id"),
    row(turn("", " Hi "), [CLOSE, HI], "", id="spaces-at-the-edges-that-the-host-inserted"),
    row(turn("", " Hi"), [198, CLOSE, HI], "", id="space-inserted-and-a-line-stripped-before-the-close"),
    row(turn("", "Hello "), [HELLO, 198], "content is not in the decoded ids", id="space-for-a-line-at-the-end"),
    row(turn("", " Hello "), [HI], "content is not in the decoded ids", id="spaces-around-another-text"),
    row(turn("Hi", "", (CALL,)), [HI, CLOSE, *SECTION], "", id="call"),
    row(turn("Hi", "", (CALL,)), [HI, *SECTION], "", id="call-without-end-of-reasoning"),
    row(
        turn("Hi", "", (ToolCall("functions.f:0", "zap", "{}"),)),
        [HI, CLOSE, *SECTION],
        "tool_calls[0].name is not in the decoded ids",
        id="another-name",
    ),
    row(
        turn("Hi", "", (ToolCall("functions.f:0", "f", '{"a": 1}'),)),
        [HI, CLOSE, *SECTION],
        "tool_calls[0].arguments is not in the decoded ids",
        id="arguments-written-anew",
    ),
    row(turn("Hi", "Hello"), [HI, CLOSE, HELLO, *SECTION], "", id="a-section-that-the-host-deleted"),
    row(turn("Hi", "Hello", (CALL,)), [HI, CLOSE, HELLO, *SECTION, HELLO], holds("Hello"), id="behind-a-section"),
    row(turn("", "Hi"), [CLOSE, HI, 14950, 25, 16], holds("note:1"), id="what-looks-like-a-call-id"),
]


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "cut"])
@pytest.mark.parametrize(("answer", "ids", "doubt"), TEXTS)
def test_an_unknown_stack_must_show_all_text(answer: Turn, ids: list[int], doubt: str, ended: bool) -> None:
    """Each text stands in the ids, in order, and between them stands nothing that should have come."""
    whole = (*ids, END) if ended else tuple(ids)
    answer = turn(answer.reasoning, answer.content, answer.tool_calls, "stop" if ended else "length", ids=whole)

    report = told(answer)

    assert report is not None
    assert report.doubt == doubt


def stack(*made: Any) -> Any:
    """A stack that makes one answer of any ids."""

    def replay(ids: list[int]) -> Replayed:
        assert ids == [HI, END]
        return made  # type: ignore[return-value]

    return replay


REPLAYS = [
    row(("", "Hi", (), "stop"), "", id="the-same"),
    row(("x", "Hi", (), "stop"), "reasoning: the stack would make 'x' of these ids, '' came", id="reasoning"),
    row(("", "Hi ", (), "stop"), "content: the stack would make 'Hi ' of these ids, 'Hi' came", id="content"),
    row(
        ("", "Hi", (CALL,), "stop"),
        "tool_calls: the stack would make \"[('f', '{}')]\" of these ids, '[]' came",
        id="calls",
    ),
    row(
        ("", "Hi", (), "length"), "finish_reason: the stack would make 'length' of these ids, 'stop' came", id="finish"
    ),
]


@pytest.mark.parametrize(("made", "doubt"), REPLAYS)
def test_a_known_stack_must_make_this_answer_of_the_ids(made: Any, doubt: str) -> None:
    """Where the stack is known, what it makes of the ids must be what came, whatever the ids decode to."""
    report = told(turn(ids=(HI, END)), replay=stack(*made))

    assert report == Report(Ids([HI, END], b"\0\0"), doubt)


def test_a_known_stack_may_number_calls_anew() -> None:
    """Names and arguments must agree; ids of calls are the host's to write."""
    answer = turn("", "Hi", (ToolCall("call_1", "f", "{}"),), ids=(HI, END))

    report = told(answer, replay=stack("", "Hi", (CALL,), "stop"))

    assert report == Report(Ids([HI, END], b"\0\0"))
