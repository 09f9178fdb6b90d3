"""The interface for export formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from karenina_toolkit.plugin_lookup import check_suffixes

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.tables import Table

ANY_BYTES: Final = (b"",)
"""The first bytes of any file."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The results to export.

    `results` can be iterated more than once. `table` is the name of the table that the user chose. `tables` returns the
    table with a given name, and raises `ConfigError` for unknown names. `journal` is the run's journal, or None.
    `model` is the only answering model to export, or None for all. `distributions` maps the run's distributions to
    their versions. `run` is the run's id, if known. `rescored` is true if the results differ from those in the journal.
    `with_results` asks table formats to store whole results too, for `read_export`. Call `warn` with a message about
    anything that the format cannot store.
    """

    source: Path
    results: Iterable[VerificationResult]
    tables: Callable[[str], Table]
    table: str | None
    warn: Callable[[str], None]
    journal: Path | None = None
    model: str | None = None
    distributions: Mapping[str, str] = field(default_factory=dict)
    with_results: bool = True
    run: str | None = None
    rescored: bool = False


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format for exporting results.

    `name` is the value for `--format`. An output file with one of the `suffixes` (lower case, with the dot) selects the
    format. `summary` is one line of help. `write` writes UTF-8 or binary data to an open file. Set `is_binary` if a
    terminal cannot show the data, and `takes_table` if the user can choose a table. An existing output file is renamed
    if it starts with one of `first_bytes`; otherwise, the export is refused. `read` reads the results from a file that
    was written with `with_results`.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    write: Callable[[ExportRequest, BinaryIO], None]
    is_binary: bool = False
    takes_table: bool = False
    first_bytes: tuple[bytes, ...] = ANY_BYTES
    read: Callable[[Path], Iterable[VerificationResult]] | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` if `suffixes` is a text, or one of them is not in lower case or has no dot."""
        check_suffixes(self.suffixes, "lines")
