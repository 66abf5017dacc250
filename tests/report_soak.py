"""The judge attacked by hosts that know the truth: `make soak` (TRIALS=n).

Draws from the grammar go through every preset, streamed and not, and are judged with the habits that ship, with all or
some of what is true of the host, with none, and with another provider's. The last line is one JSON object; the exit
status is 1 where a single deviation got through with right or unknown habits.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random

from harness.preset_table import PRESETS
from harness.vocab import N_RANKS
from tests.breaches import Breach, explain
from tests.corpus import kit
from tests.trials import Trial, draw_trial, run, untold

HABITS = ("shipped", "told", "told in part", "unknown")
NAMES = tuple(sorted(PRESETS))
CHUNK = 500
MAX_SHOWN = 20


@dataclass(slots=True)
class Tally:
    """What became of the trials; `seen` counts (preset, verdict or kind of breach), `masked` and `ids` accepted ids."""

    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    masked: int = 0
    ids: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Count the other's trials too."""
        self.seen += other.seen
        self.masked, self.ids = self.masked + other.masked, self.ids + other.ids
        self.faults += other.faults


def trial_of(rng: Random, preset: str) -> Trial:
    """A trial at this host with one of the right or unknown kinds of habits."""
    trial, kind = draw_trial(rng, preset), rng.choice(HABITS)
    if kind == "told in part":
        trial = replace(trial, habits="told")
        return replace(trial, untold=untold(rng, trial))
    return replace(trial, habits=kind)


def attack(seed: int, n: int) -> Tally:
    """The tally of n trials, every preset in turn; deterministic from the seed."""
    rng, tally = Random(seed), Tally()
    for k in range(n):
        name = NAMES[k % len(NAMES)]
        trial = trial_of(rng, name)
        judged = run(trial)
        tally.seen[name, judged.verdict.name] += 1
        if judged.verdict.accepted:
            tally.ids += len(judged.verdict.ids.ids)
            tally.masked += judged.verdict.loss_mask.count(0)
        if judged.fault:
            breach = explain(trial, judged)
            tally.seen[name, breach.kind] += 1
            tally.faults += [shown(breach)] if breach.kind == "fault" else []
    return tally


def wrong_habits(seed: int, host: str, other: str, n: int) -> tuple[str, str, int, int]:
    """(host, whose habits, accepted, wrong) of n trials with another provider's shipped habits."""
    rng, accepted, wrong = Random(f"{seed}/{host}/{other}"), 0, 0
    for _ in range(n):
        judged = run(replace(draw_trial(rng, host), habits=PRESETS[other].provider))
        accepted += judged.verdict.accepted
        wrong += bool(judged.fault)
    return host, other, accepted, wrong


def shown(breach: Breach) -> str:
    """A fault in its smallest form."""
    trial, judged = breach.trial, breach.judged
    return (
        f"{trial.preset.name} {trial.format} {trial.habits} {'stream' if trial.stream else 'body'} {breach.names}\n"
        f"    sampled {pieces(judged.answer.ids)}\n    said    {pieces(judged.verdict.ids.ids)}\n"
        f"    {judged.fault}; {', '.join(judged.verdict.assumptions)}"
    )


def pieces(ids: Sequence[int]) -> str:
    """Ids as their pieces."""
    vocab = kit().vocab
    return " ".join(vocab.control_name(i) if i >= N_RANKS else repr(vocab.ranks[i])[1:] for i in ids[:60])


def table(tally: Tally) -> None:
    """One line a preset."""
    heads = ("exact", "verified", "unverified", "rejected", "split", "cancel", "fault")
    print(f"{'preset':18} {'trials':>7} " + " ".join(f"{h:>10}" for h in heads) + "  accepted")
    for name in NAMES:
        row = {h: tally.seen[name, h] for h in heads}
        n = sum(row[h] for h in heads[:4])
        share = (row["exact"] + row["verified"]) / n if n else 0
        print(f"{name:18} {n:7} " + " ".join(f"{row[h]:10}" for h in heads) + f"  {share:7.1%}")


def pairs_table(rows: Iterable[tuple[str, str, int, int]], n: int) -> dict[str, float]:
    """The rate of silent errors among accepted answers, per pair; prints the worst ten."""
    found = [
        (wrong / accepted if accepted else 0.0, host, other, accepted, wrong) for host, other, accepted, wrong in rows
    ]
    print(f"\nwrong habits ({n} trials a pair): the ten worst of {len(found)} pairs")
    for rate, host, other, accepted, wrong in sorted(found, reverse=True)[:10]:
        print(f"  {host:18} with the habits of {other:18} accepted {accepted:4}, wrong {wrong:4} ({rate:.1%})")
    accepted, wrong = sum(row[3] for row in found), sum(row[4] for row in found)
    return {"pairs": len(found), "accepted": accepted, "wrong": wrong, "rate": round(wrong / max(accepted, 1), 4)}


def main() -> int:
    """Runs both attacks and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pair-trials", type=int, default=40)
    args = parser.parse_args()
    start, tally = time.monotonic(), Tally()
    sizes = [min(CHUNK, args.trials - at) for at in range(0, args.trials, CHUNK)]
    seeds = [args.seed * 1_000_003 + k for k in range(len(sizes))]
    pairs = [(a, b) for a in NAMES for b in NAMES if PRESETS[a].provider != PRESETS[b].provider]
    with ProcessPoolExecutor(args.jobs) as pool:
        for k, part in enumerate(pool.map(attack, seeds, sizes), 1):
            tally.add(part)
            if sys.stderr.isatty():
                print(f"\r{k * CHUNK:,} trials, {len(tally.faults)} faults", end="", file=sys.stderr)
        n = args.pair_trials
        rows = list(pool.map(wrong_habits, [args.seed] * len(pairs), *zip(*pairs, strict=True), [n] * len(pairs)))
    table(tally)
    print("\nSILENTLY WRONG:", len(tally.faults), *tally.faults[:MAX_SHOWN], sep="\n  ")
    told = {name: sum(c for (_, what), c in tally.seen.items() if what == name) for name in {w for _, w in tally.seen}}
    figures = {
        "trials": args.trials,
        "accepted": told.get("verified", 0) + told.get("exact", 0),
        "rejected": told.get("rejected", 0),
        "unverified": told.get("unverified", 0),
        "masked_share": round(tally.masked / max(tally.ids, 1), 4),
        "premise_breaches": {kind: told.get(kind, 0) for kind in ("split", "cancel")},
        "silently_wrong": len(tally.faults),
        "wrong_habits": pairs_table(rows, n),
        "minutes": round((time.monotonic() - start) / 60, 1),
    }
    print(json.dumps(figures))
    return int(bool(tally.faults))


if __name__ == "__main__":
    sys.exit(main())
