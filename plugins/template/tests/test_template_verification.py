"""Verification of a filled template: fields, weights, composition, the raw response, patterns."""

import pytest

from karenina_template.templates import (
    AllOf,
    AnyOf,
    AtLeastN,
    BaseAnswer,
    ExactMatch,
    FieldCheck,
    LiteralMatch,
    NumericGraded,
    NumericTolerance,
    TemplateError,
    TraceContains,
    Tree,
    VerifiedField,
    load_template,
    verify_patterns,
)
from karenina_template.templates.source.loading import template_of_class
from karenina_toolkit.patterns import PatternTimeout


class Answer(BaseAnswer):
    gene: str = VerifiedField("The gene", "BCL2", ExactMatch(), weight=2)
    count: float = VerifiedField("How many", 10, NumericGraded(full_credit=0.1, cutoff=0.5), weight=1)
    cites: bool = VerifiedField("Cites", verify_with=TraceContains(substring="doi"))
    hedges: bool = VerifiedField("Hedges", False, TraceContains(substring="perhaps"), weight=0)


def with_strategy(tree: Tree | str) -> type[BaseAnswer]:
    class Strategic(Answer):
        class VerificationStrategy:
            verify_strategy = tree

    return Strategic


RIGHT = {"gene": " bcl2 ", "count": 10}
WRONG = {"gene": "TP53", "count": 10}


def bind(answer: type[BaseAnswer], values: dict[str, object], response: str = "see doi") -> BaseAnswer:
    return template_of_class(answer).for_question("q").bind(values, response)


@pytest.mark.parametrize(
    ("values", "response", "results"),
    [
        (RIGHT, "see doi", {"gene": True, "count": True, "cites": True, "hedges": True}),
        (WRONG, "perhaps", {"gene": False, "count": True, "cites": False, "hedges": False}),
        ({"gene": None, "count": None}, "doi", {"gene": False, "count": False, "cites": True, "hedges": True}),
    ],
)
def test_every_field_has_a_result_of_its_own(values, response, results):
    answer = bind(Answer, values, response)
    assert answer.field_results() == results
    assert answer.verify() is all(results.values())


def test_a_granular_score_weighs_the_credit_of_each_field():
    answer = bind(Answer, {"gene": "BCL2", "count": 13}, "no citation")
    scores = answer.field_scores()
    assert scores == {"gene": 1.0, "count": pytest.approx(0.5), "cites": 0.0, "hedges": 1.0}
    assert answer.verify_granular() == pytest.approx((2 * 1 + 1 * 0.5) / 4)


@pytest.mark.parametrize(
    ("tree", "word", "passes", "granular"),
    [
        (AllOf("gene", "cites"), "all_of", False, 1 / 3),
        (AnyOf(FieldCheck("gene"), "cites"), "any_of", True, 1 / 2),
        (AtLeastN(2, "gene", "cites", "count"), "at_least_n(2)", True, 2 / 3),
        ("cites", "all_of", True, 1.0),
    ],
)
def test_a_strategy_decides(tree: Tree | str, word: str, passes: bool, granular: float):
    answer = bind(with_strategy(tree), WRONG)
    assert answer.verify() is passes
    assert answer.verify_granular() == pytest.approx(granular)
    assert template_of_class(with_strategy(tree)).for_question("q").composition == word


def test_without_a_strategy_all_fields_count():
    assert template_of_class(Answer).for_question("q").composition == "all_of"


def test_a_class_knows_its_truths_without_being_bound():
    assert Answer(gene="bcl2", count=10).field_results()["gene"]


@pytest.mark.parametrize(
    ("annotation", "truth", "primitive", "right", "wrong"),
    [
        ("Kind", "Kind.B", "LiteralMatch()", "b", "a"),
        ("Kind", "'b'", "ExactMatch()", "b", "a"),
        ("list[Kind]", "[Kind.A, Kind.B]", "SetContainment()", ["b", "a", "a"], ["a"]),
        ("Item", "{'label': 'x'}", "LiteralMatch()", {"label": "x"}, {"label": "y"}),
        ("date", "'02.01.2020'", "DateMatch(format='%d.%m.%Y')", "2020-01-02", "2020-02-01"),
        ("datetime", "date(2020, 1, 2)", "DateTolerance(tolerance=1)", "2020-01-03T00:00:00", "2020-01-04T00:00:00"),
        ("Decimal", "Decimal('1.5')", "NumericExact()", "1.50", "1.51"),
        ("int | None", "2.5", "NumericMinimum()", 3, 2),
        ("Literal[1, 'one']", "1", "LiteralMatch()", 1, "one"),
        ("tuple[str, ...]", "('a', 'b')", "OrderedMatch()", ["A", "b"], ["b", "a"]),
        ("dict[str, float]", "{'a': 1}", "LiteralMatch()", {"a": 1.0}, {"a": 2}),
        ("bool", "False", "BooleanMatch()", False, True),
    ],
)
def test_a_value_is_compared_in_the_form_of_its_annotation(annotation, truth, primitive, right, wrong):
    bound = load_template(
        "class Kind(Enum):\n    A = 'a'\n    B = 'b'\n"
        "class Item(BaseModel):\n    label: str\n    count: int = 1\n"
        f"class Answer(BaseAnswer):\n    x: {annotation} = VerifiedField('d', {truth}, {primitive})\n"
    ).for_question("q")
    assert [bound.bind({"x": value}).verify() for value in (right, wrong, None)] == [True, False, False]


def test_a_classs_own_verify_may_use_the_fields():
    class Own(BaseAnswer):
        gene: str = VerifiedField("The gene", "BCL2", ExactMatch())

        def verify(self) -> bool:
            return self.field_results()["gene"] and self.correct == {"gene": "BCL2"}

    bound = template_of_class(Own).for_question("q")
    assert bound.bind({"gene": "BCL2"}).verify()
    assert (bound.composition, bound.is_graded) == (None, True)


def test_a_classic_class_grades_only_where_it_says_how():
    class Plain(BaseAnswer):
        gene: str

        def verify(self) -> bool:
            return self.gene == "BCL2"

    class Grading(Plain):
        def verify_granular(self) -> float:
            return 0.25

    assert not template_of_class(Plain).for_question("q").is_graded
    assert template_of_class(Grading).for_question("q").is_graded
    assert bind(Grading, {"gene": "x"}).verify_granular() == 0.25


def test_a_template_of_patterns_alone_leaves_the_verdict_to_them():
    class Patterns(BaseAnswer):
        def model_post_init(self, context: object, /) -> None:
            self.regex = {"drug": "imatinib"}

    answer = bind(Patterns, {})
    assert answer.verify()
    assert answer.verify_regex("it is imatinib").overall_success is True
    assert answer.verify_regex("it is not").overall_success is False


def test_a_template_that_verifies_nothing_is_refused():
    class Nothing(BaseAnswer):
        gene: str

    with pytest.raises(TemplateError, match="verifies nothing"):
        template_of_class(Nothing)
    with pytest.raises(TemplateError, match="neither a VerifiedField"):
        Nothing(gene="x").verify()


def test_a_wrong_declaration_is_refused_where_the_class_is_made():
    with pytest.raises(TemplateError, match="'gen' \\(did you mean 'gene'"):
        with_strategy(AnyOf("gen"))
    with pytest.raises(TemplateError, match="does not match the field annotation"):

        class Wrong(BaseAnswer):
            count: int = VerifiedField("How many", "many", LiteralMatch())

    with pytest.raises(TemplateError, match="weight"):
        VerifiedField("d", 1, NumericTolerance(tolerance=1), weight=float("nan"))
    with pytest.raises(TemplateError, match="which is a reserved name"):

        class Hiding(BaseAnswer):
            regex: str = VerifiedField("d", "x", ExactMatch())


TEXT = "PMID: 12, PMID: 34, PMID: 12"


@pytest.mark.parametrize(
    ("declared", "passes", "found"),
    [
        (r"PMID", True, ["PMID"] * 3),
        (r"doi", False, []),
        ({"pattern": r"PMID: (\d+)", "expected": 3, "match_type": "count"}, True, ["12", "34", "12"]),
        ({"pattern": r"PMID: (\d+)", "expected": 2, "match_type": "count"}, False, ["12", "34", "12"]),
        ({"pattern": r"PMID: (\d+)", "expected": "34", "match_type": "contains"}, True, ["12", "34", "12"]),
        ({"pattern": r"PMID: (\d+)", "expected": "3", "match_type": "contains"}, False, ["12", "34", "12"]),
        ({"pattern": r"PMID: (\d+)", "expected": ["34", "12"], "match_type": "all"}, True, ["12", "34", "12"]),
        ({"pattern": r"PMID: (\d+)", "expected": ["34", "56"], "match_type": "all"}, False, ["12", "34", "12"]),
        ({"pattern": r"3\d", "expected": "34", "match_type": "exact"}, True, ["34"]),
        ({"pattern": r"3\d", "expected": "34"}, True, ["34"]),
        ({"pattern": r"1\d", "expected": "12"}, False, ["12", "12"]),
        ({"pattern": r"(3)(\d)", "expected": ("3", "4")}, True, [("3", "4")]),
    ],
)
def test_patterns_are_looked_for_in_the_raw_response(declared, passes, found):
    report = verify_patterns({"it": declared}, TEXT)
    assert (report.performed, report.overall_success) == (True, passes)
    assert (report.results, report.extraction_results) == ({"it": passes}, {"it": found})
    assert report.details["it"]["matches"] == found


def test_all_patterns_must_be_met_and_none_is_no_success():
    assert verify_patterns({"a": "PMID", "b": "doi"}, TEXT).overall_success is False
    report = verify_patterns(None, TEXT)
    assert (report.performed, report.overall_success, report.results) == (False, None, {})


@pytest.mark.parametrize(
    ("patterns", "says"),
    [
        (["a"], "must be a mapping"),
        ({"a": 3}, "must be a pattern or a mapping"),
        ({"a": "("}, "cannot be used"),
        ({"a": {"pattern": "x"}}, "has no 'expected'"),
        ({"a": {"pattern": "x", "expected": "x", "type": "exact"}}, "unknown key 'type'"),
        ({"a": {"pattern": "x", "expected": "x", "match_type": "exat"}}, "did you mean 'exact'"),
        ({"a": {"pattern": "x", "expected": "1", "match_type": "count"}}, "requires `expected` to be an integer"),
        ({"a": {"pattern": "x", "expected": "xy", "match_type": "all"}}, "requires `expected` to be a list"),
    ],
)
def test_a_malformed_pattern_is_an_error_not_a_wrong_answer(patterns, says):
    with pytest.raises(TemplateError, match=says):
        verify_patterns(patterns, "text")


def test_a_pattern_without_end_is_stopped():
    with pytest.raises(PatternTimeout):
        verify_patterns({"a": r"(a|aa)+$"}, "a" * 60 + "b")
