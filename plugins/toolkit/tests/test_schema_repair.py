"""What a judge writes for lists and booleans is read where it can mean one thing only."""

import pytest

from karenina_toolkit.structured.schema_repair import find_mismatches, object_schema, repair, repair_and_check

SCHEMA = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "string"}},
        "holds": {"type": "boolean"},
    },
}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("BRCA1; BRCA2", ["BRCA1", "BRCA2"]),
        ("- BRCA1\n- BRCA2", ["BRCA1", "BRCA2"]),
        ("BRCA1, BRCA2", "BRCA1, BRCA2"),
        ("BRCA1;", "BRCA1;"),
        ("[]", []),
        ('["BRCA1"]', ["BRCA1"]),
        ("[" * 100_000, ["[" * 100_000]),
    ],
)
def test_semicolons_and_line_breaks_are_between_entries(written, read):
    assert repair({"items": written}, SCHEMA)[0] == {"items": read}


@pytest.mark.parametrize(("written", "read"), [("y", True), ("N", False), ("Yes.", True), ("no", False), ("?", "?")])
def test_words_for_yes_and_no_are_booleans(written, read):
    assert repair({"holds": written}, SCHEMA)[0] == {"holds": read}


def test_an_object_that_matches_no_alternative_says_what_it_lacks():
    needs = {"oneOf": [{"required": ["gene"]}, {"type": "object", "required": ["drug"]}, {"type": "string"}]}
    assert find_mismatches({"year": 2016}, needs) == ['the key "gene" is missing or the key "drug" is missing']
    assert find_mismatches({"of": 1}, {"properties": {"of": {"oneOf": needs["oneOf"][1:]}}}) == [
        "of must be object or text"
    ]


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_text_that_may_be_thousands_is_no_number(kind):
    schema = object_schema({"n": {"type": kind}})

    for written, read in (("1.000", "1.000"), ("-12.000", "-12.000"), ("3.00", 3), ("1234.000", 1234), ("0.000", 0)):
        data, _, problems = repair_and_check({"n": written}, schema)
        assert (data["n"], bool(problems)) == (read, written == read)
