"""What a stage is: `Stage` and its two bases, `CheckStage` and `AutoFailStage`."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from karenina_core.artifacts.artifact import AnyKey, ArtifactKey
from karenina_core.data.outcome import Outcome
from karenina_core.errors import StructuredError
from karenina_core.models.ports import PortError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.artifacts.slots import Slot
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import RubricTrait
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.prompts import PromptTask
    from karenina_core.models.source_folder import SourceFolder
    from karenina_core.plugins import Plugins
    from karenina_core.stages.context import VerificationContext

Scope = Literal["item", "answer"]


@dataclass(frozen=True, slots=True)
class ModelNeed:
    """A model that a stage will call, what it is there (`role`, for messages) and the ports that it must have."""

    role: str
    model: ModelConfig
    ports: frozenset[str]


@dataclass(frozen=True, slots=True)
class ServiceNeed:
    """A service that a stage will consult and that cannot be asked here: `problem` says which, why and what to do.

    It refuses a run, save one that asks nobody.
    """

    problem: str


Need = ModelNeed | ServiceNeed


@dataclass(slots=True, unsafe_hash=True)
class Skip:
    """Why a stage is left out of a plan or does not run for an item. It is falsy."""

    why: str

    def __bool__(self) -> bool:
        return False


class Stage:
    """One step from a question to its result. Subclasses declare; the plan orders; the pipeline runs.

    One object serves all items of a run at once, so it keeps nothing of an item: everything goes through the context.

    - `slot`: the slot that it fills, or None for an extra stage, placed by its relations alone.
    - `requires`: artifacts that it cannot do without; it is skipped where their producer did not run.
    - `optional`: artifacts that it reads if there are any; it stands after their producer.
    - `produces`: artifacts that it creates; a stage that ran has set all of them (None is a value).
    - `revises`: artifacts of others that it may replace; every other reader comes after the last reviser.
    - `after`, `before`: stage names, or slots (whoever fills them); they order, pull nothing in, and are ignored where
      nobody of that name is in the plan.
    - `scope`: `"item"`, or `"answer"` for what is run once for all judges of an answer.
    - `settings`: the pydantic model of the configuration fields that the stage owns (stages of one distribution may
      share one); `reads`: names of other owners that it looks at, each with the value that it has if its owner is not
      installed.
    - `trait_settings`: the pydantic model of the fields of rubric traits that the stage owns; their values are in the
      `extra` of a trait, and the stage checks them before a run.
    - `prompts`: what it asks models, so that it can be shown without asking; `judge_ports`: the ports of a judge that
      it calls, which a run checks before any call.
    - `usage_key`: the name under which its model calls are counted.
    - `precedence`, `fallback`: in a slot that takes one stage, the included stage of the highest precedence stands,
      else the one marked as fallback.
    - `error_outcome`: what an item ends in when the stage raises.
    - `runs_after_error`: whether it runs although an earlier stage failed.
    """

    name: ClassVar[str]
    slot: ClassVar[Slot | None] = None
    requires: ClassVar[Set[AnyKey]] = frozenset()
    optional: ClassVar[Set[AnyKey]] = frozenset()
    produces: ClassVar[Set[AnyKey]] = frozenset()
    revises: ClassVar[Set[AnyKey]] = frozenset()
    after: ClassVar[Set[str | Slot]] = frozenset()
    before: ClassVar[Set[str | Slot]] = frozenset()
    scope: ClassVar[Scope] = "item"
    settings: ClassVar[type[BaseModel] | None] = None
    trait_settings: ClassVar[type[BaseModel] | None] = None
    reads: ClassVar[Mapping[str, object]] = MappingProxyType({})
    prompts: ClassVar[tuple[PromptTask, ...]] = ()
    judge_ports: ClassVar[Set[str]] = frozenset({"parser"})
    usage_key: ClassVar[str | None] = None
    precedence: ClassVar[int] = 0
    fallback: ClassVar[bool] = False
    error_outcome: ClassVar[Outcome] = Outcome.STAGE_ERROR
    runs_after_error: ClassVar[bool] = False

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Whether the stage belongs into the plan of `question`. Asked when the plan is made; pure.

        Raises `ConfigError` where it does and the configuration cannot work: its problems are those of the plan, before
        anything is paid for.

        By default a stage is included, save in slots that take one stage: there nothing changes until configuration
        says so.
        """
        from karenina_core.artifacts.slots import SLOT_RULES

        if self.slot is not None and SLOT_RULES[self.slot].single:
            return Skip("not asked for by the configuration")
        return True

    def scores(self, trait: RubricTrait) -> bool:
        """Whether a stage of the rubric slot is for this trait. A trait without a stage is a problem of the plan."""
        return True

    def checks_question(self, config: VerificationConfig, question: Question) -> bool:
        """Whether `before_run` has to see `question`. Asked of every question that it is in the plan of; cheap.

        A stage that needs to see few of them says so, and spares a run over many the reading of the others.
        """
        return True

    def needs_judge(self, config: VerificationConfig, question: Question, trust: Trust) -> bool:
        """Return whether the stage will call the judge for `question`, so that a run without judges is refused.

        By default a stage that has prompts does. `trust` says which code of the question may be executed.
        """
        return bool(self.prompts)

    def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
        """The folders outside of the benchmark whose files decide what is found out about `question`. Asked often.

        Where a file in one has changed, the item runs again although a journal has its result, and agents in a
        workspace are asked again. A folder that runs change themselves does not belong here: no later run would find it
        as the first did.
        """
        return ()

    def before_any_run(self, config: VerificationConfig) -> None:
        """Look once at the configuration of a run, whether the stage is in a plan of it or not.

        Called for every installed stage when a run is prepared, before any call. May log a warning of settings that
        have no effect. Raises `ValueError` (or `ConfigError`) for a configuration that cannot work, which refuses the
        run. A context variable that is set here is seen by all that is done in the run.
        """

    def before_run(self, config: VerificationConfig, questions: Sequence[Question], trust: Trust) -> Iterable[Need]:
        """Look once, before anything is asked, at what would fail the items of `questions`, which it wants to look at.

        `trust` says which code of the questions may be executed.
        Gives the models that it calls with the ports that they must have, where the usual ones (text and JSON of the
        judges) are not all, which the run checks, and services that it will consult and cannot. Raises `ValueError`
        for anything else that it cannot work with; it may also log a warning.
        """
        return ()

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Whether the stage runs for this item. Asked only where all that it requires is there and nothing failed."""
        return True

    def execute(self, context: VerificationContext) -> Awaitable[None] | None:
        """Do the work. An `async def` where it waits; a plain `def` for what takes less than some milliseconds."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does: define execute()")


@dataclass(frozen=True, slots=True)
class RegisteredStage:
    """A stage class with the distribution that offers it."""

    stage: type[Stage]
    distribution: str
    version: str


def registered_stages(plugins: Plugins) -> tuple[RegisteredStage, ...]:
    """Return all stages that are offered, sorted by name and distribution."""
    return tuple(RegisteredStage(one.value, one.distribution, one.version) for one in plugins.of_kind("stage"))


@dataclass(frozen=True, slots=True)
class Detection:
    """What a check found. `performed` is False where it could not look; `detected` is None then."""

    detected: bool | None
    performed: bool = True
    reasoning: str | None = None


class CheckStage(Stage):
    """A question put to the answer before it is parsed; it may veto.

    `prefix` names its four artifacts: `<prefix>_check_performed`, `_detected`, `_override_applied`, `_reasoning`, which
    are declared by themselves. Each is in the result: a prefix of a plugin's own in its part of the extensions. A check
    that fails is no failure of the item: it is recorded as not performed.
    """

    prefix: ClassVar[str]
    veto_outcome: ClassVar[Outcome] = Outcome.AUTO_FAILED

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "prefix" in cls.__dict__:
            cls.produces = frozenset(cls.produces) | set(cls.check_keys())

    @classmethod
    def check_keys(cls) -> tuple[AnyKey, AnyKey, AnyKey, AnyKey]:
        """The four keys that follow from the prefix: performed, detected, override applied, reasoning."""
        from karenina_core.artifacts.keys import standard_keys

        known = standard_keys()

        def key(suffix: str, type: type) -> AnyKey:
            name = f"{cls.prefix}_{suffix}"
            return known.get(name) or ArtifactKey(name, type)

        return (
            key("check_performed", bool),
            key("detected", bool),
            key("override_applied", bool),
            key("reasoning", str),
        )

    async def detect(self, context: VerificationContext) -> Detection:
        """Look at the answer. May raise `PortError` or `StructuredError`, which count as not performed."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it looks: define detect()")

    def triggers(self, detected: bool) -> bool:
        """Whether what was found fails the item."""
        return detected

    def veto_reason(self, detection: Detection) -> str:
        """The reason that the veto gives."""
        return f"{self.prefix} check: {detection.reasoning or 'detected'}"

    async def execute(self, context: VerificationContext) -> None:
        """Detect, record, and veto where the check triggers."""
        try:
            found = await self.detect(context)
        except (PortError, StructuredError) as error:
            context.log.warning("%s could not be performed: %s", self.name, error)
            found = Detection(None, performed=False, reasoning=f"not performed: {error}")
        override = found.performed and found.detected is not None and self.triggers(found.detected)
        values = (found.performed, found.detected if found.performed else None, override, found.reasoning)
        for key, value in zip(self.check_keys(), values, strict=True):
            context.set_artifact(key, value)
            if key.section is None:
                context.set_result_field(key.name, value)
        if override:
            context.veto(self.veto_reason(found), self.veto_outcome)


class AutoFailStage(Stage):
    """A rule that fails an item; what was found is kept, and no model is asked."""

    veto_outcome: ClassVar[Outcome] = Outcome.AUTO_FAILED

    def reason(self, context: VerificationContext) -> str | None:
        """Why the item fails, or None where it does not."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it fails: define reason()")

    def skip_because(self, context: VerificationContext) -> str | None:
        """Why the rule does not apply to this item, or None where it does."""
        return None

    def on_fail(self, context: VerificationContext) -> None:
        """Record more about a failure."""

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Skips with what `skip_because` says."""
        why = self.skip_because(context)
        return True if why is None else Skip(why)

    def execute(self, context: VerificationContext) -> Awaitable[None] | None:
        """Veto where there is a reason."""
        reason = self.reason(context)
        if reason is not None:
            context.veto(reason, self.veto_outcome)
            self.on_fail(context)
        return None
