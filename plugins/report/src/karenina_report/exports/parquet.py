"""Export to Parquet, and its re-import."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from karenina_report.exports.exporter import Exporter
from karenina_report.exports.spreadsheets import RESULT_COLUMN, read_result_column

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
    return read_result_column(path, "Parquet")


PARQUET = Exporter(
    "parquet", "one table as Parquet", (".parquet",), _write, is_binary=True, takes_table=True, read=_read
)
