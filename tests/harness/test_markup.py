"""markup.py: foreign text stays text, whatever it is made of."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.markup import MAX_TEXT, Html, joined, listed, table, tag, told
from harness.report import printable

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "\" onmouseover='alert(1)' x=\"",
    "<!--",
    "-->",
    "]]>",
    "<![CDATA[",
    "</title><svg/onload=1>",
    "&lt;b&gt;",
    "&#x3c;b>",
    "&amp",
    "<style>*{}</style>",
    "\x00\x1b[2J\x08\u202e\u2028\ufeff\ud800",
    "javascript:alert(1)",
    "{{7*7}}",
    "`${1}`",
)


class Reader(HTMLParser):
    """The elements, attributes and texts of some markup, as a parser sees them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_texts(text: str) -> None:
    """As content and as attribute: one element, one attribute, and the text as a terminal may show it."""
    shown, got = printable(text), Reader(tag("p", text, title=text))
    assert (got.tags, got.attributes, got.text) == (["p"], [("title", shown)], shown)


@given(st.text())
def test_any_text_stays_text(text: str) -> None:
    """No text adds an element, an attribute or a control character; nothing is lost of it."""
    made = tag("p", told(text, 10**6), title=text)
    shown, got = printable(text), Reader(made)
    assert (got.tags, got.attributes, got.text) == (["p"], [("title", shown)], shown)
    assert made.isprintable()


def test_only_markup_is_taken_as_it_is() -> None:
    """An element in an element; but a text made of markup by joining is a text again."""
    inner = tag("b", "x")
    assert tag("p", inner, " & ", 3) == "<p><b>x</b> &amp; 3</p>"
    assert tag("p", f"{inner}") == "<p>&lt;b&gt;x&lt;/b&gt;</p>"
    assert tag("p", inner + "") == "<p>&lt;b&gt;x&lt;/b&gt;</p>"
    assert type(joined([inner, "<"])) is Html
    assert joined([inner, "<"]) == "<b>x</b>&lt;"


def test_attributes() -> None:
    """Names with a trailing or an inner underscore, a number, and one that is absent; an element without an end."""
    assert tag("p", class_="a", aria_label="b", tabindex=0, id=None) == '<p class="a" aria-label="b" tabindex="0"></p>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_long_texts_are_cut() -> None:
    """The first MAX_TEXT characters, and how many there were more."""
    assert told("a" * MAX_TEXT) == "a" * MAX_TEXT
    assert told("a" * (MAX_TEXT + 7)) == "a" * MAX_TEXT + " … and 7 more characters"
    assert told("abc", 2) == "ab … and 1 more characters"


def test_lists_and_tables() -> None:
    """Each cell is escaped; the frame of a table can be reached by keyboard and has a name."""
    assert listed(["a", "<"]) == "<ul><li>a</li><li>&lt;</li></ul>"
    assert table(("h",), [("<",), (tag("b", "x"),)], label="L") == (
        '<div class="wide" role="region" aria-label="L" tabindex="0"><table>'
        '<thead><tr><th scope="col">h</th></tr></thead>'
        "<tbody><tr><td>&lt;</td></tr><tr><td><b>x</b></td></tr></tbody></table></div>"
    )
