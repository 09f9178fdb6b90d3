"""The files that primitives use, such as a table of terms, and the folder they are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

_folder: Final[ContextVar[Path | None]] = ContextVar("karenina_template_files", default=None)


@contextmanager
def files_in(folder: Path | None) -> Iterator[None]:
    """Resolve the relative paths in primitives against `folder` inside the `with` block, or against the working
    directory if it is None. Nested blocks restore the outer folder.
    """
    before = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(before)


def files_of(config: VerificationConfig) -> AbstractContextManager[None]:
    """Resolve the relative paths in primitives in the same way as a run with this configuration (`template_files`)."""
    return files_in(config.setting("template_files") if config.has("template_files") else None)


def find_file(name: str) -> Path:
    """Return the absolute path of a primitive's file. Relative paths start at the benchmark's folder."""
    return ((_folder.get() or Path()) / name).absolute()
