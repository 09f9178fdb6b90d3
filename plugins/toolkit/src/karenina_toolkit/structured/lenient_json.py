r"""Parsing of JSON as judges write it: almost valid, with lost backslashes, and with exact numbers.

The following are accepted because they are unambiguous: a comma after the last entry, or none between entries on
separate lines; line breaks and tabs in a string; single and curly quotes; keys without quotes; `True`, `False` and
`None`; comments; a literal backslash that does not start an escape (`\alpha`). An incomplete object is never accepted.
Neither is a string containing a quote that might be its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from json import JSONDecoder
from typing import Any, Final, NoReturn

from karenina_toolkit.lazy_patterns import lazy_pattern

_LETTERS: Final = {"\f": "f", "\b": "b", "\t": "t", "\n": "n", "\r": "r"}
_COMMANDS: Final = {
    "\t": "tag tan tanh tau tbinom text textbf textit textrm texttt textsf "
    "textup tfrac therefore theta thinspace tilde times to top triangle triangledown triangleleft triangleq "
    "triangleright",
    "\n": "nabla natural ncong ne nearrow neg neq newcommand newline newpage nexists ngeq ngtr ni nicefrac nleftarrow "
    "nleq nless nmid nocite noindent nolimits nonumber not notin nparallel nprec nrightarrow nsim nsubseteq nsucc "
    "nsupseteq nu nwarrow",
    "\r": "raisebox rangle rbrace rbrack rceil ref renewcommand rfloor rgroup rho right rightarrow rightharpoonup "
    "rightleftharpoons risingdotseq rm root rtimes rvert",
}
"""LaTeX and amsmath commands that begin with `t`, `n` or `r`."""
_TEXT: Final = ("ext", "extbf", "extit", "extrm", "exttt", "extsf", "extup")
_AMBIGUOUS: Final = frozenset(
    [
        *("an", "o", "op", "u", "e", "i", "m", "ot", "eg", "ight", "oot", "ear", "less", "mid", "parallel", "sim"),
        *("cong", "angle", "brace", "floor", "group", "times", "vert", *_TEXT),
    ]
)
"""Commands, without their first letter, that may also be a word or the beginning of one.

They only count as commands if mathematics or the end of the text follows.
"""
_SHORTEST_ALONE: Final = 3
_RESTS: Final = {mark: frozenset(name[1:] for name in names.split()) for mark, names in _COMMANDS.items()}
_LOST: Final = lazy_pattern(r"[\b]|\f(?=[A-Za-z])|[\t\n\r](?=(?P<rest>[a-z]+))")
_MATHEMATICS: Final = lazy_pattern(r"[ ]?(?:[\\({\[^_$=<>|)}\d]|[A-Za-z](?![A-Za-z]))|[ ]?[\f\b\t\r]|[ ]\n")
_PATH: Final = lazy_pattern(r"(?<![A-Za-z0-9])[A-Za-z]:(?:[\\\b\f\n\r\t][^\s\\\b:*?\"<>|/]+)+")
_FILE: Final = lazy_pattern(r"[C-Zc-z].*\.\w{1,5}", re.DOTALL)
_LATEX: Final = lazy_pattern(r"\\[A-Za-z]|\$(?:[^$\d\s]|[\t\n\r](?=[a-z]))[^$]*\$")


def restore_backslashes(value: Any) -> Any:
    r"""Return a JSON value with the backslashes restored that a judge forgot to escape in LaTeX commands and Windows
    paths, so that JSON read `\theta` as a tab. Keys of objects are not changed.
    """
    if isinstance(value, str):
        if _LOST.search(value) is None:
            return value
        value = _PATH.sub(_restore_path, value)
        latex = _LATEX.search(value) is not None or any(_is_sure(match) for match in _LOST.finditer(value))
        return _LOST.sub(
            lambda match: "\\" + _LETTERS[match[0]] if _is_sure(match) or _is_likely(match, latex) else match[0], value
        )
    if isinstance(value, dict):
        return {key: restore_backslashes(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [restore_backslashes(inner) for inner in value]
    return value


def _is_sure(match: re.Match[str]) -> bool:
    """Return whether a control character and the letters after it are certainly a LaTeX command that lost its
    backslash.
    """
    rest, after = match["rest"], _after(match)
    if rest is None:
        return after.isascii() and after.isalpha()
    if rest not in _RESTS[match[0]] or (after.isascii() and after.isalpha()):
        return False
    before = match.string[match.start() - 1 : match.start()]
    if after == "{" or match[0] == "\r" or (before and before in "^_{"):
        return True
    if before == " " and _is_before_mathematics(match):
        return match[0] == "\t" or rest == "e" or rest not in _AMBIGUOUS
    return len(rest) >= _SHORTEST_ALONE and rest not in _AMBIGUOUS


def _is_likely(match: re.Match[str], latex: bool) -> bool:
    """Return whether a control character and the letters after it are probably a LaTeX command that lost its backslash.
    `latex` states whether the text contains other LaTeX.
    """
    text, rest, after = match.string, match["rest"], _after(match)
    if rest is None:
        return latex
    if rest not in _RESTS[match[0]] or (after.isascii() and after.isalpha()):
        return False
    if not after and not text[: match.start()].strip():
        return rest not in _TEXT
    mathematics = not after or _is_before_mathematics(match)
    if match.start() == 0:
        return mathematics or (latex and rest not in _TEXT)
    return latex and (mathematics or rest not in _AMBIGUOUS)


def _is_before_mathematics(match: re.Match[str]) -> bool:
    """Return whether a possible command is followed by mathematics, such as a brace, operator or single letter. The
    command consists of the match and the lookahead group `rest`, which must not be None.
    """
    return _MATHEMATICS.match(match.string, match.end() + len(match["rest"])) is not None


def _restore_path(match: re.Match[str]) -> str:
    """Return a Windows path with its backslashes restored, unless it may just be text with line breaks or tabs."""
    path = match[0]
    if set(path) & set("\\\b\f\r") or {"\n", "\t"} <= set(path) or _FILE.fullmatch(path):
        return re.sub(r"[\b\f\n\r\t]", lambda mark: "\\" + _LETTERS[mark[0]], path)
    return path


def _after(match: re.Match[str]) -> str:
    """Return the character after a possible command, or an empty string at the end of the text. The command consists of
    the match and the lookahead group `rest`, which may be None.
    """
    end = match.end() + len(match["rest"] or "")
    return match.string[end : end + 1]


Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]
Number = Callable[[str], Any]

_SPACE: Final = lazy_pattern(r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER: Final = lazy_pattern(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_NAME: Final = lazy_pattern(r"[A-Za-z_][\w-]*")
_STRINGS: Final = {
    quote: lazy_pattern(rf"{quote}(?:\\.|[^\\{closing}])*{closing}", re.DOTALL)
    for quote, closing in (('"', '"'), ("'", "'"), ("\u201c", "\u201d"))
}
_ESCAPED: Final = lazy_pattern(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|\"", re.DOTALL)
_ESCAPES: Final = '"\\/bfnrt'
_WITH_LINE_BREAKS: Final = JSONDecoder(strict=False)
_WORDS: Final[dict[str, bool | None]] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
    "TRUE": True,
    "FALSE": False,
    "NULL": None,
}


class LenientReader:
    """A lenient JSON reader. `pairs` builds an object from its entries, and `number` builds a number from its text."""

    def __init__(self, pairs: Pairs, number: Number) -> None:
        self._pairs = pairs
        self._number = number

    def object_at(self, text: str, at: int) -> tuple[dict[str, Any], int]:
        """Read the object at index `at`, which must be a brace. Return it with the index of its end. Raises
        `ValueError`, with the line and column, if it cannot be read, and `RecursionError` if it is nested too deeply.
        """
        entries: list[tuple[str, Any]] = []
        at = _after_space(text, at + 1)
        while not text.startswith("}", at):
            key, at = self._key(text, at)
            at = _after_space(text, at)
            if not text.startswith(":", at):
                _refuse("':' expected after a key", text, at)
            value, at = self._value(text, _after_space(text, at + 1))
            entries.append((key, value))
            at = self._next_entry(text, at, "}")
        return self._pairs(entries), at + 1

    def _list_at(self, text: str, at: int) -> tuple[list[Any], int]:
        """Read the list at index `at`. Return it with the index of its end. Raises `ValueError`, with the line and
        column, if it cannot be read, and `RecursionError` if it is nested too deeply.
        """
        entries: list[Any] = []
        at = _after_space(text, at + 1)
        while not text.startswith("]", at):
            value, at = self._value(text, at)
            entries.append(value)
            at = self._next_entry(text, at, "]")
        return entries, at + 1

    def _next_entry(self, text: str, at: int, end: str) -> int:
        """Return the index of the next entry or of the closing bracket `end`. Entries are separated by a comma or line
        break. Raises `ValueError` if there is neither a separator nor `end`.
        """
        after = _after_space(text, at)
        if text.startswith(",", after):
            return _after_space(text, after + 1)
        # Entries on separate lines are distinct without a comma.
        if not text.startswith(end, after) and "\n" not in text[at:after]:
            _refuse(f"',' or '{end}' expected", text, after)
        return after

    def _key(self, text: str, at: int) -> tuple[str, int]:
        """Read the key at index `at`, with or without quotes. Return it with the index of its end. Raises `ValueError`
        if there is no key.
        """
        if text[at : at + 1] in _STRINGS:
            return _read_string(text, at)
        name = _NAME.match(text, at)
        if name is None:
            _refuse("a key expected", text, at)
        return name[0], name.end()

    def _value(self, text: str, at: int) -> tuple[Any, int]:
        """Read the value at index `at`. Return it with the index of its end. Raises `ValueError`, with the line and
        column, if it cannot be read, and `RecursionError` if it is nested too deeply.
        """
        first = text[at : at + 1]
        if first == "{":
            return self.object_at(text, at)
        if first == "[":
            return self._list_at(text, at)
        if first in _STRINGS:
            return _read_string(text, at)
        number = _NUMBER.match(text, at)
        if number is not None:
            return self._number(number[0]), number.end()
        name = _NAME.match(text, at)
        if name is None or name[0] not in _WORDS:
            _refuse("a value expected", text, at)
        return _WORDS[name[0]], name.end()


def _after_space(text: str, at: int) -> int:
    """Return the index after any whitespace and comments at index `at`."""
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at


def _read_string(text: str, at: int) -> tuple[str, int]:
    """Read the string at index `at`, in any kind of quotes. Return it with the index of its end. Raises `ValueError` if
    the string does not end or contains an invalid escape.
    """
    match = _STRINGS[text[at]].match(text, at)
    if match is None:
        _refuse("a string that does not end", text, at)
    inner = _ESCAPED.sub(_in_double_quotes, match[0][1:-1])
    try:
        return str(_WITH_LINE_BREAKS.decode(f'"{inner}"')), match.end()
    except ValueError as error:
        _refuse(str(error).split(":", 1)[0], text, at)


def _in_double_quotes(match: re.Match[str]) -> str:
    """Convert a quote or escape sequence from a string in other quotes to the form required in double quotes."""
    escaped = match[1]
    if escaped is None:
        return r"\""
    if escaped[0] == "x" and len(escaped) > 1:
        return rf"\u00{escaped[1:]}"
    if escaped in "'\u201c\u201d":
        return escaped
    return match[0] if escaped in _ESCAPES or len(escaped) > 1 else "\\" + match[0]


def _refuse(why: str, text: str, at: int) -> NoReturn:
    """Raise `ValueError` with the reason, and the line and column of index `at`."""
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    raise ValueError(f"{why}, line {line} column {column}")


class WrittenFloat(float):
    """A float that keeps its original text in `written`, for conversion to Decimal and str."""

    written: str

    def __new__(cls, written: str | float) -> WrittenFloat:
        """Create a float from its text."""
        number = super().__new__(cls, written)
        number.written = str(written)
        return number


def read_float(text: str) -> float:
    """Parse a JSON number. Return a `WrittenFloat` if a plain float would be printed differently. Raises `ValueError`
    if the exponent is out of range for Decimal.
    """
    number = float(text)
    if repr(number) == text:
        return number
    try:
        Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the number {text[:40]} is out of range") from None
    return WrittenFloat(text)


def restore_digits(given: object, read: object) -> object:
    """Return `read`, which pydantic converted from `given`, with the digits restored that the conversion lost. In a
    float field, an integer that a float cannot represent, beyond 2**53, stays an int. A Decimal is created from the
    original text. Nested models are not searched.
    """
    if isinstance(read, float):
        return given if type(given) is int and given != read and _rounds_to(given, read) else read
    if isinstance(read, Decimal):
        return Decimal(given.written) if isinstance(given, WrittenFloat) and float(read) == given else read
    if isinstance(read, list | tuple) and isinstance(given, list) and len(read) == len(given):
        return type(read)(map(restore_digits, given, read)) if type(read) in (list, tuple) else read
    if type(read) is dict and isinstance(given, dict) and len(read) == len(given):
        return {key: restore_digits(one, other) for one, (key, other) in zip(given.values(), read.items(), strict=True)}
    return read


def _rounds_to(given: int, read: float) -> bool:
    """Return whether `read` is the float nearest to `given`. For huge integers, that is infinity."""
    try:
        return float(given) == read
    except OverflowError:
        return read in (float("inf"), float("-inf"))


def number_text(number: float) -> str:
    """Return a number from a judge's JSON exactly as it was written."""
    return number.written if isinstance(number, WrittenFloat) else str(number)
