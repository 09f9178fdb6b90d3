"""Imports questions and recorded answers from other evaluation tools.

Plugins add formats by returning an `ImportFormat` from the hook `karenina_formats` of karenina-benchmark. Names are
imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_toolkit.lazy_names import lazy_names

if TYPE_CHECKING:
    from karenina_importing.conversion import Imported, RowProblem, convert
    from karenina_importing.field_mapping import FieldMapping
    from karenina_importing.import_format import Fit, ImportFormat, make_import_format
    from karenina_importing.source_files import FileHead, SourceRow, read_lines

__all__ = [
    "FieldMapping",
    "FileHead",
    "Fit",
    "ImportFormat",
    "Imported",
    "RowProblem",
    "SourceRow",
    "convert",
    "make_import_format",
    "read_lines",
]


__getattr__ = lazy_names(
    __name__,
    {
        "FieldMapping": ".field_mapping",
        "FileHead": ".source_files",
        "Fit": ".import_format",
        "ImportFormat": ".import_format",
        "Imported": ".conversion",
        "RowProblem": ".conversion",
        "SourceRow": ".source_files",
        "convert": ".conversion",
        "make_import_format": ".import_format",
        "read_lines": ".source_files",
    },
)
