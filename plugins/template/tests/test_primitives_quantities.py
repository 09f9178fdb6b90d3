"""`NumberWithUnit`: the same number and unit however they are written, and nothing else."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_template.templates.primitives import NumberWithUnit, Undecided
from karenina_template.templates.primitives.quantity_parser import find_quantities, read_quantity
from karenina_template.templates.primitives.units import find_unit

CASES = [
    (f"{file.stem}:{number}", json.loads(line))
    for file in sorted((Path(__file__).parent / "cases" / "number_with_unit").glob("*.jsonl"))
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
]
SAME = [
    ("5 mg pro Tag", "5 mg pro Tag"),
    ("5 mg daily", "5 mg daily"),
    ("5 mg", "5 mg"),
    ("5", "5 mg"),
    (5, "5 mg"),
    (5.0, "5 mg"),
    ("5mg", "5 mg"),
    ("5.0 milligrams", "5 mg"),
    ("five milligrams", "5 mg"),
    ("the dose was about 5 mg", "5 mg"),
    ("5 mg (0.005 g)", "5 mg"),
    ("5 mg (about 0.005 g)", "5 mg"),
    ("5 km (3 mi)", "5 km"),
    ("100 \u00b0C (212 \u00b0F)", "100 \u00b0C"),
    ("5 mg (2 tablets)", "5 mg"),
    ("5 mg if not contraindicated", "5 mg"),
    ("5 mg of aspirin", "5 mg"),
    ("12 full days in the hospital were needed", "12 days"),
    ("about 5 according to the report they wrote", "5 km"),
    ("1,234.5", "1234.5"),
    ("1.234,5", "1,234.5"),
    ("1\u202f234,5", "1,234.5"),
    ("12,34,567", "1,234,567"),
    (1234.5, "1,234.5"),
    ("46 chromosomes", "46"),
    ("forty-six", "46"),
    ("one", "1"),
    ("nineteen twenty-two", "1922"),
    ("in 1922", "1922"),
    ("5 percent", "5 %"),
    ("5", "5%"),
    ("5 %", "0.05"),
    ("$5 million", "5,000,000 USD"),
    ("5 000 000 dollars", "$5M"),
    ("-7", "\u22127"),
    ("minus 7 degrees Celsius", "-7 \u00b0C"),
    ("100 degrees", "100 \u2103"),
    ("0.5", "\u00bd"),
    ("1 1/2", "1.5"),
    ("2 \u00d7 10\u2075", "200,000"),
    ("5e-3 mol", "0.005 moles"),
    ("2 \u00d7 10-5 mol", "2e-5 mol"),
    ("($1,200)", "-$1,200"),
    ("$(45.2) million", "-$45.2M"),
    ("-1,200", "(1,200)"),
    ("(1,200)", "(1,200)"),
    ("3 \u03bcg", "3 mcg"),
    ("3 um", "3 \u00b5m"),
    ("9.8 meters per second squared", "9.8 m/s\u00b2"),
    ("9.8 meters per second per second", "9.8 m/s^2"),
    ("9.8 m/s/s", "9.8 m/s^2"),
    ("3 m cubed", "3 cubic meters"),
    ("5 millimoles per liter", "5 mmol/L"),
    ("5 mM", "5 millimoles per litre"),
    ("300 degrees Kelvin", "300 K"),
    ("300 deg K", "300 K"),
    ("5 kW h", "5 kWh"),
    ("5 ma", "5 mA"),
    ("5 MYR", "5"),
    ("9.8 m/s\u00b2", "9.8 m/s^2"),
    ("7 milligrams per deciliter", "7 mg/dL"),
    ("5 to 10 kg", "5\u201310 kg"),
    ("less than 5", "<5"),
    ("at least 5 %", "\u2265 5%"),
    ("$70,000", "70000"),
    ("\u20ac5", "5"),
    ("280 students", "280"),
    *[("67 million (UK)", "67 million"), ("5% (British)", "5%"), ("5 metric tons (UK)", "5 metric tons")],
    ("$2{,}500$ m", "2500 m"),
    ("$5 USD", r"\$5"),
    ("5 mmol/L", "5 mM"),
    ("two millions", "2,000,000"),
    ("five thousands", "5000"),
    ("two seconds", "2 s"),
    ("5 mg to 10 mg", "5\u201310 mg"),
    ("5 kg m-2", "5 kg m-2"),
    *(("1 / 1", "1"), ("1 / 2 mg", "0.5 mg"), ("4/4", "1"), ("1 1 / 2", "1.5"), ("1/2", "1 / 2")),
    *(("120 / 80 mmHg", "120/80 mmHg"), ("8 / 10", "8/10"), ("10 gallons, UK", "10 gallons UK"), ("5 oz troy",) * 2),
    *(
        ("5 oz av", "5 oz"),
        ("10 short tons", "10 short tons"),
        ("5oz troy", "5 oz troy"),
        ("10gallons UK", "10 gallons UK"),
    ),
]
OTHER = [
    ("7 mg", "5 mg"),
    ("50 mg", "5 mg"),
    ("5,000 mg", "5 mg"),
    ("-5 mg", "5 mg"),
    ("5 miles", "5 mg"),
    ("3 um", "3 uM"),
    ("3 km squared", "3 km"),
    ("5 MYR", "5 Ma"),
    *[("7 C", "5 coulombs"), ("5 \u00b0C", "5 coulombs"), ("5 amperes", "5 \u00c5")],
    ("0.5", "5 %"),
    ("1200", "-1200"),
    ("(5 billion)", "-5 million"),
    ("none", "5"),
    ("unknown", "5 mg"),
    ("", "5 mg"),
    ("BCL2", "2"),
    (None, "5 mg"),
    (True, "1"),
    ("1922 or 1923", "1924"),
    ("12 kg", "5\u201310 kg"),
    *[
        ("3/4 mg", "3 mg"),
        ("3/4", "4"),
        ("8/10", "7"),
        ("3/4", "3"),
        ("1", "1/2"),
        ("9", "1/2 to 3/4"),
        ("1 cup", "1/2 cup"),
    ],
    *[("90 mL/min", "90 mL"), ("f\u00fcnf", "6"), ("3/4", "0.667"), ("4-6", "7")],
    ("123456789012345678901234567890.12345678901234567", "0.67"),
    ("5 kg", "1.000-2.000 kg"),
    ("7", "<5"),
    ("more than 7", "5"),
    ("60 h to 80 h", "40 h"),
    ("between 60 and 80 h", "40 h"),
    ("5 mg and 10 mg", "7 mg"),
]
UNCLEAR = {
    "may change the number": [
        *[
            ("5 mg pro Tag", "5 mg"),
            ("5 mg t\u00e4glich", "5 mg"),
            ("5 mg al d\u00eda", "5 mg"),
            ("5 l par jour", "5 l"),
        ],
        *(("the dose was about 5 mg a day", "5 mg"), ("a loss of $3", "$3")),
    ],
    "may make the unit another one": [
        *(("10 gallons (UK)", "10 US gallons"), ("5 miles (nautical)", "5 miles"), ("5 oz (troy)", "5 oz")),
        *(("10 gal. (UK)", "10 US gallons"), ("5 mi. (nautical)", "5 mi"), ("10 gallons, UK", "10 gallons")),
        *(("10 gallons [UK]", "10 gallons"), ("10 gallons UK", "10 gallons"), ("10 gallons", "10 gallons UK")),
        *(
            ("5oz troy", "5oz"),
            ("10gallons UK", "10 gallons"),
            ("5 oz troy", "5 oz"),
            ("5 oz", "5 oz troy"),
            ("10 tons, long", "10 tons"),
            ("1 day, sidereal", "1 day"),
        ),
    ],
    "may be a score": [
        *(("4/4", "4"), ("4", "4/4"), ("8/10", "8"), ("8 / 10 points", "8 points"), ("4.5/5", "4.5")),
        *(("Score: 8/10", "8"), ("**8/10**", "8"), ("3/4 patients", "3"), ("29/30", "29"), ("8/10 (80%)", "8")),
    ],
    "is not evaluated": [("12!", "12"), ("\u221a144", "12")],
    "is not known whether": [
        *[
            ("5 s", "5 S"),
            ("5 MPa", "5 mPa"),
            ("5 C", "5 coulombs"),
            ("5 farads", "5 F"),
            ("2.1 A", "2.1 \u00c5"),
            ("5 m", "5 min"),
            *(("8 oz", "8 fl oz"), ("8 fluid ounces", "8 ounces")),
        ],
    ],
    "'furlongs' in '5 furlongs from the coast of the island' may be another unit": [
        ("5 furlongs from the coast of the island", "5 km"),
    ],
    "units are not converted": [
        *[
            ("5 ppm", "5 mg/L"),
            ("5 N/m2", "5 Pa"),
            ("0.5 mM", "9 mg/dL"),
            ("400 IU", "10 \u00b5g"),
            ("5 pints", "2.4 L"),
        ],
        *[
            ("9.07 t", "10 short tons"),
            ("18.5 km", "10 nautical miles"),
            ("10 UK pints", "10 pints"),
            ("1 ozt", "31.1 g"),
        ],
        ("65 Ma", "65 million years"),
        ("5 g", "5 mg"),
        ("0.005 g", "5 mg"),
        ("5 mW", "5 MW"),
        ("\u20ac5", "$5"),
    ],
    "the ground truth has no unit": [("5 km", "5")],
    "a number of pairs": [("46 pairs", "46"), ("two pairs", "2")],
    "a number of BC": [("44 BC", "44")],
    "is not known": [("12 residues", "12 amino acids")],
    "2 numbers": [("5 or 6 mg", "5 mg"), ("1.5 x 102", "150"), ("5 mg + 5 mg", "5 mg"), ("4 x 4", "4")],
    "a ton may be metric": [("10 tonnes", "10 tons"), ("10 tons", "10 t"), ("10 tons", "10 metric tons")],
    "a range": [
        *(
            (value, "40 h")
            for value in ("30 h to 50 h", "30 h - 50 h", "30 h-50 h", "30 hours to 50 hours", "30 h to 50")
        ),
        *((value, "40 h") for value in ("between 30 and 50", "between 30 h and 50 h", "from 30 to 50 h")),
        *((value, "$7") for value in ("between $5 and $10", "$5-$10", "$5\u201310", "from $5 to $10")),
        *[("$5-10 million", "$7 million"), ("5% to 10%", "7%"), ("2\u00b0C\u20138 \u00b0C", "5 \u00b0C")],
        *[("5 mg to 10 mg of salt", "7 mg"), ("between -10 and 0", "-5"), ("between 1990 and 2000", "1995")],
        ("5-10 mg", "5 mg"),
        ("7 kg", "5\u201310 kg"),
        ("1.500 mg", "1000-2000 mg"),
        ("(15) mg", "10-20 mg"),
    ],
    "a limit": [("more than 5", "6"), ("1.500", "> 1000"), ("1.500", "< 2")],
    "can be read in two ways": [("1.234", "1,234")],
    "cannot be read": [
        *[("1990s", "1990"), ("between 30 min and 2 h", "1 h"), ("from 30 min to 2 h", "1 h")],
        *[("hundreds", "100"), ("thousands people", "1000 people"), ("millions", "1000000"), ("tens", "10")],
        *[("tens of thousands", "10000"), ("many thousands", "1000"), ("trillions", "1e12")],
        *[("third", "3"), ("third", "1/3"), ("the second", "2"), ("twenty-first", "21"), ("hundredth", "100")],
    ],
    "as a fraction": [("0.05", "5 %")],
    "rounded fraction": [("2/3", "0.667"), ("0.67", "2/3")],
    "word, letter or mark": [
        *[("f\u00fcnf mg", "5 mg"), ("cinco", "5"), ("quarante-deux", "42"), ("\u4e94\u4e07", "50000")],
        *[
            ("\u4e09\u767e\u4e8c\u5341", "320"),
            ("5 Billionen", "5 trillion"),
            ("5 cr", "50 million"),
            ("5 MM", "5 million"),
        ],
        *[("10,0000", "100000"), ("10\u22123", "0.001"), ("5D-3", "0.005"), ("5 10^3", "5000"), ("4-6", "5")],
    ],
    "may be a time": [("1:30", "90 min")],
    "may belong to the unit": [
        *[
            ("5 mg twice daily", "10 mg/day"),
            ("12.5 Liter pro Minute", "12.5 l/min"),
            ("12.5 l je Minute", "12.5 l/min"),
        ],
        *[("80 kilometres par heure", "80 km/h"), ("80 km por hora", "80 km/h")],
    ],
    "in the ground truth may be the same rate": [
        *[("12.5 l/min", "12.5 Liter pro Minute"), ("12.5 L / min", "12.5 Liter pro Minute"), ("5 mg/d", "5 mg daily")],
    ],
    "feet, minutes or seconds": [("5' 10\"", "70 in")],
    "brackets may be negative": [("(1,200)", "1200"), ("1200", "(1,200)")],
    "contradicts the quantity before it": [
        ("5 mg (0.5 g)", "5 mg"),
        ("5 km (8 mi)", "5 km"),
        ("100 \u00b0C (100 \u00b0F)", "100 \u00b0C"),
        ("5 mg (50 mg)", "5 mg"),
    ],
    "may make the number negative": [("a loss of $5 million", "-$5M")],
    "in words, which is not converted to a number": [
        ("three and a half", "3"),
        ("3 and a half", "3"),
        ("half", "0.5"),
        ("two thirds", "2"),
    ],
    "may mean 0": [("none", "0")],
}
"""By the reason: what is said, and the truth."""
NO_QUANTITY = (
    *("F", "MAR1", "SEPT2", "BCL2", "NO", "007", "0123", "1.2.3", "192.168.1.1", "555-1234", "5-10", "+49 30 1234"),
    *("2024-01-15", "01/02/2024", "1990s", "Q1 2024", "", "-", "?", "N/A", "5 or 6", "1_000", "nan", "inf", "SEK5"),
    *("10:30", "3D structure 5", "A1", "P53_HUMAN", "1e99999", "5, 6"),
)


@pytest.mark.parametrize("case", [pytest.param(case, id=place) for place, case in CASES])
def test_a_case_has_its_verdict(case):
    rule = NumberWithUnit.model_validate(case["rule"])
    rule.check_expected(case["truth"])
    verdict = rule.check(case["value"], case["truth"])

    accepted = [case["expected"], *(["undecided"] if case.get("or_undecided") else [])]
    assert ("undecided" if isinstance(verdict, Undecided) else verdict) in accepted, (case["why"], verdict)


@pytest.mark.parametrize(("value", "truth"), SAME)
def test_the_same_quantity_passes_however_it_is_written(value, truth):
    assert NumberWithUnit().check(value, truth) is True


@pytest.mark.parametrize(("value", "truth"), OTHER)
def test_another_number_or_kind_of_unit_fails(value, truth):
    assert NumberWithUnit().check(value, truth) is False


@pytest.mark.parametrize(("value", "truth", "why"), [(*pair, why) for why, pairs in UNCLEAR.items() for pair in pairs])
def test_what_cannot_be_compared_is_undecided(value, truth, why):
    found = NumberWithUnit().check(value, truth)
    assert isinstance(found, Undecided)
    assert why in found.why


@pytest.mark.parametrize("text", NO_QUANTITY)
def test_names_dates_and_codes_are_no_quantities(text):
    assert read_quantity(text) is None


@pytest.mark.parametrize("text", ["F", "MAR1", "BCL2", "a few", None, True, "", "007"])
def test_a_truth_must_be_a_number(text):
    with pytest.raises(ValueError, match="NumberWithUnit requires a number"):
        NumberWithUnit().check_expected(text)


def test_the_unit_that_a_question_asks_for_is_that_of_the_truth():
    assert NumberWithUnit(unit="km").check("5 km", "5") is True
    assert NumberWithUnit(unit="km").check("5 kg", "5") is False
    assert isinstance(NumberWithUnit(unit="km").check("5 m", "5"), Undecided)
    assert isinstance(NumberWithUnit(unit="%").check("21 %", "0.21"), Undecided)
    assert NumberWithUnit(unit="dozen").check("5 dozen", "5") is True


def test_the_decimal_mark_decides_between_two_readings():
    assert NumberWithUnit().check("1,234", "1234") is True
    assert NumberWithUnit(decimal=",").check("1,234", "1,234") is True
    assert NumberWithUnit(decimal=",").check("1.234", "1234") is True
    assert isinstance(NumberWithUnit(decimal=",").check("1,234", "1234"), Undecided)
    assert read_quantity("1.234.567", ",").is_code is False
    assert read_quantity("1.234.567").is_code is True


def test_case_matters_where_it_tells_two_units_apart():
    assert [find_unit(text) for text in ("KG", "mW", "MW", "mw", "Hertz")] == ["kg", "mW", "MW", None, "Hz"]


@given(st.decimals(-(10**12), 10**12, places=3), st.sampled_from(["", " mg", " %", " people", " km/h"]))
def test_a_written_number_is_read_back(number, unit):
    for text in (f"{number}{unit}", f"{number:,}{unit}"):
        (found,) = find_quantities(text)
        assert found.numbers[0] == number
        assert NumberWithUnit().check(text, f"{number}{unit}") is True
        assert NumberWithUnit().check(f"{number + 1}{unit}", f"{number}{unit}") is False


@given(st.text() | st.text("0123456789.,-+/$ eE%xmg()", max_size=30))
def test_any_text_is_read_or_not(text):
    found = read_quantity(text)
    assert found is None or all(isinstance(one, Decimal) for one in found.numbers)
    assert isinstance(NumberWithUnit().check(text, "5 mg"), bool | Undecided)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "not 5 mg",
            "5 mg is wrong",
            "anything but 5 mg",
            "5 mg or more",
            "5 mg or less",
            "5 mg maximum",
            "max. 5 mg",
        ),
        *("exceeding 5 mg", "upwards of 5 mg", "≦ 5 mg", "⩾ 5 mg", "≠ 5 mg"),
    ],
)
def test_a_limit_or_rejected_number_is_undecided(value: str) -> None:
    assert isinstance(NumberWithUnit().check(value, "5 mg"), Undecided)


@pytest.mark.parametrize(
    ("value", "truth"), [("1 ML", "1 mL"), ("1 Mmol", "1 mmol"), ("5 Pg", "5 pg"), ("5 mN", "5 MN")]
)
def test_the_case_of_a_prefix_matters(value: str, truth: str) -> None:
    assert NumberWithUnit().check(value, truth) is not True


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        *((text, "5 N") for text in ("5 N m", "5 newton meters", "The torque is 5 N m", "5 N m of torque")),
        *(("5 A h", "5 A"), ("5 kW hours", "5 kW"), ("It uses 5 kW hours", "5 kW"), ("5 lb ft", "5 lb")),
    ],
)
def test_a_product_of_units_is_not_its_first_unit(value: str, truth: str) -> None:
    assert isinstance(NumberWithUnit().check(value, truth), Undecided)


@pytest.mark.parametrize(
    ("value", "truth"),
    [("5 kg of water", "5 kg"), ("5 kg in water", "5 kg"), ("20 C degrees", "20 °C"), ("5 N m", "5 N m")],
)
def test_words_after_a_unit_are_no_product(value: str, truth: str) -> None:
    assert NumberWithUnit().check(value, truth) is True


@pytest.mark.parametrize(
    "value",
    [
        *("2 x 2.5 mg", "2.5 \u00d7 2 mg", "2*2.5 mg tablets", "2 · 2.5 mg", "2+3 mg", "10 mg / 2", "10 ÷ 2 mg"),
        *("5e99999 mg", "5E+999999 mg", "5 e99999 mg"),
    ],
)
def test_a_calculation_or_a_number_that_is_too_large_is_undecided(value: str) -> None:
    assert isinstance(NumberWithUnit().check(value, "5 mg"), Undecided)


@pytest.mark.parametrize("value", ["5 + 5 mg", "5 x 5 mg", "5 \u00d7 5 mg tablets"])
def test_a_calculation_with_the_right_number_is_undecided(value: str) -> None:
    assert isinstance(NumberWithUnit().check(value, "5 mg"), Undecided)


def test_a_calculation_of_another_number_fails() -> None:
    assert NumberWithUnit().check("2 x 2.4 mg", "5 mg") is False
    assert NumberWithUnit().check("0.5 ÷ 0 mg", "5 mg") is False


@pytest.mark.parametrize("value", ["12e99999", "12 e99999", "12E-99999"])
def test_an_exponent_that_is_too_large_is_not_left_out(value: str) -> None:
    assert isinstance(NumberWithUnit().check(value, "12"), Undecided)


def test_a_value_that_is_a_long_text_is_undecided() -> None:
    assert isinstance(NumberWithUnit().check("5 mg/" * 3000, "5 mg"), Undecided)


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        *(
            (text, "5 million")
            for text in ("5 Millionen", "5 millones", "5 milioni", "5 milhões", "5 миллионов", "500万")
        ),
        *((text, "5 billion") for text in ("5 Milliarden", "5 milliards", "5 mil millones", "5 млрд", "50亿")),
        *((text, "5000") for text in ("5 Tausend", "5 mil", "5 тыс.", "5千")),
        ("1,2 Millionen Euro", "€1.2 million"),
    ],
)
def test_a_power_of_ten_in_another_language_is_undecided(value, truth):
    assert isinstance(NumberWithUnit().check(value, truth), Undecided)
    assert NumberWithUnit().check(value, "7 million") is False
