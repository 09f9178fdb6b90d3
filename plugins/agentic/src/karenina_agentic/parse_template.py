"""The stage for slot 7b, which fills templates based on agents' reports."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from karenina_agentic.investigation import (
    EXTRACTION,
    INVESTIGATION,
    Investigation,
    InvestigationFailed,
    extraction_request,
    investigate,
    investigation_request,
    judge_copy,
    judge_tools,
)
from karenina_agentic.settings import PARSING_STAGE, AgenticSettings
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Skip, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.errors import StructuredError
from karenina_core.models.ports import AgentOptions
from karenina_core.stages.stage import ModelNeed
from karenina_template.parsing_stage import ParsingStage, fill_template, read_hints
from karenina_template.templates.bound_template import ANSWER_CLASS, PARSED_ANSWER
from karenina_toolkit.agent_work import AGENT_WORK
from karenina_toolkit.files.workspace_copy import WorkspaceError
from karenina_toolkit.stage_support import fail_without_answer, make_judge_input

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_template.templates import BoundTemplate

logger = logging.getLogger("karenina")

_TURNS, _SECONDS = "agentic_parsing_max_turns", "agentic_parsing_timeout"


class AgenticParseTemplate(ParsingStage):
    """Fills templates in two steps: the judge investigates as an agent, then extracts values from its own report.

    `agentic_judge_context` determines what the agent sees. With `workspace_only`, it sees the files in the workspace
    but not the answer. With `trace_only`, it has no workspace. In that mode, as in plain parsing, all fields are None
    if the answer has no text. The agent works in its own copy of the workspace, which is removed afterwards.

    If the investigation fails, times out or reaches its turn limit, the item ends with PARSE_ERROR, and the trace so
    far is recorded. Deep judgment is not performed.
    """

    name = PARSING_STAGE
    optional = ParsingStage.optional | {Keys.WORKSPACE_PATH, AGENT_WORK}
    produces = ParsingStage.produces | {
        Keys.INVESTIGATION_TRACE,
        Keys.AGENTIC_PARSING_PERFORMED,
        Keys.DEEP_JUDGMENT_PERFORMED,
    }
    settings = AgenticSettings
    prompts = (INVESTIGATION, EXTRACTION)
    usage_key = "agentic_parsing"
    precedence = 20

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage if `agentic_parsing` is true."""
        return True if config.section(AgenticSettings).agentic_parsing else Skip("agentic_parsing is off")

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Return a need for each judge, which must have both an agent port and a parser port. Logs a warning if deep
        judgment is enabled too, because it is not performed.
        """
        if _deep_judgment_is_on(config):
            logger.warning("agentic_parsing takes precedence over deep judgment, which is not performed for templates")
        needed = frozenset({"agent", "parser"})
        return [ModelNeed("judge", model, needed) for model in config.core.parsing_models]

    async def execute(self, context: VerificationContext) -> None:
        """Investigate, extract values from the report, and bind them to the ground truth. If no field needs a judge, or
        the judge would see only a blank response, there is no investigation and all fields are None. If the
        investigation or the extraction fails, the item ends with PARSE_ERROR.
        """
        context.set_artifact(Keys.DEEP_JUDGMENT_PERFORMED, False)
        bound = context.get_artifact(ANSWER_CLASS)
        response = context.get_artifact(Keys.RAW_LLM_RESPONSE)
        shown = self._visible_response(context, bound)
        if context.error is not None:
            return
        only_trace = _settings(context).agentic_judge_context == "trace_only"
        if not bound.judge_fields or (only_trace and not (shown or "").strip()):
            context.set_artifact(PARSED_ANSWER, bound.bind(dict.fromkeys(bound.judge_fields), response))
            context.set_artifact(Keys.INVESTIGATION_TRACE, None)
            context.set_artifact(Keys.AGENTIC_PARSING_PERFORMED, False)
            return
        try:
            investigation = await self._investigate(context, bound, shown)
        except InvestigationFailed as failure:
            context.set_artifact(Keys.INVESTIGATION_TRACE, failure.trace)
            context.mark_error(str(failure), Outcome.PARSE_ERROR)
            return
        except WorkspaceError as error:
            context.mark_error(str(error), Outcome.PARSE_ERROR)
            return
        context.set_artifact(Keys.INVESTIGATION_TRACE, investigation.trace)
        await self._extract(context, bound, investigation.report)

    @staticmethod
    def _visible_response(context: VerificationContext, bound: BoundTemplate) -> str | None:
        """Return the answer as the agent sees it, and record it in the result. It is None if the agent must not see it,
        or if no field needs a judge. If there is no answer to show, and the agent cannot look into the workspace
        instead, `fail_without_answer` is called.
        """
        sees = _settings(context).agentic_judge_context
        if sees == "workspace_only" or not bound.judge_fields:
            context.offer_result_field("used_full_trace", False)
            context.offer_result_field("evaluation_input", None)
            return None
        shown = make_judge_input(context, full_trace=context.config.core.use_full_trace_for_template)
        if shown.error is not None and (sees == "trace_only" or context.answer_is_recorded()):
            fail_without_answer(context, shown.error)
        return shown.text

    @staticmethod
    async def _investigate(context: VerificationContext, bound: BoundTemplate, shown: str | None) -> Investigation:
        """Let the judge investigate, in a copy of the workspace if it may see the workspace, and return its report.
        `shown` is the response that the judge reads. Raises `InvestigationFailed` if there is no report, and
        `WorkspaceError` if there is no workspace to copy.
        """
        settings = _settings(context)
        in_workspace = settings.agentic_judge_context != "trace_only"
        request = investigation_request(
            context.question.question,
            bound.judge_schema(),
            read_hints(context, bound),
            response=shown,
            workspace=in_workspace,
        )
        judge = context.parsing_model
        messages = context.prompt(INVESTIGATION, request, judge)
        options = AgentOptions(
            settings.agentic_parsing_max_turns, settings.agentic_parsing_timeout, timeout_setting=_SECONDS
        )
        if not in_workspace:
            return await investigate(context, judge, messages, options, _TURNS)
        async with judge_copy(context) as folder:
            inside = replace(options, workspace=folder, tools=judge_tools(context, folder))
            return await investigate(context, judge, messages, inside, _TURNS)

    @staticmethod
    async def _extract(context: VerificationContext, bound: BoundTemplate, report: str) -> None:
        """Fill the template from the report, and set the artifacts. If the judge's reply cannot be read, the item ends
        with PARSE_ERROR.
        """
        request = extraction_request(context.question.question, read_hints(context, bound), report)
        try:
            filled = await fill_template(context, bound, EXTRACTION, request, text=report)
        except StructuredError as error:
            context.mark_error(f"the extraction from the report could not be read: {error}", Outcome.PARSE_ERROR)
            return
        context.set_artifact(PARSED_ANSWER, filled.value)
        context.set_artifact(Keys.AGENTIC_PARSING_PERFORMED, True)


def _settings(context: VerificationContext) -> AgenticSettings:
    return cast("AgenticSettings", context.settings)


def _deep_judgment_is_on(config: VerificationConfig) -> bool:
    """Return whether deep judgment of templates is enabled. Without karenina-deep-judgment, it never is."""
    mode = config.setting("deep_judgment_mode") if config.has("deep_judgment_mode") else "disabled"
    enabled = config.setting("deep_judgment_enabled") if config.has("deep_judgment_enabled") else False
    return mode != "disabled" or bool(enabled)
