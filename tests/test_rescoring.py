"""A finished run is scored again with changed truths: without calls, and with a list of changed verdicts."""

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_runs import registered, run_karenina
from offers import offering
from shown_html import ShownHTML
from typer.testing import CliRunner

from karenina import Benchmark, VerificationResultSet
from karenina_cli.app import build_app
from karenina_core import (
    ArtifactKeys,
    Outcome,
    Question,
    Stage,
    VerificationConfig,
    VerificationContext,
    hookimpl,
)
from karenina_core import plugins as plugin_room
from karenina_core.data.question import FewShotExample
from karenina_core.data.result import VerificationResult
from karenina_core.data.rubrics import LLMRubricTrait, MetricRubricTrait, RegexRubricTrait, Rubric, RubricTrait
from karenina_core.errors import ConfigError
from karenina_core.models.ports import CallInfo, Message, PortError
from karenina_core.models.prompts import PromptTask
from karenina_core.plugins import Plugins
from karenina_engine.journal.view import JournalView
from karenina_engine.offline import rescoring
from karenina_engine.offline.rescoring import rescore
from karenina_engine.run.process_pool import can_fork
from karenina_testing import ScriptedModels
from karenina_toolkit.structured import ask

DECLARED = """
class Answer(BaseAnswer):
    value: {type} = VerifiedField(description="The value", ground_truth={truth!r}, verify_with={verify_with})
    unit: str = VerifiedField(description="Its unit", ground_truth="m", verify_with=ExactMatch(), weight={weight})
{more}
"""


def source(
    truth: float, verify_with: str = "NumericExact()", weight: float = 1.0, type: str = "float", more: str = ""
) -> str:
    return DECLARED.format(truth=truth, verify_with=verify_with, weight=weight, type=type, more=more)


def question(number: int, template: str, **more: Any) -> Question:
    return Question(id=f"q{number}", question=f"How long is {number}?", answer_template=template, **more)


@pytest.fixture
def models() -> Iterator[ScriptedModels]:
    scripted = ScriptedModels(
        say=lambda _messages, info: f"It is {info.question_id[1:]} m long, doi:{info.replicate}.",
        fill=lambda _messages, _schema, info: {"value": float(info.question_id[1:]), "unit": "m"},
    )
    with registered(scripted):
        yield scripted


def config(models: ScriptedModels, **more: Any) -> VerificationConfig:
    return VerificationConfig(
        **{"answering_models": [models.model("a")], "parsing_models": [models.model("j")], "replicate_count": 2, **more}
    )


def finished(models: ScriptedModels, folder: Path, *questions: Question, **more: Any) -> tuple[Benchmark, Path]:
    """Return a run over the questions whose journal is at the path, and no request since."""
    benchmark = Benchmark.create("lengths")
    benchmark.add_questions(questions)
    benchmark.run_verification(config(models, **more), journal=folder / "run.journal")
    models.requests.clear()
    return benchmark, folder / "run.journal"


@pytest.mark.parametrize(
    ("was", "now", "before", "after"),
    [
        (source(2.0), source(1.0), Outcome.PARTIAL, Outcome.CORRECT),
        (source(1.0), source(7.0), Outcome.CORRECT, Outcome.PARTIAL),
        (source(1.1), source(1.1, "NumericTolerance(tolerance=0.2)"), Outcome.PARTIAL, Outcome.CORRECT),
        (source(9.0), source(9.0, "NumericRange(min=0, max=5)"), Outcome.PARTIAL, Outcome.CORRECT),
        (
            source(9.0),
            source(9.0, more="    class VerificationStrategy:\n        verify_strategy = FieldCheck('unit')"),
            Outcome.PARTIAL,
            Outcome.CORRECT,
        ),
        (
            source(1.0),
            source(1.0, more="    def verify(self):\n        return self.value > 5"),
            Outcome.CORRECT,
            Outcome.PARTIAL,
        ),
    ],
    ids=["truth", "truth for worse", "tolerance", "primitive", "composition", "verify()"],
)
def test_what_is_right_may_change_and_nobody_is_asked(
    tmp_path: Path, models: ScriptedModels, was: str, now: str, before: Outcome, after: Outcome
) -> None:
    benchmark, journal = finished(models, tmp_path, question(1, was), question(2, source(2.0)))
    benchmark.replace(question(1, now))
    found = rescore(journal, benchmark, config(models), trust="all")
    assert models.requests == []
    assert [change.item for change in found.flips] == [("q1", "a", "j", 1), ("q1", "a", "j", 2)]
    assert {(change.before, change.after) for change in found.changes} == {(before, after)}
    assert (found.before.pass_rate.hits, found.after.pass_rate.hits) in {(2, 4), (4, 2)}


def test_a_change_says_which_field_and_how_much(tmp_path: Path, models: ScriptedModels) -> None:
    benchmark, journal = finished(models, tmp_path, question(1, source(7.0)), replicate_count=1)
    benchmark.replace(question(1, source(8.0, weight=3.0)))
    (weighed,) = rescore(journal, benchmark, config(models, replicate_count=1)).changes
    assert (weighed.granular, weighed.fields, weighed.flipped) == ((0.5, 0.75), {}, False)
    benchmark.replace(question(1, source(1.0)))
    (right,) = rescore(journal, benchmark, config(models, replicate_count=1)).changes
    assert (right.granular, right.fields, right.flipped) == ((0.5, 1.0), {"value": (False, True)}, True)


def test_a_pattern_of_a_rubric_is_looked_for_again(tmp_path: Path, models: ScriptedModels) -> None:
    cites = RegexRubricTrait(name="cites", pattern="doi:1")
    benchmark, journal = finished(
        models, tmp_path, question(1, source(1.0), rubric=[cites]), evaluation_mode="template_and_rubric"
    )
    benchmark.replace(question(1, source(1.0), rubric=[cites.model_copy(update={"pattern": "doi:"})]))
    (change,) = rescore(journal, benchmark, config(models, evaluation_mode="template_and_rubric")).changes
    assert (change.item[3], change.traits, change.flipped) == (2, {"cites": (False, True)}, False)


def test_a_missing_reply_is_an_error_of_its_item(tmp_path: Path, models: ScriptedModels) -> None:
    benchmark, journal = finished(models, tmp_path, question(1, source(1.0)), question(2, source(2.0)))
    benchmark.replace(question(1, source(1.0).replace("The value", "The length")))
    found = rescore(journal, benchmark, config(models), output=tmp_path / "new.jsonl")
    assert models.requests == []
    assert [change.item[0] for change in found.missing] == ["q1", "q1"]
    assert "contains no reply from 'j'" in found.missing[0].why
    assert (found.after.judged, found.after.not_judged) == (2, 2)
    assert found.flips == []


def test_rescored_results_equal_those_of_a_new_run(tmp_path: Path, models: ScriptedModels) -> None:
    benchmark, journal = finished(models, tmp_path, *(question(n, source(n % 3)) for n in range(12)))
    for n in range(12):
        benchmark.replace(question(n, source(n % 4)))
    rescore(journal, benchmark, config(models), output=tmp_path / "new.jsonl")
    fresh = benchmark.run_verification(config(models))
    again = VerificationResultSet.load(tmp_path / "new.jsonl")
    assert [(one.item, one.outcome) for one in again] == [(one.item, one.outcome) for one in fresh]


def test_rescored_results_keep_the_time_of_their_run(tmp_path: Path, models: ScriptedModels) -> None:
    benchmark, journal = finished(models, tmp_path, question(1, source(7.0)))
    with JournalView(journal) as view:
        before = [json.loads(line)["metadata"]["execution_time"] for line in view.results()]
    rescore(journal, benchmark, config(models), output=tmp_path / "new.jsonl")
    after = [one.metadata.execution_time for one in VerificationResultSet.load(tmp_path / "new.jsonl")]
    assert sorted(after) == sorted(before)


def test_the_journal_stays_as_it_is(tmp_path: Path, models: ScriptedModels) -> None:
    benchmark, journal = finished(models, tmp_path, question(1, source(7.0)))
    before = journal.read_bytes()
    benchmark.replace(question(1, source(1.0)))
    rescore(journal, benchmark, config(models))
    assert journal.read_bytes() == before


def test_only_items_of_the_run_are_rescored(tmp_path: Path, models: ScriptedModels) -> None:
    benchmark, journal = finished(models, tmp_path, question(1, source(1.0)), question(2, source(2.0)))
    benchmark.remove("q1")
    benchmark.add_questions([question(3, source(3.0))])
    found = rescore(journal, benchmark, config(models))
    assert (found.after.items, found.gone, found.new) == (2, 2, 1)
    with pytest.raises(ConfigError, match="no question in the benchmark has a result"):
        rescore(journal, Benchmark.create("empty"), config(models))


class AsksWithTheTruth(Stage):
    """A stage like the embedding check: its prompt shows the truth, and without a reply it gives no verdict."""

    name = "AsksWithTheTruth"
    requires = frozenset({ArtifactKeys.ANSWER_CLASS, ArtifactKeys.FIELD_VERIFICATION_RESULT})
    task = PromptTask("asks_with_the_truth", "Is it the same?", shows_truth=True)

    async def execute(self, context: VerificationContext) -> None:
        truth = context.get_artifact(ArtifactKeys.ANSWER_CLASS).expected()
        schema = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}
        with suppress(PortError):
            await ask(context, self.task, f"The truth is {truth}.", schema, dict)


def test_a_changed_truth_in_a_prompt_needs_permission_to_call(tmp_path: Path, models: ScriptedModels) -> None:
    plugin_room.active_plugins().register(offering(embedding_check=[AsksWithTheTruth]))
    benchmark, journal = finished(
        models, tmp_path, question(1, source(1.0)), question(2, source(2.0)), replicate_count=1
    )
    benchmark.replace(question(1, source(7.0)))
    chosen = config(models, replicate_count=1)
    silent = benchmark.rescore(journal, chosen)
    assert models.requests == []
    assert [(change.item[0], change.after) for change in silent.changes] == [("q1", Outcome.STAGE_ERROR)]
    assert "--ask" in silent.changes[0].why
    asked = benchmark.rescore(journal, chosen, ask=True)
    assert [(one.info.stage, one.info.question_id) for one in models.requests] == [("AsksWithTheTruth", "q1")]
    assert [(change.item[0], change.after) for change in asked.changes] == [("q1", Outcome.PARTIAL)]
    assert benchmark.rescore(journal, chosen).changes == asked.changes
    assert len(models.requests) == 1


def asked(models: ScriptedModels) -> list[tuple[str, str]]:
    """Return stage and question of every call."""
    return [(one.info.stage, one.info.question_id) for one in models.requests]


def test_a_metric_trait_with_a_changed_truth_is_scored_anew(tmp_path: Path, models: ScriptedModels) -> None:
    def measured(number: int, *expected: str, more: tuple[RubricTrait, ...] = ()) -> Question:
        trait = MetricRubricTrait(name="facts", metrics=("recall",), tp_instructions=expected)
        return question(number, source(float(number)), rubric=Rubric.of(trait, *more))

    def fill(_messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> dict[str, Any]:
        if info.stage == "RubricEvaluation":
            return {name: "" if one["type"] == "string" else [] for name, one in schema["properties"].items()}
        return {"value": float(info.question_id[1:]), "unit": "m"}

    models.fill = fill
    settings = {"replicate_count": 1, "evaluation_mode": "template_and_rubric"}
    chosen = config(models, **settings)
    questions = measured(1, "it is long"), measured(2, "it is wide")
    benchmark, journal = finished(models, tmp_path, *questions, **settings)
    benchmark.replace(measured(1, "it is tall"))
    silent = benchmark.rescore(journal, chosen)
    assert models.requests == []
    assert [(change.item[0], change.after) for change in silent.changes] == [("q1", Outcome.STAGE_ERROR)]
    benchmark.rescore(journal, chosen, ask=True)
    assert asked(models) == [("RubricEvaluation", "q1")]
    benchmark.replace(measured(2, "it is wide", more=(LLMRubricTrait(name="clear", description="It is clear."),)))
    benchmark.rescore(journal, chosen, ask=True)
    assert asked(models) == [("RubricEvaluation", "q1")], "the prompt of another trait shows no truth"


def test_a_changed_example_needs_a_new_answer(tmp_path: Path, models: ScriptedModels) -> None:
    def shown(number: int, answer: str) -> Question:
        example = FewShotExample(question="How long is 0?", answer=answer)
        return question(number, source(float(number)), few_shot_examples=(example,))

    settings = {"replicate_count": 1, "few_shot_config": {"enabled": True}}
    chosen = config(models, **settings)
    benchmark, journal = finished(models, tmp_path, shown(1, "1 m"), shown(2, "2 m"), **settings)
    models.say = lambda _messages, info: f"It is now {info.question_id[1:]} m long."
    benchmark.replace(shown(1, "100 cm"))
    benchmark.rescore(journal, chosen)
    assert models.requests == []
    found = benchmark.rescore(journal, chosen, ask=True)
    assert asked(models) == [("GenerateAnswer", "q1"), ("ParseTemplate", "q1")]
    assert found.missing == []


class LooksUpTheTruth(AsksWithTheTruth):
    """A stage of a third party without a slot."""

    name = "LooksUpTheTruth"


def test_a_third_party_prompt_with_changed_truth_is_resent(tmp_path: Path, models: ScriptedModels) -> None:
    plugin_room.active_plugins().register(offering(extra_stages=[LooksUpTheTruth]))
    chosen = config(models, replicate_count=1)
    benchmark, journal = finished(
        models, tmp_path, question(1, source(1.0)), question(2, source(2.0)), replicate_count=1
    )
    benchmark.replace(question(1, source(7.0)))
    benchmark.rescore(journal, chosen, ask=True)
    assert asked(models) == [("LooksUpTheTruth", "q1")]


def test_processes_share_the_work_and_find_the_same(
    tmp_path: Path, models: ScriptedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark, journal = finished(models, tmp_path, *(question(n, source(n % 3)) for n in range(9)))
    benchmark.save(tmp_path / "lengths.jsonl")
    streamed = Benchmark.load(tmp_path / "lengths.jsonl")
    streamed.replace(question(0, source(5.0)))
    monkeypatch.setattr(rescoring, "_CHUNK", 2)
    where = Where()
    plugin_room.active_plugins().register(where)
    alone = rescore(journal, streamed, config(models), output=tmp_path / "alone.jsonl")
    here = len(where.processes)
    shared = rescore(journal, streamed, config(models), output=tmp_path / "shared.jsonl", processes=2)
    assert (shared.changes, shared.after) == (alone.changes, alone.after)
    assert written(tmp_path / "shared.jsonl") == written(tmp_path / "alone.jsonl")
    assert len(written(tmp_path / "alone.jsonl")) == 18
    assert (here, len(where.processes)) == (18, 18 if can_fork() else 36)


def test_a_process_that_dies_costs_no_item(
    tmp_path: Path, models: ScriptedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark, journal = finished(models, tmp_path, *(question(n, source(n % 3)) for n in range(9)))
    monkeypatch.setattr(rescoring, "_CHUNK", 2)
    alone = rescore(journal, benchmark, config(models), output=tmp_path / "alone.jsonl")
    plugin_room.active_plugins().register(Where(dies_of="q4"))
    shared = rescore(journal, benchmark, config(models), output=tmp_path / "shared.jsonl", processes=2)
    assert (shared.changes, shared.after) == (alone.changes, alone.after)
    assert written(tmp_path / "shared.jsonl") == written(tmp_path / "alone.jsonl")


def test_errors_of_the_benchmark_are_raised_with_worker_processes(
    tmp_path: Path, models: ScriptedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark, journal = finished(models, tmp_path, *(question(n, source(n % 3)) for n in range(5)))
    monkeypatch.setattr(rescoring, "_CHUNK", 2)
    with pytest.raises(ConfigError, match="the benchmark has no trait 'cites'"):
        rescore(journal, benchmark, config(models, rubric_trait_names=["cites"]), processes=2)


class Where:
    """Sees in this process what is scored in it, and lets another one die of a question."""

    def __init__(self, dies_of: str = "") -> None:
        self.here = os.getpid()
        self.processes: list[str] = []
        self.dies_of = dies_of

    @hookimpl
    def karenina_item_finished(self, result: VerificationResult) -> None:
        self.processes.append(result.question_id)
        if result.question_id == self.dies_of and os.getpid() != self.here:
            os.kill(os.getpid(), signal.SIGKILL)


def written(file: Path) -> list[tuple[Any, ...]]:
    return [(one.item, one.outcome, one.template.field_results) for one in VerificationResultSet.load(file)]


def test_the_command_scores_the_edited_file_and_lists_the_flips(tmp_path: Path, models: ScriptedModels) -> None:
    file = tmp_path / "lengths.jsonl"
    lines = [{"id": f"q{n}", "question": f"How long is {n}?", "template": source(n)} for n in range(4)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    journal = tmp_path / "run.journal"
    Benchmark.load(file).run_verification(config(models), journal=journal, output=tmp_path / "old.jsonl")
    models.requests.clear()
    file.write_text(file.read_text().replace("ground_truth=2", "ground_truth=9"))
    told = CliRunner().invoke(build_app(), ["rescore", str(journal), "--json", "-o", str(tmp_path / "new.jsonl")])
    found = json.loads(told.stdout)
    assert [(one["question_id"], one["replicate"], one["before"], one["after"]) for one in found["flips"]] == [
        ("q2", 1, "correct", "partial"),
        ("q2", 2, "correct", "partial"),
    ]
    assert (found["before"]["pass_rate"]["hits"], found["after"]["pass_rate"]["hits"]) == (8, 6)
    assert len(VerificationResultSet.load(tmp_path / "new.jsonl")) == 8
    table = CliRunner().invoke(build_app(), ["rescore", str(journal), "--diff"], env={"COLUMNS": "160"})
    assert "value: passes -> fails" in table.stdout
    assert "2 items: 2 no longer correct, 0 now correct" in table.stdout
    assert models.requests == []


def test_labels_of_the_run_are_asked_again_where_a_truth_changed(tmp_path: Path, models: ScriptedModels) -> None:
    """Rescored results have the labels of their run, and each label counts for the truth that it was given for."""

    def command(*arguments: object, type: str = "") -> str:
        done = CliRunner().invoke(build_app(), [str(one) for one in arguments], input=type, env={"COLUMNS": "300"})
        assert done.exit_code == 0, done.output
        return done.output

    file, old, new = tmp_path / "b.jsonl", tmp_path / "run.results.jsonl", tmp_path / "new.jsonl"
    lines = [{"id": f"q{n}", "question": f"How long is {n}?", "template": source(n)} for n in range(4)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    journal = tmp_path / "run.journal"
    Benchmark.load(file).run_verification(config(models), journal=journal, output=old)
    command("label", old, "--labeller", "ann", type="y\n" * 40)
    file.write_text(file.read_text().replace("ground_truth=2", "ground_truth=9"))
    command("rescore", journal, "-o", new)

    assert "from before the ground truth changed (left out of rates): q2" in command("calibrate", new)
    assert f"(left out of rates): q2; to label again, use `karenina label {new}`" in command("show", new)
    sheet = tmp_path / "again.csv"
    command("label", new, "--sheet", sheet)
    changed = (
        "the ground truth has changed since ann labelled the answer; the earlier ground truth was value: 2; unit: m"
    )
    assert changed in sheet.read_text("utf-8")
    again = command("label", new, "--labeller", "ann", type="n\n" * 4)
    assert again.count("Is the answer right?") == 2
    assert "Does the answer say" not in again
    for results in (old, new):
        assert "before the ground truth changed" not in command("calibrate", results)


def test_a_report_is_shown_with_its_flips(tmp_path: Path, models: ScriptedModels) -> None:
    benchmark, journal = finished(models, tmp_path, question(1, source(2.0)), question(2, source(2.0)))
    benchmark.replace(question(1, source(1.0)))

    report = benchmark.rescore(journal, config(models))

    assert repr(report).splitlines()[0] == "Rescored 4 items"
    assert "Flips   2 items: 0 no longer correct, 2 now correct" in repr(report)
    seen = ShownHTML(report._repr_html_())
    assert "Changes (2 of 2 items)" in seen.text
    assert "fails -> passes" in seen.text


def test_failed_items_without_a_template_have_the_bounds_of_the_run(tmp_path: Path) -> None:
    words = {"words": {"from": "answer.words", "ground_truth": 1, "verify_with": "NumericExact"}}
    questions = [
        {"id": "gene", "question": "Which gene?", "answer": words},
        {"id": "poem", "question": "Write a poem.", "rubric": [{"name": "long", "type": "regex", "pattern": "a"}]},
    ]
    benchmark, answers, results = tmp_path / "b.yaml", tmp_path / "m.jsonl", tmp_path / "r.jsonl"
    benchmark.write_text(json.dumps({"karenina": 1, "name": "Genes", "questions": questions}), "utf-8")
    answers.write_text('{"id": "gene", "response": "BCL2"}\n{"id": "poem", "response": ""}\n', "utf-8")
    plugins = Plugins.discover()
    both = ("--set", "evaluation_mode=template_and_rubric")
    run_karenina("run", benchmark, "--recordings", answers, "--partial", *both, "-o", results, plugins=plugins)

    shown = run_karenina("show", results, "--json", plugins=plugins).json["summary"]
    rescored = run_karenina("rescore", results, "--json", plugins=plugins).json

    assert (shown["not_judged"], shown["worst"], shown["best"]) == (1, 1.0, 1.0)
    for summary in (rescored["before"], rescored["after"]):
        assert (summary["not_judged"], summary["worst"], summary["best"]) == (1, 1.0, 1.0)
