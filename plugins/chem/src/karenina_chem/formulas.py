"""Reads chemical formulas: atoms, brackets, hydrates, isotopes and charges, in plain text, LaTeX, HTML and Unicode."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple
from unicodedata import normalize

from karenina_chem.written import is_name
from karenina_toolkit.lazy_patterns import lazy_pattern

_LONGEST: Final = 500
_DEEPEST: Final = 20
_ELEMENTS: Final = re.findall(
    "[A-Z][a-z]?",
    "HHeLiBeBCNOFNeNaMgAlSiPSClArKCaScTiVCrMnFeCoNiCuZnGaGeAsSeBrKrRbSrYZrNbMoTcRuRhPdAgCdInSnSbTeIXeCsBaLaCePrNdPmSm"
    "EuGdTbDyHoErTmYbLuHfTaWReOsIrPtAuHgTlPbBiPoAtRnFrRaAcThPaUNpPuAmCmBkCfEsFmMdNoLrRfDbSgBhHsMtDsRgCnNhFlMcLvTsOg",
)
"""The elements in the order of their atomic numbers."""
_METALS: Final = frozenset(_ELEMENTS) - frozenset(
    re.findall("[A-Z][a-z]?", "HHeBCNOFNeSiPSClArGeAsSeBrKrSbTeIXeAtRnTsOg")
)
_HYDROGEN: Final = {"D": "2H", "T": "3H"}
_SYMBOLS: Final = frozenset(_ELEMENTS) | frozenset(_HYDROGEN)
_RAISED: Final = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a", "0123456789+")
_LOWERED: Final = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
_DOT: Final = r"(?:[\u00b7\u2022\u2219\u22c5\u30fb]|\\cdot|\\bullet)"
_MARKUP: Final = [
    (lazy_pattern(pattern), replacement)
    for pattern, replacement in (
        (r"<(?:sup)>(.*?)</sup>", r"^{\1}"),
        (r"<(?:sub)>(.*?)</sub>", r"_{\1}"),
        (r"\\d?frac\s*\{\s?(\d+)\s?\}\s*\{\s?(\d+)\s?\}", r"\1/\2"),
        (r"\\(?:rm|left|right)\b\s*|\\[,;:! ]|[$]", ""),
        (r"\s*(?:[\u2191\u2193]|\\(?:up|down)arrow\b)\s*$", ""),
        (r"\\(?:mathrm|text|ce|mathsf)\s*\{((?:[^{}]|[_^]\s?\{[^{}]*\})*)\}", r"\1"),
        (r"(?<![_^])\{\s*\}", ""),
        (r"([_^])\s?(?:\{\s?([^{}]*?)\s?\}|(\d+[+-]*|[+-]+\d*))", r"\1{\2\3}"),
        (rf"\^\{{{_DOT}\s?([+-])\}}|\^\{{([+-])\s?{_DOT}\}}|{_DOT}\s?(?:\^\{{)?([+-])\}}?$", r"^{\1\2\3}"),
        (rf"^\s*{_DOT}\s*|\s*{_DOT}\s*$", ""),
        (r"(?:\^\{(\d*[+-]+|[+-]\d+)\}|(?<![+-])([+-]))_\{(\d+)\}$", r"\3^{\1\2}"),
        (r"(?<![A-Za-z\])])_\{(\d+)\}\^\{(\d+)\}(?=[A-Z])", r"^{\2}_{\1}"),
        (r"\^\{(\d+)\}(?:_\{(\d+)\})?(?=[A-Z])", r"^\1;\2;"),
        (r"_\{([^{}]*)\}", r"\1"),
        (r"\^\{([^{}]*)\}", r"^\1"),
        (r"^\{([^{}]*)\}$", r"\1"),
    )
]
"""Replacements that turn a formula into plain text. `^` precedes superscripts; *^14;6;C* is an atom and its numbers."""
_ATOM_BY_ATOM: Final = lazy_pattern(r"(?:[A-Z][a-z]?\d*\s+)+[A-Z][a-z]?\d*")
_BOND: Final = lazy_pattern(r"(?<=[A-Za-z0-9)\]])[-=\u2261](?=[A-Z(\[])")
_NUCLIDE: Final = lazy_pattern(r"([A-Z][a-z]?)-(\d{1,3})")
_STATE: Final = lazy_pattern(r"\s*\((?:aq|s|l|g|cr)\)$")
_WORDS_BEHIND: Final = lazy_pattern(r"\s+\(([^()]*[a-z]{3,}[^()]*)\)$")
_DOTS: Final = lazy_pattern(rf"\s*(?:{_DOT}|\*|(?<![.\u00b7\s]\d)\.(?=\s?[\d.]*\s?(?:\(H2O\)|\[H2O\]|H2O))|\s\.\s)\s*")
_MARKED_CHARGE: Final = lazy_pattern(r"(?:\^|\s|(?P<open>\())\s?(?P<size>\d*)(?P<sign>[+-]+)(?P<after>\d*)(?(open)\))$")
_CHARGE: Final = lazy_pattern(r"(?P<digits>\d*)(?P<sign>\++|-+)(?P<after>\d*)$")
_TOKEN: Final = lazy_pattern(
    r"(?:\^(?P<mass>\d+)(?:;(?P<number>\d*);)?\s?)?(?P<symbol>[A-Z][a-z]?)|(?P<bracket>[()\[\]{}])"
)
_OXIDATION_STATE: Final = lazy_pattern(r"\((?:I{1,3}|IV|VI{0,3}|0)\)")
_COUNT: Final = lazy_pattern(r"\d+(?:\.\d+)?")
_AMOUNT: Final = lazy_pattern(r"(\d+(?:\.\d+|/[1-9]\d*)?)?\s?(?=[A-Z\[({^])")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


class NotReadable(ValueError):
    """Raised if a string is not a chemical formula."""


class WordsBesideFormula(NotReadable):
    """Raised if words behind a formula may change it. The message is the reason."""


class Formula(NamedTuple):
    """The atoms of a formula with their numbers, and its charge. Isotopes are elements of their own, such as *13C*."""

    atoms: Mapping[str, Fraction]
    charge: int


def read(text: str, names: Sequence[str]) -> list[Formula]:
    """Return the possible meanings of a chemical formula: two if a number may count atoms or charges, as in *O2-*. A
    name in parentheses behind it, such as one of `names`, is ignored. Raises `NotReadable` if the text is not a
    formula. Raises `WordsBesideFormula`, a `NotReadable`, if other words behind the formula may change it.
    """
    if len(text) > _LONGEST:
        raise NotReadable(f"it has more than {_LONGEST} characters")
    if (words := _WORDS_BEHIND.search(text)) is not None:
        if not is_name(words[1], names, ionic=True):
            raise WordsBesideFormula(f"{words[1]!r} after the formula may change its meaning")
        text = text[: words.start()]
    text = _plain(text)
    if _OXIDATION_STATE.search(text):
        raise NotReadable("it contains an oxidation state, which is not a charge")
    if (marked := _MARKED_CHARGE.search(text)) is not None:
        size = marked["size"] or marked["after"]
        return [Formula(_atoms(text[: marked.start()].rstrip()), _charge(marked["sign"], size))]
    charge = _CHARGE.search(text)
    if charge is None:
        return [Formula(_atoms(text), 0)]
    body = text[: charge.start()]
    if charge["after"] or len(charge["sign"]) > 1:
        return [Formula(_atoms(body + charge["digits"]), _charge(charge["sign"], charge["after"]))]
    return [
        Formula(_atoms(body + count), _charge(charge["sign"], size))
        for count, size in _divisions(body, charge["digits"], charge["sign"])
    ]


def _plain(text: str) -> str:
    """Return a formula without markup, bonds and states such as *(aq)*, and with `^` before superscripts."""
    text = re.sub(
        "[\u00bc-\u00be\u2150-\u215e]", lambda match: normalize("NFKC", match[0]).replace("\u2044", "/"), text
    )
    text = re.sub(
        "[\u2070\u00b9\u00b2\u00b3\u2074-\u207a]+[+-]*", lambda match: f"^{{{match[0].translate(_RAISED)}}}", text
    )
    text = re.sub("[\u2080-\u2089]+", lambda match: f"_{{{match[0].translate(_LOWERED)}}}", text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    text = _STATE.sub("", text.strip()).strip()
    if (nuclide := _NUCLIDE.fullmatch(text)) is not None and (int(nuclide[2]) > 4 or nuclide[1] in ("H", "He")):
        return f"^{nuclide[2]}{nuclide[1]}"
    if _ATOM_BY_ATOM.fullmatch(text) is not None:
        return "".join(text.split())
    return text if "+" in text else _BOND.sub("", text)


def _charge(sign: str, size: str) -> int:
    """Return the charge given by signs or a number: 2 for *++* or *2+*. Raises `NotReadable` for *+-* and *2++*."""
    if len(set(sign)) > 1 or (len(sign) > 1 and size):
        raise NotReadable("its charge is unclear")
    number = int(size[:3]) if size else len(sign)
    return number if sign[0] == "+" else -number


def _divisions(body: str, digits: str, sign: str) -> list[tuple[str, str]]:
    """Return the ways in which the digits before a sign may divide into a number of atoms and a charge: [("4", "2")]
    for *SO42-*. There are several pairs if it is not clear. An empty string stands for one.
    """
    if not digits or body.endswith("]") or (body.startswith("(") and _closing(body, 0) == len(body) - 1):
        return [("", digits)]
    alone = re.fullmatch(r"(?:\^\d+(?:;\d*;)?)?([A-Z][a-z]?)", body)
    count, size = digits[:-1], digits[-1]
    if alone is not None and alone[1] in _METALS:
        return [(count, size)]
    first = re.match("[A-Z][a-z]?", body)
    is_complex = first is not None and first[0] in _METALS and sign == "+" and digits in ("2", "3")
    if (alone is not None and not count) or (is_complex and not body.endswith(")")):
        return [("", size), (digits, "")]
    last = re.search(r"[A-Z][a-z]?$", body)
    if not count or size not in "234" or (last is not None and last[0] == "H"):
        return [(digits, "")]
    return [(count, size)]


def _atoms(text: str) -> Mapping[str, Fraction]:
    """Return the number of atoms of each element, with isotopes apart, in a formula without a charge, such as
    *CuSO4.5H2O*. Raises `NotReadable` if the text is not a formula.
    """
    total: dict[str, Fraction] = {}
    parts = _DOTS.split(text)
    for part in parts:
        amount = _AMOUNT.match(part)
        if amount is None or (amount[1] and len(parts) == 1):
            raise NotReadable(f"{part[:40]!r} is not a formula")
        for symbol, count in _group(part[amount.end() :], 0).items():
            total[symbol] = total.get(symbol, Fraction(0)) + count * Fraction(amount[1] or 1)
    if not total:
        raise NotReadable("it contains no atoms")
    return total


def _group(text: str, depth: int) -> dict[str, Fraction]:
    """Return the number of atoms of each element, with isotopes apart, in a formula without dots. Raises `NotReadable`
    if it is not one, or if its brackets are nested too deeply.
    """
    if depth > _DEEPEST:
        raise NotReadable("its brackets are nested too deeply")
    found: dict[str, Fraction] = {}
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or token["bracket"] in (")", "]", "}"):
            raise NotReadable(f"{text[place : place + 20]!r} is not an element")
        if token["bracket"]:
            end = _closing(text, place)
            atoms, place = _group(text[place + 1 : end], depth + 1), end + 1
        else:
            symbol = token["symbol"]
            if symbol not in _SYMBOLS:
                symbol = symbol[0]
            if symbol not in _SYMBOLS:
                raise NotReadable(f"{token['symbol']!r} is not an element")
            if token["number"] and symbol in _ELEMENTS and _ELEMENTS.index(symbol) != int(token["number"]) - 1:
                raise NotReadable(f"{token['number']} is not the atomic number of {symbol}")
            place = token.start("symbol") + len(symbol)
            name = f"{token['mass']}{symbol}" if token["mass"] else _HYDROGEN.get(symbol, symbol)
            atoms = {name: Fraction(1)}
        count = _COUNT.match(text, place)
        if count is not None:
            place = count.end()
        for name, number in atoms.items():
            found[name] = found.get(name, Fraction(0)) + number * Fraction(count[0] if count is not None else 1)
    return found


def _closing(text: str, place: int) -> int:
    """Return the index of the bracket that closes the one at index `place`. Raises `NotReadable` if there is none."""
    opening, depth = text[place], 0
    for end in range(place, len(text)):
        depth += (text[end] == opening) - (text[end] == _CLOSING[opening])
        if not depth:
            return end
    raise NotReadable("a bracket is not closed")
