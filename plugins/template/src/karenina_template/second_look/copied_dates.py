"""Detects dates that a judge invented, so that they do not count as wrong answers.

If a text contains no date, the judge cannot have read one. Small judges copy digits well, but make mistakes when they
convert dates: for *26 April 1986* they write 2647-04-19. If the response does not contain the year of the judge's date,
the judge chooses among the dates that the program finds there. If there are none, the date is rejected and the judge is
asked again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from karenina_template.templates.base import OWN_FIELDS
from karenina_template.templates.primitives.date_parser import find_dates, is_month, read_dates
from karenina_template.templates.primitives.numbers_in_text import read_numbers
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.structured import InvalidReply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karenina_template.templates import BaseAnswer

_FORMATS: Final = frozenset({"date", "date-time"})
_DIGIT: Final = lazy_pattern(r"\d")
_YEAR: Final = lazy_pattern(r"(?<![0-9])[0-9]{4}(?![0-9])")
_SHORT_YEAR: Final = lazy_pattern(r"(?<![0-9])[0-9]{2}(?![0-9])")
_ENGLISH_WORDS: Final = frozenset({"may", "march", "mar", "out", "set", "gen", "mag", "sty", "mars", "sep"})
"""Month names that are also English words or parts of names. They only count if capitalized."""
_TIMES: Final = lazy_pattern(
    r"\b(?:(?-i:Day|Eve|Tag|Jour|Día)|"
    r"(?:this|that|same|next|previous|following|last|present) (?:day|week|weekend|month|year|night|morning|evening)|"
    r"(?:to|yester|birth|holi|dooms)days?|tonight|tomorrow|ago|century|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|"
    r"christmas|xmas|easter|halloween|thanksgiving|hanukkah|passover|ramadan|eid|diwali|equinox|solstice|ides|"
    r"pentecost|epiphany|[a-z]+(?:teenth|tieth)|"
    # German
    r"(?:vor)?gestern|heute|übermorgen|morgen|\w+tag|vorig\w+|weihnachten|ostern|silvester|neujahr|pfingsten|"
    r"zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|\w+zehn\w*|\w+zig\w*|\w*(?:hundert|tausend)\w*|"
    r"(?:erst|zweit|dritt|viert|fünft|sechst|siebt|acht|neunt|zehnt)e[nrs]|"
    # French
    r"aujourd|hier|demain|veille|lendemain|noël|pâques|pentecôte|toussaint|premier|première|\w+ième|mille?|"
    r"deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize|vingt|trente|"
    # Spanish
    r"hoy|ayer|mañana|anteayer|víspera|navidad|nochebuena|nochevieja|pascua|primero|"
    r"dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce|trece|catorce|dieci\w+|veint\w+|treinta|"
    r"mil|ciento|\w*cientos|"
    # Swedish, Danish and Norwegian
    r"igår|idag|imorgon|imorgen|första|første|andra|tredje|fjärde|fjerde|femte|sjätte|sjette|\w+onde|\w+ende|"
    r"\w*(?:hundra|hundre|hundred|tusen|tusind|tjugo|tyve|tjue)\w*|julafton|jul|påsk|nyår"
    r")\b|"
    # Czech, Slovak, Polish, Hungarian, Romanian, Finnish, Turkish, Vietnamese and Indonesian: months and days
    r"\b(?:led[en]n|únor|břez|dub[en]n|květ|červ|srp[en]n|září|říj|listopad|prosin|dnes|včera|zítra|stycz|lut[ye]|mar[czt]|"
    r"kwie|maj|czerw|lip[ic]|sierp|wrze|paźdz|grud|dziś|wczoraj|janu|febr|márc|ápr|máj|júl|jún|aug|szept|okt|novem|decem|"
    r"ianu|iun|iul|\w+kuu|tänään|eilen|ocak|şubat|nisan|may\u0131s|haziran|temmuz|ağustos|eylül|ekim|kas\u0131m|aral\u0131k|bugün|dün|"
    r"tháng|ngày|hôm|sept|desem|hari|tanggal)|"
    # Russian, Ukrainian and Bulgarian: months, days, years and numbers, by how the words begin
    r"\b(?:янв|яну|фев|мар|апр|ма[йяею]|июн|июл|юни|юли|авг|сен|сеп|окт|ноя|ное|дек|січ|лют|берез|квіт|трав|черв|лип|серп|"
    r"вер|жов|лист|груд|сегодня|вчера|завтра|год|лет|век|день|рождеств|пасх|перв|втор|трет|четв|четыр|пят|шест|сед|сем|"
    r"восе|вось|девят|десят|сорок|два|дві|две|три|сто|тысяч|тисяч|хиляд|\w*дцат)|"
    # Arabic: months in both series, days, years and numbers
    r"يناير|فبراير|مارس|[أا]بريل|مايو|يونيو|يوليو|[أا]غسطس|سبتمبر|[أا]كتوبر|نوفمبر|ديسمبر|كانون|شباط|آذار|نيسان|[أا]يار|"
    r"حزيران|تموز|آب|[أا]يلول|تشرين|محرم|صفر|ربيع|جمادى|رجب|شعبان|رمضان|شوال|ذو|اليوم|[أا]مس|غد|عام|سنة|قرن|[أا]ول|ثاني|"
    r"ثالث|واحد|اثن|ثلاث|[أا]ربع|خمس|سبع|ثمان|تسع|عشر|مئ[ةت]|مائ[ةت]|[أا]لف",
    re.IGNORECASE,
)
"""Words for times, and number words that `read_numbers` does not read.

An unnecessary word does little harm: it only means that dates in responses with this word are not checked.
"""
_ROMAN: Final = lazy_pattern(r"\b(?=[MDCLXVI]{2,}\b)M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b")
_EAST_ASIAN: Final = lazy_pattern(
    "[〇零一二三四五六七八九十百千廿卅元壱壹弐貳参參曜節节祭昨今翌]|明[日天年]|去年|クリスマス|[년월]|어제|오늘|내일|성탄|설날|추석"
)
_READ: Final = (
    "LATIN",
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "HANGUL",
    "CYRILLIC",
    "ARABIC",
    "MICRO",
    "MASCULINE",
    "FEMININE",
)
"""Prefixes of the Unicode names of letters in known scripts. Text in other scripts may contain a date."""


def is_date_field(part: Mapping[str, Any]) -> bool:
    """Return whether a field's schema accepts only dates, with or without a time."""
    options = [option for option in part.get("anyOf", [part]) if option != {"type": "null"}]
    return len(options) == 1 and options[0].get("format") in _FORMATS


def date_choices(value: object, response: str) -> list[str]:
    """Return all dates in `response` in ISO format if `value` is a date whose year seems invented, and otherwise an
    empty list. A year seems invented if the response contains years, but not this one.
    """
    if not any(_is_invented(reading.at.year, response) for reading in read_dates(value)[:1]):
        return []
    return list(dict.fromkeys(day.isoformat() for day in find_dates(response)))


def check_dates(answer: BaseAnswer, text: str, question: str) -> None:
    """Raise `InvalidReply` if the filled template contains a date although `text` cannot contain one, such as *I do not
    know*, unless the question contains the date or its year.

    A text without digits, number words or words for times cannot contain a date. A response such as *yes* may refer to
    a date in the question.
    """
    if _DIGIT.search(text) or any(char.isnumeric() for char in text):
        return  # as most responses: looking for dates in the fields takes longer
    dates = list(_dates_of(answer))
    if not dates or _may_have_date(text):
        return
    asked = find_dates(question)
    for name, day in dates:
        if day not in asked and f"{day.year:04}" not in question:
            problem = f"the field {name!r} has the date {day.isoformat()}, and the response has no date"
            raise InvalidReply(f"{problem}: write the date that the response gives, or null if it gives none")


def _dates_of(answer: BaseAnswer) -> Iterator[tuple[str, date]]:
    """Yield each date in the filled template with the name of its field. Lists are searched, too. Strings that can be
    read as a date are included. If a string is ambiguous, the first reading is used. Fields that no judge fills, such
    as the question's id, are left out.
    """
    for name in type(answer).model_fields:
        value = None if name in OWN_FIELDS else getattr(answer, name, None)
        for item in value if isinstance(value, list | tuple | set | frozenset) else (value,):
            if isinstance(item, date):
                yield name, item.date() if isinstance(item, datetime) else item
            elif isinstance(item, str) and (readings := read_dates(item)):
                yield name, readings[0].at.date()


def _may_have_date(text: str) -> bool:
    """Return whether the text may contain a date. In doubt, for example for an unknown script, the result is True."""
    text = unicodedata.normalize("NFKC", text)
    if any(char.isnumeric() for char in text) or _EAST_ASIAN.search(text) or _ROMAN.search(text):
        return True
    if any(not unicodedata.name(char, "?").startswith(_READ) for char in set(text) if char.isalpha()):
        return True
    for word in re.findall(r"[^\W\d_]+", text):
        if is_month(word) and (word.casefold() not in _ENGLISH_WORDS or word[0].isupper()):
            return True
    if _TIMES.search(text):
        return True
    numbers = read_numbers(text)
    return numbers is None or bool(numbers.known)


def check_years(answer: BaseAnswer, response: str) -> None:
    """Raise `InvalidReply` if a date's year seems invented and the response has no dates to choose from. A year seems
    invented if the response contains years, but not this one. Strings and lists are not checked.
    """
    for name in type(answer).model_fields:
        value = getattr(answer, name, None)
        if isinstance(value, date) and _is_invented(value.year, response) and not find_dates(response):
            problem = f"the response has no year {value.year}, which the date in the field {name!r} has"
            raise InvalidReply(f"{problem}: write the date that the response gives, or null if it gives none")


def _is_invented(year: int, response: str) -> bool:
    """Return whether the response contains a four-digit year, but not `year` in four digits, two digits or English
    words.

    Without a four-digit year, the response may use other words or another calendar.
    """
    text = unicodedata.normalize("NFKC", response)
    if not _YEAR.search(text) or f"{year:04}" in text or f"{year % 100:02}" in _SHORT_YEAR.findall(text):
        return False
    numbers = read_numbers(text)
    return numbers is not None and year not in numbers.known
