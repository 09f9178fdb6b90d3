"""Primitives for dates.

A date is a date or datetime object, or a string that `date_parser` reads as a complete date. Nothing else passes,
including partial dates such as "January 2024".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives.base import Primitive, Undecided
from karenina_template.templates.primitives.date_parser import (
    Moment,
    find_dates,
    in_common_era,
    names_other_weekday,
    possible_dates,
    read_date,
    read_dates,
)
from karenina_template.templates.primitives.values import Number, another_day, plain


def _decide(extracted: object, readings: Sequence[Moment], passes: Callable[[Moment], bool]) -> bool | Undecided:
    """Return whether a date passes, `Undecided` if only one of its two readings does or if its year may be one of the
    Buddhist era, or False if it has none. `extracted` is the date as written, for the reason.
    """
    verdicts = {passes(reading) for reading in readings}
    if len(verdicts) > 1:
        return Undecided(f"{plain(extracted)} can be read as two different dates")
    if True not in verdicts and any(passes(earlier) for earlier in map(in_common_era, readings) if earlier is not None):
        return Undecided(f"the year in {plain(extracted)!r:.80} may be one of the Buddhist era")
    return True in verdicts


def _read_and_decide(extracted: object, passes: Callable[[Moment], bool]) -> bool | Undecided:
    """Return whether a date passes, `Undecided` if this depends on how it is read or on whether it is one, or False if
    it is no date.
    """
    readings = read_dates(extracted)
    if not readings:
        days = (datetime(day.year, day.month, day.day) for day in possible_dates(extracted, with_name=True))
        if any(passes(Moment(day, has_time=False)) for day in days):
            return Undecided(f"{plain(extracted)!r:.80} cannot be read as a date, but may be one that passes")
    return _decide(extracted, readings, passes)


class _DatePrimitive(Primitive, defer_build=True):
    """Base class of primitives whose ground truth is a date."""

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a complete date."""
        self._truth(expected)

    def _truth(self, expected: object) -> Moment:
        truth = read_date(expected)
        if truth is None:
            raise self._wrong_truth("a complete date (year, month and day, such as 2024-01-15)", expected)
        return truth


_ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:$|[T ])")


def _check_format(format: str | None) -> str | None:
    """Return `format` unchanged, or raise `ValueError` if it does not contain year, month and day."""
    sample = date(2013, 11, 27)
    if format is not None:
        parsed = read_date(sample.strftime(format), format)
        if parsed is None or parsed.at.date() != sample:
            raise ValueError(
                f"the format {format!r} must contain the year, month and day as strptime codes, such as %Y-%m-%d"
            )
    return format


class DateMatch(_DatePrimitive):
    """Passes if the value and the ground truth are the same calendar date. Times and time zones are ignored.

    With `format` (in the codes of `strptime`, such as "%d/%m/%Y"), only strings in this format pass. Use it if day and
    month could be confused. It must contain year, month and day. The ground truth may also be in ISO 8601 format.

    Without `format`, a string such as "01/02/2024" is ambiguous. If one of its two dates is the ground truth, the field
    is undecided, unless the ground truth is written with the same numbers in the same order. The ground truth
    "01/02/2024" means 2 January (the month comes first), and the field is undecided for 1 February. "01.02.2024" always
    means 1 February. The field is undecided as well if a string is not read as a date, but contains the day, month and
    year of the ground truth in numbers or names ("01/15/24", "on January 15, 2024", "January fifteenth, 2024", "January
    14 or 15, 2024"), also among other dates, or its day and year with a word that may be the month ("15 ocak 2024"),
    and if it names another weekday. Years of the Thai and Japanese calendars count if they are named ("15 January 2567
    BE", "15 ม.ค. พ.ศ. 2567", "令和6年1月15日", "15 January, Reiwa 6"); the field is undecided for "15/01/2567" and
    "R6.1.15".
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    format: Annotated[str | None, AfterValidator(_check_format)] = None

    def accept(self, expected: object) -> object:
        """Return the ground truth, converted to `format` if necessary."""
        if self.format is None or not isinstance(expected, str) or read_date(expected, self.format) is not None:
            return expected
        return self._truth(expected).at.strftime(self.format)

    def mutate(self, expected: object) -> object:
        """Return a different day."""
        return another_day(self._truth(expected).at.date())

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the dates are the same calendar day. `Undecided` means that this depends on how they are read,
        that the value names another weekday, or that it may be the date in a form that is not read. Any other value
        fails.
        """
        right = self._truth(expected).at.date()
        readings = read_dates(extracted, self.format)
        others = [] if self.format is not None else [reading.at.date() for reading in read_dates(expected)[1:]]
        if len(readings) > 1 and readings[0].at.date() == right and others:
            return True
        verdict = _decide(extracted, readings, lambda reading: reading.at.date() == right)
        if verdict is True and names_other_weekday(extracted, right):
            return Undecided(f"the day of the week in {plain(extracted)} does not match its date")
        if not readings and self.format is None and right in possible_dates(extracted):
            return Undecided(f"{plain(extracted)!r:.80} cannot be read as a date, but may be the ground truth")
        if not readings and self.format is None and isinstance(extracted, str) and right in find_dates(extracted):
            return Undecided(f"{plain(extracted)!r:.80} contains the ground truth and other dates or words")
        if verdict is False and any(reading.at.date() in others for reading in readings):
            return Undecided(f"the ground truth {plain(expected)} can be read as two different dates")
        return verdict

    def _truth(self, expected: object) -> Moment:
        """Return the ground truth as a date, in `format` or ISO 8601. Raises `ValueError` if it is not one, or is
        ambiguous.
        """
        if self.format is None or _ISO.match(str(expected)):
            return read_date(expected, self.format) or super()._truth(expected)
        truth = read_date(expected, self.format)
        if truth is None:
            raise self._wrong_truth(f"a date in {self.format!r} or ISO 8601 format", expected)
        return truth


class DateTolerance(_DatePrimitive):
    """Passes if the date is at most `tolerance` (in `unit`) away from the ground truth.

    A date without a time means midnight. If both have time zones, points in time are compared. If neither has one, they
    are compared as written. If only one has a time zone, the field fails. The tolerance must be between 0 and a billion
    days. The field is undecided if a string is not read as a date, but contains the day, year and name of the month
    of one that passes ("15-Jan-24", "on January 15, 2024"), or a word that may be that name ("15 ocak 2024"), and if
    its year may be one of another calendar ("15/01/2567").
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    tolerance: Annotated[Number, Field(ge=0)]
    unit: Literal["days", "hours", "minutes"] = "days"

    @model_validator(mode="after")
    def _check_tolerance(self) -> Self:
        """Raise `ValueError` if the tolerance is too large for dates."""
        try:
            self._allowed()
        except OverflowError:
            raise ValueError(f"a tolerance of {self.tolerance} {self.unit} is too large for dates") from None
        return self

    def mutate(self, expected: object) -> object:
        """Return a time outside the tolerance, or None if there is none."""
        truth = self._truth(expected)
        return another_day(truth.at, self._allowed().days + 2)

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the date is within the tolerance, or `Undecided` if only one of its two readings is, or if it
        may be a date in a form that is not read. Any other value fails, and so does a date if only one of both has a
        time zone.
        """
        truth, allowed = self._truth(expected), self._allowed()
        return _read_and_decide(
            extracted,
            lambda reading: _aware(reading) == _aware(truth) and abs(reading.at - truth.at) <= allowed,
        )

    def _allowed(self) -> timedelta:
        return timedelta(**{self.unit: self.tolerance})


def _date_text(bound: object) -> str | None:
    """Return a bound as a string, or None if it is None. Raises `ValueError` if it is not a complete date."""
    if bound is None:
        return None
    text = bound.isoformat() if isinstance(bound, date) else bound
    if not isinstance(text, str) or read_date(text) is None:
        raise ValueError(f"{bound!r:.200} is not a complete date (year, month and day, such as 2024-01-15)")
    return text


Bound = Annotated[str | date | None, BeforeValidator(_date_text)]


class DateRange(Primitive, defer_build=True):
    """Passes if the date is between `min` and `max`, inclusive. The ground truth is ignored.

    A bound is a date or a string that contains one. A bound without a time includes the whole day. If a bound has a
    time, times are compared: an extracted date without a time then means midnight, and it fails if only one of the two
    has a time zone. One of the bounds may be omitted. `min` must not be after `max`. The field is undecided if a string
    is not read as a date, but contains the day, year and name of the month of one in the range ("15-Jan-24"), or a word
    that may be that name ("15 ocak 2024"), and if its year may be one of another calendar ("15/01/2567").
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    min: Bound = None
    max: Bound = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Raise `ValueError` if there is no bound, or if the bounds cannot be compared or are in the wrong order."""
        low, high = read_date(self.min), read_date(self.max)
        if low is None and high is None:
            raise ValueError("DateRange has neither min nor max; set at least one of them")
        if low is not None and high is not None:
            if _aware(low) != _aware(high) and low.has_time and high.has_time:
                raise ValueError(
                    f"min {self.min} and max {self.max} must either both have a time zone or both have none"
                )
            if not _not_after(low, high):
                raise ValueError(f"min {self.min} is after max {self.max}")
        return self

    def mutate(self, expected: object) -> object:
        """Return a day two days outside a bound of the range, or None if there is none."""
        low, high = read_date(self.min), read_date(self.max)
        for bound, days in ((high, 2), (low, -2)):
            day = None if bound is None else another_day(bound.at, days)
            if day is not None and self.check(day, expected) is False:
                return day
        return None

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the date is in the range, or `Undecided` if only one of its two readings is, or if it may be a
        date in a form that is not read. Any other value fails.
        """
        low, high = read_date(self.min), read_date(self.max)
        return _read_and_decide(
            extracted,
            lambda reading: (
                (low is None or _not_after(low, reading, bound=low))
                and (high is None or _not_after(reading, high, bound=high))
            ),
        )


def _not_after(earlier: Moment, later: Moment, bound: Moment | None = None) -> bool:
    """Return whether `earlier` is not after `later`, comparing only the dates if `bound` (without one, either moment)
    has no time of day. Times with and without a time zone cannot be compared, so the result is False.
    """
    dates_only = not bound.has_time if bound else not (earlier.has_time and later.has_time)
    if dates_only:
        return earlier.at.date() <= later.at.date()
    return _aware(earlier) == _aware(later) and earlier.at <= later.at


def _aware(moment: Moment) -> bool:
    return moment.at.utcoffset() is not None
