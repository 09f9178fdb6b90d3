"""Splits mathematical text, in LaTeX or plain, into tokens."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from karenina_toolkit.lazy_patterns import lazy_pattern

LONGEST: Final = 2_000
DEEPEST: Final = 60
FUNCTIONS: Final = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "ln",
        "log",
        "lg",
        "exp",
        "cis",
        "sqrt",
        "abs",
        "floor",
        "ceil",
    ]
)
GREEK: Final = frozenset(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Pi",
        "Sigma",
        "Upsilon",
        "Phi",
        "Psi",
        "Omega",
    ]
)
_GREEK_LETTERS: Final = {
    unicodedata.lookup(
        f"GREEK {'SMALL' if name.islower() else 'CAPITAL'} LETTER {name.lower().replace('lambda', 'lamda')}"
    ): name
    for name in GREEK
    if not name.startswith("var")
}
_SAME: Final = {
    "\u2212": "-", "\u2013": "-", "\u00d7": r"\times ", "·": "*", "⋅": "*", "÷": "/", "\u2215": "/",
    "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
    "+/-": r"\pm ", "π": r"\pi ", "∞": r"\infty ", "±": r"\pm ", "∓": r"\mp ", "\u222a": r"\cup ", "∩": r"\cap ",
    "∅": r"\emptyset ", "\u211d": r"\mathbb{R}", "°": r"^\circ ", "√": r"\sqrt ", "∈": r"\in ",
    "½": r"\frac12 ", "⅓": r"\frac13 ",
    "⅔": r"\frac23 ", "¼": r"\frac14 ", "¾": r"\frac34 ", "⅕": r"\frac15 ", "⅙": r"\frac16 ", "⅛": r"\frac18 ",
    ">=": r"\ge ", "<=": r"\le ", " !=": r" \ne ", "**": "^", r"\%": "%", r"\$": "",
    r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lvert": "|", r"\rvert": "|", r"\vert": "|",
    **{letter: f"\\{name} " for letter, name in _GREEK_LETTERS.items()},
}  # fmt: skip
_RAISED: Final = {letter: str(digit) for digit, letter in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {"⁻": "-"}
_LOWERED: Final = {letter: str(digit) for digit, letter in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_STYLE: Final = lazy_pattern(
    r"\\(?:left|right|bigl?|bigr|Bigl?|Bigr|displaystyle|limits|quad|qquad|rm|bf)(?![A-Za-z])\.?|(?<!\\)\\[;:! ]|~"
)
_WRAPPED: Final = lazy_pattern(r"\\(?:mathbf|mathrm|mathit|boldsymbol|mathsf|operatorname|bm)\s*\{([^{}]*)\}")
_BOLD: Final = lazy_pattern(
    r"\\(?:mathbf|boldsymbol|bm)\s*(?:\{\s*([A-Z]{2,3}|[A-Za-z]|\\[A-Za-z]+)\s*\}|([A-Za-z])\b)"
)
_NAME: Final = lazy_pattern(
    r"(?:\\(?:text|textrm|mathrm|mathsf|operatorname)\s*\{\s*([A-Za-z]{2,8})\s*\}|(?<![\w\\{])([A-Z][a-z]{2,7}))"
    r"(?=\s*(?:\\left|\\[Bb]igg?l?)?\s*[(\[])"
)
"""A name of several letters before a bracket: *\\text{Var}(X)*."""
_TEXT: Final = lazy_pattern(r"\\(?:text|textbf|textit|textrm|mbox|mathrm)\s*\{([^{}]*)\}")
_DEGREES: Final = lazy_pattern(r"\^\s*\{\s*\\circ\s*\}")
_PERCENT: Final = lazy_pattern(r"(?<=[\d})])\s*\bper ?cent\b")
_ROWS: Final = lazy_pattern(r"\[((?:[^][(){};,]+,)+[^][(){};,]+(?:;(?:[^][(){};,]+,)+[^][(){};,]+)+)\]")
_TURNED: Final = lazy_pattern(
    r"(\[|(?:(?<=\\c[au]p)|(?<=\\in)|(?<![\w)}\]'!%]))\])([^][(){};,]+[;,][^][(){};,]+)"
    r"(\]|\[(?=\s|\Z|[,;.)}]|\\c[au]p|\\setminus|\\backslash))"
)
"""An interval whose brackets may be turned outwards, as in *]0, 1[*."""
_PLAIN_BASE: Final = lazy_pattern(r"(?<![A-Za-z\\])log(2|10)(?=\(|\s+[A-Za-z\d(\\])(?!\s\d{3}\b)")
_NO_SOLUTION: Final = lazy_pattern(r"(?:there (?:is|are) )?no (?:real )?solutions?", re.IGNORECASE)
_TOKEN: Final = lazy_pattern(
    r"(?P<repeating>\d+\.\d*\\overline\s*\{\d+\})"
    r"|(?P<based>(?:0x[\dA-Fa-f]+|0o[0-7]+|0b[01]+|\d(?!\d*E\d+(?![\dA-F]))[\dA-F]*[A-F][\dA-F]*\d(?!_)"
    r"|(?=\d*[A-F])[\dA-F]{2,}(?=_(?:16|\{16\})))(?![\dA-Za-z]))"
    r"|(?P<number>\d{1,3}(?:(?:\{,\}|,?\\,|,\\!\s*)\d{3})+(?:\.\d+)?(?!\d)"
    r"|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|\\name\{(?P<name>[A-Za-z]+)\}"
    r"|(?P<command>\\(?:begin|end)\s*\{[a-zA-Z]+\}|\\[A-Za-z]+|\\[{}\\])"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<sign>[-+*/^_=<>()\[\]{}|,;:!%&'])"
    r"|(?P<space>\s+|\\,)"
)
_THOUSANDS: Final = lazy_pattern(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_MARKS: Final = lazy_pattern(r"\{,\}|,|\\,|\\!|\s")
_VOWELS: Final = frozenset("aeiouy")
_PROSE: Final = frozenset(
    [
        "the",
        "is",
        "no",
        "yes",
        "see",
        "not",
        "one",
        "two",
        "six",
        "ten",
        "are",
        "for",
        "all",
        "any",
        "it",
        "its",
        "and",
        "or",
        "none",
        "undefined",
    ]
)


class NotReadable(ValueError):
    """Raised if a string is not an expression. The message says why."""


class TooLarge(ValueError):
    """Raised for an expression beyond a limit, or with two readings, which no rule counts as wrong."""


class Token(NamedTuple):
    """A token: its kind (number, repeating, based, command, word or sign), text, and whether a space is before it."""

    kind: str
    text: str
    spaced: bool = False


def tokens_of(text: str) -> list[Token]:
    """Split mathematical text, in LaTeX or plain, into tokens. Raises `NotReadable` if it contains a word or an unknown
    sign, and `TooLarge` if it is too long.
    """
    text = _plain(text)
    tokens: list[Token] = []
    place, spaced = 0, False
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotReadable(f"{text[place : place + 20]!r} cannot be read")
        kind = match.lastgroup or ""
        found = match[kind]
        place = match.end()
        if kind == "space":
            spaced = True
            continue
        if kind == "number":
            found = _MARKS.sub("", found)
        if kind == "word":
            tokens += _split_word(found, spaced)
        else:
            tokens.append(Token(kind, found, spaced))
        spaced = False
    return tokens


def _plain(text: str) -> str:
    """Return a text without delimiters, emphasis and styles, in one notation, or only what is in its box. Raises
    `NotReadable` for a single word such as *yes*, and for several boxes, and `TooLarge` if the text is too long.
    """
    if len(text) > LONGEST:
        raise TooLarge(f"the value has more than {LONGEST:,} characters")
    text = _unboxed(text).strip()
    if len(text) > 4 and text.startswith("**") and text.endswith("**"):
        text = text[2:-2]
    text = re.sub(r"\\[()]|\\\[|\\\](?!\d)|\${1,2}|`", " ", text.replace(r"\$", ""))
    for one, other in _SAME.items():
        text = text.replace(one, other)
    text = re.sub(f"[{''.join(_RAISED)}]+", lambda match: f"^{{{''.join(_RAISED[c] for c in match[0])}}}", text)
    text = re.sub(f"[{''.join(_LOWERED)}]+", lambda match: f"_{{{''.join(_LOWERED[c] for c in match[0])}}}", text)
    text = _BOLD.sub(_bold, text)
    text = _NAME.sub(_named, text)
    text = _WRAPPED.sub(r" \1 ", _STYLE.sub(lambda match: "" if match[0] == r"\!" else " ", _keep_thin(text)))
    text = _TEXT.sub(r" \1 ", text).strip()
    text = re.sub(r"(?<=[\w})\]%!])\s*\.$", "", text)
    text = _PERCENT.sub("%", _DEGREES.sub(r"^\\circ ", text))
    text = _PLAIN_BASE.sub(r"log_{\1}", text)
    text = _TURNED.sub(_interval, text)
    text = _ROWS.sub(lambda match: f"[[{match[1].replace(';', '],[')}]]", text)
    if text.casefold() in _PROSE:
        raise NotReadable(f"{text!r} is not a mathematical expression")
    if _NO_SOLUTION.fullmatch(text):
        return r"\emptyset"
    if _THOUSANDS.search(text) and not re.search(r"[(\[]|\\\{", text):
        text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    return text


def _interval(match: re.Match[str]) -> str:
    """Return an interval with round brackets for brackets that are turned outwards."""
    return f"{'(' if match[1] == ']' else '['}{match[2]}{')' if match[3] == '[' else ']'}"


def _bold(match: re.Match[str]) -> str:
    """Return bold letters, each with a mark of its own."""
    inner = match[1] or match[2]
    return "".join(f"\\bold {one} " for one in ([inner] if inner.startswith("\\") else inner))


def _named(match: re.Match[str]) -> str:
    """Return the name of a function in a form of its own, and the text unchanged if it has a meaning here."""
    name = match[1] or match[2]
    is_known = name in FUNCTIONS or name in GREEK or name.lower() in _PROSE
    return match[0] if is_known else f"\\name{{{name}}}"


def _keep_thin(text: str) -> str:
    """Return the text with the marks of thousands that contain a space, such as *1,\\! 234*, written *1{,}234*."""
    return re.sub(r"(?<=\d),\\!\s*(?=\d{3})", "{,}", text)


def _unboxed(text: str) -> str:
    """Return the contents of the *\\boxed* in a text, or the text if it has none. Raises `NotReadable` for several, or
    if the box is not closed.
    """
    starts = [match.end() for match in re.finditer(r"\\(?:boxed|fbox)\s*\{", text)]
    if not starts:
        return text
    if len(starts) > 1:
        raise NotReadable("there are several boxes")
    depth = 1
    for place in range(starts[0], len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[starts[0] : place]
    raise NotReadable("the box is not closed")


def _split_word(word: str, spaced: bool) -> list[Token]:
    """Return the tokens of a word: a function, a constant, *and*, *or*, or the letters of a product of symbols.
    `spaced` states if a space precedes it. Raises `NotReadable` if it is probably a word of a language, such as *cat*.
    """
    if word in FUNCTIONS or word in ("pi", "infty", "inf", "oo", "sum", "prod") or word in GREEK:
        return [Token("command", "\\" + {"inf": "infty", "oo": "infty"}.get(word, word), spaced)]
    if word.lower() in ("and", "or"):
        return [Token("sign", word.lower(), spaced)]
    if word == "in":
        return [Token("command", "\\in", spaced)]
    if len(word) > 3 or (word.lower() in _PROSE and not word.isupper()):  # NO is a segment in geometry
        raise NotReadable(f"{word!r} is not a mathematical expression")
    if len(word) > 2 and word.islower() and set(word) & _VOWELS and list(word) != sorted(word):  # "cat" is not "act"
        raise NotReadable(f"{word!r} may be a word; if it is a product, write spaces or signs between its letters")
    return [Token("word", letter, spaced and not place) for place, letter in enumerate(word)]


class Cursor:
    """A place in a list of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self._depth = 0

    def _kind(self) -> str:
        """Return the kind of the next token, or an empty text at the end."""
        return self.tokens[self.place].kind if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        """Return the text of the next token, or an empty text at the end."""
        return self.tokens[self.place].text if self.place < len(self.tokens) else ""

    def _take(self, *texts: str) -> bool:
        """Move over the next token if it is one of these, and return whether it is."""
        found = self._next() in texts
        self.place += found
        return found

    def _expect(self, text: str) -> None:
        """Move over the next token. Raises `NotReadable` if it is another one."""
        if not self._take(text):
            raise NotReadable(f"{text!r} is missing")

    def _deeper(self) -> None:
        """Count a level. Raises `TooLarge` if there are too many."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooLarge(f"the value is nested more than {DEEPEST} levels deep")
