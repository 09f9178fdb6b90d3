"""The reference's table "How evaluation mode shapes the pipeline", for real plans and for the contracts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, Literal, get_args

import pytest
from contracts import CONTRACTS

from karenina import Benchmark, Question, VerificationConfig, VerificationResult
from karenina_core import plugins as plugin_room
from karenina_core.artifacts.artifact import EvaluationMode, Slot
from karenina_core.data.rubrics import LLMRubricTrait, RegexRubricTrait
from karenina_core.models.ports import AgentReply, CallInfo, Message
from karenina_core.plan import Plan, make_plan
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import registered_stages
from karenina_engine.offline.prompt_preview import example_for_schema
from karenina_testing import ScriptedModels

Cell = Literal["yes", "optional", "no"]
MODES: Final = get_args(EvaluationMode)
TABLE: Final[dict[Slot, tuple[Cell, Cell, Cell]]] = {
    Slot.VALIDATE_TEMPLATE: ("yes", "yes", "no"),
    Slot.GENERATE_ANSWER: ("yes", "yes", "yes"),
    Slot.RECURSION_LIMIT_AUTO_FAIL: ("yes", "yes", "yes"),
    Slot.TRACE_VALIDATION_AUTO_FAIL: ("yes", "yes", "yes"),
    Slot.ABSTENTION_CHECK: ("optional", "optional", "optional"),
    Slot.SUFFICIENCY_CHECK: ("optional", "optional", "no"),
    Slot.PARSE_TEMPLATE: ("yes", "yes", "no"),
    Slot.VERIFY_TEMPLATE: ("yes", "yes", "no"),
    Slot.EMBEDDING_CHECK: ("optional", "optional", "no"),
    Slot.DEEP_JUDGMENT_AUTO_FAIL: ("optional", "optional", "no"),
    Slot.RUBRIC_EVALUATION: ("no", "yes", "yes"),
    Slot.DEEP_JUDGMENT_RUBRIC_AUTO_FAIL: ("no", "optional", "optional"),
    Slot.FINALIZE_RESULT: ("yes", "yes", "yes"),
}
SWITCHES: Final[dict[Slot, dict[str, Any]]] = {
    Slot.ABSTENTION_CHECK: {"abstention_enabled": True},
    Slot.SUFFICIENCY_CHECK: {"sufficiency_enabled": True},
    Slot.EMBEDDING_CHECK: {"embedding_check_enabled": True},
    Slot.DEEP_JUDGMENT_AUTO_FAIL: {"deep_judgment_mode": "full"},
    Slot.DEEP_JUDGMENT_RUBRIC_AUTO_FAIL: {"deep_judgment_rubric_mode": "enable_all"},
}
"""Settings that bring the stage of an optional slot into the plan."""

INSTALLED = {one.slot for one in registered_stages(plugin_room.active_plugins()) if one.slot is not None}
if find_spec("sentence_transformers") is None:
    INSTALLED.discard(Slot.EMBEDDING_CHECK)
CELLS = [(slot, mode, cell) for slot, row in TABLE.items() for mode, cell in zip(MODES, row, strict=True)]
QUESTION = Question(
    question="Which gene?",
    answer_template="""
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
""",
    rubric=[RegexRubricTrait(name="names it", pattern="BCL2")],  # type: ignore[arg-type]  # a list is accepted
)


def slots(plan: Plan) -> set[Slot | None]:
    return {planned.slot for planned in plan.stages}


def real_plan(mode: EvaluationMode, **switches: Any) -> Plan:
    question = QUESTION if Slot.RUBRIC_EVALUATION in INSTALLED else QUESTION.changed(rubric=None)
    return make_plan(
        registered_stages(plugin_room.active_plugins()), VerificationConfig(evaluation_mode=mode, **switches), question
    )


REAL_CELLS = [one for one in CELLS if one[0] in INSTALLED]


@pytest.mark.parametrize(
    ("slot", "mode", "cell"), REAL_CELLS, ids=[f"{slot.config_name}-{mode}" for slot, mode, _ in REAL_CELLS]
)
def test_the_plan_of_what_is_installed_follows_the_table(slot: Slot, mode: EvaluationMode, cell: Cell) -> None:
    assert (slot in slots(real_plan(mode))) == (cell == "yes")
    if cell != "yes" and slot in SWITCHES:
        assert (slot in slots(real_plan(mode, **SWITCHES[slot]))) == (cell == "optional")


@pytest.mark.parametrize(("slot", "mode", "cell"), CELLS, ids=[f"{slot.config_name}-{mode}" for slot, mode, _ in CELLS])
def test_a_plan_of_unconditional_stages_follows_the_table(slot: Slot, mode: EvaluationMode, cell: Cell) -> None:
    offered = [one.as_offered() for one in CONTRACTS]
    with plugin_room.use_plugins(Plugins()):
        plan = make_plan(offered, VerificationConfig(evaluation_mode=mode), Question(question="Which?"))
    assert (slot in slots(plan)) == (cell != "no")


@pytest.mark.parametrize("mode", MODES)
def test_what_the_mode_leaves_out_is_named_with_the_mode(mode: EvaluationMode) -> None:
    absent = {slot for slot, row in TABLE.items() if row[MODES.index(mode)] == "no"} & INSTALLED
    left_out = {one.name: one.why for one in real_plan(mode).left_out}
    stages = [one.stage for one in registered_stages(plugin_room.active_plugins()) if one.slot in absent]
    assert {left_out[stage.name] for stage in stages} == {
        f"slot {slot.config_name} does not exist in {mode} mode" for slot in absent
    }


def run(models: ScriptedModels, mode: EvaluationMode, **more: Any) -> VerificationResult:
    """Return the result of one question with a template and a rubric."""
    plugins = Plugins.discover()
    plugins.register(models)
    benchmark = Benchmark.create(name="modes")
    benchmark.add_question(
        "Which gene?",
        "BCL2",
        QUESTION.answer_template,
        rubric=[LLMRubricTrait(name="clear", kind="boolean", description="It is clear.")],
    )
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            evaluation_mode=mode,
            answering_models=[models.model("a", **more.pop("answering", {}))],
            parsing_models=[models.model("j")],
            **more,
        )
        return benchmark.run_verification(config)[0]


def fill(_messages: object, schema: Mapping[str, Any], info: CallInfo) -> Mapping[str, Any] | str:
    return {"gene": "BCL2"} if info.task == "parsing" else example_for_schema(schema, "So it is.")


@pytest.mark.skipif(Slot.RUBRIC_EVALUATION not in INSTALLED, reason="karenina-rubric is not installed")
@pytest.mark.parametrize("mode", MODES)
def test_the_mode_decides_judge_calls_and_result_sections(mode: EvaluationMode) -> None:
    models = ScriptedModels(say=lambda *_: "It is BCL2.", fill=fill)
    result = run(models, mode)
    template, rubric = mode != "rubric_only", mode != "template_only"
    tasks = {request.info.task for request in models.requests}
    assert ("parsing" in tasks, "rubric_evaluation" in tasks) == (template, rubric)
    assert result.template.raw_llm_response == "It is BCL2."
    assert result.template.template_verification_performed is template
    assert result.template.verify_result is (True if template else None)
    assert result.outcome.value == ("correct" if template else "scored")
    scores = result.rubric.llm_trait_scores if result.rubric is not None else None
    assert scores == ({"clear": True} if rubric else None)


@pytest.mark.skipif(Slot.RUBRIC_EVALUATION not in INSTALLED, reason="karenina-rubric is not installed")
@pytest.mark.parametrize("mode", ["template_and_rubric", "rubric_only"])
def test_rubrics_score_the_trace_of_an_agent_at_its_limit(mode: EvaluationMode) -> None:
    trace = (Message.assistant("It may be BCL2; I keep looking."),)
    models = ScriptedModels(act=lambda *_: AgentReply(trace, limit_reached=True), fill=fill)
    result = run(models, mode, answering={"mcp_urls_dict": {"genes": "http://localhost:1/mcp"}})
    ran = {record.slot: record.status for record in result.stages}
    assert ran["rubric_evaluation"] == "ran"
    assert ran.get("parse_template", "skipped") == "skipped"
    assert result.template.verify_result is False


@pytest.mark.skipif(Slot.RUBRIC_EVALUATION not in INSTALLED, reason="karenina-rubric is not installed")
def test_a_question_with_traits_and_no_template_is_scored_beside_others() -> None:
    models = ScriptedModels(say=lambda *_: "It is BCL2.", fill=fill)
    plugins = Plugins.discover()
    plugins.register(models)
    benchmark = Benchmark.create(name="mixed")
    benchmark.add_question("Which gene?", "BCL2", QUESTION.answer_template, question_id="gene")
    clear = LLMRubricTrait(name="clear", kind="boolean", description="It is clear.")
    benchmark.add_question("Write a poem.", question_id="poem", rubric=[clear])
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            evaluation_mode="template_and_rubric",
            answering_models=[models.model("a")],
            parsing_models=[models.model("j")],
        )
        results = benchmark.run_verification(config)
    assert {one.metadata.question_id: one.outcome.value for one in results} == {"gene": "correct", "poem": "scored"}
    tasks = [request.info.task for request in models.requests if request.info.question_id == "poem"]
    assert "parsing" not in tasks
