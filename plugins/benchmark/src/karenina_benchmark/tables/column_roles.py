"""Finds the roles of table columns by their names: the question, its correct answer, its options, and so on.

Only this module contains column names, for `karenina run`, `check`, `draft`, `judge` and `import`. Case, spaces and
punctuation are ignored: `Correct Answer`, `correct_answer` and `correctAnswer` are the same. If names are ambiguous,
the cells decide: a column of grades is not the correct answer if there is another candidate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from string import ascii_uppercase
from typing import Any, Final

from karenina_benchmark.tables.lettered_options import parse_list
from karenina_toolkit.files import is_unnamed
from karenina_toolkit.lazy_patterns import lazy_pattern

QUESTION: Final = "question"
TRUTH: Final = "answer"
CONTEXT: Final = "context"
CHOICES: Final = "choices"
RESPONSE: Final = "response"
MODEL: Final = "model"
ID: Final = "id"
KEYWORDS: Final = "keywords"
REPLICATE: Final = "replicate"
NAMES: Final[Mapping[str, str]] = {
    QUESTION: "the question",
    TRUTH: "the correct answer",
    CONTEXT: "the text that a question is about",
    CHOICES: "the options of a multiple-choice question",
    RESPONSE: "a model's answer",
    MODEL: "the model that answered",
    ID: "the id of a question",
    KEYWORDS: "keywords",
    REPLICATE: "the number of a model's answer",
}
"""The roles of columns, in words for messages."""

_KNOWN: Final[Mapping[str, str]] = {
    QUESTION: (
        "question questions questiontext questionbody questionstem problem problemstatement prompt query userinput "
        "userquery userprompt userquestion instruction instructions inputquestion inputsquestion input inputs "
        "inputtext stem ctx startphrase"
    ),
    CONTEXT: (
        "context contexts passage passages paragraph retrievedcontexts retrievedcontext retrievalcontext "
        "referencecontexts referencecontext evidence evidences article story document documents excerpt support "
        "abstract sourcetext text"
    ),
    CHOICES: ("choices options choice endings candidates answerchoices answeroptions multiplechoices possibleanswers"),
    RESPONSE: (
        "response responses modelresponse modelanswer modeloutput llmresponse llmanswer llmoutput actualoutput "
        "actualanswer prediction predictions predicted predictedanswer generation generatedanswer generatedtext "
        "generatedoutput completion candidateanswer systemanswer botanswer output outputs trace messages"
    ),
    MODEL: "model modelname modelid llm provider",
    ID: "id questionid qid taskid sampleid exampleid itemid uuid uid",
    KEYWORDS: "keywords tags subject category topic",
    REPLICATE: "replicate",
}
_RANKS: Final = {role: {name: rank for rank, name in enumerate(text.split())} for role, text in _KNOWN.items()}
_GENERAL: Final = "gold.*|expected.*|groundtruth.*|correct.*"
"""Names that may also belong to one of several correct answers, such as `expected_risk` and `expected_scope`."""
_TRUTHS: Final = (
    "rawanswer",
    "(best|gold|golden|goldstandard|correct|right|true|expected|reference|groundtruth|ideal|target|standard)answers?",
    "expected(output|response|result|value|completion)?|references?|referenceoutputs?|referenceresponse|groundtruths?",
    "gold|golden|golds|golden(response|output)|gold(label|target|response|output|standard)|ideal|targets?|"
    "(ideal|desired)(output|response)|(target|ground)(text|output|label|truths?)",
    "answerkey|correct(option|choice|response|label|letter|index)?|cop|goldindex|goldidx|answeridx|answerindex",
    _GENERAL,
    "answers?|finalanswers?|finaldecision|shortanswers?|outputanswer|outputsanswer",
    "solution|key",
    "labels?",
    "(must|should)(include|contain|mention)s?(all)?|containsall|(required|expected|musthave)(keywords|terms|phrases)",
)
"""Names for the correct answer, from specific to general."""
_LABELS: Final = ("label", "labels")
_NOT_TRUTH: Final = lazy_pattern(
    r"(score|reason|reasoning|explanation|rationale|comment|notes?|type|source|url|urls|link|context|contexts|count|"
    r"docs?|files?|filenames?|chunks?|ids|skills?|citations?|sources|"
    r"documents?|passages?|evidence|behaviou?r|format|tools?|model|by|correctness|correction|difficulty|level|"
    r"confidence|latency|tokens|grade|rating|accuracy|points|pages?)$|^(reference|gold|expected)id$"
)
_GRADE_NAMES: Final = lazy_pattern(r"correct|labels?")
"""Columns in which yes, no, 1 and 0 are verdicts if there is also a column with a model's answer."""
_MODEL_ANSWERS: Final = ("answer", "answers")
_SAYS_TRUTH: Final = lazy_pattern(r"groundtruths?|reference|expectedanswer|goldanswer|correctanswer|referenceanswer")
_OPTION: Final = lazy_pattern(r"(option|opt|op|choice|ending|alternative|alt|answer|ans)?([a-z]|[0-9]{1,2})")
_ANSWERS: Final = ("answer", "ans")
"""Prefixes of options that require a column for the correct one, because `answer1` alone may be a correct answer."""
_RIGHT_ONE: Final = lazy_pattern(r"(correct|right|key|answerkey|gold|solution).*|answer(index|idx)?")
_WRONG: Final = lazy_pattern(r"(?:(?:incorrect|wrong|false)(?:answer|option|choice)s?|distractors?)([0-9]{1,2})?")
"""Columns with options that are not correct: one for each (with a number), or a list of them."""
_LABEL_OF_OPTION: Final = lazy_pattern(r"[A-Za-z]|[0-9]{1,2}")
_INTEGER: Final = lazy_pattern(r"-?[0-9]{1,18}")
_HIDDEN_LABEL: Final = lazy_pattern(r"labels?|cop|(answer|gold)(index|idx)")
"""Columns in which -1 in all rows means that the answers of a test split are not published."""
_FEWEST_OPTIONS: Final = 2
_WORDS_OF_GRADES: Final = (
    "correct incorrect wrong right pass passed fail failed refusal refused abstain abstained partial partiallycorrect "
    "correctanswer incorrectanswer wronganswer rightanswer notattempted hallucination hallucinated failedtoanswer "
    "good bad acceptable unacceptable success failure error"
)
_GRADES: Final = frozenset(_WORDS_OF_GRADES.split())
_VERDICTS: Final = _GRADES | {"0", "1", "true", "false", "yes", "no", "00", "10"}
_MOST_GRADES: Final = 6
_LINK: Final = lazy_pattern(r"https?://|www\.|doi:|10\.[0-9]{4,}/", re.IGNORECASE)
FIELD_COLUMN: Final = lazy_pattern(r"(answer|gold|description|from)\.([^\W\d]\w*)", re.IGNORECASE)
"""The names of columns about one of several answers: the answer, its description, the known value that fills it."""
_ANSWER_COLUMNS: Final = ("answer", "gold")
_INDICES: Final = frozenset(
    ("", "index", "level0", "indexlevel0", "no", "nr", "num", "number", "row", "rownumber", "sno")
)
_KEY: Final = lazy_pattern(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns of a table by role.

    `columns` contains the column of each role. `options` contains columns by letter, if each option has one. If one of
    them is the column of the correct answer, the others contain the wrong options. `fields`
    contains the columns of several correct answers by name (`answer.gene`, `gold.gene`), `descriptions` those with
    their descriptions (`description.gene`), and `sources` those with the names of the known values that fill them
    (`from.gene`). `contexts` are all context columns, of which the first is in `columns`.

    `grades` are columns that are named like a correct answer but contain verdicts. `unused` are the other columns, and
    `rivals` those of them that are named like a correct answer. `repeated_id` is a column that is named like an id, but
    has the same value for different questions.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    contexts: tuple[str, ...] = ()
    grades: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    repeated_id: str = ""

    def get(self, role: str) -> str | None:
        """Return the column that has the given role, or None."""
        return self.columns.get(role)

    def describe(self) -> str:
        """Describe the roles and their columns on one line, for messages."""
        parts = [f"{role} is {column!r}" for role, column in self.columns.items() if role in NAMES]
        if self.options:
            parts.append(f"options are {', '.join(map(repr, self.options.values()))}")
        if self.fields:
            parts.append(f"answers are {', '.join(map(repr, self.fields.values()))}")
        return ", ".join(parts)


def fold_name(name: str) -> str:
    """Return a column name in lower case, without spaces or punctuation."""
    return _KEY.sub("", name.casefold())


def is_for_answers(name: str) -> bool:
    """Return whether a name is that of a column with correct answers, such as `answerKey`, or with options."""
    return _is_named_truth(name) or fold_name(name) in _RANKS[CHOICES]


def find_role(columns: Iterable[str], role: str) -> str | None:
    """Return the best column for a role by name alone, or None. The role must not be `TRUTH`."""
    ranked = ranked_columns(columns, role)
    return ranked[0] if ranked else None


def choose_roles(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]] = (),
    given: Mapping[str, str] | None = None,
    taken: Collection[str] = (),
) -> Roles:
    """Choose the column for each role by name, except for the user's own choices by role in `given`, among columns that
    are not `taken` for something else. If names are ambiguous, the cells in `rows` decide. A role without a fitting
    column is left out.
    """
    chosen = dict(given or {})
    used = {*chosen.values(), *taken}
    free = [column for column in columns if column not in used]
    named = {column: match for column in columns if (match := FIELD_COLUMN.fullmatch(column))}
    fields = {match[2]: column for column, match in named.items() if match[1].casefold() in _ANSWER_COLUMNS}
    about: dict[str, dict[str, str]] = {"description": {}, "from": {}}
    for column, match in named.items():
        if (kind := match[1].casefold()) in about and match[2] in fields:
            about[kind][match[2]] = column
    descriptions, sources = about.values()
    options = {} if CHOICES in chosen else find_options(free, rows)
    used = {*fields.values(), *descriptions.values(), *sources.values(), *options.values()}
    free = [column for column in free if column not in used]
    if QUESTION not in chosen:
        _take(chosen, free, QUESTION)
    grades: list[str] = []
    rivals: list[str] = []
    if TRUTH not in chosen and not fields:
        has_choices = bool(options) or CHOICES in chosen or find_role(free, CHOICES) is not None
        ahead = columns[: columns.index(chosen[QUESTION])] if chosen.get(QUESTION) in columns else ()
        numbering = [column for column in ahead if not has_choices and column in free and _numbers_items(column, rows)]
        best, grades, rivals = _choose_truth([column for column in free if column not in numbering], rows)
        if numbering and find_role(free, ID) is None:
            chosen.setdefault(ID, numbering[0])
            free.remove(numbering[0])
        if best is not None:
            chosen[TRUTH] = best
            free.remove(best)
    if TRUTH in chosen and CHOICES not in chosen and not options and find_role(free, CHOICES) is None:
        wrong = [] if rivals else _find_wrong_options(free, rows)
        options = dict(zip(ascii_uppercase, [chosen[TRUTH], *wrong] if wrong else (), strict=False))
        free = [column for column in free if column not in wrong]
    free = [column for column in free if column not in grades]
    contexts = [chosen[CONTEXT]] if CONTEXT in chosen else []
    instruction = fold_name(chosen.get(QUESTION, "")).startswith("instruction")
    for column in ranked_columns(free, CONTEXT) + [name for name in free if instruction and fold_name(name) == "input"]:
        contexts.append(column)
        free.remove(column)
    if contexts:
        chosen.setdefault(CONTEXT, contexts[0])
    repeated = find_role(free, ID) if ID not in chosen else None
    if repeated is not None and _identifies(repeated, [chosen.get(QUESTION), *contexts], rows):
        repeated = None
    if repeated is not None:
        free.remove(repeated)
    for role in (CHOICES, RESPONSE, MODEL, ID, KEYWORDS, REPLICATE):
        if role not in chosen and not (role == CHOICES and options):
            _take(chosen, free, role)
    is_unknown = TRUTH not in chosen and not fields and not any(map(_is_named_truth, (*free, *grades)))
    if is_unknown and fold_name(chosen.get(CHOICES, "")) == "possibleanswers":
        chosen[TRUTH] = chosen.pop(CHOICES)  # as in PopQA: without a correct answer, each of them is correct
    if RESPONSE not in chosen and TRUTH in chosen and _SAYS_TRUTH.fullmatch(fold_name(chosen[TRUTH])):
        # In data sets for ragas and similar tools, `answer` next to `ground_truth` is the model's answer.
        response = next((name for name in free if fold_name(name) in _MODEL_ANSWERS and contexts), None)
        if response is not None:
            chosen[RESPONSE] = response
            free.remove(response)
    order = [role for role in NAMES if role in chosen] + [role for role in chosen if role not in NAMES]
    unused = {name for name in free if not (is_index(name, rows) or (is_unnamed(name) and not _has_values(name, rows)))}
    return Roles(
        {role: chosen[role] for role in order},
        options,
        fields,
        descriptions,
        sources,
        tuple(contexts),
        tuple(grades),
        tuple(name for name in columns if name in unused),
        tuple(rival for rival in rivals if rival in unused),
        repeated or "",
    )


def _numbers_items(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column is called `key` and numbers the items, as in IFEval: it contains increasing integers."""
    cells = [str(row.get(column)) for row in rows]
    if fold_name(column) != "key" or len(cells) < 2 or not all(map(_INTEGER.fullmatch, cells)):
        return False
    numbers = [int(cell) for cell in cells]
    return all(first < second for first, second in pairwise(numbers))


def _take(chosen: dict[str, str], free: list[str], role: str) -> None:
    """Move the best column for a role from `free` to `chosen`, changing both. Nothing happens if there is none."""
    column = find_role(free, role)
    if column is not None:
        chosen[role] = column
        free.remove(column)


def _identifies(column: str, of: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column distinguishes rows that differ in the columns `of`: it has more than half as many
    distinct values as there are such rows, or no values at all. Rows without a value are ignored.
    """
    filled = [row for row in rows if row.get(column) is not None]
    different = {tuple(str(row.get(name)) for name in of if name) for row in filled}
    return 2 * len({str(row[column]) for row in filled}) > len(different) or not filled


def ranked_columns(columns: Iterable[str], role: str) -> list[str]:
    """Return the columns whose names fit a role, with the most specific one first. The role must not be `TRUTH`."""
    ranks = _RANKS[role]
    ranked = [
        (ranks[name], place, column) for place, column in enumerate(columns) if (name := fold_name(column)) in ranks
    ]
    return [column for _, _, column in sorted(ranked)]


def _choose_truth(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str | None, list[str], list[str]]:
    """Return the column with the correct answers, the candidates that contain grades, and all other candidates. The
    column is None if there is no candidate, or if there are several and all have general names such as `expected_risk`.
    """
    ranked = [
        (rank, column)
        for column in columns
        if not _NOT_TRUTH.search(name := fold_name(column))
        for rank, names in enumerate(_TRUTHS)
        if re.fullmatch(names, name)
    ]
    names = dict.fromkeys(column for _, column in sorted(ranked, key=lambda entry: entry[0]))
    candidates = [
        column for column in names if not any(test(column, rows) for test in (_has_links, _has_tags, _is_hidden))
    ]
    response = find_role(columns, RESPONSE)
    judged = response is not None and not has_grades(response, rows, _VERDICTS)
    sure = [column for column in candidates if not has_grades(column, rows, _VERDICTS)]
    grades = [
        column
        for column in candidates
        if has_grades(
            column, rows, _VERDICTS if sure or (judged and _GRADE_NAMES.fullmatch(fold_name(column))) else _GRADES
        )
        and (sure or response is not None)
    ]
    left = [column for column in candidates if column not in grades and _has_values(column, rows)]
    specific = _TRUTHS[: _TRUTHS.index(_GENERAL)]
    general = [column for column in left if not any(re.fullmatch(names, fold_name(column)) for names in specific)]
    general = [column for column in general if re.fullmatch(_GENERAL, fold_name(column))]
    if len(general) > 1 and general == left:
        return None, grades, left
    return (left[0] if left else None), grades, left[1:]


def _is_named_truth(column: str) -> bool:
    """Return whether a column is named like a correct answer."""
    return any(re.fullmatch(names, fold_name(column)) for names in _TRUTHS)


def has_grades(column: str, rows: Sequence[Mapping[str, Any]], grades: Collection[str] = _GRADES) -> bool:
    """Return whether a column has from one to six different values, all of them in `grades`. By default, `grades` are
    verdicts such as `correct`. Case, spaces and punctuation are ignored.
    """
    values = {fold_name(str(cell)) for row in rows if (cell := row.get(column)) is not None}
    return bool(values) and len(values) <= _MOST_GRADES and values <= set(grades)


def _has_links(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all cells of a column, such as `reference`, are URLs or DOIs."""
    cells = [cell for row in rows if (cell := row.get(column)) is not None]
    return bool(cells) and all(isinstance(cell, str) and _LINK.match(cell.strip()) for cell in cells)


def _has_tags(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column is called `labels` and contains a list, maybe written as text, or is called `label` and
    contains only lists, of which at least one has several items or none. Such lists are probably topics.
    """
    if fold_name(column) not in _LABELS:
        return False
    cells = [cell for row in rows if (cell := row.get(column)) not in (None, "")]
    are_lists = [isinstance(cell, list) or (isinstance(cell, str) and cell.lstrip().startswith("[")) for cell in cells]
    if fold_name(column) == "labels":
        return any(are_lists)
    if not all(are_lists):
        return False
    lists = [cell if isinstance(cell, list) else parse_list(cell) for cell in cells]
    return any(items is None or len(items) != 1 for items in lists)


def _is_hidden(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column of labels contains -1 in all rows, which stands for answers that are not published."""
    cells = {str(row.get(column)).removesuffix(".0") for row in rows}
    return cells == {"-1"} and _HIDDEN_LABEL.fullmatch(fold_name(column)) is not None


def _has_values(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column has any values. If there are no rows, the result is True."""
    return not rows or any(row.get(column) not in (None, "", [], {}) for row in rows)


def is_index(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column numbers the rows: it contains unique integers, and has no name or a name like `index` or
    `No`.
    """
    if not is_unnamed(column) and fold_name(column) not in _INDICES:
        return False
    cells = [str(row.get(column)).removesuffix(".0") for row in rows]
    return all(cell.isdecimal() for cell in cells) and len(set(cells)) == len(cells)


def find_options(columns: Sequence[str], rows: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    """Return the columns for single options by letter: `A`, `B`; `Option A`; `ending0`, `ending1`. The result is empty
    unless there are at least two in sequence, starting at A, 0 or 1. `answerA`, `answerB` are only options if another
    column says which one is correct; a column `label` does if all its cells in `rows` are letters or numbers, and no
    other column is named like a correct answer.
    """
    truths = [column for column in columns if _is_named_truth(column)]
    has_right_one = any(_RIGHT_ONE.fullmatch(fold_name(column)) for column in columns) or (
        len(truths) == 1 and fold_name(truths[0]) in _LABELS and _names_options(truths[0], rows)
    )
    groups: dict[tuple[str, bool], dict[str, str]] = {}
    for column in columns:
        match = _OPTION.fullmatch(fold_name(column))
        if match is None:
            continue
        word, mark = match[1] or "", match[2]
        if (word or not mark.isdecimal()) and (word not in _ANSWERS or has_right_one):
            groups.setdefault((word, mark.isdecimal()), {}).setdefault(mark, column)
    best: dict[str, str] = {}
    for (_, numbered), by_mark in groups.items():
        marks = list(_series(by_mark, numbered))
        if len(marks) >= _FEWEST_OPTIONS and len(marks) > len(best):
            best = {letter: by_mark[mark] for letter, mark in zip(ascii_uppercase, marks, strict=False)}
    return best


def _find_wrong_options(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns with the options that are not correct, such as `Incorrect Answer 1` and `distractor2`, by
    number. A column without a number, such as `incorrect_answers`, must contain lists.
    """
    found = {column: match[1] for column in columns if (match := _WRONG.fullmatch(fold_name(column)))}
    numbered = sorted((int(number), column) for column, number in found.items() if number)
    if numbered:
        return [column for _, column in numbered]
    return [column for column in found if any(isinstance(row.get(column), list) for row in rows)][:1]


def _names_options(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all cells of a column are letters or numbers of options."""
    cells = [str(cell) for row in rows if (cell := row.get(column)) is not None]
    return bool(cells) and all(map(_LABEL_OF_OPTION.fullmatch, cells))


def _series(by_mark: Mapping[str, str], numbered: bool) -> Iterator[str]:
    """Yield the marks in `by_mark` of consecutive options: a, b, c; or 0, 1, 2; or 1, 2, 3. `numbered` states whether
    the marks are numbers.
    """
    marks = (
        (str(number) for number in range("0" not in by_mark, len(by_mark) + 1))
        if numbered
        else iter(ascii_uppercase.lower())
    )
    for mark in marks:
        if mark not in by_mark:
            return
        yield mark
