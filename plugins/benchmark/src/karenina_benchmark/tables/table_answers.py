"""Declares answer templates for the rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from karenina_benchmark.tables.answer_kinds import KINDS, Cell, Kind, is_empty, read_as, read_marks
from karenina_benchmark.tables.column_roles import TRUTH, fold_name
from karenina_benchmark.tables.declare_answers import DeclaredAnswers, declare_answers, exact_match, holds_alternatives
from karenina_benchmark.tables.question_rows import QuestionRow, QuestionRows, has_alternatives
from karenina_core.catalog import read_catalog
from karenina_template.templates.primitives import primitives_by_field_type
from karenina_toolkit.known_values import find_offer
from karenina_toolkit.printable import quantity

_TYPES: Final = ("type", "answertype", "kind", "answerkind")
_KINDS_OF_VALUES: Final[Mapping[str, Kind]] = {"bool": "yes or no", "list": "list", "list[str]": "list"}
"""The kinds of answers whose cells are read in the same way for known values of a type."""
_OPTION: Final = "The option that the response gives as its answer, copied as the response writes it"
_LETTER: Final = "The letter of the option that the response gives as its answer"
_OPTIONS: Final = "The letters of all options that the response gives as its answer"


@dataclass
class RowTemplates:
    """The declared fields for each row, or None for rows without a correct answer that can be compared.

    `notes` describes the kinds of answers that were found, and `warnings` lists probable mistakes. `refused` and
    `objects` explain why sentences and objects are not compared, and are empty if there are none. `types` is the column
    with the answer types, or None.
    """

    fields: list[dict[str, Any] | None]
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refused: str = ""
    objects: str = ""
    types: str | None = None

    def _add(self, name: str, declared: DeclaredAnswers) -> None:
        """Add the messages of `declared`, each after the column's `name`. Only the first refusals of sentences and
        objects are kept.
        """
        self.notes += [f"{name}: {note}" for note in declared.notes]
        self.warnings += [f"{name}: {warning}" for warning in declared.warnings]
        if declared.refused:
            self.refused = self.refused or f"{name}: {declared.refused}"
        if declared.objects:
            self.objects = self.objects or f"{name}: {declared.objects}"


def declare_rows(
    table: QuestionRows, rows: Sequence[QuestionRow] | None = None, *, exact: bool = False, any_of: bool | None = None
) -> RowTemplates:
    """Declare templates for `rows`, which are all rows of the table by default. Questions with options are compared by
    the letters of the correct options, and all other questions by a rule for the kind of each correct answer. A row
    whose answer cannot be compared gets none; neither do sentences, unless they are rare or `exact` is set. Raises
    `WrongTypeError` if an answer does not have the type specified in its row.

    With `exact`, sentences are compared word for word. `any_of` sets whether each item of a list is a correct answer by
    itself. By default, this depends on the column's name and cells.
    """
    rows = table.rows if rows is None else rows
    types = _find_types(table)
    done = RowTemplates([{} for _ in rows], types=types)
    if types is None:
        for unused in find_unused_types(table.roles.unused, [row.row.values for row in table.rows]):
            what = f"the column {unused!r} contains types of answers, but is not used; did you mean 'type'?"
            done.warnings.append(what)
    if table.roles.fields:
        for name, of_field in table.roles.fields.items():
            _declare_column(done, table, rows, of_field, name, exact=exact, any_of=any_of)
    elif (column := table.roles.get(TRUTH)) is not None:
        lettered = [row for row in rows if row.right]
        if lettered:
            rule = "SetContainment, all correct options" if table.several_right else "Choice"
            done.notes.append(f"{column!r}: {quantity(len(lettered), 'question')} with options ({rule})")
        _declare_column(done, table, rows, column, None, exact=exact, any_of=any_of)
    done.fields = [declared or None for declared in done.fields]
    return done


def _declare_column(
    done: RowTemplates,
    table: QuestionRows,
    rows: Sequence[QuestionRow],
    column: str,
    name: str | None,
    *,
    exact: bool,
    any_of: bool | None,
) -> None:
    """Add the field for a column of answers to the rows in `done`, under its `name` if there are several such columns,
    otherwise None; rows with options then get a field for their letters. If a sentence or object cannot be compared,
    its row loses all fields.

    For `exact` and `any_of`, see `declare_rows`.
    """
    known: frozenset[int] = frozenset()
    if name is not None and name in table.roles.sources:
        known = _declare_known(done, table, rows, column, name)
    places = [at for at, row in enumerate(rows) if at not in known and (name is not None or not row.right)]
    cells = [  # for one of several answers, its name says what is asked for
        Cell(rows[at].row.values.get(column), name.replace("_", " "), rows[at].row.where())
        if name is not None
        else Cell(rows[at].truth, rows[at].asked, rows[at].row.where())
        for at in places
    ]
    described = table.roles.descriptions.get(name or "")
    answers = declare_answers(
        cells,
        types=None if done.types is None or name else [rows[at].row.values.get(done.types) for at in places],
        any_of=any_of
        if any_of is not None
        else holds_alternatives(column, (cell.question for cell in cells))
        or any(has_alternatives(rows[at].row.values.get(column)) for at in places),
        exact=exact,
        subject=name,
        column=column,
        descriptions=None if described is None else [_text_of(rows[at].row.values.get(described)) for at in places],
    )
    done._add(repr(column), answers)
    for at, declared, answer in zip(places, answers.fields, answers.kinds.answers, strict=True):
        fields = done.fields[at]
        if declared is None and answer.kind in ("prose", "object"):
            done.fields[at] = None
        elif declared is not None and fields is not None:
            fields[name or TRUTH] = declared
    for at in set(range(len(rows))).difference(places, known):
        question = rows[at]
        done.fields[at] = {TRUTH: declare_options(question.options, question.right, several=table.several_right)}


def _declare_known(
    done: RowTemplates, table: QuestionRows, rows: Sequence[QuestionRow], column: str, name: str
) -> frozenset[int]:
    """Add the field `name` to the rows in `done` that state a known value and have a truth for it in `column`, and
    return the positions of all rows that state one.
    """
    sources = {at: _text_of(row.row.values.get(table.roles.sources[name])) for at, row in enumerate(rows)}
    named = {at: source for at, source in sources.items() if source is not None}
    cells = {at: Cell(rows[at].row.values.get(column), name, rows[at].row.where()) for at in named}
    marks = read_marks([*cells.values()])
    compared: Counter[str] = Counter()
    for at, source in named.items():
        fields = done.fields[at]
        if fields is not None and not is_empty(cells[at].value):
            offer = find_offer(source)
            kind = _KINDS_OF_VALUES.get(offer.kind) if offer is not None else None
            answer = read_as(kind, cells[at], marks) if kind is not None else None
            fields[name] = {"from": source, "ground_truth": cells[at].value if answer is None else answer.truth}
            compared[source] += 1
    done.notes += [
        f"{column!r}: {quantity(n, 'answer')} for the known value {source}" for source, n in compared.items()
    ]
    return frozenset(named)


def declare_options(options: Mapping[str, str], right: Sequence[str], *, several: bool) -> dict[str, Any]:
    """Return the declared field for a question with options, of which those with the letters in `right` are correct. If
    `several` is set, its value is a list of letters, all of which are needed; otherwise, each of them is a correct
    answer by itself.

    Without `several`, the judge copies words from the response. If there are several letters, or if the text of an
    option is itself a letter, the judge chooses a letter instead.
    """
    if several:
        return {"type": "list[str]", "description": _OPTIONS, "ground_truth": list(right)}
    if len(right) > 1:
        rule = exact_match(right)
        return {
            "type": {"literal": list(options)},
            "description": _LETTER,
            "ground_truth": right[0],
            "verify_with": rule,
        }
    if {letter.casefold() for letter in options} & {text.casefold() for text in options.values()}:
        return {"type": {"literal": list(options)}, "description": _LETTER, "ground_truth": right[0]}
    rule = {"type": "Choice", "options": dict(options)}
    return {"type": "str", "description": _OPTION, "ground_truth": right[0], "verify_with": rule}


def _find_types(table: QuestionRows) -> str | None:
    """Return the unused column that is named like a type, and in which more than half of the filled cells are answer
    types or all cells are blank. Returns None if there is none.
    """
    for column in table.roles.unused:
        if fold_name(column) not in _TYPES:
            continue
        cells = [row.row.values.get(column) for row in table.rows]
        is_blank = any(cell is not None for cell in cells) and all(_text_of(cell) is None for cell in cells)
        if is_blank or _are_types(cells):
            return column  # an unknown type among them is an error of its row
    return None


def find_unused_types(unused: Sequence[str], values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the unused columns in which more than half of the filled cells are answer types, and which have a name
    like *type* or such types of plugins. Words such as *text* in another column, such as *modality*, may mean something
    else.
    """
    found = []
    for column in unused:
        cells = [row.get(column) for row in values]
        is_named = bool(get_close_matches(fold_name(column), _TYPES, n=1, cutoff=0.6))
        types_of_plugins = {*primitives_by_field_type(), *read_catalog()["field_types"]}
        if _are_types(cells) and (is_named or not types_of_plugins.isdisjoint(map(_text_of, cells))):
            found.append(column)
    return found


def _are_types(cells: Sequence[object]) -> bool:
    """Return whether most cells that are not empty are answer types."""
    types = {*KINDS, *primitives_by_field_type(), *read_catalog()["field_types"]}
    filled = [text.casefold() for cell in cells if (text := _text_of(cell)) is not None]
    return sum(name in types for name in filled) * 2 > len(filled)


def _text_of(value: object) -> str | None:
    return None if value is None or not str(value).strip() else str(value).strip()
