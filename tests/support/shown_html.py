"""The parts of the HTML that objects have in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = (
    "</td><script>alert(1)</script><img src=x onerror=alert(1)> $\\href{javascript:alert(1)}{x}$ \x1b[31m\u202e\ud800"
)
"""A text that tries to run code, to control a terminal, and to reverse what follows."""

_HARMLESS = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class ShownHTML(HTMLParser):
    """The elements, attributes and text of some HTML, which has no element that could run or load something."""

    def __init__(self, text: str | None) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        assert text is not None
        text.encode()
        self.feed(text)
        assert set(self.tags) <= _HARMLESS
        assert self.attributes <= {"class", "scope", "style"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Add the text, with a space after each piece."""
        self.text += f"{data} "
