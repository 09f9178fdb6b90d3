"""The stage for slot 11, `RubricEvaluation`, which scores answers on a rubric's traits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, Skip, Stage, VerificationConfig
from karenina_core.data.rubrics import (
    AgenticRubricTrait,
    CallableRubricTrait,
    LLMRubricTrait,
    MetricRubricTrait,
    RegexRubricTrait,
    RubricTrait,
    UnknownTrait,
    check_dynamic_names,
    trait_kinds,
)
from karenina_core.data.trust import Trust
from karenina_core.errors import StructuredError, describe_error
from karenina_core.models.ports import PortError
from karenina_core.text import did_you_mean, join_problems
from karenina_rubric.computed_traits import pattern_error
from karenina_rubric.evaluators import ERRORS, METADATA, ResultFields, TraitScore, find_flaw, summarize_deep_judgment
from karenina_rubric.hookspecs import karenina_trait_evaluators
from karenina_rubric.llm_traits import RubricSettings, TraitFields, seen_files, sees_truth
from karenina_rubric.prompts import INFORMED, METRIC, PRESENCE, PRESENT, REASONING, RUBRIC, presence_request
from karenina_rubric.turns import group_traits
from karenina_rubric.workspace_files import KEEP, WorkspaceFiles, workspace_problem
from karenina_toolkit.agent_work import LEFT_FILES
from karenina_toolkit.attachments.files import temporary_folder
from karenina_toolkit.attachments.support import find_support
from karenina_toolkit.conversations import CONVERSATION, files_by_message
from karenina_toolkit.plugin_lookup import find_adapter, plugins_of
from karenina_toolkit.stage_support import gather_all, make_judge_input
from karenina_toolkit.structured import InvalidReply, ask, object_schema
from karenina_toolkit.turn_context import TurnContext

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.plugins import Plugins
    from karenina_core.stages.stage import ModelNeed
    from karenina_rubric.evaluators import TraitEvaluator


@dataclass(frozen=True, slots=True)
class Presence:
    """The dynamic traits that apply to an answer, and the reasons for skipping the others.

    If the judge failed, `error` is set.
    """

    promoted: tuple[RubricTrait, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


async def find_present(traits: Sequence[RubricTrait], text: str, context: VerificationContext) -> Presence:
    """Ask the judge in a single call which of the traits' concepts are present in `text`, and return which are. If this
    fails, a warning is logged, and the result only contains an error.

    If the reply is invalid, the judge is asked once more.
    """
    request = presence_request(traits, context.question.question, text)

    def validate(data: Mapping[str, Any]) -> Mapping[str, Any]:
        for trait in traits:  # extra keys in the reply are ignored
            if not data[trait.name] or data[trait.name]["present"] is None:
                raise InvalidReply(f"{trait.name}.present must be true or false, not null")
        return data

    try:
        presence = (await ask(context, PRESENCE, request, presence_schema(traits), validate)).value
    except (PortError, StructuredError) as error:
        context.log.warning("the judge could not decide which dynamic traits are present: %s", error)
        return Presence(error=f"the judge could not decide whether the concept of the trait is present: {error}")
    return Presence(
        promoted=tuple(trait for trait in traits if presence[trait.name]["present"]),
        skipped={
            trait.name: _why_skipped(presence[trait.name]["reasoning"])
            for trait in traits
            if not presence[trait.name]["present"]
        },
    )


def presence_schema(traits: Sequence[RubricTrait]) -> dict[str, Any]:
    """Return the JSON Schema of the judge's reply about which concepts are present: for each trait, an object with
    `reasoning` and `present`, keyed by the trait's name.
    """
    entry = object_schema(
        {
            "reasoning": {"type": "string", "description": REASONING},
            "present": {"type": "boolean", "description": PRESENT},
        }
    )
    return object_schema({trait.name: entry for trait in traits})


def _why_skipped(reasoning: str | None) -> str:
    return f"concept not present: {reasoning}" if reasoning else "concept not present"


logger = logging.getLogger("karenina")

DEEP_MODE: Final = "deep_judgment_rubric_mode"
DISABLED: Final = "disabled"


class RubricEvaluation(Stage):
    """Scores an answer on its static traits, and on the dynamic traits that apply to it.

    Each trait is scored by the first evaluator that claims it. Evaluators run concurrently. They see the answer, but
    not the result of the template. If a trait fails or no evaluator claims it, its score is None and the error is in
    `trait_errors`. The other traits are not affected. Another stage scores agentic traits.

    RUBRIC_RESULT maps each result field to its values, keyed by trait name. DEEP_JUDGMENT_RUBRIC_PERFORMED is None if
    deep judgment of rubrics is disabled.
    """

    name = "RubricEvaluation"
    requires = frozenset({Keys.RAW_LLM_RESPONSE})
    optional = frozenset(
        {Keys.TRACE_MESSAGES, Keys.TRACE_VALIDATION_FAILED, Keys.FINAL_AI_MESSAGE, CONVERSATION, LEFT_FILES}
    )
    produces = frozenset(
        {
            Keys.RUBRIC_RESULT,
            Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED,
            Keys.TRAIT_METADATA,
            Keys.TRAITS_WITHOUT_VALID_EXCERPTS,
        }
    )
    settings = RubricSettings
    reads: ClassVar[Mapping[str, object]] = {DEEP_MODE: DISABLED, KEEP: "patch"}
    trait_settings = TraitFields
    prompts = (RUBRIC, INFORMED, METRIC, PRESENCE)
    usage_key = "rubric_evaluation"

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Return True if the question has a trait that is not agentic, and otherwise a `Skip` with the reason. Raises
        `ValueError` if a static and a dynamic trait have the same name.
        """
        if question.rubric is None and question.dynamic_rubric is None:
            return Skip("the question has no traits")
        check_dynamic_names(question.rubric, question.dynamic_rubric)
        if _static_traits(question) or _dynamic_traits(question):
            return True
        return Skip("the question has only agentic traits" if question.trait_names() else "the question has no traits")

    def scores(self, trait: RubricTrait) -> bool:
        """Return True unless the trait is agentic, even if no evaluator claims it: such a trait gets an error."""
        return not _is_agentic(trait)

    def needs_judge(self, config: VerificationConfig, question: Question, trust: Trust) -> bool:
        """Return whether a judge is needed, either to score a trait or to decide whether a dynamic trait applies."""
        return bool(_names_needing_judge(question))

    def checks_question(self, config: VerificationConfig, question: Question) -> bool:
        """Return whether `before_run` has to check this question, because something about its traits may be wrong.

        It has to if no judge is configured, or if a trait has source code, an invalid pattern, an
        `include_ground_truth` that cannot be used, or attachments.
        """
        if not config.core.parsing_models or any(_source_traits(question)):
            return True
        if any(pattern_error(trait.pattern) for trait in _regex_traits(question)) or _truth_problem(question):
            return True
        return any(trait.extra.get("attachments") for trait in (*_static_traits(question), *_dynamic_traits(question)))

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Raise `ValueError` if a trait is invalid, or lacks the ground truth, files or judge that it needs. Log a
        warning about untrusted code. Returns no needs.

        An invalid trait is one with a regex pattern that does not compile, or with an invalid `include_ground_truth` or
        `attachments`.
        """
        _warn_about_untrusted_code(questions, trust)
        for question in questions:
            problem = _truth_problem(question) or _files_problem(config, question)
            if problem is not None:
                raise ValueError(problem)
            seen = map(seen_files, (*_static_traits(question), *_dynamic_traits(question)))
            if any(isinstance(files, WorkspaceFiles) for files in seen):
                temporary_folder()  # processes that are forked later share it
            for trait in _regex_traits(question):
                problem = pattern_error(trait.pattern)
                if problem is not None:
                    raise ValueError(f"question {question.id}, trait {trait.name!r}: {problem}")
        if not config.core.parsing_models:
            for question in questions:
                judged = _names_needing_judge(question)
                if judged:
                    raise ValueError(
                        f"question {question.id} has rubric traits that need a judge ({', '.join(judged[:5])}), but "
                        "no judge is configured; set parsing_models (--judge on the command line), or select other "
                        "traits with rubric_trait_names"
                    )
        return ()

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return a `Skip` if only the final message is judged but the trace has none, and True otherwise. If only the
        final message is judged, it is also recorded in the result.
        """
        if context.config.core.use_full_trace_for_rubric:
            return True
        if context.find_artifact(Keys.TRACE_VALIDATION_FAILED):
            return Skip("the trace does not end in an answer, and use_full_trace_for_rubric is off")
        error = make_judge_input(context, full_trace=False).error
        return True if error is None else Skip(error)

    async def execute(self, context: VerificationContext) -> None:
        """Score the static traits and the dynamic ones that apply, in a conversation on the turns that they choose, and
        record scores and errors. A failed trait stops no other. If the judge cannot decide which dynamic traits apply,
        each of them gets an error.
        """
        question = context.question
        check_dynamic_names(question.rubric, question.dynamic_rubric)
        static, dynamic = _static_traits(question), _dynamic_traits(question)
        merged = ResultFields()
        conversation = context.find_artifact(CONVERSATION)
        if conversation is None:
            await _score_part(context, static, dynamic, merged)
        else:
            full_trace = context.config.core.use_full_trace_for_rubric
            parts = group_traits([*static, *dynamic], conversation, "all" if full_trace else "last")
            already: set[str] = set()
            for choice, names in parts.groups.items():
                part = TurnContext(context, conversation.view(choice), already)
                chosen = [trait for trait in static if trait.name in names]
                await _score_part(part, chosen, [trait for trait in dynamic if trait.name in names], merged)
            for score in parts.settled:
                merged.add(*score)
            if parts.left_out:  # like dynamic traits whose concept is not present, they do not count
                merged.fields.setdefault("dynamic_rubric_skipped_traits", {}).update(parts.left_out)
        self._record(context, merged, [trait.name for trait in [*static, *dynamic] if trait.type == "llm"])

    @staticmethod
    def _record(context: VerificationContext, merged: ResultFields, llm_traits: Sequence[str]) -> None:
        """Set the result fields and artifacts for the scores in `merged`, and for the deep judgment of `llm_traits`,
        the names of the LLM traits that were to be scored.
        """
        deep = summarize_deep_judgment(merged.fields, llm_traits)
        off = context.setting(DEEP_MODE) == DISABLED
        context.set_result_field("rubric_evaluation_performed", True)
        context.set_result_field("rubric_evaluation_strategy", context.setting("rubric_evaluation_strategy"))
        for name, value in deep.fields.items():
            context.set_result_field(name, value)
        for name, scores in merged.fields.items():
            if name != METADATA:
                context.extend_result_field(name, scores)
        if merged.unfit:
            context.set_result_field("unfit_trait_values", merged.unfit)
        context.set_artifact(Keys.RUBRIC_RESULT, dict(merged.fields))
        performed = None if off and not deep.performed else deep.performed
        context.set_artifact(Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED, performed)
        context.set_artifact(Keys.TRAIT_METADATA, deep.metadata)
        context.set_artifact(Keys.TRAITS_WITHOUT_VALID_EXCERPTS, deep.without_excerpts)


async def _score_part(
    context: VerificationContext,
    static: Sequence[RubricTrait],
    dynamic: Sequence[RubricTrait],
    merged: ResultFields,
) -> None:
    """Score the static traits, and the dynamic ones whose concept is present, on the answer or turn in `context`. The
    scores are added to `merged`. If the judge cannot decide which concepts are present, each dynamic trait gets an
    error.
    """
    text = make_judge_input(context, full_trace=context.config.core.use_full_trace_for_rubric).text
    with_concept = [trait for trait in dynamic if trait.summary or trait.description]
    presence = await find_present(with_concept, text, context) if with_concept else Presence()
    # Only unscorable traits have neither text; `score_all` reports why.
    without_concept = [trait for trait in dynamic if trait not in with_concept]
    await score_all([*static, *without_concept, *presence.promoted], text, context, merged)
    if presence.error is not None:
        for trait in with_concept:
            merged.fail(trait, presence.error)
    elif with_concept:
        merged.fields.setdefault("dynamic_rubric_skipped_traits", {}).update(presence.skipped)
        context.extend_result_field("dynamic_rubric_promoted_traits", [trait.name for trait in presence.promoted])


async def score_all(
    traits: Sequence[RubricTrait], text: str, context: VerificationContext, merged: ResultFields
) -> None:
    """Score `traits` with all evaluators concurrently, and add the scores to `merged` in the order of the traits. A
    trait that cannot be scored gets an error, and a warning is logged.

    No exception is raised if a trait cannot be scored, is not claimed or fails.
    """
    shares: dict[int, list[RubricTrait]] = {}
    evaluators = trait_evaluators(context.plugins)
    errors: dict[str, str] = {}
    for trait in traits:
        if isinstance(trait, UnknownTrait) and trait.unscorable:
            errors[trait.name] = trait.unscorable
            continue
        try:
            claimer = next((at for at, evaluator in enumerate(evaluators) if evaluator.claims(trait, context)), None)
        except Exception as error:
            errors[trait.name] = f"an evaluator failed to decide whether it scores the trait: {describe_error(error)}"
            continue
        if claimer is None:
            errors[trait.name] = _explain_unclaimed(trait)
        else:
            shares.setdefault(claimer, []).append(trait)
    evaluated = await gather_all(_evaluate_share(evaluators[at], share, text, context) for at, share in shares.items())
    scores: dict[str, TraitScore] = {}
    for scored, failed in evaluated:
        scores.update(scored)
        errors.update(failed)
    for trait in traits:
        if trait.name not in scores:
            merged.fail(trait, errors[trait.name])
            continue
        try:
            merged.add(trait, scores[trait.name])
        except Exception as error:
            merged.fail(trait, f"the evaluator returned an invalid score: {describe_error(error)}")
    names = {trait.name for trait in traits}
    for name, why in merged.fields.get(ERRORS, {}).items():
        if name in names:
            context.log.warning("trait '%s' was not scored: %s", name, why)


async def _evaluate_share(
    evaluator: TraitEvaluator, traits: Sequence[RubricTrait], text: str, context: VerificationContext
) -> tuple[dict[str, TraitScore], dict[str, str]]:
    """Run an evaluator on its traits. Return the scores and the errors, both keyed by trait name; if it raises, all
    have errors.
    """
    names = {trait.name for trait in traits}
    try:
        scores = {score.trait: score for score in await evaluator.evaluate(traits, text, context)}
    except Exception as error:
        return {}, {
            name: f"the '{evaluator.name}' evaluator failed: {describe_error(error, evaluator)}" for name in names
        }
    missing = f"the '{evaluator.name}' evaluator claimed the trait but returned no score for it"
    return {name: scores[name] for name in scores if name in names}, dict.fromkeys(names - scores.keys(), missing)


def _explain_unclaimed(trait: RubricTrait) -> str:
    """Return why no evaluator scores a trait: its kind is unknown or its plugin inactive. States what to install."""
    if isinstance(trait, UnknownTrait):
        near = did_you_mean(trait.type, trait_kinds())
        return f"no installed plugin defines traits of type {trait.type!r}; install the plugin that does{near}"
    if trait.type in ("llm", "regex", "callable", "metric"):
        return f"no evaluator for {trait.type} traits is active; unblock or reinstall karenina-rubric"
    return f"no installed plugin scores traits of type {trait.type!r}; install the plugin that does"


def _source_traits(question: Question) -> Iterator[CallableRubricTrait]:
    """Yield the question's traits whose function is source code from a file."""
    for rubric in (question.rubric, question.dynamic_rubric):
        for trait in rubric.callable_traits if rubric is not None else ():
            if trait.source is not None and trait.given is None:
                yield trait


def _warn_about_untrusted_code(questions: Sequence[Question], trust: Trust) -> None:
    """Log a warning that names the traits that will not be scored because their code is not trusted, if any."""
    seen: set[int] = set()
    names: dict[str, None] = {}
    for question in questions:
        for trait in _source_traits(question):
            if trait.source is not None and (digest := hash(trait.source)) not in seen:
                seen.add(digest)
                if not trust.covers(trait.source):
                    names[repr(trait.name)] = None
    if names:
        logger.warning(
            "the following traits cannot be scored because their code is not trusted: %s. Read the code and run "
            '`karenina trust FILE`, or pass trust="all" in Python if the file is entirely your own',
            join_problems(list(names)),
        )


def _regex_traits(question: Question) -> Iterator[RegexRubricTrait]:
    for rubric in (question.rubric, question.dynamic_rubric):
        yield from rubric.regex_traits if rubric is not None else ()


def _truth_problem(question: Question) -> str | None:
    """Return the reason why a trait with `include_ground_truth` cannot be judged, or None."""
    for trait in (*_static_traits(question), *_dynamic_traits(question)):
        try:
            without = sees_truth(trait) and not (question.raw_answer or "").strip()
        except ValueError:
            return f"question {question.id}, trait {trait.name!r}: include_ground_truth must be true or false"
        if without:
            return (
                f"question {question.id}, trait {trait.name!r}: include_ground_truth is true, but the "
                "question has no raw_answer to show the judge; add a raw_answer"
            )
    return None


def _files_problem(config: VerificationConfig, question: Question) -> str | None:
    """Return the reason why a trait with `attachments` cannot be judged, or None."""
    files = [file for message in files_by_message(question) for file in message]
    for trait in (*_static_traits(question), *_dynamic_traits(question)):
        seen = seen_files(trait)
        if not seen:
            continue
        problem: str | None = None
        if isinstance(seen, WorkspaceFiles):
            problem, media_types = workspace_problem(config, question), [seen.media_type]
        else:
            media_types = [file.media_type for file in files]
            if not files:
                problem = (
                    "the question has no attachments; attach a file, or give the trait only to questions with files"
                )
        if problem is None and config.has(DEEP_MODE) and config.setting(DEEP_MODE) != DISABLED:
            problem = f"deep judgment reads text only; remove it, or set {DEEP_MODE} to {DISABLED}"
        problem = problem or _blind_judge(config, media_types)
        if problem is not None:
            what = "true" if seen is True else "{from: workspace}"
            return f"question {question.id}, trait {trait.name!r}: attachments is {what}, but {problem}"
    return None


def _blind_judge(config: VerificationConfig, media_types: Sequence[str | None]) -> str | None:
    """Return why a judge cannot read one of the media types, or None if all can, or if this is unknown. Types that are
    None or empty are ignored.
    """
    for model in config.core.parsing_models:
        spec = find_adapter(plugins_of(config), model.interface).spec
        for media_type in dict.fromkeys(filter(None, media_types)):
            support = find_support(spec, model, media_type)
            if support.understands is False:
                return f"the judge {model.id!r} cannot read {media_type} ({support.source}); choose another one"
    return None


def _names_needing_judge(question: Question) -> list[str]:
    """Return the names of the traits that need a judge. These include all dynamic traits."""
    judged = [trait.name for trait in _static_traits(question) if isinstance(trait, LLMRubricTrait | MetricRubricTrait)]
    return [*judged, *(trait.name for trait in _dynamic_traits(question))]


def _static_traits(question: Question) -> list[RubricTrait]:
    """Return the question's static traits, except agentic ones, which another stage scores."""
    return [trait for trait in question.rubric.traits if not _is_agentic(trait)] if question.rubric else []


def _dynamic_traits(question: Question) -> list[RubricTrait]:
    """Return the question's dynamic traits, except agentic ones, which another stage scores."""
    return (
        [trait for trait in question.dynamic_rubric.traits if not _is_agentic(trait)] if question.dynamic_rubric else []
    )


def _is_agentic(trait: RubricTrait) -> bool:
    return isinstance(trait, AgenticRubricTrait)


def trait_evaluators(plugins: Plugins) -> list[TraitEvaluator]:
    """Return the valid trait evaluators of all plugins in the order in which they may claim a trait: by descending
    precedence, then by name.

    Invalid evaluators are omitted, because they were already reported when the plugins were loaded.
    """
    usable = [evaluator for evaluator in plugins.call(karenina_trait_evaluators) if find_flaw(evaluator) is None]
    return sorted(usable, key=lambda evaluator: (-evaluator.precedence, evaluator.name))
