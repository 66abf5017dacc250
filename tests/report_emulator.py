"""`make emulator-parity`: the emulator's answers beside those of real engines for the same ids: a table, one JSON line.

Needs the optional folder of extra recordings; without it every figure is null and the exit status 0, unless
`--require-shared` is given.
"""

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.encoder import load_vocab
from harness.presets import PRESETS, answer
from harness.wire import Head, body, chunks
from tests.conftest import shared_folder

ENGINES = {
    "vllm main": ("vllm-0.32.0", "main", "vllm-0.32"),
    "vllm main_trunc": ("vllm-0.32.0", "main_trunc", "vllm-0.32"),
    "sglang B_realflags": ("sglang-0.5.23", "B_realflags", "sglang-0.5.23"),
}
"""Label -> (file of recordings, server, preset that is held to them)."""
WANTED = 0.9
CHANNELS = ("reasoning", "content", "calls")


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer as a client reads it; ids that a host mints are one and the same."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, str, str], ...]
    finish: str | None
    usage: tuple[int | None, ...]
    chunks: Mapping[str, tuple[str, ...]]


def records(folder: Path, label: str) -> Iterator[dict[str, Any]]:
    """The recordings of one engine and server."""
    file, server, _ = ENGINES[label]
    with gzip.open(folder / "recordings" / f"{file}.jsonl.gz") as lines:
        yield from (r for r in map(json.loads, lines) if r["server"] == server)


def seen(response: Any) -> Seen:
    """A body, or the list of a stream's events, read without the code that it tests."""
    events = response if isinstance(response, list) else [_as_chunk(response)]
    texts: dict[str, list[str]] = {}
    calls: dict[int, list[str]] = {}
    finish: str | None = None
    usage: dict[str, Any] = {}
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            finish = choice.get("finish_reason") or finish
            _read_delta(choice["delta"], texts, calls)
    details = usage.get("completion_tokens_details") or {}
    bill = tuple(usage.get(k) for k in ("prompt_tokens", "completion_tokens", "total_tokens"))
    return Seen(
        "".join(texts.get("reasoning", ())),
        "".join(texts.get("content", ())),
        tuple((_unminted(i), n, a) for _, (i, n, a) in sorted(calls.items())),
        finish,
        (*bill, details.get("reasoning_tokens")),
        {k: tuple(v) for k, v in texts.items()} if isinstance(response, list) else {},
    )


def _as_chunk(whole: Mapping[str, Any]) -> dict[str, Any]:
    choice = whole["choices"][0]
    message = choice["message"]
    calls = [{**call, "index": k} for k, call in enumerate(message.get("tool_calls") or ())]
    return {**whole, "choices": [{**choice, "delta": {**message, "tool_calls": calls}}]}


def _read_delta(delta: Mapping[str, Any], texts: dict[str, list[str]], calls: dict[int, list[str]]) -> None:
    said = {"reasoning": delta.get("reasoning") or delta.get("reasoning_content"), "content": delta.get("content")}
    for channel, text in said.items():
        if text:
            texts.setdefault(channel, []).append(text)
    for part in delta.get("tool_calls") or ():
        function = part.get("function") or {}
        call = calls.setdefault(part["index"], ["", "", ""])
        call[0], call[1] = part.get("id") or call[0], function.get("name") or call[1]
        if function.get("arguments"):
            call[2] += function["arguments"]
            texts.setdefault(f"call:{part['index']}", []).append(function["arguments"])


def _unminted(call_id: str) -> str:
    return "chatcmpl-tool-*" if call_id.startswith("chatcmpl-tool-") else call_id


def emulated(record: Mapping[str, Any], preset: str) -> Any:
    """What the emulator sends for the recorded ids and request: a body, or a list of chunks."""
    said = answer(
        record["true_ids"],
        record["request"],
        record["thinking"],
        PRESETS[preset],
        load_vocab().token_bytes,
        prompt_ids=record["prompt_ids"],
    )
    head = Head("gen-1", 0, "m", preset)
    return list(chunks(said, head)) if record["request"].get("stream") else body(said, head)


def differences(mine: Seen, theirs: Seen) -> list[str]:
    """What differs; chunk boundaries of mine may be more than theirs, never fewer."""
    wrong = [f for f in (*CHANNELS, "finish", "usage") if getattr(mine, f) != getattr(theirs, f)]
    for channel in {*mine.chunks, *theirs.chunks}:
        if not _edges(mine.chunks.get(channel, ())) >= _edges(theirs.chunks.get(channel, ())):
            wrong.append(f"chunks of {channel}")
    return wrong


def _edges(texts: Sequence[str]) -> set[int]:
    edges, at = set(), 0
    for text in texts:
        at += len(text)
        edges.add(at)
    return edges


def compare(folder: Path, label: str) -> tuple[int, int, list[tuple[str, str, list[str]]]]:
    """Recordings, those with the very same chunks, and the misses: (dialogue, variant, what differs)."""
    n = same = 0
    misses = []
    for record in records(folder, label):
        mine, theirs = seen(emulated(record, ENGINES[label][2])), seen(record["response"])
        n += 1
        same += mine.chunks == theirs.chunks
        if wrong := differences(mine, theirs):
            misses.append((record["dialogue"], record["variant"], wrong))
    return n, same, misses


def main(arguments: Sequence[str]) -> int:
    """Prints the table and the JSON line; 1 where an engine falls short of the wanted share."""
    folder = shared_folder()
    if folder is None:
        print("the optional folder of extra recordings is absent: nothing to compare")
        print(json.dumps({"parity": dict.fromkeys(ENGINES)}))
        return int("--require-shared" in arguments)
    figures: dict[str, dict[str, Any]] = {}
    for label in ENGINES:
        n, same, misses = compare(folder, label)
        print(f"{label:20} {n - len(misses):4} of {n:4} agree; {same} with the very same chunks")
        for dialogue, variant, wrong in misses:
            print(f"    miss: {dialogue} {variant}: {', '.join(wrong)}")
        reasons = Counter(", ".join(wrong) for _, _, wrong in misses)
        figures[label] = {"answers": n, "agree": n - len(misses), "same_chunks": same, "misses": dict(reasons)}
    enough = all(f["agree"] >= WANTED * f["answers"] for f in figures.values())
    print(json.dumps({"parity": figures, "wanted": WANTED, "ok": enough}))
    return int(not enough)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
