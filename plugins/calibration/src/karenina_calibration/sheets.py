"""Sheets for labelling in a spreadsheet program: CSV or Excel, with one row per question to the labeller."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from pydantic_core import from_json, to_json

from karenina_calibration.answers import truth_text
from karenina_calibration.label_file import ExtractionLabel, Label
from karenina_core.catalog import install_command
from karenina_core.errors import ConfigError
from karenina_core.text import compose
from karenina_engine.results.tables import LibraryMissing
from karenina_report.exports.spreadsheets import could_be_formula, escape_cell, fit_cell, protect
from karenina_report.options import write_whole
from karenina_toolkit.files import FileError, plain_cell, read_records

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer, Answers, AskedAnswer, Kind
    from karenina_calibration.label_file import Labels

COLUMNS: Final = ("item", "asked", "value", "right", "own", "note", "question", "answer", "truth", "why", "truth_id")
RIGHT: Final = ("right", "human_label")
_OTHER_NAMES: Final = ("annotator", "_annotator_id")
"""The columns in which other programs name the person, which are not read."""
ANSWER: Final = "answer"
EXCEL: Final = ".xlsx"
SUFFIXES: Final = (".csv", EXCEL)
_YES: Final = frozenset({"yes", "y", "true", "1", "1.0", "right", "correct"})
_NO: Final = frozenset({"no", "n", "false", "0", "0.0", "wrong", "incorrect"})
_UNCLEAR: Final = frozenset({"unclear", "u", "?"})
_BEGINS: Final = {".csv": b"item,asked,", EXCEL: b"PK"}

Row = Mapping[str, str]


def write_sheet(path: Path, asked: Sequence[AskedAnswer]) -> Path | None:
    """Write a sheet with the answers to label: an Excel file or CSV, depending on the extension of `path`, which must
    be `.xlsx` or `.csv`. An earlier sheet at `path` is renamed, and its new name is returned; otherwise, None is
    returned.

    The first row of an answer asks whether the answer is right. Further rows ask about each extracted value. If an
    answer is shown again, the column `why` gives the reason. Verdicts are not shown. Raises `ConfigError` if `path` is
    another kind of file or cannot be written, and `LibraryMissing` if openpyxl is needed for an Excel file but not
    installed.
    """
    rows = [row for entry in asked for row in _rows(entry)]
    write = _excel_writer(rows) if path.suffix.lower() == EXCEL else _csv_writer(rows)
    return write_whole(path, (_BEGINS[path.suffix.lower()],), write)


def count_cut(path: Path, asked: Sequence[AskedAnswer]) -> int:
    """Return the number of answers that are too long for a cell of an Excel sheet. For CSV, this is 0."""
    if path.suffix.lower() != EXCEL:
        return 0
    return sum(len(fit_cell(entry.answer.text)) < len(entry.answer.text) for entry in asked)


def _rows(asked: AskedAnswer) -> Iterator[list[str]]:
    """Yield the rows for an answer: one about the answer itself, and one about each extracted value."""
    answer = asked.answer
    shown = (answer.question, answer.text, truth_text(answer), asked.why, answer.truth_id)
    yield [answer.id, ANSWER, "", "", "", "", *shown]
    for extraction in asked.extractions:
        yield [answer.id, f"{extraction.kind} {extraction.name}", extraction.value, *[""] * (len(COLUMNS) - 3)]


def _csv_writer(rows: Iterable[Sequence[str]]) -> Callable[[BinaryIO], None]:
    """Return a function that writes the column names and the rows as CSV. Text that could be a formula is prefixed with
    an apostrophe.
    """

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        writer.writerows([protect(cell) for cell in row] for row in rows)
        text.detach()

    return write


def _excel_writer(rows: Iterable[Sequence[str]]) -> Callable[[BinaryIO], None]:
    """Return a function that writes a header and the rows as an Excel workbook. Text is cut to 32,000 characters, and
    control characters are replaced by U+FFFD. Raises `LibraryMissing` at once if openpyxl is not installed.
    """
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    except ImportError as error:
        raise LibraryMissing(
            f"openpyxl is not installed; run `{install_command('karenina-calibration[excel]')}`"
        ) from error

    def write(file: BinaryIO) -> None:
        """Write the rows and a header to a binary file as a workbook. All cells are text, so none is a formula. Control
        characters are replaced, and long texts are cut.
        """
        book = Workbook(write_only=True)
        sheet = book.create_sheet("labels")
        sheet.freeze_panes = "A2"
        sheet.append(list(COLUMNS))
        for row in rows:
            cells = []
            for text in row:
                cell = WriteOnlyCell(sheet, value=escape_cell(fit_cell(text)))
                cell.data_type = "s"
                cells.append(cell)
            sheet.append(cells)
        buffer = io.BytesIO()
        book.save(buffer)
        file.write(buffer.getvalue())

    return write


def read_sheet(
    path: Path, answers: Answers, *, labeller: str, time: str, earlier: Labels
) -> tuple[list[Label], list[str]]:
    """Read the labels in a sheet, and return them with the locations of rows for answers that are not in the results.
    Rows without a label are skipped, rows without a name in the column `labeller` belong to `labeller`, and missing
    parts of a label are taken from the `earlier` one by the same labeller. All labels get the given `time`.

    Sheets from elsewhere need the column `right` (or `human_label`) and either `item` or `question_id`. If a question
    has several answers, they also need `answering_model` and `replicate`. Raises `ConfigError` if the sheet cannot be
    read, if a column is missing, or if a label is not yes, no or unclear.
    """
    by_answer: dict[tuple[str, str], list[tuple[str, Row]]] = defaultdict(list)
    strange: list[str] = []
    by_question: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers.by_id.values():
        by_question[compose(answer.question_id)].append(answer)
    for place, row in _read_rows(path):
        if not row.keys() & {*RIGHT, "own"}:
            raise ConfigError(
                [f"{path} is not a label sheet; a label sheet needs a `right` column with yes, no or unclear"]
            )
        if not any(row.get(name, "").strip() for name in (*RIGHT, "own")):
            continue
        about = _find_answer(row, answers, by_question, place)
        if about is None:
            strange.append(place)
        else:
            by_answer[about.id, _unprotected(row.get("labeller", "").strip()) or labeller].append((place, row))
    labels = []
    for (item, name), every_row in by_answer.items():
        _refuse_other_names(every_row)
        before = earlier.by_item.get(item, {}).get(name)
        for rows in _by_truth(every_row):
            label = _make_label(item, name, time, rows, answers.by_id[item])
            labels.append(_with_earlier(label, before, rows) if before is not None else label)
    return labels, strange


def _refuse_other_names(rows: Sequence[tuple[str, Row]]) -> None:
    """Raise `ConfigError` if the rows of one person for an answer name several people in a column that is not read."""
    for column in _OTHER_NAMES:
        names = sorted({row[column].strip() for _, row in rows if row.get(column, "").strip()})
        if len(names) > 1:
            people = f"{names[0]!r} and {names[1]!r} in the column {column!r}"
            raise ConfigError([f"{rows[-1][0]}: the answer has labels of {people}; rename the column `labeller`"])


def _by_truth(rows: Sequence[tuple[str, Row]]) -> list[list[tuple[str, Row]]]:
    """Return the rows for each ground truth that a person saw, in their order. Rows that name none, such as those about
    extracted values, belong to each.
    """
    named = [row.get("truth_id", "").strip() for _, row in rows]
    truths = list(dict.fromkeys(filter(None, named))) or [""]
    return [[row for row, seen in zip(rows, named, strict=True) if seen in ("", truth)] for truth in truths]


def _with_earlier(label: Label, before: Label, rows: Sequence[tuple[str, Row]]) -> Label:
    """Return the label with the parts of the earlier label `before` that are missing from the rows, and with the notes
    of both.
    """
    if not any(_asked(row) == (ANSWER, "") and _said(row) for _, row in rows):
        label = label.model_copy(update={"right": before.right, "truth": before.truth, "blind": before.blind})
    notes = dict.fromkeys(filter(None, (before.note, label.note)))
    return label.model_copy(update={"note": "; ".join(notes)}).with_extractions_of(before)


def _asked(row: Row) -> tuple[str, str]:
    """Return the subject of a row as a kind and a name: `ANSWER` and an empty string, or those of an extracted value.
    Rows without the column `asked` are about the answer.
    """
    kind, _, name = row.get("asked", ANSWER).strip().partition(" ")
    return kind, name


def _said(row: Row) -> str:
    """Return the label in a row as it was written, or an empty string if there is none."""
    return next((row[name] for name in RIGHT if row.get(name, "").strip()), "")


def _find_answer(row: Row, answers: Answers, by_question: Mapping[str, Sequence[Answer]], place: str) -> Answer | None:
    """Return the answer that a row is about, or None if it is not in the results. It is found by its `item` or, if
    there is no such column, by its question, model and replicate, of which the last two may be empty. Raises
    `ConfigError` if several answers match, or if the sheet has neither an `item` nor a `question_id` column.
    """
    if "item" in row:
        return answers.by_id.get(row["item"].strip())
    if "question_id" not in row:
        raise ConfigError([f"{place} does not identify an answer; the sheet needs an `item` or `question_id` column"])
    id = compose(row["question_id"].strip())
    model = compose(row.get("answering_model", "").strip())
    matching = [
        answer
        for answer in by_question.get(id) or by_question.get(_unprotected(id), ())
        if (not model or compose(answer.model) in (model, _unprotected(model)))
        and row.get("replicate", "").strip() in ("", str(answer.replicate))
    ]
    if len(matching) > 1:
        raise ConfigError(
            [f"{place}: the question has {len(matching)} answers; add the columns `answering_model` and `replicate`"]
        )
    return matching[0] if matching else None


def _make_label(item: str, labeller: str, time: str, rows: Sequence[tuple[str, Row]], answer: Answer) -> Label:
    """Make a label from one labeller's rows about one answer: whether it is right, None if no row asks this, and a
    label for each extracted value in a row. Notes are joined. Raises `ConfigError` if a row is malformed or contradicts
    another one. The message names the row.
    """
    right: bool | None = None
    first: dict[tuple[str, str, str], tuple[str, bool | str | None]] = {}
    extractions, notes = [], []

    def check_first(place: str, about: tuple[str, str, str], said: bool | str | None) -> None:
        before, earlier = first.setdefault(about, (place, said))
        if earlier != said:
            raise ConfigError(
                [f"{place}: the label contradicts that of {labeller} for the same answer at {before}; keep one of them"]
            )

    truth = next((row["truth_id"].strip() for _, row in rows if row.get("truth_id", "").strip()), "")
    for place, row in rows:
        verdict = _parse_right(_said(row), place)
        kind, name = _asked(row)
        if row.get("note", "").strip():
            notes.append(_unprotected(row["note"].strip()))
        for column in RIGHT:
            if row.get(column, "").strip():
                check_first(place, (kind, name, row.get("value", "") if name else ""), _parse_right(row[column], place))
        if kind == ANSWER:
            right = verdict
        elif kind in ("field", "trait") and name:
            shown = [
                extraction for extraction in answer.extractions if (extraction.kind, extraction.name) == (kind, name)
            ]
            own = row.get("own", "").strip() or None
            if own is not None:
                own = _as_json(own, [extraction.value for extraction in shown])
                check_first(place, (f"own {kind}", name, ""), own)
            values = {_unprotected(extraction.value): extraction.value for extraction in shown}
            value = values.get(_unprotected(row.get("value", "")), row.get("value", ""))
            extractions.append(ExtractionLabel(kind=cast("Kind", kind), name=name, value=value, right=verdict, own=own))
        else:
            raise ConfigError(
                [f"{place}: the `asked` column must be `answer`, `field NAME` or `trait NAME`, not {row['asked']!r}"]
            )
    return Label(
        item=item,
        labeller=labeller,
        time=time,
        right=right,
        extractions=tuple(extractions),
        note="; ".join(notes),
        truth=truth,
    )


def _unprotected(text: str) -> str:
    """Remove the apostrophe that prevents spreadsheet programs from reading text as a formula."""
    plain = text.removeprefix("'")
    return plain if could_be_formula(plain) else text


def _as_json(text: str, shown: Sequence[str]) -> str:
    """Return a value that a person entered as JSON text, written as the equal value of those `shown`, if there is one.
    If they are texts, so is the value, even if it looks like a number; other text that is not JSON is a text, too.
    """
    known = [from_json(one) for one in shown]
    kinds = {type(one) for one in known if one is not None}
    value = _parsed(text.lower() if kinds == {bool} else text)
    if kinds == {str} and value is not None and not isinstance(value, str):
        value = text
    for one, other in zip(shown, known, strict=True):
        if other == value and isinstance(other, bool) is isinstance(value, bool):
            return one
    return to_json(value).decode()


def _parsed(text: str) -> object:
    """Return the value of JSON text, or other text as it is."""
    value: object = text
    with suppress(ValueError):
        value = from_json(text)
    return value


def _parse_right(text: str, place: str) -> bool | None:
    """Convert yes, no and unclear (or blank) to True, False and None. Raises `ConfigError` for other text."""
    word = text.strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    if word in _UNCLEAR or not word:
        return None
    raise ConfigError([f"{place}: expected yes, no or unclear, got {text.strip()!r}"])


def _read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location of each row, and its cells by lower-case column name. If several columns have the same name,
    the first one is used. Raises `ConfigError` if the sheet cannot be read.
    """
    try:
        with read_records(path, package="karenina-calibration") as records:
            names = {column: column.lower() for column in reversed(records.columns)}
            for record in records:
                cells = {name: plain_cell(record.values[column]) for column, name in names.items()}
                yield str(record), {name: "" if cell is None else str(cell) for name, cell in cells.items()}
    except FileError as error:
        raise ConfigError([f"cannot read the sheet: {error}"]) from error
