"""A stage that counts the words of the answer before the answer is parsed, and offers their number to templates.

A template compares it without a judge: `words: {from: word_count.words, ground_truth: 50}`.
"""

from __future__ import annotations

from karenina_core import ArtifactKey, ArtifactKeys, Slot, Stage, VerificationContext, hookimpl

WORDS = ArtifactKey("word_count.words", int)


class WordCount(Stage):
    """Counts the words, separated by white space."""

    name = "WordCount"
    requires = {ArtifactKeys.RAW_LLM_RESPONSE}
    produces = {WORDS}
    offers = {"word_count.words": int}
    before = {Slot.PARSE_TEMPLATE}

    def execute(self, context: VerificationContext) -> None:
        """Set the artifact for other stages, the known value for templates, and a field of the result."""
        words = len(context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE).split())
        context.set_artifact(WORDS, words)
        context.offer_value("word_count.words", words)
        context.set_result_field("words", words)  # result.extensions["word-count"]["words"]


@hookimpl
def karenina_extra_stages() -> list[type[Stage]]:
    """Provide the stage, which has no slot: its place follows from what it declares."""
    return [WordCount]
