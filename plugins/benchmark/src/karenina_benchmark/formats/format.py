"""`Format`: a kind of file that holds benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent

CheckPaths = Callable[["Path", Sequence[str]], bool | None]
"""A check of the files that a benchmark names; it is called with the benchmark's file and their names before any of
them is opened.

It raises if they may not be read. Files outside of the benchmark's folder are read only if it returns True; False means
that it reported them, and None that there are none.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that holds a benchmark.

    `suffixes` are in lower case and begin with a dot (`.cards`, `.bench.json`); a format without suffixes is chosen by
    other plugins only. `read` returns the benchmark of a file without executing anything in it; before it opens other
    files, it calls its second argument with their names. `write` yields the new content of a file as text (written as
    UTF-8) or bytes; the file is replaced after the last piece. `read_columns` reads a table with other column names,
    given a mapping of the names of `karenina run --columns` to columns. Each raises `BenchmarkFileError`. `recognizes`
    returns whether a table or a JSON file that is no benchmark is surely of this format, whatever its suffix is.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, CheckPaths], BenchmarkContent]
    write: Callable[[BenchmarkContent, Path], Iterable[str | bytes]] | None = None
    read_columns: Callable[[Path, Mapping[str, str]], BenchmarkContent] | None = None
    recognizes: Callable[[Path], bool] | None = None
