"""Make questions of the rows of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_benchmark.errors import CheckpointError, explain
from karenina_benchmark.keywords import split_keywords
from karenina_benchmark.question_ids import make_question_id
from karenina_benchmark.table_reader import Row, Table, read_rows
from karenina_benchmark.template_declarations import DeclarationError, make_row_template
from karenina_core.data.question import Question

if TYPE_CHECKING:
    from karenina_core.data.rubrics import Rubric

FIELDS = ("question", "raw_answer", "id", "keywords", "answer_template", "author", "sources", "workspace_path")
"""Fields of a question that may come from a column; `metadata` besides takes a list of columns."""


def read_questions(
    path: str | Path,
    columns: Mapping[str, Any] | None = None,
    *,
    sheet: str | None = None,
    separator: str | None = None,
    answer: Mapping[str, Any] | None = None,
    strategy: Any = None,
    answer_template: str | type[Any] | Callable[[Mapping[str, Any]], str | None] | None = None,
    rubric: Rubric | None = None,
    first: int = 1,
) -> list[Question]:
    """The rows of a file as questions, all of them or an error.

    `columns` maps fields (`FIELDS`) to columns, and `metadata` to a list of columns; without it, the columns that are
    named like fields are taken. `keywords` is a list, or a text that `separator` divides, or semicolons or commas
    without it. The template of each row is `answer` (declarations in which `{"column": name}` stands for the row's
    value, with `strategy`), or `answer_template`: source or a class for all rows, or a function from a row's values to
    source. A row without an id is named by its place and its first words; the first row has the place `first`.
    Raises `CheckpointError` naming the row: a missing column, an empty question, an id that two rows have.
    """
    return make_questions(
        read_rows(path, sheet),
        columns,
        separator=separator,
        answer=answer,
        strategy=strategy,
        answer_template=answer_template,
        rubric=rubric,
        first=first,
    )


def make_questions(
    table: Table,
    columns: Mapping[str, Any] | None = None,
    *,
    separator: str | None = None,
    answer: Mapping[str, Any] | None = None,
    strategy: Any = None,
    answer_template: str | type[Any] | Callable[[Mapping[str, Any]], str | None] | None = None,
    rubric: Rubric | None = None,
    first: int = 1,
) -> list[Question]:
    """Return the rows of a table as questions: see `read_questions`."""
    if answer is not None and (answer_template is not None or (columns or {}).get("answer_template")):
        raise CheckpointError(table.file, "", "both `answer` and a template are given", "give one of the two")
    chosen, kept = _chosen(table, columns)
    questions: dict[str, tuple[int, Question]] = {}
    texts: dict[str, int] = {}
    for place, row in enumerate(table.rows, first):
        values: dict[str, Any] = {name: row.values.get(column) for name, column in chosen.items()}
        where = f"line {row.line}"
        if values["question"] is None or not str(values["question"]).strip():
            raise CheckpointError(
                table.file,
                where,
                f"the column {chosen['question']!r} is empty",
                "write a question; nothing was imported",
            )
        fields = _fields(values, separator)
        if not fields["id"]:
            fields["id"] = make_question_id(place, fields["question"])
            line = texts.setdefault(fields["question"], row.line)
            if line != row.line:
                cure = "delete one of them, or map `id` to a column that tells them apart; nothing was imported"
                raise CheckpointError(table.file, where, f"the question of line {line} has the same text", cure)
        try:
            question = Question.model_validate(
                {
                    **fields,
                    **_template(row, answer, strategy, answer_template),
                    "metadata": {column: row.values.get(column) for column in kept},
                    "rubric": rubric,
                }
            )
        except KeyError as error:
            raise _no_column(table, str(error.args[0]), where) from error
        except DeclarationError as error:
            raise CheckpointError(table.file, where, error.what, error.cure) from error
        except ValueError as error:
            raise CheckpointError(table.file, where, explain(error), "nothing was imported") from error
        if question.id in questions:
            raise CheckpointError(
                table.file,
                where,
                f"the question of line {questions[question.id][0]} has the same id {question.id!r}",
                "map `id` to a column that tells the rows apart; nothing was imported",
            )
        questions[question.id] = (row.line, question)
    return [question for _, question in questions.values()]


def _chosen(table: Table, columns: Mapping[str, Any] | None) -> tuple[dict[str, str], list[str]]:
    if columns is None:
        columns = {name: name for name in FIELDS if name in table.columns}
    wanted = dict(columns)
    kept = wanted.pop("metadata", None) or []
    kept = [kept] if isinstance(kept, str) else list(kept)
    for name in wanted:
        if name not in FIELDS:
            near = get_close_matches(name, FIELDS, n=1)
            cure = f"did you mean {near[0]!r}?" if near else f"the fields are {', '.join(FIELDS)} and metadata"
            raise CheckpointError(table.file, "", f"columns names the field {name!r}, which is none", cure)
    if "question" not in wanted:
        raise CheckpointError(
            table.file,
            "",
            "no column is mapped to `question`",
            f'give columns={{"question": ...}}; the file has {", ".join(table.columns)}',
        )
    for column in [*wanted.values(), *kept]:
        if column not in table.columns:
            raise _no_column(table, column, "")
    return wanted, kept


def _no_column(table: Table, column: object, where: str) -> CheckpointError:
    return CheckpointError(
        table.file, where, f"there is no column {column!r}", f"the file has {', '.join(table.columns)}"
    )


def _fields(values: dict[str, Any], separator: str | None) -> dict[str, Any]:
    for name in ("question", "raw_answer", "id", "workspace_path"):
        value = values.get(name)
        if isinstance(value, list | Mapping):
            values[name] = json.dumps(value, ensure_ascii=False)
        elif value is not None:
            values[name] = str(value)
    keywords = values.pop("keywords", None)
    if isinstance(keywords, str):
        keywords = [*split_keywords([keywords], separator)]
    values["keywords"] = [] if keywords is None else keywords
    values["id"] = values.get("id") or ""
    return values


def _template(
    row: Row,
    answer: Mapping[str, Any] | None,
    strategy: Any,
    answer_template: str | type[Any] | Callable[[Mapping[str, Any]], str | None] | None,
) -> dict[str, Any]:
    if answer is not None:
        return {"answer_template": make_row_template(answer, strategy, row.values)}
    if answer_template is None:
        return {}
    if isinstance(answer_template, str | type):
        return {"answer_template": answer_template}
    return {"answer_template": answer_template(row.values)}
