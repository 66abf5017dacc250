"""The picture of the README: a page of the repository's own recordings, one rejected answer opened.

python -m tests.make_screenshot        writes tests/data/report.png (needs a Chromium)
"""

import contextlib
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from harness.cli import app
from tests.browser_kit import browser, opened
from tests.conftest import ROOT

OUT = ROOT / "tests" / "data" / "report.png"
SHOWN = "literal_think_end.stream_notools"
ENGINE = ("plain.chat_tools", SHOWN, "think_start_again.chat_notools", "invalid_utf8.chat_tools")
SOURCES = ("cassettes/siliconflow", *(f"golden/sglang-0.5.23/{name}.json" for name in ENGINE))
WIDTH, HEIGHT = 1280, 1650


def main() -> None:
    """Make it, or say why there is no page."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        with contextlib.chdir(ROOT):  # the page names its sources as they are typed
            result = CliRunner().invoke(app, ["report", *SOURCES, "--blind", "--out", str(page)])
        if result.exit_code:
            sys.exit(result.output)
        with browser() as found, opened(found, page, width=WIDTH, height=HEIGHT) as seen:
            seen.page.locator("summary", has_text=SHOWN).first.click()
            OUT.parent.mkdir(exist_ok=True)
            seen.page.screenshot(path=str(OUT))


if __name__ == "__main__":
    main()
