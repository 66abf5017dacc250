"""sse.py: the same payloads however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ProviderError
from harness.sse import EventStream

row = pytest.param

CASES = [
    row(b"data: 1\n\ndata: 2\n\n", [b"1", b"2"], id="two-events"),
    row(b"data:1\n\ndata:  2\n\n", [b"1", b" 2"], id="one-space-at-most-is-dropped"),
    row(b"data: a\ndata: b\ndata:c\n\n", [b"a\nb\nc"], id="lines-of-one-event-are-joined"),
    row(b"data: a\ndata\ndata: b\n\n", [b"a\n\nb"], id="data-without-colon-is-an-empty-line"),
    row(b"data: 1\r\n\r\ndata: 2\r\n\r\n", [b"1", b"2"], id="crlf"),
    row(b"data: 1\r\rdata: 2\r\r", [b"1", b"2"], id="cr"),
    row(b"data: 1\r\n\rdata: 2\n\r\n", [b"1", b"2"], id="mixed-line-ends"),
    row(b"data: a\r\ndata: b\r\n\r\n", [b"a\nb"], id="crlf-is-one-line-end"),
    row(b"\xef\xbb\xbfdata: 1\n\n", [b"1"], id="bom"),
    row(b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n", [b"1"], id="bom-counts-at-the-start-only"),
    row(b": PING\n\n:PING\n\ndata: 1\n\n", [b"1"], id="comments"),
    row(b": PING\ndata: 1\n: PING\n\n", [b"1"], id="comments-inside-an-event"),
    row(b"data: : PING\n\ndata: 1\n\n", [b"1"], id="comment-sent-on-as-data"),
    row(b"\n\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n", [b"1", b"2"], id="blank-lines"),
    row(b"data:\n\ndata: \n\ndata: 1\n\n", [b"1"], id="blank-data-is-no-payload"),
    row(b"event: x\nid: 7\nretry: 10\ndata: 1\n\n", [b"1"], id="other-fields"),
    row(b"dataset: 0\nfoo\n data: 0\ndata: 1\n\n", [b"1"], id="unknown-fields"),
    row(b"event: x\n\ndata: 1\n\n", [b"1"], id="event-without-data"),
    row(b'{"error":{"code":502}}\n\n', [b'{"error":{"code":502}}'], id="bare-json-counts-as-data"),
    row(b"data: 1\n\ndata: [DONE]\n\ndata: 2\n\n", [b"1"], id="done-ends"),
    row(b"data: 1\n\ndata:[DONE] \n\ndata: 2\n\n", [b"1"], id="done-without-space"),
    row(b"data: 1\n\ndata: [DONE]", [b"1"], id="done-without-line-end"),
    row(b"data: 1\n\ndata: 2\n", [b"1", b"2"], id="close-gives-an-event-without-blank-line"),
    row(b'data: {"a', [b'{"a'], id="close-gives-a-cut-event-as-it-is"),
    row(
        "data: a\u2028b\u2029c\u0085d\x0b\x0c\x1ce\n\n".encode(),
        ["a\u2028b\u2029c\u0085d\x0b\x0c\x1ce".encode()],
        id="only-cr-and-lf-end-lines",
    ),
    row("data: 四😀é\n\n".encode(), ["四😀é".encode()], id="characters-of-many-bytes"),
    row(b"data: \xff\xfe\n\n", [b"\xff\xfe"], id="bytes-that-are-no-text"),
    row(b"", [], id="nothing"),
]


def feed_all(events: EventStream, stream: bytes, step: int) -> list[bytes]:
    """Payloads of a stream that comes in pieces of `step` bytes."""
    return [p for i in range(0, len(stream), step) for p in events.feed(stream[i : i + step])]


def slow_payloads(stream: bytes) -> list[bytes]:
    """The oracle: whole lines, one after another, as the standard's text tells it."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    got: list[bytes] = []
    data: list[bytes] = []
    for line in [*text.split(b"\n"), b""]:
        if line.startswith(b"data"):
            name, _, value = line.partition(b":")
            data += [value[1:] if value.startswith(b" ") else value] if name == b"data" else []
        elif line.startswith(b"{"):
            data.append(line)
        elif not line:
            got.append(b"\n".join(data))
            data = []
    whole = [p for p in got if p.strip() and not p.startswith(b":")]
    ends = [i for i, p in enumerate(whole) if p.strip() == b"[DONE]"]
    return whole[: ends[0]] if ends else whole


@pytest.mark.parametrize(("stream", "expected"), CASES)
@pytest.mark.parametrize("step", [1, 2, 3, 1_000])
def test_payloads_do_not_depend_on_delivery(stream: bytes, expected: list[bytes], step: int) -> None:
    """However the bytes are cut, the same payloads come out."""
    events = EventStream()

    assert feed_all(events, stream, step) + events.close() == expected


@pytest.mark.parametrize(("stream", "expected"), CASES)
def test_the_oracle_agrees(stream: bytes, expected: list[bytes]) -> None:
    """The slow reading of the standard gives the same payloads."""
    assert slow_payloads(stream) == expected


LINES = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=8).map(lambda text: b"data: " + text.encode()),
        st.sampled_from(
            [b"", b"", b"data", b"data:", b": ping", b"event: e", b"data: [DONE]", b'{"a":1}', b"\xef\xbb\xbf"]
        ),
        st.binary(max_size=6),
    ),
    max_size=12,
)


@given(lines=LINES, ends=st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=12, max_size=12), data=st.data())
def test_any_cut_of_any_stream(lines: list[bytes], ends: list[bytes], data: st.DataObject) -> None:
    """Random lines with random line ends, cut at random places, give what the slow oracle gives of the whole."""
    stream = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    events = EventStream()

    got = [p for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) for p in events.feed(stream[a:b])]

    assert got + events.close() == slow_payloads(stream)


def test_payloads_come_as_soon_as_they_are_whole() -> None:
    """An event is given by the very piece that ends it, not by the next one."""
    events = EventStream()

    assert events.feed(b"data: 1\n") == []
    assert events.feed(b"\n") == [b"1"]
    assert events.feed(b"data: 2\r") == []
    assert events.feed(b"\n\r") == [b"2"]
    assert events.feed(b"\ndata: 3\n\nda") == [b"3"]
    assert events.close() == []


@pytest.mark.required
def test_done_is_said_and_no_payload() -> None:
    """`done` is False until [DONE] came; afterwards nothing is given, not even by close."""
    events = EventStream()

    assert events.feed(b"data: 1\n\n") == [b"1"]
    assert not events.done
    assert events.feed(b"data: [DONE]\n\ndata: 2\n\ndata: 3") == []
    assert events.done
    assert events.feed(b"data: 4\n\n") == []
    assert events.close() == []


@pytest.mark.parametrize("step", [1, 7, 100])
def test_an_event_that_is_too_long_is_refused(step: int) -> None:
    """An event of one byte too many raises in any delivery, before and after its end; one that fits does not."""
    fits, long = b"data: " + b"x" * 14 + b"\n\n", b"data: " + b"x" * 15 + b"\n\n"
    events = EventStream(max_event_bytes=20)
    assert feed_all(events, fits, step) == [b"x" * 14]

    with pytest.raises(ProviderError, match="an event of 21 bytes or more; at most 20 are read"):
        feed_all(events, long, step)


def test_a_stream_that_is_too_long_is_refused() -> None:
    """The bytes of a whole stream are bounded, whatever they hold."""
    events = EventStream(max_stream_bytes=20)
    events.feed(b": ping\n\n" * 2)

    with pytest.raises(ProviderError, match="longer than the limit"):
        events.feed(b"data:")


def test_the_limits_are_16_and_256_mib() -> None:
    """An event of 16 MiB is read, one byte more is refused."""
    stream = b"data: " + b"x" * (16 * 2**20 - 6)
    events = EventStream()

    assert [len(p) for p in events.feed(stream + b"\n\n")] == [16 * 2**20 - 6]
    with pytest.raises(ProviderError, match="16,777,216"):
        events.feed(stream + b"x")
