"""Declared fields become the source of a template."""

import pytest

from karenina_benchmark.template_declarations import DeclarationError, make_template_source
from karenina_template.templates.source.loading import load_template

DECLARATIONS = [
    ({"ground_truth": "BCL2"}, "str", "'BCL2'", "ExactMatch()"),
    ({"ground_truth": 5}, "int", "5", "NumericExact()"),
    ({"ground_truth": 0.5}, "float", "0.5", "NumericExact()"),
    ({"ground_truth": True}, "bool", "True", "BooleanMatch()"),
    ({"ground_truth": "1985-03-01"}, "date", "date(1985, 3, 1)", "DateMatch()"),
    ({"ground_truth": "1985-03-01", "type": "str"}, "str", "'1985-03-01'", "ExactMatch()"),
    ({"ground_truth": "1985-03-01", "verify_with": "ExactMatch"}, "str", "'1985-03-01'", "ExactMatch()"),
    ({"ground_truth": ["a", "b"]}, "list[str]", "['a', 'b']", "SetContainment(mode='exact')"),
    ({"ground_truth": [1, 2.5]}, "list[float]", "[1, 2.5]", "SetContainment(mode='exact')"),
    ({"ground_truth": "a", "type": {"literal": ["a", "b"]}}, "Literal['a', 'b']", "'a'", "LiteralMatch()"),
    ({"ground_truth": "7", "type": "int"}, "int", "7", "NumericExact()"),
    ({"ground_truth": 7.0, "type": "int"}, "int", "7", "NumericExact()"),
    ({"ground_truth": 7, "type": "str"}, "str", "'7'", "ExactMatch()"),
    ({"ground_truth": "TRUE", "type": "bool"}, "bool", "True", "BooleanMatch()"),
    (
        {"ground_truth": 5, "verify_with": {"type": "NumericTolerance", "tolerance": 1, "mode": "absolute"}},
        "float",  # the truth is whole, an answer within the tolerance need not be
        "5.0",
        "NumericTolerance(tolerance=1, mode='absolute')",
    ),
    ({"ground_truth": 5, "verify_with": "NumericMinimum"}, "float", "5.0", "NumericMinimum()"),
    (
        {"ground_truth": 1985, "type": "int", "verify_with": {"type": "NumericTolerance", "tolerance": 1}},
        "int",
        "1985",
        "NumericTolerance(tolerance=1)",
    ),
    (
        {
            "ground_truth": "a",
            "verify_with": {
                "type": "ExactMatch",
                "normalize": ["strip", {"type": "SynonymMap", "mapping": {"x": "y"}}],
            },
        },
        "str",
        "'a'",
        "ExactMatch(normalize=['strip', SynonymMap(mapping={'x': 'y'})])",
    ),
]


@pytest.mark.parametrize(("declared", "annotation", "truth", "verify_with"), DECLARATIONS)
def test_a_declaration_becomes_a_field(declared, annotation, truth, verify_with):
    source = make_template_source({"value": {"description": "d", **declared}})
    compile(source, "template", "exec")
    assert f"    value: {annotation} = VerifiedField(\n" in source
    assert f"        ground_truth={truth},\n        verify_with={verify_with},\n" in source


def test_weight_and_hint_are_kept():
    source = make_template_source({"v": {"description": "d", "ground_truth": 1, "weight": 2.5, "extraction_hint": "h"}})
    assert "        weight=2.5,\n        extraction_hint='h',\n" in source


def test_a_trace_field_needs_no_truth():
    source = make_template_source({"v": {"verify_with": {"type": "TraceContains", "substring": "x"}}})
    assert "    v: bool = VerifiedField(" in source


@pytest.mark.parametrize(
    ("primitive", "annotation"),
    [({"type": "NumericRange", "min": 40}, "float"), ({"type": "DateRange", "max": "2001-12-31"}, "date")],
)
def test_a_range_needs_no_truth_and_no_type(primitive, annotation):
    source = make_template_source({"v": {"description": "d", "verify_with": primitive}})
    assert f"    v: {annotation} = VerifiedField(" in source
    assert "ground_truth" not in source
    load_template(source)


def test_a_synonym_map_has_its_name_in_json():
    normalize = [{"type": "synonym_map", "mapping": {"asa": "aspirin"}}]
    declared = {"description": "d", "ground_truth": "a", "verify_with": {"type": "ExactMatch", "normalize": normalize}}
    assert "SynonymMap(mapping={'asa': 'aspirin'})" in make_template_source({"v": declared})


def test_a_strategy_becomes_a_tree():
    fields = {name: {"description": "d", "ground_truth": 1} for name in "abc"}
    source = make_template_source(fields, {"any_of": ["a", {"at_least": {"n": 2, "of": ["b", "c"]}}]})
    tree = "AnyOf(conditions=[FieldCheck('a'), AtLeastN(n=2, conditions=[FieldCheck('b'), FieldCheck('c')])])"
    assert f"    class VerificationStrategy:\n        verify_strategy = {tree}\n" in source


WRONG = [
    ({}, None, "the template has no fields"),
    ({"a b": {"description": "d", "ground_truth": 1}}, None, "'a b' is not a valid name"),
    ({"class": {"description": "d", "ground_truth": 1}}, None, "'class' is not a valid name"),
    ({"_x": {"description": "d", "ground_truth": 1}}, None, "underscore"),
    ({"x": 5}, None, "'x' must be a mapping"),
    ({"x": {"description": "d"}}, None, "no 'ground_truth'"),
    ({"x": {"description": "d", "ground_truth": []}}, None, "add a `type`"),
    ({"x": {"description": "d", "ground_truth": 1, "type": "integer"}}, None, "unknown type 'integer'"),
    ({"x": {"description": "d", "ground_truth": "five", "type": "int"}}, None, "'five' is not of type 'int'"),
    ({"x": {"description": "d", "ground_truth": 1.5, "type": "int"}}, None, "1.5 is not of type 'int'"),
    ({"x": {"description": "d", "ground_truth": "1985-13-01", "type": "date"}}, None, "is not of type 'date'"),
    ({"x": {"description": "d", "ground_truth": "yes", "type": "bool"}}, None, "'yes' is not of type 'bool'"),
    ({"x": {"description": "d", "ground_truth": float("inf")}}, None, "cannot be written"),
    ({"x": {"description": "d", "ground_truth": 1, "weight": "heavy"}}, None, "weight of 'x'"),
    ({"x": {"description": "d", "ground_truth": 1, "verify_with": {"tolerance": 1}}}, None, "no `type`"),
    (
        {"x": {"description": "d", "ground_truth": 1, "verify_with": "exec('x')"}},
        None,
        "is not a valid name for a primitive",
    ),
    (
        {"x": {"description": "d", "ground_truth": 1, "verify_with": {"type": "ExactMatch", "a=1)#": 1}}},
        None,
        "is not a valid name for a parameter",
    ),
    ({"x": {"description": "d", "ground_truth": 1}}, {"any_of": ["y"]}, "unknown field 'y'"),
    ({"x": {"description": "d", "ground_truth": 1}}, {"some_of": ["x"]}, "all_of, any_of or at_least"),
    ({"x": {"description": "d", "ground_truth": 1}}, {"at_least": ["x"]}, "{n: 2, of: [...]}"),
    ({"x": {"description": "d", "ground_truth": 1}}, {"all_of": []}, "list of conditions"),
]


@pytest.mark.parametrize(("fields", "strategy", "said"), WRONG, ids=[case[2] for case in WRONG])
def test_a_wrong_declaration_is_an_error(fields, strategy, said):
    with pytest.raises(DeclarationError) as caught:
        make_template_source(fields, strategy)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["'''\nimport os\n'''", '"""', "a'b\"c\\", "\n", "{column}", "\x00\u2028"])
def test_texts_are_written_as_literals(text):
    import ast

    source = make_template_source({"x": {"description": text, "ground_truth": text}})
    constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    assert constants.count(text) == 2
