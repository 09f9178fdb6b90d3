"""Folders outside of the benchmark that decide a result: stages name them, and a run compares what lies there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def _nothing(_name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """A folder of the user's whose files decide what is found out about a question.

    `ignores(name)` says of which files and folders in it nothing depends, such as copies that runs leave there.
    Links to files and folders count with what they point at as far as that lies in `within`; without it, in `path`.
    """

    path: Path
    within: Path | None = None
    ignores: Callable[[str], bool] = _nothing
