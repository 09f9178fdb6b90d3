"""What a judge writes for booleans, dates and times, and how typed fields bind it."""

from datetime import UTC, date, datetime
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from karenina_template.templates import BaseAnswer, VerifiedField
from karenina_template.templates.bound_template import BoundTemplate
from karenina_template.templates.primitives import (
    BooleanMatch,
    DateMatch,
    DateRange,
    DateTolerance,
    LiteralMatch,
    SetContainment,
    Undecided,
)
from karenina_template.templates.primitives.date_parser import read_dates
from karenina_template.templates.source.loading import template_of_class

TEMPLATES: dict[str, BoundTemplate] = {}


def bound(annotation: Any, rule: Any, truth: object, value: object) -> BaseAnswer:
    """Return the answer in which a judge filled a field of this type with `value`."""
    key = repr((annotation, rule, truth))
    if key not in TEMPLATES:
        field = VerifiedField(description="What is said", ground_truth=truth, verify_with=rule)
        declared = {"__annotations__": {"field": annotation}, "field": field, "__module__": __name__}
        answer = type(BaseAnswer)("Answer", (BaseAnswer,), declared)
        TEMPLATES[key] = template_of_class(answer).for_question("q")
    return TEMPLATES[key].bind({"field": value})


@pytest.mark.parametrize("annotation", [bool, bool | None, Literal[True, False]])
@pytest.mark.parametrize(
    ("value", "meant"),
    [
        *((value, True) for value in ("yes", "Yes", " YES ", "true", "1", "\uff59\uff45\uff53", True)),
        *((value, False) for value in ("no", "NO", "false", "0", False)),
    ],
)
def test_words_and_digits_are_booleans_for_a_boolean_field(annotation: Any, value: object, meant: bool) -> None:
    assert bound(annotation, BooleanMatch(), meant, value).field_results() == {"field": True}
    assert bound(annotation, BooleanMatch(), not meant, value).field_results() == {"field": False}


@pytest.mark.parametrize("value", ["perhaps", "2", "not", "yes and no", 2])
def test_other_words_are_no_booleans(value: object) -> None:
    with pytest.raises(ValidationError):
        bound(bool, BooleanMatch(), True, value)


@pytest.mark.parametrize("value", ["yes", "1", 1, "true"])
def test_boolean_match_itself_converts_nothing(value: object) -> None:
    assert not BooleanMatch().check(value, True)
    assert not bound(str | int | bool, LiteralMatch(), True, value).verify()


THE_FIFTEENTH = [
    *("2024-01-15", "2024-01-15T10:30", "2024-01-15T23:30:00-05:00", "2024-01-15T00:30:00Z", "20240115", "2024/1/15"),
    *("15 January 2024", "15th of January, 2024", "January 15, 2024", "Mon, 15 Jan 2024 10:30 GMT", "15.01.2024"),
    *("15.1.2024", "1/15/2024", "15/1/2024", "15-Jan-2024", "15 Jan 2024 10:30 UTC+2", "2024\u201101\u201115"),
    *("15\u00a0January\u202f2024", "\uff12\uff10\uff12\uff14-01-15", "2024\u5e741\u670815\u65e5"),
    *("15. Januar 2024", "Montag, den 15. Januar 2024", "am 15. Januar 2024 um 10:30 Uhr", "le 15 janvier 2024"),
    *("lundi 15 janv. 2024", "15 de enero de 2024", "lunes, 15 de enero del 2024", "15 gennaio 2024"),
    *("15 de janeiro de 2024", "segunda-feira, 15 de jan. de 2024", "15 januari 2024", "m\u00e5ndag 15 jan. 2024"),
    *(
        "15 stycznia 2024 r.",
        "15 \u044f\u043d\u0432\u0430\u0440\u044f 2024 \u0433.",
        "15 \u044f\u043d\u0432. 2024 \u0433\u043e\u0434\u0430",
    ),
]


@pytest.mark.parametrize("annotation", [str, date, date | None, datetime])
@pytest.mark.parametrize("value", THE_FIFTEENTH)
def test_every_type_of_field_reads_a_date_as_people_write_it(annotation: Any, value: str) -> None:
    answer = bound(annotation, DateMatch(), "2024-01-15", value)
    assert answer.field_results() == {"field": True}
    assert bound(annotation, DateMatch(), "2024-01-16", value).field_results() == {"field": False}


MONTHS = {
    "English": "January February March April May June July August September October November December",
    "German": "Januar Februar M\u00e4rz April Mai Juni Juli August September Oktober November Dezember",
    "French": "janvier f\u00e9vrier mars avril mai juin juillet ao\u00fbt septembre octobre novembre d\u00e9cembre",
    "Spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "Italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "Portuguese": "janeiro fevereiro mar\u00e7o abril maio junho julho agosto setembro outubro novembro dezembro",
    "Dutch": "januari februari maart april mei juni juli augustus september oktober november december",
    "Swedish": "januari februari mars april maj juni juli augusti september oktober november december",
    "Polish": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia wrze\u015bnia pa\u017adziernika "
    "listopada grudnia",
    "Russian": "\u044f\u043d\u0432\u0430\u0440\u044f \u0444\u0435\u0432\u0440\u0430\u043b\u044f "
    "\u043c\u0430\u0440\u0442\u0430 \u0430\u043f\u0440\u0435\u043b\u044f \u043c\u0430\u044f "
    "\u0438\u044e\u043d\u044f \u0438\u044e\u043b\u044f \u0430\u0432\u0433\u0443\u0441\u0442\u0430 "
    "\u0441\u0435\u043d\u0442\u044f\u0431\u0440\u044f \u043e\u043a\u0442\u044f\u0431\u0440\u044f "
    "\u043d\u043e\u044f\u0431\u0440\u044f \u0434\u0435\u043a\u0430\u0431\u0440\u044f",
}


@pytest.mark.parametrize("language", MONTHS)
def test_months_have_names_in_ten_languages(language: str) -> None:
    for number, name in enumerate(MONTHS[language].split(), 1):
        for written in (name, name.upper(), name.capitalize()):
            (read,) = read_dates(f"7 {written} 1999")
            assert read.at.date() == date(1999, number, 7)


@pytest.mark.parametrize("value", ["Jan 2024", "15 Smarch 2024", "the Ides of March", "32 January 2024", "2024"])
def test_what_is_no_whole_date_is_not_bound(value: str) -> None:
    for annotation in (date, datetime):
        with pytest.raises(ValidationError):
            bound(annotation, DateMatch(), "2024-01-15", value)


@pytest.mark.parametrize("value", [2016, 1705276800, "1705276800", "2016", "0", 0])
def test_a_number_is_not_a_date_in_seconds(value: object) -> None:
    for annotation in (date, datetime):
        with pytest.raises(ValidationError, match="is not a complete date"):
            bound(annotation, DateMatch(), "2024-01-15", value)


@pytest.mark.parametrize("annotation", [str, date, datetime])
def test_numbers_with_points_have_the_day_first(annotation: Any) -> None:
    assert bound(annotation, DateMatch(), "2024-01-02", "02.01.2024").field_results() == {"field": True}
    assert bound(annotation, DateMatch(), "2024-02-01", "02.01.2024").field_results() == {"field": False}
    assert bound(annotation, DateMatch(), "2024-12-24", "12.24.2024").field_results() == {"field": True}


@pytest.mark.parametrize("annotation", [str, date, datetime])
@pytest.mark.parametrize("value", ["02/01/2024", "2-1-2024", "02/01/2024 10:30"])
@pytest.mark.parametrize(
    "rule",
    [
        DateMatch(),
        DateTolerance(tolerance=1),
        DateRange(min="2024-02-01", max="2024-02-01"),
        DateRange(min="2024-01-20"),
    ],
)
def test_two_readings_with_two_verdicts_are_undecided(annotation: Any, value: str, rule: Any) -> None:
    answer = bound(annotation, rule, "2024-02-01", value)
    assert answer.verify() is None
    assert rule.check(value, "2024-02-01") == Undecided(f"{value} can be read as two different dates")


@pytest.mark.parametrize("annotation", [str, date, datetime])
@pytest.mark.parametrize(
    ("rule", "passes"),
    [(DateMatch(), False), (DateTolerance(tolerance=60), True), (DateRange(min="2024-01-01"), True)],
)
def test_two_readings_with_one_verdict_are_decided(annotation: Any, rule: Any, passes: bool) -> None:
    assert bound(annotation, rule, "2024-02-15", "02/01/2024").verify() is passes


@pytest.mark.parametrize("annotation", [str, date, datetime])
def test_a_format_decides_which_number_is_the_day(annotation: Any) -> None:
    for format, truth in (("%d/%m/%Y", "2024-01-02"), ("%m/%d/%Y", "2024-02-01")):
        assert bound(annotation, DateMatch(format=format), truth, "02/01/2024").verify() is True
        assert bound(annotation, DateMatch(format=format), "2024-07-07", "02/01/2024").verify() is False


def test_a_typed_field_with_a_format_reads_no_other_text() -> None:
    with pytest.raises(ValidationError):
        bound(date, DateMatch(format="%d/%m/%Y"), "2024-01-02", "1-2-2024")


def test_lists_of_dates_are_bound() -> None:
    answer = bound(list[date], SetContainment(), [date(2024, 1, 15)], ["15 January 2024"])
    assert answer.verify()


def test_a_time_of_a_typed_field_is_kept() -> None:
    answer: Any = bound(
        datetime, DateTolerance(tolerance=1, unit="minutes"), "2024-01-15T10:30:00Z", "15 Jan 2024 10:30 GMT"
    )
    assert answer.field == datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
    assert answer.verify()


class Judged(BaseAnswer):
    """A template with its own verify, which relies on the type of its field."""

    day: date = VerifiedField(description="The day", ground_truth="2024-01-02", verify_with=DateMatch())

    def verify(self) -> bool:
        """Return whether the day is in 2024."""
        return self.day.year == 2024


def test_code_of_a_template_never_gets_a_text_for_a_date() -> None:
    template = template_of_class(Judged).for_question("q")
    assert template.bind({"day": "2 January 2024"}).verify()
    with pytest.raises(ValidationError):
        template.bind({"day": "01/02/2024"})
