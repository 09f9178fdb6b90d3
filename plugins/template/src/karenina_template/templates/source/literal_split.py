"""Split a source into its literals and the rest, without parsing it as Python.

Python's grammar does not depend on the values of literals. Sources with the same rest therefore have the same syntax
tree, except for the values of its constants.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

from karenina_template.templates.class_build_lock import CLASS_BUILD_LOCK
from karenina_toolkit.files.value_limits import find_problem

# The pattern begins with a set of characters, so that other characters are skipped quickly. A text that is not
# terminated is matched up to where it would have to end: matching takes time linear in the length of the source.
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
class LiteralSplit:
    """A source as its literals and comments, and the `rest`, which marks the place and kind of each of them.

    The prefix `r` or `u` of a text belongs to the rest.
    """

    rest: str
    literals: tuple[str, ...]


def split_literals(source: str) -> LiteralSplit | None:
    """Return `source` split; None if it may hold f-strings, bytes or other things that this cannot split safely."""
    if len(source) > _LONGEST or "\0" in source or "\r" in source or not _is_text(source):
        return None
    parts = _PIECE.split(source)
    literals = tuple(parts[1::2])
    parts[1::2] = [_KINDS[literal[0]] for literal in literals]
    rest = "\0".join(parts)
    if any(not _is_prefix(rest, found.start()) for found in _AFTER_A_WORD.finditer(rest)):
        return None
    return LiteralSplit(rest, literals)


def _is_prefix(text: str, end: int) -> bool:
    """Return whether the text before `end` ends with a lone `r` or `u`."""
    return text[end - 1] in "rRuU" and (end == 1 or not (text[end - 2].isalnum() or text[end - 2] == "_"))


def literal_spans(source: str) -> list[tuple[int, int]]:
    """Return start and end of each literal and comment of `source`, in the order of its `LiteralSplit`."""
    return [found.span() for found in _PIECE.finditer(source)]


def prefix_before(source: str, start: int) -> str:
    """Return the prefix (`r` or `u`) of the literal that begins at `start`; empty if it has none."""
    return source[start - 1 : start] if source[start] in "'\"" and source[start - 1 : start].isalpha() else ""


def is_comment(literal: str) -> bool:
    """Return whether it is a comment, which has no effect."""
    return literal[0] == "#"


def literal_value(literal: str, prefix: str = "") -> str | int | float:
    """Return the value of a literal with its `prefix`. Raises `ValueError` if it is not a valid text or number."""
    quote = literal[0]
    if quote in "'\"" and "\\" not in literal:
        width = 3 if literal.startswith(quote * 3) else 1
        if len(literal) < 2 * width or not literal.endswith(quote * width):
            raise ValueError(f"{literal!r:.200} is not terminated")
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
        raise ValueError(f"{literal!r:.200} is neither a text nor a number")
    trouble = find_problem(value)
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
