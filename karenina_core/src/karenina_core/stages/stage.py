"""Base classes of stages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from karenina_core.artifacts.artifact import STAGE_HOOKS, AnyKey, ArtifactKey
from karenina_core.data.outcome import Outcome
from karenina_core.errors import StructuredError
from karenina_core.models.ports import PortError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.artifacts.artifact import Slot
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import RubricTrait
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import SourceFolder
    from karenina_core.models.prompts import PromptTask
    from karenina_core.plugins import Plugins
    from karenina_core.stages.context import VerificationContext

Scope = Literal["item", "answer"]


@dataclass(frozen=True, slots=True)
class ModelNeed:
    """A model that a stage will call. `role` is for messages, and `ports` are those that it must have."""

    role: str
    model: ModelConfig
    ports: frozenset[str]


@dataclass(frozen=True, slots=True)
class ServiceNeed:
    """A service that a stage needs but that is not available. Only runs without calls are allowed.

    `problem` says which service it is, why it is not available, and how to fix it.
    """

    problem: str


Need = ModelNeed | ServiceNeed


@dataclass(slots=True, unsafe_hash=True)
class Skip:
    """The reason why a stage is left out of a plan or does not run for an item. It is falsy."""

    why: str

    def __bool__(self) -> bool:
        return False


class Stage:
    """A step from a question to its result. The plan orders stages by the declarations of their classes.

    A single object serves all items of a run concurrently, so it must not store anything about an item; use the
    context.

    - `for_slot`: the slot for all stages of a base class. A stage has the slot of the hook through which a plugin
      offers the stage; a `for_slot` (or `slot`) that disagrees with the hook is refused.
    - `requires`: artifacts that the stage needs; it is skipped if their producer did not run.
    - `optional`: artifacts that it reads if they exist; it comes after their producers.
    - `produces`: artifacts that it creates; a stage that runs must set all of them (None is a value).
    - `revises`: artifacts of other stages that it may replace; other readers come after the last reviser.
    - `after`, `before`: names of stages, or slots, meaning all stages in those slots. They only order the stages in a
      plan, and do not add any.
    - `scope`: `"item"`, or `"answer"` for a stage that runs once for all judges of an answer.
    - `settings`: the pydantic model of the settings that the stage owns; stages of one distribution may share a model.
    - `reads`: settings of other owners that it reads, with the values to use if the owner is not installed.
    - `trait_settings`: the pydantic model of the rubric trait fields that the stage owns. Their values are in the
      `extra` of a trait, and the stage checks them before a run.
    - `question_settings`: the same for fields of questions, whose values are in `Question.extra`.
    - `field_settings`: the same for options of template fields, whose values are in the `options` of the field's rule.
    - `offers`: the types of the known values that it offers (`context.offer_value`) to fields of templates, by name,
      such as `{"checks.*.output": str}`, in which `*` stands for any characters. The stage comes before the stages that
      verify templates. Names of a third party start with its import package.
    - `prompts`: its prompt tasks, so that prompts can be shown without a call.
    - `judge_ports`: the ports of a judge that it calls, which are checked before a run.
    - `usage_key`: the name under which its model calls are counted.
    - `precedence`, `fallback`: in a slot that takes one stage, the included stage with the highest precedence is
      selected, or otherwise the stage marked as fallback.
    - `error_outcome`: the outcome of an item if the stage raises an exception.
    - `runs_after_error`: whether it runs even if an earlier stage failed.
    """

    name: ClassVar[str]
    for_slot: ClassVar[Slot | None] = None
    requires: ClassVar[Set[AnyKey]] = frozenset()
    optional: ClassVar[Set[AnyKey]] = frozenset()
    produces: ClassVar[Set[AnyKey]] = frozenset()
    revises: ClassVar[Set[AnyKey]] = frozenset()
    after: ClassVar[Set[str | Slot]] = frozenset()
    before: ClassVar[Set[str | Slot]] = frozenset()
    scope: ClassVar[Scope] = "item"
    settings: ClassVar[type[BaseModel] | None] = None
    trait_settings: ClassVar[type[BaseModel] | None] = None
    question_settings: ClassVar[type[BaseModel] | None] = None
    field_settings: ClassVar[type[BaseModel] | None] = None
    offers: ClassVar[Mapping[str, object]] = MappingProxyType({})
    reads: ClassVar[Mapping[str, object]] = MappingProxyType({})
    prompts: ClassVar[tuple[PromptTask, ...]] = ()
    judge_ports: ClassVar[Set[str]] = frozenset({"parser"})
    usage_key: ClassVar[str | None] = None
    precedence: ClassVar[int] = 0
    fallback: ClassVar[bool] = False
    error_outcome: ClassVar[Outcome] = Outcome.STAGE_ERROR
    runs_after_error: ClassVar[bool] = False

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Return whether the stage belongs to the plan of `question`. Must not have side effects.

        Raise `ConfigError` if it does but its configuration cannot work. This is reported with the plan, before any
        calls. A stage without this method is included, except in a slot that takes one stage, where the configuration
        must select it.
        """
        return True

    def scores(self, trait: RubricTrait) -> bool:
        """Return whether the stage scores this trait. Each trait needs a stage in the rubric slot."""
        return True

    def checks_question(self, config: VerificationConfig, question: Question) -> bool:
        """Return whether `before_run` must check `question`. Called for each question with this stage.

        This must be fast. It saves loading the templates of questions that need no check.
        """
        return True

    def needs_judge(self, config: VerificationConfig, question: Question, trust: Trust) -> bool:
        """Return whether the stage will call the judge for `question`. If so, `parsing_models` are required.

        By default, this is true for stages with prompts. `trust` says which of the question's code may be executed.
        """
        return bool(self.prompts)

    def known_values(self, config: VerificationConfig, question: Question) -> Collection[str]:
        """Return the names of the known values that the stage compares for `question`. Some stage must offer each of
        them. Must be fast.
        """
        return ()

    def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
        """Return the folders outside the benchmark that affect the result of `question`. Must be fast.

        If a file in them changes, stored results and stored replies of agents in a workspace are not used. Do not
        return folders that runs change themselves.
        """
        return ()

    def before_any_run(self, config: VerificationConfig) -> None:
        """Check the configuration of a run, even if the stage is in none of its plans. Does nothing by default.

        Called for every installed stage before a run. You may log warnings about settings without effect. Raise
        `ValueError` or `ConfigError` if the configuration cannot work. Context variables set here apply to the whole
        run.
        """

    def before_run(self, config: VerificationConfig, questions: Sequence[Question], trust: Trust) -> Iterable[Need]:
        """Check for problems that would fail items, before a run makes any calls. Does nothing by default.

        `questions` are those for which `checks_question` is true, and `trust` says which of their code may be executed.
        Return the models that the stage will call, with the ports they must have, and services that are not available.
        The run checks these models. The judge's `judge_ports` are always checked. Raise `ValueError` for any other
        problem. You may log warnings.
        """
        return ()

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return whether the stage runs for this item.

        Called if all required artifacts exist and, unless `runs_after_error` is set, nothing has failed. An exception
        becomes the item's error.
        """
        return True

    @abstractmethod
    def execute(self, context: VerificationContext) -> Awaitable[None] | None:
        """Do the work of the stage.

        Use `async def` if the work involves waiting. A plain `def` must not take more than a few milliseconds.
        """
        raise NotImplementedError(f"{type(self).__name__} must define execute()")


@dataclass(frozen=True, slots=True)
class RegisteredStage:
    """A stage class with its distribution and slot. A stage without a slot is placed by its relations alone."""

    stage: type[Stage]
    distribution: str
    version: str
    slot: Slot | None = None


def registered_stages(plugins: Plugins) -> tuple[RegisteredStage, ...]:
    """Return all registered stages, sorted by name and distribution."""
    return tuple(
        RegisteredStage(offer.value, offer.distribution, offer.version, STAGE_HOOKS[offer.hook])
        for offer in plugins.of_kind("stage")
    )


@dataclass(frozen=True, slots=True)
class Detection:
    """The result of a check. If it could not run, `performed` is False and `detected` is None."""

    detected: bool | None
    performed: bool = True
    reasoning: str | None = None


class CheckStage(Stage):
    """A check of the answer before it is parsed. It may veto the item.

    `prefix` names the four artifacts of the check, which need not be declared: `<prefix>_check_performed`, `_detected`,
    `_override_applied` and `_reasoning`. They are part of the result (in its extensions for third parties). If the
    check itself fails, it is recorded as not performed, and the item continues.
    """

    prefix: ClassVar[str]
    veto_outcome: ClassVar[Outcome] = Outcome.AUTO_FAILED

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "prefix" in cls.__dict__ and isinstance(cls.produces, Set):
            cls.produces = frozenset(cls.produces) | set(cls.check_keys())

    @classmethod
    def check_keys(cls) -> tuple[AnyKey, AnyKey, AnyKey, AnyKey]:
        """Return the four artifact keys: performed, detected, override applied, reasoning."""
        from karenina_core.artifacts.keys import standard_keys

        standard = standard_keys()

        def key(suffix: str, type: type) -> AnyKey:
            """Return the standard key with this suffix, or create a key of this type."""
            name = f"{cls.prefix}_{suffix}"
            return standard.get(name) or ArtifactKey(name, type)

        return key("check_performed", bool), key("detected", bool), key("override_applied", bool), key("reasoning", str)

    @abstractmethod
    async def detect(self, context: VerificationContext) -> Detection:
        """Check the answer, and return what was detected.

        If this raises `PortError` or `StructuredError`, the check is recorded as not performed.
        """
        raise NotImplementedError(f"{type(self).__name__} must define detect()")

    def triggers(self, detected: bool) -> bool:
        """Return whether the item fails. By default, it does if something was detected."""
        return detected

    def veto_reason(self, detection: Detection) -> str:
        """Return the reason for the veto."""
        return f"{self.prefix} check: {detection.reasoning or 'detected'}"

    async def execute(self, context: VerificationContext) -> None:
        """Run the check, record its result, and veto the item if necessary.

        If a model call fails, a warning is logged and the check is recorded as not performed.
        """
        try:
            finding = await self.detect(context)
        except (PortError, StructuredError) as error:
            context.log.warning("%s could not be performed: %s", self.name, error)
            finding = Detection(None, performed=False, reasoning=f"not performed: {error}")
        override = finding.performed and finding.detected is not None and self.triggers(finding.detected)
        values = (finding.performed, finding.detected if finding.performed else None, override, finding.reasoning)
        for key, value in zip(self.check_keys(), values, strict=True):
            context.set_artifact(key, value)
            if key.section is None:
                context.set_result_field(key.name, value)
        if override:
            context.veto(self.veto_reason(finding), self.veto_outcome)


class AutoFailStage(Stage):
    """A rule that fails items without calling a model. The item keeps its artifacts."""

    veto_outcome: ClassVar[Outcome] = Outcome.AUTO_FAILED

    @abstractmethod
    def reason(self, context: VerificationContext) -> str | None:
        """Return why the item fails, or None if it does not fail."""
        raise NotImplementedError(f"{type(self).__name__} must define reason()")

    def skip_because(self, context: VerificationContext) -> str | None:
        """Return why the rule does not apply to this item, or None if it does."""
        return None

    def on_fail(self, context: VerificationContext) -> None:
        """Record more about the failure after the veto. Does nothing by default."""

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return True, or a `Skip` with the reason from `skip_because`."""
        why = self.skip_because(context)
        return True if why is None else Skip(why)

    def execute(self, context: VerificationContext) -> Awaitable[None] | None:
        """Veto the item if `reason` returns one, then call `on_fail`."""
        reason = self.reason(context)
        if reason is not None:
            context.veto(reason, self.veto_outcome)
            self.on_fail(context)
        return None
