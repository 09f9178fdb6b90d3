"""A parse stage that needs no judge: it fills every field with the last word of the answer.

The configuration selects it in place of the usual one: `slots = {parse_template = "LastWordParse"}`.
"""

from __future__ import annotations

from karenina_core import ArtifactKeys, Stage, VerificationContext, hookimpl


class LastWordParse(Stage):
    """Fills the template with the last word of the answer, without its full stop."""

    name = "LastWordParse"
    requires = {ArtifactKeys.ANSWER_CLASS, ArtifactKeys.RAW_LLM_RESPONSE}
    produces = {ArtifactKeys.PARSED_ANSWER}

    def execute(self, context: VerificationContext) -> None:
        """Fill the template. An answer without a word leaves the fields empty, so that they fail."""
        template = context.get_artifact(ArtifactKeys.ANSWER_CLASS)
        response = context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)
        words = response.split()
        value = words[-1].rstrip(".") if words else None
        filled = template.bind(dict.fromkeys(template.judge_fields, value), response)
        context.set_artifact(ArtifactKeys.PARSED_ANSWER, filled)


@hookimpl
def karenina_parse_template() -> list[type[Stage]]:
    """Provide the stage for slot 7. Installing it changes no plan."""
    return [LastWordParse]
