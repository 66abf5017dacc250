"""response.py on the recorded and the public answers: all is read, nothing is lost, reported ids are true."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ProviderError
from harness.response import EventStream, loads, parse
from harness.types import ToolCall, Turn
from tests.harness.answers import encoded, framed

pytestmark = pytest.mark.shared

FILES = {  # answers a file
    "real/responses.jsonl.gz": 728,
    "real/long_responses.jsonl.gz": 89,
    "recordings/vllm-0.32.0.jsonl.gz": 1_320,
    "recordings/sglang-0.5.23.jsonl.gz": 598,
}
TAKES_A_PIECE = (3, 1_000)


def lines(shared: Path, name: str) -> Iterator[dict[str, Any]]:
    """The lines of one file."""
    with gzip.open(shared / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def deltas(answer: Any) -> list[dict[str, Any]]:
    """All messages or deltas of an answer."""
    events = answer if isinstance(answer, list) else [answer]
    return [c.get("delta") or c.get("message") or {} for e in events for c in e["choices"]]


def slow_texts(answer: Any) -> tuple[str, str, str]:
    """The oracle: reasoning, content and all arguments, joined in the plainest way."""
    rows = deltas(answer)
    details = ["".join(d["text"] for d in row.get("reasoning_details") or []) for row in rows]
    thought = [
        row.get("reasoning") or row.get("reasoning_content") or text for row, text in zip(rows, details, strict=True)
    ]
    calls = [
        (c.get("index") or 0, c["function"].get("arguments") or "") for row in rows for c in row.get("tool_calls") or []
    ]
    return (
        "".join(thought),
        "".join(row.get("content") or "" for row in rows),
        "".join(text for _, text in sorted(calls, key=lambda call: call[0])),
    )


def texts(turn: Turn) -> tuple[str, str, str]:
    """The same of a Turn."""
    return turn.reasoning, turn.content, "".join(call.arguments for call in turn.tool_calls)


@pytest.mark.parametrize(("name", "n_lines"), FILES.items())
def test_every_answer_is_read_and_nothing_is_lost(shared: Path, name: str, n_lines: int) -> None:
    """Every line gives a Turn with all of its text, the same from parsed values as from bytes; none is sealed."""
    n = 0
    for n, line in enumerate(lines(shared, name), 1):
        answer = line["response"]
        turn = parse(answer)
        where = f"line {n}: {line.get('name') or (line['server'], line['variant'], line['dialogue'])}"
        assert parse(framed(answer) if isinstance(answer, list) else encoded(answer)) == turn, where
        assert texts(turn) == slow_texts(answer), where
        assert turn.finish_reason in ("stop", "tool_calls", "length", "tool_use"), where
        assert turn.usage is not None or "usage" not in json.dumps(answer), where
        assert not turn.sealed, where
        if turn.chunks is not None:
            assert all(all(row) for row in turn.chunks.values()), where
            assert "".join(turn.chunks.get("reasoning", ())) == turn.reasoning, where
            assert "".join(turn.chunks.get("content", ())) == turn.content, where
            calls = ["".join(turn.chunks.get(f"call:{k}", ())) for k in range(len(turn.tool_calls))]
            assert calls == [call.arguments for call in turn.tool_calls], where
        if turn.interludes:
            assert len(turn.interludes) == len(turn.tool_calls), where
            assert turn.content.endswith("".join(turn.interludes)), where
    assert n == n_lines


@pytest.mark.parametrize("name", FILES)
def test_the_cut_of_a_stream_does_not_matter(shared: Path, name: str) -> None:
    """In 3 and in 1,000 pieces, with LF and with CRLF, and for a sample byte by byte: the events of the parsed list."""
    streams = [line["response"] for line in lines(shared, name) if isinstance(line["response"], list)]
    for n, events in enumerate(streams):
        stream = framed(events)
        if n % 2:
            stream = stream.replace(b"\n", b"\r\n")
        steps = {max(1, -(-len(stream) // pieces)) for pieces in TAKES_A_PIECE} | ({1} if n % 40 == 0 else set())
        for step in steps:
            sse = EventStream()
            got = [p for i in range(0, len(stream), step) for p in sse.feed(stream[i : i + step])]
            assert [loads(p) for p in got] == events, f"stream {n}, {step} bytes a piece"
            assert (sse.done, sse.close()) == (True, [])
    assert len(streams) == {"real/responses.jsonl.gz": 583, "recordings/vllm-0.32.0.jsonl.gz": 366}.get(
        name, 120 if "sglang" in name else 0
    )


def test_reported_ids_are_the_true_ids(shared: Path) -> None:
    """Where a recording carries ids they are all of the true ones, and those of its prompt; where bytes, one an id."""
    seen: Counter[tuple[str, str]] = Counter()
    for name in FILES:
        if "recordings" not in name:
            continue
        for line in lines(shared, name):
            reported = parse(line["response"]).reported
            if reported is None:
                continue
            if reported.ids is not None:
                assert list(reported.ids) == line["true_ids"], (line["server"], line["variant"], line["dialogue"])
                seen[line["engine"], "ids"] += 1
            if reported.prompt_ids is not None:
                assert list(reported.prompt_ids) == line["prompt_ids"], (
                    line["server"],
                    line["variant"],
                    line["dialogue"],
                )
                seen[line["engine"], "prompt"] += 1
            if reported.token_bytes is not None:
                assert len(reported.token_bytes) == len(line["true_ids"]), (line["server"], line["variant"])
                seen[line["engine"], "bytes"] += 1
    engines = sorted({engine for engine, _ in seen})
    assert [[seen[engine, part] for part in ("ids", "prompt", "bytes")] for engine in engines] == [
        [167, 167, 24],
        [1_224, 1_224, 798],
    ]


def test_two_calls_at_one_index_stay_two(shared: Path) -> None:
    """A public stream sends index 0 for both of its calls, told apart by their ids alone."""
    same = []
    for line in lines(shared, "real/responses.jsonl.gz"):
        calls = [call for delta in deltas(line["response"]) for call in delta.get("tool_calls") or []]
        if isinstance(line["response"], list) and len({(c["index"], c["id"]) for c in calls if c.get("id")}) > len(
            {c["index"] for c in calls}
        ):
            same.append(parse(line["response"]).tool_calls)

    glob = '{"pattern":"*.go"}'
    assert same == [(ToolCall("functions.glob:0", "glob", glob), ToolCall("functions.glob:1", "glob", ""))]


def test_generate_bodies_are_no_chat_answers(shared: Path) -> None:
    """Every /generate body says what it is."""
    n = 0
    for line in lines(shared, "recordings/sglang-0.5.23-generate.jsonl.gz"):
        for answer in line["generate"].values():
            n += 1
            for form in (answer, encoded(answer), [answer]):
                with pytest.raises(ProviderError, match="an answer of SGLang's /generate, not a chat answer"):
                    parse(form)
    assert n == 144
