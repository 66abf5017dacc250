"""Chooses goldens from the optional folder of extra recordings and writes them: `python -m tests.make_goldens`.

Every dialogue of the two recorded set-ups with known true ids, streamed and not, with and without tools; and the
`/generate` bodies of the set-up that flags control ids as Kimi ships them. Names, ids and answers stay as recorded;
only the layout is for eyes. The result is committed, so that nothing else needs the folder.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.encoder import load_vocab
from harness.inputs import golden_text
from harness.store import write_atomic
from tests.conftest import ROOT, shared_folder

SOURCE = "Recorded from {engine} on CPU with a small model trained to emit chosen ids."
MODEL = "kimi-k2.5"  # whose format the dialogues have; the servers called their small model otherwise

# file -> folder of golden/, engine as people write it, provider of harness/habits.toml, server, variants
CHAT = {
    "vllm-0.32.0.jsonl.gz": (
        "vllm-0.32.0",
        "vLLM 0.32.0",
        "vllm-0.32",
        "main",
        ("notools", "tools", "notools_stream", "tools_bare_stream"),
    ),
    "sglang-0.5.23.jsonl.gz": (
        "sglang-0.5.23",
        "SGLang 0.5.23",
        "sglang-0.5.23",
        "B_realflags",
        ("chat_notools", "chat_tools", "stream_notools", "stream_tools"),
    ),
}
GENERATE = ("sglang-0.5.23-generate.jsonl.gz", "sglang-0.5.23-generate", "SGLang 0.5.23", "B_realflags")


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The recordings of one file."""
    with gzip.open(path, "rb") as file:
        yield from map(json.loads, file)


def eyes(ids: list[int]) -> list[str]:
    """Each id's piece, for the reader; a byte that is no text by itself as an escape."""
    return [load_vocab().token_bytes(i).decode("utf-8", "backslashreplace") for i in ids]


def head(name: str, engine: str, line: Mapping[str, Any], ids: list[int]) -> dict[str, Any]:
    """What every golden begins with."""
    return {
        "name": name,
        "source": SOURCE.format(engine=engine),
        "engine": engine,
        "server": line["server"],
        "prompt_ids": line["prompt_ids"],
        "true_ids": ids,
        "pieces": eyes(ids),
    }


def chat(shared: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path below golden/, content) of each chosen chat answer."""
    for file, (folder, engine, provider, server, variants) in CHAT.items():
        for line in lines(shared / "recordings" / file):
            if line["server"] == server and line["variant"] in variants:
                case = f"{line['dialogue']}.{line['variant']}"
                told = {"model": MODEL, "provider": provider, "thinking": line["thinking"]}
                body = {"request": line["request"], "response": line["response"]}
                yield f"{folder}/{case}.json", head(f"{folder}/{case}", engine, line, line["true_ids"]) | told | body


def generate(shared: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path below golden/, content) of each `/generate` golden."""
    file, folder, engine, server = GENERATE
    for line in lines(shared / "recordings" / file):
        if line["server"] == server:
            case = f"{folder}/{line['dialogue']}"
            yield f"{case}.json", head(case, engine, line, line["output_ids"]) | {"generate": line["generate"]}


def main() -> None:
    """Write all."""
    shared = shared_folder()
    if shared is None:
        sys.exit("the optional folder of extra recordings is absent (TOKENPROOF_SHARED, default ../shared)")
    n, size = 0, 0
    for where, content in (*chat(shared), *generate(shared)):
        path = ROOT / "golden" / where
        path.parent.mkdir(parents=True, exist_ok=True)
        data = golden_text(content).encode()
        write_atomic(path, data)
        n, size = n + 1, size + len(data)
    sys.stdout.write(f"{n} goldens, {size / 1e6:.2f} MB\n")


if __name__ == "__main__":
    main()
