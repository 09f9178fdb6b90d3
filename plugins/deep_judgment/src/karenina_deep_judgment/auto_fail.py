"""The stages for slots 10 and 12, which fail values and scores that no excerpt supports."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from karenina_core import ArtifactKeys as Keys
from karenina_core import AutoFailStage, Question, Skip, Slot, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.errors import MissingArtifact
from karenina_core.stages.stage import ServiceNeed
from karenina_core.text import did_you_mean
from karenina_deep_judgment.prompts import TRAIT_PROMPTS
from karenina_deep_judgment.search_tools import check_search_tool, find_service_needs
from karenina_deep_judgment.settings import DeepJudgmentSettings, TraitFields, check_traits, needs_search, settings_of
from karenina_deep_judgment.trait_evaluator import SCORED

if TYPE_CHECKING:
    from karenina_core import VerificationContext

logger = logging.getLogger("karenina")


class DeepJudgmentAutoFail(AutoFailStage):
    """Fails an answer if an attribute has no excerpts, unless the model abstained.

    This stage runs after the embedding check, which could otherwise undo the failure.
    """

    name = "DeepJudgmentAutoFail"
    optional = frozenset(
        {
            Keys.DEEP_JUDGMENT_PERFORMED,
            Keys.ATTRIBUTES_WITHOUT_EXCERPTS,
            Keys.DEEP_JUDGMENT_EXCERPT_RETRY_COUNT,
            Keys.ABSTENTION_DETECTED,
        }
    )
    revises = frozenset({Keys.FIELD_VERIFICATION_RESULT})
    after = frozenset({Slot.EMBEDDING_CHECK})
    settings = DeepJudgmentSettings

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage if deep judgment of templates is enabled."""
        return settings_of(config).deep_judgment_mode != "disabled" or Skip("deep_judgment_mode is disabled")

    def skip_because(self, context: VerificationContext) -> str | None:
        """Return the reason for skipping the stage, or None if it should run. It is skipped if deep judgment was not
        performed or requested no excerpts, if every attribute has excerpts, if the fields are undecided, or if the
        model abstained.
        """
        if not context.find_artifact(Keys.DEEP_JUDGMENT_PERFORMED):
            return "deep judgment was not performed"
        if context.find_artifact(Keys.ATTRIBUTES_WITHOUT_EXCERPTS) is None:
            return "no excerpts were requested"
        if not context.find_artifact(Keys.ATTRIBUTES_WITHOUT_EXCERPTS):
            return "every attribute has an excerpt"
        if _fields_are_undecided(context):
            return "the fields are undecided"
        return "the model abstained" if context.find_artifact(Keys.ABSTENTION_DETECTED) else None

    def reason(self, context: VerificationContext) -> str | None:
        """Return a reason that names the attributes without excerpts and the number of retries."""
        missing = context.find_artifact(Keys.ATTRIBUTES_WITHOUT_EXCERPTS) or []
        retries = context.find_artifact(Keys.DEEP_JUDGMENT_EXCERPT_RETRY_COUNT) or 0
        return f"nothing in the response supports {', '.join(missing)} (retries: {retries})"

    def on_fail(self, context: VerificationContext) -> None:
        """Set the field result to False if it is True."""
        if context.find_artifact(Keys.FIELD_VERIFICATION_RESULT):
            context.revise_artifact(Keys.FIELD_VERIFICATION_RESULT, False, "some attributes have no excerpts")


def _fields_are_undecided(context: VerificationContext) -> bool:
    """Return whether the fields were compared without reaching a decision."""
    try:
        return context.get_artifact(Keys.FIELD_VERIFICATION_RESULT) is None
    except MissingArtifact:  # nothing was compared
        return False


class DeepJudgmentRubricAutoFail(AutoFailStage):
    """Fails an answer if a rubric trait has no excerpts, unless the model abstained."""

    name = "DeepJudgmentRubricAutoFail"
    optional = frozenset(
        {
            Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED,
            Keys.TRAITS_WITHOUT_VALID_EXCERPTS,
            Keys.TRAIT_METADATA,
            Keys.ABSTENTION_DETECTED,
        }
    )
    settings = DeepJudgmentSettings
    trait_settings = TraitFields
    prompts = TRAIT_PROMPTS

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Return True, or a `Skip` if deep judgment of rubrics is disabled. Raises `ConfigError` if the search tool is
        unknown, or if a trait's settings are invalid or not supported.
        """
        if settings_of(config).deep_judgment_rubric_mode == "disabled":
            return Skip("deep_judgment_rubric_mode is disabled")
        check_traits(config, question)
        if needs_search(config, question):
            check_search_tool(config, "deep_judgment_rubric_search_tool")
        return True

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ServiceNeed]:
        """Return the search tool as a need if a trait uses it but it is not available. Logs a warning about traits and
        questions in `deep_judgment_rubric_config` that are not in this run.
        """
        _warn_about_unknown_names(config, questions)
        if any(needs_search(config, question) for question in questions):
            return find_service_needs(config, "deep_judgment_rubric_search_tool")
        return ()

    def skip_because(self, context: VerificationContext) -> str | None:
        """Return the reason for skipping the stage, or None if it should run. It is skipped if deep judgment was not
        performed, if all scored traits have excerpts, or if the model abstained.
        """
        if not context.find_artifact(Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED):
            return "deep judgment of traits was not performed"
        if not context.find_artifact(Keys.TRAITS_WITHOUT_VALID_EXCERPTS):
            return _all_supported(context.find_artifact(Keys.TRAIT_METADATA))
        return "the model abstained" if context.find_artifact(Keys.ABSTENTION_DETECTED) else None

    def reason(self, context: VerificationContext) -> str | None:
        """Return a reason that names the traits without excerpts, each with its number of retries."""
        metadata = context.find_artifact(Keys.TRAIT_METADATA) or {}
        missing = [
            f"{name} (retries: {metadata.get(name, {}).get('excerpt_retry_count', 0)})"
            for name in context.find_artifact(Keys.TRAITS_WITHOUT_VALID_EXCERPTS) or []
        ]
        return f"nothing in the response supports the score of {', '.join(missing)}"


def _all_supported(metadata: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Explain why no score lacks excerpts. Either all traits have excerpts, or some could not be scored."""
    unscored = [
        name for name, facts in (metadata or {}).items() if SCORED not in facts.get("stages_completed", (SCORED,))
    ]
    if not unscored:
        return "every trait has excerpts"
    if len(unscored) == len(metadata or {}):
        return "no trait could be scored"
    return f"every trait that was scored has excerpts; not scored: {', '.join(unscored)}"


def _warn_about_unknown_names(config: VerificationConfig, questions: Sequence[Question]) -> None:
    """Warn about traits and questions in `deep_judgment_rubric_config` that are not in this run."""
    wishes = settings_of(config).deep_judgment_rubric_config
    if wishes is None:
        return
    traits = {name for question in questions for name in question.trait_names()}
    ids = {question.id for question in questions}
    wished = [*wishes.everywhere, *(name for own in wishes.question_specific.values() for name in own)]
    for kind, names, known in (("trait", wished, traits), ("question", [*wishes.question_specific], ids)):
        for name in dict.fromkeys(names):
            if name not in known:
                near = did_you_mean(name, known)
                logger.warning("deep_judgment_rubric_config: no %s in this run is named %r%s", kind, name, near)
