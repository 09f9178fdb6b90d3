"""Base classes of stages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

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


class ModelNeed(NamedTuple):
    """A model that a stage will call. It must have all `ports`. Messages refer to it as `role`."""

    role: str
    model: ModelConfig
    ports: frozenset[str]


class ServiceNeed(NamedTuple):
    """A service that a stage needs but that is not available. Only runs that make no calls are allowed.

    `problem` names the service, the reason why it is not available, and a fix.
    """

    problem: str


Need = ModelNeed | ServiceNeed


@dataclass(slots=True, unsafe_hash=True)
class Skip:
    """The reason why a stage is left out of a plan or skipped for an item. It is falsy."""

    why: str

    def __bool__(self) -> bool:
        return False


class Stage:
    """A step from a question to its result. The plan orders stages based on the declarations in their classes.

    A single object serves all items of a run concurrently, so it must not store anything about an item. Use the context
    for that.

    - `for_slot`: the slot for all stages of a base class. A stage's slot is determined by the hook through which a
      plugin offers the stage. A `for_slot` (or `slot`) that contradicts the hook is an error.
    - `requires`: artifacts that the stage needs. It is skipped if their producer did not run.
    - `optional`: artifacts that the stage reads if they exist. It runs after their producers.
    - `produces`: artifacts that the stage creates. If it runs, it must set all of them (None is a valid value).
    - `revises`: other stages' artifacts that the stage may replace. All other readers run after the last revision.
    - `after`, `before`: names of stages, or slots, meaning all stages in those slots. They only determine the order of
      stages in a plan, and do not add any.
    - `scope`: `"item"`, or `"answer"` for a stage that runs once for all judges of an answer.
    - `settings`: the pydantic model of the settings that the stage owns. Stages of one distribution may share a model.
    - `reads`: settings with other owners that the stage reads, with the values to use if the owner is not installed.
    - `trait_settings`: the pydantic model of the rubric trait fields that the stage owns. Their values are in the
      `extra` of a trait, and the stage checks them before a run.
    - `question_settings`: the same for fields of questions, whose values are in `Question.extra`.
    - `field_settings`: the same for options of template fields, whose values are in the `options` of the field's rule.
    - `offers`: the known values that the stage offers to template fields (`context.offer_value`). Each name is mapped
      to the value's type, as in `{"checks.*.output": str}`, where `*` stands for any characters. The stage runs before
      the stages that verify templates. Third-party names start with their import package.
    - `prompts`: the stage's prompt tasks, so that prompts can be shown without making a call.
    - `judge_ports`: the judge's ports that the stage calls. They are checked before a run.
    - `usage_key`: the name under which the stage's model calls are counted.
    - `precedence`, `fallback`: in a slot that takes one stage, the included stage with the highest precedence is
      selected. If no stage is included, the one marked as fallback is selected.
    - `error_outcome`: the item's outcome if the stage raises an exception.
    - `runs_after_error`: whether the stage runs even if an earlier stage failed.
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
        """Return whether the stage belongs in the plan for `question`, or a `Skip` with the reason why not. Raise
        `ConfigError` if it does, but its configuration cannot work. Must depend on the arguments alone, and must not
        have side effects.

        The error is reported with the plan, before any calls are made. A stage without this method is included. In a
        slot that takes only one stage, however, the configuration must select it.
        """
        return True

    def scores(self, trait: RubricTrait) -> bool:
        """Return whether the stage scores the given trait. Every trait needs a stage in the rubric slot."""
        return True

    def checks_question(self, config: VerificationConfig, question: Question) -> bool:
        """Return whether `before_run` has to check `question`. Called for each question that has this stage. This must
        be fast. It avoids loading the templates of questions that need no check.
        """
        return True

    def needs_judge(self, config: VerificationConfig, question: Question, trust: Trust) -> bool:
        """Return whether the stage will call the judge for `question`. If so, `parsing_models` is required. By default,
        this is true for stages that have prompts. `trust` determines which of the question's code may be executed.
        """
        return bool(self.prompts)

    def known_values(self, config: VerificationConfig, question: Question) -> Collection[str]:
        """Return the names of the known values that the stage compares for `question`. Must be fast. Each of them must
        be offered by a stage.
        """
        return ()

    def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
        """Return the folders outside the benchmark that affect the result of `question`. If a file in them changes,
        stored results are not reused. Must be fast.

        Stored replies of agents that work in a workspace are not reused then either. Do not return folders that are
        changed by runs themselves.
        """
        return ()

    def before_any_run(self, config: VerificationConfig) -> None:
        """Check the configuration of a run, even if none of its plans contains the stage. Does nothing by default.

        This is called before a run for every installed stage. It may log warnings about settings that have no effect.
        Raise `ValueError` or `ConfigError` if the configuration cannot work. Context variables set here apply to the
        whole run.
        """

    def before_run(self, config: VerificationConfig, questions: Sequence[Question], trust: Trust) -> Iterable[Need]:
        """Raise `ValueError` for problems that would make items fail, before a run makes any calls. Return the models
        that the stage will call, with the ports they must have, and missing services. By default, there are none.

        `questions` are those for which `checks_question` is true. `trust` determines which of their code may be
        executed. The run checks the returned models, and always checks the judge's `judge_ports`. Warnings may be
        logged.
        """
        return ()

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return whether the stage should run for this item, or a `Skip` with the reason why not.

        This is called if all required artifacts exist and no earlier stage has failed. Stages with `runs_after_error`
        are also asked after a failure. If it raises an exception, that becomes the item's error.
        """
        return True

    @abstractmethod
    def execute(self, context: VerificationContext) -> Awaitable[None] | None:
        """Do the stage's work. Use `async def` if the work involves waiting. A plain `def` must not take more than a
        few milliseconds.
        """
        raise NotImplementedError(f"{type(self).__name__} must define execute()")


class RegisteredStage(NamedTuple):
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


class Detection(NamedTuple):
    """The result of a check. If the check could not run, `performed` is False and `detected` is None."""

    detected: bool | None
    performed: bool = True
    reasoning: str | None = None


class CheckStage(Stage):
    """A check of the answer before it is parsed. It may veto the item.

    `prefix` names the check's four artifacts, which need not be declared: `<prefix>_check_performed`, `_detected`,
    `_override_applied` and `_reasoning`. They are part of the result. Third-party artifacts are in its extensions. If
    the check itself fails, it is recorded as not performed, and the item continues.
    """

    prefix: ClassVar[str]
    veto_outcome: ClassVar[Outcome] = Outcome.AUTO_FAILED

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "prefix" in cls.__dict__ and isinstance(cls.produces, Set):
            cls.produces = frozenset(cls.produces) | set(cls.check_keys())

    @classmethod
    def check_keys(cls) -> tuple[AnyKey, AnyKey, AnyKey, AnyKey]:
        """Return the check's four artifact keys: performed, detected, override applied, reasoning."""
        from karenina_core.artifacts.keys import standard_keys

        standard = standard_keys()

        def key(suffix: str, type: type) -> AnyKey:
            """Return the standard key with the given suffix. If there is none, create a key of the given type."""
            name = f"{cls.prefix}_{suffix}"
            return standard.get(name) or ArtifactKey(name, type)

        return key("check_performed", bool), key("detected", bool), key("override_applied", bool), key("reasoning", str)

    @abstractmethod
    async def detect(self, context: VerificationContext) -> Detection:
        """Check the answer, and return the result. If this raises `PortError` or `StructuredError`, the check is
        recorded as not performed.
        """
        raise NotImplementedError(f"{type(self).__name__} must define detect()")

    def triggers(self, detected: bool) -> bool:
        """Return whether the item should fail. By default, it fails if anything was detected."""
        return detected

    def veto_reason(self, detection: Detection) -> str:
        """Return the reason for the veto."""
        return f"{self.prefix} check: {detection.reasoning or 'detected'}"

    async def execute(self, context: VerificationContext) -> None:
        """Run the check, record its result, and veto the item if the result calls for it. If a model call fails or its
        reply cannot be read, a warning is logged and the check is recorded as not performed.
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
    """A rule that fails items without calling a model. A failed item keeps its artifacts."""

    veto_outcome: ClassVar[Outcome] = Outcome.AUTO_FAILED

    @abstractmethod
    def reason(self, context: VerificationContext) -> str | None:
        """Return the reason why the item fails, or None if it does not fail."""
        raise NotImplementedError(f"{type(self).__name__} must define reason()")

    def skip_because(self, context: VerificationContext) -> str | None:
        """Return the reason why the rule does not apply to this item, or None if it does."""
        return None

    def on_fail(self, context: VerificationContext) -> None:
        """Record more details of the failure after the veto. Does nothing by default."""

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Return True, or a `Skip` with the reason from `skip_because`."""
        why = self.skip_because(context)
        return True if why is None else Skip(why)

    def execute(self, context: VerificationContext) -> Awaitable[None] | None:
        """Veto the item and call `on_fail` if `reason` returns a reason; otherwise do nothing."""
        reason = self.reason(context)
        if reason is not None:
            context.veto(reason, self.veto_outcome)
            self.on_fail(context)
        return None
