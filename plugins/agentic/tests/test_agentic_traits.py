"""AgenticRubricEvaluation alone: traits that an agent investigates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agentic_models import ANSWER, Looking, contexts, parsed_before, question
from pydantic import BaseModel

from karenina_agentic.trait_evaluation import AgenticRubricEvaluation
from karenina_core import ArtifactKeys as Keys
from karenina_core import VerificationConfig
from karenina_core.data.rubrics import AgenticRubricTrait, DynamicRubric, Rubric
from karenina_core.data.trust import NO_TRUST
from karenina_core.errors import ConfigError
from karenina_core.models.ports import AgentReply, ErrorCategory, Message, PortError, Usage
from karenina_testing import ScriptedModels, StageRun, run_stage


def trait(name: str = "tested", **fields: Any) -> AgenticRubricTrait:
    return AgenticRubricTrait(name=name, description="Whether there are tests.", **fields)


def score(
    workspace: Path | None,
    models: ScriptedModels,
    *traits: AgenticRubricTrait,
    dynamic: Sequence[AgenticRubricTrait] = (),
    before: Mapping[Any, object] | None = None,
    **settings: Any,
) -> StageRun:
    asked = question(
        rubric=Rubric.of(*traits) if traits else None, dynamic_rubric=DynamicRubric.of(*dynamic) if dynamic else None
    )
    if workspace is not None:
        settings.setdefault("workspace_root", workspace.parent)
    artifacts: dict[Any, object] = {**parsed_before(workspace), **(before or {})}
    return asyncio.run(
        run_stage(AgenticRubricEvaluation, question=asked, artifacts=artifacts, models=models, **settings)
    )


class Grade(BaseModel):
    points: int
    remark: str = "none"


@pytest.mark.parametrize(
    ("fields", "given", "expected"),
    [
        ({}, True, True),
        ({"kind": "score"}, 4, 4),
        ({"kind": "score", "min_score": 0, "max_score": 10}, 10, 10),
        ({"kind": "literal", "classes": {"none": "no tests", "some": "a few", "all": "all of it"}}, "some", 1),
        ({"kind": Grade}, {"points": 3, "remark": "fine"}, {"points": 3, "remark": "fine"}),
    ],
)
def test_each_kind_is_scored_from_the_report(
    workspace: Path, fields: dict[str, Any], given: object, expected: object
) -> None:
    models = Looking("There are tests.".format, {"reasoning": "as reported", "score": given}).models()
    run = score(workspace, models, trait(**fields))
    assert run.artifact(Keys.AGENTIC_TRAIT_SCORES) == {"tested": expected}
    assert "There are tests." in (run.artifact(Keys.AGENTIC_TRAIT_TRACES) or {})["tested"]
    assert run.field("agentic_trait_reasoning") == {"tested": "as reported"}
    assert run.field("trait_errors") is None
    assert list(models.requests[1].schema["properties"]) == ["reasoning", "score"]  # type: ignore[index]


def test_the_class_of_a_literal_trait_is_kept_too(workspace: Path) -> None:
    models = Looking(found={"reasoning": "r", "score": "bad"}).models()
    run = score(workspace, models, trait(kind="literal", classes={"bad": "b", "good": "g"}))
    assert run.field("agentic_trait_labels") == {"tested": "bad"}


@pytest.mark.parametrize(
    ("fields", "given"), [({"kind": "score"}, 6), ({"kind": "score"}, 0), ({}, None), ({}, "perhaps")]
)
def test_a_missing_score_is_retried_and_then_an_error(workspace: Path, fields: dict[str, Any], given: object) -> None:
    models = Looking(found={"reasoning": "r", "score": given}).models()
    run = score(workspace, models, trait(**fields))
    assert run.artifact(Keys.AGENTIC_TRAIT_SCORES) == {"tested": None}
    assert list(run.field("trait_errors")) == ["tested"]
    assert [request.port for request in models.requests] == ["agent", "parser", "parser"]
    assert run.error is None


def limit() -> AgentReply:
    return AgentReply((Message.assistant("I am still looking"),), Usage(), limit_reached=True)


def away() -> AgentReply:
    raise PortError("no server", category=ErrorCategory.PERMANENT)


@pytest.mark.parametrize(("fail", "told"), [(limit, "max_turns of the trait 'broken'"), (away, "no server")])
def test_the_failure_of_one_trait_leaves_the_others(workspace: Path, fail: Any, told: str) -> None:
    models = ScriptedModels(fill=lambda *_: {"reasoning": "r", "score": True})

    def act(messages: Sequence[Message], _: object) -> Any:
        return fail() if '"broken"' in messages[-1].content else [Message.assistant("There are tests.")]

    models.act = act
    run = score(workspace, models, trait("first"), trait("broken"), trait("last"))
    assert run.artifact(Keys.AGENTIC_TRAIT_SCORES) == {"first": True, "broken": None, "last": True}
    assert list(run.field("trait_errors")) == ["broken"]
    assert told in run.field("trait_errors")["broken"]
    assert run.error is None
    assert [one.name for one in workspace.parent.iterdir()] == ["task_run"]


def test_each_trait_has_its_own_copy_of_the_workspace(workspace: Path) -> None:
    def look(folder: Path | None) -> str:
        assert folder is not None
        found = sorted(one.name for one in folder.iterdir())
        (folder / "left_behind.txt").write_text("x")
        return f"Files: {found}"

    looking = Looking(look, {"reasoning": "r", "score": True})
    run = score(workspace, looking.models(), trait("a"), trait("b"))
    assert len(set(looking.folders)) == 2
    traces = run.artifact(Keys.AGENTIC_TRAIT_TRACES) or {}
    assert ["left_behind" in text for text in traces.values()] == [False, False]


@contexts
def test_the_context_of_a_trait_decides_what_its_agent_sees(
    workspace: Path, context: str, answer_shown: bool, in_workspace: bool
) -> None:
    looking = Looking(found={"reasoning": "r", "score": True})
    models = looking.models()
    score(workspace, models, trait(context_mode=context))
    assert any("SECRET-ANSWER" in request.text for request in models.requests) is answer_shown
    assert (looking.folders[0] is not None) is in_workspace


@pytest.mark.parametrize("mode", ["trace_and_workspace", "trace_only"])
def test_a_trace_as_file_is_not_in_the_prompt(workspace: Path, mode: str) -> None:
    seen: dict[str, str] = {}

    def look(folder: Path | None) -> str:
        assert folder is not None
        seen.update({one.name: one.read_text() for one in folder.iterdir()})
        return "Done."

    (workspace / "response.txt").write_text("a file of the answer's own")
    looking = Looking(look, {"reasoning": "r", "score": True})
    models = looking.models()
    run = score(workspace, models, trait(context_mode=mode, materialize_trace=True))
    (name,) = [name for name, text in seen.items() if text == ANSWER]
    assert name in models.requests[0].text
    assert "SECRET-ANSWER" not in models.requests[0].text
    assert ("code.txt" in seen) is (mode == "trace_and_workspace")
    assert not any(folder.exists() for folder in looking.folders if folder is not None)
    assert run.field("agentic_trait_files") is None


def test_a_trace_that_shall_persist_outlives_the_judges_folder(workspace: Path) -> None:
    models = Looking(found={"reasoning": "r", "score": True}).models()
    run = score(workspace, models, trait(materialize_trace=True, persist_trace=True))
    kept = Path(run.field("agentic_trait_files")["tested"])
    assert (kept.parent, kept.read_text()) == (workspace.parent, ANSWER)


def test_the_bounds_of_a_trait_reach_its_agent(workspace: Path) -> None:
    models = Looking(found={"reasoning": "r", "score": True}).models()
    score(workspace, models, trait(max_turns=4, timeout_seconds=9))
    options = models.requests[0].options
    assert options is not None
    assert (options.max_turns, options.timeout) == (4, 9)


@pytest.mark.parametrize(
    ("present", "scores", "skipped", "promoted"),
    [(True, {"tested": True}, None, ["tested"]), (False, {}, ["tested"], None)],
)
def test_a_dynamic_trait_counts_only_where_its_concept_is(
    workspace: Path, present: bool, scores: object, skipped: object, promoted: object
) -> None:
    given = {"reasoning": "r", "present": present, "score": True if present else None}
    run = score(workspace, Looking(found=given).models(), dynamic=[trait()])
    assert run.artifact(Keys.AGENTIC_TRAIT_SCORES) == scores
    left_out = run.field("dynamic_rubric_skipped_traits")
    assert (list(left_out) if left_out else None) == skipped
    assert run.field("dynamic_rubric_promoted_traits") == promoted


BROKEN = {Keys.TRACE_VALIDATION_FAILED: True, Keys.FINAL_AI_MESSAGE: None, Keys.TRACE_MESSAGES: [Message.user("?")]}


def test_traits_that_need_a_final_answer_are_not_scored_without(workspace: Path) -> None:
    looking = Looking(found={"reasoning": "r", "score": True})
    only_trace = score(workspace, looking.models(), trait(), before=BROKEN, use_full_trace_for_rubric=False)
    assert only_trace.record.status == "skipped"
    mixed = [trait("a"), trait("b", context_mode="workspace_only")]
    run = score(workspace, looking.models(), *mixed, before=BROKEN, use_full_trace_for_rubric=False)
    assert run.artifact(Keys.AGENTIC_TRAIT_SCORES) == {"a": None, "b": True}
    full = score(workspace, looking.models(), trait(), before=BROKEN)
    assert full.artifact(Keys.AGENTIC_TRAIT_SCORES) == {"tested": True}


OTHER = {"interface": "scripted", "model_name": "other"}


def test_a_trait_may_name_a_model_of_its_own(workspace: Path) -> None:
    stage = AgenticRubricEvaluation()
    own = trait(model_override=OTHER)
    asked = question(rubric=Rubric.of(own, trait("usual")))
    models = ScriptedModels()
    config = VerificationConfig(parsing_models=[models.model("judge")])
    needs = list(stage.before_run(config, [asked, asked], NO_TRUST))
    assert [(need.role, need.model.model_name) for need in needs] == [
        ("model_override of trait 'tested'", "other"),
        ("judge", "judge"),
    ]
    run = score(workspace, Looking(found={"reasoning": "r", "score": True}).models(), own)
    assert run.artifact(Keys.AGENTIC_TRAIT_SCORES) == {"tested": True}


def test_a_run_without_a_needed_judge_is_refused() -> None:
    config = VerificationConfig()
    with pytest.raises(ValueError, match=r"'tested' needs a judge, but no judge is configured; set parsing_models"):
        list(AgenticRubricEvaluation().before_run(config, [question(rubric=Rubric.of(trait()))], NO_TRUST))
    own = question(rubric=Rubric.of(trait(model_override=OTHER)))
    assert len(list(AgenticRubricEvaluation().before_run(config, [own], NO_TRUST))) == 1


def test_an_invalid_model_override_is_an_error_before_the_run() -> None:
    asked = question(rubric=Rubric.of(trait(model_override={"interface": "scripted"})))
    with pytest.raises(ConfigError, match=r"model_override of trait 'tested': model_name"):
        list(AgenticRubricEvaluation().before_run(VerificationConfig(), [asked], NO_TRUST))


def test_no_request_holds_the_truth(workspace: Path) -> None:
    from agentic_models import TRUTH

    models = Looking(found={"reasoning": "r", "score": True}).models()
    score(workspace, models, trait())
    assert TRUTH not in json.dumps([request.text for request in models.requests])
