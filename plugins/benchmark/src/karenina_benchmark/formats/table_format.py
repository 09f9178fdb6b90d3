"""The table format, in which each row contains a question and its correct answer."""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.errors import BenchmarkFileError, Problems, suggest_key
from karenina_benchmark.formats.stored_questions import LARGE, StoredQuestions
from karenina_benchmark.question_import import (
    FIELDS,
    is_plugin_column,
    is_question_field,
    missing_column,
    read_questions,
)
from karenina_benchmark.tables.column_roles import (
    CHOICES,
    CONTEXT,
    FIELD_COLUMN,
    ID,
    KEYWORDS,
    MODEL,
    QUESTION,
    RESPONSE,
    TRUTH,
    choose_roles,
    fold_name,
)
from karenina_benchmark.tables.declare_answers import TEXT_ANSWER, WrongTypeError
from karenina_benchmark.tables.lettered_options import CHOICE_BY
from karenina_benchmark.tables.question_rows import (
    QuestionRow,
    cell_text,
    first_part,
    make_question_rows,
    name_columns,
    names_in,
)
from karenina_benchmark.tables.table_answers import RowTemplates, declare_rows
from karenina_benchmark.tables.table_reader import Row, Table, find_header_problem, read_rows
from karenina_benchmark.template_declarations import make_row_template
from karenina_benchmark.yaml_files import dump
from karenina_core.catalog import read_catalog
from karenina_toolkit.files import TABLES, find_column
from karenina_toolkit.printable import shorten

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.tables.column_roles import Roles

COLUMNS: Final = (QUESTION, TRUTH, ID, KEYWORDS, CONTEXT, CHOICES, RESPONSE, MODEL)
"""The names that columns can be mapped to."""
READING: Final = ("rows", "encoding", "sheet", "choice_by", "exact")
"""Options for reading the file that `columns` may contain. The value of `choice_by` is one of `CHOICE_BY`."""

_OF_FIELDS: Final = "answer.NAME, description.NAME, from.NAME"
_NO_ANSWER: Final = re.compile(r"(?:id|url|link|date|time|timestamp|author|source|difficulty|split)$")
_LONGEST: Final = 500
_MOST_SHOWN: Final = 3
_RAW_ANSWER: Final = "raw_answer"
_ATTACHMENTS: Final = "attachments"
_OWN_FIELDS: Final = tuple(name for name in FIELDS if name not in (QUESTION, _RAW_ANSWER, ID, KEYWORDS))


def read_table(path: Path, columns: Mapping[str, str] | None = None) -> BenchmarkContent:
    """Read a benchmark with one question per row. Errors in rows are not raised, but collected in the benchmark's
    `problems`; blank rows are skipped. The benchmark is named after the file. Raises `BenchmarkFileError` if the file
    cannot be read, no column has questions, or `columns` do not fit the table.

    Columns are recognized by their names, in upper or lower case: the question, its correct answer, its options, the
    text it is about, and question fields such as `id` and `author` (`column_roles` lists the names). If the table has
    20,000 rows or more, questions are stored in a temporary file and built when they are accessed.

    `columns` maps names in `COLUMNS` to other columns, or to a part of an object such as `evaluation.match`. `question`
    can also be a string with column names in braces, and `answer.NAME` maps one of several correct answers. `columns`
    may also contain the options in `READING`. Unless a row has its own template, the extracted answer is compared with
    the correct one. If the question has options, they are compared by letter, and otherwise by a rule for the kind of
    answers in the column (`declare_answers`).
    """
    mapped = dict(columns or {})
    reading = {name: mapped.pop(name) for name in READING if name in mapped}
    table = read_rows(
        path, reading.get("sheet"), rows=reading.get("rows"), encoding=reading.get("encoding"), keep_problems=True
    )
    problems = Problems()
    problems.found += table.problems
    if (problem := find_header_problem(table.columns, table.rows)) is not None and path.suffix.lower() in TABLES:
        raise BenchmarkFileError(path, "", *problem)
    table, blank = _without_blank_rows(_with_parts(table, mapped.values()))
    chosen = _choose_columns(table, mapped)
    roles = chosen.roles
    by = reading.get("choice_by")
    if by is not None and by not in CHOICE_BY:
        cure = suggest_key(by, CHOICE_BY, f"choose one of {', '.join(CHOICE_BY)}")
        raise BenchmarkFileError(path, "", f"unknown choice_by {by!r}", cure)
    done = make_question_rows(table.rows, roles, choice_by=by)
    if done.problem:
        raise BenchmarkFileError(path, "", done.problem, done.cure)
    for row, why in done.unreadable:
        cure = "delete the row, or import the file with `karenina import --partial`"
        if (part := first_part(row.values.get(roles.columns[QUESTION]))) is not None:
            cure = f"choose a part of it, such as --columns question={roles.columns[QUESTION]}.{part}"
        problems.found.append(
            BenchmarkFileError(path, row.where(), f"the question cannot be asked as text: {why}", cure)
        )
    short = [row.where() for row in table.rows if row.is_short] if path.suffix.lower() != ".xlsx" else []
    if short:
        shown = ", ".join(short[:_MOST_SHOWN]) + (f" and {len(short) - _MOST_SHOWN} more" * (len(short) > _MOST_SHOWN))
        done.warnings.append(
            f"in rows with fewer cells than the header, the missing cells are treated as empty: {shown}"
        )
    own = chosen.fields.get("answer_template", "")
    compared = [entry for entry in done.rows if entry.row.values.get(own) is None]
    wrong_types = False
    try:
        templates = declare_rows(done, compared, exact=bool(reading.get("exact")))
    except WrongTypeError as error:
        problems.found.append(BenchmarkFileError(path, error.place, error.what, error.cure, cause=error))
        templates = RowTemplates([None] * len(compared))
        wrong_types = True
    declared = dict(zip((entry.row.line for entry in compared), templates.fields, strict=True))
    del compared
    generated: set[int] = set()

    def make_template(row: Row) -> str | None:
        """Return the template declared for the row, or the source in the row's own column, or None."""
        fields = declared.get(row.line)
        if fields is None:
            return None if (written := row.values.get(own)) is None else str(written)
        generated.add(row.line)
        return make_row_template(fields, None, {})

    columns_of_rows = tuple(dict.fromkeys([*table.columns, *chosen.fields.values()]))
    used = {name: column for name, column in chosen.fields.items() if name != "answer_template"}
    numbered = Table(path, columns_of_rows, (), warnings=table.warnings)
    unreadable = {row.line for row, _ in done.unreadable}
    count, entries = len(table.rows), deque(done.rows)
    left = deque(row for row in table.rows if row.line not in unreadable)
    table, done = table._replace(rows=()), replace(done, rows=[])
    lines = array("Q")

    def rows() -> Iterator[Row]:
        """Yield the rows with the complete texts of their questions, releasing each row after it has been read."""
        while left:  # each row is forgotten when it is read
            row = left.popleft()
            entry = entries.popleft() if entries and entries[0].row.line == row.line else None
            before = len(problems.found)
            yield _with_texts(row, entry, chosen)
            if len(problems.found) == before:
                lines.append(row.line)

    if count < LARGE:
        questions = read_questions(
            numbered, used, rows=rows(), row_template=make_template, checked=True, problems=problems
        )
        benchmark = BenchmarkContent.of_questions(path, (question for _, question in questions.values()))
        benchmark.origins = {id: origin for id, (origin, _) in questions.items()}
    else:
        try:
            with StoredQuestions(path) as stored:
                read_questions(
                    numbered,
                    used,
                    rows=rows(),
                    row_template=make_template,
                    checked=True,
                    store=stored,
                    problems=problems,
                )
        except OSError as error:  # of the temporary file: the table has been read
            what = f"cannot write the questions of a large table to a temporary file: {error.strerror or error}"
            cure = "free space in the folder for temporary files, or set TMPDIR to another folder"
            raise BenchmarkFileError(path, "", what, cure) from error
        benchmark = BenchmarkContent.of_questions(path, ())
        benchmark.use_questions(stored)
    if wrong_types:
        problems.raise_all()
    benchmark.problems = problems.found
    benchmark.made_templates = {id for id, line in zip(benchmark.ids, lines, strict=True) if line in generated}
    benchmark.load_notes = [*table.notes, *blank, *done.notes, *templates.notes]
    benchmark.load_warnings += [*table.warnings, *done.warnings, *templates.warnings]
    unused = [column for column in done.unused if column != templates.types]
    has_answers = roles.get(TRUTH) is not None or bool(roles.fields)
    if not has_answers and not own:
        benchmark.missing_answers = _describe_missing_answers(table, unused)
    elif unused:
        benchmark.load_warnings.append(f"unused columns: {name_columns(unused)}; map them with --columns")
    benchmark.answer_columns = tuple(filter(None, (roles.get(TRUTH), *roles.fields.values())))
    if templates.refused:
        benchmark.missing_answers = (
            f"{templates.refused}. `karenina draft` drafts a template for each answer; `karenina import` writes a "
            "trait for each answer, with which a judge compares responses with the answer; for other traits, add "
            "--set evaluation_mode=rubric_only; to compare word for word, use --exact"
        )
    elif templates.objects:
        benchmark.missing_answers = (
            f"{templates.objects}, which no rule can compare; name one of their parts, such as --columns "
            f"answer={roles.get(TRUTH) or 'COLUMN'}.PART"
        )
    elif roles.get(TRUTH) is not None:
        benchmark.load_notice = _describe_comparison(path, chosen, templates)
    return benchmark


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The roles of the columns, and the column for each field of a question."""

    roles: Roles
    fields: Mapping[str, str] = field(default_factory=dict)


def _with_parts(table: Table, names: Iterable[str]) -> Table:
    """Return the table with a column for each name that is a path into the objects or lists of another column. A path
    without any values adds no column.
    """
    paths = dict.fromkeys(name for name in names if "." in name and name not in table.columns)
    rows = table.rows
    for path in paths:
        parts = [_part_of(row.values, path.split(".")) for row in rows]
        if any(part is not None for part in parts):
            rows = tuple(row._replace(values={**row.values, path: part}) for row, part in zip(rows, parts, strict=True))
            table = table._replace(columns=(*table.columns, path), rows=rows)
    return table


def _without_blank_rows(table: Table) -> tuple[Table, list[str]]:
    """Return the table without rows whose cells are all empty, and a list with a note about them. If there are none, or
    if all rows are empty, the table is returned unchanged, and the list is empty.
    """
    blank = [row for row in table.rows if all(cell in (None, "") for cell in row.values.values())]
    if not blank or len(blank) == len(table.rows):
        return table, []
    places = ", ".join(row.where() for row in blank[:_MOST_SHOWN])
    more = f" and {len(blank) - _MOST_SHOWN} more" if len(blank) > _MOST_SHOWN else ""
    lines = {row.line for row in blank}
    rows = tuple(row for row in table.rows if row.line not in lines)
    return table._replace(rows=rows), [f"blank rows were left out: {places}{more}"]


def _part_of(value: object, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys in an object and positions in lists, or None if one is missing."""
    for key in keys:
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and len(key) < 10 and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _choose_columns(table: Table, columns: Mapping[str, str]) -> _Chosen:
    """Return the roles of the columns, and the column for each question field. Columns that `columns` does not map are
    recognized by their names. Raises `BenchmarkFileError` if an unknown name or column is mapped, or if no column has
    questions.
    """
    several = {name: column for name, column in columns.items() if FIELD_COLUMN.fullmatch(name)}
    columns = {name: column for name, column in columns.items() if name not in several}
    for name, column in [*columns.items(), *several.items()]:
        if name not in (*COLUMNS, _ATTACHMENTS) and name not in several and not is_question_field(name):
            known = [*COLUMNS, *read_catalog()["question_fields"], _ATTACHMENTS]
            cure = suggest_key(name, known, f"columns can be mapped to {', '.join(known)}, {_OF_FIELDS}")
            cure = "did you mean 'choices'?" if name.casefold() in ("option", "options") else cure
            raise BenchmarkFileError(table.file, "", f"no column can be mapped to {name!r}", cure)
        parts = names_in(column) if name == QUESTION else []
        for part in parts or [column]:
            if find_column(table.columns, part) is None if parts else part not in table.columns:
                raise missing_column(table, part)
    by_name = {column.lower(): column for column in reversed(table.columns)}
    own = {name: by_name[name] for name in _OWN_FIELDS if name in by_name}
    own |= {column: column for column in table.columns if is_plugin_column(column)}
    own |= {name: column for name, column in columns.items() if name not in COLUMNS}
    mapped = {name: column for name, column in columns.items() if name in COLUMNS}
    in_text = [find_column(table.columns, part) or part for part in names_in(mapped.get(QUESTION, ""))]
    values = [row.values for row in table.rows]
    roles = choose_roles(table.columns, values, mapped, taken=(*own.values(), *in_text, *several.values()))
    roles = _with_fields(roles, several, keeps_truth=TRUTH in mapped)
    for name in several:
        field_name = name.partition(".")[2]
        if field_name not in roles.fields:
            cure = f"map the field's answers as well, with answer.{field_name}=COLUMN, or remove {name}"
            raise BenchmarkFileError(table.file, "", f"{name} refers to a field without a column of answers", cure)
    if QUESTION not in roles.columns:
        longest = max(table.columns, key=lambda column: sum(len(str(row.get(column) or "")) for row in values[:50]))
        turns = next((column for column in table.columns if fold_name(column) == "turns"), None)
        first = first_part(values[0].get(turns)) if turns is not None and values else None
        if first is not None:
            what = f"no question column was found; {turns!r} contains several turns"
            cure = f"ask the first turn of each alone with --columns question={turns}.{first}"
            raise BenchmarkFileError(table.file, "", what, cure)
        example = _make_example(table.file, {QUESTION: longest, _RAW_ANSWER: roles.get(TRUTH) or "COLUMN"})
        raise BenchmarkFileError(
            table.file,
            "",
            "; ".join(("no question column was found", *table.notes)),
            f"the file has the columns {shorten(', '.join(table.columns), _LONGEST)}; choose columns with "
            "--columns question=COLUMN,answer=COLUMN or, for comparisons other than ExactMatch, in a YAML "
            f"file:\n{example}",
        )
    fields = {name: roles.columns[name] for name in (QUESTION, ID, KEYWORDS) if name in roles.columns}
    if TRUTH in roles.columns or roles.fields:
        fields[_RAW_ANSWER] = roles.columns.get(TRUTH, _RAW_ANSWER)
    return _Chosen(roles, {**fields, **own})


def _with_fields(roles: Roles, several: Mapping[str, str], *, keeps_truth: bool) -> Roles:
    """Return the roles with the user's columns for several correct answers instead of the column of a single one, which
    becomes unused unless `keeps_truth` is set. `several` maps `answer.NAME`, `gold.NAME`, `description.NAME` and
    `from.NAME` to columns. Without columns for several answers, the roles are unchanged.
    """
    fields, descriptions, sources = dict(roles.fields), dict(roles.descriptions), dict(roles.sources)
    for name, column in several.items():
        kind, _, field_name = name.partition(".")
        {"description": descriptions, "from": sources}.get(kind, fields)[field_name] = column
    if not several or not fields:
        return roles
    single = roles.get(TRUTH) if not keeps_truth else None
    columns = {role: column for role, column in roles.columns.items() if column != single or role != TRUTH}
    unused = (*roles.unused, single) if single is not None else roles.unused
    return replace(roles, columns=columns, fields=fields, descriptions=descriptions, sources=sources, unused=unused)


def _with_texts(row: Row, question: QuestionRow | None, chosen: _Chosen) -> Row:
    """Return the row with the complete text of its question, and with its correct answers as strings. A row without a
    question is returned unchanged.
    """
    if question is None:
        return row
    roles = chosen.roles
    values = {**row.values, roles.columns[QUESTION]: question.text}
    if TRUTH in roles.columns:
        values[roles.columns[TRUTH]] = question.truth_text()
    elif roles.fields:
        truths = {name: row.values.get(column) for name, column in roles.fields.items()}
        shown = [f"{name}: {cell_text(truth)}" for name, truth in truths.items() if truth is not None]
        values[_RAW_ANSWER] = "; ".join(shown) or None
    return Row(row.line, values, row.place)


def _describe_missing_answers(table: Table, unused: list[str]) -> str:
    """Return a message saying that no column has answers, so that none can be judged, and how to fix this."""
    cure = "add a column with the correct answers"
    guess = next((name for name in unused if not _NO_ANSWER.search(fold_name(name))), None)
    if guess is not None:
        column = quote(f"answer={guess}")
        rest = [name for name in unused if name != guess]
        others = f" (other unused columns: {name_columns(rest)})" if rest else ""
        cure = f"if {guess!r} contains the correct answers, add --columns {column}{others}"
    return (
        f"{table.file.name} has no 'answer' column, so no answer can be judged; {cure}; to score traits only, add "
        "--set evaluation_mode=rubric_only"
    )


def _describe_comparison(path: Path, chosen: _Chosen, templates: RowTemplates) -> str:
    """Return a sentence that says how answers are compared with those in the table at `path`, and that a YAML file,
    with an example or the command that writes one, allows other comparisons.
    """
    answer = chosen.roles.columns[TRUTH]
    shapes = {
        tuple(map(str, (declared[TRUTH]["type"], declared[TRUTH].get("verify_with"))))
        for declared in templates.fields
        if declared
    }
    head = f"Answers are compared with the column {answer!r} in {path.name}"
    if shapes == {("str", "ExactMatch")}:
        cure = f"write a YAML file:\n{_make_example(path, chosen.fields)}"
        return f"{head} using ExactMatch. For other comparisons, more fields and traits, {cure}"
    cure = f"write a YAML file with `karenina import {quote(str(path))}`"
    return f"{head} according to the kind of each answer. For other comparisons, more fields and traits, {cure}"


def _make_example(path: Path, columns: Mapping[str, str]) -> str:
    """Return a YAML benchmark that imports the same table, with the answers as strings. `columns` contains the column
    for each field of a question.
    """
    fields = {
        "type": "str",
        "description": TEXT_ANSWER,
        "ground_truth": {"column": columns[_RAW_ANSWER]},
        "verify_with": "ExactMatch",
    }
    source = {"file": path.name, "columns": dict(columns), "answer": {TRUTH: fields}}
    return dump({"karenina": 1, "name": path.stem, "questions_from": [source]})
