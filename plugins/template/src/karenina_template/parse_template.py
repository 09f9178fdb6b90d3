"""`ParseTemplate`, the stage of slot 7: a judge fills the template from the answer, without seeing the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core import ArtifactKeys as Keys
from karenina_core import VerificationContext
from karenina_core.models.prompts import PromptTask
from karenina_template.listed_values import LISTED
from karenina_template.masked_values import MASKED
from karenina_template.parsing_stage import EXTRACTION, ParsingStage, fill_template, parsing_request, read_hints
from karenina_template.rejected_values import LISTING, checks_values, lists_rejected, with_rejected
from karenina_template.second_look import choose_numbers, field_to_check, look_again
from karenina_template.settings import TemplateSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_template.templates import BaseAnswer, BoundTemplate

PARSING: Final = PromptTask("parsing", EXTRACTION)


class ParseTemplate(ParsingStage):
    """Fills the template with one judge call, which gets the question, the answer and the template's JSON schema."""

    name = "ParseTemplate"
    settings = TemplateSettings
    prompts = (PARSING, LISTING, LISTED, MASKED)
    fallback = True

    async def parse(self, context: VerificationContext, bound: BoundTemplate, text: str) -> BaseAnswer:
        """Call the judge, and once more if its reply is invalid; a small judge checks its value."""
        form = schema = bound.judge_schema()
        task, name = PARSING, ""
        if lists_rejected(context):
            task, (name, form) = LISTING, with_rejected(schema)
        request = parsing_request(context.question.question, form, read_hints(context, bound), text)
        record = {"rejected": name} if name else {}
        found = await fill_template(context, bound, task, request, form, record=record)
        if not checks_values(context):
            return found.value
        field = field_to_check(schema)
        if field is None:
            checked: Mapping[str, object] = await choose_numbers(context, task, request, form, found.data, text)
        elif isinstance(value := found.data[field], str):
            checked = {field: await look_again(context, text, value, found.data.get(name, ()))}
        else:
            checked = {}
        replaced = {key: found.data[key] for key, value in checked.items() if value != found.data[key]}
        if not replaced:
            return found.value
        try:
            answer = bound.bind({**found.data, **checked}, context.get_artifact(Keys.RAW_LLM_RESPONSE))
        except ValueError as error:
            context.extend_result_field("parsing", {"not_checked": f"the template refuses the new value: {error}"})
            return found.value
        context.extend_result_field("parsing", {"replaced": replaced})
        return answer
