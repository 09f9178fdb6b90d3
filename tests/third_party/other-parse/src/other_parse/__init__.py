"""A second parse stage: it fills every field with the last word of the answer, without a judge."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import ArtifactKeys, Slot, Stage, VerificationContext, hookimpl


class OtherParse(Stage):
    """Takes the last word."""

    name = "OtherParse"
    slot = Slot.PARSE_TEMPLATE
    requires = frozenset({ArtifactKeys.ANSWER_CLASS, ArtifactKeys.RAW_LLM_RESPONSE})
    produces = frozenset({ArtifactKeys.PARSED_ANSWER})

    def execute(self, context: VerificationContext) -> None:
        """Without the full stop."""
        bound = context.get_artifact(ArtifactKeys.ANSWER_CLASS)
        response = context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)
        last = response.split()[-1].rstrip(".")
        context.set_artifact(ArtifactKeys.PARSED_ANSWER, bound.bind(dict.fromkeys(bound.judge_fields, last), response))


class plugin:
    """Offers the stage."""

    @staticmethod
    @hookimpl
    def karenina_parse_template() -> Sequence[type[Stage]]:
        """Slot 7."""
        return [OtherParse]
