"""The stage `ValidateTemplate` for slot 1, which loads the question's template."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Skip, Stage
from karenina_core.stages.stage import ModelNeed
from karenina_core.text import join_problems
from karenina_template.question_template import template_of
from karenina_template.templates import TemplateError, UntrustedTemplate
from karenina_template.templates.bound_template import ANSWER_CLASS
from karenina_template.templates.errors import TRUST_CURE

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_template.templates import BoundTemplate

logger = logging.getLogger("karenina")


class ValidateTemplate(Stage):
    """Loads the question's template. If the template contains code, it is only executed if it is trusted.

    If the template is invalid, its items end with TEMPLATE_ERROR, and the run continues. Questions with traits but no
    template are skipped, because only their traits are scored.
    """

    name = "ValidateTemplate"
    scope = "answer"
    produces = frozenset({Keys.RAW_ANSWER_CLASS, Keys.ANSWER_CLASS, Keys.TEMPLATE_VALIDATION_ERROR})
    fallback = True
    error_outcome = Outcome.TEMPLATE_ERROR

    def checks_question(self, config: VerificationConfig, question: Question) -> bool:
        """Return whether the template may contain code. If so, its errors can only be found by running it."""
        return question.answer_class is not None or "def " in (question.answer_template or "")

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Log warnings about templates that are untrusted, invalid, or fail for every answer, and about hidden
        constraints. Returns no needs.
        """
        failing: list[str] = []
        unverified: list[str] = []
        untrusted: list[str] = []
        unshown: list[str] = []
        for question in questions:
            try:
                bound = _bind_template(question, trust)
                if bound is not None:
                    hidden = bound.template.shape.unshown.items()
                    unshown += [f"{question.id!r}, {name} ({', '.join(constraints)})" for name, constraints in hidden]
                reason = _check_code(bound)
                if reason is not None:
                    unverified.append(f"{question.id!r} ({reason})")
            except UntrustedTemplate as error:
                untrusted.append(f"{error.at(template=question.id).place} ({error.code})")
            except TemplateError as error:
                failing.append(f"{question.id!r} ({error})")
        if unshown:
            logger.warning(
                "constraints of the following fields can reveal the ground truth, so they are neither shown "
                "to the judge nor applied to its values: %s. Run `karenina check` to see how to show them",
                join_problems(unshown),
            )
        if untrusted:
            logger.warning(
                "the templates of the following questions contain code that is not trusted and will not be "
                "run, so their items end with template_error before any call: %s. %s",
                join_problems(untrusted),
                TRUST_CURE,
            )
        if failing:
            logger.warning(
                "the templates of the following questions are invalid, so their items end with "
                "template_error before any call: %s",
                join_problems(failing),
            )
        if unverified:
            logger.warning(
                "the templates of the following questions cannot verify any answer, so their items end with "
                "a field_verification_error: %s",
                join_problems(unverified),
            )
        return ()

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return a `Skip` for a question that has traits but no template, if the run also scores traits, and True
        otherwise.
        """
        question, mode = context.question, context.config.core.evaluation_mode
        if not question.has_template and mode == "template_and_rubric" and question.trait_names():
            return Skip("the question has traits but no template")
        return True

    def execute(self, context: VerificationContext) -> None:
        """Load the template, bind it to the question, and test its code with samples. The item ends with TEMPLATE_ERROR
        if there is no template, or if the template is invalid or not trusted, but not if only its `verify()` raises an
        error for each sample, which counts when the answer is verified.
        """
        question = context.question
        try:
            bound = _bind_template(question, context.trust)
            _check_code(bound)
        except TemplateError as error:
            self._refuse(context, str(error))
            return
        if bound is None:
            self._refuse(
                context,
                f"question {question.id} has no answer template; add one, or evaluate the question with "
                'evaluation_mode = "rubric_only"',
            )
            return
        context.set_artifact(Keys.RAW_ANSWER_CLASS, bound.answer_class)
        context.set_artifact(ANSWER_CLASS, bound)
        context.set_artifact(Keys.TEMPLATE_VALIDATION_ERROR, None)

    @staticmethod
    def _refuse(context: VerificationContext, message: str) -> None:
        context.set_artifact(Keys.TEMPLATE_VALIDATION_ERROR, message)
        context.mark_error(message, Outcome.TEMPLATE_ERROR)


def _bind_template(question: Question, trust: Trust) -> BoundTemplate | None:
    """Load and bind the question's template, or return None if it has none. Raises `TemplateError` if the template is
    invalid or not trusted.
    """
    template = template_of(question, trust)
    return None if template is None else template.for_question(question.id)


def _check_code(bound: BoundTemplate | None) -> str | None:
    """Return the reason if `verify()` fails for every answer, or None. Only templates with code are checked. Raises
    `TemplateError` if no answer can be created, or if `verify()` never returns a verdict.
    """
    if bound is None or not bound.template.has_code:
        return None
    from karenina_template.templates.sample_check import check_samples

    return check_samples(bound)
