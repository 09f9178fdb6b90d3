r"""Translates JavaScript regular expressions to patterns for `regex` with the ASCII flag.

In JavaScript, `\d`, `\w` and `\b` are ASCII only, `$` is the very end, `.` does not match four kinds of line breaks,
and `\s` matches Unicode spaces and U+FEFF. Anything that has a different meaning or none in `regex` is rejected: group
references, properties, and modifiers in groups. A character outside the basic multilingual plane is one character in
Python, but two in JavaScript without the flag u. Repetitions that count arbitrary characters are therefore rejected as
well.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from karenina_toolkit.patterns import BadPattern, compile_pattern

SPACE: Final = r"\t\n\x0b\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
r"""The characters that JavaScript's `\s` and `trim()` match, in the form of a class's content."""
_NO_SPACE: Final = (
    r"\x00-\x08\x0e-\x1f\x21-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    r"\u3001-\ufefe\uff00-\U0010ffff"
)
_BREAK: Final = r"\n\r\u2028\u2029"
_ANY: Final = r"(?s:.)"
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_SPECIAL: Final = frozenset(r"\.^$*+?{}[]|()")
_SPECIAL_IN_CLASS: Final = frozenset(r"\]^[-&~|")
_SHOWN: Final = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f", "\v": r"\x0b", "\0": r"\x00", "\b": r"\x08"}
_GROUP: Final = re.compile(r"\((?:\?(?::|=|!|<=|<!|<[A-Za-z_$][\w$]*>))?")
_COUNT: Final = re.compile(r"\{([0-9]{1,6})(?:(,)([0-9]{0,6}))?\}")
_CODE: Final = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")
_LONGEST: Final = 5000
_PLANE: Final = 0xFFFF


class NotTranslated(ValueError):
    """Raised for JavaScript that has no exact equivalent."""


def translate(source: str, flags: str) -> str:
    """Translate a JavaScript regular expression to a pattern for the flag ASCII. If the expression has the flag i, use
    IGNORECASE, too. Raises `NotTranslated` if there is no pattern with exactly the same meaning.
    """
    if len(source) > _LONGEST or not set(flags) <= set("dgimsu") or len(set(flags)) < len(flags) or {*"iu"} <= {*flags}:
        raise NotTranslated(flags)
    pattern = _Pattern(source, flags).translate()
    try:
        compile_pattern(pattern, ["ASCII", "IGNORECASE"] if "i" in flags else ["ASCII"])
    except BadPattern as error:
        raise NotTranslated(source) from error
    return pattern


def escape(text: str, *, any_case: bool = False) -> str:
    """Make a pattern that matches `text` literally. If `any_case` is set, raises `NotTranslated` for letters whose
    other case is not exactly one letter.
    """
    return "".join(_literal(char, any_case=any_case) for char in text)


def _literal(character: str, *, any_case: bool) -> str:
    """Return the pattern for a character. With `any_case`, it contains both cases if IGNORECASE would miss one. Raises
    `NotTranslated` like `escape`.
    """
    cases = {character.lower(), character.upper()}
    if any_case and not character.isascii() and len(cases) > 1:
        if any(len(case) > 1 or {case.lower(), case.upper()} != cases for case in cases) or not _is_paired(character):
            raise NotTranslated(character)
        return f"[{''.join(sorted(cases))}]"
    return f"\\{character}" if character in _SPECIAL else _SHOWN.get(character, character)


def _is_paired(letter: str) -> bool:
    """Return whether a letter is Latin or Cyrillic. In these scripts, a capital belongs to only one small letter."""
    return "\xc0" <= letter <= "\u024f" or "\u0400" <= letter <= "\u04ff"


@dataclass
class _Pattern:
    """Translates a regular expression part by part."""

    source: str
    flags: str
    at: int = 0
    parts: list[str] = field(default_factory=list)
    groups: list[tuple[str, int]] = field(default_factory=list)
    """The open groups, each with the position of its first part."""
    wide: list[bool] = field(default_factory=list)
    """For each part, whether it may match a character outside the basic plane, which JavaScript counts as two."""
    start: int = 0
    """The start of the part that a repetition would repeat."""
    repeatable: bool = False
    """Whether the parts from `start` on may be repeated."""

    def translate(self) -> str:
        """Return the translated pattern. Raises `NotTranslated` if elements are unsupported or incomplete."""
        while self.at < len(self.source):
            self._read_part()
        if self.groups:
            raise NotTranslated(self.source)
        return "".join(self.parts)

    def _add(self, part: str, *, repeatable: bool = True, is_wide: bool = False) -> None:
        """Add a part. If it is `repeatable`, a repetition that follows applies to it. `is_wide` states whether it may
        match a character outside the basic plane.
        """
        self.start = len(self.parts)
        self.parts.append(part)
        self.wide.append(is_wide and "u" not in self.flags)
        self.repeatable = repeatable

    def _read_part(self) -> None:
        """Read and translate one element. Raises `NotTranslated` if it is not supported."""
        character = self.source[self.at]
        if character == "(":
            self._open_group()
            return
        if character in "*+?{" and self._repeat(character):
            return
        self.at += 1
        if character == ")":
            if not self.groups:
                raise NotTranslated(self.source)
            opened, start = self.groups.pop()
            self._add(")", repeatable=opened in ("(", "(?:"))
            self.start = start
        elif character == "|":
            self._add("|", repeatable=False)
        elif character == "^":
            self._add(rf"(?:\A|(?<=[{_BREAK}]))" if "m" in self.flags else r"\A", repeatable=False)
        elif character == "$":
            self._add(rf"(?=[{_BREAK}]|\Z)" if "m" in self.flags else r"\Z", repeatable=False)
        elif character == ".":
            self._add(_ANY if "s" in self.flags else f"[^{_BREAK}]", is_wide=True)
        elif character == "[":
            self._add_class()
        elif character == "\\":
            self._add_escape()
        elif character in "{}]" and "u" in self.flags:
            raise NotTranslated(self.source)
        else:
            self._add_literal(character)

    def _add_literal(self, character: str) -> None:
        """Add a character that matches itself. Raises `NotTranslated` for a surrogate."""
        if 0xD800 <= ord(character) < 0xE000:
            raise NotTranslated(character)
        # Without u, a repetition of a pair of surrogates repeats only its second half.
        self._add(
            _literal(character, any_case="i" in self.flags), repeatable="u" in self.flags or ord(character) <= _PLANE
        )

    def _open_group(self) -> None:
        """Open a group, dropping its name. Raises `NotTranslated` for other kinds of groups and deep nesting."""
        match = _GROUP.match(self.source, self.at)
        if match is None or (match[0] == "(" and self.source.startswith("?", match.end())) or len(self.groups) > 50:
            raise NotTranslated(self.source)
        self.at = match.end()
        opened = "(" if match[0].endswith(">") else match[0]
        self.groups.append((opened, len(self.parts)))
        self._add(opened, repeatable=False)

    def _repeat(self, character: str) -> bool:
        """Translate the repetition that begins with `character`. Returns False if that is a brace that stands for
        itself. Raises `NotTranslated` if there is nothing to repeat, or if JavaScript would count differently.
        """
        counted = _COUNT.match(self.source, self.at)
        if character == "{" and counted is None:
            return False
        if not self.repeatable:
            raise NotTranslated(self.source)
        shown = character if counted is None else counted[0]
        if counted is not None and counted[3] and int(counted[3]) < int(counted[1]):
            raise NotTranslated(self.source)
        if shown in ("*", "+", "{0,}", "{1,}"):
            self.wide[self.start :] = [False] * len(self.wide[self.start :])
        elif shown != "?" and any(self.wide[self.start :]):
            raise NotTranslated(self.source)
        self.at += len(shown)
        if self.source.startswith("?", self.at):
            shown, self.at = f"{shown}?", self.at + 1
        self._add(shown, repeatable=False)
        return True

    def _add_escape(self) -> None:
        """Translate an escape. Its backslash has already been read. Raises `NotTranslated` if it is not supported."""
        name = self.source[self.at : self.at + 1]
        if name and name in "dw":
            self._add(f"\\{name}")
        elif name and name in "DW":
            self._add(f"\\{name}", is_wide=True)
        elif name and name in "bB":
            self._add(f"\\{name}", repeatable=False)
        elif name == "s":
            self._add(f"[{SPACE}]")
        elif name == "S":
            self._add(f"[^{SPACE}]", is_wide=True)
        else:
            self._add_literal(self._read_character())
            return
        self.at += 1

    def _read_character(self) -> str:
        """Read the character of an escape. Its backslash has already been read. Raises `NotTranslated` if the escape is
        not a character.
        """
        code = _CODE.match(self.source, self.at)
        if code is not None:
            number = int(code[1] or code[2] or code[3], 16)
            if (code[3] and "u" not in self.flags) or number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise NotTranslated(self.source)
            self.at = code.end()
            return chr(number)
        name = self.source[self.at : self.at + 1]
        self.at += 1
        if name in _CONTROLS:
            return _CONTROLS[name]
        if name == "0" and not self.source[self.at : self.at + 1].isdigit():
            return "\0"
        if not name or name.isalnum() or name == "_" or not name.isascii():
            raise NotTranslated(self.source)
        return name

    def _add_class(self) -> None:
        """Translate a character class. Its opening bracket has already been read. `[^]` matches any character. Raises
        `NotTranslated` if the class is not closed or is empty.
        """
        negated = self.source.startswith("^", self.at)
        self.at += negated
        items: list[tuple[str, str]] = []  # the character, empty for a set, and its pattern
        while not self.source.startswith("]", self.at):
            if self.at >= len(self.source):
                raise NotTranslated(self.source)
            items.append(self._read_item())
        self.at += 1
        if not items:
            if not negated:
                raise NotTranslated(self.source)
            self._add(_ANY, is_wide=True)
            return
        shown, wide = self._join(items)
        self._add(f"[{'^' if negated else ''}{shown}]", is_wide=negated or wide)

    def _read_item(self) -> tuple[str, str]:
        """Read an item of a class, and return its character (empty for a set) and its pattern. Raises `NotTranslated`
        for surrogates and, without the flag u, for characters outside the basic plane.
        """
        character = self.source[self.at]
        self.at += 1
        if character == "\\":
            name = self.source[self.at : self.at + 1]
            sets = {"s": SPACE, "S": _NO_SPACE, **{letter: f"\\{letter}" for letter in "dDwW"}}
            if name in sets:
                self.at += 1
                return "", sets[name]
            if name == "b":
                self.at += 1
                return "\b", _in_class("\b")
            character = self._read_character()
            if character == "-":  # an escaped hyphen never makes a range
                return character, r"\x2d"
        if 0xD800 <= ord(character) < 0xE000 or (ord(character) > _PLANE and "u" not in self.flags):
            raise NotTranslated(self.source)
        return character, _in_class(character)

    def _join(self, items: list[tuple[str, str]]) -> tuple[str, bool]:
        """Return the items of a class, pairs of a character and its pattern, as one pattern, and whether it matches
        characters outside the basic plane. Raises `NotTranslated` for invalid ranges and, with the flag i, for
        non-ASCII letters.
        """
        shown: list[str] = []
        at = 0
        while at < len(items):
            character, part = items[at]
            is_range = at + 2 < len(items) and items[at + 1] == ("-", r"\-") and self._is_hyphen(items, at)
            last = items[at + 2][0] if is_range else character
            if last < character:
                raise NotTranslated(self.source)
            if "i" in self.flags and _have_case(character, last):
                raise NotTranslated(self.source)
            shown.append(f"{part}-{items[at + 2][1]}" if is_range else part)
            at += 3 if is_range else 1
        return "".join(shown), any(part in (r"\D", r"\W", _NO_SPACE) for _, part in items)

    def _is_hyphen(self, items: list[tuple[str, str]], at: int) -> bool:
        """Return whether the hyphen after the item at `at` is between two characters and forms a range. If it does not
        form a range, raises `NotTranslated` if the flag u is set.
        """
        if items[at][0] and items[at + 2][0]:
            return True
        if "u" in self.flags:
            raise NotTranslated(self.source)
        return False


@cache
def _cased() -> list[int]:
    """Return the code points of all non-ASCII letters that have an upper and a lower case, in order."""
    letters = ((code, chr(code)) for code in range(0x80, _PLANE + 1))
    return [code for code, letter in letters if letter.lower() != letter or letter.upper() != letter]


def _have_case(first: str, last: str) -> bool:
    """Return whether a range contains a non-ASCII letter with case. Returns False if `first` is empty."""
    return bool(first) and bisect_left(_cased(), ord(first)) < bisect_right(_cased(), ord(last))


def _in_class(character: str) -> str:
    """Return the pattern for a character in a character class."""
    return f"\\{character}" if character in _SPECIAL_IN_CLASS else _SHOWN.get(character, character)
