"""A source taken apart into its literals and the rest, without reading it as Python.

Python's grammar looks at no literal's value. So sources with the same rest have the same syntax tree but for the values
of its constants, and what was found out about one of them holds for all.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

from karenina_template.templates.building import BUILDING
from karenina_toolkit.value_limits import trouble_in

# It begins with a set of characters, so that what is none of them is passed over at once. A text that does not end is
# taken up to where it would have to: no source takes longer than in proportion to its length.
_PIECE: Final = re.compile(
    r"""( [\#"'.0-9] (?:
      (?<=\#) [^\n]*+
    | (?<=") (?:
          "" [^\\"]*+ (?: (?: \\. | "(?!"") ) [^\\"]*+ )*+ (?: \"\"\" | \\?\Z )
        | (?!"") [^\\"\n]*+ (?: \\. [^\\"\n]*+ )*+ (?: " | (?=\n) | \\?\Z )
      )
    | (?<=') (?:
          '' [^\\']*+ (?: (?: \\. | '(?!'') ) [^\\']*+ )*+ (?: \'\'\' | \\?\Z )
        | (?!'') [^\\'\n]*+ (?: \\. [^\\'\n]*+ )*+ (?: ' | (?=\n) | \\?\Z )
      )
    | (?<![\w.][.0-9]) (?: (?<=[0-9]) | (?<=\.)[0-9] ) (?: [\w.] | (?<=[eE])[+-] )*+
    ))""",
    re.VERBOSE | re.DOTALL,
)
_AFTER_A_WORD: Final = re.compile(r"\0(?<=\w\0)")
_KINDS: Final = {"#": ";", **dict.fromkeys("'\"", "$"), **dict.fromkeys(".0123456789", "%")}
_WHOLE: Final = re.compile(r"0|[1-9][0-9]*")
_FRACTION: Final = re.compile(r"[0-9]+\.[0-9]+")
_LONGEST: Final = 50_000


@dataclass(slots=True)
class Cut:
    """A source without its literals and comments (`rest`, which says where one of which kind stood), and these.

    The `r` or `u` before a text belongs to the rest.
    """

    rest: str
    literals: tuple[str, ...]


def cut(source: str) -> Cut | None:
    """`source` taken apart; None where it holds what this cannot tell apart for sure, such as f-strings and bytes."""
    if len(source) > _LONGEST or "\0" in source or "\r" in source or not _is_text(source):
        return None
    parts = _PIECE.split(source)
    literals = tuple(parts[1::2])
    parts[1::2] = [_KINDS[literal[0]] for literal in literals]
    rest = "\0".join(parts)
    if any(not _is_prefix(rest, found.start()) for found in _AFTER_A_WORD.finditer(rest)):
        return None
    return Cut(rest, literals)


def _is_prefix(text: str, end: int) -> bool:
    """Whether a lone `r` or `u` stands before `end`."""
    return text[end - 1] in "rRuU" and (end == 1 or not (text[end - 2].isalnum() or text[end - 2] == "_"))


def spans(source: str) -> list[tuple[int, int]]:
    """From where to where each literal and comment of a `source` stands, in the order of its `Cut`."""
    return [found.span() for found in _PIECE.finditer(source)]


def prefix_before(source: str, start: int) -> str:
    """The `r` or `u` that belongs to the literal which begins at `start`, or nothing."""
    return source[start - 1 : start] if source[start] in "'\"" and source[start - 1 : start].isalpha() else ""


def is_comment(literal: str) -> bool:
    """Whether it is a comment, which means nothing."""
    return literal[0] == "#"


def value_of_literal(literal: str, prefix: str = "") -> str | int | float:
    """The value of one literal, before which `prefix` stands. Raises `ValueError` where there is none."""
    quote = literal[0]
    if quote in "'\"" and "\\" not in literal:
        width = 3 if literal.startswith(quote * 3) else 1
        if len(literal) < 2 * width or not literal.endswith(quote * width):
            raise ValueError(f"{literal!r:.200} does not end")
        return literal[width:-width]
    if _WHOLE.fullmatch(literal):
        return int(literal)
    if _FRACTION.fullmatch(literal):
        return float(literal)
    try:
        with BUILDING:
            value = ast.literal_eval(prefix + literal)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"{literal!r:.200} is no literal") from error
    if type(value) not in (str, int, float):
        raise ValueError(f"{literal!r:.200} is neither a text nor a number")
    trouble = trouble_in(value)
    if trouble is not None:
        raise ValueError(f"{trouble.what}; {trouble.cure}")
    found: str | int | float = value
    return found


def _is_text(source: str) -> bool:
    if source.isascii():
        return True
    try:
        source.encode()
    except UnicodeEncodeError:
        return False
    return True
