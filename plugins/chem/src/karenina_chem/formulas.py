"""Reads chemical formulas: atoms, brackets, hydrates, isotopes and charges, in plain text, LaTeX, HTML and Unicode."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from karenina_chem.written import is_name

_LONGEST: Final = 500
_DEEPEST: Final = 20
_METALS: Final = frozenset(
    re.findall(
        "[A-Z][a-z]?",
        "LiBeNaMgAlKCaScTiVCrMnFeCoNiCuZnGaRbSrYZrNbMoTcRuRhPdAgCdInSnCsBaLaCePrNdPmSm"
        "EuGdTbDyHoErTmYbLuHfTaWReOsIrPtAuHgTlPbBiPoFrRaAcThPaUNpPuAmCmBkCfEsFmMdNoLr"
        "RfDbSgBhHsMtDsRgCnNhFlMcLv",
    )
)
_ELEMENTS: Final = _METALS | frozenset(re.findall("[A-Z][a-z]?", "HDTHeBCNOFNeSiPSClArGeAsSeBrKrSbTeIXeAtRnTsOg"))
_HYDROGEN: Final = {"D": "2H", "T": "3H"}
_RAISED: Final = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-"
)
_LOWERED: Final = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
_SUPERSCRIPT: Final = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207a\u207b]+")
_STATE: Final = re.compile(r"\s*\((?:aq|s|l|g|cr)\)$")
_WORDS_BEHIND: Final = re.compile(r"\s+\(([^()]*[a-z]{3,}[^()]*)\)$")
_DOTS: Final = re.compile(r"\s*(?:[\u00b7\u2022\u2219\u22c5*\u30fb]|\\cdot|\.(?=\s?\d*\s?H2O)|\s\.\s)\s*")
_MARKED_CHARGE: Final = re.compile(r"(?:\^|\s|(?P<open>\())\s?(?P<size>\d*)(?P<sign>[+-]+)(?P<after>\d*)(?(open)\))$")
_CHARGE: Final = re.compile(r"(?P<digits>\d*)(?P<sign>\++|-+)(?P<after>\d*)$")
_TOKEN: Final = re.compile(r"(?:\^(?P<mass>\d+)\s?)?(?P<symbol>[A-Z][a-z]?)|(?P<bracket>[()\[\]{}])")
_OXIDATION_STATE: Final = re.compile(r"\((?:I{1,3}|IV|VI{0,3}|0)\)")
_COUNT: Final = re.compile(r"\d+(?:\.\d+)?")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


class NotReadable(ValueError):
    """Raised if a string is not a chemical formula."""


class WordsBesideFormula(NotReadable):
    """Raised if words behind a formula may change it. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Formula:
    """The atoms of a formula with their numbers, and its charge. Isotopes are elements of their own, such as *13C*."""

    atoms: Mapping[str, Decimal]
    charge: int


def read(text: str, names: Sequence[str]) -> list[Formula]:
    """Return the meanings of a formula. There are two if a number may be that of the charge, as in *O2-*.

    A name behind it, which may be one of `names`, has no meaning. Raises `NotReadable`, and `WordsBesideFormula`.
    """
    if len(text) > _LONGEST:
        raise NotReadable(f"it has more than {_LONGEST} characters")
    if (words := _WORDS_BEHIND.search(text)) is not None:
        if not is_name(words[1], names, ionic=True):
            raise WordsBesideFormula(f"{words[1]!r} behind the formula may change it")
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
        for count, size in _divisions(body, charge["digits"])
    ]


def _plain(text: str) -> str:
    """Return a formula in plain text, with `^` before what is raised."""
    text = re.sub(r"</?sub>", "", re.sub(r"<sup>(.*?)</sup>", r"^\1", text))
    text = re.sub(r"\\(?:mathrm|text|ce|rm|mathsf)\s*\{([^{}]*)\}", r"\1", text)
    text = _SUPERSCRIPT.sub(lambda match: "^" + match[0].translate(_RAISED), text).translate(_LOWERED)
    text = re.sub(r"\\[,;:! ]|[$]", "", text)
    text = re.sub(r"_\s?(?:\{\s?([^{}]*?)\s?\}|(\d))", r"\1\2", text)
    text = re.sub(r"\^\s?\{\s?([^{}]*?)\s?\}", r"^\1", text)
    text = _STATE.sub("", text.strip())
    return text.strip()


def _charge(sign: str, size: str) -> int:
    """Return a charge. Raises `NotReadable` if it has different signs, or both several signs and a number."""
    if len(set(sign)) > 1 or (len(sign) > 1 and size):
        raise NotReadable("its charge is not clear")
    number = int(size[:3]) if size else len(sign)
    return number if sign[0] == "+" else -number


def _divisions(body: str, digits: str) -> list[tuple[str, str]]:
    """Return how digits before a sign divide into a number of atoms and a charge, such as *42* in *SO42-*."""
    if not digits or body.endswith("]"):
        return [("", digits)]
    alone = re.fullmatch(r"(?:\^\d+)?([A-Z][a-z]?)", body)
    count, size = digits[:-1], digits[-1]
    if alone is not None and alone[1] in _METALS:
        return [(count, size)]
    if alone is not None and not count:
        return [("", size), (digits, "")]
    last = re.search(r"[A-Z][a-z]?$", body)
    if not count or size not in "234" or (last is not None and last[0] == "H"):
        return [(digits, "")]
    return [(count, size)]


def _atoms(text: str) -> Mapping[str, Decimal]:
    """Return the atoms of a formula without a charge. Raises `NotReadable`."""
    total: dict[str, Decimal] = {}
    for place, part in enumerate(_DOTS.split(text)):
        number = re.match(r"(\d+)?\s?(?=[A-Z\[(^])", part)
        if number is None or (number[1] and not place):
            raise NotReadable(f"{part[:40]!r} is not a formula")
        atoms = _group(part[number.end() :], 0)
        for symbol, count in atoms.items():
            total[symbol] = total.get(symbol, Decimal(0)) + count * int(number[1] or 1)
    if not total:
        raise NotReadable("it contains no atoms")
    return total


def _group(text: str, depth: int) -> dict[str, Decimal]:
    """Return the atoms of a formula without dots. Raises `NotReadable`."""
    if depth > _DEEPEST:
        raise NotReadable("its brackets are nested too deeply")
    found: dict[str, Decimal] = {}
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
            if symbol not in _ELEMENTS:
                symbol = symbol[0]
            if symbol not in _ELEMENTS:
                raise NotReadable(f"{token['symbol']!r} is not an element")
            place = token.start("symbol") + len(symbol)
            name = f"{token['mass']}{symbol}" if token["mass"] else _HYDROGEN.get(symbol, symbol)
            atoms = {name: Decimal(1)}
        count = _COUNT.match(text, place)
        if count is not None:
            place = count.end()
        for name, number in atoms.items():
            found[name] = found.get(name, Decimal(0)) + number * Decimal(count[0] if count is not None else 1)
    return found


def _closing(text: str, place: int) -> int:
    """Return the place of the bracket that closes the one at `place`. Raises `NotReadable` if there is none."""
    opening, depth = text[place], 0
    for end in range(place, len(text)):
        depth += (text[end] == opening) - (text[end] == _CLOSING[opening])
        if not depth:
            return end
    raise NotReadable("a bracket is not closed")
