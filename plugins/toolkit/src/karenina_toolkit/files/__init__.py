"""Reading and replacing files.

`read_records` reads the rows of CSV, Excel, Parquet, JSON lines and JSON files within size limits. It keeps track of
each row's location for use in messages. `replace_file` writes atomically.
"""

from karenina_toolkit.files.bounded_files import FileError
from karenina_toolkit.files.json_values import iter_rows, parse_json, read_json, suggest_rows
from karenina_toolkit.files.libraries import plain_cell
from karenina_toolkit.files.records import LINES, SUFFIXES, TABLES, Records, read_records
from karenina_toolkit.files.replacing import replace_file, sync_folder
from karenina_toolkit.files.tables import Record, find_column, is_unnamed
from karenina_toolkit.files.texts import AUTO, recognize_encoding

__all__ = [
    "AUTO",
    "LINES",
    "SUFFIXES",
    "TABLES",
    "FileError",
    "Record",
    "Records",
    "find_column",
    "is_unnamed",
    "iter_rows",
    "parse_json",
    "plain_cell",
    "read_json",
    "read_records",
    "recognize_encoding",
    "replace_file",
    "suggest_rows",
    "sync_folder",
]
