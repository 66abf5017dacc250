"""Every recording of a real engine against the ids that were sampled for it: `make truth`.

Each is judged blind (no ids, no logprobs), with habits unknown and, where they ship, with the habits of its stack. The
last line is one JSON object; the exit status is 1 where an answer was accepted with a wrong unmasked id.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.flow import judge
from harness.store import read_golden
from tests.conftest import ROOT, shared_folder
from tests.corpus import Recorded, differs, kit, recordings

LEFT_ASIDE = "tools_noreasoning"  # its requests drop the reasoning: nothing could bring it back


def goldens() -> Iterator[Recorded]:
    """The recordings that ship with the repository."""
    servers = {"vllm-0.32": "main", "sglang-0.5.23": "B_realflags"}
    for path in sorted((ROOT / "golden").rglob("*.json")):
        golden = read_golden(path)
        if golden.exchange is not None:
            server = servers.get(golden.exchange.provider or "", "")
            yield Recorded(golden.exchange, list(golden.true_ids), server, path.stem, "")


def is_split(verdict_ids: list[int], true_ids: list[int]) -> bool:
    """Whether two rows of one length are two splits of the same bytes: a breach of the premise, not of a rule."""
    vocab = kit().vocab
    return len(verdict_ids) == len(true_ids) and vocab.decode(verdict_ids) == vocab.decode(true_ids)


def report(rows: Iterable[Recorded]) -> dict[str, object]:
    """Judges all rows and prints the tables."""
    names: dict[str, Counter[str]] = defaultdict(Counter)
    accepted: dict[str, Counter[str]] = defaultdict(Counter)
    untruncated: Counter[str] = Counter()
    wrong, breaches, unknown_format, n = [], [], 0, 0
    for row in rows:
        n += 1
        for habits in ("unknown", row.stack):
            if habits is None:
                continue
            verdict = judge(row.exchange, kit(), model="kimi-k2.5", provider=habits, blind=True)
            names[habits][verdict.name] += 1
            unknown_format += any(f.code == "unknown-format" for f in verdict.findings)
            fault = differs(verdict, row.true_ids)
            if fault:
                split = is_split(verdict.ids.ids, row.true_ids) and verdict.premise == "count"
                (breaches if split else wrong).append(f"{row.exchange.name} {row.dialogue} {row.variant}: {fault}")
            if habits == row.stack and row.server != "main_trunc" and row.variant != LEFT_ASIDE:
                untruncated[row.server] += 1
                accepted[row.server][row.dialogue] += verdict.accepted
    for server, dialogues in accepted.items():
        print(f"\naccepted at {server}, by dialogue (habits of the stack, untruncated)")
        for dialogue, count in sorted(dialogues.items()):
            print(f"  {count:3}  {dialogue}")
    for title, found in (("SILENTLY WRONG", wrong), ("breaches of the premise", breaches)):
        print(f"\n{title}: {len(found)}")
        for text in found:
            print(f"  {text}")
    return {
        "recordings": n,
        "silently_wrong": len(wrong),
        "premise_breaches": len(breaches),
        "unknown_format": unknown_format,
        "verdicts": {habits: dict(counts) for habits, counts in names.items()},
        "accepted": {server: f"{sum(d.values())} of {untruncated[server]}" for server, d in accepted.items()},
    }


def main(shared: Path | None) -> int:
    """Runs over the optional folder where it is there, else over golden/ alone."""
    print("all recordings" if shared else "golden/ alone: the optional folder of extra recordings is absent")
    figures = report(recordings(shared) if shared else goldens())
    print(json.dumps(figures))
    return int(bool(figures["silently_wrong"] or figures["unknown_format"]))


if __name__ == "__main__":
    sys.exit(main(shared_folder()))
