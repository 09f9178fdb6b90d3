"""Templates from the source cache equal those that are parsed."""

import ast
from itertools import chain
from string import Formatter
from textwrap import dedent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from karenina_core.data.trust import Trust, digest_of
from karenina_template.templates import Template, TemplateError, UntrustedTemplate, load_template
from karenina_template.templates.source.literals import (
    is_comment,
    literal_spans,
    literal_value,
    prefix_before,
    split_literals,
)
from karenina_template.templates.source.loading import read_template

# t is a text, n a number, d one of a date, c a comment; o is an option that stands several times, p a pattern after r.
LAYOUTS = [
    "class Answer(BaseAnswer):\n    {t1}\n    gene: str = VerifiedField({t2}, {t3}, verify_with=ExactMatch())\n",
    dedent("""\
        from typing import Literal  {c1}

        {t1}
        class Kind(str, Enum):
            {t2}
            FIRST = {o}

        class Answer(BaseAnswer):
            {t3}
            kind: Kind = VerifiedField({t4}, {o}, LiteralMatch(), weight={n1})
            year: float | None = VerifiedField(
                description={t5},
                ground_truth=-{n2},  {c2}
                verify_with=NumericTolerance(tolerance={n3}, mode="absolute"),
            )
            names: list[str] = VerifiedField({t6}, [{t7}, {t8}], SetContainment(), extraction_hint={t9})
            why: str = Field(description={t10})
            phase: Literal["a", {o}] = VerifiedField("d", "a", ExactMatch(normalize=["strip"]))
        """),
    dedent("""\
        class Größe(BaseModel):
            wert: float = Field(description={t1}, ge={n1})
        class Answer(BaseAnswer):
            ö: str = VerifiedField("ü" {t2}, {t3}, verify_with=RegexMatch(r{p}))
            größe: list[Größe] = VerifiedField(({t4}  {c1}
                {t5}), ground_truth=[{{"wert": {n2}}}], verify_with=LiteralMatch())
            seen: bool = VerifiedField({t6}, True, TraceContains(substring={t7}))
            day: date = VerifiedField({t8}, date({d1}, 2, {d2}), DateTolerance(tolerance={n3}))
            mass: float = VerifiedField({t11}, {n6}, NumericExact(), default={n7}, ge={n8}, alias={o})
            any: Any = VerifiedField({t9}, [{n4}, {n5}], LiteralMatch())
            class VerificationStrategy:
                {t10}
                verify_strategy = AnyOf("ö", "seen")
        """),
    "class Part(BaseAnswer):\n    a: str = VerifiedField({t1}, {t2}, ExactMatch())\n"
    "class Answer(Part):\n    b: str = VerifiedField({t3}, {t4}, ContainsAny(substrings=[{t5}]))\n",
]
SPELLED = {
    "t": [
        *['"BCL2"', "'BCL2'", r"'it\'s'", "'\"'", '"# no"', r'"\"so\""', "'''\"'''", '"ä 語"', r'"\u00e4\n"', '"{0}"'],
        *[
            "'''two\n  lines \"quoted\"\n'''",
            '"""one"""',
            '"x\\\ny"',
            '""',
            '"   "',
            r'"\\"',
            '"a" "b"',
            "'é' 'e\u0301'",
        ],
    ],
    "n": ["1", "12", "1.5", "1.0", "0.25", "1e1", ".5", "5.", "1_0", "0x1", "0"],
    "d": ["12", "28", "2", "0x7", "31", "1.0"],
    "c": ["# a", "# it's", '# "', "#", "# ü"],
    "o": ['"first"', "'first'", '"ü"', '"a"'],
    "p": [r'"\d"', r"'\\'", '"a"', '"["', r"'''\w'''"],
}
ODD = [
    *[r'"\xZZ"', r'"\N{no such}"', r'"\d"', 'b"x"', 'f"x"', 'f"{1}"', 'u"x"', r'r"\d"', 'Rb"x"', '"\0"', '"\ud800"'],
    *["1j", "007", "1__0", "0xe+1", "0xe+1j", "1if True else 2", "5.real", "1.5.6", '"open', "'''open", '""""'],
    *["-1", "+1", "- -1", "[]", '["a"]', "{}", "()", "ExactMatch()", "open()", "a", "a.b", "Kind.FIRST", 'x"y"', "..."],
    *['"a"\r\n"b"', "'''a\r\nb'''", "1\f", '"a" # "b"', "# c", "# it's", '"a"; "b"', '("a")', '*"a"', '"a", "b"'],
    *["True", "None", "1", '"t"', "", "1 if 2 else 3", "9" * 5000],
]


@st.composite
def alike(draw: st.DrawFn) -> list[str]:
    """Draw sources of one layout that differ in some literals, occasionally in an unusual way."""
    layout = draw(st.sampled_from(LAYOUTS))
    slots = [name for _, name, _, _ in Formatter().parse(layout) if name]
    first = {slot: draw(st.sampled_from(SPELLED[slot[0]][:2])) for slot in slots}
    sources = [layout.format(**first), layout.format(**first)]
    for _ in range(4):
        changed = draw(st.lists(st.sampled_from(slots), max_size=4))
        literals = first | {slot: draw(st.sampled_from(SPELLED[slot[0]])) for slot in changed}
        if draw(st.integers(0, 5)) == 0:
            literals[draw(st.sampled_from(slots))] = draw(st.sampled_from(ODD))
        sources.append(layout.format(**literals))
    return sources


def outcome(read: object, source: str) -> object:
    """Return the template of a source, or its error."""
    try:
        template = read(source)  # type: ignore[operator]
    except TemplateError as error:
        return type(error), str(error), error.line
    assert isinstance(template, Template)
    bound = template.for_question("q")
    return template, repr(template), repr(bound.judge_schema()), bound.hints(), bound.expected()


@pytest.mark.filterwarnings("ignore:invalid")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(alike())
def test_what_is_known_of_other_sources_changes_nothing(sources: list[str]):
    for source in sources:
        assert outcome(load_template, source) == outcome(read_template, source)


@pytest.mark.filterwarnings("ignore:invalid")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(
    st.lists(
        st.sampled_from(
            [*chain(*SPELLED.values()), *ODD, "a", "b1", " ", ".", "(", "\n", "\\", "'", '"', "#", "r", "f"]
        ),
        max_size=8,
    )
)
@example(["a", '"x"'])
def test_sources_with_the_same_rest_differ_only_in_constants(parts: list[str]):
    source = "".join(parts)
    pieces = split_literals(source)
    if pieces is None:
        return
    starts = [start for start, _ in literal_spans(source)]
    for start, literal in zip(starts, pieces.literals, strict=True):
        try:
            is_comment(literal) or literal_value(literal, prefix_before(source, start))
        except ValueError:
            return
    rest = pieces.rest.split("\0")
    rest[1::2] = [{"$": '"t"', "%": "1", ";": "#"}[kind] for kind in rest[1::2]]
    assert tree_without_values(source) == tree_without_values("".join(rest))


def tree_without_values(source: str) -> str | None:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value, node.kind = isinstance(node.value, str), None
    return ast.dump(tree)


@pytest.mark.parametrize("changed", [{"t1": '""'}, {"d1": "2031.0"}, {"d1": "0x7ef"}, {"c1": "# b"}])
def test_a_source_unlike_the_others_is_read_as_it_is(changed: dict[str, str]):
    layout = "class Answer(BaseAnswer):  {c1}\n    day: date = VerifiedField({t1}, date({d1}, 7, 29), DateMatch())\n"
    usual = {"t1": '"d"', "d1": "2031", "c1": "# a"}
    for _ in range(3):
        load_template(layout.format(**usual))
    source = layout.format(**usual | changed)
    assert outcome(load_template, source) == outcome(read_template, source)


@pytest.mark.parametrize("text", ['"""' + '\\"""' * 100_000, '"' + '\\"' * 100_000, "'a\n" * 10_000, 'r"" ' * 10_000])
def test_splitting_a_source_takes_linear_time(text: str):
    for source in (text, text[:20_000]):
        assert outcome(load_template, source) == outcome(read_template, source)


def test_a_template_owns_what_is_right_for_it():
    layout = "class Answer(BaseAnswer):\n    names: Any = VerifiedField('d', ['{}', 'b'], LiteralMatch())\n"
    templates = [load_template(layout.format(name)) for name in ("x", "y", "y", "y")]
    truths = [template.key.rules["names"].truth for template in templates]
    assert truths == [["x", "b"], ["y", "b"], ["y", "b"], ["y", "b"]]
    assert len({id(truth) for truth in truths}) == 4


def test_code_is_refused_however_many_sources_like_it_were_read():
    declared = "class Answer(BaseAnswer):\n    gene: str = VerifiedField('d', '{}', ExactMatch())\n"
    code = declared + "    def verify(self): return self.gene == '{}'\n"
    for name in ("a", "b", "c", "d"):
        load_template(declared.format(name))
    for name in ("a", "b", "c"):
        source = code.format(name, name)
        with pytest.raises(UntrustedTemplate) as refused:
            load_template(source)
        assert refused.value.digest == digest_of(source)
    trusted = code.format("a", "a")
    only = Trust(frozenset({digest_of(trusted)}))
    bound = load_template(trusted, trust=only).for_question("q")
    assert bound.bind({"gene": "a"}).verify()
    for name in ("b", "c"):
        with pytest.raises(UntrustedTemplate):
            load_template(code.format(name, name), trust=only)


@pytest.mark.parametrize(
    ("literal", "says"),
    [
        ('"no number"', "NumericExact requires a finite number as the ground truth, not 'no number'"),
        ('"\\xZZ"', "the source is not valid Python"),
        ("'2004' '.5'", "the ground truth '2004.5' of field 'year' does not match the field annotation"),
    ],
)
def test_errors_name_the_line_of_the_source_at_hand(literal: str, says: str):
    layout = "class Answer(BaseAnswer):\n    '''{}'''\n    year: int = VerifiedField('d', {}, NumericExact())\n"
    for year in ("1999", "2000", "'2001'", "'2002'", "'2003'"):
        load_template(layout.format("a note", year))
    with pytest.raises(TemplateError, match=says) as wrong:
        load_template(layout.format("a note\n\n    of four\n    lines", literal), name="q7")
    assert wrong.value.line == 6
    assert wrong.value.template == "q7"


def test_constraints_of_a_verified_field_are_read_from_each_source():
    source = "class Answer(BaseAnswer):\n    x: int = VerifiedField('d', {}, NumericExact(), ge={}, default=0)\n"
    templates = [load_template(source.format(number, least)) for number, least in [(1, 0), (2, 0), (3, 0), (4, 2)]]
    least = [one.judge_schema()["properties"]["x"]["anyOf"][0]["minimum"] for one in templates]
    assert least == [0, 0, 0, 2]
