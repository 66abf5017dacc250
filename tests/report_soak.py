"""The judge attacked by hosts that know the truth: `make soak` (TRIALS=n).

Draws from the grammar go through every preset and through made-up hosts, streamed and not, and are judged with the
habits that ship, with all or some of what is true of the host, with none, and with another provider's. The last line is
one JSON object; the exit status is 1 where a single deviation got through with right or unknown habits.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from harness.preset_table import PRESETS
from harness.vocab import N_RANKS
from tests.breaches import Breach, explain, is_resplit, smallest, traced
from tests.corpus import kit
from tests.trials import MADE_UP, STACKS_RECORDED, WITNESSES, Trial, draw_trial, run, untold

HABITS = ("shipped", "told", "told in part", "unknown")
NAMES = (*sorted(PRESETS), MADE_UP)
CHUNK = 500
MAX_SHOWN = 20
SHARE_WITNESSED = 0.08
"""Trials whose request asks for ids or logprobs, so that the verdict may be `exact`."""
VERDICTS = ("exact", "verified", "unverified", "rejected")
COLUMNS = (*VERDICTS, "split", "cancel", "fault")


class Fault(NamedTuple):
    """A wrong verdict that is no breach: what it needs, how long it is, and how it reads."""

    kind: str
    n_ids: int
    text: str


class Pair(NamedTuple):
    """Trials of a host judged with the shipped habits of another provider."""

    host: str
    other: str
    accepted: int
    wrong: int


@dataclass(slots=True)
class Tally:
    """What became of the trials: counts by (preset, column of the table, or "ids" and "masked" of accepted answers)."""

    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Count the other's trials too."""
        self.seen += other.seen
        self.faults += other.faults

    def total(self, column: str) -> int:
        """The count over all presets."""
        return sum(n for (_, name), n in self.seen.items() if name == column)


def trial_of(rng: Random, preset: str, kinds: Sequence[str] = HABITS, stream: bool | None = None) -> Trial:
    """A trial at this host with one of these kinds of habits; a made-up host ships none, so that it tells all."""
    trial, kind = draw_trial(rng, preset), rng.choice(kinds)
    trial = trial if stream is None else replace(trial, stream=stream)
    if rng.random() < SHARE_WITNESSED:
        trial = replace(trial, witness=rng.choice(list(WITNESSES)))
    if kind == "told in part":
        trial = replace(trial, habits="told")
        return replace(trial, untold=untold(rng, trial))
    return replace(trial, habits="told" if (preset, kind) == (MADE_UP, "shipped") else kind)


def attack(seed: int, n: int) -> Tally:
    """The tally of n trials, every preset in turn; deterministic from the seed."""
    rng, tally = Random(seed), Tally()
    for k in range(n):
        name = NAMES[k % len(NAMES)]
        trial = trial_of(rng, name)
        judged = run(trial)
        tally.seen[name, judged.verdict.name] += 1
        if judged.verdict.accepted:
            tally.seen[name, "ids"] += len(judged.verdict.ids.ids)
            tally.seen[name, "masked"] += judged.verdict.loss_mask.count(0)
        if judged.fault:
            breach = explain(trial, judged)
            tally.seen[name, breach.kind] += 1
            tally.seen[name, "excused"] += breach.kind == "split" and chunks_told(trial) and traced(breach.judged)
            tally.faults += [fault_of(breach)] if breach.kind == "fault" else []
    return tally


def chunks_told(trial: Trial) -> bool:
    """Whether the judge knows that this host's chunks end where tokens end."""
    known = trial.habits == "told" or (trial.habits == "shipped" and trial.preset.name in STACKS_RECORDED)
    return known and not trial.untold & {"chunks", "chunks_arguments"}


def fault_of(breach: Breach) -> Fault:
    """A fault in the smallest form that can be found."""
    small = smallest(breach)
    assumed = "+".join(small.judged.verdict.assumptions)
    return Fault(f"{', '.join(small.names) or 'nothing odd'} -> {assumed}", len(small.judged.answer.ids), shown(small))


def shown(breach: Breach) -> str:
    """The breach for reading: the host, what was sampled, what came, what was said."""
    trial, judged = breach.trial, breach.judged
    answer, verdict = judged.answer, judged.verdict
    said = (
        f"reasoning {answer.reasoning!r}",
        f"content {answer.content!r}",
        *(repr(c.arguments) for c in answer.calls),
    )
    told = "thinking told" if trial.draw.told_thinking else "thinking not told"
    limit = f"max_tokens {trial.limit}" if trial.limit else "not cut"
    return "\n    ".join(
        (
            f"{trial.preset.name} {trial.format} {'stream' if trial.stream else 'body'}, habits {trial.habits}"
            f"{f' without {sorted(trial.untold)}' if trial.untold else ''}, {told}, {limit}: {breach.names}",
            *([str(trial.twist)] if trial.twist else []),
            f"sampled {pieces(answer.ids)}",
            f"said    {pieces(verdict.ids.ids)}",
            f"wire    {', '.join(said)}; {answer.usage.completion_tokens} tokens billed",
            f"{judged.fault}; assumptions {list(verdict.assumptions)}, premise {verdict.premise}",
        )
    )


def pieces(ids: Sequence[int]) -> str:
    """Ids as their pieces."""
    vocab = kit().vocab
    return " ".join(vocab.control_name(i) if i >= N_RANKS else repr(vocab.ranks[i])[1:] for i in ids[:80])


def wrong_habits(seed: int, host: str, other: str, n: int) -> Pair:
    """N trials with another provider's shipped habits; splits that keep the count are no fault of the habits."""
    rng, accepted, wrong = Random(f"{seed}/{host}/{other}"), 0, 0
    for _ in range(n):
        judged = run(replace(draw_trial(rng, host), habits=PRESETS[other].provider))
        accepted += judged.verdict.accepted
        wrong += bool(judged.fault) and not is_resplit(judged.verdict, judged.answer.ids)
    return Pair(host, other, accepted, wrong)


# --- printing -------------------------------------------------------------------------------------------------------


def print_presets(tally: Tally) -> None:
    """One line a preset."""
    print(f"{'preset':18} {'trials':>7} " + " ".join(f"{c:>10}" for c in COLUMNS) + "  accepted   masked")
    for name in NAMES:
        row = {c: tally.seen[name, c] for c in COLUMNS}
        n = sum(row[v] for v in VERDICTS)
        accepted = (row["exact"] + row["verified"]) / max(n, 1)
        masked = tally.seen[name, "masked"] / max(tally.seen[name, "ids"], 1)
        print(f"{name:18} {n:7} " + " ".join(f"{row[c]:10}" for c in COLUMNS) + f"  {accepted:8.1%} {masked:8.1%}")
    print("split, cancel: breaches of the one premise; fault: SILENTLY WRONG")


def print_faults(faults: Sequence[Fault]) -> None:
    """Each kind of fault with its number and its smallest example."""
    kinds: defaultdict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        kinds[fault.kind].append(fault)
    print(f"\nSILENTLY WRONG: {len(faults)}")
    for rows in sorted(kinds.values(), key=len, reverse=True)[:MAX_SHOWN]:
        print(f"  {len(rows)} x {min(rows, key=lambda f: f.n_ids).text}")


def print_pairs(pairs: Sequence[Pair], n: int) -> None:
    """Silent errors of accepted answers, a row a host and a column a provider whose habits it was given."""
    cells = {(p.host, p.other): f"{p.wrong}/{p.accepted}" for p in pairs}
    others = sorted({p.other for p in pairs})
    print(f"\nwrong habits, {n} trials a pair: answers silently wrong / accepted, by host (rows) and habits (columns)")
    print(" " * 15 + "".join(f"{other[:8]:>9}" for other in others))
    for host in others:
        print(f"{host:15}" + "".join(f"{cells.get((host, other), '-'):>9}" for other in others))


def figures(tally: Tally, pairs: Sequence[Pair], trials: int, seconds: float) -> dict[str, object]:
    """The last line."""
    accepted, wrong = sum(p.accepted for p in pairs), sum(p.wrong for p in pairs)
    return {
        "trials": trials,
        "accepted": tally.total("exact") + tally.total("verified"),
        "rejected": tally.total("rejected"),
        "unverified": tally.total("unverified"),
        "masked_share": round(tally.total("masked") / max(tally.total("ids"), 1), 4),
        "premise_breaches": {kind: tally.total(kind) for kind in ("split", "cancel")},
        "splits_at_excused_chunk_edges": tally.total("excused"),
        "silently_wrong": len(tally.faults),
        "wrong_habits": {
            "pairs": len(pairs),
            "accepted": accepted,
            "wrong": wrong,
            "rate": round(wrong / max(accepted, 1), 4),
        },
        "minutes": round(seconds / 60, 1),
    }


def main() -> int:
    """Runs both attacks and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pair-trials", type=int, default=200)
    args = parser.parse_args()
    if min(args.trials, args.jobs) < 1 or args.pair_trials < 0:
        parser.error("--trials and --jobs must be 1 or more, --pair-trials 0 or more")
    start, tally = time.monotonic(), Tally()
    sizes = [min(CHUNK, args.trials - at) for at in range(0, args.trials, CHUNK)]
    seeds = [args.seed * 1_000_003 + k for k in range(len(sizes))]
    names = sorted(PRESETS)
    rows = [(a, b) for a in names for b in names if PRESETS[a].provider != PRESETS[b].provider]
    with ProcessPoolExecutor(args.jobs) as pool:
        for k, part in enumerate(pool.map(attack, seeds, sizes), 1):
            tally.add(part)
            if sys.stderr.isatty():
                print(f"\r{min(k * CHUNK, args.trials):,} trials, {len(tally.faults)} faults", end="", file=sys.stderr)
        n = args.pair_trials
        pairs = list(pool.map(wrong_habits, [args.seed] * len(rows), *zip(*rows, strict=True), [n] * len(rows)))
    print_presets(tally)
    print_pairs(pairs, n)
    print_faults(tally.faults)
    print(json.dumps(figures(tally, pairs, args.trials, time.monotonic() - start)))
    return int(bool(tally.faults))


if __name__ == "__main__":
    sys.exit(main())
