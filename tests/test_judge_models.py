"""The fields of a judge's model take effect in every call of the judge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from configured_runs import ScriptedJudge, run_everything

SYSTEM_PROMPT: Final = "All genes are written in capitals."
RUNS: Final[dict[str, Mapping[str, Any]]] = {
    "plain": {},
    "checks": {"abstention_enabled": True, "sufficiency_enabled": True},
    "deep judgment": {"deep_judgment_mode": "full", "deep_judgment_search_enabled": False},
    "rubric": {"evaluation_mode": "rubric_only"},
    "rubric one by one": {"evaluation_mode": "rubric_only", "rubric_evaluation_strategy": "sequential"},
    "rubric deep judgment": {"evaluation_mode": "rubric_only", "deep_judgment_rubric_mode": "enable_all"},
    "agentic": {"agentic_parsing": True, "workspace_root": "ROOT"},
}


@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_every_judge_call_begins_with_the_judges_system_prompt(settings: Mapping[str, Any], tmp_path: Path) -> None:
    judge = {"id": "j", "interface": "scripted", "model_name": "j", "system_prompt": SYSTEM_PROMPT}
    rooted = {name: str(tmp_path) if value == "ROOT" else value for name, value in settings.items()}
    seen = run_everything(
        tmp_path, {**rooted, "parsing_models": [judge]}, ScriptedJudge(), {"system_prompt": "Be brief."}
    )
    assert seen.error is None
    assert seen.result.metadata.error is None
    calls = [request for request in seen.models.requests if request.info.task != "answer_generation"]
    assert calls
    for call in calls:
        first = call.messages[0]
        assert (first.role, first.content.split("\n\n")[0]) == ("system", SYSTEM_PROMPT)
        assert first.content != SYSTEM_PROMPT
    (answered,) = seen.asked("answer_generation")
    assert answered.messages[0].content == "Be brief."


WITHOUT_PARSER: Final = {"id": "j", "interface": "manual", "model_name": "j", "manual_traces": {"q": "BCL2"}}


@pytest.mark.parametrize(
    ("settings", "stage"),
    [
        ({}, "ParseTemplate"),
        ({"abstention_enabled": True}, "AbstentionCheck"),
        ({"deep_judgment_mode": "full"}, "DeepJudgmentParseTemplate"),
        ({"evaluation_mode": "rubric_only"}, "RubricEvaluation"),
    ],
    ids=["template", "check", "deep judgment", "rubric"],
)
def test_a_judge_without_parser_port_is_refused_before_any_call(
    settings: Mapping[str, Any], stage: str, tmp_path: Path
) -> None:
    seen = run_everything(tmp_path, {**settings, "parsing_models": [WITHOUT_PARSER]}, ScriptedJudge(), {})
    assert f"judge 'j': {stage} needs the parser port, which the adapter 'manual' does not have" in (seen.error or "")
    assert seen.models.requests == []


def test_a_judge_that_no_question_asks_needs_no_port(tmp_path: Path) -> None:
    settings = {"evaluation_mode": "rubric_only", "rubric_trait_names": ["named"], "parsing_models": [WITHOUT_PARSER]}
    seen = run_everything(tmp_path, settings, ScriptedJudge(), {})
    assert (seen.error, seen.result.outcome) == (None, "scored")
