"""A third-party stage: it counts the words of the answer before the answer is parsed."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import ArtifactKey, ArtifactKeys, Slot, Stage, VerificationContext, hookimpl

WORDS = ArtifactKey("my_package.words", int)


class WordCount(Stage):
    """Counts the words."""

    name = "WordCount"
    slot = None
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    produces = frozenset({WORDS})
    before = frozenset({Slot.PARSE_TEMPLATE})

    def execute(self, context: VerificationContext) -> None:
        """Split at white space."""
        words = len(context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE).split())
        context.set_artifact(WORDS, words)
        context.set_result_field("words", words)


class plugin:
    """Offers the stage."""

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        """Without a slot."""
        return [WordCount]
