"""The evaluator for LLM traits, and its settings. A judge scores the traits together or one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from karenina_core.data.rubrics import LLMRubricTrait, RubricTrait
from karenina_core.models.ports import PortError
from karenina_core.models.settings_models import AllowedInFiles
from karenina_rubric.evaluators import TraitScore, score_each
from karenina_rubric.prompts import INFORMED, REASONING, RUBRIC, traits_request
from karenina_rubric.score_schema import Json, Score, ScoreSchema, read_score, score_schema, with_definitions
from karenina_rubric.workspace_files import SentFiles, WorkspaceFiles, choose_files
from karenina_toolkit.conversations import files_by_message
from karenina_toolkit.structured import InvalidReply, ask, find_mismatches, object_schema, read_object, repair

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.models.attachments import Attachment
    from karenina_core.models.prompts import PromptTask


class RubricSettings(BaseModel, defer_build=True):
    """The settings for rubric evaluation."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    rubric_evaluation_strategy: Literal["batch", "sequential"] = Field(
        default="batch",
        description="Score all LLM traits in one call to the judge, or each trait in a separate call.",
    )


class TraitFields(BaseModel, defer_build=True):
    """The fields that this distribution adds to LLM traits."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    include_ground_truth: bool = Field(
        default=False,
        description="Show the judge the question's reference answer (raw_answer) along with the response.",
    )
    attachments: SentFiles = Field(
        default=False,
        description="Send the judge files along with the response: with true, the question's attachments; with {from: "
        'workspace, glob: "*.png"}, files that the model under test left in its workspace.',
    )


class Judgement(NamedTuple):
    """A judge's score for a trait, and the reasoning behind it."""

    score: Score
    reasoning: str


def trait_schema(trait: LLMRubricTrait) -> Json:
    """Return the schema of a reply about a single trait: an object with `reasoning` and `score`."""
    score = score_schema(trait)
    return score.complete(_reasoned_score_schema(score))


def batch_schema(traits: Sequence[LLMRubricTrait]) -> Json:
    """Return the schema of a reply about several traits, with an object for each trait, keyed by its name."""
    scores = {trait.name: score_schema(trait, prefix=f"t{position}_") for position, trait in enumerate(traits)}
    definitions = {name: part for score in scores.values() for name, part in score.definitions.items()}
    return with_definitions(
        object_schema({name: _reasoned_score_schema(score) for name, score in scores.items()}), definitions
    )


def read_judgement(trait: LLMRubricTrait, given: object) -> Judgement:
    """Convert a reply's part about a trait to a judgement, repairing it if possible. Raises `InvalidReply` if it still
    does not match the trait's schema.
    """
    if not isinstance(given, Mapping):
        raise InvalidReply(f"there is no judgement of {trait.name!r}")
    schema = trait_schema(trait)
    fitted, _ = repair(given, schema)
    problems = find_mismatches(fitted, schema)
    if problems:
        raise InvalidReply("; ".join(problems[:5]))
    return Judgement(read_score(trait, fitted["score"]), fitted["reasoning"] or "")


def _reasoned_score_schema(score: ScoreSchema) -> Json:
    return object_schema({"reasoning": {"type": "string", "description": REASONING}, "score": score.schema})


FIELD: Final = "llm_trait_scores"

# Status codes with which servers refuse a request for its length or schema; smaller requests may be accepted.
_REFUSED_AS_IT_IS: Final = (400, 413, 422)


_OF_QUESTION: Final = "The attached files belong to the question. The model got them, too."


class _Request(NamedTuple):
    """A request to a judge about the response `text`. If the reference must not be shown, `reference` is None."""

    task: PromptTask
    text: str
    reference: str | None
    context: VerificationContext
    attachments: tuple[Attachment, ...] = ()
    files: str = ""
    """The sentences about the attached files in the request."""

    def of(self, traits: Sequence[LLMRubricTrait]) -> str:
        """Return the text of the prompt for the given traits."""
        request = traits_request(traits, self.context.question.question, self.text, self.reference)
        return f"{request}\n\n{self.files}" if self.files else request


def sees_truth(trait: RubricTrait) -> bool:
    """Return whether the judge of this trait sees the reference answer. Raises `ValueError` if the trait's
    `include_ground_truth` is invalid.
    """
    return isinstance(trait, LLMRubricTrait) and TraitFields.model_validate(trait.extra).include_ground_truth


def seen_files(trait: RubricTrait) -> bool | WorkspaceFiles:
    """Return the files that the judge of this trait gets: False for none, True for the question's attachments, or a
    description of those in the workspace. Raises `ValueError` if the trait's `attachments` is invalid.
    """
    return isinstance(trait, LLMRubricTrait) and TraitFields.model_validate(trait.extra).attachments


class LLMTraitEvaluator:
    """Scores LLM traits: booleans, numbers in a range, classes, and filled schemas.

    With the `batch` strategy, a single call covers all traits. Traits with `include_ground_truth` get a separate call,
    because the judge of the other traits must not see the reference answer, and so do traits with the same
    `attachments`. A trait is judged separately if its part of the reply is missing or invalid. All traits are judged
    separately if the reply cannot be parsed or the server rejects the request. A call for a single trait is retried
    once, and the retry tells the judge what was wrong. If the judge cannot be reached, no further calls are made.

    The evaluator also sets the result fields `llm_trait_labels` (for literal traits) and `llm_trait_reasoning`.
    """

    name: ClassVar[str] = "llm"
    precedence: ClassVar[int] = 0

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether the trait is an LLM trait."""
        return isinstance(trait, LLMRubricTrait)

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return a score for each LLM trait, in any order, with an error if it failed. Other traits are ignored. Raises
        `PortError` if a call for several traits fails for another reason than its size or contents.
        """
        asked = [trait for trait in traits if isinstance(trait, LLMRubricTrait)]
        parts: dict[tuple[bool | WorkspaceFiles, bool], list[LLMRubricTrait]] = {}
        for trait in asked:
            parts.setdefault((seen_files(trait), sees_truth(trait)), []).append(trait)
        scores: list[TraitScore] = []
        for (seen, told), part in sorted(parts.items(), key=lambda entry: _in_order(*entry[0])):
            request = _Request(RUBRIC, text, None, context)
            if told:
                request = request._replace(task=INFORMED, reference=context.question.raw_answer or "")
            if seen is True:
                files = tuple(file for message in files_by_message(context.question) for file in message)
                request = request._replace(attachments=files, files=_OF_QUESTION if files else "")
            elif isinstance(seen, WorkspaceFiles):
                try:
                    sent = await context.in_thread(choose_files, context, seen)
                except ValueError as error:
                    scores += [TraitScore(trait.name, FIELD, error=str(error)) for trait in part]
                    continue
                request = request._replace(attachments=sent.attachments, files=sent.text)
                described = [file.to_dict() for file in sent.attachments]
                context.extend_result_field("trait_attachments", {trait.name: described for trait in part})
            scores += await self._evaluate(part, request)
        return scores

    async def _evaluate(self, traits: Sequence[LLMRubricTrait], request: _Request) -> list[TraitScore]:
        """Return the scores of the traits, in any order. With the strategy `batch`, a single call scores them all, and
        traits without a valid score are judged in a call each, as with the strategy `sequential`. Raises `PortError`,
        without further calls, if the single call fails for another reason than its size or contents.
        """
        context = request.context
        strategy = context.config.section(RubricSettings).rubric_evaluation_strategy
        scores: dict[str, TraitScore] = {}
        if strategy == "batch" and len(traits) > 1:
            try:
                scores = await self._batch(traits, request)
            except PortError as error:
                if error.status not in _REFUSED_AS_IT_IS:
                    raise
                context.log.warning(
                    "the judge refused a single call for all traits, so each trait is judged in a separate call: %s",
                    error,
                )
        left = [trait for trait in traits if trait.name not in scores]

        async def alone(trait: LLMRubricTrait) -> TraitScore:
            return await self._score_alone(trait, request)

        return [*scores.values(), *await score_each(left, FIELD, alone)]

    async def _batch(self, traits: Sequence[LLMRubricTrait], request: _Request) -> dict[str, TraitScore]:
        """Ask about all traits in a single call. Return the valid scores, keyed by trait name, which are none if the
        reply cannot be parsed, and log a warning about the others. Raises `PortError` if the call fails.
        """
        context, schema = request.context, batch_schema(traits)
        messages = context.prompt(request.task, request.of(traits), attachments=request.attachments)
        reply = await context.parser().parse(messages, schema)
        try:
            data, _ = repair(read_object(reply.text, whole=reply.finish_reason == "length")[0], schema)
        except (ValueError, RecursionError) as error:
            context.log.warning(
                "the judge's reply about all traits could not be parsed, so each trait is judged in a "
                "separate call: %s",
                error,
            )
            return {}
        scores: dict[str, TraitScore] = {}
        for trait in traits:
            try:
                scores[trait.name] = _score(trait, read_judgement(trait, data.get(trait.name)))
            except ValueError as error:
                context.log.warning("trait '%s' is judged in a separate call: %s", trait.name, error)
        return scores

    @staticmethod
    async def _score_alone(trait: LLMRubricTrait, request: _Request) -> TraitScore:
        """Return the score of a trait from a call of its own, in which an invalid reply is requested again. Raises
        `StructuredError` or `PortError` if this fails.
        """

        def validate(data: Mapping[str, Any]) -> Judgement:
            return read_judgement(trait, data)

        asked = ask(
            *(request.context, request.task, request.of([trait]), trait_schema(trait), validate),
            attachments=request.attachments,
        )
        return _score(trait, (await asked).value)


def _in_order(seen: bool | WorkspaceFiles, told: bool) -> tuple[bool, str, bool]:
    """Return the position of a call: first without files, then those of the question, then those of the workspace."""
    return bool(seen), seen.glob if isinstance(seen, WorkspaceFiles) else "", told


def _score(trait: LLMRubricTrait, judgement: Judgement) -> TraitScore:
    """Convert a judgement to a trait score. For a literal trait, the name of the class is included."""
    fields: dict[str, object] = {"llm_trait_reasoning": judgement.reasoning}
    if judgement.score.label is not None:
        fields["llm_trait_labels"] = judgement.score.label
    return TraitScore(trait.name, FIELD, judgement.score.value, fields=fields)
