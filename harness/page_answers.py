"""The rejected answers of a page: tokens in colour, the readings that were tried, where witness and reading part.

Keeps a few answers of each kind and counts the rest, so that the page of any run can be used. Judges nothing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.markup import Html, joined, listed, table, tag, told
from harness.report import piece, seen
from harness.traces import Parting, Trace, first_difference
from harness.types import ORIGIN_NAMES, Finding, Ids, Origin, Verdict
from harness.verdict import Trial
from harness.vocab import Vocab, is_ids

PER_KIND = 20
MAX_ANSWERS = 500
MAX_CHARS = 8 << 20
"""Of all answers together: a browser shows that at once."""
HEAD, TAIL, AROUND = 300, 100, 20
"""Ids shown from the start, from the end, and on each side of a place where witness and reading part."""
MAX_READINGS, MAX_PARTINGS, MAX_FINDINGS = 12, 20, 20

Kind = tuple[str, str]
"""(provider, code of the first fatal finding)."""
RIVALS = {
    "": "",
    "trait": "stands only against others: another value of an unknown trait",
    "spelled": "stands only against others: a marker spelled in ordinary ids",
    "malformed": "stands only against others: it breaks the grammar, or another thing looks the same",
}


@dataclass(slots=True)
class Rejections:
    """Rejected answers by kind: the markup of some, the number of all.

    Attributes:
        per_kind: How many of a kind are kept.
    """

    vocab: Vocab
    per_kind: int = PER_KIND
    shown: dict[Kind, list[Html]] = field(default_factory=dict)
    seen: Counter[Kind] = field(default_factory=Counter)
    n_chars: int = 0

    @property
    def n_shown(self) -> int:
        """Answers kept."""
        return sum(map(len, self.shown.values()))

    def add(self, name: str, verdict: Verdict, trace: Callable[[], Trace]) -> None:
        """One more; its trace is asked for only where it is kept."""
        code = next((f.code for f in verdict.findings if f.fatal), "?")
        kind = (verdict.provider or "?", code)
        self.seen[kind] += 1
        kept = self.shown.setdefault(kind, [])
        if len(kept) < self.per_kind and self.n_shown < MAX_ANSWERS and self.n_chars < MAX_CHARS:
            made = answer(f"a{self.n_shown + 1}", name, verdict, trace(), self.vocab)
            self.n_chars += len(made)
            kept.append(made)


def answer(anchor: str, name: str, verdict: Verdict, trace: Trace, vocab: Vocab) -> Html:
    """One rejected answer, closed until somebody opens it."""
    why = next((f"{f.code}: {f.text}" for f in verdict.findings if f.fatal), "")
    summary = tag("summary", tag("b", told(name)), " ", tag("span", told(why, 160), class_="why"))
    parts = [summary, tag("p", _facts(verdict), class_="facts")]
    if trace.partings:
        rows = [_parting(p, anchor) for p in trace.partings[:MAX_PARTINGS]]
        parts += [tag("h4", "Where witness and reading part"), listed(rows), _more(trace.partings, MAX_PARTINGS)]
    parts += [tag("h4", "Findings"), listed(map(_finding, verdict.findings[:MAX_FINDINGS]))]
    parts += [_more(verdict.findings, MAX_FINDINGS)]
    if trace.note:
        parts.append(tag("p", told(trace.note), ".", class_="note"))
    if trace.ids.ids:
        parts += [tag("h4", f"Tokens ({len(trace.ids.ids)} ids, none certified)"), tokens(trace, vocab, anchor)]
    if trace.trials:
        parts += [tag("h4", f"Readings ({len(trace.trials)})"), _readings(trace, vocab, name)]
        parts += [_more(trace.trials, MAX_READINGS)]
    return tag("details", *parts, id=anchor, class_="answer")


def _facts(verdict: Verdict) -> str:
    bill = verdict.completion_tokens
    thinking = {True: "thinking", False: "not thinking", None: "thinking or not is unknown"}[verdict.thinking]
    facts = [
        told(verdict.model or "model unknown"),
        told(verdict.provider or "provider unknown"),
        f"format {verdict.format or 'unknown'}",
        thinking,
        "no bill" if bill is None else f"billed {bill}",
        f"prompt {verdict.prompt}",
    ]
    return " · ".join([*facts, "cut at its length"] if verdict.truncated else facts)


def _finding(finding: Finding) -> Html:
    where = f" in {finding.where}" if finding.where else ""
    rest = f"{where}: {finding.text}" + ("" if finding.fatal else " (rejects nothing by itself)")
    return joined([tag("b", told(finding.code)), told(rest)])


def _parting(parting: Parting, anchor: str) -> Html:
    place = [] if parting.at is None else [" at ", tag("a", f"id {parting.at}", href=f"#{anchor}-{parting.at}")]
    return joined([tag("b", parting.witness), *place, ": ", told(parting.reason)])


def _more(rows: Sequence[object], limit: int) -> Html:
    """How many were left out."""
    return tag("p", f"and {len(rows) - limit} more, left out here", class_="note") if len(rows) > limit else Html()


# --- tokens ---------------------------------------------------------------------------------------------------------


def tokens(trace: Trace, vocab: Vocab, anchor: str) -> Html:
    """The ids as running text, a box a token: its colour tells its origin, a frame a place where witnesses part."""
    marks = {p.at for p in trace.partings if p.at is not None}
    parts: list[str] = []
    last = -1
    for k in _places(len(trace.ids.ids), marks):
        if k > last + 1:
            parts.append(tag("span", f" … {k - last - 1} ids left out … ", class_="gap"))
        parts.append(_token(trace.ids, k, vocab, f"{anchor}-{k}" if k in marks else None))
        last = k
    return tag("p", *parts, class_="tokens", tabindex=0, role="region", aria_label="Tokens")


def _places(n: int, marks: set[int]) -> list[int]:
    """Indexes to show: the start, the end, and what stands around the first marks."""
    wanted = {*range(min(n, HEAD)), *range(max(0, n - TAIL), n)}
    for mark in sorted(marks)[:MAX_PARTINGS]:
        wanted.update(range(max(0, mark - AROUND), min(n, mark + AROUND + 1)))
    return sorted(wanted)


def _token(ids: Ids, k: int, vocab: Vocab, anchor: str | None) -> Html:
    token = ids.ids[k]
    words = [_words(token, vocab)]
    if anchor or vocab.is_control(token):
        words.insert(0, tag("small", token))
    kind = ORIGIN_NAMES[ids.origins[k]][0] + str(k % 2)  # neighbours differ in shade, so that boundaries show
    title = f"{token}, id {k}, {ORIGIN_NAMES[ids.origins[k]]}"
    return tag("i", *words, class_=f"{kind} parts" if anchor else kind, id=anchor, title=title)


def _words(token: int, vocab: Vocab) -> Html:
    """A token as text in which blanks can be seen and lines break."""
    if not is_ids([token]):
        return joined(["no such id"])
    text = vocab.control_name(token) if vocab.is_control(token) else seen(vocab, token)
    head, *rest = text.split("\n")
    return joined([head, *(part for line in rest for part in (tag("br"), line))])


# --- readings -------------------------------------------------------------------------------------------------------


def _readings(trace: Trace, vocab: Vocab, name: str) -> Html:
    heads = ("", "assumes", "ids", "witnesses", "parts from the tokens above")
    rows = [_reading(k, trial, trace.ids, vocab) for k, trial in enumerate(trace.trials[:MAX_READINGS], 1)]
    return table(heads, rows, label=told(f"Readings of {name}"))


def _reading(k: int, trial: Trial, ids: Ids, vocab: Vocab) -> tuple[str, ...]:
    reading = trial.reading
    assumed = "; ".join(filter(None, [", ".join(reading.assumptions) or "nothing", RIVALS[reading.rival]]))
    rare = " (the model did one rare thing)" if reading.rank else ""
    said = [f"{t.witness} {t.says}: {t.reason}" for t in trial.testimony if t.says != "silent"]
    said = said or [f"{t.witness} is silent: {t.reason}" for t in trial.testimony if t.witness == "bill"]
    witnesses = listed(map(told, said))
    return str(k), told(assumed + rare), str(len(trial.ids.ids)), witnesses, _difference(ids, trial.ids, vocab)


def _difference(above: Ids, row: Ids, vocab: Vocab) -> str:
    at = first_difference(above.ids, row.ids)
    if at is None:
        masked = [o for o in (above, row) if Origin.INFERRED in o.origins]
        return "the same ids, others of them masked" if masked and above.origins != row.origins else "the same ids"
    return f"at id {at}: {_named(above, at, vocab)} above, {_named(row, at, vocab)} here"


def _named(ids: Ids, at: int, vocab: Vocab) -> str:
    if at >= len(ids.ids):
        return "the end"
    token = ids.ids[at]
    return f"{token} {piece(vocab, token) if is_ids([token]) else '(no such id)'}"
