"""Hugging Face datasets and other tables: Parquet, dataset server pages, JSON and JSON lines, YAML, CSV and Excel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError, read_text
from karenina_benchmark.tables.column_roles import CHOICES, CONTEXT, NAMES, QUESTION, RESPONSE, TRUTH, choose_roles
from karenina_benchmark.tables.question_rows import ALIASES, QuestionRows, make_question_rows, name_columns, names_in
from karenina_benchmark.tables.table_answers import find_unused_types
from karenina_benchmark.tables.table_reader import Row, find_classes, find_header_problem, name_classes, open_rows
from karenina_benchmark.yaml_files import read as read_yaml
from karenina_core.errors import ConfigError
from karenina_importing.field_mapping import TRUNCATED, FieldMapping
from karenina_importing.formats.promptfoo.files import YAML
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, head_of, read_json
from karenina_toolkit.files import LINES, TABLES, suggest_rows
from karenina_toolkit.traces.recorded_ends import END_KEYS

_PARQUET: Final = b"PAR1"
_LOOKED_AT: Final = 1000
"""The number of rows that are compared with the header."""
_RAW_ANSWER: Final = "raw_answer"


def is_page(value: Any) -> bool:
    """Return whether a JSON value is a page of rows from the dataset server."""
    return isinstance(value, Mapping) and all(isinstance(value.get(key), list) for key in ("features", "rows"))


def page_rows(page: Mapping[str, Any]) -> Iterator[SourceRow]:
    """Yield the rows of a page from the dataset server. Cells that it has cut are `TRUNCATED`, class numbers become
    class names, and a row that is not an object has a `problem`.
    """
    classes = _classes(page["features"])
    for number, row in enumerate(page["rows"]):
        if not isinstance(row, Mapping) or not isinstance(row.get("row"), Mapping):
            yield SourceRow(f"row {number}", {}, "the row is not an object with a `row` key")
            continue
        values = name_classes(row["row"], classes)
        cut = row.get("truncated_cells")
        values |= {str(key): TRUNCATED for key in (cut if isinstance(cut, list) else ())}
        yield SourceRow(f"row {row.get('row_idx', number)}", values)


def _classes(features: list[Any]) -> dict[str, list[Any]]:
    """Return the class names for each column that contains class numbers."""
    return find_classes(
        {str(feature.get("name")): feature.get("type") for feature in features if isinstance(feature, Mapping)}
    )


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` for a page of the dataset server, `Fit.MAYBE` for any other table of rows, else `Fit.NO`."""
    if is_page(head.document):
        return Fit.YES
    if head.start.startswith(_PARQUET) or head.path.suffix.lower() in TABLES:
        return Fit.MAYBE
    if head.path.suffix.lower() in YAML:
        document = _read_yaml(head.path)
        rows = isinstance(document, list) and bool(document) and all(isinstance(row, Mapping) for row in document)
        return Fit.MAYBE if rows or (isinstance(document, Mapping) and suggest_rows(document)) else Fit.NO
    if isinstance(head.document, Mapping) and len(head.lines) < 2 and suggest_rows(head.document):
        return Fit.MAYBE
    document = head.document
    is_list = isinstance(document, list) and bool(document) and all(isinstance(row, Mapping) for row in document)
    is_named = document is None or len(head.lines) > 1 or head.path.suffix.lower() in LINES
    is_lines = is_named and bool(head.lines) and all(isinstance(line, Mapping) for line in head.lines)
    return Fit.MAYBE if is_list or is_lines else Fit.NO


def _read_yaml(path: Path) -> Any:
    """Return the content of a YAML file, or None if it cannot be read."""
    try:
        return read_yaml(read_text(path), path).value
    except BenchmarkFileError:
        return None


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file. All reading options are detected."""
    yield from _rows_at(path, None, None, None)


def _rows_at(path: Path, rows: str | None, encoding: str | None, sheet: str | None) -> Iterator[SourceRow]:
    """Yield the rows of a file: the rows at the path `rows` in JSON, or the rows in a sheet of a workbook. Arguments
    that are None are detected, empty rows in tables are skipped, and rows that are too short have a problem. Raises
    `BenchmarkFileError` if the file cannot be read or has no header.
    """
    suffix = path.suffix.lower() if path.suffix.lower() in YAML else ".json" if rows is not None else ""
    suffix = suffix or (_suffix_of(head_of(path)) if encoding is None else path.suffix)
    if suffix == ".json" and rows is None and encoding is None and is_page(document := read_json(path)):
        yield from page_rows(document)
        return
    opened = open_rows(
        path,
        suffix=suffix,
        rows=rows,
        encoding=encoding,
        sheet=sheet,
        keep_problems=True,
        package="karenina-importing",
    )
    first = list(islice(opened, _LOOKED_AT))
    problem = find_header_problem(opened.columns, first) if opened.columns and suffix in TABLES else None
    if problem is not None:
        raise BenchmarkFileError(path, "", *problem)
    notes = (*opened.notes, *opened.warnings)
    for row in chain(first, opened):
        if not row.problem and all(cell in (None, "") for cell in row.values.values()) and suffix in TABLES:
            continue
        short = "the row has fewer cells than the header" if row.is_short and suffix != ".xlsx" else ""
        yield SourceRow(row.where(), row.values, row.problem or short, notes=notes)


def _suffix_of(head: FileHead) -> str:
    """Return the suffix under which to read a file: that of its name if it is a table's, or else one that fits its
    contents. Parquet is always recognized by its contents.
    """
    suffix = head.path.suffix.lower()
    if head.start.startswith(_PARQUET):
        return ".parquet"
    if suffix in TABLES:
        return suffix
    document = head.document
    is_document = (
        isinstance(document, list)
        or is_page(document)
        or (isinstance(document, Mapping) and bool(suggest_rows(document)))
    )
    return ".json" if suffix not in LINES and is_document else ".jsonl"


def _choose(rows: Sequence[SourceRow], mapping: FieldMapping) -> tuple[FieldMapping, list[str]]:
    """Return a mapping completed with a table's columns, or unchanged without a question column, and notes for the
    user. Names that are already mapped, or mapped to an empty path, are not changed. Raises `ConfigError` if the
    correct options of multiple-choice questions cannot be found.
    """
    values = [row.values for row in rows if not row.problem]
    columns = list(dict.fromkeys(str(name) for value in values for name in value))
    mapped = {name: paths[0] for name, paths in mapping.paths.items() if paths}
    chosen = {(TRUTH if name == _RAW_ANSWER else name): path for name, path in mapped.items() if name != "error"}
    roles = choose_roles(columns, values, chosen, taken=names_in(" ".join(mapped.values())))
    if QUESTION not in roles.columns:
        return mapping, []
    read = [Row(number, row.values, row.place) for number, row in enumerate(rows, 1) if not row.problem]
    table = make_question_rows(read, roles, choice_by=mapping.choice_by, option="--map")
    if table.problem:
        raise ConfigError([f"{table.problem}; {table.cure}"])
    default_paths = _paths(table, values)
    removed = {name for name, paths in mapping.paths.items() if not paths}
    paths = {**{name: path for name, path in default_paths.items() if name not in removed}, **mapping.paths}
    by = mapping.choice_by or (table.choice_by if table.choice_by in ("index", "number") else None)
    notes = [*table.notes, *table.warnings]
    end = next((column for column in table.unused if column in END_KEYS and RESPONSE in roles.columns), None)
    if end is not None:
        paths.setdefault("finish_reason", (end,))
        table.unused.remove(end)
    unused = [part for column in table.unused for part in _unused_parts(column, mapped.values(), values)]
    notes += [f"not used: {name_columns(unused)}"] if unused else []
    for column in find_unused_types(unused, values):
        hint = "" if column.casefold() == "type" else ", in which this column must be called 'type'"
        notes.append(
            f"warning: the column {column!r} contains types of answers, which an import does not use; use --map "
            f"answer=TYPE if all are the same, or the table itself as a benchmark (karenina check FILE){hint}"
        )
    name, _, key = ".".join(default_paths.get(_RAW_ANSWER, ())).partition(".")
    if (
        key
        and key != "aliases"
        and any(isinstance(part := value.get(name), Mapping) and part.get("aliases") for value in values)
    ):
        notes.append(
            f"not used: '{name}.aliases', which some rows lack; to use it, add --map raw_answer={name}.aliases"
        )
    completed = replace(mapping, paths=paths)
    return replace(completed, choice_by="text" if completed.mixes_options else by), notes


def _unused_parts(column: str, paths: Iterable[str], values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the parts of a column's objects, such as `column.key`, that no path uses, or the column itself if no path
    leads into it.
    """
    used = [path for path in paths if path.startswith(f"{column}.")]
    if not used:
        return [column]
    keys = dict.fromkeys(key for value in values if isinstance(value.get(column), Mapping) for key in value[column])
    parts = [f"{column}.{key}" for key in keys]
    return [part for part in parts if not any(path == part or path.startswith(f"{part}.") for path in used)]


def _paths(table: QuestionRows, values: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the path of each name that a column of the table gives, from the roles of the columns. If all correct
    answers in `values` are objects that have the same key for answers, such as aliases, the path includes this key.
    """
    roles = table.roles
    question = roles.columns[QUESTION]
    paths: dict[str, tuple[str, ...]] = {}
    paths |= {name: (roles.columns[name],) for name in NAMES if name in roles.columns and name not in (CONTEXT, TRUTH)}
    if table.joined:
        paths[QUESTION] = (f"{{{roles.columns[CONTEXT]}}}\n\n{{{question}}}", question)
    if roles.options:
        paths[CHOICES] = ("|".join(roles.options.values()),)
    if TRUTH in roles.columns:
        truth = roles.columns[TRUTH]
        objects = [value[truth] for value in values if value.get(truth)]
        objects = [part for item in objects for part in (item if isinstance(item, list) else [item])]
        keys = [
            key for key in ALIASES if objects and all(isinstance(item, Mapping) and key in item for item in objects)
        ]
        if "aliases" in keys and not all(item["aliases"] for item in objects):
            keys = [*(key for key in keys if key != "aliases"), "aliases"]  # some answers have no aliases
        paths[_RAW_ANSWER] = (f"{truth}.{keys[0]}" if keys else truth,)
    return paths


HUGGINGFACE: Final = make_import_format(
    "huggingface",
    "a table, or a Hugging Face dataset",
    _detect,
    _rows,
    FieldMapping({}),
    rows_at=_rows_at,
    choose=_choose,
)
"""Hugging Face datasets, and other tables."""
