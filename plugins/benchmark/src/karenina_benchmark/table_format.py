"""A table as a benchmark: a question and its right answer in each row."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.question_import import FIELDS, make_questions
from karenina_benchmark.table_reader import Table, read_rows
from karenina_benchmark.template_declarations import make_row_template
from karenina_benchmark.yaml_writer import dump

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger("karenina")

COLUMNS: Final = ("question", "answer", "id", "keywords")
"""What columns can be mapped to: the question, its right answer, its id, and words to choose it by."""

_DESCRIPTION: Final = "The answer that the response gives, as a name, a number or a few words"
_ANSWER: Final = "answer"


def read_table(path: Path, columns: Mapping[str, str] | None = None) -> BenchmarkContent:
    """Return a benchmark named like the file, whose questions are the rows.

    Columns are named like the fields of a question, in upper or lower case; `columns` maps some of `COLUMNS` to others.
    The column `answer` (or `raw_answer`) holds the right answer: the judge's answer is compared with it by `ExactMatch`
    in rows without a template of their own. Raises `CheckpointError`.
    """
    table = read_rows(path)
    chosen = _chosen(table, columns or {})
    answers = chosen.get("raw_answer")

    def template(row: Mapping[str, Any]) -> str | None:
        own = row.get(chosen.get("answer_template", ""))
        if own is not None or answers is None or row[answers] is None:
            return own
        return make_row_template(_declared(answers), None, {answers: str(row[answers])})

    questions = make_questions(table, chosen, answer_template=template)
    benchmark = BenchmarkContent(path.stem or "benchmark")
    benchmark.named_by_path = True
    benchmark.add_questions(questions)
    benchmark.date_modified = None
    unused = [repr(column) for column in table.columns if column not in chosen.values()]
    if unused:
        logger.warning("%s: not used: the columns %s (--columns maps columns)", path.name, ", ".join(unused))
    if answers is None and "answer_template" not in chosen:
        logger.warning(
            "%s: no column is named 'answer', so that answers are compared with nothing (--columns answer=COLUMN)",
            path.name,
        )
    if answers is not None:
        benchmark.load_notice = (
            f"Answers are compared with the column {answers!r} of {path.name} by ExactMatch. Other comparisons, more "
            f"fields and traits are written in YAML:\n{_yaml(path, chosen['question'], answers)}"
        )
    return benchmark


def _chosen(table: Table, columns: Mapping[str, str]) -> dict[str, str]:
    for name, column in columns.items():
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, n=1)
            cure = f"did you mean {near[0]!r}?" if near else f"columns can be mapped to {', '.join(COLUMNS)}"
            raise CheckpointError(table.file, "", f"no column can be mapped to {name!r}", cure)
        if column not in table.columns:
            have = f"the file has {', '.join(table.columns)}"
            raise CheckpointError(table.file, "", f"there is no column {column!r}", have)
    by_name = {column.lower(): column for column in reversed(table.columns)}
    found = {name: by_name[name] for name in FIELDS if name in by_name}
    if "raw_answer" not in found and _ANSWER in by_name:
        found["raw_answer"] = by_name[_ANSWER]
    found |= {"raw_answer" if name == _ANSWER else name: column for name, column in columns.items()}
    if "question" not in found:
        example = _yaml(table.file, table.columns[0], table.columns[min(1, len(table.columns) - 1)])
        raise CheckpointError(
            table.file,
            "",
            "no column is named 'question'",
            f"the file has {', '.join(table.columns)}: name them with --columns question=COLUMN,answer=COLUMN, or, for "
            f"other comparisons than ExactMatch, in a YAML file:\n{example}",
        )
    return found


def _declared(column: str) -> dict[str, Any]:
    return {_ANSWER: {"type": "str", "description": _DESCRIPTION, "ground_truth": {"column": column}}}


def _yaml(path: Path, question: str, answer: str) -> str:
    """Return a YAML file that reads the same table, as an example."""
    fields = {**_declared(answer)[_ANSWER], "verify_with": "ExactMatch"}
    source = {"file": path.name, "columns": {"question": question, "raw_answer": answer}, "answer": {_ANSWER: fields}}
    return dump({"karenina": 1, "name": path.stem, "questions_from": [source]})
