"""Teacher-forced agreement: does the model at hand say the ids that the provider's model sampled?

A provider that served another model, or another quantisation of it, shows up as a drop. Last states go in, so that no
second forward is needed: the row BEFORE an id predicts it. Knows nothing of models, files and shards.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from harness.errors import SetupError
from runners.checkpoint import Head
from runners.tensors import Tensor, no_gradients, vector

ROWS = 512
CPU_LOGITS, DEVICE_LOGITS = 1 << 20, 1 << 27
"""Logits at once: on a CPU what its caches hold, so that they are never written to memory."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of one sample.

    Attributes:
        n: Unmasked ids that have a row before them.
        share: Of these, how many are the model's argmax (the lowest id, where several logits are equal); None for n 0.
        mean_logprob: Their mean log-probability, natural, at temperature 1; None for n 0.
    """

    n: int
    share: float | None
    mean_logprob: float | None


def agreement(last: Tensor, ids: "array[int]", loss_mask: bytes, head: Head) -> Agreement:
    """Of one sample: last states (T, H), ids [T], loss mask [T] aligned with the ids.

    Logits are computed in the dtype of the states, as the model does; the softmax in fp32.

    Raises:
        SetupError: Rows, ids and mask differ in number, an id has no row in lm_head, or a logit is not finite.
    """
    if not len(last) == len(ids) == len(loss_mask):
        raise SetupError(f"{len(last)} rows of states, {len(ids)} ids, {len(loss_mask)} of loss mask; expected as many")
    n_vocab = len(head.rows)
    if outside := [i for i in ids if not 0 <= i < n_vocab]:
        raise SetupError(f"id {outside[0]} has no row in an lm_head of {n_vocab}; is this the checkpoint of the model?")
    before = vector(loss_mask)[1:].nonzero().squeeze(-1)
    n = len(before)
    if not n:
        return Agreement(0, None, None)
    hits, total = 0, 0.0
    with no_gradients():
        targets = vector(ids)[before + 1]
        for part in range(0, n, ROWS):
            states = last[before[part : part + ROWS]].to(head.rows.device)
            hit, logprob = _scores(head.normed(states), targets[part : part + ROWS].to(head.rows.device), head.rows)
            hits, total = hits + int(hit.sum()), total + float(logprob.double().sum())
    if not isfinite(total):
        raise SetupError(
            f"lm_head is not finite, or its logits are not in {last.dtype}: a log-probability is {total}; look for "
            "damaged weights, or try another dtype (fp16 overflows where bf16 does not)"
        )
    return Agreement(n, hits / n, total / n)


def _scores(states: Tensor, targets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each target is the argmax [n], and its log-probability [n]; block by block of the vocabulary."""
    n = len(states)
    best = states.new_full((n,), float("-inf")).float()
    total, picked = best.new_zeros(n), best.clone()
    argmax = targets.new_full((n,), -1)
    for start, logits in _blocks(states, rows):
        inside = (targets >= start) & (targets < start + logits.shape[1])
        own = logits.gather(1, (targets - start).clamp(0, logits.shape[1] - 1)[:, None]).squeeze(1)
        picked = own.where(inside, picked)
        top, where = logits.max(1)
        argmax = (where + start).where(top > best, argmax)
        new = top.maximum(best)
        total = total * (best - new).exp() + logits.sub_(new[:, None]).exp_().sum(1)
        best = new
    return argmax == targets, picked - best - total.log()


def _blocks(states: Tensor, rows: Tensor) -> Iterator[tuple[int, Tensor]]:
    """(first id, logits (n, ids) in fp32) of each block of the vocabulary."""
    at_once = CPU_LOGITS if rows.device.type == "cpu" else DEVICE_LOGITS
    width = max(1, at_once // len(states))
    for start in range(0, len(rows), width):
        yield start, (states @ rows[start : start + width].T).float()
