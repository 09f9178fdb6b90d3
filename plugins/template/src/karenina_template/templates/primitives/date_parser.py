"""A parser for dates as people and models write them. Only complete dates are recognized.

It reads ISO 8601 ("2024-01-15", "20240115", also with a time and an offset), numbers with -, / or . ("2024/1/15",
"1/15/2024", "15.01.2024"), and month names in eleven languages ("15 January 2024", "Jan. 15th, 2024", "Mon, 15 Jan 2024
10:30 GMT", "15 de enero de 2024"). Years have four digits. Years of the Thai and Japanese calendars are converted if
they are named ("15 January 2567 BE", "15 January Reiwa 6"). Partial dates such as "January 2024", "2024", "15 January"
and "1/15/24" are not accepted.

If both day and month are numbers before the year, points mean that the day comes first ("02.01.2024" is 2 January).
With - and /, there are two readings, unless one of the numbers is above 12 or both are equal. In the first reading, the
month comes first.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import permutations
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import category, normalize

from karenina_template.templates.primitives.values import plain
from karenina_toolkit.folding import fold, with_ascii_digits
from karenina_toolkit.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence


class Moment(NamedTuple):
    """A date, with or without a time of day."""

    at: datetime
    """The date and time. The time is midnight if none was given, and there is no time zone unless one was given."""
    has_time: bool


_MONTH_NAMES: Final = {
    "en": "january/jan february/feb march/mar april/apr may june/jun "
    "july/jul august/aug september/sep october/oct november/nov december/dec",
    "de": "januar/jan/jänner/jän februar/feb märz/mär april/apr mai juni/jun "
    "juli/jul august/aug september/sept/sep oktober/okt november/nov dezember/dez",
    "fr": "janvier/janv février/févr mars avril/avr mai juin "
    "juillet/juil août septembre/sept octobre/oct novembre/nov décembre/déc",
    "es": "enero/ene febrero/feb marzo/mar abril/abr mayo/may junio/jun "
    "julio/jul agosto/ago septiembre/sept octubre/oct noviembre/nov diciembre/dic",
    "it": "gennaio/gen febbraio/feb marzo/mar aprile/apr maggio/mag giugno/giu "
    "luglio/lug agosto/ago settembre/set ottobre/ott novembre/nov dicembre/dic",
    "pt": "janeiro/jan fevereiro/fev março/mar abril/abr maio/mai junho/jun "
    "julho/jul agosto/ago setembro/set outubro/out novembro/nov dezembro/dez",
    "nl": "januari/jan februari/feb maart/mrt april/apr mei juni/jun "
    "juli/jul augustus/aug september/sep oktober/okt november/nov december/dec",
    "sv": "januari/jan februari/feb mars april/apr maj juni "
    "juli augusti/aug september/sep oktober/okt november/nov december/dec",
    "pl": "stycznia/sty/styczeń lutego/lut/luty marca/mar/marzec kwietnia/kwi/kwiecień maja/maj czerwca/cze/czerwiec "
    "lipca/lip/lipiec sierpnia/sie/sierpień września/wrz/wrzesień "
    "października/paź/październik listopada/lis/listopad grudnia/gru/grudzień",
    "ru": "января/янв/январь февраля/февр/февраль марта/мар/март апреля/апр/апрель мая/май июня/июн/июнь "
    "июля/июл/июль августа/авг/август сентября/сент/сентябрь "
    "октября/окт/октябрь ноября/нояб/ноябрь декабря/дек/декабрь",
    "th": "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม",
}  # fmt: skip
"""Full and abbreviated month names from the Unicode CLDR, release 47."""
_THAI_MONTHS: Final = dict(
    zip(
        ("มค", "กพ", "มีค", "เมย", "พค", "มิย", "กค", "สค", "กย", "ตค", "พย", "ธค"),
        _MONTH_NAMES["th"].split(),
        strict=True,
    )
)
_THAI_SHORT: Final = lazy_pattern(
    r"(?<![\u0e00-\u0e7f.])([\u0e01-\u0e44\u0e34\u0e35]{1,2})\.(\u0e04|\u0e1e|\u0e22)\.?(?![\u0e00-\u0e7f])"
)
"""A Thai month in short, such as *\u0e21.\u0e04.*: letters that are in `_THAI_MONTHS` without the point."""


def _plain_letters(text: str) -> str:
    """Return `text` in lower case without accents, because month names are often written that way, and with ASCII
    digits.
    """
    text = with_ascii_digits(text.casefold())
    if text.isascii():
        return text
    text = _THAI_SHORT.sub(lambda month: _THAI_MONTHS.get(month[1] + month[2], month[0]), text)
    return normalize("NFC", "".join(c for c in normalize("NFD", text) if category(c) != "Mn"))


_MONTHS: Final = {
    _plain_letters(name): number
    for names in _MONTH_NAMES.values()
    for number, month in enumerate(names.split(), 1)
    for name in month.split("/")
}
_MONTH: Final = r"(?P<month>[^\W\d_]{3,12})\.?"
_WEEKDAYS: Final = (
    "montag dienstag mittwoch donnerstag freitag samstag sonntag mo di mi do fr sa so "
    "lundi mardi mercredi jeudi vendredi samedi dimanche lun mar mer jeu ven sam dim "
    "lunes martes miercoles jueves viernes sabado domingo mie jue vie sab dom "
    "lunedi martedi mercoledi giovedi venerdi sabato domenica gio "
    "segunda-feira terca-feira quarta-feira quinta-feira sexta-feira seg ter qua qui sex "
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag ma wo vr za zo "
    "mandag tisdag onsdag torsdag fredag lordag sondag man tis ons tors fre lor son "
    "poniedziałek wtorek sroda czwartek piatek sobota niedziela pon wt sr czw pt sob niedz "
    "понедельник вторник среда четверг пятница суббота воскресенье пн вт ср чт пт сб вс"  # noqa: RUF001 - Russian
)  # fmt: skip
"""Weekday names from the Unicode CLDR, release 47, without accents. English is not included."""

_DAY_NAMES: Final = "|".join(sorted(_plain_letters(_WEEKDAYS).split(), key=len, reverse=True))
_WEEKDAY: Final = rf"(?:(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}}|{_DAY_NAMES})\.?,? )?"
_ARTICLE: Final = r"(?:(?:the|den|der|am|le|el|il|dia|em|op|du) ){0,2}"
_DAY: Final = _ARTICLE + r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th|er|o|\u00ba|\u00b0|\u00aa)?"
_YEAR: Final = r"(?P<year>[0-9]{4})"
_AFTER_YEAR: Final = r"(?: ?(?:года|г|roku|r)\b\.?)?"  # noqa: RUF001 - Russian
_NUMBERS: Final = r"(?P<first>[0-9]{1,2})(?P<sign>[-/.])(?P<second>[0-9]{1,2})(?P=sign)" + _YEAR
_SHAPES: Final = tuple(
    lazy_pattern(_WEEKDAY + shape)
    for shape in (
        _YEAR + r"(?P<sign>[-/.])(?P<first>[0-9]{1,2})(?P=sign)(?P<second>[0-9]{1,2})",
        _YEAR + r"(?P<first>[0-9]{2})(?P<second>[0-9]{2})",
        _NUMBERS,
        _YEAR + r" ?[\u5e74\ub144] ?(?P<first>[0-9]{1,2}) ?[\u6708\uc6d4] ?(?P<second>[0-9]{1,2}) ?[\u65e5\uc77c]",
        _DAY + r"(?: (?:of|de|di) |[ .-]{1,2})?" + _MONTH + r"(?: (?:de|del|of) |, ?| |-)?" + _YEAR + _AFTER_YEAR,
        _MONTH + r"[ -]?" + _DAY + r"(?:, ?| |-)" + _YEAR,
        _YEAR + r"[ -]" + _MONTH + r"[ -]" + _DAY,
    )
)
_IN_TEXT: Final = tuple(lazy_pattern(rf"(?<![\w.,/-])(?:{shape.pattern})(?!\w|[-/][0-9])") for shape in _SHAPES)
_THAI: Final = r"(?:b\.?e\b\.?|\u0e1e\.? ?\u0e28\.?|\u0e1e\u0e17\u0e18\u0e28\u0e01\u0e23\u0e32\u0e0a)"
_BUDDHIST: Final = lazy_pattern(rf"(?<!\w){_THAI} ?(2[4-6][0-9]{{2}})(?![0-9])|(?<![0-9])(2[4-6][0-9]{{2}}),? ?{_THAI}")
_BUDDHIST_ERA: Final = 543
"""The difference of the years of the Thai calendar, which begin on 1 January since 1941, from those of the common era.
"""
_FIRST_BUDDHIST: Final = 2400
"""The first year that is taken for one of the Buddhist era if none is named."""
_ERAS: Final = {
    "reiwa": (2018, date(2019, 5, 1), date.max),
    "heisei": (1988, date(1989, 1, 8), date(2019, 4, 30)),
    "showa": (1925, date(1926, 12, 25), date(1989, 1, 7)),
    "taisho": (1911, date(1912, 7, 30), date(1926, 12, 24)),
    "meiji": (1867, date(1873, 1, 1), date(1912, 7, 29)),
}
"""The year before each Japanese era, and its first and last day. Before 1873, the calendar was another."""
_KANJI: Final = dict(
    zip(("\u4ee4\u548c", "\u5e73\u6210", "\u662d\u548c", "\u5927\u6b63", "\u660e\u6cbb"), _ERAS, strict=True)
)
_JAPANESE: Final = lazy_pattern(rf"({'|'.join((*_ERAS, *_KANJI))}) ?([0-9]{{1,2}}|\u5143)(?![0-9])")
_ERA_OF: Final = {name: before for era, (before, *_) in _ERAS.items() for name in (era, era[0])}
"""The year before each Japanese era, by its name and first letter."""
_ERA_NAME: Final = lazy_pattern(
    rf"({'|'.join(_ERAS)})(?![^\W\d_])|(?<!\w)([{''.join(era[0] for era in _ERAS)}])[. ]{{0,2}}[0-9]{{1,2}}[./\u5e74-]"
)
"""The name of a Japanese era, or its letter before a year."""
_THAI_LETTER: Final = lazy_pattern(r"[\u0e01-\u0e2e]")
_SAME_YEAR: Final = lazy_pattern(r"(?<![0-9])([0-9]{4})( ?\u5e74)? ?\(\1(?: ?(?:\u5e74|ce|ad))?\)(\u5e74)?")
"""A year that is given twice, as in *2024 (B.E. 2567)*, after it is converted."""
_TIME: Final = lazy_pattern(
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?(?: ?(?P<zone>z|utc|gmt|(?:utc|gmt)?[+-][0-9]{1,2}(?::?[0-9]{2})?))?"
    r"(?: ?(?:uhr|h))?"
)
_BEFORE_TIME: Final = lazy_pattern(r"^(?:t|,? (?:(?:at|um|kl\.?|a las|alle|as) )?)(?=[0-9])")
_ENGLISH_DAY: Final = lazy_pattern(r"(mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\b")
_ISO_WEEK: Final = lazy_pattern(r"[0-9]{4}-W[0-9]{2}-[1-7]", re.IGNORECASE)
_PART: Final = lazy_pattern(r"[0-9]+|[^\W\d_]+")
_ROMAN: Final = {
    name: number
    for number, name in enumerate(("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"), 1)
}
_LONGEST: Final = 80


def is_month(word: str) -> bool:
    """Return whether `word` is a month name or its abbreviation in any supported language."""
    return _plain_letters(word) in _MONTHS


def read_date(value: object, format: str | None = None) -> Moment | None:
    """Return the first reading of `value` as a complete date, or None. See `read_dates`."""
    return next(iter(read_dates(value, format)), None)


def read_dates(value: object, format: str | None = None) -> tuple[Moment, ...]:
    """Return all readings of `value` as a complete date, in `format` if it is given: none if it is not one, and two if
    day and month may be exchanged, as in "01/02/2024", where the first reading takes the month first.

    `value` may be a date, a datetime, or a string of at most 80 characters. `format` has the codes of
    `datetime.strptime`. Numbers are not dates.
    """
    value = plain(value)
    if isinstance(value, datetime):
        return (Moment(value, has_time=True),)
    if isinstance(value, date):
        return (Moment(datetime(value.year, value.month, value.day), has_time=False),)
    if not isinstance(value, str) or len(value) > _LONGEST:
        return ()
    text = fold(value).strip(" \t\n*_`")
    try:
        if format is not None:
            return (Moment(datetime.strptime(text, format), has_time="%H" in format or "%I" in format),)
        text, first, last = _with_common_years(" ".join(_plain_letters(text).split()))
        return tuple(moment for moment in _read(text.rstrip(".")) if first <= moment.at.date() <= last)
    except (ValueError, OverflowError):
        return ()


def _with_common_years(text: str) -> tuple[str, date, date]:
    """Return a text with years of the common era in place of those of the Buddhist era and of Japanese eras, and the
    first and last day on which its calendars and eras were in use.
    """
    days = [(date.min, date.max)]

    def from_thai(found: re.Match[str]) -> str:
        days.append((date(1941, 1, 1), date.max))
        return str(int(found[1] or found[2]) - _BUDDHIST_ERA)

    def from_japanese(found: re.Match[str]) -> str:
        before, *era = _ERAS[_KANJI.get(found[1], found[1])]
        days.append((era[0], era[1]))
        return str(before + (1 if found[2] == "\u5143" else int(found[2])))

    text = _JAPANESE.sub(from_japanese, _BUDDHIST.sub(from_thai, text))
    if len(days) > 1:
        text = _SAME_YEAR.sub(r"\1\2\3", text)
    return text, max(first for first, _ in days), min(last for _, last in days)


def in_common_era(moment: Moment) -> Moment | None:
    """Return a date whose year may be one of the Buddhist era in the common era, or None if it is none."""
    if moment.at.year < _FIRST_BUDDHIST:
        return None
    with suppress(ValueError):  # 29 February of a year that is no leap year
        return moment._replace(at=moment.at.replace(year=moment.at.year - _BUDDHIST_ERA))
    return None


def names_other_weekday(value: object, day: date) -> bool:
    """Return whether a string starts with the English name of another day of the week than that of `day`."""
    found = _ENGLISH_DAY.match(value.strip().casefold()) if isinstance(value, str) else None
    return found is not None and not day.strftime("%A").casefold().startswith(found[1])


def possible_dates(value: object, *, with_name: bool = False) -> set[date]:
    """Return the dates that a string may mean in forms that `read_dates` does not read: the day, month and year among
    other words or in short (*on January 15, 2024*, *15-Jan-24*, *January 14 or 15, 2024*). A single word beside the day
    and the year may be any month, in another language or misspelled (*15 ocak 2024*). With `with_name`, only dates with
    such a word, the name of their month or its Roman numeral are returned.

    The month may be a name, a number or a Roman numeral, the day an ordinal in English words, and the year may have two
    digits, of any century or, beside a letter or name of one, of a Japanese era (*R6.1.15*). Week and ordinal dates of
    ISO 8601, and compact dates with a time, count as well.
    """
    from karenina_template.templates.primitives.numbers_in_text import with_digits

    value = plain(value)
    if not isinstance(value, str) or len(value) > _LONGEST:
        return set()
    text = _with_common_years(_plain_letters(fold(with_digits(value))))[0]
    words = _PART.findall(text)
    numbers = [int(word) for word in words if word.isdecimal() and len(word) <= 4]
    names = [word for word in words if not word.isdecimal()]
    months = [_MONTHS.get(word) or _ROMAN.get(word) for word in names]
    if months == [None] and len(numbers) == 2 and len(names[0]) > 2:
        months = [*range(1, 13)]
    eras = [_ERA_OF[found[1] or found[2]] for found in _ERA_NAME.finditer(text)]
    orders = list(permutations(numbers)) if len(numbers) in ((2,) if with_name and not eras else (2, 3)) else []
    parts = [(year, month, day) for year, *rest, day in orders for month in (*rest, *filter(None, months))]
    found: set[date] = set()
    for year, month, day in parts:
        for one in _possible_years(year, eras, is_thai=_THAI_LETTER.search(value) is not None):
            with suppress(ValueError):
                found.add(date(one, month, day))
    if with_name:
        return found
    week = _ISO_WEEK.search(value)
    for text, format in (
        *((word, "%Y%m%d" if len(word) == 8 else "%Y%j") for word in words if len(word) in (7, 8)),
        *([("".join(words), "%Y%j")] if [*map(len, words)] == [4, 3] else []),
        *([(week[0].upper(), "%G-W%V-%u")] if week is not None else []),
    ):
        with suppress(ValueError):
            found.add(datetime.strptime(text, format).date())
    return found


def _possible_years(year: int, eras: Sequence[int], *, is_thai: bool) -> list[int]:
    """Return the years that a number may mean: those of the Japanese `eras`, each given by the year before it, if there
    are any, and otherwise those of any century and of the Buddhist era.
    """
    if year < 100:
        short = [_FIRST_BUDDHIST + 100 + year - _BUDDHIST_ERA] if is_thai else []
        return [before + year for before in eras] or [*range(year, 2200, 100), *short]
    return [year, year - _BUDDHIST_ERA] if year >= _FIRST_BUDDHIST else [year]


def find_dates(text: str) -> list[date]:
    """Return the complete dates in `text` in order, including both readings of ambiguous dates."""
    plain_text = _with_common_years(" ".join(_plain_letters(fold(text)).split()))[0]
    by_start: dict[int, list[date]] = {}
    for shape in _IN_TEXT:
        for match in shape.finditer(plain_text):
            with suppress(ValueError):
                by_start.setdefault(match.start(), [day.date() for day in _whole_dates(match)])
    return [day for start in sorted(by_start) for day in by_start[start]]


def _read(text: str) -> tuple[Moment, ...]:
    """Return the readings of the whole of `text` as a date, with or without a time, or none if it is not one. Raises
    `ValueError` if the date or time does not exist.
    """
    for shape in _SHAPES:
        match = shape.match(text)
        if match is None:
            continue
        days = _whole_dates(match)
        rest = _BEFORE_TIME.sub("", text[match.end() :])
        if not rest:
            return tuple(Moment(day, has_time=False) for day in days) if match.end() == len(text) else ()
        time = _TIME.fullmatch(rest) if len(rest) < len(text) - match.end() else None
        if time is not None:
            return tuple(Moment(_with_time(day, time), has_time=True) for day in days)
    return ()


def _whole_dates(match: re.Match[str]) -> list[datetime]:
    """Return the one or two dates that a match can mean, with the month before the day in the first one if both are
    possible. Raises `ValueError` if the date does not exist.
    """
    parts = match.groupdict()
    year = int(parts["year"])
    if "month" in parts:
        return [datetime(year, _month(parts["month"]), int(parts["day"]))]
    month, day = int(parts["first"]), int(parts["second"])
    if match.start("year") < match.start("first"):
        return [datetime(year, month, day)]
    if month > 12 or (parts["sign"] == "." and day <= 12):
        month, day = day, month
    first = datetime(year, month, day)
    is_clear = parts["sign"] == "." or day > 12 or day == month
    return [first] if is_clear else [first, datetime(year, day, month)]


def _month(name: str) -> int:
    if name not in _MONTHS:
        raise ValueError(f"{name!r} is not the name of a month")
    return _MONTHS[name]


def _with_time(day: datetime, time: re.Match[str]) -> datetime:
    """Return `day` with the time and time zone in the match. Digits beyond microseconds are dropped. Raises
    `ValueError` if the time does not exist.
    """
    hour = int(time["hour"])
    if time["half"]:
        if not 1 <= hour <= 12:
            raise ValueError(f"{hour} is not an hour of a 12-hour clock")
        hour = hour % 12 + (12 if time["half"] == "p" else 0)
    microsecond = int((time["fraction"] or "0").ljust(6, "0")[:6])
    return day.replace(
        hour=hour,
        minute=int(time["minute"]),
        second=int(time["second"] or 0),
        microsecond=microsecond,
        tzinfo=_zone(time["zone"]),
    )


def _zone(name: str | None) -> tzinfo | None:
    """Return the time zone for an offset such as `+02:00`, or None for None. A zone name is taken as UTC."""
    if name is None:
        return None
    parts = re.search(r"([+-])([0-9]{1,2}):?([0-9]{2})?$", name)
    if parts is None:
        return UTC
    offset = timedelta(hours=int(parts[2]), minutes=int(parts[3] or 0))
    return timezone(-offset if parts[1] == "-" else offset)
