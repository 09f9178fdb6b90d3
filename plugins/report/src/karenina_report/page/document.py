"""The HTML document: script and style with their digests, and data that the browser does not interpret."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, BinaryIO, Final

from pydantic_core import to_json, to_jsonable_python

FIRST_BYTES: Final = b"<!doctype html><!-- karenina report"
"""The first bytes of every page. Only files that start with them are replaced."""


def read_asset(name: str) -> str:
    """Return the text of a file in the `assets` folder."""
    return files("karenina_report.page").joinpath("assets", name).read_text("utf-8")


@dataclass(frozen=True, slots=True)
class PageSource:
    """A page's script, style, title and first bytes.

    `noun` is the word for the page in a sentence, such as "report".
    """

    script: str
    style: str
    title: str = "Karenina report"
    noun: str = "report"
    first_bytes: bytes = FIRST_BYTES


class PageDocument:
    """An HTML document written in parts: the start, any number of data blocks, and the end."""

    def __init__(self, file: BinaryIO, source: PageSource | None = None) -> None:
        """Start a document in `file`. By default, the document is the report page."""
        self._file = file
        self._source = source or PageSource(read_asset("app.js"), read_asset("app.css"))

    def begin(self) -> None:
        """Write the start of the document: its security policy, styles, and everything else before the data blocks."""
        source = self._source
        policy = (
            f"default-src 'none'; script-src '{source_digest(source.script)}'; "
            f"style-src '{source_digest(source.style)}'; img-src data:; base-uri 'none'; form-action 'none'"
        )
        self._write(
            source.first_bytes.decode()
            + " -->\n"
            + '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            + f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            + '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            + '<meta name="referrer" content="no-referrer">\n'
            + f"<title>{source.title}</title>\n<style>{source.style}</style>\n</head>\n<body>\n"
            + f"<noscript>This {source.noun} needs JavaScript, which this browser or its settings do not allow."
            + '</noscript>\n<div id="app"></div>\n'
        )

    def add(self, id: str, value: Any) -> None:
        """Write a data block: compressed JSON in base64, so that text from a run cannot break the document. Numbers
        that are not finite become null.
        """
        packed = gzip.compress(_dump(value), 6, mtime=0)
        self._write(f'<script type="text/plain" id="karenina-{id}">')
        self._file.write(base64.b64encode(packed))
        self._write("</script>\n")

    def end(self) -> None:
        """Write the script, which must come after the data it reads."""
        self._write(f"<script>{self._source.script}</script>\n</body>\n</html>\n")

    def _write(self, text: str) -> None:
        self._file.write(text.encode("utf-8"))


def plain_json(value: Any) -> Any:
    """Convert a value to JSON types. Numbers that are not finite become None, because browsers cannot read them. Raises
    `ValueError` for a value that cannot be converted.
    """
    return to_jsonable_python(value, inf_nan_mode="null")


def _dump(value: Any) -> bytes:
    """Serialize a value as compact JSON, with null for numbers that are not finite."""
    try:
        return to_json(value, inf_nan_mode="null")
    except ValueError:  # UTF-8 cannot encode lone surrogates, which JSON can escape
        return json.dumps(plain_json(value), separators=(",", ":"), allow_nan=False).encode("ascii")


def source_digest(text: str) -> str:
    """Return the digest of an inline script or style for a Content Security Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}"
