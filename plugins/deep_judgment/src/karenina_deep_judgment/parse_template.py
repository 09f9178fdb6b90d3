"""The stage for slot 7, which requests excerpts, then reasoning, then the filled template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, Skip, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.stages.stage import ServiceNeed
from karenina_deep_judgment.excerpt_extraction import extract_excerpts
from karenina_deep_judgment.prompts import (
    PARAMETERS,
    REASONING,
    TEMPLATE_PROMPTS,
    conclusion,
    reasoning_request,
)
from karenina_deep_judgment.search_tools import (
    assess_risks,
    check_search_tool,
    find_service_needs,
    overall_risk,
    warn_about_unused_search_settings,
)
from karenina_deep_judgment.settings import DeepJudgmentSettings, ExcerptLimits, settings_of
from karenina_template.parsing_stage import ParsingStage, fill_template, parsing_request, read_hints
from karenina_template.templates.shapes.schema import is_reasoning
from karenina_toolkit.structured import ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_template.templates import BaseAnswer, BoundTemplate


@dataclass(slots=True)
class _Progress:
    """The data collected about an item so far. It is recorded even if a later step fails."""

    excerpts: dict[str, list[dict[str, Any]]] | None = None
    missing: list[str] | None = None
    risks: dict[str, str] | None = None
    reasoning: dict[str, str] | None = None
    steps: list[str] = field(default_factory=list)
    calls: int = 0
    retries: int = 0


class DeepJudgmentParseTemplate(ParsingStage):
    """Fills templates in several calls to the judge.

    The judge first quotes excerpts for each attribute, then reasons about the attributes, and finally fills the
    template. It can also assess the hallucination risk of the excerpts. Excerpts are checked against the text that the
    judge saw. Attributes without any are listed in `attributes_without_excerpts`.

    No excerpt can support a value that means "not mentioned". For templates with such values, disable deep judgment, or
    use the mode `reasoning_only`, which needs no excerpts. Fields for reasons (`reasoning`, `..._explanation`) need no
    excerpts either. Deep judgment is not performed if the template needs no judge.
    """

    name = "DeepJudgmentParseTemplate"
    turns = True
    produces = frozenset(
        {
            Keys.PARSED_ANSWER,
            Keys.DEEP_JUDGMENT_PERFORMED,
            Keys.EXTRACTED_EXCERPTS,
            Keys.ATTRIBUTE_REASONING,
            Keys.ATTRIBUTES_WITHOUT_EXCERPTS,
            Keys.DEEP_JUDGMENT_STAGES_COMPLETED,
            Keys.DEEP_JUDGMENT_MODEL_CALLS,
            Keys.DEEP_JUDGMENT_EXCERPT_RETRY_COUNT,
            Keys.HALLUCINATION_RISK_ASSESSMENT,
        }
    )
    settings = DeepJudgmentSettings
    prompts = TEMPLATE_PROMPTS
    precedence = 10

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Return True, or a `Skip` if deep judgment of templates is disabled. Raises `ConfigError` if the search tool
        is unknown.
        """
        if settings_of(config).deep_judgment_mode == "disabled":
            return Skip("deep_judgment_mode is disabled")
        if _uses_search(config):
            check_search_tool(config, "deep_judgment_search_tool")
        return True

    def checks_question(self, config: VerificationConfig, question: Question) -> bool:
        """Return False, because the search tool is the same for all questions."""
        return False

    def before_any_run(self, config: VerificationConfig) -> None:
        """Log a warning about search settings that have no effect."""
        warn_about_unused_search_settings(config)

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ServiceNeed]:
        """If excerpts should be searched for but the search tool is not available, return it as a need."""
        return find_service_needs(config, "deep_judgment_search_tool") if _uses_search(config) else []

    def without_judge(self, context: VerificationContext) -> None:
        """Record that deep judgment was not performed because the template needs no judge."""
        self._record(context, _Progress(), performed=False)

    async def parse(self, context: VerificationContext, bound: BoundTemplate, text: str) -> BaseAnswer:
        """Run all steps on `text`, record their results, and return the filled template. If a step fails, its exception
        is raised after the results of earlier steps are recorded.
        """
        progress = _Progress()
        try:
            answer = await self._run_steps(context, bound, text, progress)
        except Exception:
            self._record(context, progress, performed=False)
            raise
        self._record(context, progress, performed=True)
        return answer

    async def _run_steps(
        self, context: VerificationContext, bound: BoundTemplate, text: str, progress: _Progress
    ) -> BaseAnswer:
        """Run the steps of the mode and return the filled template. Results are stored in `progress`. Raises
        `StructuredError` or `PortError` if the judge fails.
        """
        settings = settings_of(context.config)
        schema = bound.judge_schema()
        items = _describe_attributes(schema, read_hints(context, bound))
        if settings.deep_judgment_mode == "full":
            await self._add_excerpts(context, text, items, settings, progress)
        request = reasoning_request(context.question.question, text, items, progress.excerpts)
        reasons = await ask(context, REASONING, request, _reasons_schema(items), dict)
        progress.calls += reasons.tries
        progress.reasoning = {name: reason for name in items if (reason := reasons.value.get(name))}
        progress.steps.append("reasoning")

        form = parsing_request(context.question.question, schema, read_hints(context, bound), text)
        asked = f"{conclusion(progress.reasoning)}\n\n{form}"
        filled = await fill_template(context, bound, PARAMETERS, asked, text=text)
        progress.calls += filled.tries
        progress.steps.append("parameters")
        return filled.value

    @staticmethod
    async def _add_excerpts(
        context: VerificationContext,
        text: str,
        items: Mapping[str, str],
        settings: DeepJudgmentSettings,
        progress: _Progress,
    ) -> None:
        """Ask the judge for excerpts from the response `text` for each attribute in `items`, which maps names to
        descriptions, and set them in `progress`, with their risks if `deep_judgment_search_enabled` is set. Quotations
        that the response does not contain are recorded as rejected. Raises `StructuredError` or `PortError` if the
        judge fails.
        """
        limits = ExcerptLimits(
            settings.deep_judgment_max_excerpts_per_attribute,
            settings.deep_judgment_fuzzy_match_threshold,
            settings.deep_judgment_excerpt_retry_attempts,
            settings.deep_judgment_exact_facts,
        )
        quoted = await extract_excerpts(context, text, items, limits)
        progress.excerpts, progress.missing = quoted.found, quoted.missing
        progress.calls, progress.retries = quoted.calls, quoted.retries
        progress.steps.append("excerpts")
        if quoted.rejected:
            context.set_result_field("rejected_excerpts", quoted.rejected)
        if settings.deep_judgment_search_enabled:
            progress.calls += await assess_risks(context, settings.deep_judgment_search_tool, quoted.found)
            risks = {name: overall_risk(excerpts) for name, excerpts in quoted.found.items()}
            progress.risks = {name: risk for name, risk in risks.items() if risk is not None}
            progress.steps.append("search")

    @staticmethod
    def _record(context: VerificationContext, progress: _Progress, *, performed: bool) -> None:
        """Set the stage's result fields and artifacts from what is known so far. `performed` is False if a step
        failed.
        """
        settings = settings_of(context.config)
        context.set_result_field("deep_judgment_enabled", True)
        context.set_result_field(
            "deep_judgment_search_enabled",
            settings.deep_judgment_search_enabled and settings.deep_judgment_mode == "full",
        )
        context.set_artifact(Keys.DEEP_JUDGMENT_PERFORMED, performed)
        context.set_artifact(Keys.EXTRACTED_EXCERPTS, progress.excerpts)
        context.set_artifact(Keys.ATTRIBUTES_WITHOUT_EXCERPTS, progress.missing)
        context.set_artifact(Keys.HALLUCINATION_RISK_ASSESSMENT, progress.risks)
        context.set_artifact(Keys.ATTRIBUTE_REASONING, progress.reasoning)
        context.set_artifact(Keys.DEEP_JUDGMENT_STAGES_COMPLETED, progress.steps or None)
        context.set_artifact(Keys.DEEP_JUDGMENT_MODEL_CALLS, progress.calls)
        context.set_artifact(Keys.DEEP_JUDGMENT_EXCERPT_RETRY_COUNT, progress.retries)


def _uses_search(config: VerificationConfig) -> bool:
    """Return whether to search for the excerpts of template attributes."""
    settings = settings_of(config)
    return settings.deep_judgment_mode == "full" and settings.deep_judgment_search_enabled


def _describe_attributes(schema: Mapping[str, Any], hints: Mapping[str, str]) -> dict[str, str]:
    """Return descriptions of the fields that the judge should reason about, including hints. Fields for reasons are
    omitted, unless the template has no other fields.
    """
    fields: Mapping[str, Mapping[str, Any]] = schema["properties"]
    values = {name: part for name, part in fields.items() if not is_reasoning(name)} or fields
    return {
        name: " ".join(filter(None, [str(part.get("description", "")), hints.get(name) and f"Hint: {hints[name]}"]))
        for name, part in values.items()
    }


def _reasons_schema(items: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON Schema for one string per item, of at most 2000 characters."""
    return object_schema({name: {"type": "string", "maxLength": 2000} for name in items})
