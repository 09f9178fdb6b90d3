"""The interface of export formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from karenina_core.hook_policy import HookPolicy
from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.tables import Table

ANY_BYTES: Final = (b"",)
"""The first bytes of any file."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The results to export.

    `results` can be read more than once. `table` is the table that the user chose, and `tables` returns a table by
    name, or raises `ConfigError`. `journal` is the journal of the run, if there is one. `model` is the answering model
    to which the results are limited. `distributions` contains the versions of the run's distributions, and `run` its
    id, if known. `rescored` is true if these results are not those in the journal. With `with_results`, table formats
    also store whole results for `read_export`. Call `warn` with a message about anything that the format cannot store.
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

    `name` is the value for `--format`. `suffixes` (with the dot, in lower case) select the format by the name of the
    output. `summary` is one line of help. `write` writes UTF-8 or binary data to an open file. Set `is_binary` if a
    terminal cannot show it, and `takes_table` if the user can choose a table. An existing output file is renamed if it
    starts with one of `first_bytes`; otherwise, the export is refused. `read` reads the results in a file written with
    `with_results`.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    write: Callable[[ExportRequest, BinaryIO], None]
    is_binary: bool = False
    takes_table: bool = False
    first_bytes: tuple[bytes, ...] = ANY_BYTES
    read: Callable[[Path], Iterable[VerificationResult]] | None = None


@hookspec
@HookPolicy(stability="provisional")
def karenina_exporters() -> Sequence[Exporter]:
    """Return formats for `karenina export`, selected by `--format` or by the suffix of the output.

    The built-in formats are provided in the same way.
    """
