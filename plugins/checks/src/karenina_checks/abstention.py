"""AbstentionCheck, slot 5: does the answer refuse, evade or deflect?"""

from __future__ import annotations

from typing import Final

from karenina_checks.judge_check import JudgeCheck
from karenina_checks.prompts import ABSTAINED, ABSTENTION_DETECTION, ABSTENTION_SCHEMA, abstention_request
from karenina_checks.settings import ChecksSettings
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Skip, Slot, VerificationConfig, VerificationContext
from karenina_core.stages.stage import Detection
from karenina_toolkit.skipping import skip_if_failed

STOPPED: Final = Detection(True, reasoning="the provider stopped the answer")


class AbstentionCheck(JudgeCheck):
    """Fails answers that are none, in outcome ABSTAINED, and spares them the parsing.

    Hedged, partial and approximate answers are answers. A response without any text is no refusal, since nobody
    refused anything: no judge is asked, and whatever parses it finds nothing in it. An answer that the provider stopped
    is an abstention without asking one.
    """

    name = "AbstentionCheck"
    slot = Slot.ABSTENTION_CHECK
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
    without_text = Detection(False, reasoning="no judge was asked: the response has no text, so nothing is refused")

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Only where the configuration asks for it, in every evaluation mode."""
        return config.section(ChecksSettings).abstention_enabled or Skip("abstention_enabled is false")

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Skips answers that the turn limit broke off."""
        return skip_if_failed(context, Keys.RECURSION_LIMIT_REACHED)

    async def detect(self, context: VerificationContext) -> Detection:
        """Ask the judge, unless the provider has stopped the answer or there is nothing to read."""
        if context.find_artifact(Keys.RESPONSE_REFUSED):
            return STOPPED
        return await super().detect(context)

    def request(self, context: VerificationContext, response: str) -> str:
        """The question, without which no evasion could be told, and the response."""
        return abstention_request(context.question.question, response)

    def veto_reason(self, detection: Detection) -> str:
        """Return the provider's part, or the judge's reasoning."""
        if detection is STOPPED:
            return str(STOPPED.reasoning)
        return f"the model abstained: {detection.reasoning or 'the judge gave no reason'}"
