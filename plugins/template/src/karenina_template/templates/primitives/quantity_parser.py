"""A parser for numbers with units as people and models write them: *1,234.5 mg*, *$5 million*, *about 20 °C*.

It reads thousands separators (comma, point, space, apostrophe), decimal points and commas, fractions (*½*, *1 1/2*),
powers of ten (*5e-3*, *2 x 10^5*, *2 x 10-5*), words (*million*), a currency before the number, and brackets around a
negative amount (*(1,200)*). Text without a number is not a quantity, and neither are leading zeros (*007*), too many
points (*1.2.3*) or a letter before the number (*BCL2*).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import gcd
from typing import Final, Literal, NamedTuple
from unicodedata import normalize

from karenina_template.templates.primitives.units import CURRENCIES, find_unit, is_money, unit_of_amount
from karenina_toolkit.folding import fold, with_ascii_digits
from karenina_toolkit.lazy_patterns import lazy_pattern

DecimalMark = Literal[".", ","]
IsUnit = Callable[[str], bool]
"""A function that returns whether a string is a known unit."""

_ABOUT: Final = lazy_pattern(
    r"(?:[~≈≃]|(?:about|approximately|approx\.?|around|circa|ca\.?|c\.|roughly|nearly|almost|exactly)(?=\s))\s*", re.I
)
_SIGNS: Final = {
    "<=": r"<=|[≤≦⩽≲≯]|at most\b|up to\b|no(?:t)? (?:more|greater|higher) than\b|not exceeding\b",
    ">=": r">=|[≥≧⩾≳≮]|at least\b|no(?:t)? (?:less|fewer|lower) than\b|upwards of\b",
    "<": r"<|≪|less than\b|fewer than\b|under\b|below\b",
    ">": r">|≫|more than\b|greater than\b|over\b|above\b|exceed(?:s|ing)\b|in excess of\b",
}
_SIGN: Final = {sign: lazy_pattern(rf"(?:{words})\s*", re.I) for sign, words in _SIGNS.items()}
_FRACTION: Final = lazy_pattern("([0-9]?) ?([½⅓⅔¼¾⅛⅜⅝⅞])")
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_ARABIC_MARKS: Final = {0x66B: ".", 0x66C: ",", 0xFE63: "-"}
_POWER: Final = lazy_pattern(r"(?<=10)[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_CURRENCY: Final = "|".join(sorted(map(re.escape, CURRENCIES), key=len, reverse=True))
_DIGITS: Final = "|".join(
    (
        r"(?<![.,])0*[1-9][0-9]{0,2}(?P<mark>[, '.])[0-9]{3}(?:(?P=mark)[0-9]{3})*(?:[.,][0-9]{1,300})?(?![0-9])",
        r"[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]{1,300})?(?![0-9])",  # lakhs
        r"[0-9]{1,300}(?:[.,][0-9]{1,300})?",
        r"\.[0-9]{1,300}",
    )
)
_EXPONENT: Final = r"[-+]?[0-9]{1,4}"
_NUMBER: Final = lazy_pattern(
    rf"(?P<before>(?:{_CURRENCY})\s?)?(?P<minus>[-+]|(?:minus|negative)\s)?\s?(?P<after>(?:{_CURRENCY})\s?)?"
    rf"(?:10\s?(?:\^|\*\*)\s?(?P<ten>{_EXPONENT})"
    rf"|(?P<whole>[0-9]{{1,9}})\s(?P<over>[0-9]{{1,4}})[/\u2044](?P<under>[1-9][0-9]{{0,3}})(?![/0-9])"
    rf"|(?P<digits>{_DIGITS})"
    rf"(?:(?P<slash>[/\u2044])(?P<below>[1-9][0-9]{{0,8}})(?![/0-9])"
    rf"|(?P<e>[eE])(?P<exponent>{_EXPONENT})(?![0-9A-Za-z.])|\s?[x\u00d7*\u00b7]\s?10\s?(?:\^|\*\*)\s?(?P<power>{_EXPONENT})"
    rf"|\s?[x\u00d7]\s?10(?P<lowered>-[1-9][0-9]?)(?![0-9.,]))?)"
)  # fmt: skip
_SCALES: Final = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "mn": 6, "mio": 6, "bn": 9, "mrd": 9,
    "mln": 6, "trn": 12, "quadrillion": 15, "quintillion": 18, "lakh": 5, "crore": 7,
}  # fmt: skip
_SCALE: Final = lazy_pattern(rf"\s?(?P<scale>{'|'.join(_SCALES)})s?\b", re.I)
_NEWTONS: Final = ("mN", "MN")
"""Units that differ from *mn* (million) only in case."""
_LETTERS: Final = {"k": 3, "m": 6, "b": 9, "t": 12, "mm": 6, "mil": 6, "tn": 12, "grand": 3}
_LETTER: Final = lazy_pattern(rf"\s?(?P<scale>{'|'.join(sorted(_LETTERS, key=len, reverse=True))})\b", re.I)
_LETTER_AND_MONEY: Final = lazy_pattern(
    rf"\s?(?P<scale>bn|[kKmMbBtT])(?=\s?(?:{_CURRENCY}|(?:[Uu][Ss]\s)?(?:dollar|euro|rupee|rouble|ruble)s?|yen|yuan)(?!\w))"
)
_MAYBE_SCALE: Final = lazy_pattern(r"(?<=[0-9])\s?([kKBT]|MM?)(?=\s+[a-z]|\s*\Z)")
"""A letter that may stand for a power of ten or be a unit: *8B people*, *5 M*."""
_CODE: Final = lazy_pattern(r"\b([A-Z]{3})(?=[0-9])")
_SPACED: Final = lazy_pattern(r"(?<=[0-9]), (?=[0-9]{3}(?![0-9]))")
_POINT: Final = lazy_pattern(r"(?<=[0-9])(?:\. |\u00b7)(?=[0-9])")
_COINS: Final = lazy_pattern(r"\b([0-9]+) (euros?|dollars?|pounds?|francs?) (?:and )?([0-9]{2})\b(?! ?[^\W\d])", re.I)
"""*1 euro 20*, which is 1.20 euros."""
_LETTER_WORDS: Final = {"k": "thousand", "m": "million", "mm": "million", "b": "billion", "t": "trillion"}
_RANGE: Final = lazy_pattern(r"\s?(?:-|\u2014|\bto\b|\band\b)\s?", re.I)
_RANGE_WORD: Final = lazy_pattern(r"(?:between|from)\s+(?=\S)", re.I)
_UNIT_AND_RANGE: Final = lazy_pattern(
    r"\s?(?P<unit>[^\s,;:?!=<>0-9][^,;:?!=<>]{0,30}?)(?:\s?[-\u2014]\s?|\s(?:to|and)\s)", re.I
)
"""The unit of a range's first number, and the sign or word after it: *mg to* in *5 mg to 10 mg*."""
_FOREIGN_SCALES: Final = {
    "tausend|duizend|tusen|mille|mila?|tysi[ąa]c[ey]?|tys|тысяч[аи]?|тыс|bin|ribu|nghìn|ngàn|千|천": 3,
    "万|萬|만": 4,
    "lac": 5,
    "million[ei]n?|millioner|mill[oó]n(?:es)?|milion[ei]|milh(?:[aã]o|[oõ]es)|miljoen|miljon(?:er)?|milion(?:y|ów)?"
    "|миллион(?:а|ов)?|млн|milyon|juta|triệu|百万": 6,  # noqa: RUF001 - Russian
    "cr": 7,
    "亿|億|억": 8,
    "milliarden?|milliards?|milliarder|mil mill?ones|miliard[io]|mil milh(?:ão|ões)|miljard(?:en|er)?|miliard(?:y|ów)?"
    "|bilh(?:ão|ões)|thousand million|mld|миллиард(?:а|ов)?|млрд|milyar|miliar|tỷ|arab": 9,  # noqa: RUF001 - Russian
    "billionen|billioner|bill[oó]n(?:es)?|bilion[iy]?|bilionów|biljoen|biljon(?:er)?|trilh(?:ão|ões)|million million"
    "|триллион(?:а|ов)?|трлн|trilyon|兆|조": 12,  # noqa: RUF001 - Russian
    "trillionen|trill[oó]n(?:es)?|triljoen|triljon(?:er)?": 18,
}
_FOREIGN_SCALE: Final = tuple(
    (lazy_pattern(rf"(?<=[0-9])\s?(?:{words})(?![^\W\d_\u4e00-\u9fff])\.?", re.I), f" x 10^{power}")
    for words, power in _FOREIGN_SCALES.items()
)
"""Words for powers of ten in other languages, in which *billion* is another one."""


def _without_commas(match: re.Match[str]) -> str:
    return match[0].replace(",", "")


_LANGUAGES: Final = ("de", "es", "fr", "it", "nl", "pt")
"""Languages whose number words are read, but English."""
_NUMERALS: Final = {**{one: digit for digit, one in enumerate("〇一二三四五六七八九")}, "零": 0, "两": 2, "兩": 2}
_TENS: Final = {"十": 10, "百": 100, "千": 1_000}
_NUMERAL: Final = lazy_pattern(f"[{''.join((*_NUMERALS, *_TENS))}]+")
_OTHER_MARKS: Final = (
    (lazy_pattern(r"(?<=[0-9])-(?=[0-9]{1,4}[/\u2044][0-9])"), " "),  # 1-1/2
    (lazy_pattern(r"(?<=[0-9]) (?=10\s?\^)"), " x "),  # 5 10^3
    (lazy_pattern(r"(?<=[0-9])[dD](?=[-+\u2212]?[0-9])"), "e"),  # 5D-3 of Fortran
    (lazy_pattern(r"(?<![0-9.,])10(?=[-\u2212][0-9]{1,2}(?![0-9.,]))"), "10^"),  # a power of ten without its sign
    (lazy_pattern(r"(?<![0-9.,])[0-9]{1,4}(?:,[0-9]{4})+(?![0-9,])"), _without_commas),  # 1,0000
    (lazy_pattern(r"(?<![^\s(-]),(?=[0-9])"), "0."),  # ,5
    (lazy_pattern(r"(?<=[0-9])\s(?:out of|of|in)\s(?=[1-9][0-9]*\b)"), "/"),  # 8 out of 10
    (lazy_pattern(r"\A\s*([0-9][0-9.,]*)\s?[-\u2010-\u2014]\s?([0-9][0-9.,]*)\s*\Z"), r"\1 to \2"),
)  # fmt: skip
"""Marks in numbers that can be read in two ways, with the second one."""
_CALCULATION: Final = lazy_pattern(r"[\w%)]\s?([x\u00d7*\u00b7+/\u00f7])\s?[0-9]")
_SUM: Final = lazy_pattern(
    r"[\w%)]\s?[x\u00d7*\u00b7+]\s?(?!10\s?(?:\^|\*\*|[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b]))[0-9]"
)
"""The sign of a sum or product, but not that of a power of ten."""
_PLURAL: Final = lazy_pattern(r"\b(?:ten|hundred|thousand|million|billion|trillion|lakh|crore)s\b", re.I)
_IN_ORDER: Final = lazy_pattern(r"[0-9]+(?:st|nd|rd|th)s?\b")
_ORDINAL: Final = lazy_pattern(r"(?:st|nd|rd|th)\b")
_ENDS: Final = lazy_pattern(r"[.,;:!?](?=\s|$)")
_DECADE: Final = lazy_pattern(r"[0-9]{3}0s\b")
_DIGIT: Final = lazy_pattern(r"[0-9]")
_MORE: Final = lazy_pattern(r"[0-9]|[.,/][0-9]|\s?[x\u00d7]\s?10[1-9][0-9]?\b|\s?[eE][-+]?[0-9]{5}")
"""Text that must not follow a number: *2 x 105* may be a power of ten without its sign, and *e99999* is too large."""
_BRACKETED: Final = lazy_pattern(rf"((?:{_CURRENCY})?)\s?\(\s?((?:{_CURRENCY})?\s?[.0-9][^()]*)\)([^()]*)")
"""A negative amount in brackets, as accountants write it."""
_WORD: Final = lazy_pattern(r"[\w.,/-]+")
_BRACKETS: Final = lazy_pattern(r"(?<![/*\u00b7])(?<![/*\u00b7] )(?:\([^()]*\)|\[[^\[\]]*\])")
"""Text in brackets, except in a unit such as *J/(kg K)*."""
PART_WORDS: Final = lazy_pattern(
    r"\b(?:(?<!first )(?<!second )half(?!-)|halves|thirds|quarters|(?:a|one) (?:third|quarter)"
    r"|quarter(?= (?:million|billion|trillion)\b)|dozens?)\b",
    re.IGNORECASE,
)
"""Words that change an adjacent number, or are numbers themselves: *three and a half*, *thirds*, *a dozen*."""
_SLASH: Final = lazy_pattern(r"(?<![0-9.,/])([0-9]{1,9}) ?([/\u2044]) ?([1-9][0-9]{0,8})(?! ?[/\u2044]|[0-9.,]*[0-9])")
"""A fraction, with or without spaces."""
_SCORE: Final = lazy_pattern(
    r"(?<![\w.,/$€£¥-])(?<![0-9] )([0-9]{1,4}(?:\.[0-9]{1,2})?)/([1-9][0-9]{0,3})(?![\w/]|[.,][0-9]|\s?[%‰°'\"$€£¥])"
    r"(?:[ -]([^\W\d_]+))?"
)
"""A fraction that may be a score, and the word behind it."""
_PAIR: Final = lazy_pattern(r"(?<![0-9.,/])([0-9]{2,3})\s?/\s?([0-9]{2,3})(?![0-9.,]*[0-9/])")
_HEAD: Final = lazy_pattern(
    rf"(?:(?:{_CURRENCY})\s?)?(?:(?<!\w)[-+]|\b(?:minus|negative)\s)?\s?(?:(?:{_CURRENCY})\s?)?\.?$"
)
_LONGEST_ROUNDED: Final = 15
"""The most decimal places of a number that may be a rounded fraction."""
_LARGEST: Final = 10**4
"""The largest supported exponent."""


class Quantity(NamedTuple):
    """A number with its unit, or a range up to `high`.

    `numbers` contains the possible readings, with the most likely one first. *1,234* and *1.234* have two readings,
    depending on the decimal mark, and so does *(5)*, which accountants read as -5. Digits that are not a number have no
    readings. `unit` is the unit as written, a currency, or an empty string. `sign` is <, >, <= or >= for a limit, and
    otherwise empty. `touches` is true if there is no space before the unit, as in *5mg*. `is_code` is true if the text
    could be a name, such as 1E10.
    """

    numbers: tuple[Decimal, ...]
    unit: str = ""
    sign: str = ""
    high: tuple[Decimal, ...] = ()
    touches: bool = False
    is_code: bool = False


class _Found(NamedTuple):
    """A number in a text with its possible readings, its currency and its position."""

    numbers: tuple[Decimal, ...]
    currency: str
    start: int
    end: int
    is_code: bool


def is_known_unit(text: str) -> bool:
    """Return whether `text` is a unit in the table of spellings."""
    return find_unit(text) is not None


def read_quantity(text: str, decimal: DecimalMark = ".", is_unit: IsUnit = is_known_unit) -> Quantity | None:
    """Return the quantity if `text` consists of exactly one number or range with its unit, or None. Up to four words
    after the number are its unit, whether or not it is known; `is_unit` determines which other units, such as *J/(kg
    K)*, are known. `decimal` decides which reading of numbers such as 1,234 and 1.234 comes first.
    """
    text = _plain(text)
    if (amount := _BRACKETED.fullmatch(text)) is not None:
        positive = read_quantity(f"{amount[1]}{amount[2].strip()}{amount[3]}", decimal, is_unit)
        if positive is None or positive.sign or positive.high:
            return None
        numbers = (*(-number for number in positive.numbers), *positive.numbers)
        return positive._replace(numbers=numbers, is_code=positive.is_code or amount[2].isdigit())
    sign, at = _opening(text)
    word = _RANGE_WORD.match(text, at)
    first = _number(text, word.end() if word is not None else at, decimal)
    if first is None:
        return None
    last = first
    high: tuple[Decimal, ...] = ()
    between, low_unit = _RANGE.match(text, first.end), ""
    if between is None and (spelled := _UNIT_AND_RANGE.match(text, first.end)) is not None:
        low_unit = spelled["unit"]
        between = spelled if _is_range(text, spelled, word is not None, decimal, is_unit) else None
    if between is not None and (second := _number(text, between.end(), decimal)) is not None:
        is_bare = not (word or first.currency) and _is_bare_hyphen(text, between, second)
        if sign or second.numbers[0] <= first.numbers[0] or is_bare:
            return None
        last, high = second, second.numbers
    if word is not None and not high:
        return None
    rest = text[last.end :] or (f" {low_unit}" if high else "")
    unit = rest.strip().rstrip(".")
    currency = first.currency or last.currency
    is_price = bool(currency) and unit.startswith("/") and _may_be_unit(unit[1:], unit[1:])
    if not is_price and not _may_be_unit(rest, unit) and not (unit and is_unit(unit)):
        return None
    if not currency and is_money(money := known_part(unit)):
        currency, unit = money, unit[len(money) :].strip()
    written = unit_of_amount(currency, unit) if currency else unit
    touches = bool(rest.strip(" .")) and rest[0] != " "
    if touches and _ORDINAL.fullmatch(unit):
        return Quantity(first.numbers, currency, sign, high, is_code=True)
    return Quantity(first.numbers, written, sign, high, touches, first.is_code)


def find_quantities(text: str, decimal: DecimalMark = ".", is_unit: IsUnit = is_known_unit) -> list[Quantity]:
    """Return the quantities in `text` in order. A text that is a single quantity is read as in `read_quantity`;
    otherwise, only known units are read. Digits that are not a number give a quantity with empty `numbers`. Text in
    brackets is ignored if there are digits elsewhere, and English number words are read if there are none at all.

    `decimal` and `is_unit` work as in `read_quantity`. Several numbers in words have no units.
    """
    text = _plain(text)
    text = _BRACKETS.sub(" ", text) if _DIGIT.search(_BRACKETS.sub(" ", text)) else text
    if not _DIGIT.search(text):
        return _find_words(text, decimal, is_unit)
    whole = read_quantity(text, decimal, is_unit)
    if whole is None and _joins_units(text, decimal, is_unit):
        return [Quantity(())]
    return [whole] if whole is not None else list(_scan(text, decimal, is_unit))


def with_scales(text: str) -> str:
    """Return *8 billion people* for *8B people*: the text with words for letters that may be powers of ten."""
    return _MAYBE_SCALE.sub(lambda match: f" {_LETTER_WORDS[match[1].casefold()]}", text)


def other_readings(text: str) -> list[str]:
    """Return other ways to write a text, such as *8 billion* for *8B*, *EUR 5* for *EUR5*, and *1,500* for *1, 500*."""
    others = (
        *(with_scales(text), _CODE.sub(_after_code, text), _SPACED.sub(",", text)),
        *(_COINS.sub(r"\1.\3 \2", text), _POINT.sub(".", text)),
        *(pattern.sub(power, text) for pattern, power in _FOREIGN_SCALE),
        *(pattern.sub(meaning, text) for pattern, meaning in _OTHER_MARKS),
        *(() if _DIGIT.search(text) else _from_other_languages(text)),
    )
    return [other for other in dict.fromkeys(others) if other != text]


def _from_other_languages(text: str) -> Iterator[str]:
    """Yield a text without digits with digits for its number words in other languages, as in *fünf mg* and *五万*."""
    from text_to_num import alpha2digit

    for language in _LANGUAGES:
        yield alpha2digit(text.encode("utf-8", "replace").decode(), language, threshold=0)
    digits = _NUMERAL.sub(_from_numerals, text)
    yield digits
    yield from (pattern.sub(power, digits) for pattern, power in _FOREIGN_SCALE)


def _from_numerals(match: re.Match[str]) -> str:
    """Return the digits for Chinese numerals, with powers of ten (*三百二十*) or without (*三二〇*)."""
    if not any(numeral in _TENS for numeral in match[0]):
        return "".join(str(_NUMERALS[numeral]) for numeral in match[0])
    total = digit = 0
    for numeral in match[0]:
        if numeral in _TENS:
            total, digit = total + (digit or 1) * _TENS[numeral], 0
        else:
            digit = _NUMERALS[numeral]
    return str(total + digit)


def is_rounded(one: Decimal, other: Decimal) -> bool:
    """Return whether one of two numbers is a fraction such as 2/3, and the other is the same rounded: *0.667*."""
    for fraction, rounded in ((one, other), (other, one)):
        places, rest = (-int(number.as_tuple().exponent) for number in (rounded, fraction))
        if 2 <= places <= _LONGEST_ROUNDED < rest and 2 * abs(fraction - rounded) <= Decimal(1).scaleb(-places):
            return True
    return False


def _after_code(match: re.Match[str]) -> str:
    return f"{match[1]} " if is_money(match[1]) else match[1]


def calculated(text: str, quantities: Sequence[Quantity]) -> Quantity | None:
    """Return the result of a sum, product or quotient of two quantities, at most one of which has a unit, as in
    *2 x 2.5 mg*, or None for other texts.
    """
    sign = _CALCULATION.search(text)
    if sign is None or len(quantities) != 2 or all(quantity.unit for quantity in quantities):
        return None
    if not all(quantity.numbers for quantity in quantities):
        return None
    one, other = (quantity.numbers[0] for quantity in quantities)
    if sign[1] in "/\u00f7":
        if not other:
            return None
        result = one / other
    else:
        result = one + other if sign[1] == "+" else one * other
    return Quantity((result,), quantities[0].unit or quantities[1].unit)


def split_pair(text: str) -> list[str]:
    """Return *120 mmHg* and *80 mmHg* for *120/80 mmHg*. The list is empty if there are no such numbers, or if the
    first is not greater than the second, so that they may be a fraction.
    """
    pair = _PAIR.search(text)
    if pair is None or int(pair[1]) <= int(pair[2]):
        return []
    return [text[: pair.start()] + number + text[pair.end() :] for number in pair.groups()]


def split_score(text: str) -> str:
    """Return *8* for *8/10* and *Score: 8 points* for *Score: 8/10 points*, or an empty string for texts without a
    fraction that may be a score. A fraction of a known unit is none, nor is one in lowest terms, such as *3/4*, unless
    something is counted (*3/4 patients*) or the denominator is a multiple of five (*7/10*).
    """
    plain_text = _plain(text)
    score = _SCORE.search(plain_text)
    if score is None or plain_text.count("/") > 1 or is_known_unit(noun := score[3] or ""):
        return ""
    if noun.casefold() in ("of", "to", "or", "and", "cup", "cups"):
        return ""
    number, whole = Decimal(score[1]), int(score[2])
    if number > whole or not (noun or whole % 5 == 0 or number % 1 or gcd(int(number), whole) > 1):
        return ""
    return plain_text[: score.end(1)] + plain_text[score.end(2) :]


def is_calculation(text: str, quantities: Sequence[Quantity]) -> bool:
    """Return whether several quantities are terms of a sum or product, or parts of a quotient, as in *4 x 4* and *5 mg
    + 5 mg*.
    """
    return len(quantities) > 1 and (_SUM.search(text) is not None or calculated(text, quantities) is not None)


def _find_words(text: str, decimal: DecimalMark, is_unit: IsUnit) -> list[Quantity]:
    """Return the quantities in a string without digits, in English words: *forty-two grams*, *nineteen oh four*. Only a
    single quantity can have a unit. The list is empty if the words cannot be read. An ordinal, and a plural such as
    *thousands* without a number before it, give a quantity with empty `numbers`.
    """
    from text_to_num import alpha2digit

    from karenina_template.templates.primitives.numbers_in_text import read_numbers

    text = text.encode("utf-8", "replace").decode()  # the library stops at a lone surrogate
    digits = alpha2digit(text, "en", threshold=0)
    plural = _PLURAL.search(text)
    is_vague = plural is not None and not alpha2digit(text[: plural.start()], "en", threshold=0).rstrip()[-1:].isdigit()
    if is_vague or (_IN_ORDER.search(digits) and not _DIGIT.search(_IN_ORDER.sub("", digits))):
        return [Quantity(())]
    if (whole := read_quantity(digits, decimal, is_unit)) is not None:
        return [whole]
    quantities = list(_scan(alpha2digit(text, "en"), decimal, is_unit))
    if len(quantities) == 1:
        return quantities
    words = read_numbers(text)
    numbers = [] if words is None else list(words.of_several_words or words.known)
    return [Quantity((Decimal(str(number)),)) for number in numbers]


def _scan(text: str, decimal: DecimalMark, is_unit: IsUnit) -> Iterator[Quantity]:
    """Yield the quantities in `text`, with their units if these are known. Digits that are not a number give a quantity
    with empty `numbers`, unless they are part of a name such as BCL2.
    """
    at = 0
    while (digit := _DIGIT.search(text, at)) is not None:
        start = _begin(text, digit.start(), at)
        parsed = _number(text, start, decimal)
        if parsed is None:
            word = _WORD.match(text, digit.start())
            at = word.end() if word is not None else digit.end()
            if not text[: digit.start()][-1:].isalpha():  # digits in a name such as BCL2 are not a number
                yield Quantity(())
            continue
        at = parsed.end
        ordinal = _ORDINAL.match(text, at)
        rest = text[ordinal.end() if ordinal is not None else at :]
        end = _ENDS.search(rest)
        rest = rest[: end.start()] if end is not None else rest
        unit = known_part(rest, is_unit)
        money = parsed.currency or (unit if is_money(unit) else "")
        if money:
            after = rest if parsed.currency else rest.strip()[len(unit) :]
            unit = unit_of_amount(money, " ".join(after.split()[:2]))
        elif unit and (other := following_unit(rest, unit)):
            unit = f"{unit} {other}"
        yield Quantity(parsed.numbers, unit, _sign_before(text, start))


def known_part(unit: str, is_unit: IsUnit = is_known_unit) -> str:
    """Return the known unit at the start of `unit`, such as *mg* in *mg of aspirin*, or an empty string."""
    words = unit.split()
    return next((name for size in (5, 4, 3, 2, 1) if is_unit(name := " ".join(words[:size]))), "")


def following_unit(text: str, unit: str) -> str:
    """Return another unit that follows the known `unit` at the start of `text`, such as *m* in *N m of torque*, or an
    empty string. The word *in*, degrees, and the same unit in another spelling are no other units.
    """
    other = known_part(text.strip()[len(unit) :])
    return "" if other == "in" or find_unit(other) in (None, "\u00b0", find_unit(unit)) else other


def _begin(text: str, digit: int, least: int) -> int:
    """Return the position where a number starts, including its currency and sign. `digit` is the position of its first
    digit. The result is at least `least`.
    """
    head = _HEAD.search(text, least, digit)
    return digit - len(head[0].lstrip()) if head is not None else digit


def _sign_before(text: str, start: int) -> str:
    """Return the sign for the words before `start`, such as > for *more than*, or an empty string."""
    before = text[max(0, start - 20) : start].rstrip()
    return next((sign for sign, words in _SIGNS.items() if re.search(rf"(?:{words})$", before, re.I)), "")


def _plain(text: str) -> str:
    """Convert spaces, signs, fractions, powers and the digits of other scripts in the text to ASCII."""
    text = _POWER.sub(lambda match: "^" + match[0].translate(_RAISED), text)
    text = _FRACTION.sub(lambda match: f"{match[1]}{' ' if match[1] else ''}{normalize('NFKC', match[2])}", text)
    text = _SLASH.sub(r"\1\2\3", text)
    return " ".join(fold(with_ascii_digits(text).translate(_ARABIC_MARKS)).split())


def _opening(text: str) -> tuple[str, int]:
    """Return the comparison sign at the start of `text`, which may be "", and the position of the number. A word such
    as *about* is skipped.
    """
    at = 0
    if (about := _ABOUT.match(text)) is not None:
        at = about.end()
    for sign, words in _SIGN.items():
        if (match := words.match(text, at)) is not None:
            return sign, match.end()
    return "", at


def _number(text: str, at: int, decimal: DecimalMark) -> _Found | None:
    """Return the number at `at`, with its currency and scale, or None if there is none or it is unclear."""
    match = _NUMBER.match(text, at)
    if match is None or (at and text[at - 1].isalnum()):
        return None
    currency = (match["before"] or match["after"] or "").strip()
    if currency and currency[-1:].isalpha() and text[match.start() : match.end()][len(currency)].isdigit():
        return None  # SEK5 is a name
    readings = _readings(match, decimal)
    end = match.end()
    scale = _SCALE.match(text, end)
    if scale is not None and not currency and scale[0].strip() in _NEWTONS:
        scale = None
    scale = scale or (_LETTER if currency else _LETTER_AND_MONEY).match(text, end)
    if scale is not None:
        shift = {**_SCALES, **_LETTERS}[scale["scale"].casefold()]
        readings = [_shifted(number, shift) for number in readings]
        end = scale.end()
    if _MORE.match(text, end) or _DECADE.search(text, match.start(), end + 2) or not readings or None in readings:
        return None
    is_negative = (match["minus"] or "+").strip() != "+"
    numbers = tuple(number.copy_negate() if is_negative else number for number in readings if number is not None)
    digits = match["digits"] or ""
    is_exponent = match["e"] == "E" and match["exponent"].isdigit() and digits.isdigit()
    is_code = is_exponent or match["slash"] == "/" or (digits.count(".") > 1 and "," not in digits + decimal)
    return _Found(numbers, currency, match.start(), end, is_code)


def _readings(match: re.Match[str], decimal: DecimalMark) -> list[Decimal | None]:
    """Return the possible readings of a number, with the most likely one first. The list is empty if the text is not a
    number. A number that is too large or too small becomes None.
    """
    if match["ten"] is not None:
        return [_shifted(Decimal(1), int(match["ten"]))]
    if match["whole"] is not None:
        return [Decimal(match["whole"]) + Decimal(match["over"]) / Decimal(match["under"])]
    numbers = [Decimal(digits) for digits in _plain_digits(match["digits"], decimal)]
    if match["below"] is not None:
        return [number / Decimal(match["below"]) for number in numbers]
    exponent = match["exponent"] or match["power"] or match["lowered"]
    return [_shifted(number, int(exponent)) if exponent else number for number in numbers]


def _plain_digits(digits: str, decimal: DecimalMark) -> list[str]:
    """Return the possible readings of digits with separators, the most likely one first, as digits with at most a
    decimal point. If a mark may be either, `decimal` is read as a decimal mark first. The list is empty if the digits
    are not a number.
    """
    digits = re.sub(r"(?<=[0-9])[ '](?=[0-9])", "", digits)
    whole = re.split(r"[.,]", digits)[0]
    if len(whole) > 1 and whole.startswith("0"):
        return []
    marks = re.findall(r"[.,]", digits)
    if not marks:
        return [digits]
    without = re.sub(r"[.,]", "", digits)
    last = digits.rfind(marks[-1])
    as_decimal = f"{re.sub(r'[.,]', '', digits[:last])}.{digits[last + 1 :]}"
    if len(set(marks)) == 2:
        return [as_decimal]
    if len(marks) > 1:
        return [without]
    if len(digits) - last - 1 != 3 or whole in ("", "0") or len(whole) > 3:
        return [as_decimal]
    if marks[0] == decimal:
        return [as_decimal, without]
    return [without] if as_decimal.endswith(".000") else [without, as_decimal]


def _shifted(number: Decimal | None, exponent: int) -> Decimal | None:
    """Return the number times ten to the power of `exponent`, or None if there is no number or the exponent is too
    large.
    """
    if number is None or abs(exponent) > _LARGEST:
        return None
    sign, digits, place = number.as_tuple()
    return Decimal((sign, digits, int(place) + exponent))


def _is_range(text: str, joined: re.Match[str], has_word: bool, decimal: DecimalMark, is_unit: IsUnit) -> bool:
    """Return whether a number with the same unit follows a unit and a sign or word, or, after *to*, one without a unit.
    *5 mg and 10 mg* is no range without a word such as *between* before it (`has_word`).
    """
    second, join = _number(text, joined.end(), decimal), joined[0].rsplit(maxsplit=1)[-1].casefold()
    if second is None or (join == "and" and not has_word):
        return False
    unit, other = joined["unit"].strip(), text[second.end :].strip(" .")
    if not other:
        return join in ("and", "to") and is_unit(unit)
    return other.split()[0].removesuffix("s") == unit.removesuffix("s") or other == unit or other.startswith(f"{unit} ")


def _joins_units(text: str, decimal: DecimalMark, is_unit: IsUnit) -> bool:
    """Return whether the text is a range whose bounds have different units, as in *between 30 min and 2 h*."""
    at = _opening(text)[1]
    word = _RANGE_WORD.match(text, at)
    first = _number(text, word.end() if word is not None else at, decimal)
    joined = _UNIT_AND_RANGE.match(text, first.end) if first is not None else None
    second = _number(text, joined.end(), decimal) if joined is not None else None
    if joined is None or second is None or not is_unit(joined["unit"].strip()):
        return False
    is_word = re.search(r"\s(?:to|and)\s\Z" if word is not None else r"\sto\s\Z", joined[0], re.I) is not None
    return is_word and bool(known_part(text[second.end :], is_unit))


def _is_bare_hyphen(text: str, between: re.Match[str], second: _Found) -> bool:
    """Return whether a range such as 5-10 has no unit, so that it may be a score or a phone number."""
    return between[0] == "-" and second.end == len(text)


def _may_be_unit(rest: str, unit: str) -> bool:
    """Return whether `unit` can be a unit. It may be empty. A unit has up to four words without punctuation or digits,
    except for exponents. `rest` is the text after the number, and `unit` is the same text without surrounding spaces.
    """
    if len(unit.split()) > 4 or re.search(r"[,;:?!=<>()]", unit) or rest.startswith((".", "-", "/", "'")):
        return False
    return not re.search(r"[0-9]", re.sub(r"(?<=[A-Za-z])\^?-?[0-9]\b", "", unit))
