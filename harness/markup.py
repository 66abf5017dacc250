"""HTML from values: whatever is not markup by its type is escaped, so that no foreign text can become any.

Knows nothing of what a page says.
"""

from collections.abc import Iterable
from html import escape

from harness.report import printable

MAX_TEXT = 400
"""Characters of one foreign text; reasons quote answers, and answers may be of any length."""
VOID = frozenset({"br", "link", "meta"})


class Html(str):
    """Markup. Made by this module alone; joining or formatting one gives a plain text again, which is then escaped."""

    __slots__ = ()


def told(text: str, limit: int = MAX_TEXT) -> str:
    """A foreign text, cut where it is too long."""
    left = len(text) - limit
    return text[:limit] + (f" … and {left} more characters" if left > 0 else "")


def tag(name: str, /, *inside: str | int, **attributes: str | int | None) -> Html:
    """One element: what stands in it, each escaped unless it is markup, and its attributes (`class_`, `aria_label`)."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{words}>")
    return Html(f"<{name}{words}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str | int]) -> Html:
    """One after the other, each escaped unless it is markup."""
    return Html("".join([part if isinstance(part, Html) else _escaped(part) for part in parts]))


def _escaped(text: str | int) -> str:
    return escape(printable(str(text)))


def listed(rows: Iterable[str]) -> Html:
    """A list, an item a row."""
    return tag("ul", *(tag("li", row) for row in rows))


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], *, label: str) -> Html:
    """A table in a frame of its own, which scrolls where it is too wide, by keyboard too."""
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    return tag("div", tag("table", head, body), class_="wide", role="region", aria_label=label, tabindex=0)
