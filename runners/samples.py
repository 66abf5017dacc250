"""The ledger's rows -> samples: what may be trained on and, apart from it, what may not, each with all that is known.

In the order of the input, the same bytes from the same ledger, one row group in memory. Nothing is judged here.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.asked import thinking_of
from harness.errors import HarnessError, ProviderError, SetupError
from harness.flow import Kit, Known, traits_of
from harness.formats import Format, find_format
from harness.habits import Traits
from harness.json_keys import wire_style
from harness.prompt import render
from harness.response import parse
from harness.store import atomic_file
from harness.types import ORIGIN_NAMES, Exchange, Finding, Turn, Usage, Verdict
from runners.ledger import Ledger, Row
from runners.ledger_rows import ANSWERED
from runners.tables import Kind, table_file
from runners.verdicts import Facts, unpack

USAGE = ("prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens")
COLUMNS: Mapping[str, Kind] = MappingProxyType(
    {
        "id": "text",
        "data_set": "text",
        "index": "int",
        "prompt_ids": ("id",),
        "output_ids": ("id",),
        "origins": ("text",),
        "loss_mask": ("byte",),
        "verdict": "text",
        "assumptions": ("text",),
        "premise": "text",
        "prompt": "text",
        "thinking": "flag",
        "truncated": "flag",
        "left_out": "text",
        "findings": ({"code": "text", "where": "text", "text": "text"},),
        "provider": "text",
        "model": "text",
        "finish_reason": "text",
        "usage": dict.fromkeys(USAGE, "int"),
        "cost_usd": "number",
        "attempts": "int",
        "generation_id": "text",
        "request_sha256": "text",
        "answer_sha256": "text",
        "content_hash": "text",
        "vocab_sha256": "text",
        "formats_sha256": "text",
        "habits_sha256": "text",
        "ticket_id": "text",
        "ungated": "text",
    }
)
"""Of samples.parquet, samples.jsonl and rejected.parquet; `left_out` says why a row is in the last one."""
FILES = ("samples.parquet", "samples.jsonl", "rejected.parquet")


@dataclass(frozen=True, slots=True)
class Taken:
    """One row of the ledger, understood.

    Attributes:
        facts: Members of `verdicts.Facts`; without a verdict only what let the prompt be asked for.
        turn: The answer as it came; None where none came, or where it is an error.
        prompt_ids: What the model read, as we render it, shape [P]; None where the request cannot be rendered.
        traits: What is known of the provider, for this answer.
        left_out: Why it is not trained on: its verdict, `prompt-contradicted`, `prompt-unverified`, or how it ended
            without an answer; None for a sample.
    """

    row: Row
    request: Mapping[str, Any]
    verdict: Verdict | None
    facts: Mapping[str, str | None]
    turn: Turn | None
    fmt: Format | None
    prompt_ids: list[int] | None
    traits: Traits
    left_out: str | None


def take(
    row: Row, kit: Kit, meta: Mapping[str, str] = MappingProxyType({}), *, allow_unverified_prompt: bool = False
) -> Taken:
    """What one row of the ledger holds.

    Args:
        meta: What the ledger says of the run: its ticket, or the reason for none.

    Raises:
        SetupError: An answer that nobody has judged yet, or a verdict that cannot be read.
    """
    if row.answer is not None and row.verdict is None:
        raise SetupError(
            f"the answer to {row.dataset}/{row.id} is not judged yet; resume the run, or run `tokenproof rejudge`"
        )
    request: Mapping[str, Any] = json.loads(row.request)
    verdict, told = unpack(row.verdict) if row.verdict is not None else (None, None)
    gate = {name: meta.get(name) or None for name in ("ticket_id", "ungated")}
    facts = asdict(told) if told else dict.fromkeys(Facts.__slots__) | gate
    turn = _turn(row)
    fmt = find_format(request.get("model"), kit.formats)
    traits = _traits(request, turn, fmt, verdict, kit)
    ids = _prompt_ids(request, fmt, traits, kit)
    left_out = _left_out(row, verdict, ids, allow_unverified_prompt)
    return Taken(row, request, verdict, facts, turn, fmt, ids, traits, left_out)


def _left_out(row: Row, verdict: Verdict | None, prompt_ids: list[int] | None, allow_unverified: bool) -> str | None:
    if row.end != ANSWERED or verdict is None:
        return row.end or "open"
    if not verdict.accepted:
        return verdict.name
    if prompt_ids is None or verdict.prompt == "contradicted":
        return "prompt-contradicted"
    return "prompt-unverified" if verdict.prompt == "unverified" and not allow_unverified else None


def _turn(row: Row) -> Turn | None:
    if row.answer is None:
        return None
    try:
        return parse(row.answer)
    except ProviderError:
        return None  # the verdict says so


def _traits(
    request: Mapping[str, Any], turn: Turn | None, fmt: Format | None, verdict: Verdict | None, kit: Kit
) -> Traits:
    """The traits by which the answer was judged, from the habits of today."""
    if turn is None or fmt is None or verdict is None:
        return {}
    mode = verdict.thinking if verdict.thinking is not None else fmt.thinking_modes[0]
    wire = wire_style(call.arguments for call in turn.tool_calls)
    known = Known(
        turn,
        fmt,
        verdict.thinking,
        verdict.provider,
        verdict.model or fmt.name,
        verdict.completion_tokens,
        bool(request.get("tools")),
        wire,
    )
    return traits_of(known, kit, mode)


def _prompt_ids(request: Mapping[str, Any], fmt: Format | None, traits: Traits, kit: Kit) -> list[int] | None:
    if fmt is None or kit.encode_prompt is None:
        return None
    if traits.get("default_system") == "none":
        fmt = replace(fmt, default_system=None)
    thinking = thinking_of(Exchange("", {}, request))
    try:
        return render(
            request["messages"], request.get("tools"), format=fmt, thinking=thinking, encode=kit.encode_prompt
        ).ids
    except HarnessError:
        return None


def fields(taken: Taken) -> dict[str, Any]:
    """The row of a sample, of COLUMNS; origins, loss_mask and output_ids are of one length."""
    row, turn = taken.row, taken.turn
    verdict = taken.verdict or Verdict("rejected")
    usage = (turn.usage if turn else None) or Usage()
    return {
        "id": row.id,
        "data_set": row.dataset,
        "index": row.index,
        "prompt_ids": taken.prompt_ids,
        "output_ids": verdict.ids.ids,
        "origins": list(map(ORIGIN_NAMES.__getitem__, verdict.ids.origins)),
        "loss_mask": verdict.loss_mask,
        "verdict": taken.verdict.name if taken.verdict else None,
        "assumptions": list(verdict.assumptions),
        "premise": verdict.premise,
        "prompt": verdict.prompt if taken.verdict else None,
        "thinking": verdict.thinking if taken.verdict else thinking_of(Exchange("", {}, taken.request)),
        "truncated": verdict.truncated,
        "left_out": taken.left_out,
        "findings": [{"code": f.code, "where": f.where, "text": f.text} for f in _findings(taken)],
        "provider": verdict.provider or row.provider,
        "model": verdict.model or taken.request.get("model"),
        "finish_reason": turn.finish_reason if turn else None,
        "usage": {name: getattr(usage, name) for name in USAGE},
        "cost_usd": row.cost_nano / 1e9,
        "attempts": row.n_attempts,
        "generation_id": row.generation,
        "request_sha256": row.request_sha256,
        "answer_sha256": row.answer_sha256,
        **taken.facts,
    }


def _findings(taken: Taken) -> Iterator[Finding]:
    if taken.verdict is not None:
        yield from taken.verdict.findings
    elif taken.row.failure or taken.row.note:
        yield Finding(taken.row.failure or taken.left_out or "", "response", taken.row.note or "")


def write(
    ledger: Ledger,
    kit: Kit,
    out: Path,
    *,
    allow_unverified_prompt: bool = False,
    seen: Callable[[Taken], None] = lambda taken: None,
) -> None:
    """samples.parquet, samples.jsonl and rejected.parquet in a folder; each stands there whole, or as it was before.

    Args:
        seen: Called with each row, for sums and for whoever waits.

    Raises:
        SetupError: They cannot be written, or an answer is not judged yet; nothing was changed then.
    """
    with ExitStack() as stack:
        samples = stack.enter_context(table_file(out / FILES[0], COLUMNS))
        text = stack.enter_context(atomic_file(out / FILES[1]))
        rejected = stack.enter_context(table_file(out / FILES[2], COLUMNS))
        meta = ledger.meta()
        for row in ledger.rows():
            taken = take(row, kit, meta, allow_unverified_prompt=allow_unverified_prompt)
            seen(taken)
            if row.end is None:
                continue  # still open: nothing was decided
            made = fields(taken)
            (rejected if taken.left_out else samples).add(made)
            if not taken.left_out:
                text.write(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
