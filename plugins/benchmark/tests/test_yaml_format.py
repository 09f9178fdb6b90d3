"""The YAML format: how scalars, declared templates and imported rows are read."""

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_benchmark.errors import Problems
from karenina_benchmark.yaml_files import read as read_yaml
from karenina_template.question_template import template_of

HEAD = "karenina: 1\nname: b\n"


@pytest.fixture(autouse=True, params=[True, False], ids=["libyaml", "pyyaml"])
def _parser(request, monkeypatch):
    monkeypatch.setattr(yaml, "__with_libyaml__", request.param)


def load(tmp_path, text):
    file = tmp_path / "b.yaml"
    file.write_text(HEAD + text)
    return Benchmark.load(file)


def test_a_file_written_by_hand_is_read(tmp_path):
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


def test_characters_that_json_escapes_as_two_halves_are_read(tmp_path):
    benchmark = load(tmp_path, r'questions: [{"question": "What is \ud83d\ude00?", "raw_answer": "\uD83D\uDE00"}]')
    (question,) = benchmark
    assert (question.question, question.raw_answer) == ("What is \N{GRINNING FACE}?", "\N{GRINNING FACE}")


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
def test_scalars_follow_yaml_1_2(tmp_path, written, read):
    value = load(tmp_path, f"metadata:\n  value: {written}\n").metadata["value"]
    assert (value, type(value)) == (read, type(read))


@pytest.mark.parametrize("written", ["no", "1985", "1985-03-01", "1.50", "true"])
def test_a_text_field_keeps_the_written_text(tmp_path, written):
    (question,) = load(tmp_path, f"questions:\n  - question: a\n    raw_answer: {written}\n")
    assert question.raw_answer == written


def test_merge_keys_work(tmp_path):
    benchmark = load(tmp_path, "metadata:\n  a: &a {x: 1, y: 2}\n  b: &b {<<: *a, y: 3}\n  c: *b\n")
    assert benchmark.metadata == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 3}}


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
def test_an_error_of_a_declared_template_names_its_line(tmp_path, field: str, says: str):
    with pytest.raises(BenchmarkFileError, match=rf"(?s)line 8.*{says}"):
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


def test_the_type_of_a_field_is_equal_in_all_rows(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"q": "Who?", "gold": "Ann"}\n{"q": "When?", "gold": "1999-01-01"}\n')
    benchmark = load(
        tmp_path,
        "questions_from:\n  file: rows.jsonl\n  columns: {question: q}\n"
        "  answer: {a: {description: d, ground_truth: {column: gold}}}\n",
    )
    assert all("    a: str = VerifiedField(" in question.answer_template for question in benchmark)


def test_an_error_in_a_row_names_both_files(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"q": "Who?"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 1: the file has no column 'gold'.*b\.yaml, line 3"):
        load(
            tmp_path,
            "questions_from:\n  file: rows.jsonl\n  columns: {question: q}\n"
            "  answer: {a: {description: d, ground_truth: {column: gold}}}\n",
        )


@pytest.mark.parametrize(
    ("field", "truth"),
    [
        ("ground_truth: 01234, verify_with: ExactMatch", "01234"),
        ("ground_truth: 1.10, type: str", "1.10"),
        ("ground_truth: 2E1, verify_with: {type: ExactMatch, normalize: [strip]}", "2E1"),
        ("ground_truth: 0x1F, type: str", "0x1F"),
        ("ground_truth: +41, type: str", "+41"),
        ("ground_truth: 1985, type: str", "1985"),
        ("ground_truth: .inf, type: str", ".inf"),
        ('ground_truth: [007, 1.0, x], type: "list[str]"', ["007", "1.0", "x"]),
        ("ground_truth: [01, 02], verify_with: OrderedMatch", ["01", "02"]),
        ('ground_truth: 01, type: {literal: ["01", "02"]}', "01"),
        ("ground_truth: 1985, verify_with: ExactMatch", 1985),
        ("ground_truth: 01234", 1234),
        ("ground_truth: 1.10, verify_with: NumericExact", 1.1),
    ],
)
def test_truths_that_are_compared_as_texts_stay_as_written(tmp_path, field, truth):
    benchmark = load(tmp_path, f"questions:\n  - question: one\n    answer:\n      code: {{description: A, {field}}}\n")
    again = tmp_path / "again.yaml"
    benchmark.save(again)
    for read in (benchmark, Benchmark.load(again)):
        (question,) = read
        assert template_of(question).key.truths() == {"code": truth}


PIECES = """a|b: |- |: |? |?|[|]|{|}|, |"|'|#| # |&x |*x|<<: |!!str |!!int |! |!own |12|0x1f|.inf|~|true|é|-#|>|2|+
""".strip().split("|")
TEXTS = st.lists(
    st.sampled_from(
        [*PIECES, "|", " ", "  ", "\n", "\n  ", "\n\n", "\t", "\r", "\u2028", "\ufeff", "---\n", "...", "\\x41"]
    )
)


def outcome(text):
    """What a text is read as: values, lines and written texts, or its errors."""
    problems = Problems()
    try:
        found = read_yaml(text, Path("b.yaml"), problems)
    except BenchmarkFileError as error:
        return str(error)
    return repr(found.value), found.lines, found.written, found.text_lines, list(map(str, problems.found))


@given(TEXTS.map("".join))
@example("a:\tb")
@example('a: !!int\t"3"')
@example("a: >-# no comment\n  b")
@example("[a?]")
@example("a: !")
@example("a:\n\ufeffb: 1")
@example("--- \n# only a comment")
@example("a: [\na: 1")
def test_libyaml_reads_a_text_as_pyyaml_does(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", True)
        found = outcome(text)
        patch.setattr(yaml, "__with_libyaml__", False)
        assert found == outcome(text)


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ("[" * 250 + "]" * 250, "line 4: the value is nested more than 200 levels deep"),
        ("[" * 20_000, "line 4: the value is nested more than 200 levels deep"),
        ("".join(f"\n{' ' * depth}a:" for depth in range(1, 300)), "line 204: the value is nested more than 200"),
        (
            "\n- &a0 [1]" + "".join(f"\n- &a{chain} [*a{chain - 1}]" for chain in range(1, 1000)),
            "aliases nest the values of the YAML too deeply",
        ),
    ],
    ids=["brackets", "open brackets", "blocks", "aliases"],
)
def test_deep_nesting_is_an_error(tmp_path, meta: str, says: str):
    with pytest.raises(BenchmarkFileError, match=says):
        load(tmp_path, f"questions: []\nmetadata: {meta}\n")


def test_a_wrong_date_is_one_error(tmp_path):
    with pytest.raises(BenchmarkFileError, match="'date_created' must be a string, not a list") as raised:
        load(tmp_path, "date_created: [2001]\nquestions: []\n")
    assert raised.value.others == ()
