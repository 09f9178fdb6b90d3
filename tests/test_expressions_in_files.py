"""Expressions in files, checks, runs and rescoring: `MathEqual` behind the type `expression`."""

from __future__ import annotations

import os
from pathlib import Path

import preloaded
import pytest
from command_runs import registered
from loaded_files import load, template_of

from karenina import VerificationConfig
from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_core.data.trust import Trust
from karenina_engine.offline import rescoring
from karenina_selftest.own_cases import make_own_cases
from karenina_testing import ScriptedModels

HEAD = "karenina: 1\nname: roots\nquestions:\n"
QUESTION = """\
  - id: {id}
    question: Solve 2x = {number}.
    answer:
      x: {{type: expression, description: The value that the response gives, ground_truth: '{truth}'}}
"""
HALF = QUESTION.format(id="half", number=1, truth=r"\frac{1}{2}")


@pytest.mark.parametrize("name", ["b.yaml", "b.jsonld", "b.jsonl"])
def test_a_field_of_type_expression_survives_each_format(name: str, tmp_path: Path) -> None:
    benchmark = load(tmp_path, "a.yaml", HEAD + HALF)
    benchmark.save(tmp_path / name)

    assert "verify_with=MathEqual()" in template_of(benchmark)
    assert template_of(Benchmark.load(tmp_path / name)) == template_of(benchmark)


def test_a_table_names_the_type_of_its_answers(tmp_path: Path) -> None:
    benchmark = load(tmp_path, "a.csv", "question,answer,type\nSolve x^2 = 2.,\\pm\\sqrt{2},expression\n")

    assert "MathEqual()" in template_of(benchmark)
    with pytest.raises(BenchmarkFileError, match="'the larger one' is not of type 'expression'"):
        load(tmp_path, "b.csv", "question,answer,type\nWhich?,the larger one,expression\n")


def test_an_import_maps_answers_to_expressions(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "Solve 2x = 1.", "target": "1/2"}\n', "utf-8")
    command = ["import", "rows.jsonl", "-o", "out.yaml", "--map", "answer=expression"]
    maps = ["--map", "question=question", "--map", "raw_answer=target"]
    preloaded.run([*command, *maps], folder=tmp_path, environment=os.environ, timeout=120).check_returncode()

    assert "MathEqual()" in template_of(Benchmark.load(tmp_path / "out.yaml"))


def test_checks_and_selftests_compare_expressions(tmp_path: Path) -> None:
    benchmark = load(tmp_path, "a.yaml", HEAD + HALF)
    cases = make_own_cases(benchmark, Trust("all"))

    assert benchmark.check().unchecked == ()
    assert {case.passes for case in cases.cases} == {True, False}
    assert cases.left_out == {}


def test_only_a_primitive_that_needs_a_model_is_not_checked(tmp_path: Path) -> None:
    declared = "x: {description: Its name, ground_truth: TP53, verify_with: SemanticMatch}"
    benchmark = load(tmp_path, "a.yaml", f"{HEAD}  - question: Which gene?\n    answer:\n      {declared}\n")

    assert ["needs an embedding model" in str(finding) for finding in benchmark.check().unchecked] == [True]
    assert "needs a model" in str(make_own_cases(benchmark, Trust("all")).left_out)


def test_rescoring_processes_find_the_verdicts_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoring, "_CHUNK", 2)
    text = "".join(QUESTION.format(id=f"q{number}", number=number, truth=f"{number}/2") for number in range(1, 7))
    benchmark = load(tmp_path, "a.yaml", HEAD + text)
    scripted = ScriptedModels(fill=lambda _messages, _schema, info: {"x": rf"\frac{{{info.question_id[1:]}}}{{2}}"})
    config = VerificationConfig(answering_models=[scripted.model("a")], parsing_models=[scripted.model("j")])
    with registered(scripted):
        benchmark.run_verification(config, journal=tmp_path / "run.journal")
        benchmark = load(tmp_path, "a.yaml", HEAD + text.replace("'3/2'", "'7/2'"))
        found = rescoring.rescore(tmp_path / "run.journal", benchmark, config, processes=2)

    assert found.before.pass_rate.hits == 6
    assert [change.item[0] for change in found.flips] == ["q3"]
    assert found.after.pass_rate.hits == 5
