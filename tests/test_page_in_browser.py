"""The page of `tokenproof report` in a real browser: it asks for nothing, runs nothing, and can be read and used by
keyboard, in light and in dark.

Runs wherever a Chromium is installed, and skips with the reason where none is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from harness.cli import app
from tests.browser_kit import NAMES, browser, chromium, opened
from tests.conftest import ROOT
from tests.harness.test_markup import HOSTILE
from tests.providerx import answer, ids

pytestmark = pytest.mark.skipif(
    chromium() is None, reason=f"no Chromium is installed (looked for {', '.join(NAMES)}): the page is not seen in one"
)
ATTACKS = (
    "<script>window.pwned = 1; alert(1)</script>",
    "</title></style></script><img src=http://127.0.0.1:9/x onerror='window.pwned = 1'>",
    "\"><svg onload='window.pwned = 1'><iframe src=http://127.0.0.1:9/y></iframe>",
    *HOSTILE,
)
CONTRASTS = """() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = el => {
    for (let e = el; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
      if (c[3] !== 0) throw new Error('half transparent');
    }
    throw new Error('no ground');
  };
  const rows = [];
  for (const el of document.querySelectorAll('body, body *')) {
    if (![...el.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(el).color)), light(ground(el))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    rows.push([ratio, b, el.tagName + '.' + el.className]);
  }
  return rows;
}"""
FOCUS = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
  return {
    tag: e.tagName, text: e.textContent.slice(0, 40), answer: e.tagName === 'SUMMARY' ? e.parentElement.id : '',
    section: e.closest('section')?.id ?? '',
    outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 1,
    inside: box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
  };
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of real recordings, of answers that attack it, and of one whose report parts from its text."""
    folder = tmp_path_factory.mktemp("page")
    lost = "\ufffd"  # for which an answer is rejected
    rows = [
        {"name": text, "response": {**answer({"reasoning": text, "content": text + lost}, 3), "provider": text}}
        for text in ATTACKS
    ]
    reported = answer({"reasoning": "Think.", "content": "Say it."}, 8)
    reported["choices"][0]["token_ids"] = ids("Think.", "</think>", "Say so.", "<|im_end|>")
    rows += [{"name": "reported", "response": reported}, {"name": "no answer", "response": 5}]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["report", str(folder / "a.jsonl"), *(str(ROOT / name) for name in ("cassettes", "golden"))]
    result = CliRunner().invoke(app, [*arguments, "--blind", "--limit", "2", "--out", str(folder / "blind.html")])
    assert result.exit_code == 2, result.output
    result = CliRunner().invoke(app, [*arguments, "--limit", "2", "--out", str(folder / "page.html")])
    assert result.exit_code == 2, result.output
    return folder / "page.html"


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    """One browser for all."""
    with browser() as found:
        yield found


def test_the_counter_counts(chrome: Any, tmp_path: Path) -> None:
    """A page that does ask for something and does run something is caught at both."""
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://127.0.0.1:9/x'><script>alert(1); console.error('loud')</script>")
    with opened(chrome, bad) as seen:
        assert seen.requests == [bad.as_uri(), "http://127.0.0.1:9/x"]
        assert {"dialog 1", "error loud"} <= set(seen.said)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_asks_for_nothing_and_runs_nothing(chrome: Any, page: Path, dark: bool) -> None:
    """One request, its own file; nothing on the console; what answers tried to run did not run."""
    with opened(chrome, page, dark=dark) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        seen.page.wait_for_load_state("networkidle")
        assert [url for url in seen.requests if not url.startswith("data:")] == [page.as_uri()]
        assert seen.said == []
        assert seen.page.evaluate("typeof window.pwned") == "undefined"
        assert seen.page.locator("script, img, iframe, svg, object, embed").count() == 0
        assert ATTACKS[0] in seen.page.locator("#rejected").inner_text()


def test_what_slips_in_cannot_run(chrome: Any, page: Path, tmp_path: Path) -> None:
    """Were markup of an answer ever to reach the page, its policy would still stop it."""
    broken = tmp_path / "broken.html"
    attack = f"<main id=\"main\">{ATTACKS[0]}<img src=http://127.0.0.1:9/x><p id=p style='color: red'>x</p>"
    text = page.read_text()
    assert text.count('<main id="main">') == 1
    broken.write_text(text.replace('<main id="main">', attack))
    with opened(chrome, broken) as seen:
        assert [url for url in seen.requests if not url.startswith("data:")] == [broken.as_uri()]
        assert seen.page.evaluate("typeof window.pwned") == "undefined"
        assert len([words for words in seen.said if "Content Security Policy" in words]) >= 3


def test_by_keyboard(chrome: Any, page: Path) -> None:
    """Tab reaches every rejected answer, Enter opens it; what has the focus shows it and stands in view."""
    with opened(chrome, page) as seen:
        wanted = seen.page.evaluate("[...document.querySelectorAll('details.answer')].map(d => d.id)")
        reached: list[str] = []
        for _ in range(2000):
            seen.page.keyboard.press("Tab")
            focus = seen.page.evaluate(FOCUS)
            if focus["tag"] == "BODY":
                break
            assert focus["outline"], focus
            assert focus["inside"], focus
            if focus["answer"].startswith("a"):
                reached.append(focus["answer"])
                seen.page.keyboard.press("Enter")
        assert reached == wanted
        assert len(wanted) > 20
        opened_now = seen.page.evaluate("[...document.querySelectorAll('details.answer[open]')].map(d => d.id)")
        assert opened_now == wanted


def test_the_skip_link(chrome: Any, page: Path) -> None:
    """The first stop; hidden until then. It leads to the rejected answers, and the next stop is among them."""
    with opened(chrome, page) as seen:
        assert seen.page.locator(".skip").bounding_box()["x"] < -100
        seen.page.keyboard.press("Tab")
        focus = seen.page.evaluate(FOCUS)
        assert (focus["text"], focus["inside"]) == ("Skip to the rejected answers", True)
        seen.page.keyboard.press("Enter")
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate(FOCUS)["section"] == "rejected"


def test_a_parting_leads_to_its_token(chrome: Any, page: Path) -> None:
    """The link of a place where witness and reading part brings that token into view."""
    with opened(chrome, page) as seen:
        row = seen.page.locator("details.answer", has=seen.page.locator("summary b", has_text="reported"))
        row.locator("summary").press("Enter")
        link = row.get_by_role("link", name="id ").first
        link.press("Enter")
        token = seen.page.locator(seen.page.evaluate("location.hash"))
        assert token.inner_text() == "971·so"
        expect(token).to_be_in_viewport()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrast(chrome: Any, page: Path, dark: bool) -> None:
    """Every text of the page stands out from its ground by 4.5 at least, the body's by 7."""
    with opened(chrome, page, dark=dark) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        rows = seen.page.evaluate(CONTRASTS)
        assert len(rows) > 500
        assert [row for row in rows if row[0] < 4.5] == []
        assert min(row[0] for row in rows if row[2] in ("P.", "LI.", "TD.")) >= 7
        grounds = [row[1] for row in rows if row[2] == "P."]
        assert (max(grounds) < 0.05) if dark else (min(grounds) > 0.9)


@pytest.mark.parametrize("width", [360, 1200])
def test_no_sideways_scrolling(chrome: Any, page: Path, width: int) -> None:
    """The page fits a phone and a desk, all opened: wide tables scroll in their own frames."""
    with opened(chrome, page, width=width) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
