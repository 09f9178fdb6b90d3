"""AbstentionCheck, slot 5: detects answers that refuse, evade or deflect."""

from __future__ import annotations

from typing import Final

from karenina_checks.judge_check import (
    ABSTAINED,
    ABSTENTION_DETECTION,
    ABSTENTION_SCHEMA,
    JudgeCheck,
    abstention_request,
)
from karenina_checks.settings import ChecksSettings
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Skip, VerificationConfig, VerificationContext
from karenina_core.stages.stage import Detection
from karenina_toolkit.stage_support import skip_if_failed

STOPPED: Final = Detection(True, reasoning="the provider stopped the answer")


class AbstentionCheck(JudgeCheck):
    """A check that gives abstaining answers the outcome ABSTAINED; they are not parsed.

    Hedged, partial and approximate answers do not abstain. A response without text does not refuse anything: it is
    not sent to the judge, and the check is negative. An answer that the provider stopped counts as an abstention,
    without a call to the judge.
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
    without_text = Detection(False, reasoning="no call to the judge: the response has no text, so it refuses nothing")

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage if `abstention_enabled` is true, in every evaluation mode."""
        return config.section(ChecksSettings).abstention_enabled or Skip("abstention_enabled is false")

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Skip answers that the turn limit cut off."""
        return skip_if_failed(context, Keys.RECURSION_LIMIT_REACHED)

    async def detect(self, context: VerificationContext) -> Detection:
        """Return the judge's verdict; skip the call if the provider stopped the answer or the answer has no text."""
        if context.find_artifact(Keys.RESPONSE_REFUSED):
            return STOPPED
        return await super().detect(context)

    def request(self, context: VerificationContext, response: str) -> str:
        """Return the response, with the question, without which the judge could not recognize an evasion."""
        return abstention_request(context.question.question, response)

    def veto_reason(self, detection: Detection) -> str:
        """Return the judge's reasoning, or a fixed text if the provider stopped the answer."""
        if detection is STOPPED:
            return str(STOPPED.reasoning)
        return f"the model abstained: {detection.reasoning or 'the judge gave no reason'}"
