"""Cutting pages out of a PDF, in a child process. PDFs are never parsed in this process."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from karenina_core.catalog import install_command
from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import ErrorCategory, PortError

_SECONDS: Final = 60.0
_MEMORY: Final = 1 << 30
_TOO_LONG: Final = f"cutting the pages took more than {_SECONDS:g} s; attach fewer pages"
_SCALE: Final = 2.0
_PIXELS: Final = 1500
_SMOOTHING: Final = 48
"""The most that two values of a pixel differ if only the smoothing of letters differs."""


def missing_package() -> str | None:
    """Return the reason why pages cannot be cut, with the cure, or None if they can."""
    if find_spec("pypdfium2") is not None:
        return None
    return f"`pages` needs the package pypdfium2; {install_command('karenina-toolkit[pdf]')}"


def numbers_of(pages: str) -> list[int]:
    """Return the page numbers, from 1, in text such as `1-2,5`."""
    ranges = [(int(part.partition("-")[0]), int(part.rpartition("-")[2])) for part in pages.split(",")]
    return [number for first, last in ranges for number in range(first, last + 1)]


def cut_pages(attachment: Attachment, data: bytes) -> bytes:
    """Return a PDF with the attachment's chosen pages of the PDF `data`. Raises `PortError` if the PDF is damaged or
    has no such page, if this takes too long, if the pages would look different without the rest of the PDF, or if
    pypdfium2 is not installed.
    """
    why = missing_package()
    if why is None:
        try:
            done = subprocess.run(  # noqa: S603
                _command(attachment.pages or "1"), input=data, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            why = _TOO_LONG
        else:
            if done.returncode == 0:
                return done.stdout
            why = _reason(done)
    raise PortError(
        f"pages {attachment.pages} of the attachment {attachment.name!r} cannot be sent: {why}",
        category=ErrorCategory.PERMANENT,
    )


@lru_cache(maxsize=1000)
def find_problem(path: str, _changed: int, pages: str) -> str | None:
    """Return the reason why `pages` of a PDF file cannot be cut, or None if they can or, without pypdfium2, if this is
    unknown. The result is cached; `_changed` is the time of the file's last change, so that a changed file is read
    again.
    """
    if missing_package() is not None:
        return None
    try:
        with Path(path).open("rb") as file:
            done = subprocess.run(  # noqa: S603
                _command(pages),
                stdin=file,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return _TOO_LONG
    return None if done.returncode == 0 else _reason(done)


@lru_cache(maxsize=1000)
def count_pages(path: str, _changed: int) -> int | None:
    """Return the number of pages of a PDF file, or None if it cannot be counted. The result is cached; `_changed` is
    the time of the file's last change, so that a changed file is read again.
    """
    if missing_package() is not None:
        return None
    try:
        with Path(path).open("rb") as file:
            done = subprocess.run(  # noqa: S603
                _command("count"), stdin=file, capture_output=True, timeout=_SECONDS, check=False
            )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _command(what: str) -> list[str]:
    """Return the command of the child process, which runs this file."""
    return [sys.executable, "-I", "-B", str(Path(__file__)), what]


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the reason that a child process gave before it failed."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else f"the child process ended with {done.returncode}"


def _main() -> None:
    """Write the pages of the PDF on standard input that the first argument names to standard output as a PDF or, for
    `count`, their number. Ends with a message if the PDF cannot be read or has no such page.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    pypdfium2 = import_module("pypdfium2")  # without types
    try:
        document = pypdfium2.PdfDocument(sys.stdin.buffer.read())
    except pypdfium2.PdfiumError as error:
        sys.exit(f"the PDF cannot be opened ({error}); save it again, without a password")
    if sys.argv[1] == "count":
        sys.stdout.write(str(len(document)))
        return
    numbers = numbers_of(sys.argv[1])
    if max(numbers) > len(document):
        sys.exit(f"the PDF has {len(document)} pages, so there is no page {max(numbers)}; correct `pages`")
    sys.stdout.buffer.write(_cut(pypdfium2, document, numbers))


def _cut(pypdfium2: Any, document: Any, numbers: list[int]) -> bytes:
    """Return a new PDF with the given pages of a document, in this order. Ends the process if a page looks different
    there.

    What fields of a form contain becomes part of the page, because the fields belong to the whole document. So do
    layers: without the document, hidden ones would be visible.
    """
    has_form = bool(document.get_formtype())
    shown = {}
    if has_form or b"/OCProperties" in _saved(document):  # it is saved without compressed dictionaries
        if has_form:
            document.init_forms()
        shown = {
            number: _picture(document[number - 1]) for number in numbers
        }  # this also draws what the fields contain
    cut = pypdfium2.PdfDocument.new()
    cut.import_pages(document, [number - 1 for number in numbers])
    for place in range(len(numbers) if has_form else 0):
        page = cut[place]
        pypdfium2.raw.FPDFPage_Flatten(page.raw, pypdfium2.raw.FLAT_NORMALDISPLAY)
        page.close()
    data = _saved(cut)
    if shown:
        saved = pypdfium2.PdfDocument(data)
        for place, number in enumerate(numbers):
            if _differ(shown[number], _picture(saved[place])):
                sys.exit(
                    f"page {number} looks different without the rest of the PDF, which has hidden layers or a form; "
                    "print it to a PDF, or attach it as a picture"
                )
    return data


def _saved(document: Any) -> bytes:
    """Return a document as the contents of a file."""
    file = BytesIO()
    document.save(file)
    return file.getvalue()


def _picture(page: Any) -> bytes:
    """Return the pixels of a page in shades of gray, in which all letters are smoothed alike."""
    return bytes(page.render(scale=min(_SCALE, _PIXELS / max(page.get_size())), grayscale=True).buffer)


def _differ(one: bytes, other: bytes) -> bool:
    """Return whether two pictures differ by more than the smoothing of letters."""
    if one == other:
        return False
    return len(one) != len(other) or any(abs(a - b) > _SMOOTHING for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    _main()
