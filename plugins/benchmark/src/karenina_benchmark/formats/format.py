"""`Format`: a file format for benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent

CheckPaths = Callable[["Path", Sequence[str]], bool | None]
"""A check of the files that a benchmark names, called before any of them is opened.

The arguments are the benchmark's file and the names of the other files. The check raises an exception if they must not
be read. It returns True if files outside of the benchmark's folder may be read, False if it has reported them and they
are skipped, and None if there are no such files.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format for benchmarks.

    `name` is used in messages ("YAML", "a checkpoint"). `suffixes` are in lower case and start with a dot (`.cards`,
    `.bench.json`). A format without suffixes is used only for files that it recognizes.

    `read` returns the benchmark in a file and executes nothing in it. Before it opens other files, it calls its second
    argument with their names. `write` yields the new content of a file as text (encoded as UTF-8) or bytes; the file is
    replaced after the last piece. `read_columns` reads a table with other column names; its second argument maps the
    names in `karenina run --columns` to columns. All three may raise `BenchmarkFileError`.

    `recognizes` is called for tables, and for JSON files that are not benchmarks. It returns whether a file definitely
    has this format, regardless of its suffix.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, CheckPaths], BenchmarkContent]
    write: Callable[[BenchmarkContent, Path], Iterable[str | bytes]] | None = None
    read_columns: Callable[[Path, Mapping[str, str]], BenchmarkContent] | None = None
    recognizes: Callable[[Path], bool] | None = None
