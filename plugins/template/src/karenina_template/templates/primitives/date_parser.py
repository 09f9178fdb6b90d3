"""A parser of dates as people and models write them. Only whole dates count: year, month and day.

It reads ISO 8601 ("2024-01-15", "20240115", also with a time and an offset), numbers with -, / or . ("2024/1/15",
"1/15/2024", "15.01.2024"), and English month names ("15 January 2024", "Jan. 15th, 2024", "Mon, 15 Jan 2024 10:30
GMT"). If day and month are both numbers before the year, the first is the month, unless it is above 12. Years have four
digits. Partial dates ("January 2024", "2024", "15 January", "1/15/24") are not completed, and are no dates.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final, NamedTuple

from karenina_template.templates.primitives.values import plain
from karenina_toolkit.folding import fold


class Moment(NamedTuple):
    """A date, with or without a time of day."""

    at: datetime
    """Midnight if there is no time; without a time zone if none was given."""
    has_time: bool


_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH: Final = r"(?P<month>[a-z]{3,9})\.?"
_WEEKDAY: Final = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,? )?"
_DAY: Final = r"(?:the )?(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>[0-9]{4})"
_NUMBERS: Final = r"(?P<first>[0-9]{1,2})(?P<sign>[-/.])(?P<second>[0-9]{1,2})(?P=sign)" + _YEAR
_SHAPES: Final = tuple(
    re.compile(_WEEKDAY + shape)
    for shape in (
        _YEAR + r"(?P<sign>[-/.])(?P<first>[0-9]{1,2})(?P=sign)(?P<second>[0-9]{1,2})",
        _YEAR + r"(?P<first>[0-9]{2})(?P<second>[0-9]{2})",
        _NUMBERS,
        _DAY + r"(?: of |[ .-]{1,2})?" + _MONTH + r"(?:, ?| |-)?" + _YEAR,
        _MONTH + r"[ -]?" + _DAY + r"(?:, ?| |-)" + _YEAR,
        _YEAR + r"[ -]" + _MONTH + r"[ -]" + _DAY,
    )
)
_TIME: Final = re.compile(
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?(?: ?(?P<zone>z|utc|gmt|[+-][0-9]{2}(?::?[0-9]{2})?))?"
)
_LONGEST: Final = 80
_TWO_NUMBERS: Final = re.compile(_WEEKDAY + _NUMBERS)


def read_date(value: object, format: str | None = None) -> Moment | None:
    """Return `value` as a whole date; None if it is not one.

    `value` may be a date, a datetime or a text in a format of this module, or in `format` (of `datetime.strptime`), if
    given. Numbers are not dates.
    """
    value = plain(value)
    if isinstance(value, datetime):
        return Moment(value, has_time=True)
    if isinstance(value, date):
        return Moment(datetime(value.year, value.month, value.day), has_time=False)
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    try:
        if format is not None:
            return Moment(datetime.strptime(value.strip(), format), has_time="%H" in format or "%I" in format)
        return _read(" ".join(value.casefold().split()).rstrip("."))
    except (ValueError, OverflowError):
        return None


def can_be_two_dates(value: object) -> bool:
    """Return whether `value` is a text with a whole date in which day and month could be confused: "01/02/2024"."""
    found = read_date(value)
    text = plain(value)
    if found is None or not isinstance(text, str) or found.at.day > 12 or found.at.day == found.at.month:
        return False
    return _TWO_NUMBERS.match(" ".join(text.casefold().split())) is not None


def _read(text: str) -> Moment | None:
    for shape in _SHAPES:
        found = shape.match(text)
        if found is None:
            continue
        day = _whole_date(found)
        rest = re.sub(r"^(?:t|,? (?:at )?)(?=[0-9])", "", text[found.end() :])
        if not rest:
            return Moment(day, has_time=False) if found.end() == len(text) else None
        time = _TIME.fullmatch(rest) if len(rest) < len(text) - found.end() else None
        if time is not None:
            return Moment(_with_time(day, time), has_time=True)
    return None


def _whole_date(found: re.Match[str]) -> datetime:
    parts = found.groupdict()
    if "month" in parts:
        return datetime(int(parts["year"]), _month(parts["month"]), int(parts["day"]))
    month, day = int(parts["first"]), int(parts["second"])
    if month > 12 and found.start("year") > found.start("first"):
        month, day = day, month
    return datetime(int(parts["year"]), month, day)


def _month(name: str) -> int:
    for number, month in enumerate(_MONTHS, 1):
        if name in (month, month[:3]) or (name == "sept" and number == 9):
            return number
    raise ValueError(f"{name!r} is not the name of a month")


def _with_time(day: datetime, time: re.Match[str]) -> datetime:
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
    if name is None:
        return None
    if name in ("z", "utc", "gmt"):
        return UTC
    offset = timedelta(hours=int(name[1:3]), minutes=int(name[3:].lstrip(":") or 0))
    return timezone(-offset if name[0] == "-" else offset)
