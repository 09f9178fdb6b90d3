"""`VerificationContext`: what a stage sees of the item that it works on, and where it leaves what it found.

An item's facts live in a `State`; a stage never touches it, but gets a view made for this one stage, which refuses
what the stage did not declare. Answer-scope stages write to the state of the answer, which every judge's item has as
parent and can only read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, cast

from anyio import to_thread

from karenina_core.artifacts.artifact import AnyKey, ArtifactKey
from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import FREE_FIELDS, RevisionRecord, VetoRecord
from karenina_core.errors import (
    ArtifactTypeError,
    MissingArtifact,
    NothingToRevise,
    UndeclaredArtifact,
    UndeclaredSetting,
)
from karenina_core.models.ports import NO_USAGE, CallInfo, CallNotes, Message, NoRecordedReply, PortError, Usage
from karenina_core.models.prompts import PromptTask, assemble
from karenina_core.stages.counted_ports import CountedAgent, CountedLLM, CountedParser
from karenina_core.stages.state import AtEnd, Item, ItemError, PortProvider, State
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import Rubric
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, LLMPort, ParserPort
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask

__all__ = ["Item", "ItemError", "PortProvider", "State", "VerificationContext"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger = logging.getLogger("karenina")


class StageDeclaration(Protocol):
    """What a stage's class says of its model calls and settings (`karenina_core.stages.stage.Stage`)."""

    @property
    def scope(self) -> str:
        """Whether it runs once for each item, or once for each answer."""

    @property
    def settings(self) -> type[BaseModel] | None:
        """Its settings model."""

    @property
    def reads(self) -> Mapping[str, Any]:
        """The names of other owners that it reads, with their defaults."""


class StageAccess(Protocol):
    """A stage with what it may read and write, as its plan has it (`karenina_core.planning.plan.PlannedStage`)."""

    @property
    def stage(self) -> StageDeclaration:
        """The stage."""

    @property
    def name(self) -> str:
        """The stage's name."""

    @property
    def distribution(self) -> str:
        """The distribution that has it."""

    @property
    def usage_key(self) -> str:
        """The name under which its model calls are counted."""

    @property
    def reads(self) -> frozenset[str]:
        """The names of the artifacts that it may read."""

    @property
    def writes(self) -> frozenset[str]:
        """The names of the artifacts that it creates."""

    @property
    def revises(self) -> frozenset[str]:
        """The names of the artifacts that it may replace."""

    @property
    def reads_everything(self) -> bool:
        """Whether it may read every artifact."""

    def reads_setting(self, name: str) -> bool:
        """Return whether it may read the configuration name."""


class VerificationContext:
    """The view of one stage on one item. Its docstrings are the contract of stages with the pipeline."""

    __slots__ = (
        "_failed_calls",
        "_info",
        "_no_recorded_reply",
        "_planned",
        "_settings",
        "_state",
        "_usage",
        "_with_truth",
    )

    def __init__(self, state: State, planned: StageAccess) -> None:
        self._state = state
        self._planned = planned
        self._usage = NO_USAGE
        self._info: CallInfo | None = None
        self._failed_calls = 0
        self._no_recorded_reply: NoRecordedReply | None = None
        self._settings: BaseModel | None = None
        self._with_truth: list[Message] = []

    # ---- what the item is

    @property
    def question(self) -> Question:
        """The question, with its raw answer and merged rubric."""
        return self._state.item.question

    @property
    def rubric(self) -> Rubric | None:
        """The question's rubric, global traits included."""
        return self._state.item.question.rubric

    @property
    def answering_model(self) -> ModelConfig:
        """The model under test."""
        return self._state.item.answering_model

    @property
    def parsing_model(self) -> ModelConfig:
        """The judge. Raises `MissingArtifact` in answer-scope stages, which stand before there is a judge, and in a run
        without judges."""
        model = self._state.item.parsing_model
        if model is None and self._planned.stage.scope == "item":
            raise MissingArtifact(
                f"stage {self._planned.name} asks a judge, and there is none: set parsing_models (--judge on the "
                "command line)"
            )
        if model is None:
            raise MissingArtifact(
                f"stage {self._planned.name} runs once for all judges of an answer, so there is no parsing model; "
                'give the model explicitly, or make the stage scope = "item"'
            )
        return model

    @property
    def replicate(self) -> int:
        """Which repetition of the question it is, from 1."""
        return self._state.item.replicate

    @property
    def run_name(self) -> str | None:
        """The name that the user gave the run."""
        return self._state.item.run_name

    @property
    def trust(self) -> Trust:
        """Which code that came with a checkpoint the user trusts."""
        return self._state.item.trust

    @property
    def plugins(self) -> Plugins:
        """The plugins of the run."""
        return self._state.item.ports.plugins

    @property
    def config(self) -> VerificationConfig:
        """The whole configuration. Read a name of another owner through `setting`, which works without the owner."""
        return self._state.item.config

    @property
    def settings(self) -> BaseModel:
        """The stage's own settings model, filled from the configuration."""
        if self._settings is None:
            model = self._planned.stage.settings
            if model is None:
                raise UndeclaredSetting(f"stage {self._planned.name} declares no settings model")
            self._settings = self.config.section(model)
        return self._settings

    def setting(self, name: str) -> Any:
        """The value of a configuration name, which the stage owns or lists in `reads`; else `UndeclaredSetting`.

        If the owner is not installed it is the value that `reads` gives.
        """
        if not self._planned.reads_setting(name):
            raise UndeclaredSetting(
                f"stage {self._planned.name} reads the setting {name!r} of another owner without saying so: "
                f"add it to {type(self._planned.stage).__name__}.reads"
            )
        return self.config.setting(name) if self.config.has(name) else self._planned.stage.reads[name]

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines name the stage and the question."""
        return _StageLog(logger, {"stage": self._planned.name, "question": self.question.id})

    # ---- artifacts

    def get_artifact(self, key: ArtifactKey[T]) -> T:
        """The artifact's value. Raises `MissingArtifact` where nobody set it, `UndeclaredArtifact` if undeclared."""
        self._check_read(key)
        value = self._state.read(key.name)
        if value is None and not self._state.has(key.name):
            raise MissingArtifact(
                f"stage {self._planned.name} asked for the artifact {key.name!r}, which no stage has set for this "
                "item; use find_artifact where it may be absent"
            )
        return cast("T", value)

    def find_artifact(self, key: ArtifactKey[T]) -> T | None:
        """The artifact's value, or None where nobody has set it. Raises `UndeclaredArtifact` if undeclared."""
        self._check_read(key)
        return cast("T | None", self._state.read(key.name))

    def set_artifact(self, key: ArtifactKey[T], value: T) -> None:
        """Create an artifact. A standard key fills its result field too."""
        if key.name not in self._planned.writes:
            raise UndeclaredArtifact(self._planned.name, key.name, "sets", "produces")
        if type(value) is not key.type:
            self._check_type(key, value)
        self._state.artifacts[key.name] = value

    def revise_artifact(self, key: ArtifactKey[T], value: T, reason: str) -> None:
        """Replace what another stage produced. Who, from, to and why stand in the result.

        Raises `NothingToRevise` where there is no value yet.
        """
        if key.name not in self._planned.revises:
            raise UndeclaredArtifact(self._planned.name, key.name, "revises", "revises")
        if not self._state.has(key.name):
            raise NothingToRevise(
                f"stage {self._planned.name} revises the artifact {key.name!r}, which no stage has produced for it"
            )
        self._check_type(key, value)
        before = self._state.read(key.name)
        stage, why = self._planned.name, replace_surrogates(str(reason))
        change = RevisionRecord(artifact=key.name, stage=stage, before=before, after=value, reason=why)
        self._state.revisions.append(change)
        self._state.artifacts[key.name] = value
        self.log.warning("%s revises %s: %s", stage, key.name, why)

    def set_result_field(self, name: str, value: object) -> None:
        """Put a value into the result.

        Fields of the standard sections that no artifact stands for (the rubric's scores, say) land there; any other
        name lands in `result.extensions[<distribution of the stage>]`.
        """
        self._fields_for(name)[name] = value

    def offer_result_field(self, name: str, value: object) -> None:
        """Like `set_result_field`, where no earlier stage has set the field."""
        self._fields_for(name).setdefault(name, value)

    def extend_result_field(self, name: str, more: Mapping[str, object] | Sequence[object]) -> None:
        """Add to a result field that is a mapping or a list (`trait_errors`), to which several stages contribute.

        Entries of other names stay as they are. Raises `ValueError` where the field holds something else.
        """
        fields = self._fields_for(name)
        before = fields.get(name)
        if isinstance(more, Mapping) and isinstance(before, Mapping | None):
            fields[name] = {**(before or {}), **more}
        elif not isinstance(more, Mapping) and isinstance(before, list | tuple | None):
            fields[name] = [*(before or ()), *more]
        else:
            raise ValueError(  # noqa: TRY004 - it is the value of another stage, not an argument
                f"the result field {name!r} holds a {type(before).__name__}, to which this cannot be added"
            )

    def _fields_for(self, name: str) -> dict[str, Any]:
        section = FREE_FIELDS.get(name, f"extensions:{self._planned.distribution}")
        return self._state.fields.setdefault(section, {})

    # ---- verdicts

    def veto(self, reason: str, outcome: Outcome = Outcome.AUTO_FAILED) -> None:
        """Say that the item cannot be correct, and why. The first veto decides the outcome; all are kept."""
        stage, why = self._planned.name, replace_surrogates(str(reason))
        self._state.vetoes.append(VetoRecord(stage=stage, reason=why, outcome=Outcome(outcome)))
        self.log.warning("%s vetoes: %s", stage, why)

    @property
    def vetoes(self) -> Sequence[VetoRecord]:
        """The vetoes so far, the answer's first."""
        return tuple(self._state.all_vetoes())

    def mark_error(self, message: str, outcome: Outcome = Outcome.STAGE_ERROR) -> None:
        """End the item: it is not judged, and later stages are skipped. The first error stands."""
        if self._state.error is None:
            if Outcome(outcome).judged:
                raise ValueError(f"{outcome} is the outcome of an item that was judged, and not of an error")
            self._state.error = error = ItemError(
                self._planned.name, replace_surrogates(str(message)), Outcome(outcome)
            )
            self.log.error("%s failed: %s", error.stage, error.message)

    @property
    def error(self) -> ItemError | None:
        """The error that ended the item, if any."""
        return self._state.first_error()

    # ---- models

    def prompt(self, task: PromptTask, user: str, model: ModelConfig | None = None) -> list[Message]:
        """The messages of one question to a model: its own system prompt, then what the task, plugins and user add."""
        chosen = model or self.parsing_model
        added = self._state.item.ports.instructions(task.name, chosen.interface)
        own = self.config.core.prompt_config
        messages = assemble(task, user, system_prompt=chosen.system_prompt, added=added, user_instructions=own)
        if task.shows_truth:
            self._with_truth.append(messages[-1])
        return messages

    def shows_truth(self, messages: Sequence[Message]) -> bool:
        """Return whether the messages hold the user's part of a prompt of this stage that shows ground truth."""
        return any(message is shown for shown in self._with_truth for message in messages)

    def llm(self, model: ModelConfig | None = None) -> LLMPort:
        """The port for plain text of `model` (default: the judge). Calls count under the stage's `usage_key`."""
        return CountedLLM(self, self._state.item.ports.llm(model or self.parsing_model))

    def parser(self, model: ModelConfig | None = None) -> ParserPort:
        """The port for JSON of `model` (default: the judge). Calls count under the stage's `usage_key`."""
        return CountedParser(self, self._state.item.ports.parser(model or self.parsing_model))

    def agent(self, model: ModelConfig | None = None) -> AgentPort:
        """The port for conversations with tools of `model` (default: the judge)."""
        return CountedAgent(self, self._state.item.ports.agent(model or self.parsing_model))

    def answers_through_agent(self) -> bool:
        """Whether the answering model's adapter asks for the agent port for this answer."""
        return self._state.item.ports.answers_through_agent(self.answering_model, self.call_info)

    def answer_is_recorded(self) -> bool:
        """Whether the answer was recorded earlier, as the answering model's adapter declares."""
        return self._state.item.ports.recorded(self.answering_model)

    async def consult(self, service: str, query: str, ask: Ask) -> str:
        """What `ask` brings from a service that is no model (a search, a database), in the way of every call.

        It is kept in the journal before it is used, given out of it when a run goes on or is replayed, repeated where
        it fails for a while, and shared by all who ask the same at once; a failure is never kept as an answer, and the
        item runs again when its run goes on. `service` and `query` tell it from others: together they hold all that
        decides what is found (as JSON where that is several things), and no secret. `ask` asks once, by itself or as an
        awaitable, for at most `request_timeout` seconds; a plain function runs in a thread. Raises `PortError`; where
        `ask` raises one, its category decides whether it is made again, and any other exception is for good.
        """
        try:
            return await self._state.item.ports.consult(service, query, ask, self.call_info)
        except PortError as error:
            self.count_failure(error)
            raise

    # ---- work

    def at_end(self, callback: AtEnd) -> None:
        """Call `callback` when the item, or for answer-scope stages the last item of the answer, has ended."""
        self._state.at_end.append(callback)

    def enter_workspace(self, folder: Path) -> None:
        """Note that agents work in the folder. Ports do so themselves, before an agent runs there."""
        self._state.enter_workspace(folder)

    async def leave_workspace(self, folder: Path) -> None:
        """End what was started for agents in the folder, where no other item works there.

        Who removes a workspace calls it first. Else it is done after the last stage of the item or, for answer-scope
        stages, of the answer.
        """
        await self._state.leave_workspace(folder)

    async def in_thread(self, function: Callable[[*Ts], T], *arguments: *Ts, abandon: bool = False) -> T:
        """Run what computes for more than some milliseconds in a thread, so that other items go on.

        A thread cannot be ended: an item that is cut off (`item_timeout`, Ctrl-C) waits for it, unless `abandon` leaves
        it to itself, which is for functions of others that change nothing which somebody needs.
        """
        return await to_thread.run_sync(function, *arguments, abandon_on_cancel=abandon)

    # ---- for the pipeline and the finalizer

    @property
    def call_info(self) -> CallInfo:
        """For which item calls are made."""
        if self._info is None:
            item = self._state.item
            question, planned = item.question, self._planned
            self._info = CallInfo(
                question.id,
                question.question,
                item.replicate,
                planned.usage_key,
                item.order,
                CallNotes(),
                planned.name,
                shared := planned.stage.scope == "answer",
                judge="" if shared or item.parsing_model is None else item.parsing_model.id,
                sources=item.sources,
            )
        return self._info

    @property
    def usage(self) -> Usage:
        """What this stage used so far."""
        return self._usage

    @property
    def notes(self) -> CallNotes | None:
        """What the stage's calls took so far; None where it made none."""
        return self._info.notes if self._info is not None else None

    @property
    def state(self) -> State:
        """All facts about the item. Only a stage that reads everything (`optional = ANY`) may look."""
        if not self._planned.reads_everything:
            raise UndeclaredArtifact(self._planned.name, "*", "reads", "optional = ANY")
        return self._state

    @property
    def failed_calls(self) -> int:
        """How many calls of this stage brought no reply."""
        return self._failed_calls

    @property
    def no_recorded_reply(self) -> NoRecordedReply | None:
        """The first call of this stage that a run which asks nobody had no reply to."""
        return self._no_recorded_reply

    def count_failure(self, error: PortError | None = None) -> None:
        """Note that a call brought no reply, in all its tries."""
        self._failed_calls += 1
        if isinstance(error, NoRecordedReply) and self._no_recorded_reply is None:
            self._no_recorded_reply = error

    def count(self, usage: Usage) -> None:
        """Add what a call used, under the stage's `usage_key`."""
        self._usage = self._usage + usage
        totals = self._state.usage
        key = self._planned.usage_key
        totals[key] = totals.get(key, NO_USAGE) + usage

    def _check_read(self, key: AnyKey) -> None:
        if key.name not in self._planned.reads and not self._planned.reads_everything:
            raise UndeclaredArtifact(self._planned.name, key.name, "reads", "requires or optional")

    def _check_type(self, key: AnyKey, value: object) -> None:
        if not key.accepts(value):
            wanted = f"{key.type.__name__}: {key.cure}" if key.cure else key.type.__name__
            stage, distribution = self._planned.name, self._planned.distribution
            raise ArtifactTypeError(stage, distribution, key.name, wanted, type(value).__name__)


class _StageLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return f"[{(self.extra or {}).get('question')}] {msg}", kwargs
