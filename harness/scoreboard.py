"""Judged answers -> a score a provider, and the `provider` block of a run that takes those that are good enough.

Pure. What is evidence for whom is told by the caller.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from harness.catalog import provider_block
from harness.habits import Habits
from harness.types import Verdict


@dataclass(frozen=True, slots=True)
class Seen:
    """One judged answer.

    Attributes:
        tag: The endpoint that was pinned, "" where not known; `quantization` is its.
        kind: live, emulator, hand-made, engine or unstated.
        speaks: Whether it is evidence for the place where a run will call.
        at: When it was recorded, else when it says it was made.
    """

    verdict: Verdict
    provider: str
    model: str
    tag: str = ""
    quantization: str = ""
    kind: str = "unstated"
    speaks: bool = False
    at: datetime | None = None


@dataclass(slots=True)
class Score:
    """What was seen of one endpoint, or of a provider where nobody knows which.

    Attributes:
        verdicts: By name; `findings` by code, of the rejected ones.
        kinds: Where the answers came from.
        good, speaking: Answers that may be trained on, of those that are evidence.
        at: Times of the evidence, of all answers where none is evidence.
    """

    provider: str
    tag: str
    model: str
    quantization: str = ""
    format: str = ""
    verdicts: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    good: int = 0
    speaking: int = 0
    at: list[datetime] = field(default_factory=list)
    spoken_at: list[datetime] = field(default_factory=list)

    def add(self, seen: Seen) -> None:
        """Count one answer."""
        self.verdicts[seen.verdict.name] += 1
        self.kinds[seen.kind] += 1
        self.quantization = self.quantization or seen.quantization
        self.format = self.format or seen.verdict.format or ""
        if seen.verdict.name == "rejected":
            self.findings.update({f.code for f in seen.verdict.findings if f.fatal})
        if seen.at is not None:
            self.at.append(seen.at)
        if seen.speaks:
            self.speaking += 1
            self.good += is_good(seen.verdict)
            self.spoken_at += [seen.at] if seen.at is not None else []

    @property
    def answers(self) -> int:
        """All that were seen."""
        return self.verdicts.total()

    @property
    def newest(self) -> datetime | None:
        """The latest answer, of the evidence where there is some."""
        return max(self.spoken_at or self.at, default=None)


def is_good(verdict: Verdict) -> bool:
    """Whether an answer may be trained on: its ids are certain, and nothing says that another prompt was read."""
    return verdict.accepted and verdict.prompt != "contradicted"


def scoreboard(rows: Iterable[Seen]) -> tuple[Score, ...]:
    """A score an endpoint and model, in order of their names."""
    scores: dict[tuple[str, str, str], Score] = {}
    for row in rows:
        key = (row.provider, row.tag, row.model)
        scores.setdefault(key, Score(*key)).add(row)
    return tuple(scores[key] for key in sorted(scores, key=lambda key: tuple(map(str.lower, key))))


def habits_of(score: Score, habits: Habits) -> dict[str, str]:
    """What is known of the provider for this model: trait -> value, for whole answers that think.

    Where answers with calls differ from the others both are told: `yes (stop), no (tool_calls)`.
    """
    told: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for finish in ("stop", "tool_calls"):
        key = {"model": score.model, "format": score.format, "finish": finish}
        traits = habits.traits(score.provider, thinking=True, stream=False, tools=finish == "tool_calls", **key)
        for trait, value in traits.items():
            told[trait].append((finish, value))
    return {trait: _told(values) for trait, values in sorted(told.items())}


def _told(values: Sequence[tuple[str, str]]) -> str:
    distinct = {value for _, value in values}
    if len(values) == 2 and len(distinct) == 1:
        return distinct.pop()
    return ", ".join(f"{value} ({finish})" for finish, value in values)


# --- who may run ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """What an endpoint must have shown to be asked in a run."""

    now: datetime
    model: str
    max_age: timedelta = timedelta(days=7)
    min_answers: int = 5
    min_verified: float = 0.5

    def against(self, score: Score) -> str:
        """Why an endpoint may not run, "" where it may."""
        newest = max(score.spoken_at, default=None)
        if not score.tag:
            return "nobody knows which endpoint answered"
        if not score.speaking:
            kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(score.kinds.items()))
            return f"no recording of it speaks for the place of the run ({kinds})"
        if newest is None or not self.now - self.max_age <= newest <= self.now:
            return f"its newest evidence is not of the last {self.max_age / timedelta(days=1):g} days"
        if score.speaking < self.min_answers:
            return f"{score.speaking} answers, expected {self.min_answers}"
        if not score.good or score.good < self.min_verified * score.speaking:
            return f"{score.good} of {score.speaking} are exact or verified, expected {self.min_verified:.0%}"
        return ""


def run_block(scores: Sequence[Score], rule: Rule) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The `provider` block, best first, and why each endpoint of the model that it leaves out is left out.

    None where nobody is left.
    """
    own = [s for s in scores if s.model == rule.model]
    wrong = {s.tag or s.provider: reason for s in own if (reason := rule.against(s))}
    fit = sorted((s for s in own if not rule.against(s)), key=lambda s: (-s.good / s.speaking, s.tag))
    reasons = tuple(f"{name}: {reason}" for name, reason in sorted(wrong.items()))
    if not fit:
        return None, reasons or (f"no answer of {rule.model} was seen",)
    quantizations = sorted({s.quantization for s in fit if s.quantization not in ("", "unknown")})
    known = all(s.quantization not in ("", "unknown") for s in fit)
    block = provider_block([s.tag for s in fit], quantizations if known else ())
    ignored = sorted({s.tag for s in own if s.tag and s.tag not in block["only"]})
    return block | ({"ignore": ignored} if ignored else {}), reasons
