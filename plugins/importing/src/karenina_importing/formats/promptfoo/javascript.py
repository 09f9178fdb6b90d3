"""Translates simple JavaScript in promptfoo assertions to rules about the response, without executing it.

Supported code is `includes`, `startsWith`, `endsWith`, `indexOf` and `===` with strings, regular expressions with
`test` or a compared `match`, a `length` compared with 0, `some` and `every` on an array of strings, and combinations of
these with `!`, `&&`, `||` and parentheses. Constants may contain `output` in lower or upper case or trimmed. Everything
else is left to the user. This includes other lengths, because JavaScript counts an emoji as two characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from karenina_importing.formats.promptfoo.javascript_patterns import SPACE, NotTranslated, escape, translate

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

_LONGEST: Final = 5000
_DEEPEST: Final = 30
_MOST_READ: Final = 50_000
"""The maximum number of characters to read for all items of an array."""
_BLANK: Final = re.compile(r"\s+|//[^\n]*(?:\n|\Z)")
_TEXT: Final = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\$]|\\.)*)`")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "`": "`", "/": "/", ".": "."}
_REGEX: Final = re.compile(r"/((?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/([a-z]*)")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_VARIABLE: Final = re.compile(r"context\.vars(?:\.([A-Za-z_$][\w$]*)|\[\s*(?:'([^'\\]+)'|\"([^\"\\]+)\")\s*\])")
_CASE: Final = re.compile(r"\??\.to(Lower|Upper)Case\(\)")
_TRIM: Final = re.compile(r"\??\.trim\(\)")
_STRING: Final = re.compile(r"\??\.toString\(\)")
_METHOD: Final = re.compile(r"\??\.(includes|startsWith|endsWith|indexOf)\(")
_MATCH: Final = re.compile(r"\??\.match\(")
_MATCHED: Final = re.compile(r"(?:String\(output\)|[\w$]+)(?:\??\.\w+\(\))*\??\.match\(")
_LENGTH: Final = re.compile(r"\??\.length(?![\w$])")
_OF_LIST: Final = re.compile(r"\.(some|every)\(")
_NULL: Final = re.compile(r"null(?![\w$])")
_COMPARED: Final = re.compile(r"(===?|!==?)(?!=)")
_FOUND: Final = re.compile(r"(?:(!==?|>)\s*-1|(>=)\s*0)(?![\w.])")
_NOT_FOUND: Final = re.compile(r"(?:(?:===?|<=)\s*-1|<\s*0)(?![\w.])")
_FILLED: Final = re.compile(r"(?:(?:>|!==?)\s*0|>=\s*1)(?![\w.])")
_EMPTY: Final = re.compile(r"(?:(?:===?|<=)\s*0|<\s*1)(?![\w.])")
_CONSTANT: Final = re.compile(r"(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=(?![=>])")
_RETURN: Final = re.compile(r"return(?![\w$])[ \t]*(?![\s;]|//)")
_ARROW: Final = re.compile(r"\(\s*([A-Za-z_$][\w$]*)\s*\)\s*=>(?!\s*\{)|([A-Za-z_$][\w$]*)\s*=>(?!\s*\{)")
_PARSED: Final = re.compile(
    r"\s*try\s*\{\s*JSON\.parse\(\s*output\s*\);?\s*return\s+true;?\s*\}\s*catch\s*(?:\(\s*\w+\s*\)\s*)?"
    r"\{\s*return\s+false;?\s*\}\s*"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """A condition that holds if a pattern is found in the response. If it is a literal string, `text` is set."""

    pattern: str
    any_case: bool = False
    text: str | None = None


@dataclass(frozen=True, slots=True)
class _Not:
    """The negation of a condition."""

    condition: _Condition


@dataclass(frozen=True, slots=True)
class _All:
    """A condition that holds if all of its parts hold."""

    several: tuple[_Condition, ...]


@dataclass(frozen=True, slots=True)
class _Any:
    """A condition that holds if at least one of several conditions holds."""

    several: tuple[_Condition, ...]


_Condition = _Found | _Not | _All | _Any


@dataclass(frozen=True, slots=True)
class _Output:
    """The response, or a constant that contains the response trimmed or in another case."""

    case: str = ""
    trimmed: bool = False

    def fit(self, text: str) -> str:
        """Return `text` unchanged, or raise `NotTranslated` if this output can never contain it, or if it is empty. A
        text with capital letters, for example, is never in an output in lower case.
        """
        changed = {"lower": text.lower(), "upper": text.upper()}.get(self.case, text)
        if not text or changed != text or (self.trimmed and _strip(text) != text):
            raise NotTranslated(text)
        return text


def read_javascript(code: str, variables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Make the field for a JavaScript assertion, which may refer to `variables` of the test, or return None for code
    that is not supported. The ground truth of a negated assertion is False.
    """
    if len(code) > _LONGEST:
        return None
    code = code.rstrip()
    if _PARSED.fullmatch(code) and "\n" in code:
        return {"verify_with": {"type": "TraceJSON"}}
    try:
        condition = _Reader(code, variables).read()
        negated = False
        while isinstance(condition, _Not):
            condition, negated = condition.condition, not negated
        return {**({"ground_truth": False} if negated else {}), "verify_with": _rule(condition)}
    except NotTranslated:
        return None


def _rule(condition: _Condition) -> dict[str, Any]:
    """Make the rule for a condition, which is `TraceContains` if possible, and otherwise `TraceRegex`."""
    if isinstance(condition, _Found) and condition.text is not None and not condition.any_case:
        return {"type": "TraceContains", "substring": condition.text}  # if case were ignored, it would find ß for ss
    several = condition.several if isinstance(condition, _Any) else (condition,)
    any_case = isinstance(several[0], _Found) and several[0].any_case
    patterns = [part.pattern for part in several if isinstance(part, _Found) and part.any_case is any_case]
    if len(patterns) < len(several):
        pattern, any_case = rf"\A{_look(condition)}", False
    elif len(patterns) == 1:
        pattern = patterns[0]
    else:
        pattern = "|".join(patterns)
    flags = [*(["ASCII"] if any_case or re.search(r"\\[dDwWbB]|\(\?i:", pattern) else []), *["IGNORECASE"] * any_case]
    return {"type": "TraceRegex", "pattern": pattern, **({"flags": flags} if flags else {})}


def _look(condition: _Condition) -> str:
    """Make a lookahead pattern that matches at the start of a response if the condition holds."""
    if isinstance(condition, _Found):
        return rf"(?=[\s\S]*?(?{'i' if condition.any_case else ''}:{condition.pattern}))"
    if isinstance(condition, _Not):
        inner = _look(condition.condition)
        return f"(?!{inner[3:]}" if isinstance(condition.condition, _Found) else f"(?!{inner})"
    parts = map(_look, condition.several)
    return "".join(parts) if isinstance(condition, _All) else f"(?:{'|'.join(parts)})"


def _strip(text: str) -> str:
    """Strip the white space that JavaScript's `trim` removes."""
    return re.sub(rf"\A[{SPACE}]+|[{SPACE}]+\Z", "", text)


@dataclass
class _Reader:
    """A recursive-descent parser for JavaScript conditions."""

    code: str
    variables: Mapping[str, Any]
    at: int = 0
    depth: int = 0
    outputs: dict[str, _Output] = field(default_factory=lambda: {"output": _Output()})
    texts: dict[str, str] = field(default_factory=dict)

    def read(self) -> _Condition:
        """Read the condition that makes up the whole code. Raises `NotTranslated` if it is not supported."""
        self._skip()
        while named := self._take(_CONSTANT):
            self.outputs[named[1]] = self._read_output()
            before = self.code[: self.at]
            if not self._take(";") and "\n" not in before[len(before.rstrip()) :]:
                raise NotTranslated(self.code)
        # promptfoo returns the value of code on one line, and runs several lines as a function body.
        if "\n" in self.code:
            self._need(_RETURN)
        condition = self._read_any()
        while self._take(";"):
            pass
        if self.at < len(self.code):
            raise NotTranslated(self.code)
        return condition

    def _skip(self) -> None:
        while blank := _BLANK.match(self.code, self.at):
            self.at = blank.end()

    def _take(self, token: str | re.Pattern[str]) -> re.Match[str] | None:
        """Return the match of `token` at the current position, and skip it and blanks after it, or return None."""
        pattern = re.compile(re.escape(token)) if isinstance(token, str) else token
        match = pattern.match(self.code, self.at)
        if match is not None:
            self.at = match.end()
            self._skip()
        return match

    def _need(self, token: str | re.Pattern[str]) -> re.Match[str]:
        """Match `token` like `_take`, and return the match. Raises `NotTranslated` if it does not match."""
        match = self._take(token)
        if match is None:
            raise NotTranslated(self.code)
        return match

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Count the block as one more level of nested conditions. Raises `NotTranslated` if there are more than
        `_DEEPEST`.
        """
        self.depth += 1
        if self.depth > _DEEPEST:
            raise NotTranslated(self.code)
        yield
        self.depth -= 1

    def _read_any(self) -> _Condition:
        """Read one or more conditions joined by `||`."""
        with self._deeper():
            several = [self._read_all()]
            while self._take("||"):
                several.append(self._read_all())
        return several[0] if len(several) == 1 else _Any(tuple(several))

    def _read_all(self) -> _Condition:
        """Read one or more conditions joined by `&&`."""
        several = [self._read_one()]
        while self._take("&&"):
            several.append(self._read_one())
        return several[0] if len(several) == 1 else _All(tuple(several))

    def _read_one(self, *, compared: bool = True) -> _Condition:
        """Read a single condition. Raises `NotTranslated` for anything else. Pass `compared=False` after `!`, where a
        comparison is not allowed, because `!` binds more tightly and would only negate its left side.
        """
        with self._deeper():
            if self._take("!"):
                condition = self._read_match() or self._read_one(compared=False)
                return condition.condition if isinstance(condition, _Not) else _Not(condition)
            if self._take("("):
                condition = self._read_any()
                self._need(")")
                return condition
            if self._take("["):
                return self._read_list()
            if self.code.startswith("/", self.at):
                regex = self._need(_REGEX)
                self._need(".test(")
                condition = self._read_regex(regex, self._read_output())
                self._need(")")
                return condition
            matched = self._read_match()
            if matched is not None:
                sign = self._need(_COMPARED)[1]
                self._need(_NULL)
                return matched if sign.startswith("!") else _Not(matched)
            return self._read_call_or_comparison(self._read_output(), compared=compared)

    def _read_match(self) -> _Condition | None:
        """Read `output.match(...)`, which is an array or null in JavaScript. Returns None for any other code."""
        if not _MATCHED.match(self.code, self.at):
            return None
        output = self._read_output()
        self._need(_MATCH)
        condition = self._read_regex(self._need(_REGEX), output)
        self._need(")")
        return condition

    def _look_up(self, values: Mapping[str, T]) -> T:
        """Read the name of a constant and return its value. Raises `NotTranslated` if it is not in `values`."""
        name = self._need(_NAME)[0]
        if name not in values:
            raise NotTranslated(self.code)
        return values[name]

    def _read_output(self) -> _Output:
        """Read the output to test, which is `output` or a constant, with the methods that change it. Raises
        `NotTranslated` for anything else.
        """
        if self._take("String("):
            output = self._read_output()
            self._need(")")
        else:
            output = self._look_up(self.outputs)
        while True:
            if changed := self._take(_CASE):
                output = replace(output, case=changed[1].lower())
            elif self._take(_TRIM):
                output = replace(output, trimmed=True)
            elif not self._take(_STRING):
                return output

    def _read_regex(self, regex: re.Match[str], output: _Output) -> _Condition:
        """Return the condition that a regular expression is found in the response, or raise `NotTranslated`. It is
        raised if a method changes the output first, or if the expression cannot be translated.
        """
        if output != _Output():
            raise NotTranslated(self.code)
        return _Found(translate(regex[1], regex[2]), any_case="i" in regex[2])

    def _read_call_or_comparison(self, output: _Output, *, compared: bool) -> _Condition:
        """Return the condition stated by the method call or comparison that follows an output. With `compared=False`,
        only calls are allowed (see `_read_one`). Raises `NotTranslated` for anything else.
        """
        any_case = bool(output.case)
        blank = f"[{SPACE}]*" if output.trimmed else ""
        if method := self._take(_METHOD):
            text = output.fit(self._read_text())
            self._need(")")
            pattern = escape(text, any_case=any_case)
            if method[1] == "startsWith":
                return _Found(rf"\A{blank}{pattern}", any_case)
            if method[1] == "endsWith":
                return _Found(rf"{pattern}{blank}\Z", any_case)
            condition = _Found(pattern, any_case, text)
            if method[1] == "includes":
                return condition
            if not compared:
                raise NotTranslated(self.code)
            if self._take(_FOUND):
                return condition
            self._need(_NOT_FOUND)
            return _Not(condition)
        if not compared:
            raise NotTranslated(self.code)
        if self._take(_LENGTH):
            filled = _Found(f"[^{SPACE}]" if output.trimmed else r"[\s\S]")
            if self._take(_FILLED):
                return filled
            self._need(_EMPTY)
            return _Not(filled)
        sign = self._need(_COMPARED)[1]
        pattern = escape(output.fit(self._read_text()), any_case=any_case)
        equal = _Found(rf"\A{blank}{pattern}{blank}\Z", any_case)
        return _Not(equal) if sign.startswith("!") else equal

    def _read_list(self) -> _Condition:
        """Read `some` or `every` on an array of strings. The opening bracket has already been read. Raises
        `NotTranslated` for an array within the condition of another array, and for too many or too long items.
        """
        items = [self._read_text()]
        while self._take(","):
            if self.code.startswith("]", self.at):
                break
            items.append(self._read_text())
        self._need("]")
        some = self._need(_OF_LIST)[1] == "some"
        named = self._need(_ARROW)
        name, start = named[1] or named[2], self.at
        too_much = len(items) * (len(self.code) - start) > _MOST_READ
        if too_much or name in self.outputs or self.texts:
            raise NotTranslated(self.code)
        several = []
        for item in items:
            self.at, self.texts[name] = start, item
            several.append(self._read_any())
        del self.texts[name]
        self._need(")")
        return (_Any if some else _All)(tuple(several))

    def _read_text(self) -> str:
        """Read a string, which is a literal, a variable of the test, or an item of an array, and apply the methods that
        follow it and change its case or trim it. Raises `NotTranslated` for anything else, and for variables that are
        not strings.
        """
        if literal := self._take(_TEXT):
            text = _ESCAPE.sub(_unescape, next(group for group in literal.groups() if group is not None))
        elif variable := self._take(_VARIABLE):
            value = self.variables.get(variable[1] or variable[2] or variable[3])
            if not isinstance(value, str):
                raise NotTranslated(self.code)
            text = value
        else:
            text = self._look_up(self.texts)
        while True:
            if changed := self._take(_CASE):
                text = text.lower() if changed[1] == "Lower" else text.upper()
            elif self._take(_TRIM):
                text = _strip(text)
            elif not self._take(_STRING):
                return text


def _unescape(escaped: re.Match[str]) -> str:
    """Return the character for an escape. Raises `NotTranslated` for unknown escapes and surrogates."""
    if escaped[3] is not None:
        if escaped[3] not in _ESCAPES:
            raise NotTranslated(escaped[0])
        return _ESCAPES[escaped[3]]
    character = chr(int(escaped[1] or escaped[2], 16))
    if 0xD800 <= ord(character) < 0xE000:
        raise NotTranslated(escaped[0])
    return character
