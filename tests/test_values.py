"""Values in whole runs: what a judge writes becomes the verdict that a reader would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import make_result, run_karenina

from karenina import Benchmark, Outcome, evaluate
from karenina_calibration.answers import answer_id
from karenina_cli.commands.show_command import select_items
from karenina_core import plugins as plugin_room
from karenina_core.data.question import question_id
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plugins import Plugins
from karenina_engine.results.result_set import VerificationResult
from karenina_testing import ScriptedModels
from karenina_toolkit.answers.few_shot import is_same_question

Judged = Callable[[str, object], VerificationResult]


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judged]:
    """A function that judges with a field, declared as in YAML, that a judge fills with a value."""
    said: dict[str, object] = {}
    monkeypatch.chdir(tmp_path)

    def fill(_messages: Sequence[Message], _schema: Mapping[str, Any], _info: CallInfo) -> Mapping[str, Any]:
        return {"field": said["value"]}

    def judge(declared: str, value: object) -> VerificationResult:
        file = tmp_path / "b.yaml"
        file.write_text(
            "karenina: 1\nname: b\nquestions:\n  - question: What?\n    answer:\n"
            f"      field: {{description: The value that the response names, {declared}}}\n"
        )
        (question,) = Benchmark.load(file)
        said["value"] = value
        return evaluate(response=f"It is {value}.", template=question.answer_template, judge="scripted:j")

    room = Plugins.discover()
    room.register(ScriptedModels(fill=fill))
    with plugin_room.use_plugins(room):
        yield judge


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("ground_truth: M\u00e9ni\u00e8re", "Me\u0301nie\u0300re"),
        ("ground_truth: IL-6", "IL\u20116"),
        ("ground_truth: 5 mg", "5\u202fmg"),
        ("ground_truth: warfarin", "warfarin\u200b"),
        ("ground_truth: Crohn's disease", "Crohn\u2019s disease"),
        ("ground_truth: TP53", "\uff34\uff30\uff15\uff13"),
        ("ground_truth: [p\u00e2t\u00e9, th\u00e9]", ["the\u0301", "pa\u0302te\u0301"]),
        ("ground_truth: 2024-03-09", "9 March 2024"),
        ("ground_truth: 2024-03-09, verify_with: {type: DateMatch, format: '%d/%m/%Y'}", "09/03/2024"),
        ("ground_truth: 2024-03-09, type: str, verify_with: DateMatch", "09.03.2024"),
        ("ground_truth: 2, type: {literal: [1, 2, 3]}", "2"),
        ("ground_truth: COX-2, type: {literal: [COX-1, COX-2]}", "COX\u20112"),
        ("ground_truth: true", "yes"),
        ("ground_truth: true", 1),
        ("ground_truth: false", "0"),
        ("ground_truth: false", "No"),
        ("ground_truth: 01234, verify_with: ExactMatch", "01234"),
        ("ground_truth: -7", "\u22127"),
        ("ground_truth: CD4+, verify_with: {type: ExactMatch, normalize: [remove_punctuation]}", "CD4+."),
    ],
)
def test_a_right_value_is_correct_however_it_is_written(judged: Judged, declared: str, value: object) -> None:
    found = judged(declared, value)
    assert found.outcome is Outcome.CORRECT, found.why()


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("ground_truth: CD4+, verify_with: {type: ExactMatch, normalize: [remove_punctuation]}", "CD4-"),
        ("ground_truth: '-7', verify_with: {type: ExactMatch, normalize: [remove_punctuation]}", "7"),
        ("ground_truth: '1.5', verify_with: {type: ExactMatch, normalize: [remove_punctuation]}", "15"),
        ("ground_truth: '105'", "10\u2075"),
        ("ground_truth: IL-6, verify_with: {type: ExactMatch, normalize: [exact]}", "IL\u20116"),
        ("ground_truth: 01234, verify_with: ExactMatch", "1234"),
        ("ground_truth: 2024-03-09", "9 April 2024"),
    ],
)
def test_another_value_is_wrong(judged: Judged, declared: str, value: object) -> None:
    assert judged(declared, value).outcome is Outcome.WRONG


def test_a_date_with_two_readings_is_not_judged(judged: Judged) -> None:
    found = judged("ground_truth: 2024-03-09", "09/03/2024")
    assert found.outcome is Outcome.UNDECIDED
    assert "09/03/2024 can be read as two different dates" in found.why()
    assert judged("ground_truth: 2024-07-01", "09/03/2024").outcome is Outcome.WRONG


@pytest.mark.parametrize(
    ("declared", "value", "points"),
    [
        (
            "ground_truth: BRCA1",
            "BR\u0421A1",
            "U+0421 CYRILLIC CAPITAL LETTER ES instead of U+0043 LATIN CAPITAL LETTER C",
        ),
        ("ground_truth: '105'", "10\u2075", "U+2075 SUPERSCRIPT FIVE instead of U+0035 DIGIT FIVE"),
        ("ground_truth: [AB, x]", ["x", "\u0391B"], "U+0391 GREEK CAPITAL LETTER ALPHA instead of U+0041"),
        ("ground_truth: a-b", "a\u2014b", "U+2014 EM DASH instead of U+002D HYPHEN-MINUS"),
        ("ground_truth: IL-6, verify_with: {type: ExactMatch, normalize: [exact]}", "IL\u20116", "U+2011"),
    ],
)
def test_the_reason_prints_code_points_of_texts_that_look_alike(
    judged: Judged, declared: str, value: object, points: str
) -> None:
    assert points in judged(declared, value).why()


def test_the_reason_prints_no_code_points_otherwise(judged: Judged) -> None:
    for value in ("TP53", "brca2", None):
        assert judged("ground_truth: BRCA1", value).why() == "field differs from the ground truth"


RAISING = """
class Answer(BaseAnswer):
    field: str = VerifiedField(description="The value that is named", ground_truth="BCL2", verify_with=ExactMatch())

    def verify(self):
        return self.no_such_thing
"""


def test_a_verify_that_raises_is_an_error_of_verification(judged: Judged) -> None:
    judged("ground_truth: BCL2", "BCL2")
    found = evaluate(response="It is BCL2.", template=RAISING, judge="scripted:j", trust="all")
    assert found.outcome is not Outcome.TEMPLATE_ERROR
    assert found.metadata.error is None
    assert found.template.field_verification_error is not None
    assert "no_such_thing" in found.template.field_verification_error
    assert "verify() failed" in found.why()


CHECKED = """karenina: 1
name: b
questions:
  - question: one
    answer: {drug: {description: The marker that is named, ground_truth: "A/B", verify_with: &rule RULE}}
  - question: two
    answer: {drug: {description: The marker that is named, ground_truth: "AB", verify_with: *rule}}
  - question: three
    answer: {drug: {description: The marker that is named, ground_truth: "ab", verify_with: *rule}}
"""


def test_check_warns_of_truths_that_a_rule_makes_equal(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text(CHECKED.replace("RULE", "{type: ExactMatch, normalize: [lowercase, remove_punctuation]}"))
    (warning,) = Benchmark.check_file(file).warnings
    assert "remove_punctuation makes the ground truths 'AB' and 'A/B' (question q1-one) of field 'drug' equal" in str(
        warning
    )
    assert "line 7" in str(warning)
    file.write_text(CHECKED.replace("RULE", "{type: ExactMatch, normalize: [lowercase, collapse_whitespace]}"))
    assert not Benchmark.check_file(file).warnings


@pytest.mark.parametrize(
    ("rule", "warns"),
    [
        ("{type: ContainsAny, substrings: [a, BCL2]}", ["'a'"]),
        ("{type: ContainsAll, substrings: [the, in, BCL2]}", ["'the'", "'in'"]),
        ("{type: ContainsAny, substrings: ['1', venetoclax]}", ["'1'"]),
        ("{type: ContainsAny, substrings: [BCL2, bcl-2, US]}", []),
        ("{type: TraceContains, substring: ' '}", ["' '"]),
        ("{type: TraceContains, substring: doi}", []),
    ],
)
def test_check_warns_of_substrings_that_nearly_every_value_contains(
    tmp_path: Path, rule: str, warns: list[str]
) -> None:
    file = tmp_path / "b.yaml"
    truth = "" if "Trace" in rule else "type: str, ground_truth: BCL2 in the cell 1, "
    file.write_text(
        "karenina: 1\nname: b\nquestions:\n  - question: one\n    answer:\n"
        f"      gene: {{description: The gene that is named, {truth}verify_with: {rule}}}\n"
    )
    warnings = [str(one) for one in Benchmark.check_file(file).warnings if "nearly every value" in str(one)]
    assert len(warnings) == len(warns)
    for substring, warning in zip(warns, warnings, strict=True):
        assert f"the substring {substring} of field 'gene'" in warning


def test_a_question_is_chosen_by_an_id_in_another_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "b.yaml"
    file.write_text(
        "karenina: 1\nname: b\nquestions:\n  - question: What is caf\u00e9?\n    id: caf\u00e9\n"
        "    answer: {said: {verify_with: {type: TraceContains, substring: coffee}}}\n",
        "utf-8",
    )
    (tmp_path / "r.jsonl").write_text('{"id": "cafe\u0301", "response": "It is coffee."}\n', "utf-8")
    found = run_karenina(
        *("run", file, "--recordings", "r.jsonl", "-q", "cafe\u0301", "-o", "out.jsonl"), plugins=Plugins.discover()
    )
    assert found.code == 0, found.out + found.err
    assert '"question_id":"caf\u00e9"' in (tmp_path / "out.jsonl").read_text("utf-8").replace('": "', '":"')


def test_texts_are_paired_in_every_form(tmp_path: Path) -> None:
    written, asked = "caf\u00e9", "cafe\u0301"
    benchmark = Benchmark.create("b")
    benchmark.add_question("What is it?", "coffee", question_id=written)
    assert asked in benchmark
    assert benchmark.get(asked).id == written
    assert question_id(f"What is {written}?") == question_id(f"What is {asked}?")
    assert is_same_question(f"What is {written}?", f"what is {asked}")
    of_one, of_other = (make_result(id) for id in (written, asked))
    assert answer_id(of_one) == answer_id(of_other)
    for word in (written, asked, asked[:3], "is CAFE\u0301"):
        assert select_items([of_one], [word]) == {0}
