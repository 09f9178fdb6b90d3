"""The cases of the pack, and those made from templates: each has the verdict that its text calls for."""

from __future__ import annotations

from pathlib import Path

import pytest

from karenina_benchmark import Benchmark
from karenina_core.data.trust import Trust
from karenina_selftest.cases import pack_cases, shipped_cases
from karenina_selftest.own_cases import in_another_unit, make_own_cases
from karenina_selftest.scores import needed_cases
from karenina_template.question_template import template_of

pytestmark = pytest.mark.alone

BENCHMARK = """
karenina: 1
name: Mixed
questions:
  - id: boiling
    question: At which temperature does water boil, in degrees Celsius?
    answer:
      celsius:
        type: float
        description: The boiling point in degrees Celsius
        ground_truth: 100.0
        verify_with: {type: NumericTolerance, tolerance: 0.5, mode: absolute}
  - id: gene
    question: Which gene?
    answer:
      gene: {description: The gene, ground_truth: BCL2, verify_with: ExactMatch}
  - id: human
    question: Is it a human gene?
    answer:
      human: {type: bool, description: Whether it is human, ground_truth: true, verify_with: BooleanMatch}
  - id: words
    question: Say BCL2.
    answer:
      says: {type: bool, description: Says it, verify_with: {type: TraceContains, substring: BCL2}}
  - id: plain
    question: What now?
"""
OPEN = """
class Answer(BaseAnswer):
    word: str = VerifiedField(description="The word", verify_with=RegexMatch(pattern="a"))
"""
KNOWN = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
    steps: int = VerifiedField(source="trace.steps", ground_truth=8, verify_with=NumericMaximum())
"""
PATTERNS = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())

    def model_post_init(self, context):
        self.regex = {"gene": {"pattern": "BCL2", "expected": "BCL2", "match_type": "exact"}}
"""
LAX = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())

    def verify(self):
        return True
"""


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    file = tmp_path / "mixed.yaml"
    file.write_text(BENCHMARK, "utf-8")
    return Benchmark.load(file)


def test_the_pack_can_show_a_specificity_of_95_percent() -> None:
    cases = pack_cases()

    assert needed_cases(0.95) == 73
    assert sum(not case.passes for case in cases) >= 73
    assert len({case.id for case in cases}) == len(cases)
    assert len({case.response for case in shipped_cases()}) == len(cases)


def test_every_mark_is_replaced() -> None:
    left = [case.id for case in shipped_cases() if "[[" in case.response]

    assert left == []


def test_plain_truths_are_in_the_answers_that_pass() -> None:
    for case in shipped_cases():
        template = template_of(case.question)
        assert template is not None
        (truth,) = template.for_question("q").expected().values()
        shown = "78" if case.id.endswith("/rounded") else str(truth)
        assert not case.passes or shown.casefold() in case.response.casefold(), case.id


def test_cases_are_made_from_templates(benchmark: Benchmark) -> None:
    own = make_own_cases(benchmark, Trust())
    cases = {case.id: case for case in own.cases}

    assert cases["own/gene/plain"].response == "The gene: BCL2"
    assert cases["own/gene/denied"].response.startswith("The gene: certainly not BCL2\n")
    assert not cases["own/gene/denied"].passes
    assert cases["own/gene/corrected away"].response.index("BCL2") < 20
    assert cases["own/boiling/in another unit"].response.endswith(": 212 degrees Fahrenheit")
    assert cases["own/human/wrong"].response == "Whether it is human: no"
    assert "own/human/denied" not in cases
    assert len({case.unit for case in own.cases}) == 3


def test_questions_without_cases_have_a_reason(benchmark: Benchmark) -> None:
    benchmark.add_question("Which word?", None, OPEN, question_id="open")
    benchmark.add_question("Which pattern?", None, PATTERNS, question_id="patterns")
    benchmark.add_question("Which one?", None, LAX, question_id="lax")
    benchmark.add_question("In how many steps?", None, KNOWN, question_id="known")
    own = make_own_cases(benchmark, Trust.all())

    assert own.left_out == {
        "words": "the template needs no judge",
        "plain": "the question has no template",
        "open": "the field 'word' is not compared with a ground truth",
        "patterns": "the template has patterns for the whole response",
        "known": "the fields steps are filled with known values, which example answers do not have",
        "lax": "the template passes wrong values; `karenina check` gives details",
    }


def test_untrusted_code_of_templates_makes_no_case(benchmark: Benchmark) -> None:
    benchmark.add_question("Which one?", None, LAX, question_id="lax")

    assert "karenina trust" in make_own_cases(benchmark, Trust()).left_out["lax"]


@pytest.mark.parametrize(
    ("description", "value", "expected"),
    [
        ("The length in kilometres", 1.5, "1500 metres"),
        ("The share in percent", 12, "120 parts per thousand"),
        ("The dose in mg", 2, "2000 micrograms"),
        ("The name of the town", 2, None),
        ("The speed in kilometres per 3 hours", 2, None),
        ("The length in km", "long", None),
        ("Whether it takes hours", True, None),
    ],
)
def test_values_are_converted_to_another_unit(description: str, value: object, expected: str | None) -> None:
    assert in_another_unit(description, value) == expected
