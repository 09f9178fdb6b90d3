"""`JudgeCheck`: the base class of checks that a judge decides with yes or no. Third parties can extend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from karenina_core import ArtifactKeys as Keys
from karenina_core import CheckStage, VerificationContext
from karenina_core.models.prompts import PromptTask
from karenina_core.stages.stage import Detection
from karenina_toolkit.structured import InvalidReply, ask


class JudgeCheck(CheckStage):
    """A check of the raw response by one call to the judge, which returns reasoning and a verdict.

    A subclass declares what every stage does (RAW_LLM_RESPONSE among `requires`), and:

    - `task`: the instructions of the judge (list them in `prompts` too, so that they can be shown without a call);
    - `schema`, `verdict`: the JSON Schema of the reply, and the key in it that holds the boolean verdict; make the
      schema with `karenina_checks.prompts.verdict_schema`, so that the reasoning comes first;
    - `request()`: the item's part of the prompt, with the response in `karenina_core.models.prompts.fence`;
    - `without_text`: the detection for a response without text, which is not sent to the judge.

    If the judge cannot be reached, or gives no verdict in two attempts (null is not a verdict), the check is not
    performed, with a warning, and the item continues as if the check were off.
    """

    task: ClassVar[PromptTask]
    schema: ClassVar[Mapping[str, Any]]
    verdict: ClassVar[str]
    without_text: ClassVar[Detection]

    def request(self, context: VerificationContext, response: str) -> str:
        """Return the item's part of the prompt."""
        raise NotImplementedError(f"{type(self).__name__} has no prompt: define request()")

    async def detect(self, context: VerificationContext) -> Detection:
        """Ask the judge, unless the response has no text."""
        response = context.get_artifact(Keys.RAW_LLM_RESPONSE)
        if not response.strip():
            return self.without_text
        found = await ask(context, self.task, self.request(context, response), self.schema, self._read)
        return found.value

    def _read(self, data: Mapping[str, Any]) -> Detection:
        verdict = data[self.verdict]
        if not isinstance(verdict, bool):
            raise InvalidReply(f'the key "{self.verdict}" must be true or false')
        return Detection(verdict, reasoning=data["reasoning"])
