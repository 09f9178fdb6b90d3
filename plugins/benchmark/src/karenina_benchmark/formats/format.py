"""`Format`: a file format for benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_toolkit.plugin_lookup import check_suffixes

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent

CheckPaths = Callable[["Path", Sequence[str]], bool | None]
"""A function that is called with a benchmark's file and the files it refers to, before any of them is opened.

It must raise an exception if the files must not be read. It returns True if files outside the benchmark's folder may be
read, False if they have been reported and must be skipped, and None if there are none.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format for benchmarks.

    `name` is used in messages ("YAML", "a checkpoint"). `suffixes` are in lower case and start with a dot (`.cards`,
    `.bench.json`). A format without suffixes is only used for files that it recognizes.

    `read` returns the benchmark in a file, without executing anything in it. Before it opens other files, it must call
    its second argument with their names. `write` yields the new content of a file as text (encoded as UTF-8) or bytes,
    and the file is replaced after the last piece. `read_columns` reads a table with other column names. Its second
    argument maps the names used with `karenina run --columns` to columns. All three may raise `BenchmarkFileError`.

    `recognizes` is called for tables, and for JSON files that are not benchmarks. It returns True if a file certainly
    has this format, whatever its suffix.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, CheckPaths], BenchmarkContent]
    write: Callable[[BenchmarkContent, Path], Iterable[str | bytes]] | None = None
    read_columns: Callable[[Path, Mapping[str, str]], BenchmarkContent] | None = None
    recognizes: Callable[[Path], bool] | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` if `suffixes` is a text, or one of them is not in lower case or has no dot."""
        check_suffixes(self.suffixes, "cards")
