"""Questions in a table, each with its context, options, correct answer and row."""

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
from types import MappingProxyType
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
    letter_of_label,
    mix_options,
    options_in,
    parse_list,
    read_options,
    strip_marks,
)
from karenina_benchmark.tables.message_texts import NotText, as_text
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
_BYTES: Final = re.compile(r"\[[0-9,]+ bytes\]")
_MENTION: Final = 0.1
"""If more than this share of the questions refer to a text, contexts become part of the questions."""
_SHARED: Final = 1.5
"""If there are at least this many questions per context, contexts become part of the questions."""
_FEWEST_WORDS: Final = 4
"""The minimum number of words in a context. Anything shorter is a name or topic."""
_PLACES: Final = {"index": "index", "idx": "index", "number": "number"}
"""Suffixes of column names that show whether options are counted from 0 or from 1."""
_ENTITY: Final = re.compile(r"&(?:[a-zA-Z]{2,8}|#[0-9]{1,6}|#x[0-9a-fA-F]{1,5});")
ALIASES: Final = ("text", "aliases", "value", "answer")
"""Keys under which an object contains a correct answer or alternatives to it."""
_TEXT_KEYS: Final = ("contexts", "sentences", "evidence_text", "text", "page_content", "content")
"""Keys under which an object contains its text."""
_EXPECTED: Final = ("expected", "gold", "groundtruth", "reference", "target")
_LONGEST: Final = 200
_DEEPEST: Final = 8
_MOST_NAMED: Final = 30
_KEY: Final = re.compile(r"\W+")


_NO_OPTIONS: Final[Options] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question in a table.

    `text` is what a model is asked, which is the question's own text, `asked`, preceded by its context and followed by
    its options. `truth` is the cell with the correct answer as it is in the file (a string, a number, a boolean, a
    list, ...), or None if it is empty. `options` maps letters to options. `right` contains the letters of the correct
    options, if `truth` names any.
    """

    row: Row
    asked: str
    text: str
    truth: Any = None
    options: Options = field(default_factory=lambda: _NO_OPTIONS)
    right: tuple[str, ...] = ()

    def truth_text(self) -> str | None:
        """Return the correct answer as a string, or None. For a multiple-choice question, this consists of the correct
        options with their letters.
        """
        if self.right:
            return "; ".join(f"{letter}. {self.options[letter]}" for letter in self.right)
        if isinstance(self.truth, list) and len(self.truth) == 1:
            return cell_text(self.truth[0])
        return None if self.truth is None else cell_text(self.truth)


@dataclass
class QuestionRows:
    """The questions in a table, the roles of its columns, and messages about how it was read.

    `notes` describes how columns were interpreted. `warnings` lists probable mistakes and how to fix them. `blanks`
    contains the rows without a question.
    """

    roles: Roles
    rows: list[QuestionRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    blanks: list[Row] = field(default_factory=list)
    unreadable: list[tuple[Row, str]] = field(default_factory=list)
    """Rows that cannot be read, because of images, other media or formula errors, each with the reason."""
    unused: list[str] = field(default_factory=list)
    joined: bool = False
    """Whether the contexts are part of the questions."""
    choice_by: str = ""
    """The way in which the correct options were found (`RightOptions.way`)."""
    problem: str = ""
    """The reason why the correct options cannot be found. It is empty if they can."""
    cure: str = ""
    """How to fix the problem."""
    several_right: bool = False
    """Whether any question has several correct options."""


def name_columns(columns: Sequence[str]) -> str:
    """Return the names of columns for a message: the first 30, and the number of further columns."""
    more = f" and {len(columns) - _MOST_NAMED:,} more" if len(columns) > _MOST_NAMED else ""
    return ", ".join(map(repr, columns[:_MOST_NAMED])) + more


def cell_text(cell: Any) -> str:
    """Return a cell as a string. Lists and objects are written as JSON."""
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) if _is_nested(cell) else str(cell)


def _question_text(cell: Any) -> str:
    """Return a question's text, which may consist of messages. Raises `NotText` for anything but text."""
    return as_text(cell) if _is_nested(cell) else cell_text(cell)


def first_part(cell: Any, depth: int = 0) -> str | None:
    """Return the path to the first text in a list or object, such as `0`, `0.content` or `text`, or None. Values of
    `role` and `type` do not count as texts. Lists of messages and content parts have none, because they belong
    together.

    `depth` is the number of lists and objects that enclose the cell. Anything deeper than eight levels is skipped.
    """
    if isinstance(cell, list) and any(isinstance(item, Mapping) and item.keys() & {"role", "type"} for item in cell):
        return None
    items = cell.items() if isinstance(cell, Mapping) else enumerate(cell) if isinstance(cell, list) else ()
    for key, item in items:
        if isinstance(item, str) and item.strip() and key not in ("role", "type"):
            return str(key)
        if depth < _DEEPEST and (inner := first_part(item, depth + 1)) is not None:
            return f"{key}.{inner}"
    return None


def _is_nested(cell: Any) -> bool:
    return isinstance(cell, list | Mapping)


def make_question_rows(
    rows: Sequence[Row], roles: Roles, *, choice_by: str | None = None, option: str = "--columns"
) -> QuestionRows:
    """Make questions from rows, with their options and, if they need them, their contexts. Rows without a question, and
    rows that cannot be read, are not errors, but are listed in `blanks` and `unreadable`. If the correct options cannot
    be found, the result has a `problem`.

    Messages name `option` as the command-line option for mapping columns. `roles.columns[QUESTION]` may be a string
    with column names in braces. For `choice_by`, see `find_right_options`.
    """
    done = QuestionRows(roles)
    question = roles.columns[QUESTION]
    template = question if _PLACEHOLDER.search(question) else None
    truth, context, choices = roles.get(TRUTH), roles.get(CONTEXT), roles.get(CHOICES)
    of_roles = (question, *map(roles.get, (CONTEXT, CHOICES, ID, KEYWORDS)), *roles.options.values())
    used = [name for name in of_roles if name is not None]
    questions: list[QuestionRow] = []
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
            of = f"the column {failed!r}" if failed is not None else "a cell"
            done.unreadable.append(
                (row, f"{of} contains the formula error {row.values[failed] if failed is not None else asked}")
            )
            continue
        cell = plain_truth(row.values.get(truth)) if truth is not None else None
        if any(isinstance(one, str) and _BYTES.fullmatch(one) for one in (asked, cell)):
            done.unreadable.append((row, "the question or its answer consists of bytes that are not text"))
            continue
        if choices is not None and choice_by is None:
            cell = letter_of_label(cell, row.values.get(choices))
        options = _options_of(row, roles, text) or options_in(text, cell) or _NO_OPTIONS
        questions.append(QuestionRow(row, text, text, cell, options))
        contexts.append("" if template or context is None else context_text(row.values.get(context)))
    joined = any(contexts) and _needs_context(questions, contexts, roles)
    if joined:
        questions = [
            replace(row, text=join_context(row.text, text)) for row, text in zip(questions, contexts, strict=True)
        ]
    done.joined = joined
    done.cure = f"add {option} choice_by=number (counted from 1), index (from 0), letter or text"
    done.rows = _with_right_options(questions, roles, choice_by, done)
    done.unused = _unused(roles, rows[0].values if rows else {}, template)
    _describe(done, joined=joined, has_context=any(contexts), option=option)
    return done


def plain_truth(cell: Any) -> Any:
    """Return the cell of a correct answer with objects replaced by their answers, or None if it is empty. If an object
    has a list of aliases, its distinct answers become a list. Otherwise, its first answer is used. An object without
    any of the keys in `ALIASES` is returned unchanged.
    """
    if isinstance(cell, float) and isnan(cell):
        return None
    if isinstance(cell, Mapping):
        order = sorted(ALIASES, key="aliases".__eq__)  # the right answer itself before its other names
        answers = [cell[key] for key in order if cell.get(key) not in (None, "", [])]
        if len(answers) > 1 and isinstance(cell.get("aliases"), list):
            texts = [text for answer in answers for text in (answer if isinstance(answer, list) else [answer])]
            return plain_truth(list(dict.fromkeys(map(cell_text, texts))))
        return plain_truth(answers[0]) if answers else cell if cell and not cell.keys() & set(ALIASES) else None
    if isinstance(cell, list):
        if not all(isinstance(item, Mapping) for item in cell):
            return cell
        return [plain_truth(item) for item in cell] or None
    return None if isinstance(cell, str) and not cell.strip() else cell


def has_alternatives(cell: Any) -> bool:
    """Return whether a cell is an object with a list of alternative answers."""
    return isinstance(cell, Mapping) and any(isinstance(cell.get(key), list) for key in ALIASES)


def _unused(roles: Roles, values: Mapping[str, Any], template: str | None) -> list[str]:
    """Return the unused columns, including all contexts except the first. Columns that the question's `template` refers
    to are omitted, because they are used.
    """
    used = {find_column(values, name) or roles.get(name) for name in names_in(template or "")}
    contexts = roles.contexts[1:]  # a note says whether the first is used
    return [column for column in (*contexts, *roles.unused) if column not in used]


def join_context(question: str, context: str) -> str:
    """Put the context before the question, unless the question already contains it."""
    return f"{context}\n\n{question}" if context and context not in question else question


def fill(template: str, values: Mapping[str, Any], roles: Roles | None = None) -> str | None:
    r"""Return `template` with the text of the row's cell in place of each `{name}`, which is a column or, if there is
    no such column, a role, and a newline in place of `\n`. Returns None if the row has no value for one of the names.
    """
    empty = False

    def cell_of(match: re.Match[str]) -> str:
        """Return the text of the cell in the column that a placeholder names, directly or as a role. If the cell is
        null or missing, set `empty`.
        """
        nonlocal empty
        name = match[1].strip()
        column = find_column(values, name) or (roles.get(name) if roles is not None else None)
        cell = values.get(column) if column is not None else None
        empty = empty or cell is None
        return context_text(cell)

    filled = _PLACEHOLDER.sub(cell_of, template.replace("\\n", "\n"))
    return None if empty else filled


def names_in(template: str) -> list[str]:
    """Return the names in braces in `template`."""
    return [name.strip() for name in _PLACEHOLDER.findall(template)]


def context_text(cell: Any, depth: int = 0) -> str:
    """Return the text of a context, which is a string, a list (also one written as text), or an object. The items of a
    list are separated by blank lines. For an object, the value of its first key in `_TEXT_KEYS` is used, or all values
    if it has none of these keys. Anything deeper than eight levels is skipped.

    `depth` is the number of lists and objects that enclose the cell.
    """
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
        return "\n\n".join(filter(None, (context_text(item, depth + 1) for item in cell)))
    return "" if cell is None else str(cell)


def _options_of(row: Row, roles: Roles, question: str) -> Options:
    """Return the options of a row by letter, or nothing if there are fewer than two. Their order depends on the
    question if one of the columns is that of the correct answer.
    """
    if _mixes_options(roles):
        return read_options(mix_options(question, [row.values.get(column) for column in roles.options.values()]))
    if roles.options:
        cells = {letter: row.values.get(column) for letter, column in roles.options.items()}
        texts = {letter: cell_text(cell).strip() for letter, cell in cells.items() if cell is not None and cell != ""}
        whole = list(texts) == list(ascii_uppercase[: len(texts)])
        texts = dict(zip(texts, strip_marks(list(texts.values())), strict=True)) if whole else texts
        return texts if len(texts) > 1 else {}
    choices = roles.get(CHOICES)
    return read_options(row.values.get(choices)) if choices is not None else {}


def _mixes_options(roles: Roles) -> bool:
    """Return whether the correct option has the same place in all rows, so that its place would give it away."""
    return roles.get(TRUTH) in roles.options.values()


def _needs_context(rows: Sequence[QuestionRow], contexts: Sequence[str], roles: Roles) -> bool:
    """Return whether the questions in a table need their `contexts`: if a question occurs with several, if the column
    is called `input` or, unless all contexts are short, if there are at least 1.5 questions for each and the column
    does not contain retrieved texts, or if more than a tenth of the questions refer to a text.
    """
    by_question: dict[str, set[str]] = {}
    for row, context in zip(rows, contexts, strict=True):
        by_question.setdefault(row.asked, set()).add(context)
    repeated = any(len(distinct) > 1 for distinct in by_question.values())
    is_input = (roles.get(CONTEXT) or "").casefold() == "input"  # belongs to an instruction
    if not repeated and not is_input and all(len(context.split()) < _FEWEST_WORDS for context in contexts):
        return False  # file names or topics
    mentions = sum(bool(_ABOUT_A_TEXT.search(row.asked)) for row in rows)
    filled = [context for context in contexts if context]
    retrieved = fold_name(roles.get(CONTEXT) or "").startswith("retriev")  # what a system found for its answer
    shared = not retrieved and len(filled) >= _SHARED * len(set(filled)) and len(by_question) > len(set(filled))
    return repeated or is_input or shared or mentions > _MENTION * len(rows)


def _with_right_options(
    rows: list[QuestionRow], roles: Roles, choice_by: str | None, done: QuestionRows
) -> list[QuestionRow]:
    """Return the rows with the options added to their texts, and with the letters of the correct ones. `done` records
    how they were found, with a warning about answers that match none of the options.
    """
    hint = next((way for end, way in _PLACES.items() if fold_name(roles.get(TRUTH) or "").endswith(end)), "")
    truths, options = [row.truth for row in rows], [row.options for row in rows]
    if _mixes_options(roles):
        choice_by = "text"
    right = find_right_options(truths, options, choice_by, roles.options, hint=hint)
    done.several_right = right.several
    done.problem, done.choice_by = right.problem, right.way
    lost = [
        row
        for row, letters in zip(rows, right.letters, strict=True)
        if row.options and row.truth is not None and not letters and not right.problem
    ]
    unknown = [row.row.where() for row in lost if any(right.letters) or not _names_an_option(row)]
    if lost and 0 < len(unknown) < len(lost):
        done.warnings.append(
            f"the correct answer matches none of the options in {_first_places(unknown)}, so none of the {len(lost)} "
            "questions with options is compared by its options; correct or remove this answer"
        )
    elif lost:
        done.warnings.append(
            "the correct answer matches none of the options and is compared as text in "
            + _first_places(row.row.where() for row in lost)
        )
    return [
        replace(row, text=join_options(row.text, row.options), right=letters) if row.options else row
        for row, letters in zip(rows, right.letters, strict=True)
    ]


def _names_an_option(row: QuestionRow) -> bool:
    """Return whether the correct answer of a row is the letter or the text of one of its options."""
    return any(find_right_options([row.truth], [row.options], way).letters[0] for way in ("letter", "text"))


def _describe(done: QuestionRows, *, joined: bool, has_context: bool, option: str) -> None:
    """Add notes to `done` about how columns were interpreted, and warnings about columns that may mean something else.
    `joined` and `has_context` state if questions include a context, and `option` is the one that maps columns.
    """
    roles = done.roles
    done.notes.append(roles.describe())
    if _mixes_options(roles):
        done.notes.append("the options of each question are mixed, in an order that depends only on their texts")
    context = roles.get(CONTEXT)
    if joined:
        done.notes.append(f"{context!r} is prepended to each question")
    elif has_context:
        cure = f"{option} 'question={{{context}}}\\n\\n{{{roles.columns[QUESTION]}}}' prepends it to each question"
        done.notes.append(f"{context!r} is not part of the questions; {cure}")
    if roles.repeated_id:
        done.notes.append(
            f"different questions have the same value in {roles.repeated_id!r}, so this column is not used as the "
            "question id"
        )
    truth = roles.get(TRUTH)
    grades = [
        grade
        for grade in roles.grades
        if not (truth and fold_name(grade).startswith(_EXPECTED) and _same(grade, truth))
    ]
    others = [grade for grade in roles.grades if grade not in grades]
    if truth is not None and others:
        columns = ",".join(f"answer.{_KEY.sub('_', column)}={column}" for column in (truth, *others))
        done.warnings.append(
            f"only {truth!r} is compared; if {', '.join(map(repr, others))} also "
            f"contain{'s' * (len(others) == 1)} correct answers, use --columns {columns} with `karenina check` "
            "and `run` to compare all of them"
        )
    if grades:
        taken = (
            f"{roles.get(TRUTH)!r} contains the correct answers"
            if roles.get(TRUTH)
            else "no column contains correct answers"
        )
        done.notes.append(
            f"{', '.join(map(repr, grades))} contain{'s' * (len(grades) == 1)} grades, not correct answers; {taken}"
        )
    if roles.rivals and truth is None:
        columns = ",".join(f"answer.{_KEY.sub('_', rival)}={rival}" for rival in roles.rivals)
        done.warnings.append(
            f"several columns could contain the correct answers: {', '.join(map(repr, roles.rivals))}; choose one "
            f"of them, or use --columns {columns} with `karenina check` and `run` to compare all of them"
        )
    elif roles.rivals:
        name = TRUTH if option == "--columns" else "raw_answer"
        cure = f"to choose another column, add {option} {quote(f'{name}={roles.rivals[0]}')}"
        rivals = ", ".join(map(repr, roles.rivals))
        done.warnings.append(
            f"{roles.get(TRUTH)!r} was chosen as the column with the correct answers, not {rivals}; {cure}"
        )
    if roles.get(RESPONSE):
        done.notes.append(
            f"{roles.columns[RESPONSE]!r} contains model answers; `karenina import` writes recordings of them"
        )
    without = Counter(bool(row.options) for row in done.rows)
    if without[False] and (without[True] or _mixes_options(roles)):
        done.warnings.append(
            f"{without[False]:,} of {quantity(len(done.rows), 'question')} "
            f"{'has' if without[False] == 1 else 'have'} no options"
        )
    texts = [text for row in done.rows for text in (row.text, row.truth) if isinstance(text, str)]
    entities = [match[0] for text in texts for match in _ENTITY.finditer(text) if html.unescape(match[0]) != match[0]]
    if entities:
        shown = shorten(", ".join(dict.fromkeys(entities)), _LONGEST)
        done.warnings.append(
            f"some texts contain HTML entities, which are not decoded: {shown} ({len(entities)} in total)"
        )


def _same(column: str, other: str) -> bool:
    """Return whether two column names start with the same word for a correct answer."""
    return any(fold_name(column).startswith(word) and fold_name(other).startswith(word) for word in _EXPECTED)


def _first_places(places: Iterable[str]) -> str:
    """Return the first three places, and the number of further places."""
    listed = list(places)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
