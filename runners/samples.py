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
from harness.errors import HarnessError, SetupError
from harness.flow import Kit, Known, known_of, traits_of
from harness.formats import find_format
from harness.habits import Traits
from harness.ids import build
from harness.prompt import render
from harness.readings import SearchBound, readings
from harness.store import atomic_file
from harness.ticket import Hashes
from harness.types import ORIGIN_NAMES, Exchange, Finding, Usage, Verdict
from harness.witnesses import n_before_end
from runners.admission import HASHES
from runners.ledger import Ledger, Row
from runners.ledger_rows import ANSWERED, NO_LONGER
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
NO_LONGER_ASKED = "no-longer-asked"
JUDGE_ANEW = "run `tokenproof rejudge` first, which asks for nothing, or use what it was judged with (--habits)"
FILES = ("samples.parquet", "samples.jsonl", "rejected.parquet")


@dataclass(frozen=True, slots=True)
class Taken:
    """One row of the ledger, understood.

    Attributes:
        facts: Members of `verdicts.Facts`; without a verdict only what let the prompt be asked for.
        known: What the judge went by; None where no answer came, or where nothing of it can be read.
        traits: Those of the provider for this answer, by the habits of today.
        prompt_ids: What the model read, as we render it, shape [P]; None where the request cannot be rendered.
        n_plain: Ids of the plain reading without the terminator, of an answer that gave no whole certain ids; None
            where it has no reading.
        left_out: Why it is not trained on: NO_LONGER_ASKED, its verdict, `prompt-contradicted`, `prompt-unverified`,
            or how it ended without an answer; None for a sample.
    """

    row: Row
    request: Mapping[str, Any]
    verdict: Verdict | None
    facts: Mapping[str, str | None]
    known: Known | None
    traits: Traits
    prompt_ids: list[int] | None
    n_plain: int | None
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
        raise SetupError("its answer is not judged yet; resume the run, or run `tokenproof rejudge`")
    request: Mapping[str, Any] = json.loads(row.request)
    verdict, told = unpack(row.verdict) if row.verdict is not None else (None, None)
    if verdict is not None and verdict.name != row.verdict_name:
        raise SetupError(f"its verdict is {verdict.name}, and named {row.verdict_name}; `tokenproof rejudge` it")
    gate = {name: meta.get(name) or None for name in ("ticket_id", "ungated")}
    facts = asdict(told) if told else dict.fromkeys(Facts.__slots__) | gate
    known = _known(row, request, kit)
    traits = traits_of(known, kit, mode_of(known)) if known else {}
    ids = _prompt_ids(request, traits, kit)
    whole = verdict is not None and verdict.accepted and not verdict.truncated
    n_plain = None if known is None or whole else _n_plain(known, traits, kit)
    left_out = _left_out(row, verdict, ids, allow_unverified_prompt)
    return Taken(row, request, verdict, facts, known, traits, ids, n_plain, left_out)


def all_taken(
    ledger: Ledger, kit: Kit, used: Hashes | None = None, *, allow_unverified_prompt: bool = False
) -> Iterator[Taken]:
    """Every row of a ledger, understood.

    Args:
        used: The hashes of the kit: a prompt is rendered anew, which only those that its verdict was made with may do.
            None: whatever they are.

    Raises:
        SetupError: As `take`, where a verdict was made with other hashes, and where the ledger is damaged: it is looked
            through as a whole first. Names the ledger and the row.
    """
    ledger.check()
    meta = ledger.meta()
    for row in ledger.rows():
        try:
            taken = take(row, kit, meta, allow_unverified_prompt=allow_unverified_prompt)
        except SetupError as error:
            raise SetupError(f"{ledger.path}: {row.dataset}/{row.id}: {error}") from error
        if used is not None and taken.verdict is not None and (parted := other_hashes(taken.facts, asdict(used))):
            raise SetupError(f"{ledger.path}: {row.dataset}/{row.id} was judged with {parted}; {JUDGE_ANEW}")
        yield taken


def other_hashes(made: Mapping[str, str | None], now: Mapping[str, str]) -> str:
    """By which of HASHES a verdict's facts are not those in use, both named; "" where they are the same."""
    found = (
        f"other {word} ({member} {(made[member] or '')[:12]}, here {now[member][:12]})"
        for member, word in HASHES.items()
        if made[member] != now[member]
    )
    return ", ".join(found)


def mode_of(known: Known) -> bool:
    """The thinking mode by which an answer is read: the request of a run always says it."""
    return known.fmt.thinking_modes[0] if known.thinking is None else known.thinking


def _left_out(row: Row, verdict: Verdict | None, prompt_ids: list[int] | None, allow_unverified: bool) -> str | None:
    if row.asked == NO_LONGER:
        return NO_LONGER_ASKED
    if row.end != ANSWERED or verdict is None:
        return row.end or "open"
    if not verdict.accepted:
        return verdict.name
    if prompt_ids is None or verdict.prompt == "contradicted":
        return "prompt-contradicted"
    return "prompt-unverified" if verdict.prompt == "unverified" and not allow_unverified else None


def _known(row: Row, request: Mapping[str, Any], kit: Kit) -> Known | None:
    if row.answer is None:
        return None
    known = known_of(Exchange(row.id, row.answer, request), kit, model=None, provider=None, blind=False)
    return known if isinstance(known, Known) else None  # where nothing can be read, the verdict says so


def _n_plain(known: Known, traits: Traits, kit: Kit) -> int | None:
    try:
        found = readings(known.turn, known.fmt, mode_of(known), traits)
    except SearchBound:
        return None
    return n_before_end(build(found[0], kit.encode).ids, known.fmt) if found else None


def _prompt_ids(request: Mapping[str, Any], traits: Traits, kit: Kit) -> list[int] | None:
    fmt = find_format(request.get("model"), kit.formats)
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
    row, turn = taken.row, taken.known.turn if taken.known else None
    verdict = taken.verdict or Verdict("rejected")
    usage = (turn.usage if turn else None) or Usage()
    return {
        "id": row.id,
        "data_set": row.dataset,
        "index": row.index if row.asked else None,
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
    used: Hashes | None = None,
    allow_unverified_prompt: bool = False,
    seen: Callable[[Taken], None] = lambda taken: None,
) -> None:
    """samples.parquet, samples.jsonl and rejected.parquet in a folder; each stands there whole, or as it was before.

    Args:
        used: As in `all_taken`.
        seen: Called with each row, for sums and for whoever waits.

    Raises:
        SetupError: They cannot be written, or as `all_taken`; nothing was changed then.
    """
    with ExitStack() as stack:
        samples = stack.enter_context(table_file(out / FILES[0], COLUMNS))
        text = stack.enter_context(atomic_file(out / FILES[1]))
        rejected = stack.enter_context(table_file(out / FILES[2], COLUMNS))
        for taken in all_taken(ledger, kit, used, allow_unverified_prompt=allow_unverified_prompt):
            seen(taken)
            if taken.row.end is None:
                continue  # still open: nothing was decided
            made = fields(taken)
            (rejected if taken.left_out else samples).add(made)
            if not taken.left_out:
                text.write(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
