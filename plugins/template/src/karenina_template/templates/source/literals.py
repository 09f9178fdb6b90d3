"""Splits a template's source into its literals and the remaining code, without parsing it as Python.

This is safe because Python's grammar does not depend on the values of literals: sources with the same remaining code
have the same syntax tree, except for the values of constants.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

from karenina_template.templates.field import CLASS_BUILD_LOCK
from karenina_toolkit.files.json_values import find_problem
from karenina_toolkit.lazy_patterns import lazy_pattern

# The pattern starts with a set of characters, so that other characters are skipped quickly. A string that is not
# terminated is matched up to where it would have to end, so that matching takes linear time. Groups are not possessive
# (`)*+`), because that is broken in Python 3.11 before 3.11.5, which Debian 12 has: it matches for ever.
_PIECE: Final = lazy_pattern(
    r"""( [\#"'.0-9] (?:
      (?<=\#) [^\n]*+
    | (?<=") (?:
          "" [^\\"]*+ (?: (?: \\. | "(?!"") ) [^\\"]*+ )* (?: \"\"\" | \\?\Z )
        | (?!"") [^\\"\n]*+ (?: \\. [^\\"\n]*+ )* (?: " | (?=\n) | \\?\Z )
      )
    | (?<=') (?:
          '' [^\\']*+ (?: (?: \\. | '(?!'') ) [^\\']*+ )* (?: \'\'\' | \\?\Z )
        | (?!'') [^\\'\n]*+ (?: \\. [^\\'\n]*+ )* (?: ' | (?=\n) | \\?\Z )
      )
    | (?<![\w.][.0-9]) (?: (?<=[0-9]) | (?<=\.)[0-9] ) (?: [\w.] | (?<=[eE])[+-] )*
    ))""",
    re.VERBOSE | re.DOTALL,
)
_AFTER_A_WORD: Final = lazy_pattern(r"\0(?<=\w\0)")
_KINDS: Final = {"#": ";", **dict.fromkeys("'\"", "$"), **dict.fromkeys(".0123456789", "%")}
_WHOLE: Final = lazy_pattern(r"0|[1-9][0-9]*")
_FRACTION: Final = lazy_pattern(r"[0-9]+\.[0-9]+")
_LONGEST: Final = 50_000


@dataclass(slots=True)
class LiteralSplit:
    """Source code split into its `literals` (including comments) and the `rest`.

    In the `rest`, each literal or comment is replaced by a mark that shows its kind. A string's prefix `r` or `u` is
    part of the rest.
    """

    rest: str
    literals: tuple[str, ...]


def split_literals(source: str) -> LiteralSplit | None:
    """Return `source` split into its literals, which include comments, and the rest, or None if the source is too long,
    or cannot be split with certainty, for example because of f-strings, bytes or special characters.
    """
    if len(source) > _LONGEST or "\0" in source or "\r" in source or not _is_encodable(source):
        return None
    parts = _PIECE.split(source)
    literals = tuple(parts[1::2])
    parts[1::2] = [_KINDS[literal[0]] for literal in literals]
    rest = "\0".join(parts)
    if any(not _is_prefix(rest, match.start()) for match in _AFTER_A_WORD.finditer(rest)):
        return None
    return LiteralSplit(rest, literals)


def _is_prefix(text: str, end: int) -> bool:
    """Return whether the text before `end` ends with a string prefix `r` or `u`, not with part of a longer name."""
    return text[end - 1] in "rRuU" and (end == 1 or not (text[end - 2].isalnum() or text[end - 2] == "_"))


def literal_spans(source: str) -> list[tuple[int, int]]:
    """Return the start and end of each literal and comment in `source`, in the order of its `LiteralSplit`."""
    return [match.span() for match in _PIECE.finditer(source)]


def prefix_before(source: str, start: int) -> str:
    """Return the prefix (`r` or `u`) of the literal that starts at `start`, or an empty string."""
    return source[start - 1 : start] if source[start] in "'\"" and source[start - 1 : start].isalpha() else ""


def is_comment(literal: str) -> bool:
    """Return whether one of a split's `literals` is a comment, which has no effect."""
    return literal[0] == "#"


def literal_value(literal: str, prefix: str = "") -> str | int | float:
    """Return the value of a string or number literal. `prefix` is that of a string, such as `r`, which decides how
    backslashes are read. Raises `ValueError` for anything else, also for bytes and complex numbers.
    """
    quote = literal[0]
    if quote in "'\"" and "\\" not in literal:
        width = 3 if literal.startswith(quote * 3) else 1
        if len(literal) < 2 * width or not literal.endswith(quote * width):
            raise ValueError(f"the string {literal!r:.200} is not terminated")
        return literal[width:-width]
    if _WHOLE.fullmatch(literal):
        return int(literal)
    if _FRACTION.fullmatch(literal):
        return float(literal)
    try:
        with CLASS_BUILD_LOCK:
            value = ast.literal_eval(prefix + literal)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"{literal!r:.200} is not a literal") from error
    if type(value) not in (str, int, float):
        raise ValueError(f"{literal!r:.200} is neither a string nor a number")
    trouble = find_problem(value)
    if trouble is not None:
        raise ValueError(f"{trouble.what}; {trouble.cure}")
    checked: str | int | float = value
    return checked


def _is_encodable(source: str) -> bool:
    """Return whether the source contains no lone surrogates, so that it can be encoded."""
    if source.isascii():
        return True
    try:
        source.encode()
    except UnicodeEncodeError:
        return False
    return True
