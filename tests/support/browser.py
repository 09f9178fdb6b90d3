"""A page from disk in a real browser: Chromium, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

PATIENCE: Final = 120_000
"""Milliseconds that a busy machine may take until a page shows something."""


class OpenPage:
    """A page from disk, with its plots drawn.

    `problems` are console errors, exceptions, and requests for anything but the file itself.
    """

    def __init__(self, context: BrowserContext, file: Path, view: str) -> None:
        self.problems: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: self._note(f"console: {message.text}", message.type == "error"))
        self.page.on("pageerror", lambda error: self._note(f"exception: {error}", True))
        self.page.on("request", lambda made: self._note(f"request: {made.url}", not made.url.startswith("file:")))
        self.page.on("dialog", lambda dialog: self._note(f"dialog: {dialog.message}", True))
        self.page.goto(f"{file.as_uri()}{view}")
        self.page.wait_for_selector("html[data-ready=true]")
        for plot in self.page.locator("figure.plot").all():  # they are drawn after the page around them
            plot.locator("svg[role=img]").wait_for()

    def _note(self, text: str, is_problem: bool) -> None:
        if is_problem:
            self.problems.append(text)

    def part(self, test: str) -> Locator:
        """Return the elements with this `data-test`, for `expect`, which waits until the page shows what it should."""
        return self.page.locator(f'[data-test="{test}"]')
