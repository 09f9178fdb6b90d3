"""Export to Parquet, and its re-import."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from karenina_core.errors import ConfigError
from karenina_engine.results.result_set import parse_result
from karenina_engine.results.tables import LibraryMissing
from karenina_report.exports.exporter import Exporter
from karenina_report.exports.spreadsheets import RESULT_COLUMN, no_results

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.exports.exporter import ExportRequest


def _write(request: ExportRequest, file: BinaryIO) -> None:
    table = request.tables(request.table or "results")
    frame = table.to_arrow()  # reports a missing pyarrow
    from pyarrow import array, string
    from pyarrow.parquet import write_table

    if request.with_results and table.name == "results":
        texts = [result.model_dump_json() for result in request.results]
        frame = frame.append_column(RESULT_COLUMN, array(texts, type=string()))
    write_table(frame, file)


def _read(path: Path) -> Iterator[VerificationResult]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise LibraryMissing("pyarrow is not installed: pip install 'karenina-report[parquet]'") from error
    try:
        with ParquetFile(path) as file:
            if RESULT_COLUMN not in file.schema_arrow.names:
                raise ConfigError([no_results(path)])
            for batch in file.iter_batches(batch_size=1_000, columns=[RESULT_COLUMN]):
                for number, text in enumerate(batch.column(0).to_pylist(), 1):
                    yield parse_result(text, f"{path}, row {number}")
    except (OSError, ArrowException) as error:
        raise ConfigError([f"{path} cannot be read as Parquet: {error}"]) from error


PARQUET = Exporter(
    "parquet", "one table as Parquet", (".parquet",), _write, is_binary=True, takes_table=True, read=_read
)
