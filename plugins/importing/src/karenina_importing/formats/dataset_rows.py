"""Pages of rows of the dataset server of Hugging Face (`/rows` and `/first-rows`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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


def find_classes(types: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the names of the classes of columns that hold the number of a class, by the types of all columns."""
    return {
        name: kind["names"]
        for name, kind in types.items()
        if isinstance(kind, Mapping) and kind.get("_type") == "ClassLabel" and isinstance(kind.get("names"), list)
    }


def name_classes(values: Mapping[str, Any], classes: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the values of a row with the names of classes in place of their numbers."""
    return {key: _class_name(value, classes[key]) if key in classes else value for key, value in values.items()}


def _class_name(value: Any, names: list[Any]) -> Any:
    is_class = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return names[value] if is_class else value
