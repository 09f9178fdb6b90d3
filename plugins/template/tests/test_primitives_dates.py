"""Primitives for dates, and the parser of dates."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates.primitives import DateMatch, DateRange, DateTolerance, Undecided

NO_WHOLE_DATES = [
    *("2024", "2024-01", "January 2024", "15 January", "1/15", "1/15/24", "2024-W03", "15", "", "today", "Tuesday"),
    *("2024-02-30", "2023-02-29", "2024-13-01", "13/13/2024", "0000-01-01", "32 May 2024", "5 Fo 2024"),
    *("2024-01-15T25:00", "2024-01-15 13:00 pm", "2024-01-15T10:00+99:00", "2024-01-15 or so", "2024-01-1510:30"),
    *("15 January 2024 to 16 January 2024", "2024-01/15", 20240115, 1705276800, 1.5, None),
    *(True, ["2024-01-15"], {"year": 2024}, "9" * 5000, timedelta(1)),
]


@pytest.mark.parametrize(
    "written",
    [
        *("2024-01-15", "20240115", "2024/1/15", "2024.01.15", "1/15/2024", "15/1/2024", "15.01.2024", " 2024-01-15. "),
        *("15 January 2024", "15 Jan 2024", "15-Jan-2024", "15th January 2024", "the 15th of January, 2024"),
        *("January 15, 2024", "Jan. 15th, 2024", "JANUARY 15 2024", "January  15,\n2024", "2024 Jan 15"),
        *("Monday, January 15, 2024", "Mon, 15 Jan 2024 10:30:00 GMT", "2024-01-15T23:59:59.999Z"),
        *("2024-01-15 10:30", "2024-01-15T10:30+02:00", "1/15/2024 10:30 PM", "January 15, 2024 at 9:05 a.m."),
        *("२०२४-०१-१५", "१५/०१/२०२४", "१५ January २०२४"),
        *(date(2024, 1, 15), datetime(2024, 1, 15, 10, 30), datetime(2024, 1, 15, 23, 30, tzinfo=UTC)),
    ],
)
def test_date_match_reads_whole_dates_as_people_write_them(written):
    assert DateMatch().check(written, date(2024, 1, 15)) is True
    assert DateMatch().check("2024-01-15", written) is True
    assert DateMatch().check(written, "2024-01-16") is False


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        *(
            (text, "2024-01-15")
            for text in ("15. 1. 2024", "15-Jan-24", "01/15/24", "15.01.24", "2024-W03-1", "2024-015")
        ),
        *((text, "2024-01-15") for text in ("January fifteenth, 2024", "the fifteenth of January 2024")),
        *((text, "2024-01-15") for text in ("on January 15, 2024", "January 15, 2024 (Monday)", "20240115T103000Z")),
        *[("Tuesday, January 15, 2024", "2024-01-15"), ("15-V-2024", "2024-05-15"), ("01/02/03", "2003-01-02")],
        ("25 December 800", "0800-12-25"),
        *((text, "2024-01-15") for text in ("January 14 or 15, 2024", "15/16 January 2024", "15 or 16 January 2024")),
        *((f"January 15, 2024, no wait, January {day}, 2024", f"2024-01-{day}") for day in (16, 17)),
        ("2024-01-15, or perhaps 2024-01-16", "2024-01-15"),
        *((text, "2024-01-15") for text in ("15 ocak 2024", "15 Januray 2024", "2024. január 15.", "15 जनवरी 2024")),
    ],
)
def test_a_date_that_may_be_the_truth_is_undecided(value, truth):
    assert isinstance(DateMatch().check(value, truth), Undecided)


@pytest.mark.parametrize(
    "value",
    [
        *("on January 15, 2024", "15-Jan-24", "January fifteenth, 2024", "around 15 January 2024", "15-I-2024"),
        *("January 15, 2024 (Monday)", "January 15, 2024\u00b2", "15\u00b9 January 2024"),
        *("15 ocak 2024", "15 Januray 2024", "१५ जनवरी २०२४"),
    ],
)
def test_a_named_month_that_may_pass_is_undecided(value):
    assert isinstance(DateMatch().check(value, "2024-01-15"), Undecided)
    assert isinstance(DateTolerance(tolerance=1).check(value, "2024-01-16"), Undecided)
    assert isinstance(DateRange(min="2024-01-10", max="2024-01-20").check(value, None), Undecided)
    assert DateMatch(format="%Y-%m-%d").check(value, "2024-01-15") is False
    assert DateTolerance(tolerance=1).check(value, "2024-01-17") is False
    assert DateRange(min="2024-01-16", max="2024-01-20").check(value, None) is False
    for primitive in (DateMatch(), DateTolerance(tolerance=1)):
        with pytest.raises(ValueError, match="requires a complete date"):
            primitive.check_expected(value)


def test_several_dates_without_the_truth_fail():
    assert DateMatch().check("January 14 or 15, 2024", "2024-01-16") is False
    assert DateMatch().check("January 15, 2024, no wait, January 16, 2024", "2024-01-17") is False


def test_other_days_in_forms_that_are_not_read_fail():
    assert DateMatch().check("**January 15, 2024**", "2024-01-15") is True
    assert DateMatch().check("15. Jänner 2024", "2024-01-15") is True
    for value in (
        "on January 16, 2024",
        "January sixteenth, 2024",
        "01/15/23",
        "15. 2. 2024",
        "2024-W03-2",
        "15-VI-2024",
        "January 2024",
    ):
        assert DateMatch().check(value, "2024-01-15") is False


@pytest.mark.parametrize("value", NO_WHOLE_DATES)
def test_what_says_no_whole_date_never_passes(value):
    assert DateMatch().check(value, "2024-01-15") is not True
    assert DateTolerance(tolerance=999999).check(value, "2024-01-15") is False
    assert DateRange(min="0001-01-01").check(value, None) is False


@pytest.mark.parametrize("value", NO_WHOLE_DATES)
def test_what_says_no_whole_date_cannot_be_the_truth(value):
    for primitive in (DateMatch(), DateTolerance(tolerance=1)):
        with pytest.raises(ValueError, match="requires a complete date"):
            primitive.check_expected(value)


def test_a_truth_in_numbers_has_the_month_first():
    assert DateMatch().check("2024-03-04", "3/4/2024") is True
    assert DateMatch().check("2024-04-13", "13/4/2024") is True


def test_the_other_date_of_a_truth_is_undecided():
    assert DateMatch().check("4 March 2024", "4/3/2024") == Undecided(
        "the ground truth 4/3/2024 can be read as two different dates"
    )
    assert DateMatch().check("4/3/2024", "4/3/2024") is True
    assert DateMatch().check("5 March 2024", "4/3/2024") is False
    assert DateMatch(format="%d/%m/%Y").check("3/4/2024", "4/3/2024") is False


@pytest.mark.parametrize("extracted", ["01/02/2024", "1-2-2024", "Thu, 1/2/2024", "01/02/2024 10:30"])
@pytest.mark.parametrize("expected", ["2024-01-02", "2024-02-01", date(2024, 2, 1)])
def test_a_text_that_can_be_two_dates_is_undecided(extracted, expected):
    assert DateMatch().check(extracted, expected) == Undecided(f"{extracted} can be read as two different dates")
    assert DateMatch().score(extracted, expected) == 0


@pytest.mark.parametrize(
    ("extracted", "expected", "passes"),
    [
        ("01/02/2024", "2024-03-01", False),  # neither
        ("02/02/2024", "2024-02-02", True),  # both the same
        ("02/02/2024", "2024-02-03", False),
        ("13/4/2024", "2024-04-13", True),  # no month 13
        ("4/13/2024", "2024-04-13", True),
        ("2024/01/02", "2024-01-02", True),  # the year first
        ("1 February 2024", "2024-02-01", True),
        ("01/02/2024", "1/2/2024", True),  # the same numbers
        ("02/01/2024", "1/2/2024", None),
        (date(2024, 1, 2), "01/02/2024", True),
    ],
)
def test_only_a_date_with_two_verdicts_is_undecided(extracted, expected, passes):
    found = DateMatch().check(extracted, expected)
    assert (None if isinstance(found, Undecided) else found) is passes


@pytest.mark.parametrize(
    ("value", "truth", "passes"),
    [
        ("15 January 2567 BE", "2024-01-15", True),
        ("15 January B.E. 2567", "2024-01-15", True),
        ("15.1.2567 BE", "2024-01-15", True),
        ("29 February 2567 BE", "2024-02-29", True),
        ("15 January 2568 BE", "2024-01-15", False),
        ("15/01/2567", "2024-01-15", None),
        ("2567-01-15", "2024-01-15", None),
        ("29/02/2567", "2024-02-29", None),
        ("16/01/2567", "2024-01-15", False),
        ("2567-01-15", "2567-01-15", True),
        ("15 \u0e21\u0e01\u0e23\u0e32\u0e04\u0e21 \u0e1e.\u0e28. 2567", "2024-01-15", True),
        ("15 \u0e21\u0e01\u0e23\u0e32\u0e04\u0e21 2567", "2024-01-15", None),
        ("15 \u0e21.\u0e04. \u0e1e.\u0e28. 2567", "2024-01-15", True),
        ("15 \u0e21\u0e35.\u0e04. \u0e1e.\u0e28. 2567", "2024-03-15", True),
        ("15 \u0e21\u0e35.\u0e04. \u0e1e.\u0e28. 2567", "2024-01-15", False),
        ("15 \u0e21.\u0e04. 2567", "2024-01-15", None),
        ("15 \u0e21.\u0e04. 67", "2024-01-15", None),
        ("15 January 2567 BE (2024 CE)", "2024-01-15", True),
        ("15 January 2024 (B.E. 2567)", "2024-01-15", True),
        ("15 January 2024 (B.E. 2566)", "2024-01-15", None),
        ("1 March 2473 BE", "1930-03-01", None),  # a year of the Thai calendar began in April
        ("\u4ee4\u548c6\u5e741\u670815\u65e5", "2024-01-15", True),
        ("\u4ee4\u548c\u5143\u5e745\u67081\u65e5", "2019-05-01", True),
        ("\u5e73\u621031\u5e745\u67081\u65e5", "2019-05-01", None),
        ("\u4ee4\u548c6\u5e741\u670816\u65e5", "2024-01-15", False),
        ("January 15, Reiwa 6", "2024-01-15", True),
        ("January 15, Reiwa 6 (2024)", "2024-01-15", True),
        ("2024\u5e74(\u4ee4\u548c6\u5e74)1\u670815\u65e5", "2024-01-15", True),
        ("2023\u5e74(\u4ee4\u548c6\u5e74)1\u670815\u65e5", "2024-01-15", False),
        ("R6.1.15", "2024-01-15", None),
        ("R6.1.16", "2024-01-15", False),
        ("S64/1/7", "1989-01-07", None),
        ("Reiwa era year 6, January 15", "2024-01-15", None),
        ("the 6th year of Reiwa, January 15", "2024-01-15", None),
        ("Sh\u014dwa 64 January 7", "1989-01-07", True),
        ("It will be 2024-01-15", "2024-01-15", None),
    ],
)
def test_years_of_other_calendars_are_converted_if_they_are_named(value: str, truth: str, passes: bool | None) -> None:
    verdict = DateMatch().check(value, truth)
    near = DateTolerance(tolerance=0).check(value, truth)

    assert (None if isinstance(verdict, Undecided) else verdict) is passes
    assert (None if isinstance(near, Undecided) else near) is passes or not near


@pytest.mark.parametrize("value", ["15/01/2567", "2567-01-15", "15 January 2567", "R6.1.15", "S64/1/15"])
def test_a_year_that_may_be_of_another_calendar_is_undecided_for_all_primitives(value: str) -> None:
    is_near = value[0] != "S"
    for primitive in (DateMatch(), DateTolerance(tolerance=3), DateRange(min="2024-01-01", max="2024-12-31")):
        assert isinstance(primitive.check(value, "2024-01-15"), Undecided) is is_near
        assert primitive.check("15/01/1567", "1024-01-15") is False


def test_a_text_with_two_years_of_another_calendar_may_contain_the_date() -> None:
    assert isinstance(DateMatch().check("from 1 January 2567 BE to 15 January 2567 BE", "2024-01-15"), Undecided)


def test_a_format_decides():
    assert DateMatch(format="%d/%m/%Y").check("01/02/2024", "2024-02-01") is True
    assert DateMatch(format="%m/%d/%Y").check("01/02/2024", "2024-02-01") is False


@pytest.mark.parametrize(
    ("extracted", "expected", "passes"),
    [
        ("3/4/2024", "3/4/2024", True),
        ("3/4/2024", "2024-04-03", True),
        (" 03/04/2024 ", date(2024, 4, 3), True),
        (date(2024, 4, 3), "3/4/2024", True),
        ("2024-04-03", "3/4/2024", False),
        ("3/4/24", "3/4/2024", False),
        ("3 April 2024", "3/4/2024", False),
    ],
)
def test_a_format_says_how_the_text_is_written(extracted, expected, passes):
    assert DateMatch(format="%d/%m/%Y").check(extracted, expected) is passes


def test_a_truth_in_another_format_is_an_error():
    with pytest.raises(ValueError, match="a date in '%d/%m/%Y' or ISO 8601 format"):
        DateMatch(format="%d/%m/%Y").check_expected("3 April 2024")


@pytest.mark.parametrize("format", ["%Y-%m", "%d %B", "%H:%M", "%Q", "", "%Y-%m-%d %"])
def test_a_format_without_the_whole_date_is_refused(format):
    with pytest.raises(ValidationError):
        DateMatch(format=format)


@pytest.mark.parametrize(
    ("tolerance", "unit", "extracted", "expected", "passes"),
    [
        (3, "days", "2024-01-18", "2024-01-15", True),
        (3, "days", "2024-01-12", "January 15, 2024", True),
        (3, "days", "2024-01-19", "2024-01-15", False),
        (0, "days", "2024-01-15", "2024-01-15", True),
        (0.5, "days", "2024-01-15T12:00", "2024-01-15", True),
        (0.5, "days", "2024-01-15T12:01", "2024-01-15", False),
        (2, "hours", "2024-01-15T12:00", "2024-01-15T10:00", True),
        (119, "minutes", "2024-01-15T12:00", "2024-01-15T10:00", False),
        (0, "minutes", "2024-01-15T12:00+02:00", "2024-01-15T10:00Z", True),
        (0, "minutes", datetime(2024, 1, 15, 12, tzinfo=timezone(timedelta(hours=2))), "2024-01-15T10:00Z", True),
        (0, "minutes", "2024-01-15T05:00-05:00", "2024-01-15T10:00Z", True),
        (0, "minutes", "2024-01-15 12:30 PM", "2024-01-15T12:30", True),
        (0, "minutes", "2024-01-15 12:30 am", "2024-01-15T00:30", True),
        (0, "minutes", "2024-01-15 1:30 pm", "2024-01-15T13:30", True),
        (9, "days", "2024-01-15T12:00Z", "2024-01-15", False),
        (9, "days", "2024-01-15", "2024-01-15T12:00Z", False),
    ],
)
def test_date_tolerance(tolerance, unit, extracted, expected, passes):
    assert DateTolerance(tolerance=tolerance, unit=unit).check(extracted, expected) is passes


@pytest.mark.parametrize(
    ("bounds", "extracted", "passes"),
    [
        ({"min": "2024-01-01", "max": "2024-12-31"}, "2024-01-01", True),
        ({"min": "2024-01-01", "max": "2024-12-31"}, "December 31, 2024", True),
        ({"min": "2024-01-01", "max": "2024-12-31"}, "2024-12-31T23:59", True),
        ({"min": "2024-01-01", "max": "2024-12-31"}, "2024-12-31T23:59-05:00", True),
        ({"min": "2024-01-01", "max": "2024-12-31"}, "2023-12-31", False),
        ({"min": "2024-01-01", "max": "2024-12-31"}, "2025-01-01", False),
        ({"min": date(2024, 1, 1)}, "9999-12-31", True),
        ({"max": "1 January 2024"}, "0001-01-01", True),
        ({"max": "2024-01-15T12:00"}, "2024-01-15T12:00", True),
        ({"max": "2024-01-15T12:00"}, "2024-01-15T12:01", False),
        ({"max": "2024-01-15T12:00"}, "2024-01-15", True),
        ({"max": "2024-01-15T12:00Z"}, "2024-01-15T13:00+02:00", True),
        ({"max": "2024-01-15T12:00Z"}, "2024-01-15T11:00", False),
    ],
)
def test_date_range(bounds, extracted, passes):
    assert DateRange(**bounds).check(extracted, "not looked at") is passes


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (DateTolerance, {}),
        (DateTolerance, {"tolerance": -1}),
        (DateTolerance, {"tolerance": 1e10}),
        (DateTolerance, {"tolerance": 1, "unit": "weeks"}),
        (DateRange, {}),
        (DateRange, {"min": "January 2024"}),
        (DateRange, {"min": 0}),
        (DateRange, {"min": ["2024-01-15"]}),
        (DateRange, {"min": "2024-01-02", "max": "2024-01-01"}),
        (DateRange, {"min": "2024-01-01T10:00", "max": "2024-01-01T09:00"}),
        (DateRange, {"min": "2024-01-01T10:00Z", "max": "2024-01-01T11:00"}),
    ],
)
def test_parameters_that_mean_nothing_are_refused(kind, parameters):
    with pytest.raises(ValidationError):
        kind(**parameters)


@given(
    st.dates(min_value=date(1000, 1, 1)),
    st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%a, %d %b %Y", "%m/%d/%Y", "%Y%m%d"]),
)
def test_every_date_is_read_back(day, format):
    text = day.strftime(format)
    found = DateMatch().check(text, day)
    if format == "%m/%d/%Y" and day.day <= 12 and day.day != day.month:
        assert found == Undecided(f"{text} can be read as two different dates")
    else:
        assert found is True


@given(st.datetimes(timezones=st.none() | st.just(UTC)))
def test_every_time_is_read_back_exactly(moment):
    assert DateTolerance(tolerance=0, unit="minutes").check(moment.isoformat(), moment)


@given(st.text(alphabet="0123456789-/. :TZ+janury,th", max_size=30))
def test_a_text_that_is_read_has_year_month_and_day(text):
    if DateRange(min="0001-01-01").check(text, None) is True:
        assert sum(char.isdigit() for char in text) >= 5
