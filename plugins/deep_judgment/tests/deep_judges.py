"""A judge for these tests: what it says at each step of deep judgment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from karenina_core.models.ports import CallInfo, Message
from karenina_deep_judgment import prompts
from karenina_testing import ScriptedModels

STEPS = {
    prompts.EXCERPTS.instructions: "excerpts",
    prompts.RISK.instructions: "risk",
    prompts.REASONING.instructions: "reasoning",
    prompts.PARAMETERS.instructions: "parameters",
    prompts.TRAIT_REASONING.instructions: "trait_reasoning",
    prompts.TRAIT_SCORE.instructions: "trait_score",
}
Saying = Mapping[str, Any] | str | Callable[[str], Any]


def step_of(messages: Sequence[Message]) -> str:
    """Which step a request belongs to."""
    return next(step for words, step in STEPS.items() if messages[0].content.startswith(words))


class Judge:
    """Says at each step what the test gives: a reply, a list of replies one after the other, or a function of the
    request."""

    def __init__(self, **says: Any) -> None:
        self._says = says
        self.models = ScriptedModels(fill=self._fill)

    def _fill(self, messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Mapping[str, Any] | str:
        said = self._says[step_of(messages)]
        if isinstance(said, list):
            said = said.pop(0) if len(said) > 1 else said[0]
        if callable(said):
            said = said(messages[1].content)
        if isinstance(said, Exception):
            raise said
        found: Mapping[str, Any] | str = said
        return found

    @property
    def steps(self) -> list[str]:
        """The steps that were asked for, in order."""
        return [step_of(request.messages) for request in self.models.requests]

    def asked(self, step: str, at: int = 0) -> str:
        """Return the system and user message of the judge at a step."""
        found = [request for request in self.models.requests if step_of(request.messages) == step]
        return "\n\n".join(message.content for message in found[at].messages)


def quotes(**found: Sequence[str]) -> dict[str, Any]:
    """A reply with these excerpts."""
    return {name: [{"text": text, "confidence": "high"} for text in texts] for name, texts in found.items()}
