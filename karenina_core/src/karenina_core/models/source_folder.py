"""Folders outside the benchmark whose files affect results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """A folder of the user's whose files affect the result of a question.

    `ignores(name)` returns whether an entry has no effect on results, such as a copy left behind by a run. Links are
    followed only inside `within` (default: `path`).
    """

    path: Path
    within: Path | None = None
    ignores: Callable[[str], bool] = lambda _name: False
