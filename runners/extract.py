"""Ids to hidden states: samples in, shards out; what is done already is left, what is too long follows the policy.

Reading, forward and writing overlap: while the states of one shard are computed, the last one is hashed and written
and the next one is read. So at most two shards' states are in memory, whatever the number of samples. Knows ids, never
text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from harness.errors import SetupError
from runners.manifests import Manifest
from runners.shards import Kept
from runners.standing import Done
from runners.states import Backend, Sample, States

OverLong = Literal["drop", "cut", "refuse"]
"""What becomes of a sample with more ids than --max-length: left out and counted, its first ids kept, or an error."""


class Sink(Protocol):
    """Where kept samples go: native shards, or the files of a trainer."""

    def write(self, kept: Sequence[Kept], set_aside: Sequence[Mapping[str, Any]]) -> Manifest:
        """All of them on disk, or an error and nothing that counts as done."""

    def finish(self) -> None:
        """What can only be written once everything else is."""


Examine = Callable[[Sequence[Kept]], tuple[Sequence[Kept], Sequence[Mapping[str, Any]]]]
"""What looks at states before they are written: (what stays, with what was proven; what is set aside, with why)."""


def keep_all(kept: Sequence[Kept]) -> tuple[Sequence[Kept], Sequence[Mapping[str, Any]]]:
    """Looks at nothing."""
    return kept, ()


@dataclass(slots=True)
class Summary:
    """What a run did.

    Attributes:
        done_before: Samples that stood there already.
        over_long: What the policy met; `over_long_ids` names the first of them, as the other lists do.
        dropped: Of these, the ones that are left out.
        changed: Samples that stood there with other ids or another mask, and were computed again.
        vanished: Samples that stand there and that the samples file has no more.
    """

    samples: int = 0
    tokens: int = 0
    n_bytes: int = 0
    shards: int = 0
    done_before: int = 0
    over_long: int = 0
    dropped: int = 0
    set_aside: int = 0
    over_long_ids: list[str] = field(default_factory=list)
    changed: int = 0
    changed_ids: list[str] = field(default_factory=list)
    vanished: int = 0
    vanished_ids: list[str] = field(default_factory=list)

    def add(self, manifest: Manifest) -> None:
        """Count one shard."""
        self.shards += 1
        self.samples += len(manifest.samples)
        self.tokens += manifest.n_tokens
        self.n_bytes += manifest.n_bytes
        self.set_aside += len(manifest.set_aside)

    def resumed(self, changed: Sequence[str], vanished: Sequence[str]) -> "Summary":
        """Count what became of samples since they were computed."""
        self.changed, self.changed_ids = len(changed), list(changed[:MAX_NAMED])
        self.vanished, self.vanished_ids = len(vanished), list(vanished[:MAX_NAMED])
        return self


MAX_NAMED = 100  # samples of a kind that a summary names


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sample and a shard may be.

    Attributes:
        max_length: In ids; None for no limit.
        shard_bytes: What a shard has at most, unless one sample alone is more.
        bytes_per_token: Of the states, ids and mask.
    """

    max_length: int | None
    over_long: OverLong
    shard_bytes: int
    bytes_per_token: int


def extract(
    samples: Iterable[Sample],
    backend: Backend,
    sink: Sink,
    limits: Limits,
    done: Done,
    *,
    examine: Examine = keep_all,
    tick: Callable[[Manifest], None] = lambda _: None,
) -> Summary:
    """Everything that is not done, shard by shard.

    Raises:
        SetupError: A sample, the back end or the disk does not allow it; whole shards stay, and the same call goes on
            from there.
    """
    summary = Summary()
    groups = windows(wanted(samples, limits, done, summary), limits)
    writing: Future[Manifest] | None = None

    def settle() -> None:
        if writing is None:
            return
        try:
            manifest = writing.result()
        except SetupError as error:
            raise SetupError(
                f"{error}; {summary.shards} shards of this run stand whole and stay: put the cause right and give the "
                "same command again"
            ) from error
        summary.add(manifest)
        tick(manifest)

    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        coming = reader.submit(next, groups, None)
        while group := coming.result():
            coming = reader.submit(next, groups, None)
            kept, set_aside = examine(computed(group, backend))
            settle()
            writing = writer.submit(sink.write, kept, set_aside)
        settle()
    sink.finish()
    return summary


def computed(group: Sequence[Sample], backend: Backend) -> list[Kept]:
    """The samples with their states.

    Raises:
        SetupError: Not one row a token: another sample's states, or some are missing.
    """
    found = backend.states([sample.ids for sample in group])
    if len(found) != len(group):
        raise SetupError(f"{backend.facts.backend} gave the states of {len(found)} sequences; {len(group)} were asked")
    kept = [Kept(sample, states) for sample, states in zip(group, found, strict=True)]
    for one in kept:
        _check_shape(one.sample, one.states, backend)
    return kept


def _check_shape(sample: Sample, states: States, backend: Backend) -> None:
    facts, n_ids = backend.facts, len(sample.ids)
    wanted_shapes = ((n_ids, len(facts.aux_layers), facts.hidden_size), (n_ids, facts.hidden_size))
    got = (tuple(states.aux.shape), tuple(states.last.shape))
    if got != wanted_shapes or states.last_norm != facts.last_norm:
        raise SetupError(
            f"sample {sample.id}: states of shapes {got} for {n_ids} ids; expected {wanted_shapes}: {facts.backend} "
            "gave the states of other ids, or not all"
        )


def wanted(
    samples: Iterable[Sample],
    limits: Limits,
    done: Done,
    summary: Summary,
    *,
    listed: Done | None = None,
    changed: Callable[[str], None] | None = None,
) -> Iterator[Sample]:
    """What is to be computed: not done, and not too long.

    Args:
        listed: Takes every sample that is done or to be computed, in order.
        changed: Told of each sample that stands there with other ids or another mask; None where none may be.

    Raises:
        SetupError: Two samples of one id, one that changed where none may, or one that is too long to be allowed.
    """
    seen: set[str] = set()
    for sample in samples:
        if sample.id in seen:
            raise SetupError(f"two samples have the id {sample.id!r:.80}; expected an id of its own for each")
        seen.add(sample.id)
        fitting = fitted(sample, limits)
        if fitting is not sample:
            summary.over_long += 1
            summary.over_long_ids += [sample.id] if len(summary.over_long_ids) < MAX_NAMED else []
        if fitting is None:
            summary.dropped += 1
            continue
        before = done.get(sample.id)
        if listed is not None:
            listed[sample.id] = (fitting.ids_sha256, fitting.mask_sha256)
        if before == (fitting.ids_sha256, fitting.mask_sha256):
            summary.done_before += 1
            continue
        if before is not None:
            if changed is None:
                raise SetupError(
                    f"sample {sample.id!r:.80} was extracted with other ids or another loss_mask; use a new --out, so "
                    "that old and new states never stand in one folder"
                )
            changed(sample.id)
        yield fitting


def fitted(sample: Sample, limits: Limits) -> Sample | None:
    """The sample itself where it is short enough, else what the policy leaves of it; None for nothing.

    Raises:
        SetupError: The policy allows no such sample.
    """
    longest = limits.max_length
    if longest is None or len(sample.ids) <= longest:
        return sample
    if limits.over_long == "refuse":
        raise SetupError(
            f"sample {sample.id!r:.80} has {len(sample.ids)} ids, --max-length is {longest}; raise it, or choose "
            "--over-long drop or cut"
        )
    if limits.over_long == "drop" or not any(sample.loss_mask[:longest]):
        return None  # a prompt alone teaches nothing
    return replace(sample, ids=sample.ids[:longest], loss_mask=sample.loss_mask[:longest])


def windows(samples: Iterable[Sample], limits: Limits) -> Iterator[list[Sample]]:
    """Samples that make a shard, in order: as many as have room, at least one."""
    group: list[Sample] = []
    room = limits.shard_bytes
    for sample in samples:
        size = len(sample.ids) * limits.bytes_per_token
        if group and size > room:
            yield group
            group, room = [], limits.shard_bytes
        group.append(sample)
        room -= size
    if group:
        yield group
