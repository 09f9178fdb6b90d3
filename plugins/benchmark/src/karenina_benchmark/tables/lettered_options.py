"""Options of multiple-choice questions: reading them, adding them to the question, and finding the correct one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

Options = Mapping[str, str]
"""The texts of the options, keyed by letter and in order."""
CHOICE_BY: Final = ("letter", "text", "index", "number")
"""The ways to specify the correct option: by letter, by text, or by position from 0 (`index`) or 1 (`number`)."""

_QUOTED: Final = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_LIST: Final = re.compile(rf"\[\s*{_QUOTED}(?:(?:\s*,\s*|\s+){_QUOTED})*\s*,?\s*\]", re.DOTALL)
_ITEM: Final = re.compile(_QUOTED, re.DOTALL)
_ARRAY: Final = re.compile(r"array\((\[.*\])(?:,\s*dtype=[\w<>']+)?\)", re.DOTALL)
_MARK: Final = re.compile(r"\(?([A-Za-z]|[0-9]{1,2}(?![.:][0-9]))(?:[.):]| \))\s*")
"""Matches the letter or number of an option, but not the beginning of a number or a ratio, such as `1.5` or `1:3`."""
_INNER_MARK: Final = re.compile(r"(?:^|(?<=[\s;,|]))\(?([A-Z](?:[.):]| \))|[a-z] ?\))\s+", re.MULTILINE)
_THOUSANDS: Final = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
"""A comma in a number. In options separated by commas and spaces, it does not separate options."""
_SEPARATORS: Final = ("\n", "|", ";", ",")
_LETTER: Final = re.compile(r"(?:option|choice|answer)?\s*[(\[]?([A-Za-z])[.):\]]*", re.IGNORECASE)
_SEVERAL: Final = re.compile(r"\s*(?:[,;/|&]|\band\b)\s*|\s+")
_ABOUT_OTHERS: Final = re.compile(
    r"(?:all|none|neither|both|either|any)\b.{0,20}\b(?:above|these|those|others?|options|choices|answers)\W*",
    re.IGNORECASE,
)
"""Matches an option about the others, which comes last."""
_LONGEST: Final = 100_000
_FIT: Final = 0.95
"""The share of rows in which the correct answer must be one of the options."""
_FEW: Final = 20
"""If there are fewer rows than this, the correct answer must be an option in all of them."""


@dataclass(frozen=True, slots=True)
class RightOptions:
    """The letters of the correct options in each row, and the `way` in which they were found.

    A row may have no letters. `problem` explains that several ways give different results, and is otherwise empty.
    """

    letters: tuple[tuple[str, ...], ...]
    way: str = ""
    problem: str = ""

    @property
    def several(self) -> bool:
        """Whether any row has several correct options."""
        return any(len(letter) > 1 for letter in self.letters)


def parse_list(text: str) -> list[Any] | None:
    """Parse a list written as text in JSON, Python or NumPy notation, without executing anything. Returns None for any
    other text, and for more than 100,000 characters.
    """
    text = text.strip()
    array = _ARRAY.fullmatch(text) if len(text) < _LONGEST else None
    text = array[1] if array else text
    if not (text.startswith("[") and text.endswith("]")) or len(text) > _LONGEST:
        return None
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        if not _LIST.fullmatch(text):
            return None
        try:
            # One by one, because NumPy writes no commas.
            return [ast.literal_eval(item) for item in _ITEM.findall(text)]
        except (ValueError, SyntaxError):
            return None
    return items if isinstance(items, list) else None


def read_options(cell: Any) -> Options:
    """Return the options in a cell, which is a list, an object or text, by letter, or nothing if they cannot be
    recognized. There must be between two and 26, and none may be empty. Options with other labels than letters get
    letters (see `letter_of_label`).

    An object has letters or numbers as keys, or `text` and `label`. A text is a list written as text, options with
    their own letters, or options separated by line breaks, `|`, `;` or commas.
    """
    if isinstance(cell, Mapping):
        if isinstance(cell.get("text"), list):
            cell = cell["text"]
        else:
            if not _are_labels([_name(key) for key in cell]):
                return {}
            cell = list(cell.values())
    if isinstance(cell, str):
        cell = parse_list(cell) or _split(cell)
    if not isinstance(cell, list):
        return {}
    texts = [_text(option) for option in cell]
    if not 2 <= len(texts) <= len(ascii_uppercase) or not all(texts):
        return {}
    return dict(zip(ascii_uppercase, strip_marks(texts), strict=False))


def mix_options(question: str, cells: Sequence[Any]) -> list[str]:
    """Return the options in cells, of which the first is the correct one, in an order that depends only on their texts
    and the question's. Lists in cells are joined, empty cells are left out, and equal options are one. Options such as
    *All of the above* are last.
    """
    items = [item for cell in cells for item in (cell if isinstance(cell, list) else [cell])]
    texts = [text for item in items if (text := _text(item))]

    def place(text: str) -> tuple[bool, bytes]:
        return _ABOUT_OTHERS.fullmatch(text) is not None, sha256(f"{question}\0{text}".encode()).digest()

    return sorted(dict.fromkeys(texts), key=place)


def letter_of_label(truth: Any, cell: Any) -> Any:
    """Return the letter of the option in `cell` that a correct answer names by its label, for options with labels such
    as 1 to 4, or a list of letters for a list of labels. Any other answer is returned unchanged.

    A `cell` with labels is an object with lists called `text` and `label`, or with labels as keys, or a list of objects
    with a `label`.
    """
    labels = cell.get("label", [*cell]) if isinstance(cell, Mapping) else None
    if isinstance(cell, list):
        labels = [option.get("label") if isinstance(option, Mapping) else None for option in cell]
    if not isinstance(labels, list) or len(labels) != len(read_options(cell)):
        return truth
    letters = {_name(label): letter for label, letter in zip(labels, ascii_uppercase, strict=False)}
    if len(letters) < len(labels):
        return truth
    if isinstance(truth, list):
        return [letters.get(_name(item), item) for item in truth]
    return letters.get(_name(truth), truth)


def _are_labels(keys: Sequence[str]) -> bool:
    """Return whether keys are letters from A, or numbers from 0 or 1, in order."""
    numbers = [str(number) for number in range(len(keys) + 1)]
    return list(keys) in ([*ascii_uppercase[: len(keys)]], numbers[:-1], numbers[1:])


def _name(label: Any) -> str:
    """Return a label in the form in which labels are compared."""
    return str(label).strip().upper()


def _text(item: Any) -> str:
    """Return an option as a string. Null, lists, and objects without text become an empty string."""
    if isinstance(item, Mapping):
        item = next((item[key] for key in ("text", "content", "value") if isinstance(item.get(key), str)), "")
    if isinstance(item, bool) or item is None or isinstance(item, list):
        return "" if item is None or isinstance(item, list) else str(item)
    return str(item).strip()


def strip_marks(texts: Sequence[str]) -> list[str]:
    """Return the options without their own letters or numbers, if all of them have one and they are in order. If an
    option consists only of its letter, nothing is removed.
    """
    marks = [_MARK.match(text) for text in texts]
    letters = [mark[1].upper() for mark in marks if mark is not None]
    orders = (ascii_uppercase, [str(number) for number in range(1, 100)], [str(number) for number in range(100)])
    if len(letters) < len(texts) or not any(letters == list(order[: len(letters)]) for order in orders):
        return list(texts)
    stripped = [text[mark.end() :].strip() for text, mark in zip(texts, marks, strict=True) if mark is not None]
    return stripped if all(stripped) else list(texts)


def _split(text: str) -> list[str]:
    """Split the options in a string at their letters, or at the first separator that works. The list is empty if
    nothing works, or if the text has more than 100,000 characters.
    """
    if len(text) > _LONGEST:
        return []
    found = list(_INNER_MARK.finditer(text))
    for alphabet in (ascii_uppercase, ascii_lowercase):
        marks = [mark for mark in found if mark[1][0] in alphabet]
        letters = "".join(mark[1][0] for mark in marks)
        if len(marks) > 1 and marks[0].start() == 0 and alphabet.startswith(letters):
            ends = [*(mark.start() for mark in marks[1:]), len(text)]
            return [text[mark.end() : end].strip(" \t\r\n;,|") for mark, end in zip(marks, ends, strict=True)]
    for separator in _SEPARATORS:
        kept = _THOUSANDS.sub("\0", text) if separator == "," and ", " in text else text
        parts = [part.strip().replace("\0", ",") for part in kept.split(separator) if part.strip()]
        if len(parts) > 1:
            return parts
    return []


def options_in(question: str, truth: Any) -> Options:
    """Return the options on separate lines of a question's text, by letter. The result is empty if there are fewer than
    two options, or if `truth` is not a letter.
    """
    if not isinstance(truth, str) or not _LETTER.fullmatch(truth.strip()):
        return {}
    options: dict[str, str] = {}
    for line in question.splitlines():
        mark = _MARK.match(line.strip())
        if mark is not None and mark[1] == ascii_uppercase[len(options) : len(options) + 1]:
            options[mark[1]] = line.strip()[mark.end() :]
    return options if len(options) > 1 and all(options.values()) else {}


def join_options(question: str, options: Options) -> str:
    """Return a question with the options, and their letters, added. It is returned unchanged if each option already
    ends one of its later lines, or if the options are just letters.
    """
    ends = [line.rstrip() for line in question.splitlines()]
    if list(options) == list(options.values()):
        return question  # the options are letters, so their texts are in the question itself
    if not options or all(any(line.endswith(text) for line in ends[1:]) for text in options.values()):
        return question
    return "\n".join([question.rstrip(), "", *(f"{letter}. {text}" for letter, text in options.items())])


def find_right_options(
    truths: Sequence[Any],
    options: Sequence[Options],
    choice_by: str | None = None,
    columns: Mapping[str, str] | None = None,
    *,
    hint: str = "",
) -> RightOptions:
    """Return the letters of the correct options in all rows, found in the same way: by letter or text, or by position
    from 0 or 1, unless `choice_by` states the way. It must fit 95% of the rows with options and a ground truth or, of
    fewer than 20, all. If no way does, no row gets letters; if several do with different results, the result has a
    `problem`, unless `hint` (`index` or `number`) decides how to count.

    Rows without options or a ground truth get no letters. `columns` maps letters to the names of the option columns,
    because a correct answer may also be such a name. `choice_by` must be one of `CHOICE_BY`.
    """
    names = {name.casefold(): letter for letter, name in (columns or {}).items()}

    def by_letter_or_text(cell: Any, given: Options) -> tuple[str, ...]:
        return _letters_of(cell, given, names)

    ways: dict[str, Callable[[Any, Options], tuple[str, ...]]] = {
        "letter or text": by_letter_or_text,
        "letter": _by_letter,
        "text": _by_text,
        "index": lambda cell, given: _by_place(cell, given, 0),
        "number": lambda cell, given: _by_place(cell, given, 1),
    }
    tried = [choice_by] if choice_by is not None else ["letter or text", "index", "number"]
    rows = [(cell, option) for cell, option in zip(truths, options, strict=True)]
    counted = [bool(choices) and cell is not None and cell != "" for cell, choices in rows]
    total = sum(counted)
    fitting: dict[tuple[tuple[str, ...], ...], str] = {}
    most = 1
    for way in tried:
        answers = tuple(
            ways[way](cell, choices) if counts else () for (cell, choices), counts in zip(rows, counted, strict=True)
        )
        fits = sum(map(bool, answers))
        if fits > most:  # a way that fits more rows is the one that was meant
            most, fitting = fits, {}
        if fits == most and fits >= (total if total < _FEW else _FIT * total):
            fitting.setdefault(answers, way)
    if set(fitting.values()) == {"index", "number"} and hint:
        fitting = {letters: way for letters, way in fitting.items() if way == hint}
    if len(fitting) == 1:
        ((letters, way),) = fitting.items()
        return RightOptions(letters, way)
    none = RightOptions(((),) * len(rows))
    if not total:
        return none
    if fitting:
        ways_of = " or ".join(fitting.values())
        return RightOptions(none.letters, problem=f"a correct answer could be the {ways_of} of an option")
    return none


def _letters_of(cell: Any, options: Options, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the letters of the options that a cell names by letter, text or column, or nothing if it is ambiguous."""
    readings = {letters for letters in (_by_letter(cell, options), _by_text(cell, options)) if letters}
    named = names.get(str(cell).strip().casefold())
    if named in options:
        readings.add((str(named),))
    return readings.pop() if len(readings) == 1 else ()


def _by_letter(cell: Any, options: Options) -> tuple[str, ...]:
    """Return the letters in a cell, sorted. The result is empty if one of them is not an option's letter."""
    parts = cell if isinstance(cell, list) else parse_list(cell) if isinstance(cell, str) else None
    if parts is None:
        text = str(cell).strip()
        match = _LETTER.fullmatch(text)
        parts = [text] if match else [part for part in _SEVERAL.split(text) if part]
    letters = [match[1].upper() if (match := _LETTER.fullmatch(str(part).strip())) else "" for part in parts]
    return tuple(sorted(set(letters))) if letters and all(letter in options for letter in letters) else ()


def _by_text(cell: Any, options: Options) -> tuple[str, ...]:
    """Return the letters of the options whose texts are in a cell, sorted. The result is empty if a text does not match
    exactly one option.
    """
    parts = cell if isinstance(cell, list) else (parse_list(cell) if isinstance(cell, str) else None) or [cell]
    letters: list[str] = []
    for part in parts:
        text = str(part).strip()
        mark = _MARK.match(text)
        same = {letter for letter, option in options.items() if option.casefold() == text.casefold()}
        if len(same) > 1:
            same = {letter for letter in same if options[letter] == text}
        if not same and mark is not None and mark[1].upper() in options:
            rest = text[mark.end() :].strip().casefold()
            same = {mark[1].upper()} if options[mark[1].upper()].casefold() == rest else set()
        if len(same) != 1:
            return ()
        letters.append(same.pop())
    return tuple(sorted(set(letters)))


def _by_place(cell: Any, options: Options, first: int) -> tuple[str, ...]:
    """Return the letter of the option at the position in a cell, counted from `first`. The result is empty if the cell
    does not contain a valid position.
    """
    cell = cell[0] if isinstance(cell, list) and len(cell) == 1 else cell
    text = str(cell).strip().removesuffix(".0")
    place = int(text) - first if text.isascii() and text.isdecimal() and len(text) < 3 else -1
    letters = list(options)
    return (letters[place],) if not isinstance(cell, bool) and 0 <= place < len(letters) else ()
