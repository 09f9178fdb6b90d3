"""The YAML form: how words are read, and how declarations become templates."""

import pytest

from karenina_benchmark import Benchmark, CheckpointError
from karenina_benchmark.template_declarations import DeclarationError, make_template_source
from karenina_template.question_template import template_of

HEAD = "karenina: 1\nname: b\n"


def load(tmp_path, text):
    file = tmp_path / "b.yaml"
    file.write_text(HEAD + text)
    return Benchmark.load(file)


def test_a_file_written_by_hand(tmp_path):
    benchmark = load(
        tmp_path,
        """
version: 1.10
config: {answering_models: [{id: small, interface: local, model_name: smollm2-135m}]}
rubric:
  - {type: llm, name: clear, kind: score, max_score: 3}
questions:
  - question: Which gene?
    raw_answer: BCL2
    keywords: [biology, 2024]
    few_shot_examples: [{question: "Which virus?", answer: HPV}]
    answer:
      gene: {description: The gene, ground_truth: BCL2}
  - question: Which year?
    id: year
    template: |
      class Answer(BaseAnswer):
          year: int
""",
    )
    first, second = benchmark
    assert benchmark.version == "1.10"
    assert benchmark.run_config == {
        "answering_models": [{"id": "small", "interface": "local", "model_name": "smollm2-135m"}]
    }
    assert benchmark.global_rubric.llm_traits[0].max_score == 3
    assert (first.raw_answer, first.keywords) == ("BCL2", ("biology", "2024"))
    assert first.few_shot_examples[0].answer == "HPV"
    assert "gene: str = VerifiedField(" in first.answer_template
    assert (second.id, second.answer_template) == ("year", "class Answer(BaseAnswer):\n    year: int\n")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("no", "no"),
        ("on", "on"),
        ("NO", "NO"),
        ("true", True),
        ("False", False),
        ("010", 10),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1985-03-01", "1985-03-01"),
        ("~", None),
        ("null", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("", None),
        ("=", "="),
    ],
)
def test_words_are_read_as_people_mean_them(tmp_path, written, read):
    value = load(tmp_path, f"metadata:\n  value: {written}\n").metadata["value"]
    assert (value, type(value)) == (read, type(read))


@pytest.mark.parametrize("written", ["no", "1985", "1985-03-01", "1.50", "true"])
def test_a_text_is_what_stands_there(tmp_path, written):
    (question,) = load(tmp_path, f"questions:\n  - question: a\n    raw_answer: {written}\n")
    assert question.raw_answer == written


def test_merge_keys_work(tmp_path):
    benchmark = load(tmp_path, "metadata:\n  a: &a {x: 1, y: 2}\n  b: &b {<<: *a, y: 3}\n  c: *b\n")
    assert benchmark.metadata == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 3}}


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


def test_a_strategy_becomes_a_tree():
    fields = {name: {"description": "d", "ground_truth": 1} for name in "abc"}
    source = make_template_source(fields, {"any_of": ["a", {"at_least": {"n": 2, "of": ["b", "c"]}}]})
    tree = "AnyOf(conditions=[FieldCheck('a'), AtLeastN(n=2, conditions=[FieldCheck('b'), FieldCheck('c')])])"
    assert f"    class VerificationStrategy:\n        verify_strategy = {tree}\n" in source


WRONG = [
    ({}, None, "at least one field"),
    ({"a b": {"description": "d", "ground_truth": 1}}, None, "'a b' is no name"),
    ({"class": {"description": "d", "ground_truth": 1}}, None, "'class' is no name"),
    ({"_x": {"description": "d", "ground_truth": 1}}, None, "underscore"),
    ({"x": 5}, None, "no mapping"),
    ({"x": {"description": "d"}}, None, "no 'ground_truth'"),
    ({"x": {"description": "d", "ground_truth": []}}, None, "write a `type`"),
    ({"x": {"description": "d", "ground_truth": 1, "type": "integer"}}, None, "'integer' is no type"),
    ({"x": {"description": "d", "ground_truth": "five", "type": "int"}}, None, "'five' is no int"),
    ({"x": {"description": "d", "ground_truth": 1.5, "type": "int"}}, None, "1.5 is no int"),
    ({"x": {"description": "d", "ground_truth": "1985-13-01", "type": "date"}}, None, "is no date"),
    ({"x": {"description": "d", "ground_truth": "yes", "type": "bool"}}, None, "'yes' is no bool"),
    ({"x": {"description": "d", "ground_truth": float("inf")}}, None, "cannot be written"),
    ({"x": {"description": "d", "ground_truth": 1, "weight": "heavy"}}, None, "weight of 'x'"),
    ({"x": {"description": "d", "ground_truth": 1, "verify_with": {"tolerance": 1}}}, None, "no `type`"),
    ({"x": {"description": "d", "ground_truth": 1, "verify_with": "exec('x')"}}, None, "is no name for a primitive"),
    (
        {"x": {"description": "d", "ground_truth": 1, "verify_with": {"type": "ExactMatch", "a=1)#": 1}}},
        None,
        "is no name for a parameter",
    ),
    ({"x": {"description": "d", "ground_truth": 1}}, {"any_of": ["y"]}, "field 'y', which is none"),
    ({"x": {"description": "d", "ground_truth": 1}}, {"some_of": ["x"]}, "all_of, any_of, at_least"),
    ({"x": {"description": "d", "ground_truth": 1}}, {"at_least": ["x"]}, "{n: 2, of: [...]}"),
    ({"x": {"description": "d", "ground_truth": 1}}, {"all_of": []}, "list of conditions"),
]


@pytest.mark.parametrize(("fields", "strategy", "said"), WRONG, ids=[case[2] for case in WRONG])
def test_a_wrong_declaration_says_what_is_wrong(fields, strategy, said):
    with pytest.raises(DeclarationError) as caught:
        make_template_source(fields, strategy)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["'''\nimport os\n'''", '"""', "a'b\"c\\", "\n", "{column}", "\x00\u2028"])
def test_texts_stay_texts(text):
    import ast

    source = make_template_source({"x": {"description": text, "ground_truth": text}})
    constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    assert constants.count(text) == 2


def test_the_declared_template_loads(tmp_path):
    (question,) = load(
        tmp_path,
        """
questions:
  - question: Which gene and when?
    answer:
      gene: {description: The gene, ground_truth: BCL2, verify_with: {type: ExactMatch, normalize: [lowercase]}}
      year: {description: The year, ground_truth: 1985, verify_with: {type: NumericTolerance, tolerance: 1}, weight: 2}
      day: {description: The day, ground_truth: 1985-03-01}
      kind: {description: Its kind, type: {literal: [gene, virus]}, ground_truth: gene}
      drugs: {description: The drugs, ground_truth: [venetoclax]}
      cited: {description: Whether it cites, verify_with: {type: TraceContains, substring: doi}}
    strategy: {all_of: [gene, {at_least: {n: 1, of: [year, day]}}]}
""",
    )
    assert template_of(question) is not None


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("{description: d, ground_truth: v, verify_with: ExactMtch}", "ExactMtch.*ExactMatch"),
        ("{description: d, ground_truth: v, verify_with: {type: RegexMatch, pattern: '('}}", "pattern"),
        ("{description: d, ground_truth: 1, verify_with: {type: NumericRange, min: 3, max: 2}}", "min"),
    ],
)
def test_a_declared_template_that_cannot_be_built_is_refused_at_its_line_of_the_file(tmp_path, field: str, says: str):
    with pytest.raises(CheckpointError, match=rf"(?s)line 8.*{says}"):
        load(
            tmp_path,
            "questions:\n"
            "  - question: a\n"
            "    answer:\n"
            "      fine: {description: d, ground_truth: v}\n"
            "      # the next one is not\n"
            f"      bad: {field}\n",
        )


def test_rows_of_a_file_become_questions(tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        '{"id": 1, "q": "Who?", "gold": ["Ann", "Anne"]}\n{"id": 2, "q": "When?", "gold": ["1999-01-01"]}\n'
    )
    benchmark = load(
        tmp_path,
        """
questions:
  - question: First?
questions_from:
  file: rows.jsonl
  columns: {id: id, question: q, raw_answer: gold, metadata: [gold]}
  answer:
    name:
      description: What is answered
      ground_truth: {column: q}
      verify_with: {type: ContainsAny, substrings: {column: gold}, normalize: [lowercase]}
""",
    )
    assert [question.question for question in benchmark] == ["First?", "Who?", "When?"]
    who = benchmark.get("1")
    assert (who.raw_answer, who.metadata) == ('["Ann", "Anne"]', {"gold": ["Ann", "Anne"]})
    assert "ContainsAny(substrings=['Ann', 'Anne'], normalize=['lowercase'])" in who.answer_template


def test_a_fields_type_is_the_same_in_all_rows(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"q": "Who?", "gold": "Ann"}\n{"q": "When?", "gold": "1999-01-01"}\n')
    benchmark = load(
        tmp_path,
        "questions_from:\n  file: rows.jsonl\n  columns: {question: q}\n"
        "  answer: {a: {description: d, ground_truth: {column: gold}}}\n",
    )
    assert all("    a: str = VerifiedField(" in question.answer_template for question in benchmark)


def test_an_error_in_a_row_names_both_files(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"q": "Who?"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 1: there is no column 'gold'.*b\.yaml, line 3"):
        load(
            tmp_path,
            "questions_from:\n  file: rows.jsonl\n  columns: {question: q}\n"
            "  answer: {a: {description: d, ground_truth: {column: gold}}}\n",
        )
