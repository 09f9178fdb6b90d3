"""Detects the kind of the correct answers in a column: numbers, dates, yes or no, lists, letters, texts or prose.

A column has one kind if at least 95% of its answers (or all of them if there are fewer than 20) have this kind and the
questions do not contradict it. In any other column, an answer has the kind that is certain from the answer alone, and
is otherwise *text*. The kinds are:

- *number*: numbers in Excel and JSON; 1,234.5, 1.234,5, 1 234, ½, 5e-3, ~5, <5, $5, 5 USD, 5 %, 5 mg, 5 to 10 kg, and
  years. Only in a column of numbers, or after a question such as *how many*: 46 chromosomes, 3rd, 1/2, 5g, 1E10.
- *date*: 2024-01-15, also with the time 00:00:00, Excel dates, 15 January 2024 and the like; 01/02/2024, read with the
  month first unless another answer in the column shows that the day comes first.
- *yes or no*: booleans in Excel and JSON; yes, no, true, false, y and n in a column without other answers whose
  questions are not "what" questions, or after a yes-no question if no such question has another answer; words of other
  languages, such as ja and nein, in a column that has both and no other answers; 1 and 0 in a column that has both and
  only yes-no questions.
- *list*: lists in JSON, Python or NumPy, also as text; items separated by semicolons or line breaks; 1,2,3 or A, C if
  the question offers such options.
- *letter*: B, (b) or B. if the question's text has lettered options.
- *prose*: sentences, texts of more than 12 words, and lists of sentences; all texts in a column in which most texts are
  prose.
- *object*: an object, or a list of objects or lists, which no rule can compare as a whole.
- *text*: everything else: names, F, NO, MAR1, SEPT2, 1E10 among wells, 007, telephone numbers, 1.2.3, months, quarters,
  times of day, 5-10, None.
- *empty*: nothing, N/A, -, ?, null and the like.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from karenina_benchmark.tables.lettered_options import parse_list
from karenina_benchmark.tables.question_wording import (
    asks_a_name,
    asks_a_thing,
    asks_an_amount,
    asks_to_compute,
    asks_true_or_false,
    asks_whether,
    offered_labels,
)
from karenina_template.templates.primitives.date_parser import read_dates
from karenina_template.templates.primitives.quantity_parser import DecimalMark, Quantity, read_quantity
from karenina_template.templates.primitives.units import find_unit
from karenina_toolkit.folding import fold

Kind = Literal["number", "date", "yes or no", "list", "letter", "text", "prose", "object", "read", "empty"]
"""The kind of an answer. *read* stands for answers whose type a primitive reads, such as quantity."""

KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("number", "numeric", "integer", "int", "float", "money", "percent", "year"), "number"),
    "date": "date",
    **dict.fromkeys(("yes or no", "yes/no", "yesno", "boolean", "bool", "true/false", "binary"), "yes or no"),
    **dict.fromkeys(("list", "set"), "list"),
    **dict.fromkeys(("letter", "choice", "mcq", "multiple choice", "multiple_choice"), "letter"),
    **dict.fromkeys(("text", "string", "str", "name", "exact"), "text"),
}
"""The kind for each word that may appear in a column of answer types."""

_FIT: Final = 0.95
_FEW: Final = 20
_BOOLEANS: Final = {"yes": True, "no": False, "true": True, "false": False, "y": True, "n": False}
OTHER_BOOLEANS: Final = {
    **dict.fromkeys(("ja", "oui", "sí", "sì", "sim", "да"), True),
    **dict.fromkeys(("nein", "nee", "nej", "non", "não", "нет"), False),
}
"""Words for yes and no in other languages."""
_DIGITS: Final = {"1": True, "0": False}
_SHORT: Final = {"t": True, "f": False}
_ERRORS: Final = frozenset(
    ("#n/a", "#value!", "#ref!", "#div/0!", "#name?", "#num!", "#null!", "#spill!", "#calc!", "#getting_data")
)
"""The error values of spreadsheet formulas."""
_EMPTY: Final = _ERRORS.union(("", "n/a", "n.a.", "nan", "nat", "<na>", "null", "-", "--", "\u2013", "\u2014", "tbd"))
_TWO_NUMBERS: Final = re.compile(r"([0-9]{1,2})[-/]([0-9]{1,2})[-/][0-9]{4}")
_HAS_TIME: Final = re.compile(r"[0-9]:[0-9]{2}|[0-9]T[0-9]{2}")
_MIDNIGHT: Final = re.compile(r"(?<=[0-9]{4}-[0-9]{2}-[0-9]{2})[T ]00:00:00(?:\.0+)?(?:Z|\+00:00)?")
"""The time of day that pandas and other programs add to a date."""
_ENTITY: Final = re.compile(r"&#?\w{2,8};")
_CODE: Final = re.compile(r"[{}]|\+\+|[=(].*;\s*\Z", re.DOTALL)
"""Signs that a string is code, in which semicolons do not separate items."""
_LETTER: Final = re.compile(r"\(?([A-Za-z])[).:]?(?:\s.*)?", re.DOTALL)
_BETWEEN_PARTS: Final = re.compile(r"[,;/&\n]|\band\b")
_COMMA: Final = re.compile(r"[0-9],[0-9]{1,2}(?![0-9])|\.[0-9]{3},[0-9]")
_POINT: Final = re.compile(r"[0-9]\.[0-9]{1,2}(?![0-9])|[0-9]\.[0-9]{4}|,[0-9]{3}\.[0-9]")
_SHORT_WORDS: Final = re.compile(
    r"\b(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|Jr|Sr|Inc|Ltd|Co|Corp|vs|etc|al|No|ca|approx|spp?|var|e\.g|i\.e)\.", re.IGNORECASE
)
_SENTENCE_END: Final = re.compile(r"[.!?][\"')\]]*(?:\s|$)|[\u3002\uff01\uff1f\uff61\u0964\u061f\u1362]")
_CHARACTERS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CHARACTER: Final = re.compile(f"[{_CHARACTERS}]")
"""A Chinese or Japanese character. They are written without spaces, with about two characters per word."""
_LETTER_WITHOUT_SPACES: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""A letter in Thai, Lao, Burmese or Khmer. They are written without spaces, with about five letters per word."""
_ITEM_WORDS: Final = 8
_CLAUSE: Final = re.compile(f"[{_CHARACTERS}]{{8}}[\uff0c,]|[\uff0c,][{_CHARACTERS}]{{8}}")
"""A comma next to text that is too long to be a list item."""
_MOST_WORDS: Final = 12
_SENTENCE: Final = 6
_SENTENCE_OF_CHARACTERS: Final = 4
_SHORT_SENTENCE: Final = 3
"""Texts with a full stop and at least this many words are sentences, unless they are capitalized like a name."""
_OF_NAMES: Final = "a an and at by da de del der des di do dos du e el en et for in la le of on the to van von y"
_SMALL_WORDS: Final = frozenset(_OF_NAMES.split())
"""Words that are written in lower case in names."""
_MOST_DIGITS: Final = 11
_LONGEST_OBJECT: Final = 100_000


@dataclass(frozen=True, slots=True)
class Cell:
    """A correct answer as written in the file, with its question. `place` is used in messages."""

    value: Any
    question: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A correct answer and its kind. `truth` is a boolean, an ISO 8601 date, a list of strings, or a string.

    An ambiguous date stays as written. `is_certain` means that the kind is clear from the answer alone, without the
    rest of the column. `decimal` is the decimal mark of a number.
    """

    kind: Kind
    truth: Any = None
    is_certain: bool = True
    decimal: DecimalMark = "."
    field_type: str = ""
    """The type of a field whose primitive reads the answer, for the kind *read*."""


@dataclass(frozen=True)
class ColumnKinds:
    """The answers in a column with their kinds. `kind` is the kind of the whole column, or None if there are several.

    `unfit` contains the positions of answers of a different kind.
    """

    answers: tuple[Answer, ...]
    kind: Kind | None = None
    unfit: tuple[int, ...] = ()

    @cached_property
    def counts(self) -> Counter[Kind]:
        """The number of answers of each kind, not counting empty ones."""
        return Counter(answer.kind for answer in self.answers if answer.kind != "empty")


@dataclass(frozen=True, slots=True)
class Marks:
    """The way numbers and dates are written in a column. `day_first` is None if the column does not show it."""

    decimal: DecimalMark
    day_first: bool | None
    code_widths: frozenset[int]
    """The lengths of cells with a leading zero. Other cells with the same number of digits are not numbers either."""


def find_kinds(cells: Sequence[Cell]) -> ColumnKinds:
    """Return the correct answers in a column, read as a single kind if nearly all of them fit it (95% or, of fewer than
    20, all; for yes or no and letters, always all), or else each as its own kind.

    The kinds are described at the top of this module.
    """
    marks = read_marks(cells)
    readings = [_readings(cell, marks) for cell in cells]
    filled = [place for place, cell in enumerate(cells) if not is_empty(cell.value)]
    most = len(filled) if len(filled) < _FEW else math.ceil(_FIT * len(filled))
    kinds: tuple[Kind, ...] = ("yes or no", "letter", "number", "date", "list")
    for kind in kinds:
        fitting = [readings[place][kind] for place in filled if kind in readings[place]]
        needed = len(filled) if kind in ("yes or no", "letter") else most
        if fitting and len(fitting) >= needed and _supports(kind, fitting):
            answers = [reading.get(kind) or _as_text(cell) for cell, reading in zip(cells, readings, strict=True)]
            return ColumnKinds(tuple(answers), kind, tuple(at for at in filled if answers[at].kind != kind))
    if any(asks_whether(cells[at].question) and "yes or no" not in readings[at] for at in filled):
        for at in filled:  # else the type of a field would tell the judge which questions are not answered yes or no
            if not isinstance(cells[at].value, bool):
                readings[at].pop("yes or no", None)
    answers = [_certain_reading(reading) or _as_text(cell) for cell, reading in zip(cells, readings, strict=True)]
    answers = _with_sentences(cells, _without_lists_of_lines(cells, answers))
    found_kinds = {answers[place].kind for place in filled}
    return ColumnKinds(tuple(answers), found_kinds.pop() if len(found_kinds) == 1 else None)


def read_as(kind: Kind, cell: Cell, marks: Marks) -> Answer | None:
    """Read a correct answer as the kind that the user specified, or return None if this is impossible. An empty cell is
    read as *empty*, whatever the kind. `marks` states how the column writes numbers and dates.
    """
    if is_empty(cell.value):
        return Answer("empty")
    if kind == "text":
        return Answer("text", cell_text(cell.value))
    if kind == "list" and isinstance(cell.value, str):
        items = _items(cell.value) or _parts(cell.value)
        return Answer("list", items)
    if kind == "yes or no" and not isinstance(cell.value, bool):
        words = {**_BOOLEANS, **OTHER_BOOLEANS, **_SHORT, **_DIGITS}
        word = cell_text(cell.value).strip().casefold()
        return Answer("yes or no", words[word]) if word in words else None
    if kind == "number":
        quantity = None if isinstance(cell.value, bool) else read_quantity(cell_text(cell.value), marks.decimal)
        return None if quantity is None else Answer("number", cell_text(cell.value).strip(), decimal=marks.decimal)
    return _readings(cell, marks).get(kind)


def is_empty(value: Any) -> bool:
    """Return whether a cell contains no answer: None, an empty list, a number that is not finite, or a placeholder such
    as N/A or #DIV/0!.
    """
    if isinstance(value, str):
        word = fold(value).strip().casefold()
        return word in _EMPTY or not word.strip("?")
    return value is None or value == [] or (isinstance(value, float) and not math.isfinite(value))


def is_other_boolean(value: Any) -> bool:
    """Return whether a cell is a word for yes or no in another language."""
    return isinstance(value, str) and value.strip().casefold().rstrip(".") in OTHER_BOOLEANS


def is_error_cell(value: Any) -> bool:
    """Return whether a cell is a formula's error value, such as #DIV/0!."""
    if not isinstance(value, str) or ("#" not in value and value.isascii()):
        return False
    return fold(value).strip().casefold() in _ERRORS


def cell_text(value: Any) -> str:
    """Return a cell as a string. Floats are rounded to 15 significant digits, as in spreadsheets."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def is_prose(text: str) -> bool:
    """Return whether a string consists of sentences, or is too long for a name (more than 12 words)."""
    words = _count_words(text)
    if words > _MOST_WORDS or _CLAUSE.search(text) is not None:
        return True
    plain = _SHORT_WORDS.sub("", text)
    if _SENTENCE_END.search(plain) is None:
        return False
    fewest = _SENTENCE_OF_CHARACTERS if _CHARACTER.search(text) else _SENTENCE
    return words >= fewest or (words >= _SHORT_SENTENCE and _ends_sentence(plain) and not _is_name(text))


def _ends_sentence(text: str) -> bool:
    """Return whether the text ends like a sentence."""
    return any(match.end() == len(text.rstrip()) for match in _SENTENCE_END.finditer(text.rstrip()))


def _is_name(text: str) -> bool:
    """Return whether all words after the first start like words in a name or are small words such as *of*."""
    words = text.split()[1:]
    return all(word[0].isupper() or word[0].isdigit() or word.casefold() in _SMALL_WORDS for word in words)


def _count_words(text: str) -> int:
    """Count the words in a string. For scripts without spaces, the result is an estimate."""
    spaced, characters = _CHARACTER.subn("", text)
    spaced, letters = _LETTER_WITHOUT_SPACES.subn("", spaced)
    return len(spaced.split()) + characters // 2 + letters // 5


def _supports(kind: Kind, fitting: Sequence[Answer]) -> bool:
    """Return whether the answers that fit a kind show that it was intended, even if not all are certain. At least half
    of them must be certain, or both yes and no must occur.
    """
    certain = sum(answer.is_certain for answer in fitting)
    both = kind == "yes or no" and len({answer.truth for answer in fitting}) == 2
    return both or 2 * certain >= len(fitting)


def _certain_reading(readings: Mapping[Kind, Answer]) -> Answer | None:
    """Return the first certain reading, in a fixed order of kinds, or None."""
    kinds: tuple[Kind, ...] = ("empty", "letter", "yes or no", "list", "date", "number")
    return next((readings[kind] for kind in kinds if kind in readings and readings[kind].is_certain), None)


def _without_lists_of_lines(cells: Sequence[Cell], answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers. Lists that were read from lines become prose if at least as many other texts with several
    lines are prose.
    """
    lined = [at for at, cell in enumerate(cells) if isinstance(cell.value, str) and "\n" in cell.value.strip()]
    lists = [at for at in lined if answers[at].kind == "list" and parse_list(cells[at].value) is None]
    prose = sum(answers[at].kind == "prose" for at in lined)
    if not lists or prose < len(lists):
        return list(answers)
    texts = {at: Answer("prose", cell_text(cells[at].value)) for at in lists}
    return [texts.get(at, answer) for at, answer in enumerate(answers)]


def _with_sentences(cells: Sequence[Cell], answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers that were read from `cells`. All texts, including lists separated by semicolons, become prose
    if more than half of them are.
    """
    split = [answer.kind == "list" and isinstance(cells[at].value, str) for at, answer in enumerate(answers)]
    texts = [
        at
        for at, answer in enumerate(answers)
        if answer.kind in ("text", "prose") or (split[at] and ";" in cells[at].value)
    ]
    prose = sum(answers[at].kind == "prose" for at in texts)
    if 2 * prose <= len(texts):
        return list(answers)
    changed = {at: Answer("prose", cell_text(cells[at].value)) for at in texts}
    return [changed.get(at, answer) for at, answer in enumerate(answers)]


def _as_text(cell: Cell) -> Answer:
    """Return a cell as text, prose or object, without trying other kinds. An empty cell gets the kind *empty*."""
    if is_empty(cell.value):
        return Answer("empty")
    text = cell_text(cell.value)
    if _is_object(cell.value):
        return Answer("object", text)
    return Answer("prose" if is_prose(text) else "text", text)


def _is_object(value: Any) -> bool:
    """Return whether a cell is an object (possibly as JSON text), or a list of objects or lists."""
    if isinstance(value, str):
        if not value.lstrip().startswith("{") or len(value) > _LONGEST_OBJECT:
            return False
        try:
            return isinstance(json.loads(value), dict)
        except (ValueError, RecursionError):
            return False
    return isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value)
    )


def _readings(cell: Cell, marks: Marks) -> dict[Kind, Answer]:
    """Return the possible readings of a cell by kind, except text and prose."""
    value, question = cell.value, cell.question
    if is_empty(value):
        return {"empty": Answer("empty")}
    if isinstance(value, bool):
        return {"yes or no": Answer("yes or no", value)}
    if isinstance(value, int | float):
        text = cell_text(value)
        as_number: dict[Kind, Answer] = {"number": Answer("number", text)}
        boolean = _read_boolean(text, question)
        as_number |= {} if boolean is None else {"yes or no": boolean}
        return {**as_number, "list": Answer("list", [text], is_certain=False)}
    if isinstance(value, list):
        items = _flat_items(value)
        return {"list": Answer("list", items)} if items else {}
    if not isinstance(value, str):
        return {}
    text = value.strip()
    readings = (
        _read_boolean(text, question),
        _read_letter(text, question),
        _read_number(text, question, marks),
        _read_date(text, question, marks.day_first),
        _read_list(text, question),
    )
    return {reading.kind: reading for reading in readings if reading is not None}


def _read_boolean(text: str, question: str) -> Answer | None:
    """Read a string as *yes or no*. Returns None if it is neither, or if the question asks for something else. T and F
    only count after a question with *true or false*, and 1 and 0 only after a yes-no question. Words of other languages
    are never certain, because it is not known whether a question in another language is a yes-no question.
    """
    words = {**_BOOLEANS, **_SHORT} if asks_true_or_false(question) else _BOOLEANS
    word = text.casefold().rstrip(".")
    if word in OTHER_BOOLEANS:
        return Answer("yes or no", OTHER_BOOLEANS[word], is_certain=False)
    if word in _DIGITS and asks_whether(question) and not asks_an_amount(question):
        return Answer("yes or no", _DIGITS[word], is_certain=False)
    if word not in words or asks_a_thing(question):
        return None
    return Answer("yes or no", words[word], asks_whether(question))


def _read_letter(text: str, question: str) -> Answer | None:
    """Read a string as the letter of an option, or return None if the question does not offer this option."""
    match = _LETTER.fullmatch(text)
    labels = offered_labels(question) if match is not None else ()
    if match is None or match[1].upper() not in labels:
        return None
    letter = match[1].upper()
    is_option = len(text) <= 3 or text[len(match[1]) :].lstrip(").: ").casefold() in question.casefold()
    return Answer("letter", letter) if is_option else None


def _read_number(text: str, question: str, marks: Marks) -> Answer | None:
    """Read a string as a number, or return None if it is not a number, names options, or is a code."""
    quantity = read_quantity(text, marks.decimal)
    if quantity is None or asks_a_name(question) or _offered_parts(text, question):
        return None
    is_amount = asks_an_amount(question) or asks_to_compute(question)
    if text.isdecimal() and len(text) in marks.code_widths and not is_amount:
        return None
    is_certain = _is_certain(quantity, text) or asks_an_amount(question)
    return Answer("number", text, is_certain, marks.decimal)


def _is_certain(quantity: Quantity, text: str) -> bool:
    """Return whether a quantity is certainly a number, without looking at the rest of its column. It is uncertain if it
    looks like a code or has an unknown unit.
    """
    if quantity.is_code or sum(map(str.isdigit, text)) > _MOST_DIGITS:
        return False
    if not quantity.unit:
        return True
    is_letter = quantity.touches and len(quantity.unit) == 1 and quantity.unit.isalpha()
    return find_unit(quantity.unit) is not None and not is_letter


def _read_date(text: str, question: str, day_first: bool | None) -> Answer | None:
    """Read a string as a date, converted to ISO 8601. Returns None if the text is not a date, is a number or has a time
    of day other than midnight, or if the question asks for a name. `day_first` decides between two possible dates; if
    it is None, an ambiguous text stays as written.
    """
    text = _MIDNIGHT.sub("", text)
    if text.isdigit() or _HAS_TIME.search(text) or asks_a_name(question):
        return None
    readings = read_dates(text)
    if len(readings) > 1 and day_first is not None:
        readings = readings[1:] if day_first else readings[:1]
    if len(readings) > 1:
        return Answer("date", text)
    return Answer("date", readings[0].at.date().isoformat()) if readings else None


def _read_list(text: str, question: str) -> Answer | None:
    """Read a string as a list, or return None if it may be a sentence, or has commas that may not separate items. A
    text without separators is a list with a single item, which is not certain.
    """
    items = _items(text)
    if items:
        return Answer("list", items)
    parts = _offered_parts(text, question)
    if parts:
        return Answer("list", parts)
    if "," in text or is_prose(text):
        return None
    label = text.strip("() .").upper()
    return Answer("list", [label if label in offered_labels(question) else text], is_certain=False)


def _offered_parts(text: str, question: str) -> list[str]:
    """Return the labels, in capital letters, in a string that names several of the question's options, such as *1, 3*.
    The list is empty for any other text.
    """
    parts = [part.strip("() .").upper() for part in _parts(text)]
    return parts if len(parts) > 1 and set(parts) <= set(offered_labels(question)) else []


def _parts(text: str) -> list[str]:
    """Split a string at commas, *and* and similar separators, and return the parts that are not blank."""
    return [part for piece in _BETWEEN_PARTS.split(text) if (part := piece.strip())]


def _items(text: str) -> list[str]:
    """Split a list that is in brackets, or whose items, of at most 8 words each, are separated by semicolons or line
    breaks, and return its items. The result is empty for other texts, such as sentences and code.
    """
    items = parse_list(text)
    if items is not None:
        return _flat_items(items)
    if _ENTITY.search(text) or _CODE.search(text):
        return []
    separator = ";" if ";" in text else "\n"
    parts = [part.strip().removeprefix("- ").removeprefix("* ").strip() for part in text.split(separator)]
    parts = [part for part in parts if part]
    short = all(_count_words(part) <= _ITEM_WORDS and not is_prose(part) for part in parts)
    clauses = separator == ";" and _ends_sentence(text) and any(_count_words(part) > _SHORT_SENTENCE for part in parts)
    return parts if len(parts) > 1 and short and not clauses else []


def _flat_items(values: Sequence[Any]) -> list[str]:
    """Return the items of a list as strings. The result is empty if an item is not a scalar, or if more than half of
    the items are sentences.
    """
    if not all(isinstance(item, str | int | float) for item in values):
        return []
    items = [cell_text(item).strip() for item in values]
    return items if 2 * sum(map(is_prose, items)) <= len(items) else []


def read_marks(cells: Sequence[Cell]) -> Marks:
    """Determine how a column writes numbers and dates, and how long its numbers with leading zeros are, from all of its
    cells. The decimal mark is only a comma if some numbers have a decimal comma and none has a decimal point.
    `day_first` is None unless dates such as 31.12. decide, all in the same way.
    """
    texts = [cell.value.strip() for cell in cells if isinstance(cell.value, str)]
    numbers = [text for text in texts if read_quantity(text) is not None]
    has_comma = any(_COMMA.search(text) for text in numbers)
    has_point = any(_POINT.search(text) for text in numbers)
    pairs = [(int(match[1]), int(match[2])) for text in texts if (match := _TWO_NUMBERS.fullmatch(text)) is not None]
    codes = frozenset(len(text) for text in texts if len(text) > 1 and text.isdigit() and text.startswith("0"))
    day_first, month_first = any(first > 12 for first, _ in pairs), any(second > 12 for _, second in pairs)
    return Marks("," if has_comma and not has_point else ".", day_first if day_first != month_first else None, codes)
