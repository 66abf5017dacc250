"""Samples in the layouts of trainers: a conversation a generated turn, made from the ids that it stands for.

A row holds one turn, since earlier turns are rendered without their reasoning and the generated one with it. Facts of
the layouts come from the trainers' public code. Knows nothing of verdicts beyond `left_out`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.errors import SetupError
from harness.flow import Kit
from harness.messages import content_text
from harness.stack_plain import speak
from harness.stacks import Sampled
from harness.store import atomic_file, file_mode
from harness.ticket import Hashes
from runners.ledger import Ledger
from runners.samples import Taken, all_taken

Json = dict[str, Any]
REASONING = ("reasoning", "reasoning_content", "reasoning_details")


def specforge(taken: Taken, kit: Kit) -> Json:
    """A row of SpecForge's conversation JSONL: id, conversations, and tools where the request had any.

    `reasoning_content` stands in the generated turn alone; to be trained with the last turn only.
    """
    tools = taken.request.get("tools") or []
    earlier = [_earlier(message, k) for k, message in enumerate(taken.request["messages"])]
    row = {"id": f"{taken.row.dataset}/{taken.row.id}", "conversations": [*earlier, _turn(taken, kit)]}
    return row | ({"tools": tools} if tools else {})


def _earlier(message: Mapping[str, Any], k: int) -> Json:
    kept = {key: value for key, value in message.items() if key not in REASONING}
    return kept | {"content": content_text(message, f"messages[{k}]")}


def _turn(taken: Taken, kit: Kit) -> Json:
    """What the ids say, not what a host made of them."""
    verdict = taken.verdict
    if verdict is None or verdict.thinking is None:
        raise SetupError(f"{taken.row.dataset}/{taken.row.id}: the thinking mode of this answer is not known")
    tools = tuple(tool.get("function") or {} for tool in taken.request.get("tools") or ())
    said = speak(Sampled(tuple(verdict.ids.ids), verdict.thinking, tools=tools), kit.vocab.token_bytes)
    turn: Json = {"role": "assistant", "content": said.content}
    if verdict.thinking:
        turn["reasoning_content"] = said.reasoning
    if said.calls:
        turn["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.calls
        ]
    return turn


_ROW = re.compile(rb'\{"id":"(?:[^"\\]|\\.)*+","conversations":\[')
_START_BYTES = 1 << 20  # of a file, in which its first row begins


def refuse_other(out: Path) -> None:
    """Nothing but an earlier export is ever overwritten.

    Raises:
        SetupError: Something else stands there.
    """
    file_mode(out)  # before it is opened: a pipe would wait for somebody to write
    try:
        with out.open("rb") as file:
            start = file.read(_START_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SetupError(f"{out}: {error.strerror or error}; choose another --out") from error
    if start and not _ROW.match(start):
        raise SetupError(f"{out} is there, and is no export of this layout; remove it, or choose another --out")


LAYOUTS: Mapping[str, Callable[[Taken, Kit], Json]] = MappingProxyType({"specforge": specforge})
"""Name -> a sample's line of JSON."""


def export(
    ledger: Ledger,
    kit: Kit,
    layout: str,
    out: Path,
    *,
    used: Hashes | None = None,
    allow_unverified_prompt: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Write every sample in a layout, in the order of the input; gives rows written and answers left out, by why.

    A cut answer is left out (`truncated`): a trainer's template would end it as if the model had. `used` as in
    `samples.all_taken`.

    Raises:
        SetupError: The layout is unknown, an answer is not judged yet, or the file cannot be written, or is another.
    """
    made = LAYOUTS.get(layout)
    if made is None:
        raise SetupError(f"no layout {layout!r}; the layouts are {', '.join(('samples', *LAYOUTS))}")
    refuse_other(out)
    n: Counter[str] = Counter(written=0)
    with atomic_file(out) as file:
        for taken in all_taken(ledger, kit, used, allow_unverified_prompt=allow_unverified_prompt):
            tick()
            why = taken.left_out or ("truncated" if taken.verdict and taken.verdict.truncated else None)
            n[why or "written"] += 1
            if why is None:
                line = json.dumps(made(taken, kit), ensure_ascii=False, separators=(",", ":"))
                file.write(line.encode() + b"\n")
    return dict(n)
