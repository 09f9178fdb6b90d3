"""The table format of benchmarks: each row has a question and its right answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.question_import import FIELDS, is_question_field, missing_column, read_questions
from karenina_benchmark.table_reader import Table, read_rows
from karenina_benchmark.template_declarations import make_row_template
from karenina_benchmark.unknown_keys import suggest_key
from karenina_benchmark.yaml_writer import dump

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.data.question import Question

COLUMNS: Final = ("question", "answer", "id", "keywords")
"""The names that columns can be mapped to."""

_DESCRIPTION: Final = "The answer that the response gives, as a name, a number or a few words"
_ANSWER: Final = "answer"


def read_table(path: Path, columns: Mapping[str, str] | None = None) -> BenchmarkContent:
    """Read a benchmark, named after the file, with one question per row.

    Columns have the names of a question's fields, in upper or lower case; `columns` maps some of `COLUMNS` to other
    columns. The column `answer` (or `raw_answer`) holds the right answer: unless a row has its own template, the
    extracted answer is compared with it by `ExactMatch`. Raises `CheckpointError`.
    """
    table = read_rows(path)
    chosen = _choose_columns(table, columns or {})
    answers = chosen.get("raw_answer")

    def make_template(row: Mapping[str, Any]) -> str | None:
        own = row.get(chosen.get("answer_template", ""))
        if own is not None or answers is None or row[answers] is None:
            return own
        return make_row_template(_declare_answer(answers), None, {answers: str(row[answers])})

    questions = read_questions(table, chosen, answer_template=make_template)
    benchmark = BenchmarkContent.of_questions(path, (question for _, question in questions.values()))
    benchmark.origins = {id: origin for id, (origin, _) in questions.items()}
    unused = [repr(column) for column in table.columns if column not in chosen.values()]
    if answers is None and "answer_template" not in chosen:
        benchmark.missing_answers = _describe_missing_answers(table, chosen.values())
    elif unused:
        benchmark.load_warnings.append(f"unused columns: {', '.join(unused)}; map them with --columns")
    if answers is not None:
        benchmark.load_notice = (
            f"Answers are compared with the column {answers!r} of {path.name} by ExactMatch. For other comparisons, "
            f"more fields and traits, write a YAML file:\n{_make_example(path, chosen['question'], answers)}"
        )
    return benchmark


def has_default_template(question: Question) -> bool:
    """Return whether the template of a question is the one that a table's answer gets if its row has no other."""
    if question.answer_template is None or question.raw_answer is None:
        return False
    return question.answer_template == make_row_template(_declare_answer(_ANSWER), None, {_ANSWER: question.raw_answer})


def _choose_columns(table: Table, columns: Mapping[str, str]) -> dict[str, str]:
    for name, column in columns.items():
        if name not in COLUMNS and not is_question_field(name):
            cure = suggest_key(name, COLUMNS, f"columns can be mapped to {', '.join(COLUMNS)}")
            raise CheckpointError(table.file, "", f"no column can be mapped to {name!r}", cure)
        if column not in table.columns:
            raise missing_column(table, column)
    by_name = {column.lower(): column for column in reversed(table.columns)}
    found = {name: by_name[name] for name in FIELDS if name in by_name}
    found |= {column: column for column in table.columns if is_question_field(column)}
    if "raw_answer" not in found and _ANSWER in by_name:
        found["raw_answer"] = by_name[_ANSWER]
    found |= {"raw_answer" if name == _ANSWER else name: column for name, column in columns.items()}
    if "question" not in found:
        example = _make_example(table.file, table.columns[0], table.columns[min(1, len(table.columns) - 1)])
        raise CheckpointError(
            table.file,
            "",
            "no column is named 'question'",
            f"the file has the columns {', '.join(table.columns)}; name them with --columns question=COLUMN,"
            f"answer=COLUMN, or, for other comparisons than ExactMatch, in a YAML file:\n{example}",
        )
    return found


def _describe_missing_answers(table: Table, used: Collection[str]) -> str:
    """Return what a table without answers and templates lacks, with the cure."""
    unused = [column for column in table.columns if column not in used]
    cure = "add a column with the right answers"
    if unused:
        column = quote(f"answer={unused[0]}")
        others = f" (other unused columns: {', '.join(map(repr, unused[1:]))})" if len(unused) > 1 else ""
        cure = f"if {unused[0]!r} holds the right answers, add --columns {column}{others}"
    return (
        f"{table.file.name} has no column 'answer', so no answer can be judged: {cure}; to score traits only, add "
        "--set evaluation_mode=rubric_only"
    )


def _declare_answer(column: str) -> dict[str, Any]:
    return {_ANSWER: {"type": "str", "description": _DESCRIPTION, "ground_truth": {"column": column}}}


def _make_example(path: Path, question: str, answer: str) -> str:
    """Return a YAML benchmark that imports the same table."""
    fields = {**_declare_answer(answer)[_ANSWER], "verify_with": "ExactMatch"}
    source = {"file": path.name, "columns": {"question": question, "raw_answer": answer}, "answer": {_ANSWER: fields}}
    return dump({"karenina": 1, "name": path.stem, "questions_from": [source]})
