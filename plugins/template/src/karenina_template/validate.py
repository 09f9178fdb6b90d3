"""ValidateTemplate, slot 1: turns the question's template into the class that judges fill."""

from __future__ import annotations

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Slot, Stage, VerificationContext
from karenina_template.questions import template_of
from karenina_template.templates import TemplateError
from karenina_template.templates.keys import ANSWER_CLASS


class ValidateTemplate(Stage):
    """Reads the template, without executing it unless the user trusted it. A broken one ends the item, not the run."""

    name = "ValidateTemplate"
    slot = Slot.VALIDATE_TEMPLATE
    scope = "answer"
    produces = frozenset({Keys.RAW_ANSWER_CLASS, Keys.ANSWER_CLASS, Keys.TEMPLATE_VALIDATION_ERROR})
    fallback = True
    error_outcome = Outcome.TEMPLATE_ERROR

    def execute(self, context: VerificationContext) -> None:
        """Load, and bind to the question."""
        question = context.question
        try:
            template = template_of(question, context.trust)
        except TemplateError as error:
            self._refuse(context, str(error))
            return
        if template is None:
            self._refuse(
                context,
                f"question {question.id} has no answer template: give it one, or evaluate it with "
                'evaluation_mode = "rubric_only"',
            )
            return
        context.set_artifact(Keys.RAW_ANSWER_CLASS, template.answer_class)
        context.set_artifact(ANSWER_CLASS, template.for_question(question.id))
        context.set_artifact(Keys.TEMPLATE_VALIDATION_ERROR, None)

    @staticmethod
    def _refuse(context: VerificationContext, message: str) -> None:
        context.set_artifact(Keys.TEMPLATE_VALIDATION_ERROR, message)
        context.mark_error(message, Outcome.TEMPLATE_ERROR)
