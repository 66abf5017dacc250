"""How often encode(decode(ids)) == ids in goldens: the rate at which a model splits text as its tokenizer would not.

Ids are cut at control ids into runs of one kind each; a run is decoded and encoded by itself, as the harness does.
Pure. Knows nothing of files and of engines.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any

from harness.errors import ProviderError
from harness.inputs import Golden
from harness.report import piece
from harness.types import Encode
from harness.vocab import CONTROL_IDS, Vocab

KINDS = ("reasoning", "content", "header", "arguments", "between")
"""`between` is what stands among the markers of a tool section."""
_THINK = CONTROL_IDS["<think>"]
_BEGINS = {
    _THINK: "reasoning",
    CONTROL_IDS["</think>"]: "content",
    CONTROL_IDS["<|tool_calls_section_begin|>"]: "between",
    CONTROL_IDS["<|tool_call_begin|>"]: "header",
    CONTROL_IDS["<|tool_call_argument_begin|>"]: "arguments",
    CONTROL_IDS["<|tool_call_end|>"]: "between",
    CONTROL_IDS["<|tool_calls_section_end|>"]: "content",
}
"""The kind that a control id begins; any other leaves it as it is."""


@dataclass(frozen=True, slots=True)
class Run:
    """Ordinary ids between two control ids; `at` is the place of the first, `last` where nothing follows them."""

    kind: str
    at: int
    ids: tuple[int, ...]
    last: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where other ids were sampled than encoding gives: same bytes, another split."""

    name: str
    kind: str
    at: int
    sampled: tuple[int, ...]
    canonical: tuple[int, ...]


@dataclass(slots=True)
class Count:
    """What was seen of one kind.

    Attributes:
        runs, equal: Runs that are text, and those of them without a non-canonical place.
        ids: Ids in these runs.
        places: Non-canonical places in them.
        cut: Places at the very end of a cut answer, where the rest of a word is missing: no evidence, so no place.
        no_text: Runs whose bytes are no UTF-8, which no encoder can take.
    """

    runs: int = 0
    equal: int = 0
    ids: int = 0
    places: int = 0
    cut: int = 0
    no_text: int = 0

    @property
    def rate(self) -> float | None:
        """Non-canonical places an id; None where there is no id."""
        return self.places / self.ids if self.ids else None


@dataclass(slots=True)
class Tally:
    """One engine and source.

    Attributes:
        sequences: Distinct ones, and `equal` those whose every run came back.
        repeats: Goldens that hold a sequence which another one holds for the same prompt.
    """

    engine: str
    source: str
    sequences: int = 0
    equal: int = 0
    repeats: int = 0
    kinds: dict[str, Count] = field(default_factory=lambda: {kind: Count() for kind in KINDS})
    places: list[Place] = field(default_factory=list)


def measure(goldens: Iterable[Golden], vocab: Vocab, encode: Encode) -> list[Tally]:
    """The figures of each engine and source, a sequence of ids counted once a prompt."""
    tallies: dict[tuple[str, str], Tally] = {}
    seen: set[tuple[str, str, tuple[int, ...], tuple[int, ...]]] = set()
    for golden in goldens:
        key = (golden.engine, golden.source)
        tally = tallies.setdefault(key, Tally(*key))
        sequence = (*key, golden.prompt_ids, golden.true_ids)
        if sequence in seen:
            tally.repeats += 1
            continue
        seen.add(sequence)
        tally.sequences += 1
        back = [_counted(run, golden, tally, vocab, encode) for run in runs(golden)]  # each must be counted
        tally.equal += all(back)
    return list(tallies.values())


def runs(golden: Golden) -> Iterator[Run]:
    """The runs of ordinary ids, each with its kind, first to last."""
    kind = "reasoning" if golden.prompt_ids[-1:] == (_THINK,) else "content"
    start, ids = 0, golden.true_ids
    for at, token in enumerate(ids):
        if not Vocab.is_control(token):
            continue
        if at > start:
            yield Run(kind, start, ids[start:at], last=False)
        kind, start = _BEGINS.get(token, kind), at + 1
    if start < len(ids):
        yield Run(kind, start, ids[start:], last=True)


def _counted(run: Run, golden: Golden, tally: Tally, vocab: Vocab, encode: Encode) -> bool:
    """Count a run; whether it is text without a non-canonical place."""
    count = tally.kinds[run.kind]
    try:
        text = vocab.decode_text(run.ids)
    except ProviderError:
        count.no_text += 1
        return False
    found = list(splits(run.ids, encode(text), vocab))
    if run.last and found and found[-1][1] == len(run.ids):
        found.pop()
        count.cut += 1
    count.runs += 1
    count.ids += len(run.ids)
    count.equal += not found
    count.places += len(found)
    tally.places += [Place(golden.name, run.kind, run.at + a, run.ids[a:b], split) for a, b, split in found]
    return not found


def splits(
    sampled: Sequence[int], canonical: Sequence[int], vocab: Vocab
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(begin, end, canonical ids) of each stretch of `sampled` that another split of the same bytes stands for.

    A stretch is as short as can be: it ends at the first byte where both have a boundary again.
    """
    ours, theirs = (_boundaries(row, vocab) for row in (sampled, canonical))
    begin = start = 0
    for offset, end in ours.items():
        if offset not in theirs:
            continue
        stop = theirs[offset]
        if tuple(sampled[begin:end]) != tuple(canonical[start:stop]):
            yield begin, end, tuple(canonical[start:stop])
        begin, start = end, stop


def _boundaries(ids: Sequence[int], vocab: Vocab) -> dict[int, int]:
    """Byte offset of each boundary -> number of ids in front of it."""
    ends = accumulate(len(vocab.token_bytes(i)) for i in ids)
    return {offset: k for k, offset in enumerate(ends, 1)}


def group(tally: Tally, vocab: Vocab) -> dict[str, Any]:
    """A tally as JSON."""
    total = Count(ids=sum(c.ids for c in tally.kinds.values()), places=len(tally.places))
    told = {key: getattr(tally, key) for key in ("engine", "source", "sequences", "equal", "repeats")}
    kinds = {kind: asdict(count) | {"rate": count.rate} for kind, count in tally.kinds.items()}
    sums = {"ids": total.ids, "places": total.places, "rate": total.rate}
    return {**told, **sums, "kinds": kinds, "non_canonical": [_listed(place, vocab) for place in tally.places]}


def _listed(place: Place, vocab: Vocab) -> dict[str, Any]:
    rows = {"sampled": place.sampled, "canonical": place.canonical}
    spelled = {f"{key}_pieces": [piece(vocab, i) for i in ids] for key, ids in rows.items()}
    return {"name": place.name, "kind": place.kind, "at": place.at, **rows, **spelled}
