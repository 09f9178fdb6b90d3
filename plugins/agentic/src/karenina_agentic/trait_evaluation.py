"""The stage for slot 11b, which scores rubric traits with agents."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from karenina_agentic.investigation import (
    SCORING,
    TRAIT,
    Investigation,
    InvestigationFailed,
    investigate,
    judge_copy,
    judge_tools,
    scoring_request,
    trait_request,
)
from karenina_agentic.prepare_workspace import make_cleanup
from karenina_agentic.settings import AgenticSettings, agentic_traits
from karenina_core import ArtifactKeys as Keys
from karenina_core import ModelConfig, Question, Skip, Stage, VerificationConfig
from karenina_core.data.rubrics import AgenticRubricTrait, RubricTrait
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError, describe_error
from karenina_core.models.ports import AgentOptions
from karenina_core.stages.stage import ModelNeed
from karenina_rubric.score_schema import Json, Score, read_score, score_schema
from karenina_toolkit.agent_work import AGENT_WORK
from karenina_toolkit.files.created_folders import CreatedFolder
from karenina_toolkit.files.workspace_copy import WorkspaceError, make_slug, unique_name
from karenina_toolkit.stage_support import JudgeInput, gather_all, make_judge_input
from karenina_toolkit.structured import ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationContext


class TraitWorkspace(NamedTuple):
    """The place in which an agent works. `folder` is None if the agent has no folder.

    If the agent gets the trace as a file, `file` is the file's name in the folder, and `kept_file` is the path of a
    permanent copy.
    """

    folder: Path | None = None
    file: str | None = None
    kept_file: str | None = None


@asynccontextmanager
async def open_trait_workspace(
    trait: AgenticRubricTrait, response: str | None, context: VerificationContext
) -> AsyncIterator[TraitWorkspace]:
    """Yield the workspace for a trait's agent, and remove it at the end of the `with` block. The agent's folder is a
    copy of the answer's workspace or, with `trace_only`, an empty folder. If the trait requests it, `response` (None if
    the agent must not see it) is written to a file there; with `trace_only` and no file, there is no folder. Raises
    `WorkspaceError` if the workspace is not available or the file cannot be written.

    With `persist_trace`, a copy of the file is kept permanently.
    """
    as_file = trait.materialize_trace and response is not None
    if trait.context_mode == "trace_only" and not as_file:
        yield TraitWorkspace()
        return
    async with judge_copy(context) if trait.context_mode != "trace_only" else _empty_folder(context) as folder:
        if not as_file:
            yield TraitWorkspace(folder)
            return
        file = _free_name(folder)
        _write(folder / file, response or "")
        yield TraitWorkspace(folder, file, _keep_trace(trait, response or "", context) if trait.persist_trace else None)


@asynccontextmanager
async def _empty_folder(context: VerificationContext) -> AsyncIterator[Path]:
    """Create a temporary folder, yield its path, and remove it at the end of the `with` block."""
    folder = CreatedFolder.temporary("karenina_judge_")
    try:
        yield folder.path
    finally:
        await make_cleanup(context, folder)()


def _free_name(folder: Path) -> str:
    """Return a name for the response file that is not used in the folder, preferably `response.txt`."""
    name = "response.txt"
    while (folder / name).exists() or (folder / name).is_symlink():
        name = f"response_{secrets.token_hex(2)}.txt"
    return name


def _keep_trace(trait: AgenticRubricTrait, response: str, context: VerificationContext) -> str:
    """Write a permanent copy of the trace, `response`, and return its path. It is stored next to the workspace or, if
    there is no workspace, in a new temporary folder. Nothing removes it. Raises `WorkspaceError` if it cannot be
    written.
    """
    workspace = context.find_artifact(Keys.WORKSPACE_PATH)
    folder = workspace.parent if workspace is not None else Path(tempfile.mkdtemp(prefix="karenina_trace_"))
    # The name marks the file as created by a run, so that later copies of the workspace leave it out.
    base = unique_name(workspace.name, "judge", None) if workspace is not None else make_slug(context.question.id)
    file = folder / f"{base}_trace_{make_slug(trait.name)}_{secrets.token_hex(4)}.txt"
    _write(file, response)
    return str(file)


def _write(file: Path, text: str) -> None:
    """Write text to a new file. Raises `WorkspaceError` if the file exists or cannot be written."""
    try:
        with file.open("x", encoding="utf-8", errors="replace") as new:
            new.write(text)
    except OSError as error:
        raise WorkspaceError(f"the trace could not be written to {file}: {error.strerror}") from None


class Verdict(NamedTuple):
    """The judge's decision on a trait. If a dynamic trait does not apply, `score` is None."""

    score: Score | None
    reasoning: str

    @property
    def present(self) -> bool:
        """Whether the trait's concept is present in the answer."""
        return self.score is not None


def scoring_schema(trait: AgenticRubricTrait, *, dynamic: bool) -> Json:
    """Return the JSON Schema of a verdict: `reasoning`, `present` if the trait is dynamic, and `score`, which may then
    be null.
    """
    score = score_schema(trait)
    reasoning = {"type": "string", "description": "What in the report decides."}
    if not dynamic:
        return score.complete(object_schema({"reasoning": reasoning, "score": score.schema}))
    present = {
        "type": "boolean",
        "description": "Whether the answer has anything to do with this quality; if not, the score is null.",
    }
    or_null = {"anyOf": [score.schema, {"type": "null"}]}
    return score.complete(object_schema({"reasoning": reasoning, "present": present, "score": or_null}))


def read_verdict(trait: AgenticRubricTrait, given: Mapping[str, Any], *, dynamic: bool) -> Verdict:
    """Convert a reply that matches the schema to a verdict. If it says that a dynamic trait does not apply, its score
    is not read. Raises `InvalidReply` if the score is invalid.
    """
    reasoning = given["reasoning"] or ""
    if dynamic and given["present"] is False:
        return Verdict(None, reasoning)
    return Verdict(read_score(trait, given["score"]), reasoning)


class ModelOverrides:
    """The models that traits specify in `model_override`.

    Equal overrides share one `ModelConfig`, because a run opens a connection for each object.
    """

    def __init__(self) -> None:
        self._models: dict[str, ModelConfig] = {}

    def model_for(self, trait: AgenticRubricTrait) -> ModelConfig:
        """Return the model in a trait's `model_override`. Its `id` defaults to the trait's name. Raises `ConfigError`
        if the model is invalid.
        """
        fields = {"id": trait.name, **(trait.model_override or {})}
        key = json.dumps(fields, sort_keys=True)
        if key not in self._models:
            try:
                model = ModelConfig.model_validate(fields)
            except ValidationError as error:
                where = f"model_override of trait {trait.name!r}"
                problems = error.errors(include_url=False, include_input=False)
                raise ConfigError(
                    [f"{where}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems]
                ) from None
            _refuse_relative_programs(model, trait.name)
            self._models[key] = model
        return self._models[key]


def _refuse_relative_programs(model: ModelConfig, trait: str) -> None:
    """Raise `ConfigError`, which names the `trait`, if the program of an MCP server is given as a relative path, which
    would depend on the working directory.
    """
    for name, command in (model.mcp_urls_dict or {}).items():
        program = command.split(maxsplit=1)[0] if command.strip() else ""
        if "/" in program and "://" not in program and not program.startswith(("/", "${")):
            raise ConfigError(
                [
                    f"model_override of trait {trait!r}, mcp_urls_dict.{name}: {program} is relative to the working "
                    "directory; use an absolute path, or the name of an installed program"
                ]
            )


class _TraitOutcome(NamedTuple):
    """The outcome for a trait: a verdict or an error, and the trace of the investigation."""

    name: str
    verdict: Verdict | None = None
    trace: str | None = None
    error: str | None = None
    kept_file: str | None = None

    @property
    def score(self) -> Score | None:
        """The score, or None if there is no verdict or if a dynamic trait does not apply."""
        return None if self.verdict is None else self.verdict.score


class AgenticRubricEvaluation(Stage):
    """Scores agentic traits: an agent investigates each trait, and the judge scores it based on the agent's report.

    Traits are scored concurrently, each in its own copy of the workspace. If a trait fails, its score is None and the
    error is in `trait_errors`. The other traits are not affected. The score of a literal trait is the position of its
    class. For dynamic traits, the judge also decides whether the concept is present. If it is not, the trait is
    skipped.

    The stage also sets the result fields `agentic_trait_reasoning`, `agentic_trait_labels` (for literal traits) and, in
    the extensions, `agentic_trait_files` (the traces kept because of `persist_trace`).
    """

    name = "AgenticRubricEvaluation"
    requires = frozenset({Keys.RAW_LLM_RESPONSE})
    optional = frozenset(
        {
            Keys.TRACE_MESSAGES,
            Keys.FINAL_AI_MESSAGE,
            Keys.TRACE_VALIDATION_FAILED,
            Keys.WORKSPACE_PATH,
            AGENT_WORK,
            Keys.RUBRIC_RESULT,
        }
    )
    produces = frozenset({Keys.AGENTIC_TRAIT_SCORES, Keys.AGENTIC_TRAIT_TRACES})
    settings = AgenticSettings
    prompts = (TRAIT, SCORING)
    usage_key = "agentic_rubric"

    def __init__(self) -> None:
        self._overrides = ModelOverrides()

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage if the question has agentic traits."""
        return True if any(agentic_traits(question)) else Skip("the question has no agentic traits")

    def scores(self, trait: RubricTrait) -> bool:
        """Return whether the trait is agentic."""
        return isinstance(trait, AgenticRubricTrait)

    def needs_judge(self, config: VerificationConfig, question: Question, trust: Trust) -> bool:
        """Return False. `before_run` checks whether a judge is needed, because some traits have their own models."""
        return False

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Return the models that score the traits, which need an agent port and a parser port: each trait's own model,
        or the judges for traits without one. Raises `ValueError` if a trait needs a judge but none is configured, and
        `ConfigError` if a trait's model is invalid.
        """
        needed = frozenset({"agent", "parser"})
        judges = [ModelNeed("judge", model, needed) for model in config.core.parsing_models]
        needs = []
        for trait in _unique(trait for question in questions for trait, _ in agentic_traits(question)):
            if trait.model_override is None and not judges:
                raise ValueError(
                    f"the agentic trait {trait.name!r} needs a judge, but no judge is configured; set "
                    "parsing_models (--judge on the command line), or give the trait a model_override"
                )
            if trait.model_override is None:
                needs += judges
            else:
                needs.append(
                    ModelNeed(f"model_override of trait {trait.name!r}", self._overrides.model_for(trait), needed)
                )
        return needs

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return True, or a `Skip` if every trait needs the final message but the trace has none."""
        broken = context.find_artifact(Keys.TRACE_VALIDATION_FAILED)
        only_final = not context.config.core.use_full_trace_for_rubric
        needed = all(trait.context_mode != "workspace_only" for trait, _ in agentic_traits(context.question))
        return Skip("the trace does not end in an answer") if broken and only_final and needed else True

    async def execute(self, context: VerificationContext) -> None:
        """Score all agentic traits and record the outcomes. A dynamic trait that does not apply has no score. A trait
        that cannot be scored has an error, which does not affect the others.
        """
        traits = list(agentic_traits(context.question))
        shown = None
        if any(trait.context_mode != "workspace_only" for trait, _ in traits):
            shown = make_judge_input(context, full_trace=context.config.core.use_full_trace_for_rubric)
        scored = await gather_all(self._score(context, trait, dynamic, shown) for trait, dynamic in traits)
        absent = [outcome for outcome in scored if outcome.verdict is not None and not outcome.verdict.present]
        counted = [outcome for outcome in scored if outcome not in absent]
        context.set_artifact(
            Keys.AGENTIC_TRAIT_SCORES,
            {outcome.name: score.value if (score := outcome.score) is not None else None for outcome in counted},
        )
        context.set_artifact(
            Keys.AGENTIC_TRAIT_TRACES, {outcome.name: outcome.trace for outcome in scored if outcome.trace is not None}
        )
        self._record(context, traits, scored, absent)

    async def _score(
        self, context: VerificationContext, trait: AgenticRubricTrait, dynamic: bool, shown: JudgeInput | None
    ) -> _TraitOutcome:
        """Investigate and score a trait, or, if it is `dynamic` and does not apply, find that out. Exceptions are not
        raised, but become the error in the outcome. `shown` is the answer as judges see it, or None if no agent may see
        the answer.
        """
        if trait.context_mode != "workspace_only" and shown is not None and shown.error is not None:
            return _TraitOutcome(trait.name, error=shown.error)
        response = shown.text if shown is not None and trait.context_mode != "workspace_only" else None
        kept_file: str | None = None
        trace: str | None = None
        try:
            model = self._overrides.model_for(trait) if trait.model_override is not None else context.parsing_model
            async with open_trait_workspace(trait, response, context) as place:
                kept_file = place.kept_file
                investigation = await self._investigate(context, trait, model, response, place)
            trace = investigation.trace
            verdict = await self._verdict(context, trait, model, investigation.report, dynamic)
        except InvestigationFailed as failure:
            return _TraitOutcome(trait.name, trace=failure.trace, error=str(failure), kept_file=kept_file)
        except Exception as error:  # a failure of one trait must not affect the others
            return _TraitOutcome(trait.name, trace=trace, error=describe_error(error), kept_file=kept_file)
        return _TraitOutcome(trait.name, verdict, trace, kept_file=kept_file)

    @staticmethod
    async def _investigate(
        context: VerificationContext,
        trait: AgenticRubricTrait,
        model: ModelConfig,
        response: str | None,
        place: TraitWorkspace,
    ) -> Investigation:
        """Let an agent investigate the trait, and return its report. Raises `InvestigationFailed` if there is no
        report.
        """
        request = trait_request(
            trait,
            context.question.question,
            response=response,
            workspace=place.folder is not None and trait.context_mode != "trace_only",
            file=place.file,
        )
        of_trait = f"of the trait {trait.name!r}"
        options = AgentOptions(
            trait.max_turns,
            trait.timeout_seconds,
            place.folder,
            timeout_setting=f"timeout_seconds {of_trait}",
            tools=judge_tools(context, place.folder),
        )
        return await investigate(
            context, model, context.prompt(TRAIT, request, model), options, f"max_turns {of_trait}"
        )

    @staticmethod
    async def _verdict(
        context: VerificationContext, trait: AgenticRubricTrait, model: ModelConfig, report: str, dynamic: bool
    ) -> Verdict:
        """Return the judge's verdict on the trait, based on the report. With `dynamic`, it states whether the trait
        applies, too. Raises `StructuredError` or `PortError` if the judge fails.
        """
        verdict = await ask(
            context,
            SCORING,
            scoring_request(trait, context.question.question, report),
            scoring_schema(trait, dynamic=dynamic),
            lambda values: read_verdict(trait, values, dynamic=dynamic),
            model,
        )
        return verdict.value

    @staticmethod
    def _record(
        context: VerificationContext,
        traits: Sequence[tuple[AgenticRubricTrait, bool]],
        scored: Sequence[_TraitOutcome],
        absent: Sequence[_TraitOutcome],
    ) -> None:
        """Set the result fields that are not artifacts, and log a warning about each trait that failed. `traits`
        contains all traits, each with whether it is dynamic, `scored` the outcomes of those that were scored or failed,
        and `absent` those of traits that do not apply.
        """
        verdicts = {outcome.name: outcome.verdict for outcome in scored if outcome.verdict is not None}
        context.set_result_field("rubric_evaluation_performed", True)
        errors = {outcome.name: outcome.error for outcome in scored if outcome.error is not None}
        for name, error in errors.items():
            context.log.warning("the agentic trait '%s' could not be scored: %s", name, error)
        dynamic = [trait.name for trait, is_dynamic in traits if is_dynamic]
        promoted = [name for name in dynamic if name in verdicts and verdicts[name].present]
        if errors:
            context.extend_result_field("trait_errors", errors)
        if absent:
            skipped = {outcome.name: "the concept of the trait is not present in the answer" for outcome in absent}
            context.extend_result_field("dynamic_rubric_skipped_traits", skipped)
        if promoted:
            context.extend_result_field("dynamic_rubric_promoted_traits", promoted)
        more: dict[str, dict[str, Any]] = {
            "agentic_trait_reasoning": {name: verdict.reasoning for name, verdict in verdicts.items()},
            "agentic_trait_labels": {
                outcome.name: score.label
                for outcome in scored
                if (score := outcome.score) is not None and score.label is not None
            },
            "agentic_trait_files": {
                outcome.name: outcome.kept_file for outcome in scored if outcome.kept_file is not None
            },
        }
        for field, values in more.items():
            if values:
                context.set_result_field(field, values)


def _unique(traits: Iterable[AgenticRubricTrait]) -> list[AgenticRubricTrait]:
    """Return the traits without repeated objects, because every question contains the same global traits. Objects that
    are merely equal are kept.
    """
    unique: list[AgenticRubricTrait] = []
    seen: set[int] = set()
    for trait in traits:
        if id(trait) not in seen:
            seen.add(id(trait))
            unique.append(trait)
    return unique
