"""Imports the rows of a table as questions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from karenina_benchmark.content import split_keywords
from karenina_benchmark.document import Document, Place, Section
from karenina_benchmark.errors import BenchmarkFileError, Problems, explain_error, suggest_key
from karenina_benchmark.question_ids import identify_text, make_question_id
from karenina_benchmark.tables.table_reader import Row, Table
from karenina_benchmark.template_declarations import DeclarationError, make_row_template
from karenina_core.catalog import read_catalog
from karenina_core.data.question import Question
from karenina_core.namespaces import third_parties
from karenina_core.text import compose
from karenina_toolkit.attachments.media_types import SUFFIXES

if TYPE_CHECKING:
    from karenina_core.data.rubrics import Rubric


FIELDS = (
    "question",
    "raw_answer",
    "id",
    "keywords",
    "answer_template",
    "author",
    "sources",
    "workspace_path",
    "attachments",
)
"""The question fields that can be read from a column. `metadata` takes a list of columns."""


class AddedQuestions(Protocol):
    """A collection to which the questions of a table are added."""

    def add(self, place: Section, question: Question) -> None:
        """Add a question with its place in the table. The question's id must be new."""

    def where(self, question_id: str) -> str | None:
        """Describe the place of an added question, or return None if there is no question with this id."""


class _Questions(dict[str, tuple[Section, Question]]):
    """Questions with their places, keyed by id."""

    def add(self, place: Section, question: Question) -> None:
        """Add a question with its place in the table."""
        self[question.id] = (place, question)

    def where(self, question_id: str) -> str | None:
        """Describe the place of a question, or return None if there is no question with this id."""
        return self[question_id][0].where() if question_id in self else None


def read_questions(
    table: Table,
    columns: Mapping[str, Any] | None = None,
    *,
    separator: str | None = None,
    answer: Mapping[str, Any] | None = None,
    strategy: Any = None,
    answer_template: str | type[Any] | Callable[[Mapping[str, Any]], str | None] | None = None,
    rows: Iterable[Row] | None = None,
    row_template: Callable[[Row], str | None] | None = None,
    checked: bool = False,
    rubric: Rubric | None = None,
    first: int = 1,
    store: AddedQuestions | None = None,
    problems: Problems | None = None,
) -> dict[str, tuple[Section, Question]]:
    """Return the questions in the rows of a table by id, each with its place, and with a template from `row_template`,
    `answer` or `answer_template`. If a `store` is given, they are added to it, and the result is empty. Raises a single
    `BenchmarkFileError` that contains the errors in all rows; if `problems` is given, they are added to it instead, and
    only errors in the other arguments are raised.

    `columns` maps fields (`FIELDS`) to columns, and `metadata` to a list of columns. By default, columns that are named
    like a field are used, including plugin fields. If `checked` is set, `columns` is not checked again. `keywords` is a
    list, or a string that is split at `separator` (by default, at semicolons or commas).

    The template of each row comes from `answer` or `answer_template`. `answer` contains declarations, in which
    `{"column": name}` is replaced by the row's value, and `strategy` combines them. `answer_template` is the source or
    class for all rows, or a function that returns the source for a row's values. If `row_template` is given, it returns
    the source for a row and replaces both. `rows` replaces the table's own rows. Every question gets the `rubric`. If a
    row has no id, it is made from the position (counted from `first`) and the first words.

    Errors in rows, such as a missing column, an empty question, or a duplicate id, state their lines.
    """
    if answer is not None and (answer_template is not None or (columns or {}).get("answer_template")):
        raise BenchmarkFileError(table.file, "", "both `answer` and a template were given", "keep only one of them")
    chosen, metadata_columns = _choose_columns(table, columns) if not checked else (dict(columns or {}), [])
    read = _Questions()
    questions = store if store is not None else read
    texts: dict[str, str] = {}

    def add_row(position: int, row: Row) -> None:
        """Add the question in a row. Raises `BenchmarkFileError` if it is invalid or repeats another question or id."""
        values: dict[str, Any] = {name: row.values.get(column) for name, column in chosen.items()}
        where = row.where()
        if values["question"] is None or not str(values["question"]).strip():
            raise BenchmarkFileError(
                table.file,
                where,
                f"the column {chosen['question']!r} is empty",
                "; ".join(["write a question there, or delete the row; nothing was imported", *table.warnings]),
            )
        extra = {name: values.pop(name) for name in list(values) if name not in FIELDS}
        try:
            fields = _convert_fields(values, separator)
        except ValueError as error:
            raise BenchmarkFileError(table.file, where, str(error), "write a.png; b.png") from error
        if not fields["id"]:
            fields["id"] = make_question_id(position, fields["question"])
            other = texts.setdefault(identify_text(fields["question"], fields.get("attachments", ())), where)
            if other != where:
                cure = "delete one of them, or map `id` to a column with unique values; nothing was imported"
                raise BenchmarkFileError(table.file, where, f"the question in {other} has the same text", cure)
        try:
            question = Question.model_validate(
                {
                    **fields,
                    **(
                        {"answer_template": row_template(row)}
                        if row_template is not None
                        else _make_template(row, answer, strategy, answer_template)
                    ),
                    "extra": {name: value for name, value in extra.items() if value is not None},
                    "metadata": {column: row.values.get(column) for column in metadata_columns},
                    "rubric": rubric,
                }
            )
        except KeyError as error:
            raise missing_column(table, str(error.args[0]), where) from error
        except DeclarationError as error:
            raise BenchmarkFileError(table.file, where, error.what, error.cure) from error
        except ValueError as error:
            raise BenchmarkFileError(table.file, where, explain_error(error), "nothing was imported") from error
        same = question.id if question.id.isascii() else written.setdefault(compose(question.id), question.id)
        other_place = questions.where(same)
        if other_place is not None:
            raise BenchmarkFileError(
                table.file,
                where,
                f"the question in {other_place} has the same id {question.id!r}",
                "map `id` to a column with unique values; nothing was imported",
            )
        lines: dict[Place, int] = {(): row.line} if where == f"line {row.line}" else {}
        place = Section(Document(table.file, row.values, lines, {}, place=where), (), row.values)
        questions.add(place, question)

    written: dict[str, str] = {}
    errors = Problems() if problems is None else problems
    for position, row in enumerate(table.rows if rows is None else rows, first):
        errors.attempt(add_row, position, row)
    if problems is None:
        errors.raise_all()
    return read


def _choose_columns(table: Table, columns: Mapping[str, Any] | None) -> tuple[dict[str, str], list[str]]:
    """Return the column for each field, by default all columns that are named like a field, and the metadata columns.
    Raises `BenchmarkFileError` if a field or column does not exist, or if no column is mapped to `question`.
    """
    if columns is None:
        columns = {name: name for name in table.columns if name in FIELDS or is_plugin_column(name)}
    chosen = dict(columns)
    metadata = chosen.pop("metadata", None) or []
    metadata = [metadata] if isinstance(metadata, str) else list(metadata)
    for name in chosen:
        if name not in FIELDS and not is_question_field(name):
            known = [*FIELDS, *read_catalog()["question_fields"]]
            cure = suggest_key(name, known, f"the fields are {', '.join(known)} and metadata")
            raise BenchmarkFileError(table.file, "", f"`columns` contains the unknown field {name!r}", cure)
    if "question" not in chosen:
        raise BenchmarkFileError(
            table.file,
            "",
            "no column is mapped to `question`",
            f'pass columns={{"question": ...}}; the file has the columns {", ".join(table.columns)}',
        )
    for column in [*chosen.values(), *metadata]:
        if column not in table.columns:
            raise missing_column(table, column, "")
    return chosen, metadata


def is_question_field(name: str) -> bool:
    """Return whether a column is named like a question field of an installed plugin."""
    return name in read_catalog()["question_fields"] or ("." in name and name.partition(".")[0] in third_parties())


def is_plugin_column(name: str) -> bool:
    """Return whether a column's name alone shows that it is a plugin's question field. Names without a package, such as
    `turns`, are used for other things in tables, so they have to be mapped explicitly.
    """
    return "." in name and is_question_field(name)


def missing_column(table: Table, column: object, where: str = "") -> BenchmarkFileError:
    """Return the error for a column that the table does not have."""
    cure = f"use one of its columns: {', '.join(table.columns)}"
    return BenchmarkFileError(table.file, where, f"the file has no column {column!r}", cure)


_ENDS_IN_SUFFIX: Final = re.compile(rf"(?:{'|'.join(map(re.escape, SUFFIXES))})\s*\Z", re.IGNORECASE)


def _convert_fields(values: dict[str, Any], separator: str | None) -> dict[str, Any]:
    """Convert the cells of a row to a question's fields, changing and returning `values`: numbers become strings, lists
    and objects become JSON, and keywords and attachments are split. Raises `ValueError` if attachments have another
    separator than `;`.
    """
    for name in ("question", "raw_answer", "id", "workspace_path"):
        value = values.get(name)
        if isinstance(value, list | Mapping):
            values[name] = json.dumps(value, ensure_ascii=False)
        elif value is not None:
            values[name] = str(value)
    files = values.pop("attachments", None)
    if isinstance(files, str):
        parts = re.split(r"[,\n]", files)
        if files.lstrip().startswith("[") or len([part for part in parts if _ENDS_IN_SUFFIX.search(part)]) > 1:
            raise ValueError(f"attachments: the paths must be separated by `;`, not as in {files!r:.200}")
        files = [file for part in files.split(";") if (file := part.strip())]
    if files:
        values["attachments"] = files if isinstance(files, list) else [files]
    keywords = values.pop("keywords", None)
    if isinstance(keywords, str):
        keywords = [*split_keywords([keywords], separator)]
    values["keywords"] = [] if keywords is None else keywords
    values["id"] = values.get("id") or ""
    return values


def _make_template(
    row: Row,
    answer: Mapping[str, Any] | None,
    strategy: Any,
    answer_template: str | type[Any] | Callable[[Mapping[str, Any]], str | None] | None,
) -> dict[str, Any]:
    """Return a dict with the row's `answer_template`, made from `answer` or else from `answer_template`, or an empty
    dict if both are None. Raises `DeclarationError` for an invalid declaration, and `KeyError` for a column that the
    row does not have.
    """
    if answer is not None:
        return {"answer_template": make_row_template(answer, strategy, row.values)}
    if answer_template is None:
        return {}
    if isinstance(answer_template, str | type):
        return {"answer_template": answer_template}
    return {"answer_template": answer_template(row.values)}
