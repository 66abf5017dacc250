"""Verdicts, scores, habits and drift -> one HTML page that needs nothing else: no script, no request, no other file.

The page allows itself nothing (its policy names its own style sheet by hash), so that whatever an answer holds stays
text. Knows nothing of files and judges nothing.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from harness.drift import Comparison
from harness.evidence_report import VERDICTS, drift_table
from harness.habits import Habit
from harness.markup import Html, joined, listed, table, tag, told
from harness.page_answers import Rejections
from harness.types import ORIGIN_NAMES

GENERATOR = "tokenproof"
MAX_ROWS = 500
"""Of each table and list; the rest is counted."""
ORIGINS = {
    "reported": "the host sent the id",
    "matched": "the host sent the token's bytes",
    "template": "a control id that the format fixes",
    "canonical": "text, encoded by us",
    "inferred": "may be another id: masked",
}

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""(heads, rows)."""


@dataclass(frozen=True, slots=True)
class Page:
    """All that the page says.

    Attributes:
        style: The style sheet.
        sources: What was judged, as it was named.
        verdicts: How many answers got each.
        scores: The scoreboard.
        habits: Lines of the habits in use that are of providers seen here.
        compared: What changed, and since what; None where nothing was compared.
        unusable: Inputs that are no answers, each with the reason; the first MAX_ROWS of `n_unusable`.
    """

    version: str
    style: str
    sources: Sequence[str]
    habits_sha256: str
    verdicts: dict[str, int]
    scores: Table
    habits: Sequence[Habit]
    compared: tuple[str, Comparison] | None
    rejected: Rejections
    unusable: Sequence[str]
    n_unusable: int


def html(page: Page) -> str:
    """The whole page."""
    style = Html(page.style)  # ours: it ships with the package
    hashed = b64encode(sha256(page.style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; base-uri 'none'; form-action 'none'"
    n_rejected, n_answers = page.rejected.seen.total(), sum(page.verdicts.values())
    title = f"tokenproof: {n_rejected} of {n_answers} answers rejected"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"{GENERATOR} {page.version}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", style),
    )
    sections = list(_sections(page))
    links = listed(tag("a", name, href=f"#{anchor}") for anchor, name, _ in sections)
    main = tag(
        "main",
        *(tag("section", tag("h2", name), *inside, id=anchor) for anchor, name, inside in sections),
        id="main",
    )
    skips = tag("div", tag("a", "Skip to the rejected answers", href="#rejected", class_="skip"))
    top = tag("header", tag("h1", title), *_summary(page), tag("nav", links, aria_label="Sections"))
    return f"<!doctype html>\n{tag('html', head, tag('body', skips, top, main), lang='en')}\n"


def is_page(start: bytes) -> bool:
    """Whether a file that starts so is a page of ours."""
    return start.startswith(b"<!doctype html>") and b'<meta name="generator" content="tokenproof ' in start


def _summary(page: Page) -> Iterator[Html]:
    counts = ", ".join(f"{page.verdicts.get(name, 0)} {name}" for name in VERDICTS)
    sources = ", ".join(map(told, page.sources[:20])) + (", …" if len(page.sources) > 20 else "")
    unusable = f"; inputs that are no answers: {page.n_unusable}" if page.n_unusable else ""
    yield tag("p", f"{counts}{unusable}.")
    yield tag("p", f"From {sources}; habits {page.habits_sha256[:12]}, tokenproof {page.version}.", class_="facts")


Section = tuple[str, str, list[Html]]
"""(anchor, heading, what stands below it)."""


def _sections(page: Page) -> Iterator[Section]:
    yield "scoreboard", "Scoreboard", _rows(page.scores, "Scoreboard", "No answer was judged.")
    if page.compared is not None:
        yield "drift", "Drift", _drift(*page.compared)
    yield "habits", "Habits", _habits(page.habits)
    yield "rejected", "Rejected answers", list(_rejected(page.rejected))
    if page.n_unusable:
        shown = listed(map(told, page.unusable))
        yield "unusable", "Inputs that are no answers", [shown, _left_out(page.n_unusable)]


def _rows(table_of: Table, label: str, nothing: str) -> list[Html]:
    heads, rows = table_of
    if not rows:
        return [tag("p", nothing)]
    cells = (map(told, row) for row in rows[:MAX_ROWS])
    return [table(heads, cells, label=label), _left_out(len(rows))]


def _left_out(n: int) -> Html:
    return tag("p", f"{n - MAX_ROWS} more, left out here.", class_="note") if n > MAX_ROWS else Html()


def _drift(old: str, found: Comparison) -> list[Html]:
    touching = sum(d.touches_ids for d in found.drifts)
    words = f"{len(found.drifts)} changes in {found.n_pairs} pairs, {touching} of them touch ids. Compared with "
    alone = [f"{len(keys)} only {when}" for when, keys in (("before", found.only_old), ("now", found.only_new)) if keys]
    alone += [f"{len(found.other_requests)} pairs asked otherwise"] if found.other_requests else []
    rest = f" ({', '.join(alone)})" if alone else ""
    return [tag("p", words, told(old), rest, "."), *_rows(drift_table(found), "Drift", "Nothing changed.")]


def _habits(habits: Sequence[Habit]) -> list[Html]:
    heads = ("key", "trait", "value", "for", "against", "answers of", "evidence")
    parts = [tag("p", "What is known of the providers seen here; what is not known is never assumed.")]
    by_provider: dict[str, list[tuple[str, ...]]] = {}
    for h in habits[:MAX_ROWS]:
        row = (h.key, h.trait, h.value, str(h.n_for), str(h.n_against), _days(h), h.evidence)
        by_provider.setdefault(h.provider, []).append(row)
    for provider, rows in by_provider.items():
        summary = tag("summary", f"{told(provider)} ({len(rows)})")
        parts.append(tag("details", summary, *_rows((heads, rows), f"Habits of {told(provider)}", "")))
    return [*parts, _left_out(len(habits))]


def _days(habit: Habit) -> str:
    return f"{habit.first}..{habit.last}" if habit.first or habit.last else ""


def _rejected(found: Rejections) -> Iterator[Html]:
    n_seen, n_shown = found.seen.total(), found.n_shown
    if not n_seen:
        yield tag("p", "No answer was rejected.")
        return
    left = f", {n_seen - n_shown} are left out" if n_seen > n_shown else ""
    yield tag("p", f"{n_seen} answers were rejected; {n_shown} are shown{left}. Open one to see its tokens.")
    legend = [joined([tag("i", name, class_=f"{name[0]}0"), f" {ORIGINS[name]}"]) for name in ORIGIN_NAMES]
    legend.append(joined([tag("i", "token", class_="c0 parts"), " witness and reading part here"]))
    yield tag("div", listed(legend), class_="legend")
    kinds = [(kind, n) for kind, n in found.seen.most_common() if found.shown.get(kind)]
    yield listed(
        tag("a", f"{told(provider)}: {code} ({n})", href=f"#k{k}") for k, ((provider, code), n) in enumerate(kinds, 1)
    )
    for k, ((provider, code), n) in enumerate(kinds, 1):
        answers = found.shown[provider, code]
        count = f"{n}, {len(answers)} shown" if n > len(answers) else str(n)
        yield tag("h3", f"{told(provider)}: {code} ({count})", id=f"k{k}")
        yield from answers
