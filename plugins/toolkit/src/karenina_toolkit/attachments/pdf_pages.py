"""Cutting pages out of a PDF, in a child process. PDFs are never parsed in this process."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from karenina_core.catalog import install_command
from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import ErrorCategory, PortError

_SECONDS: Final = 60.0
_MEMORY: Final = 1 << 30


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
    """Return a PDF with the attachment's chosen pages of the PDF `data`.

    Raises `PortError` if the PDF is damaged or has no such page, or if pypdfium2 is not installed.
    """
    why = missing_package()
    if why is None:
        command = [sys.executable, "-I", "-B", str(Path(__file__)), attachment.pages or "1"]
        try:
            done = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            why = f"cutting the pages took more than {_SECONDS:g} s"
        else:
            if done.returncode == 0:
                return done.stdout
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = lines[-1][:500] if lines else f"the child process ended with {done.returncode}"
    raise PortError(
        f"pages {attachment.pages} of the attachment {attachment.name!r} cannot be sent: {why}",
        category=ErrorCategory.PERMANENT,
    )


@lru_cache(maxsize=1000)
def count_pages(path: str, _changed: int) -> int | None:
    """Return the number of pages of a PDF file, or None if it cannot be counted. `_changed` is the file's time."""
    if missing_package() is not None:
        return None
    command = [sys.executable, "-I", "-B", str(Path(__file__)), "count"]
    try:
        with Path(path).open("rb") as file:
            done = subprocess.run(command, stdin=file, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603
        return int(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _main() -> None:
    """Write the pages of the PDF on the standard input to the standard output, or their number."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    pypdfium2 = import_module("pypdfium2")  # without types
    try:
        document = pypdfium2.PdfDocument(sys.stdin.buffer.read())
    except pypdfium2.PdfiumError as error:
        sys.exit(f"the PDF cannot be opened ({error})")
    if sys.argv[1] == "count":
        sys.stdout.write(str(len(document)))
        return
    numbers = numbers_of(sys.argv[1])
    if max(numbers) > len(document):
        sys.exit(f"the PDF has {len(document)} pages, so there is no page {max(numbers)}; correct `pages`")
    cut = pypdfium2.PdfDocument.new()
    cut.import_pages(document, [number - 1 for number in numbers])
    cut.save(sys.stdout.buffer)


if __name__ == "__main__":
    _main()
