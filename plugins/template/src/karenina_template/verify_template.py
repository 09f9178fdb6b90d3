"""The stage `VerifyTemplate` for slot 8, which compares the filled template with the ground truth."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, Skip, Stage, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_core.stages.stage import ModelNeed
from karenina_template.question_template import known_values_of, loaded_template, template_of
from karenina_template.templates.bound_template import ANSWER_CLASS, PARSED_ANSWER
from karenina_template.templates.comparison import Comparison
from karenina_template.templates.errors import InvalidAnswer
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.named_files import files_of
from karenina_template.turns import field_turns, read_turns
from karenina_toolkit.conversations import CONVERSATION
from karenina_toolkit.stage_support import skip_if_failed

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_template.templates import BaseAnswer, BoundTemplate, RegexReport

_OTHER_IMPORT = re.compile(
    r"[\n\r;:]\s*(?:from|import)\s+(?!karenina|__future__|typing|datetime|enum|decimal|pydantic)"
)
"""An import from a module that declarations do not usually need."""


class VerifyTemplate(Stage):
    """Runs the template's `verify()`, `verify_granular()` and patterns.

    Fields that have a source are compared with the known values set by other stages.

    Both fields and patterns must pass. If the verdict on the fields depends on an undecided field, both the verdict and
    the granular result are None. The item is then not judged, unless a pattern fails.

    If `verify()` raises an exception, the answer fails with a `field_verification_error` and has no granular result,
    because that could contradict the verdict. If only `verify_granular()` raises an exception, the verdict stays.
    """

    name = "VerifyTemplate"
    requires = frozenset({Keys.ANSWER_CLASS, Keys.PARSED_ANSWER, Keys.RAW_LLM_RESPONSE})
    optional = frozenset({Keys.RECURSION_LIMIT_REACHED, Keys.ABSTENTION_DETECTED, CONVERSATION})
    produces = frozenset(
        {
            Keys.FIELD_VERIFICATION_RESULT,
            Keys.FIELD_RESULTS,
            Keys.FIELD_SCORES,
            Keys.FIELD_VERIFICATION_ERROR,
            Keys.VERIFY_GRANULAR_RESULT,
            Keys.COMPOSITION_STRATEGY,
            Keys.REGEX_VALIDATIONS_PERFORMED,
            Keys.REGEX_VALIDATION_RESULTS,
            Keys.REGEX_VALIDATION_DETAILS,
            Keys.REGEX_OVERALL_SUCCESS,
            Keys.REGEX_EXTRACTION_RESULTS,
        }
    )
    fallback = True

    def known_values(self, config: VerificationConfig, question: Question) -> Collection[str]:
        """Return the names of the known values that fill fields of the question's template."""
        return known_values_of(question)

    def checks_question(self, config: VerificationConfig, question: Question) -> bool:
        """Return whether a question's template may contain something that `before_run` checks: a primitive with a check
        before runs, or a field with a source. If the template is not loaded yet, only its text is searched, because
        loading it is slow. Without text, as for a class, the answer is then True.
        """
        template = loaded_template(question)
        if template is not None:
            return any(rule.source is not None or _has_checks(rule.primitive) for rule in template.key.rules.values())
        from karenina_template.templates import known_primitives

        source = question.answer_template
        if (
            source is None
            or known_values_of(question)
            or any(name in source for name in _names_with_checks(tuple(known_primitives())))
        ):
            return True
        return "import" in source and _OTHER_IMPORT.search(f"\n{source}") is not None

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Raise `ConfigError` if a template's primitive cannot work in this run, if a file that it reads is missing or
        does not fit the ground truth, or if a field's type does not fit its known value. Invalid and untrusted
        templates are ignored here, because their items end in an error. Returns no needs.

        Calls `before_run` and `check_files` of the primitives.
        """
        from karenina_template.templates import TemplateError

        seen: set[str] = set()
        problems: list[str] = []
        for question in questions:
            try:
                template = template_of(question, trust)
            except TemplateError:
                continue
            for name, rule in template.key.rules.items() if template is not None else ():
                misfit = template.why_unfit(name) if template is not None else None
                problems += [f"question {question.id}: {misfit}"] if misfit is not None else []
                try:
                    with files_of(config):
                        rule.primitive.check_files(rule.truth)
                except ValueError as error:
                    problems.append(f"question {question.id}, field {name}: {error}")
                kind = repr(rule.primitive)
                if kind in seen:
                    continue
                seen.add(kind)
                try:
                    rule.primitive.before_run(config)
                except RuntimeError as error:
                    problems.append(f"question {question.id}, field {name}: {error}")
        if problems:
            raise ConfigError(problems)
        return ()

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Skip this stage if the agent reached its turn limit or the model abstained."""
        return skip_if_failed(context, Keys.RECURSION_LIMIT_REACHED, Keys.ABSTENTION_DETECTED)

    def execute(self, context: VerificationContext) -> Awaitable[None] | None:
        """Verify the fields, search for the patterns, and set the artifacts. If the template has slow primitives, this
        is done in a thread, and an awaitable is returned.
        """
        bound = context.get_artifact(ANSWER_CLASS)
        if bound.is_slow:
            return context.in_thread(self._compare, context, bound)
        self._compare(context, bound)
        return None

    def _compare(self, context: VerificationContext, bound: BoundTemplate) -> None:
        """Verify the fields, search the response (in a conversation, the last reply) for the patterns, and set the
        artifacts.
        """
        answer = context.get_artifact(PARSED_ANSWER)
        if bound.sources:
            answer = bound.with_known_values(answer, context.known_values)
        text = context.get_artifact(Keys.RAW_LLM_RESPONSE)
        conversation = context.find_artifact(CONVERSATION)
        if conversation is not None:
            text = conversation.taken[-1].text
            context.set_result_field("field_turns", field_turns(bound, conversation))
            if left_out := read_turns(bound, answer, conversation):
                context.set_result_field("left_out", left_out)
        patterns = answer.verify_regex(text)
        with files_of(context.config):
            self._verify_fields(context, bound, answer, patterns)
        context.set_artifact(Keys.COMPOSITION_STRATEGY, bound.composition)
        context.set_artifact(Keys.REGEX_VALIDATIONS_PERFORMED, patterns.performed)
        context.set_artifact(Keys.REGEX_VALIDATION_RESULTS, patterns.results or None)
        context.set_artifact(Keys.REGEX_VALIDATION_DETAILS, patterns.details or None)
        context.set_artifact(Keys.REGEX_OVERALL_SUCCESS, patterns.overall_success)
        context.set_artifact(Keys.REGEX_EXTRACTION_RESULTS, patterns.extraction_results or None)

    @staticmethod
    def _verify_fields(
        context: VerificationContext, bound: BoundTemplate, answer: BaseAnswer, patterns: RegexReport
    ) -> None:
        """Verify the fields and set their artifacts. If `verify()` raises an exception other than `InvalidAnswer`, a
        warning is logged and the fields fail; one from `verify_granular()` does not affect the verdict. Exceptions from
        the class's own `field_results()` and `field_scores()` propagate.
        """
        comparison = Comparison(answer)
        try:
            passed = comparison.passed()
        except InvalidAnswer:
            raise
        except Exception as error:
            context.log.warning("verify() failed: %s", error)
            context.set_artifact(Keys.FIELD_VERIFICATION_RESULT, False)
            context.set_artifact(Keys.FIELD_VERIFICATION_ERROR, f"{type(error).__name__}: {error}")
            for key in (Keys.FIELD_RESULTS, Keys.FIELD_SCORES, Keys.VERIFY_GRANULAR_RESULT):
                context.set_artifact(key, None)
            return
        decided = passed is not None or patterns.overall_success is False
        granular, failure = None, None if decided else comparison.why_undecided()
        try:
            if decided and bound.is_graded:
                granular = comparison.granular()
        except Exception as error:
            failure = f"verify_granular() raised {type(error).__name__}: {error}"
            context.log.warning("%s; the verdict of verify() is not affected", failure)
        context.set_artifact(Keys.FIELD_VERIFICATION_RESULT, passed)
        context.set_artifact(Keys.FIELD_VERIFICATION_ERROR, failure)
        results = comparison.results()
        context.set_artifact(Keys.FIELD_RESULTS, results or None)
        context.set_artifact(Keys.FIELD_SCORES, comparison.scores() or None)
        context.set_artifact(Keys.VERIFY_GRANULAR_RESULT, granular)
        _explain_look_alikes(context, answer, results)


def _explain_look_alikes(context: VerificationContext, answer: BaseAnswer, results: Mapping[str, bool | None]) -> None:
    """Record in the result field `why` which characters differ if a failed field looks like its ground truth."""
    failed = [name for name, passed in results.items() if passed is False]
    if not failed:
        return
    from karenina_template.templates.look_alikes import describe_look_alikes

    rules = context.get_artifact(ANSWER_CLASS).template.key.rules
    notes = [
        f"{name}: {difference}"
        for name in failed
        if name in rules
        and (difference := describe_look_alikes(getattr(answer, name, None), rules[name].truth)) is not None
    ]
    if notes:
        context.extend_result_field("why", notes)


@cache
def _names_with_checks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return words of which at least one occurs in every source that uses a primitive with a check before runs. `names`
    are the known primitives.
    """
    from karenina_template.templates import known_primitives

    primitives = known_primitives()
    return (*(name for name in names if _has_checks(primitives[name])), "before_run", "check_files")


def _has_checks(primitive: Primitive | type[Primitive]) -> bool:
    """Return whether a primitive has a check before runs."""
    kind = primitive if isinstance(primitive, type) else type(primitive)
    return kind.before_run is not Primitive.before_run or kind.check_files is not Primitive.check_files
