"""The files of items in the page: small ones as data, and for the others why they are missing.

Everything in a file is hostile. A picture is one by its first bytes, whatever its name says, and of a type in which
nothing runs; other files are shown as text or saved, and never opened by the browser in the place of the page.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from karenina_toolkit.files.bounded_files import format_size
from karenina_toolkit.kept_files import picture_type
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import KeptFile
    from karenina_engine.results.kept_files import KeptFiles

MOST_OF_FILE: Final = 2_000_000
"""The most bytes of a file in the page."""
MOST_OF_PAGE: Final = 20_000_000
_TOO_LARGE: Final = "it is too large for the page"


class PageFiles:
    """The files of one page, of which at most `MOST_OF_PAGE` bytes are in it."""

    def __init__(self) -> None:
        self._used = 0
        self._missing: Counter[str] = Counter()

    def describe(self, result: VerificationResult, folders: KeptFiles | None) -> list[dict[str, Any]]:
        """Return the files of a result for the page. `folders` are those beside it, if it is in a file."""
        return [self._describe(kept, folders) for kept in result.metadata.files]

    def problems(self) -> Iterator[str]:
        """Yield how many files are not in the page, by reason."""
        for why, count in self._missing.items():
            yield f"the content of {quantity(count, 'file')} of items is left out: {why}"

    def _describe(self, kept: KeptFile, folders: KeptFiles | None) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": kept.name, "type": kept.media_type, "size": kept.size}
        if kept.left_out is not None:
            return {**shown, "note": f"left out by the run: {kept.left_out}"}
        if folders is None:
            return {**shown, "note": self._miss("the results are in memory, without a folder of files")}
        found = folders.find(kept)
        if found.problem is not None:
            return {**shown, "note": self._miss(found.problem)}
        size = len(found.content)
        if size > MOST_OF_FILE or self._used + size > MOST_OF_PAGE:
            limit = f"{format_size(MOST_OF_FILE)} of a file, {format_size(MOST_OF_PAGE)} of all"
            self._miss(f"{_TOO_LARGE} ({limit})")
            return {**shown, "note": f"{_TOO_LARGE}; it is {found.path}"}
        self._used += size
        data = base64.b64encode(found.content).decode("ascii")
        picture = picture_type(found.content)
        return {**shown, "data": data, "picture": picture, "text": picture is None and _is_text(found.content)}

    def _miss(self, why: str) -> str:
        self._missing[why] += 1
        return why


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False
