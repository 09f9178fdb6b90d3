"""`Format`: a kind of file that holds benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent

CheckPaths = Callable[["Path", Sequence[str]], bool | None]
"""Called with a benchmark's file and the files that it wants to be read, before any of them is opened.

It raises if they may not be read; False leaves those out that lead out of the folder.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that holds a benchmark.

    `suffixes` are in lower case, with their dot. `read` returns the benchmark of a file, without executing anything in
    it; it calls its second argument with the names of other files before it opens them. `write` yields the new content
    of a file, text (as UTF-8) or bytes; the file is replaced after all of it was yielded. `read_columns` reads a table
    whose columns have other names: it gets a mapping from `question`, `answer`, `id` and `keywords` to columns. All
    raise `CheckpointError`.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, CheckPaths], BenchmarkContent]
    write: Callable[[BenchmarkContent, Path], Iterable[str | bytes]] | None = None
    read_columns: Callable[[Path, Mapping[str, str]], BenchmarkContent] | None = None
