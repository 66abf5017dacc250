"""What the tests of capturing share: plans, prompts, a run against the stand-in, and recorded bodies changed."""

import json
from pathlib import Path
from typing import Any

from harness.encoder import encode_prompt_text
from runners.engines import Told
from runners.golden import Plan, capture
from runners.golden_files import Change, Row
from runners.prompts import Ask, asks_of, read_lines
from tests.corpus import kit
from tests.runners.standin import StandIn, asking, prompts_file, sglang_dialogues, vllm_dialogues

FMT = next(f for f in kit().formats if f.name == "kimi-k2.5")
SGLANG, VLLM = sglang_dialogues(), vllm_dialogues()
PLAIN = SGLANG["plain"]
TOLD = Told("sglang", "0.5.23", "kimi-k2.5", {})
CHAT = "/v1/chat/completions"


def plan(out: Path, *allowed: Change, told: Told = TOLD, bare: bool = False) -> Plan:
    """A plan that writes to a folder."""
    return Plan(out, "e", told, FMT, {"tp_size": 1}, "Replayed by a test.", 400, bare, frozenset(allowed))


def asks(folder: Path, *lines: dict[str, Any]) -> list[Ask]:
    """The prompts of these lines."""
    return asks_of(read_lines([prompts_file(folder, *lines)]), FMT, None, encode_prompt_text)


def captured(engine: StandIn, wanted: list[Ask], how: Plan) -> list[Row]:
    """All rows of a run."""
    with asking(engine, timeout_s=5) as server:
        return list(capture(wanted, server, how, kit()))


def statuses(rows: list[Row]) -> dict[str, str]:
    """Name -> status."""
    return {row.name: row.status for row in rows}


def changed(body: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A body with other members."""
    value: dict[str, Any] = json.loads(json.dumps(body)) | more
    return value


def generate(**more: Any) -> dict[str, Any]:
    """The recorded body of /generate with other members."""
    return changed(PLAIN.generate, **more)


def meta(**more: Any) -> dict[str, Any]:
    """The same with another meta_info."""
    return generate(meta_info=PLAIN.generate["meta_info"] | more)
