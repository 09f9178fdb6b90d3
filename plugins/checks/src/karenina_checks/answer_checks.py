"""The stages for slots 5 and 6, which detect answers that abstain or do not say enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import BaseModel, Field

from karenina_checks.judge_check import (
    ABSTAINED,
    ABSTENTION_DETECTION,
    ABSTENTION_SCHEMA,
    SUFFICIENCY_DETECTION,
    SUFFICIENCY_SCHEMA,
    SUFFICIENT,
    JudgeCheck,
    abstention_request,
    sufficiency_request,
)
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Skip, VerificationConfig
from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.stages.stage import Detection
from karenina_toolkit.stage_support import skip_if_failed

if TYPE_CHECKING:
    from karenina_core import VerificationContext


class ChecksSettings(BaseModel, defer_build=True):
    """The settings for the checks performed before an answer is parsed."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    abstention_enabled: bool = Field(
        default=False, description="Ask the judge whether the answer abstains. Answers that abstain are not parsed."
    )
    sufficiency_enabled: bool = Field(
        default=False,
        description="Ask the judge whether the answer is sufficient to fill the template. Insufficient answers are "
        "not parsed.",
    )


STOPPED: Final = Detection(True, reasoning="the provider stopped the answer")
_FINDINGS: Final = (
    Keys.RECURSION_LIMIT_REACHED,
    Keys.RESPONSE_REFUSED,
    Keys.TRACE_VALIDATION_FAILED,
    Keys.ABSTENTION_DETECTED,
)
"""The artifacts whose findings cause `SufficiencyCheck` to be skipped."""


class AbstentionCheck(JudgeCheck):
    """Detects answers that abstain. Their outcome is ABSTAINED, and they are not parsed.

    Hedged, partial and approximate answers do not count as abstaining. In two cases, the judge is not asked: responses
    without text do not abstain, and answers that the provider stopped do.
    """

    name = "AbstentionCheck"
    requires = frozenset({Keys.RAW_LLM_RESPONSE})
    optional = frozenset({Keys.RECURSION_LIMIT_REACHED, Keys.RESPONSE_REFUSED})
    prefix = "abstention"
    settings = ChecksSettings
    prompts = (ABSTENTION_DETECTION,)
    usage_key = "abstention_check"
    veto_outcome = Outcome.ABSTAINED
    task = ABSTENTION_DETECTION
    schema = ABSTENTION_SCHEMA
    verdict = ABSTAINED
    without_text = Detection(
        False, reasoning="the judge was not called because the response has no text and therefore refuses nothing"
    )

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage if `abstention_enabled` is true. The stage is available in every evaluation mode."""
        return config.section(ChecksSettings).abstention_enabled or Skip("abstention_enabled is false")

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Skip the check for answers that the turn limit cut off."""
        return skip_if_failed(context, Keys.RECURSION_LIMIT_REACHED)

    async def detect(self, context: VerificationContext) -> Detection:
        """Ask the judge whether the answer abstains. The judge is not called if the provider stopped the answer, which
        counts as abstaining, or if there is no text.
        """
        if context.find_artifact(Keys.RESPONSE_REFUSED):
            return STOPPED
        return await super().detect(context)

    def request(self, context: VerificationContext, response: str) -> str:
        """Return the question and the response. The judge needs the question to recognize evasive answers."""
        return abstention_request(context.question.question, response)

    def veto_reason(self, detection: Detection) -> str:
        """Return the judge's reasoning, or a fixed message if the provider stopped the answer."""
        if detection is STOPPED:
            return str(STOPPED.reasoning)
        return f"the model abstained: {detection.reasoning or 'the judge gave no reason'}"


class SufficiencyCheck(JudgeCheck):
    """Detects answers that do not say enough to fill their template.

    Their outcome is INSUFFICIENT, and they are not parsed. Note that `sufficiency_detected` is True if the answer *is*
    sufficient. Responses without text are insufficient, and the judge is not asked about them. The check is skipped for
    templates that have no fields for a judge.
    """

    name = "SufficiencyCheck"
    requires = frozenset({Keys.RAW_LLM_RESPONSE, Keys.ANSWER_CLASS})
    optional = frozenset(_FINDINGS)
    prefix = "sufficiency"
    settings = ChecksSettings
    prompts = (SUFFICIENCY_DETECTION,)
    usage_key = "sufficiency_check"
    veto_outcome = Outcome.INSUFFICIENT
    task = SUFFICIENCY_DETECTION
    schema = SUFFICIENCY_SCHEMA
    verdict = SUFFICIENT
    without_text = Detection(
        False, reasoning="the judge was not called because the response has no text from which to fill a template"
    )

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage if `sufficiency_enabled` is true. Its slot does not exist in the `rubric_only` mode."""
        return config.section(ChecksSettings).sufficiency_enabled or Skip("sufficiency_enabled is false")

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return True, or a `Skip` if an earlier stage failed the answer or the template needs no judge."""
        not_failed = skip_if_failed(context, *_FINDINGS)
        if not not_failed:
            return not_failed
        if not context.get_artifact(Keys.ANSWER_CLASS).judge_fields:
            return Skip("the template has no fields for a judge")
        return True

    def triggers(self, detected: bool) -> bool:
        """Return whether the judge found the answer insufficient."""
        return not detected

    def request(self, context: VerificationContext, response: str) -> str:
        """Return the question, the schema that the template's judge fills in, and the response."""
        schema = context.get_artifact(Keys.ANSWER_CLASS).judge_schema()
        return sufficiency_request(context.question.question, schema, response)

    def veto_reason(self, detection: Detection) -> str:
        """Return a reason that contains the judge's reasoning."""
        return f"the answer is insufficient: {detection.reasoning or 'the judge gave no reason'}"
