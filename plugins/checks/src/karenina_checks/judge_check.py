"""`JudgeCheck`: the base of checks that a judge decides with one yes or no. Third parties can build on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from karenina_core import ArtifactKeys as Keys
from karenina_core import CheckStage, VerificationContext
from karenina_core.models.prompts import PromptTask
from karenina_core.stages.stage import Detection
from karenina_toolkit.structured import InvalidReply, ask


class JudgeCheck(CheckStage):
    """One judge call about the raw response, which ends in reasoning and a verdict.

    A subclass declares what every stage does (RAW_LLM_RESPONSE among `requires`), and:

    - `task`: what the judge is told (list it in `prompts` too, so that it can be shown without asking);
    - `schema`, `verdict`: the JSON Schema of the reply, and the key in it that holds the boolean verdict; make the
      schema with `karenina_checks.prompts.verdict_schema`, so that the reasoning comes first;
    - `request`: the item's part of the prompt, with the response in `karenina_core.models.prompts.fence`;
    - `without_text`: what is found where the response has no text, which is not worth a call.

    A judge that cannot be reached, or that gives no verdict in two tries (null is none), leaves the check not
    performed, with a warning; the item goes on as if the check had not been asked for.
    """

    task: ClassVar[PromptTask]
    schema: ClassVar[Mapping[str, Any]]
    verdict: ClassVar[str]
    without_text: ClassVar[Detection]

    def request(self, context: VerificationContext, response: str) -> str:
        """The item's part of the prompt."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it asks: define request()")

    async def detect(self, context: VerificationContext) -> Detection:
        """Ask the judge, unless there is nothing to read."""
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
