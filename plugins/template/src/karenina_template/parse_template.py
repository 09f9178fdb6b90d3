"""`ParseTemplate`, the stage for slot 7, in which a judge fills the template without seeing the truth; its settings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import BaseModel, Field

from karenina_core import ArtifactKeys as Keys
from karenina_core import VerificationContext
from karenina_core.models.prompts import PromptTask
from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.plugins import active_plugins
from karenina_template.parsing_stage import EXTRACTION, ParsingStage, fill_template, parsing_request, read_hints
from karenina_template.second_look.checked_values import (
    LISTED,
    choose_numbers,
    field_to_check,
    has_second_look,
    look_again,
)
from karenina_template.second_look.copied_dates import check_years
from karenina_template.second_look.masked_values import MASKED
from karenina_template.second_look.rejected_values import (
    LISTING,
    checks_values,
    is_small_judge,
    lists_rejected,
    with_rejected,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.stages.stage import Need
    from karenina_template.templates import BaseAnswer, BoundTemplate


logger = logging.getLogger("karenina")

PARSING: Final = PromptTask("parsing", EXTRACTION)


class TemplateSettings(BaseModel):
    """Settings of template parsing."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    include_extraction_hints: bool = Field(default=True, description="Show the judge the templates' extraction hints.")
    list_rejected: bool | None = Field(
        default=None,
        description="Have the judge list the values that the response rejects before it fills the template. By "
        "default, only judges that an adapter declares as small do so.",
    )
    check_values: bool | None = Field(
        default=None,
        description="Have the judge check its values a second time. In templates with a single text field, it chooses "
        "among the response's values, masked by letters; in others, it reads numbers again that it seems to have "
        "misread (in words or another unit), and dates whose year is not in the response. By default, only judges that "
        "an adapter declares as small do so.",
    )


class ParseTemplate(ParsingStage):
    """The stage that fills the template in one call to the judge, with the question, the answer and the fields.

    A small judge also lists rejected values and checks its values a second time (see `TemplateSettings`).
    """

    name = "ParseTemplate"
    settings = TemplateSettings
    prompts = (PARSING, LISTING, LISTED, MASKED)
    fallback = True

    def before_run(self, config: VerificationConfig, questions: Sequence[Question], trust: Trust) -> Iterable[Need]:
        """Warn about boolean fields for small judges, and about templates on which `check_values` has no effect."""
        _warn_of_booleans(config, questions, trust)
        if config.section(TemplateSettings).check_values:
            judged = [question for question in questions if self.needs_judge(config, question, trust)]
            without = sum(not _has_second_look(question, trust) for question in judged)
            if without:
                logger.warning(
                    "check_values is true, but has no effect on %d of %d templates: only single text fields, number "
                    "fields and date fields are checked a second time",
                    without,
                    len(judged),
                )
        return super().before_run(config, questions, trust)

    async def parse(self, context: VerificationContext, bound: BoundTemplate, text: str) -> BaseAnswer:
        """Return the template, filled by one or more calls.

        The judge is called again if its reply is invalid and, with `check_values`, to check its values. A checked value
        that the template refuses is dropped; the result field `parsing` says so.
        """
        form = schema = bound.judge_schema()
        task, name = PARSING, ""
        if lists_rejected(context):
            task, (name, form) = LISTING, with_rejected(schema)
        request = parsing_request(context.question.question, form, read_hints(context, bound), text)
        record = {"rejected": name} if name else {}
        looks_again = checks_values(context)
        check = check_years if looks_again else None
        found = await fill_template(context, bound, task, request, form, record=record, check=check, text=text)
        if not looks_again:
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


def _warn_of_booleans(config: VerificationConfig, questions: Sequence[Question], trust: Trust) -> None:
    plugins = active_plugins()
    small = [model.id or model.model_name for model in config.core.parsing_models if is_small_judge(model, plugins)]
    if not small:
        return
    asking = [question.id for question in questions if any(map(_is_boolean, _parts(question, trust)))]
    if asking:
        logger.warning(
            "%d of %d templates have a yes-or-no field, such as that of %s: a small judge (%s) may leave it "
            "empty, especially if the answer is no, so that right answers count as wrong; use a larger judge (-j)",
            len(asking),
            len(questions),
            asking[0],
            ", ".join(small),
        )


def _is_boolean(part: Mapping[str, Any]) -> bool:
    return any(one.get("type") == "boolean" for one in part.get("anyOf", [part]))


def _parts(question: Question, trust: Trust) -> Iterable[Mapping[str, Any]]:
    """Return the field schemas that the judge of a question's template gets; none without a valid template."""
    from karenina_template.question_template import template_of
    from karenina_template.templates import TemplateError

    try:
        template = template_of(question, trust)
    except TemplateError:
        return []
    return [] if template is None else template.for_question(question.id).judge_schema()["properties"].values()


def _has_second_look(question: Question, trust: Trust) -> bool:
    from karenina_template.question_template import template_of

    template = template_of(question, trust)
    return template is not None and has_second_look(template.for_question(question.id).judge_schema())
