"""Pages of rows of the dataset server of Hugging Face (`/rows` and `/first-rows`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from karenina_benchmark.tables.table_reader import find_classes, name_classes
from karenina_importing.source_row import SourceRow
from karenina_importing.texts import TRUNCATED


def is_page(value: Any) -> bool:
    """Return whether a JSON value is a page of rows."""
    return isinstance(value, Mapping) and all(isinstance(value.get(key), list) for key in ("features", "rows"))


def page_rows(page: Mapping[str, Any]) -> Iterator[SourceRow]:
    """Yield the rows of a page. Cells that the server has cut are marked, and numbers of classes become their names."""
    classes = _classes(page["features"])
    for number, row in enumerate(page["rows"]):
        if not isinstance(row, Mapping) or not isinstance(row.get("row"), Mapping):
            yield SourceRow(f"row {number}", {}, "the row is not an object with `row`")
            continue
        values = name_classes(row["row"], classes)
        cut = row.get("truncated_cells")
        values |= {str(key): TRUNCATED for key in (cut if isinstance(cut, list) else ())}
        yield SourceRow(f"row {row.get('row_idx', number)}", values)


def _classes(features: list[Any]) -> dict[str, list[Any]]:
    """Return the names of the classes of columns that hold the number of a class."""
    return find_classes({str(one.get("name")): one.get("type") for one in features if isinstance(one, Mapping)})
