"""page.py: one HTML page that needs nothing else, whatever the answers hold."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from harness.drift import Comparison, Drift
from harness.encoder import load_vocab
from harness.habits import Habit
from harness.page import MAX_ROWS, Page, html, is_page
from harness.page_answers import Rejections
from harness.traces import Trace
from harness.types import Finding, Ids, Verdict
from tests.harness.test_markup import HOSTILE, Reader

STYLE = (Path(__file__).parents[2] / "harness" / "page.css").read_text()
VOCAB = load_vocab()
NOTHING = Trace(Ids([], b""), (), (), "")
DRIFT = Drift("P", "m", "content_end", "kept", "lost", True, ("a", "b"), "2 answers")
HABIT = Habit("P", "call_id", "minted", model="m", n_for=7, n_against=1, first="2026-01-01", last="2026-02-01")
HEADS = ("provider", "answers")


def rejections(*answers: tuple[str, Verdict]) -> Rejections:
    """Rejected answers without tokens."""
    found = Rejections(VOCAB)
    for name, verdict in answers:
        found.add(name, verdict, lambda: NOTHING)
    return found


def refused(provider: str = "P", code: str = "bill-mismatch") -> Verdict:
    """A rejected verdict."""
    return Verdict("rejected", findings=(Finding(code, "usage", "7 ids, billed 9"),), provider=provider)


def page() -> Page:
    """A page with something in each section."""
    return Page(
        version="9.9",
        style=STYLE,
        sources=("cassettes", "golden"),
        habits_sha256="ab" * 32,
        verdicts={"verified": 3, "rejected": 2},
        scores=(HEADS, [("P", "5")]),
        habits=(
            Habit("P", "call_id", "minted", model="m", n_for=7, n_against=1, first="2026-01-01", last="2026-02-01"),
        ),
        compared=("HEAD~1", Comparison((DRIFT,), 4, only_old=("x",))),
        rejected=rejections(("one", refused()), ("two", refused("Q"))),
        unusable=("a.json: empty",),
        n_unusable=1,
    )


def test_all_sections() -> None:
    """Scoreboard, drift, habits, rejected answers and what is no answer, each with its own."""
    text = Reader(html(page()).replace(STYLE, "")).text
    wanted = [
        "tokenproof: 2 of 5 answers rejected",
        "0 exact, 3 verified, 0 unverified, 2 rejected; inputs that are no answers: 1.",
        "From cassettes, golden; habits abababababab, tokenproof 9.9.",
        "Scoreboardprovideranswers" + "P5",
        "Drift1 changes in 4 pairs, 1 of them touch ids. Compared with HEAD~1 (1 only before).",
        "Pcontent_endkeptlostyesa, b: 2 answers",
        "P (1)",
        "mcall_idminted712026-01-01..2026-02-01answers",
        "2 answers were rejected; 2 are shown. Open one to see its tokens.",
        "P: bill-mismatch (1)",
        "one bill-mismatch: 7 ids, billed 9",
        "two bill-mismatch: 7 ids, billed 9",
        "a.json: empty",
    ]
    places = [text.find(words) for words in wanted]
    assert -1 not in places, wanted[places.index(-1)]


def test_what_there_is_none_of() -> None:
    """Nothing compared, nothing unusable: no such section; nothing rejected, nothing known: the page says so."""
    bare = replace(page(), compared=None, n_unusable=0, unusable=(), rejected=rejections(), habits=())
    text = Reader(html(bare)).text
    assert "Drift" not in text
    assert "nputs that are no answers" not in text
    assert "No answer was rejected." in text
    unchanged = replace(page(), compared=("x", Comparison((), 4)))
    assert "Nothing changed." in html(unchanged)


def test_it_needs_nothing_and_allows_nothing() -> None:
    """No script, no handler, no address but places in the page; a policy that allows its own style sheet alone."""
    got = Reader(html(page()))
    assert not {"script", "img", "iframe", "object", "form", "base", "svg"} & set(got.tags)
    assert not [name for name, _ in got.attributes if name.startswith("on") or name in ("src", "style", "action")]
    links = [value or "" for name, value in got.attributes if name == "href"]
    assert all(value.startswith("#") or value == "data:," for value in links)
    hashed = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; base-uri 'none'; form-action 'none'"
    assert ("content", policy) in got.attributes
    assert html(page()).count(f"<style>{STYLE}</style>") == 1
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_every_link_has_its_place() -> None:
    """And no place stands there twice."""
    got = Reader(html(page()))
    places = [value for name, value in got.attributes if name == "id"]
    links = {(value or "")[1:] for name, value in got.attributes if name == "href" and value != "data:,"}
    assert links <= set(places)
    assert {"scoreboard", "drift", "habits", "rejected", "unusable", "k1", "k2"} <= links
    assert len(places) == len(set(places))


FOREIGN: dict[str, Callable[[str], Page]] = {
    "sources": lambda text: replace(page(), sources=(text,)),
    "scores": lambda text: replace(page(), scores=(HEADS, [(text, text)])),
    "habits": lambda text: replace(page(), habits=(Habit(text or "?", "call_id", "minted", model=text),)),
    "drift": lambda text: replace(
        page(), compared=(text, Comparison((Drift(text, text, text, text, text, True, (text,), text),), 1))
    ),
    "kinds": lambda text: replace(page(), rejected=rejections((text, refused(text, text)))),
    "unusable": lambda text: replace(page(), unusable=(text,)),
}


@pytest.mark.parametrize("where", FOREIGN)
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_texts(where: str, text: str) -> None:
    """Wherever a foreign text stands, the page has the same elements and attributes as with a harmless one."""
    harmless, hostile = (html(FOREIGN[where](t)) for t in ("x", text))
    want, got = Reader(harmless), Reader(hostile)
    assert got.tags == want.tags
    assert [name for name, _ in got.attributes] == [name for name, _ in want.attributes]
    assert hostile.replace(STYLE, "").replace("\n", "").isprintable()
    assert hostile.encode()


def test_long_lists_are_cut_and_counted() -> None:
    """MAX_ROWS of a table; the rest as a number."""
    n = MAX_ROWS + 12
    scores = (HEADS, [(f"P{k}", "1") for k in range(n)])
    habits = tuple(Habit(f"P{k}", "call_id", "minted") for k in range(n))
    drifts = Comparison((DRIFT,) * n, 1)
    for long in (
        replace(page(), scores=scores),
        replace(page(), habits=habits),
        replace(page(), compared=("x", drifts)),
        replace(page(), n_unusable=n),
    ):
        assert html(long).count("12 more, left out here.") == 1
    assert html(replace(page(), scores=scores)).count("<td>P") == MAX_ROWS + 1  # and one of the drift


def test_answers_left_out_are_counted() -> None:
    """Of the kind, and of all."""
    found = Rejections(VOCAB, per_kind=2)
    for k in range(5):
        found.add(f"n{k}", refused(), lambda: NOTHING)
    text = Reader(html(replace(page(), rejected=found))).text
    assert "5 answers were rejected; 2 are shown, 3 are left out." in text
    assert "P: bill-mismatch (5, 2 shown)" in text


def test_a_page_is_known_again() -> None:
    """By its first bytes; no other file is taken for one."""
    assert is_page(html(page()).encode()[:4096])
    assert not is_page(b"<!doctype html>\n<html><head><title>x</title>")
    assert not is_page(b'{"a": "<meta name=\\"generator\\" content=\\"tokenproof 1\\">"}')
    assert not is_page(b"")


def test_the_readme_shows_one() -> None:
    """A picture that loads at once, with words for those who cannot see it."""
    root = Path(__file__).parents[2]
    alt, path = re.search(r"!\[([^]]+)\]\(([^)]+\.png)\)", (root / "README.md").read_text()).groups()  # type: ignore[union-attr]
    data = (root / path).read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    assert len(data) < 300_000
    assert len(alt) > 20
