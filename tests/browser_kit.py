"""A real browser for the page: Debian's Chromium, or whatever Chromium is at hand, driven without any network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def chromium() -> str | None:
    """The path of a Chromium, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass  # no slots: Playwright keeps its handlers on the object
class Seen:
    """What an open page did.

    Attributes:
        page: Playwright's.
        requests: Addresses that were asked for; every one but a file's or a data address was blocked.
        said: Messages of the console, errors that nobody caught, and dialogs.
    """

    page: Any
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def note(self, words: str) -> None:
        """Take a message down."""
        self.said.append(words)

    def dismissed(self, dialog: Any) -> None:
        """A dialog is a script's doing."""
        self.said.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def routed(self, route: Any) -> None:
        """Count a request, and let through what stays on this machine's disk."""
        url = route.request.url
        self.requests.append(url)
        if url.startswith(("file:", "data:")):
            route.continue_()
        else:
            route.abort()


@contextmanager
def browser() -> Iterator[Any]:
    """A browser; RuntimeError where there is none."""
    path = chromium()
    if path is None:
        raise RuntimeError(f"no Chromium is installed; looked for {', '.join(NAMES)}")
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


@contextmanager
def opened(found: Any, file: Path, *, dark: bool = False, width: int = 1200, height: int = 900) -> Iterator[Seen]:
    """A page of a file, in a context of its own that reaches nothing else."""
    scheme, size = "dark" if dark else "light", {"width": width, "height": height}
    context = found.new_context(color_scheme=scheme, viewport=size, service_workers="block")
    try:
        seen = Seen(context.new_page())
        context.route("**/*", seen.routed)
        seen.page.on("console", lambda message: seen.note(f"{message.type} {message.text}"))
        seen.page.on("pageerror", lambda error: seen.note(f"error {error}"))
        seen.page.on("dialog", seen.dismissed)
        seen.page.goto(file.resolve().as_uri())
        yield seen
    finally:
        context.close()
