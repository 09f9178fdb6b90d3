"""The questions of a table: each row's text with its context and options, its right answer, and where it is."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from shlex import quote
from string import ascii_uppercase
from typing import Any, Final

from karenina_benchmark.tables.answer_kinds import is_error_cell
from karenina_benchmark.tables.column_roles import (
    CHOICES,
    CONTEXT,
    ID,
    KEYWORDS,
    QUESTION,
    RESPONSE,
    TRUTH,
    Roles,
    fold_name,
)
from karenina_benchmark.tables.lettered_options import (
    Options,
    find_right_options,
    join_options,
    options_in,
    parse_list,
    read_options,
    strip_marks,
)
from karenina_benchmark.tables.message_texts import NotText, as_text, is_conversation
from karenina_benchmark.tables.table_reader import Row
from karenina_toolkit.files import find_column
from karenina_toolkit.printable import quantity, shorten

_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_ABOUT_A_TEXT: Final = re.compile(
    r"\b(?:the|this|these|that|following|given|above)\s+(?:\w+\s+)?(?:passages?|texts?|contexts?|paragraphs?|articles?|"
    r"documents?|excerpts?|story|abstract|clauses?|contract|evidence|reports?|notes?|table|data)\b|"
    r"\baccording to (?:the|this)\b|\b(?:above|below|in the (?:provided|given))\b",
    re.IGNORECASE,
)
_MENTION: Final = 0.1
"""The share of questions that must mention a text for the contexts to be joined."""
_SHARED: Final = 1.5
"""The questions to one context, on the average, from which they are questions about it."""
_FEWEST_WORDS: Final = 4
"""The words from which a context is a text."""
_PLACES: Final = {"index": "index", "idx": "index", "number": "number"}
"""The ends of names of columns that say from where places of options are counted."""
_ENTITY: Final = re.compile(r"&(?:[a-zA-Z]{2,8}|#[0-9]{1,6}|#x[0-9a-fA-F]{1,5});")
ALIASES: Final = ("text", "aliases", "value", "answer")
"""The keys of an object that hold a right answer, or several of which each is right."""
_TEXT_KEYS: Final = ("contexts", "sentences", "evidence_text", "text", "page_content", "content")
"""The keys of an object that hold its text."""
_EXPECTED: Final = ("expected", "gold", "groundtruth", "reference", "target")
_KEY: Final = re.compile(r"\W+")
_LONGEST: Final = 200
_DEEPEST: Final = 8
_MOST_NAMED: Final = 30


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question of a table.

    `text` is what a model is asked: the question's own text, `asked`, with its context before and its options after it.
    `truth` is the cell of the right answer as the file has it (a text, a number, a boolean, a list, ...), None if it is
    empty. `options` are the options by their letters, and `right` the letters of the right ones; both are empty if the
    question has none, or if `truth` names none.
    """

    row: Row
    asked: str
    text: str
    truth: Any = None
    options: Options = field(default_factory=dict)
    right: tuple[str, ...] = ()

    def truth_text(self) -> str | None:
        """Return the right answer as text; of a multiple-choice question, the right options with their letters."""
        if self.right:
            return "; ".join(f"{letter}. {self.options[letter]}" for letter in self.right)
        if isinstance(self.truth, list) and len(self.truth) == 1:
            return cell_text(self.truth[0])
        return None if self.truth is None else cell_text(self.truth)


@dataclass
class QuestionRows:
    """The questions of a table, the roles of its columns, and what the user must know of how they were read.

    `notes` say what was taken as what. `warnings` are probable mistakes, with their cures. `blanks` are rows without a
    question.
    """

    roles: Roles
    rows: list[QuestionRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    blanks: list[Row] = field(default_factory=list)
    unreadable: list[tuple[Row, str]] = field(default_factory=list)
    """The rows whose question is messages with more than text, such as images, and why each cannot be read."""
    unused: list[str] = field(default_factory=list)
    joined: bool = False
    """Whether the contexts are part of the questions."""
    choice_by: str = ""
    """How right options were found."""
    problem: str = ""
    """Why the right options cannot be found; empty if they can."""
    cure: str = ""
    """The cure of the problem."""
    several_right: bool = False
    """Whether some question has several right options."""


def name_columns(columns: Sequence[str]) -> str:
    """Return the names of columns for a message; of many, the first."""
    more = f" and {len(columns) - _MOST_NAMED:,} more" if len(columns) > _MOST_NAMED else ""
    return ", ".join(map(repr, columns[:_MOST_NAMED])) + more


def cell_text(cell: Any) -> str:
    """Return a cell as text: lists and objects as JSON."""
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) if _is_json(cell) else str(cell)


def _question_text(cell: Any) -> str:
    """Return the text of a question, which may be messages. Raises `NotText` for messages with more than text."""
    return as_text(cell) if is_conversation(cell) else cell_text(cell)


def _is_json(cell: Any) -> bool:
    return isinstance(cell, list | Mapping)


def make_question_rows(
    rows: Sequence[Row], roles: Roles, *, choice_by: str | None = None, option: str = "--columns"
) -> QuestionRows:
    """Make the questions of rows. `option` is the option of the command that maps columns, for messages."""
    done = QuestionRows(roles)
    question = roles.columns[QUESTION]
    template = question if _PLACEHOLDER.search(question) else None
    truth, context = roles.get(TRUTH), roles.get(CONTEXT)
    of_roles = (question, *map(roles.get, (CONTEXT, CHOICES, ID, KEYWORDS)), *roles.options.values())
    used = [name for name in of_roles if name is not None]
    made: list[QuestionRow] = []
    contexts: list[str] = []
    for row in rows:
        asked = fill(template, row.values, roles) if template else row.values.get(question)
        try:
            text = "" if asked is None else _question_text(asked).strip()
        except NotText as error:
            done.unreadable.append((row, str(error)))
            continue
        if not text:
            done.blanks.append(row)
            continue
        failed = next((name for name in used if is_error_cell(row.values.get(name))), None)
        if failed is not None or is_error_cell(asked):
            of = f"{failed} is {row.values[failed]}" if failed is not None else f"a cell is {asked}"
            done.unreadable.append((row, f"{of}, the value of a formula that fails"))
            continue
        cell = plain_truth(row.values.get(truth)) if truth is not None else None
        options = _options_of(row, roles) or options_in(text, cell)
        made.append(QuestionRow(row, text, text, cell, options))
        contexts.append("" if template or context is None else context_text(row.values.get(context)))
    joined = any(contexts) and _needs_context(made, contexts, roles)
    if joined:
        made = [replace(one, text=join_context(one.text, text)) for one, text in zip(made, contexts, strict=True)]
    done.joined = joined
    done.cure = f"write {option} choice_by=number (counted from 1), index (from 0), letter or text"
    done.rows = _with_right_options(made, roles, choice_by, done)
    done.unused = _unused(roles, rows[0].values if rows else {}, template)
    _describe(done, joined=joined, has_context=any(contexts), option=option)
    return done


def plain_truth(cell: Any) -> Any:
    """Return the cell of a right answer, or the texts of its objects; None if it is empty."""
    if isinstance(cell, float) and isnan(cell):
        return None
    if isinstance(cell, Mapping):
        order = sorted(ALIASES, key="aliases".__eq__)  # the right answer itself before its other names
        found = [cell[key] for key in order if cell.get(key) not in (None, "", [])]
        if len(found) > 1 and isinstance(cell.get("aliases"), list):
            texts = [text for one in found for text in (one if isinstance(one, list) else [one])]
            return plain_truth(list(dict.fromkeys(map(cell_text, texts))))
        return plain_truth(found[0]) if found else cell if cell and not cell.keys() & set(ALIASES) else None
    if isinstance(cell, list):
        if not all(isinstance(one, Mapping) for one in cell):
            return cell
        return [plain_truth(one) for one in cell] or None
    return None if isinstance(cell, str) and not cell.strip() else cell


def has_alternatives(cell: Any) -> bool:
    """Return whether any item of the right answers in a cell is right: it is an object with a list of them."""
    return isinstance(cell, Mapping) and any(isinstance(cell.get(key), list) for key in ALIASES)


def _unused(roles: Roles, values: Mapping[str, Any], template: str | None) -> list[str]:
    """Return the columns that have no use: of several contexts, all but the first."""
    used = {find_column(values, name) or roles.get(name) for name in names_in(template or "")}
    contexts = roles.contexts[1:]  # a note says what is done with the first
    return [one for one in (*contexts, *roles.unused) if one not in used]


def join_context(question: str, context: str) -> str:
    """Return a question after the text that it is about."""
    return f"{context}\n\n{question}" if context and context not in question else question


def fill(template: str, values: Mapping[str, Any], roles: Roles | None = None) -> str | None:
    r"""Return a text in which `{name}` is the cell of a column, or of a role's column, and `\n` a new line.

    None if the row has no such cell.
    """
    empty = False

    def cell_of(match: re.Match[str]) -> str:
        nonlocal empty
        name = match[1].strip()
        column = find_column(values, name) or (roles.get(name) if roles is not None else None)
        cell = values.get(column) if column is not None else None
        empty = empty or cell is None
        return context_text(cell)

    found = _PLACEHOLDER.sub(cell_of, template.replace("\\n", "\n"))
    return None if empty else found


def names_in(template: str) -> list[str]:
    """Return the names in the braces of a text."""
    return [name.strip() for name in _PLACEHOLDER.findall(template)]


def context_text(cell: Any, depth: int = 0) -> str:
    """Return the text of a context: of a list, also one that is written as text, the items with blank lines between."""
    if isinstance(cell, str):
        items = parse_list(cell) if depth == 0 else None
        return cell.strip() if items is None else context_text(items, 1)
    if depth > _DEEPEST:
        return ""
    if isinstance(cell, Mapping):
        named = next((cell[key] for key in _TEXT_KEYS if cell.get(key)), None)
        cell = list(cell.values()) if named is None else named
        return context_text(cell, depth + 1)
    if isinstance(cell, list):
        return "\n\n".join(filter(None, (context_text(one, depth + 1) for one in cell)))
    return "" if cell is None else str(cell)


def _options_of(row: Row, roles: Roles) -> Options:
    if roles.options:
        cells = {letter: row.values.get(column) for letter, column in roles.options.items()}
        texts = {letter: cell_text(cell).strip() for letter, cell in cells.items() if cell is not None and cell != ""}
        whole = list(texts) == list(ascii_uppercase[: len(texts)])
        texts = dict(zip(texts, strip_marks(list(texts.values())), strict=True)) if whole else texts
        return texts if len(texts) > 1 else {}
    choices = roles.get(CHOICES)
    return read_options(row.values.get(choices)) if choices is not None else {}


def _needs_context(rows: Sequence[QuestionRow], contexts: Sequence[str], roles: Roles) -> bool:
    """Return whether questions need their contexts: they repeat with other ones, share them, or mention a text."""
    by_question: dict[str, set[str]] = {}
    for one, context in zip(rows, contexts, strict=True):
        by_question.setdefault(one.asked, set()).add(context)
    repeated = any(len(found) > 1 for found in by_question.values())
    if not repeated and all(len(context.split()) < _FEWEST_WORDS for context in contexts):
        return False  # names of files, or of topics
    mentions = sum(bool(_ABOUT_A_TEXT.search(one.asked)) for one in rows)
    is_input = (roles.get(CONTEXT) or "").casefold() == "input"  # beside an instruction, which is nothing without it
    given = [context for context in contexts if context]
    retrieved = fold_name(roles.get(CONTEXT) or "").startswith("retriev")  # what a system found for its answer
    shared = not retrieved and len(given) >= _SHARED * len(set(given)) and len(by_question) > len(set(given))
    return repeated or is_input or shared or mentions > _MENTION * len(rows)


def _with_right_options(
    rows: list[QuestionRow], roles: Roles, choice_by: str | None, done: QuestionRows
) -> list[QuestionRow]:
    """Return the rows with their options, and the right ones, in place."""
    hint = next((way for end, way in _PLACES.items() if fold_name(roles.get(TRUTH) or "").endswith(end)), "")
    truths, options = [one.truth for one in rows], [one.options for one in rows]
    right = find_right_options(truths, options, choice_by, roles.options, hint=hint)
    done.several_right = right.several
    done.problem, done.choice_by = right.problem, right.way
    lost = [
        one.row.where()
        for one, letters in zip(rows, right.letters, strict=True)
        if one.options and one.truth is not None and not letters and not right.problem
    ]
    if lost:
        done.warnings.append(f"the right answer is none of the options, and compared as text, in {_list(lost)}")
    return [
        replace(one, text=join_options(one.text, one.options), right=letters)
        for one, letters in zip(rows, right.letters, strict=True)
    ]


def _describe(done: QuestionRows, *, joined: bool, has_context: bool, option: str) -> None:
    roles = done.roles
    done.notes.append(roles.describe())
    context = roles.get(CONTEXT)
    if joined:
        done.notes.append(f"{context!r} is joined before each question")
    elif has_context:
        cure = f"{option} 'question={{{context}}}\\n\\n{{{roles.columns[QUESTION]}}}' joins it before each question"
        done.notes.append(f"{context!r} is not part of the questions; {cure}")
    if roles.repeated_id:
        done.notes.append(f"{roles.repeated_id!r} repeats for other questions, so it is not their id")
    truth = roles.get(TRUTH)
    grades = [one for one in roles.grades if not (truth and fold_name(one).startswith(_EXPECTED) and _same(one, truth))]
    others = [one for one in roles.grades if one not in grades]
    if truth is not None and others:
        columns = ",".join(f"answer.{_KEY.sub('_', one)}={one}" for one in (truth, *others))
        done.warnings.append(
            f"only {truth!r} is compared; if {', '.join(map(repr, others))} is a right answer too, `karenina check` "
            f"and `run` compare all with --columns {columns}"
        )
    if grades:
        taken = f"{roles.get(TRUTH)!r} is the right answer" if roles.get(TRUTH) else "no column has right answers"
        done.notes.append(f"{', '.join(map(repr, grades))} holds grades, not right answers: {taken}")
    if roles.rivals and truth is None:
        columns = ",".join(f"answer.{_KEY.sub('_', one)}={one}" for one in roles.rivals)
        done.warnings.append(
            f"several columns could hold the right answers: {', '.join(map(repr, roles.rivals))}; name one of them, or "
            f"have `karenina check` and `run` compare all with --columns {columns}"
        )
    elif roles.rivals:
        name = TRUTH if option == "--columns" else "raw_answer"
        cure = f"{option} {quote(f'{name}={roles.rivals[0]}')} takes another one"
        rivals = ", ".join(map(repr, roles.rivals))
        done.warnings.append(f"{roles.get(TRUTH)!r} is the right answer, and not {rivals}; {cure}")
    if roles.get(RESPONSE):
        done.notes.append(f"{roles.columns[RESPONSE]!r} holds answers of a model, which `karenina import` records")
    without = Counter(bool(one.options) for one in done.rows)
    if without[True] and without[False]:
        done.warnings.append(f"{quantity(without[False], 'question')} of {len(done.rows)} without options")
    texts = [text for one in done.rows for text in (one.text, one.truth) if isinstance(text, str)]
    entities = [match[0] for text in texts for match in _ENTITY.finditer(text) if html.unescape(match[0]) != match[0]]
    if entities:
        shown = shorten(", ".join(dict.fromkeys(entities)), _LONGEST)
        done.warnings.append(f"texts have HTML entities, which stay as they are: {shown} ({len(entities)} in all)")


def _same(column: str, other: str) -> bool:
    """Return whether two names begin with the same of the words for a right answer."""
    return any(fold_name(column).startswith(word) and fold_name(other).startswith(word) for word in _EXPECTED)


def _list(places: Iterable[str]) -> str:
    found = list(places)
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
