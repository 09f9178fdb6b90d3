"""AgenticParseTemplate alone: what the agent is shown, what it may do, and what becomes of what it found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agentic_models import ANSWER, TRUTH, Looking, contexts, parsed_before, question

from karenina_agentic.parse_template import AgenticParseTemplate
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError
from karenina_core.models.ports import AgentReply, ErrorCategory, Message, PortError, ToolCall, Usage
from karenina_core.plugins import Plugins
from karenina_template.templates import BaseAnswer, TraceContains, VerifiedField
from karenina_testing import ScriptedModels, StageRun, run_stage

CALL = ToolCall("c1", "read_file", {"path": "code.txt"})
LOOKED = [Message.assistant("", [CALL]), Message.tool("42", CALL)]


def parse(workspace: Path | None, models: ScriptedModels, answer: str = ANSWER, **settings: Any) -> StageRun:
    if workspace is not None:
        settings.setdefault("workspace_root", workspace.parent)
    before = parsed_before(workspace, answer)
    return asyncio.run(
        run_stage(
            AgenticParseTemplate, question=question(), artifacts=before, models=models, agentic_parsing=True, **settings
        )
    )


def code_of(run: StageRun) -> object:
    answer = run.artifact(Keys.PARSED_ANSWER)
    assert answer is not None, run.error
    return getattr(answer, "code", None)


def test_the_report_fills_the_template_and_the_trace_is_kept(workspace: Path) -> None:
    looking = Looking(lambda _: [*LOOKED, Message.assistant("code.txt says 42.")])
    models = looking.models()
    run = parse(workspace, models)
    assert code_of(run) == "42"
    assert run.artifact(Keys.AGENTIC_PARSING_PERFORMED) is True
    assert run.artifact(Keys.DEEP_JUDGMENT_PERFORMED) is False
    trace = run.artifact(Keys.INVESTIGATION_TRACE)
    assert trace is not None
    assert "[1] assistant calls read_file" in trace
    assert "| code.txt says 42." in trace
    extraction = models.requests[1]
    assert (extraction.port, extraction.info.task) == ("parser", "agentic_parsing")
    assert "code.txt says 42." in extraction.text


@contexts
def test_the_context_decides_what_the_agent_sees(
    workspace: Path, context: str, answer_shown: bool, in_workspace: bool
) -> None:
    looking = Looking()
    models = looking.models()
    run = parse(workspace, models, agentic_judge_context=context)
    assert code_of(run) == "42"
    assert any("SECRET-ANSWER" in request.text for request in models.requests) is answer_shown
    assert (looking.folders[0] is not None) is in_workspace
    assert run.field("evaluation_input") == (ANSWER if answer_shown else None)


def test_no_request_contains_the_truth_or_the_workspace_path(workspace: Path) -> None:
    models = Looking().models()
    parse(workspace, models, agentic_judge_context="trace_and_workspace")
    sent = json.dumps([request.text for request in models.requests])
    assert TRUTH not in sent
    assert str(workspace.parent) not in sent


def test_the_agent_works_on_a_copy_that_is_removed(workspace: Path) -> None:
    seen: list[str] = []

    def look(folder: Path | None) -> str:
        assert folder is not None
        seen.append((folder / "code.txt").read_text())
        (folder / "code.txt").write_text("broken")
        (folder / "more.txt").write_text("more")
        return "It says 42."

    looking = Looking(look)
    parse(workspace, looking.models())
    assert seen == ["42"]
    assert looking.folders[0] != workspace
    assert [one.name for one in workspace.parent.iterdir()] == ["task_run"]
    assert [(one.name, one.read_text()) for one in workspace.iterdir()] == [("code.txt", "42")]


@pytest.mark.parametrize("fails", [False, True])
def test_the_copy_is_removed_whatever_happens(workspace: Path, fails: bool) -> None:
    def look(_: Path | None) -> str:
        if fails:
            raise PortError("no server", category=ErrorCategory.PERMANENT)
        return "It says 42."

    parse(workspace, Looking(look).models())
    assert [one.name for one in workspace.parent.iterdir()] == ["task_run"]


def test_the_bounds_of_the_configuration_reach_the_agent(workspace: Path) -> None:
    models = Looking().models()
    parse(workspace, models, agentic_parsing_max_turns=3, agentic_parsing_timeout=7.5)
    options = models.requests[0].options
    assert options is not None
    assert (options.max_turns, options.timeout) == (3, 7.5)


def limit(_: Path | None) -> AgentReply:
    return AgentReply(tuple(LOOKED), Usage(1, 1, calls=1), limit_reached=True)


def timeout(_: Path | None) -> AgentReply:
    done = AgentReply(tuple(LOOKED), Usage(7, 3, calls=1))
    raise PortError("did not end within 1 s", category=ErrorCategory.TIMEOUT, partial=done)


def cut(_: Path | None) -> AgentReply:
    return AgentReply((*LOOKED, Message.assistant("The co")), finish_reason="length")


@pytest.mark.parametrize(
    ("look", "told"),
    [
        (limit, "raise agentic_parsing_max_turns"),
        (timeout, "did not end within 1 s"),
        (cut, "cut off at max_tokens"),
        (lambda _: [*LOOKED, Message.assistant(" ")], "ended without a report"),
    ],
)
def test_an_investigation_without_a_report_is_an_error_with_trace(workspace: Path, look: Any, told: str) -> None:
    models = Looking(look).models()
    run = parse(workspace, models)
    assert run.error is not None
    assert run.error.outcome is Outcome.PARSE_ERROR
    assert told in run.error.message
    assert "read_file" in (run.artifact(Keys.INVESTIGATION_TRACE) or "")
    assert [request.port for request in models.requests] == ["agent"]


def test_usage_before_a_timeout_is_counted(workspace: Path) -> None:
    run = parse(workspace, Looking(timeout).models())
    assert (run.record.calls, run.record.input_tokens, run.record.output_tokens) == (1, 7, 3)


def test_an_unreadable_extraction_is_a_parse_error(workspace: Path) -> None:
    run = parse(workspace, Looking(found=lambda *_: "no JSON at all").models())
    assert run.error is not None
    assert run.error.outcome is Outcome.PARSE_ERROR
    assert run.artifact(Keys.INVESTIGATION_TRACE) is not None


@pytest.mark.parametrize("gone", ["unset", "removed"])
def test_a_workspace_that_is_not_there_is_a_parse_error(workspace: Path, gone: str) -> None:
    folder = None if gone == "unset" else workspace.parent / "removed"
    run = parse(folder, Looking().models(), workspace_root=workspace.parent, workspace_copy=False)
    assert run.error is not None
    assert run.error.outcome is Outcome.PARSE_ERROR
    assert "workspace" in run.error.message


def test_an_empty_answer_needs_no_judge_in_trace_only() -> None:
    models = Looking().models()
    run = parse(None, models, answer=" ", agentic_judge_context="trace_only")
    assert code_of(run) is None
    assert models.requests == []
    assert run.artifact(Keys.AGENTIC_PARSING_PERFORMED) is False


def test_an_answer_without_text_may_still_have_left_files(workspace: Path) -> None:
    assert code_of(parse(workspace, Looking().models(), answer="", agentic_judge_context="trace_and_workspace")) == "42"


def test_a_template_that_asks_no_judge_starts_no_investigation(workspace: Path) -> None:
    class Answer(BaseAnswer):
        said: bool = VerifiedField(description="d", ground_truth=True, verify_with=TraceContains(substring="SECRET"))

    asked = question().changed(answer_template=Answer)
    models = Looking().models()
    run = asyncio.run(
        run_stage(
            AgenticParseTemplate,
            question=asked,
            artifacts=parsed_before(workspace, asked=asked),
            models=models,
            agentic_parsing=True,
        )
    )
    assert run.error is None
    assert models.requests == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (Keys.RECURSION_LIMIT_REACHED, True),
        (Keys.TRACE_VALIDATION_FAILED, True),
        (Keys.ABSTENTION_DETECTED, True),
        (Keys.SUFFICIENCY_DETECTED, False),
    ],
)
def test_what_has_failed_already_is_not_investigated(workspace: Path, key: Any, value: bool) -> None:
    models = Looking().models()
    before = {**parsed_before(workspace), key: value}
    run = asyncio.run(
        run_stage(AgenticParseTemplate, question=question(), artifacts=before, models=models, agentic_parsing=True)
    )
    assert run.record.status == "skipped"
    assert models.requests == []


def test_the_users_instructions_reach_both_steps(workspace: Path) -> None:
    models = Looking().models()
    parse(workspace, models, prompt_config={"agentic_parsing": "Write in English."})
    assert ["Write in English." in request.text for request in models.requests] == [True, True]


def test_slot_seven_has_it_only_if_configured() -> None:
    class Offer:
        from karenina_core import hookimpl

        @hookimpl
        def karenina_parse_template(self) -> Sequence[Any]:
            return [AgenticParseTemplate]

    plugins = Plugins()
    plugins.register(Offer())
    with plugin_room.use_plugins(plugins):
        stage = AgenticParseTemplate()
        assert stage.included(VerificationConfig(agentic_parsing=True), question())
        assert not stage.included(VerificationConfig(), question())
        with pytest.raises(ConfigError, match='evaluation_mode is "rubric_only", so templates are not parsed'):
            VerificationConfig(agentic_parsing=True, evaluation_mode="rubric_only")


def test_a_removed_workspace_is_judged_as_empty(workspace: Path) -> None:
    run = parse(workspace.parent / "removed", Looking().models(), workspace_root=workspace.parent)
    assert run.error is None
    assert run.artifact(Keys.PARSED_ANSWER) is not None
    assert sorted(path.name for path in workspace.parent.iterdir()) == [workspace.name]


def test_a_date_that_is_not_in_the_report_is_not_judged(workspace: Path) -> None:
    invented = {"code": "1986-04-26"}
    run = parse(workspace, Looking(lambda _: "The file is empty.", invented).models())
    assert run.error is not None
    assert run.error.outcome is Outcome.PARSE_ERROR
    assert "the date 1986-04-26, and the response has no date" in run.error.message
    assert code_of(parse(workspace, Looking(lambda _: "It says 26 April 1986.", invented).models())) == "1986-04-26"
