"""The files that primitives use, such as a table of terms, and the folder they are in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

_folder: Final[ContextVar[Path | None]] = ContextVar("karenina_template_files", default=None)


class files_in(AbstractContextManager[None]):  # noqa: N801 - used like a function
    """A context manager that resolves the relative paths in primitives against `folder`, or against the working
    directory if it is None. Nested blocks restore the outer folder.

    A generator would be several times slower.
    """

    __slots__ = ("_before", "_to")

    def __init__(self, folder: Path | None) -> None:
        self._to = folder

    def __enter__(self) -> None:
        """Use the folder."""
        self._before = _folder.set(self._to)

    def __exit__(self, *error: object) -> None:
        """Use the folder from before the block again."""
        _folder.reset(self._before)


def files_of(config: VerificationConfig) -> AbstractContextManager[None]:
    """Resolve the relative paths in primitives in the same way as a run with this configuration (`template_files`)."""
    return files_in(config.setting("template_files") if config.has("template_files") else None)


def find_file(name: str) -> Path:
    """Return the absolute path of a primitive's file. Relative paths start at the benchmark's folder."""
    return ((_folder.get() or Path()) / name).absolute()
