"""A run in sums: verdicts, findings, dollars and tokens by data set and provider, and all ids against the bill.

Takes rows one by one. Knows nothing of files; what is printed is made from `as_json`.
"""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.types import Origin, Verdict
from harness.witnesses import billed_offset, n_before_end
from runners.bills import length_of
from runners.ledger_rows import NO_LONGER, OTHERWISE, Row
from runners.samples import Taken, mode_of

TOP_FINDINGS = 10
MAX_NAMED = 20
VERDICTS = ("exact", "verified", "unverified", "rejected")
HEADERS = ("data set", "provider", "answers", *VERDICTS, "samples", "no answer", "ids", "USD", "findings")


@dataclass(slots=True)
class Group:
    """The sums of one data set at one provider; `counts` has the words of HEADERS and of `ends`."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Bill:
    """Ids against what was billed for them, the provider's known offsets taken out.

    Attributes:
        n_answers, n_ids, n_billed: Of accepted whole answers whose provider's offset is known.
        apart: All other answers, by why they stand apart: their number, their completion_tokens as billed, and of those
            `compared` - with a reading, a bill and a known offset - the ids of the plain reading and what was billed.
    """

    n_answers: int = 0
    n_ids: int = 0
    n_billed: int = 0
    apart: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, taken: Taken) -> None:
        """One answer."""
        verdict = taken.verdict
        if verdict is None:
            return
        billed, offset, known = verdict.completion_tokens, _offset(taken), taken.known
        if verdict.accepted and not verdict.truncated and billed is not None and offset is not None and known:
            self.n_answers += 1
            self.n_ids += n_before_end(verdict.ids.ids, known.fmt)
            self.n_billed += billed - offset
            return
        names = dict.fromkeys(("answers", "completion_tokens", "compared", "ids", "billed"), 0)
        sums = self.apart.setdefault(_why_apart(verdict), Counter(names))
        sums.update(answers=1, completion_tokens=billed or 0)
        if billed is not None and offset is not None and taken.n_plain is not None:
            sums.update(compared=1, ids=taken.n_plain, billed=billed - offset)

    def as_json(self) -> dict[str, Any]:
        """For summary.json; `difference` is ids - billed."""
        share = (self.n_ids - self.n_billed) / self.n_billed if self.n_billed else None
        whole = {"answers": self.n_answers, "ids": self.n_ids, "billed": self.n_billed}
        apart = {
            why: dict(sums) | {"difference": sums["ids"] - sums["billed"]} for why, sums in sorted(self.apart.items())
        }
        return {**whole, "difference": self.n_ids - self.n_billed, "difference_share": share, "apart": apart}


def _why_apart(verdict: Verdict) -> str:
    """Why an answer's ids cannot be held against its bill."""
    if not verdict.accepted:
        return verdict.name
    if verdict.truncated:
        return "truncated"
    return "no bill" if verdict.completion_tokens is None else "offset unknown"


def _offset(taken: Taken) -> int | None:
    known, verdict = taken.known, taken.verdict
    if known is None or verdict is None:
        return None
    return billed_offset(taken.traits, known.fmt, mode_of(known), cut=verdict.truncated)


@dataclass(slots=True)
class Named:
    """How many prompts, and the ids of the first MAX_NAMED."""

    n: int = 0
    ids: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """One more."""
        self.n += 1
        if self.n <= MAX_NAMED:
            self.ids.append(f"{row.dataset}/{row.id}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run asks of a data set: its prompts, and the completion tokens after which it ends; None for all."""

    n_prompts: int
    tokens: int | None = None


@dataclass(slots=True)
class Summary:
    """Sums over rows, to be fed one by one.

    Attributes:
        asked: What the run asks of each data set, {} where nobody knows: then only what was tried can be open.
        no_longer: Prompts that its data sets do not have any more.
        ungated: Reasons for which samples were asked for without a ticket.
        as_before: Prompts that were answered before they were to be asked with another max_tokens or other sampling.
    """

    asked: Mapping[str, Asked] = field(default_factory=dict)
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    bill: Bill = field(default_factory=Bill)
    cost_nano: int = 0
    no_longer: Named = field(default_factory=Named)
    as_before: Named = field(default_factory=Named)
    ungated: set[str] = field(default_factory=set)
    _sets: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, taken: Taken) -> None:
        """One row of the ledger."""
        row, verdict = taken.row, taken.verdict
        self.cost_nano += row.cost_nano
        self.bill.add(taken)
        tokens = row.n_tokens or (length_of(row.answer) if row.answer else 0)  # as the run counts them
        counted = self._sets.setdefault(row.dataset, Counter())
        if row.asked == NO_LONGER:
            self.no_longer.add(row)
        else:
            counted.update({"ended": row.end is not None, "open": row.end is None, "tokens": tokens})
        if taken.left_out is None and (reason := taken.facts["ungated"]):
            self.ungated.add(reason)
        if row.asked == OTHERWISE:
            self.as_before.add(row)
        provider = (verdict.provider if verdict else None) or row.provider or "-"
        group = self.groups.setdefault((row.dataset, provider), Group())
        group.counts["cost_nano"] += row.cost_nano
        if verdict is None:
            group.ends[taken.left_out or "open"] += 1
            group.counts["no answer"] += 1
            return
        group.counts.update(("answers", verdict.name))
        group.counts["samples"] += taken.left_out is None
        group.counts["ids"] += len(verdict.ids.ids) if taken.left_out is None else 0
        group.counts["masked"] += verdict.ids.origins.count(Origin.INFERRED) if taken.left_out is None else 0
        group.findings.update({f.code for f in verdict.findings})
        if taken.left_out and taken.left_out != verdict.name:
            group.findings[taken.left_out] += 1

    @property
    def n_open(self) -> int:
        """Prompts without an answer or an end of their own, those that were never tried too."""
        return sum(self._open(name) for name in {*self.asked, *self._sets})

    def _open(self, name: str) -> int:
        counted, asked = self._sets.get(name, Counter()), self.asked.get(name)
        if asked is None:
            return counted["open"]
        if asked.tokens is not None and counted["tokens"] >= asked.tokens:
            return 0
        return max(0, asked.n_prompts - counted["ended"])

    def as_json(self, **more: Any) -> dict[str, Any]:
        """summary.json, with what more is known of the run."""
        total: Counter[str] = sum((group.counts for group in self.groups.values()), Counter())
        findings: Counter[str] = sum((group.findings for group in self.groups.values()), Counter())
        return {
            **more,
            "spent_usd": self.cost_nano / 1e9,
            "open": self.n_open,
            "no_longer_asked": asdict(self.no_longer),
            "answered_as_before": asdict(self.as_before),
            **_words(total),
            "findings": _top(findings),
            "bill": self.bill.as_json(),
            "groups": [
                {
                    "data_set": data_set,
                    "provider": provider,
                    **_words(group.counts),
                    "cost_usd": group.counts["cost_nano"] / 1e9,
                    "ends": dict(sorted(group.ends.items())),
                    "findings": _top(group.findings),
                }
                for (data_set, provider), group in sorted(self.groups.items())
            ],
        }


def _words(counts: Mapping[str, int]) -> dict[str, int]:
    names = ("answers", *VERDICTS, "samples", "ids", "masked")
    return {name: counts.get(name, 0) for name in names} | {"no_answer": counts.get("no answer", 0)}


def _top(findings: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(findings.items(), key=lambda item: (-item[1], item[0]))[:TOP_FINDINGS])


def table(summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The cells below HEADERS, a row a data set and provider, from a summary as JSON."""
    return [
        (
            group["data_set"],
            group["provider"],
            *(f"{group[name.replace(' ', '_')]:,}" for name in HEADERS[2:-2]),
            f"{group['cost_usd']:.4f}",
            ", ".join(f"{code} {n}" for code, n in [*group["ends"].items(), *group["findings"].items()][:3]),
        )
        for group in summary["groups"]
    ]


def narrow(rows: Sequence[Sequence[str]]) -> list[str]:
    """The same cells for a screen that the table does not fit: a few lines each, without what is 0."""
    lines = []
    for row in rows:
        lines.append(f"{row[0]} at {row[1]}:")
        told = zip(HEADERS[2:], row[2:], strict=True)
        lines += textwrap.wrap(
            ", ".join(f"{name} {cell}" for name, cell in told if cell not in ("", "0")), 76, initial_indent="  ",
            subsequent_indent="  ",
        )  # fmt: skip
    return lines


def amended_lines(summary: Mapping[str, Any]) -> Sequence[str]:
    """What became of prompts that the data sets had otherwise, in words; () where there are none."""
    texts = {
        "no_longer_asked": "no longer asked: in the ledger, and in no sample",
        "answered_as_before": "answered as before: asked with another max_tokens or other sampling now",
    }
    found = ((summary[key], text) for key, text in texts.items())
    return [
        f"{told['n']:,} {text}: {', '.join(told['ids'])}" + (" ..." if told["n"] > len(told["ids"]) else "")
        for told, text in found
        if told["n"]
    ]


def bill_lines(bill: Mapping[str, Any]) -> Sequence[str]:
    """The ids against the bill in words, a line for what was compared and one for each part that could not be."""
    share = "" if bill["difference_share"] is None else f" ({bill['difference_share']:+.4%})"
    first = (
        f"{bill['ids']:,} ids of {bill['answers']:,} accepted answers, {bill['billed']:,} billed after known offsets: "
        f"{bill['difference']:+,}{share}"
    )
    return [
        first,
        *(
            f"{why}: {n['answers']:,} answers, {n['completion_tokens']:,} tokens billed; {n['compared']:,} compared: "
            f"{n['ids']:,} ids, {n['billed']:,} billed, {n['difference']:+,}"
            for why, n in bill["apart"].items()
        ),
    ]
