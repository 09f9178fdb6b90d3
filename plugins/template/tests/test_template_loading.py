"""Loading of declared templates: valid sources, shared classes, and errors."""

import hashlib
from textwrap import dedent, indent

import pytest

from karenina_template.templates import Template, TemplateError, UntrustedTemplate, load_template

FIELD = 'gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())'


def answer(*lines: str) -> str:
    return "class Answer(BaseAnswer):\n" + indent("\n".join(lines), "    ") + "\n"


WHOLE = dedent('''
    """Which gene."""
    from __future__ import annotations
    import datetime as dt
    from enum import Enum
    from typing import Literal, Optional
    from pydantic import BaseModel, Field
    from karenina.schemas.entities import BaseAnswer, VerifiedField
    from karenina_template.templates import DateMatch, LiteralMatch, NumericRange, SetContainment, SynonymMap
    from karenina_template.templates import ExactMatch as Same

    class Phase(str, Enum):
        """Trial phases."""
        ONE = "phase 1"
        TWO = "phase 2"

    class Drug(BaseModel):
        name: str = Field(description="Its name")
        dose: Optional[float] = None

    class Answer(BaseAnswer):
        """The author's notes."""
        gene: str = VerifiedField(
            description="The gene",
            ground_truth="BCL2",
            verify_with=Same(normalize=["lowercase", SynonymMap(mapping={"bcl-2": "bcl2"})]),
            weight=2.5,
            extraction_hint="the symbol alone",
        )
        when: dt.date = VerifiedField("The day", dt.date(2020, 2, 29), DateMatch())
        phase: Phase = VerifiedField("The phase", Phase.TWO, LiteralMatch())
        cold: float = VerifiedField(description="Degrees", verify_with=NumericRange(min=-5, max=+5.5))
        names: "list[str]" = VerifiedField("Names", {"a", "b"}, SetContainment(mode="subset"))
        drugs: list[Drug] | None = Field(..., description="Drugs")
        level: Literal["low", "high"] = Field(description="The level")

        class VerificationStrategy:
            verify_strategy = AnyOf("gene", AtLeastN(2, "when", "phase", FieldCheck("cold")))
    ''')


def test_a_whole_template_is_read_from_its_syntax_tree():
    bound = load_template(WHOLE).for_question("q1")
    assert bound.expected() == {
        "gene": "BCL2",
        "when": "2020-02-29",
        "phase": "phase 2",
        "cold": None,
        "names": ["a", "b"],
    }
    assert bound.judge_fields == ("gene", "when", "phase", "cold", "names", "drugs", "level")
    assert bound.hints() == {"gene": "the symbol alone"}
    assert (bound.composition, bound.description) == ("any_of", "The author's notes.")


def test_the_source_and_its_identity_are_kept():
    template = load_template(WHOLE)
    assert template.source == WHOLE
    assert template.template_id == hashlib.md5(WHOLE.encode()).hexdigest()


def test_templates_that_differ_in_what_is_right_share_one_class():
    base = load_template(answer(FIELD, 'more: str = Field(description="m")'))
    for other in (
        FIELD.replace("BCL2", "TP53"),
        FIELD.replace("ExactMatch()", 'ContainsAny(substrings=["x"])'),
        FIELD.replace("ExactMatch()", "ExactMatch(), weight=7"),
        FIELD.replace("ExactMatch()", 'ExactMatch(), extraction_hint="h"'),
        FIELD.replace("The gene", "Another text"),
    ):
        for strategy in ("", 'class VerificationStrategy: verify_strategy = AnyOf("gene")'):
            again = load_template(answer(other, 'more: str = Field(description="m")', strategy))
            assert again.answer_class is base.answer_class
            assert again.key != base.key or not strategy
            assert ("Another text" in str(again.judge_schema())) is ("Another text" in other)


@pytest.mark.parametrize(
    "other",
    [
        FIELD.replace("The gene", ""),
        FIELD.replace("str", "str | None"),
        FIELD.replace("gene:", "genes:"),
        FIELD.replace("ExactMatch()", 'TraceContains(substring="x")').replace('"BCL2"', "True"),
    ],
)
def test_templates_with_another_schema_have_another_class(other: str):
    assert load_template(answer(other)).answer_class is not load_template(answer(FIELD)).answer_class


def test_the_cache_drops_the_least_recently_used_classes():
    def load(name: str) -> object:
        return load_template(answer(f"{name}: str = VerifiedField('d', 't', ExactMatch())")).answer_class

    used, unused = load("used"), load("unused")
    for number in range(1030):
        load(f"other_{number}")
        if number % 500 == 0:
            assert load("used") is used
    assert load("used") is used
    assert load("unused") is not unused


def test_literals_that_python_calls_equal_are_told_apart():
    number, boolean = (
        load_template(answer(f'x: Literal[{option}] = VerifiedField("d", {option}, LiteralMatch())')).for_question("q")
        for option in ("1", "True")
    )
    assert number.answer_class is not boolean.answer_class


def test_an_answer_may_inherit_from_another():
    source = f"class Base(BaseAnswer):\n    {FIELD}\nclass Answer(Base):\n    more: str = Field(description='m')\n"
    assert load_template(source).for_question("q").judge_fields == ("gene", "more")


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("class Answer(BaseAnswer:\n    pass", 1, "not valid Python"),
        ("", None, "no class Answer"),
        ("\0", None, "null byte"),
        (f"class Gene(BaseAnswer):\n    {FIELD}\n", 1, "must be named Answer; rename Gene"),
        (f"class A(BaseAnswer):\n    {FIELD}\nclass B(BaseAnswer):\n    {FIELD}\n", 1, "Answer; rename one of A, B"),
        (answer(FIELD.replace("ExactMatch", "ExactMach")), 2, "did you mean 'ExactMatch'"),
        (answer(FIELD.replace("ExactMatch()", "ExactMatch(normalise=[])")), 2, "did you mean 'normalize'"),
        (
            answer(FIELD.replace("ExactMatch()", "ExactMatch(normalize=[SynonymMap()])")),
            2,
            "SynonymMap (type: synonym_map) needs the parameter 'mapping' (aliases with their canonical forms",
        ),
        (answer(FIELD.replace("ExactMatch()", "RegexMatch(pattern='(')")), 2, "invalid parameter of RegexMatch"),
        (
            answer(FIELD.replace("ExactMatch()", "ExactMatch(normalize=['lowercas'])")),
            2,
            "normalize.0: unknown normalizer 'lowercas'; did you mean 'lowercase'? (the normalizers are lowercase, "
            "strip, remove_punctuation, collapse_whitespace",
        ),
        (answer(FIELD.replace("ExactMatch()", "DateTolerance(3)")), 2, "DateTolerance cannot be created"),
        (answer(FIELD.replace("ExactMatch()", "'exact'")), 2, "verify_with must be a primitive"),
        (answer(FIELD.replace("verify_with", "verify_wth")), 2, "did you mean 'verify_with'"),
        (answer(FIELD.replace(", verify_with=ExactMatch()", "")), 2, "such as ExactMatch(), but is missing"),
        (answer(FIELD.replace('ground_truth="BCL2", ', "")), 2, "ground_truth is missing"),
        (answer(FIELD.replace("ExactMatch()", "ExactMatch(), weight=-1")), 2, "weight must be a finite number"),
        (answer(FIELD.replace("ExactMatch()", "ExactMatch(), weight=True")), 2, "weight must be a finite number"),
        (
            answer(FIELD.replace("ExactMatch()", "ExactMatch(), extraction_hint=1")),
            2,
            "extraction_hint must be a string",
        ),
        (answer(FIELD.replace("str", "strr")), 2, "unknown annotation 'strr'; did you mean 'str'"),
        (answer(FIELD.replace("str", "'list['")), 2, "is invalid"),
        (answer(FIELD.replace("str", "list[int, str]")), 2, "the number of type arguments of list must be 1"),
        (answer(FIELD, FIELD), 3, "declares the field 'gene' more than once"),
        (answer("n: int = VerifiedField('d', 'many', LiteralMatch())"), 2, "does not match the field annotation"),
        (answer("n: int = VerifiedField('d', True, LiteralMatch())"), 2, "is a boolean"),
        (answer("n: Literal['a', 'b'] = VerifiedField('d', 'c', LiteralMatch())"), 2, "should be 'a' or 'b'"),
        (answer("b: bool = VerifiedField('d', 'true', BooleanMatch())"), 2, "requires True or False"),
        (answer("t: bool = VerifiedField('d', 3, TraceContains(substring='x'))"), 2, "requires True or False"),
        (answer("x: str = Field(description='d')"), 1, "verifies nothing"),
        (answer(FIELD, "x: str = Field(descripton='d')"), 3, "did you mean 'description'"),
        (answer(FIELD, "x: str = Field(pattern='(')"), 1, "cannot be created"),
        (answer(FIELD.replace("gene:", "verify:")), 2, "which is a reserved name"),
        (answer(FIELD.replace("gene:", "correct:")), 2, "which is a reserved name"),
        (answer(FIELD.replace("gene:", "model_dump:")), 1, "conflicts"),
        (answer(FIELD, "class VerificationStrategy:", "    verify_strategy = AnyOf('gen')"), 4, "did you mean 'gene'"),
        (answer(FIELD, "class VerificationStrategy:", "    verify_strategy = 3"), 4, "must be a tree of"),
        (answer(FIELD, "class VerificationStrategy:", "    pass"), 3, "has no verify_strategy"),
        (f"class N(BaseModel):\n    {FIELD}\n" + answer(FIELD, "n: N"), 2, "of the nested model N is a VerifiedField"),
        (f"class N(BaseModel):\n    x: int\nclass N(BaseModel):\n    y: int\n{answer(FIELD)}", 3, "two classes"),
        (
            "class E(Enum):\n    A = 'a'\n" + answer("e: E = VerifiedField('d', E.B, LiteralMatch())"),
            4,
            "no member 'B'",
        ),
        (answer("n: int = VerifiedField('d', " + "-" * 5000 + "1, NumericExact())"), None, "nested too deeply"),
    ],
)
def test_an_error_says_what_and_where(source: str, line: int | None, says: str):
    with pytest.raises(TemplateError, match="gene question") as caught:
        load_template(source, name="gene question")
    assert not isinstance(caught.value, UntrustedTemplate)
    assert says in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("annotation", "truth", "primitive", "kept"),
    [
        ("int", "2.5", "NumericMinimum()", 2.5),
        ("str", "5", "NumericExact()", 5),
        ("str", "date(2020, 1, 2)", "DateMatch()", "2020-01-02"),
        ("date", "'2020-01-02'", "DateMatch()", "2020-01-02"),
        ("date", "'02.01.2020'", "DateMatch(format='%d.%m.%Y')", "02.01.2020"),
        ("Decimal", "Decimal('1.50')", "NumericExact()", "1.50"),
        ("set[str]", "['b', 'a', 'b']", "SetContainment()", ["a", "b"]),
        ("float | None", "-3", "NumericExact()", -3),
        ("dict[str, int]", "{'a': 1}", "LiteralMatch()", {"a": 1}),
    ],
)
def test_truths_are_coerced_to_their_annotations(annotation, truth, primitive, kept):
    source = answer(f"x: {annotation} = VerifiedField('d', {truth}, {primitive})")
    assert load_template(source).for_question("q").expected() == {"x": kept}


def test_loading_twice_gives_equal_templates():
    assert isinstance(load_template(WHOLE), Template)
    assert load_template(WHOLE) == load_template(WHOLE)
