"""`ParseTemplate`, the stage of slot 7: a judge fills the template from the answer, without seeing the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core import VerificationContext
from karenina_core.models.prompts import PromptTask
from karenina_template.parsing_stage import EXTRACTION, ParsingStage, fill_template, parsing_request, read_hints
from karenina_template.rejected_values import LISTING, lists_rejected, with_rejected
from karenina_template.settings import TemplateSettings

if TYPE_CHECKING:
    from karenina_template.templates import BaseAnswer, BoundTemplate

PARSING: Final = PromptTask("parsing", EXTRACTION)


class ParseTemplate(ParsingStage):
    """Fills the template with one judge call, which gets the question, the answer and the template's JSON schema."""

    name = "ParseTemplate"
    settings = TemplateSettings
    prompts = (PARSING, LISTING)
    fallback = True

    async def parse(self, context: VerificationContext, bound: BoundTemplate, text: str) -> BaseAnswer:
        """Call the judge, and once more if its reply is invalid."""
        hints = read_hints(context, bound)
        schema = bound.judge_schema()
        if lists_rejected(context):
            name, schema = with_rejected(schema)
            request = parsing_request(context.question.question, schema, hints, text)
            return (await fill_template(context, bound, LISTING, request, schema, record={"rejected": name})).value
        request = parsing_request(context.question.question, schema, hints, text)
        return (await fill_template(context, bound, PARSING, request, schema)).value
