"""Laws of templates: no truth reaches a judge, and a source always has the same meaning."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina_core.data.trust import Trust
from karenina_template.templates import Template, TemplateError, load_template

# Tokens that occur nowhere by chance.
TOKENS = st.integers(0, 10**9).map(lambda number: f"tok{number:010d}en")
NUMBERS = st.integers(10**8, 10**9).map(lambda number: number + 0.8125)
DESCRIPTIONS = st.sampled_from(["said", "", 'what is\n"said"', "gesagt \\ ünd", "description", "0"])
NAMES = st.sampled_from(["gene", "title", "default", "reasoning", "properties", "enum", "x_1", "model_x", "copy"])


@st.composite
def verified(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw an annotation and a declaration, and the parts of it that must never be shown."""
    token, other, hint = draw(TOKENS), draw(TOKENS), draw(TOKENS)
    weight, number = draw(NUMBERS), draw(NUMBERS)
    annotation, truth, primitive, secrets = draw(
        st.sampled_from(
            [
                ("str", repr(token), "ExactMatch()", [token]),
                ("str | None", repr(token), "ExactMatch(normalize=[])", [token]),
                ("str", "None", f"ContainsAny(substrings=[{token!r}, {other!r}])", [token, other]),
                ("str", "None", f"RegexMatch(pattern={token!r})", [token]),
                ("float", repr(number), f"NumericTolerance(tolerance={weight})", [str(number)]),
                ("float", "None", f"NumericRange(min={-number}, max={number})", [str(number)]),
                ("list[str]", repr([token, other]), "SetContainment()", [token, other]),
                ("dict[str, str]", repr({token: other}), "LiteralMatch()", [token, other]),
                ("date", "date(2031, 7, 29)", "DateMatch()", ["2031-07-29"]),
                ("Kind", "Kind.THIRD", "LiteralMatch()", []),
                ("list[Item]", repr([{"label": token}]), "LiteralMatch()", [token]),
                ("bool", "False", f"TraceContains(substring={token!r})", [token]),
            ]
        )
    )
    declared = (
        f"{annotation} = VerifiedField({draw(DESCRIPTIONS)!r}, ground_truth={truth}, verify_with={primitive}, "
        f"weight={weight}, extraction_hint={hint!r})"
    )
    return declared, [*secrets, str(weight)]


@st.composite
def plain(draw: st.DrawFn) -> tuple[str, list[str]]:
    token = draw(TOKENS)
    annotation = draw(st.sampled_from(["str", "Optional[str]", "list[str]", "Item", "Any"]))
    form = draw(st.sampled_from(["{0!r}", "Field({0!r}, description='said')", "Field(default={0!r}, title={0!r})"]))
    return f"{annotation} = {form.format(token)}", [token]


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, list[str]]:
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=6))
    default, docstring = draw(TOKENS), draw(TOKENS)
    lines, secrets = [], [default, docstring]
    for index, name in enumerate(names):
        declared, hidden = draw(verified() if index == 0 else verified() | plain())
        lines.append(f"    {name}: {declared}\n")
        secrets += hidden
    if draw(st.booleans()):
        lines.append(f"    class VerificationStrategy:\n        verify_strategy = AnyOf({names[0]!r})\n")
    source = (
        f"class Kind(str, Enum):\n    '''{docstring}'''\n    FIRST = 'a'\n    THIRD = 'c'\n"
        f"class Item(BaseModel):\n    '''{docstring}'''\n    label: str\n    more: str = {default!r}\n"
        f"class Answer(BaseAnswer):\n    '''{docstring}'''\n{''.join(lines)}"
    )
    return source, secrets


def visible(template: Template) -> str:
    return json.dumps(template.for_question("q").judge_schema())


@given(templates())
def test_what_is_right_never_reaches_a_judge(template: tuple[str, list[str]]):
    source, secrets = template
    shown = visible(load_template(source))
    assert [secret for secret in secrets if secret in shown] == []
    assert "__verification__" not in shown


@pytest.mark.filterwarnings("ignore:Field name")
@given(templates())
@settings(max_examples=25)
def test_a_declaration_means_the_same_when_it_is_executed(template: tuple[str, list[str]]):
    source, secrets = template
    declared = load_template(source).for_question("q")
    executed = load_template(source + "\ndef code(): pass\n", trust=Trust.all()).for_question("q")
    shown = json.dumps(executed.judge_schema())
    assert json.dumps(declared.judge_schema()) == shown
    assert executed.expected() == declared.expected()
    assert executed.hints() == declared.hints()
    assert [rule.primitive for rule in executed.template.key.rules.values()] == [
        rule.primitive for rule in declared.template.key.rules.values()
    ]
    assert executed.template.key.strategy == declared.template.key.strategy
    assert [secret for secret in secrets if secret in shown] == []


SIMPLE = ["str", "int", "float", "bool", "date", "datetime", "time", "timedelta", "Decimal", "Any", "object", "None"]
ANNOTATIONS = st.recursive(
    st.sampled_from([*SIMPLE, "list", "dict", "set", "tuple", 'Literal["a", 1, True]', "Literal[None, 'b']", "'str'"]),
    lambda inner: st.one_of(
        st.builds("Union[{}, {}]".format, inner, inner),
        st.builds("Optional[{}]".format, inner),
        st.builds("{}[{}]".format, st.sampled_from(["list", "List", "set", "frozenset"]), inner),
        st.builds("dict[{}, {}]".format, st.sampled_from(["str", "int", "date"]), inner),
        st.builds("tuple[{}, {}]".format, inner, inner | st.just("...")),
    ),
    max_leaves=4,
)


@pytest.mark.filterwarnings("ignore::pydantic.json_schema.PydanticJsonSchemaWarning")
@given(
    st.lists(ANNOTATIONS, min_size=1, max_size=3), DESCRIPTIONS.filter(bool), st.sampled_from(["", ", max_length=3"])
)
def test_declared_and_executed_templates_have_the_same_schema(annotations: list[str], said: str, more: str):
    lines = [f"    f{place}: {one} = Field(description={said!r})\n" for place, one in enumerate(annotations)]
    lines.append(f"    evidence: list[str] = Field(description={said!r}{more})\n")
    source = f"class Answer(BaseAnswer):\n    word: str = VerifiedField({said!r}, 'a', ExactMatch())\n{''.join(lines)}"
    shown, executed = (outcome(text) for text in (source, f"{source}\ndef code(): pass\n"))
    assert shown == executed


def outcome(source: str) -> str:
    """Return the schema that a judge gets, or the reason why the source is not a template."""
    try:
        return visible(load_template(source, trust=Trust.all()))
    except TemplateError as error:
        return type(error).__name__


@given(templates())
@settings(max_examples=25)
def test_nothing_found_never_passes(template: tuple[str, list[str]]):
    bound = load_template(template[0]).for_question("q")
    answer = bound.bind(dict.fromkeys(bound.judge_fields), "")
    judged = {name: passed for name, passed in answer.field_results().items() if name in bound.judge_fields}
    assert not any(judged.values())


def test_templates_may_be_loaded_by_many_threads_at_once():
    sources = [
        "class Answer(BaseAnswer):\n"
        f"    f{number % 40}: list[str] = VerifiedField('d', ['{number}'], SetContainment())\n"
        for number in range(400)
    ]
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(load_template, sources))
    assert len({template.answer_class for template in loaded}) == 40
    assert [next(iter(template.for_question("q").expected().values())) for template in loaded] == [
        [str(number)] for number in range(400)
    ]
