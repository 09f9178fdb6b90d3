"""A stage's access to an item.

An item's data is stored in a `State`. Each stage gets its own context, which only allows the access that the stage
declares. Answer-scope stages write to the state of the answer, which is the parent of its items' states.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeVar, TypeVarTuple, get_origin

from anyio import to_thread

from karenina_core.artifacts.artifact import AnyKey, ArtifactKey
from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import FREE_FIELDS, KnownValue, RevisionRecord, VetoRecord
from karenina_core.errors import (
    ArtifactTypeError,
    MissingArtifact,
    NothingToRevise,
    UndeclaredArtifact,
    UndeclaredSetting,
)
from karenina_core.models.ports import CallInfo, Message, PortError
from karenina_core.models.prompts import PromptTask, assemble
from karenina_core.namespaces import read_owned
from karenina_core.stages.state import AtEnd, Item, ItemError, PortProvider, StageCalls, StagePort, State
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import Rubric
    from karenina_core.data.trust import Trust
    from karenina_core.models.attachments import Attachment
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, LLMPort, ParserPort
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask, StageAccess

__all__ = ["Item", "ItemError", "PortProvider", "State", "VerificationContext"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger = logging.getLogger("karenina")


class VerificationContext:
    """A stage's access to an item. The docstrings of this class are the contract between stages and the pipeline."""

    __slots__ = ("_planned", "_settings", "_state", "own_calls")

    def __init__(self, state: State, planned: StageAccess) -> None:
        self._state = state
        self._planned = planned
        self._settings: BaseModel | None = None
        self.own_calls: StageCalls | None = None
        """The stage's model calls, for the pipeline. None if the stage has not asked for a port or for `call_info`."""

    @property
    def calls(self) -> StageCalls:
        """The stage's model calls."""
        if self.own_calls is None:
            self.own_calls = StageCalls(self._state, self._planned)
        return self.own_calls

    # ---- what the item is

    @property
    def question(self) -> Question:
        """The question, with its raw answer and its merged rubric."""
        return self._state.item.question

    @property
    def rubric(self) -> Rubric | None:
        """The question's rubric, including global traits."""
        return self._state.item.question.rubric

    @property
    def answering_model(self) -> ModelConfig:
        """The model under test."""
        return self._state.item.answering_model

    @property
    def parsing_model(self) -> ModelConfig:
        """Return the judge. Raises `MissingArtifact` in answer-scope stages and in runs without judges."""
        model = self._state.item.parsing_model
        if model is None and self._planned.scope == "item":
            raise MissingArtifact(
                f"stage {self._planned.name} needs a judge, but none is configured; set parsing_models (--judge on "
                "the command line)"
            )
        if model is None:
            raise MissingArtifact(
                f"stage {self._planned.name} runs once for all judges of an answer, so there is no parsing model; "
                'pass the model explicitly, or give the stage scope = "item"'
            )
        return model

    @property
    def replicate(self) -> int:
        """The number of this repetition of the question, starting at 1."""
        return self._state.item.replicate

    @property
    def run_name(self) -> str | None:
        """The user's name for the run, or None."""
        return self._state.item.run_name

    @property
    def trust(self) -> Trust:
        """The user's trust in the benchmark's code and restricted values."""
        return self._state.item.trust

    @property
    def plugins(self) -> Plugins:
        """The plugins used in the run."""
        return self._state.item.ports.plugins

    @property
    def config(self) -> VerificationConfig:
        """The complete configuration. To read settings that another distribution owns, use `setting`, which works even
        if that distribution is not installed.
        """
        return self._state.item.config

    @property
    def settings(self) -> BaseModel:
        """The stage's own settings. Raises `UndeclaredSetting` if the stage has none."""
        if self._settings is None:
            model = self._planned.settings
            if model is None:
                raise UndeclaredSetting(f"stage {self._planned.name} declares no settings model")
            self._settings = self.config.section(model)
        return self._settings

    @property
    def question_settings(self) -> BaseModel:
        """The question's values for the stage's `question_settings`. Raises `UndeclaredSetting` if the stage declares
        no `question_settings`.
        """
        model = self._planned.question_settings
        if model is None:
            raise UndeclaredSetting(f"stage {self._planned.name} declares no question_settings")
        return read_owned(model, self.question.extra)

    def setting(self, name: str) -> Any:
        """Return the value of a setting, or its default from `reads` if the setting's owner is not installed. Raises
        `UndeclaredSetting` if it belongs neither to the core nor to the stage and is not listed in `reads`.
        """
        if name not in self._planned.readable:
            raise UndeclaredSetting(
                f"stage {self._planned.name} reads the setting {name!r} of another owner without declaring it; "
                f"add it to {self._planned.name}.reads"
            )
        config = self._state.item.config
        return config.setting(name) if config.has(name) else self._planned.other_settings[name]

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds the question's id to the start of each message."""
        return _StageLog(logger, {"stage": self._planned.name, "question": self.question.id})

    # ---- artifacts

    def get_artifact(self, key: ArtifactKey[T]) -> T:
        """Return the value of an artifact, which is None if it was set to None. Raises `MissingArtifact` if the
        artifact has not been set, and `UndeclaredArtifact` if the stage does not declare it.
        """
        if key.name not in self._planned.reads:
            self._check_read_of_all(key)
        value: T = self._state.read(key.name)
        if value is None and not self._state.has(key.name):
            raise MissingArtifact(
                f"stage {self._planned.name} reads the artifact {key.name!r}, which no stage has set for this item; "
                "use find_artifact if it may be missing"
            )
        return value

    def find_artifact(self, key: ArtifactKey[T]) -> T | None:
        """Return the value of an artifact, or None if it has not been set. Raises `UndeclaredArtifact` if the stage
        does not declare the artifact.
        """
        if key.name not in self._planned.reads:
            self._check_read_of_all(key)
        value: T | None = self._state.read(key.name)
        return value

    def set_artifact(self, key: ArtifactKey[T], value: T) -> None:
        """Set an artifact. If `key` is a standard key with a section, the result's field is set too.

        None is valid for every key. Raises `UndeclaredArtifact` if the stage does not declare that it produces the
        artifact, and `ArtifactTypeError` if the value has the wrong type.
        """
        if key.name not in self._planned.writes:
            raise UndeclaredArtifact(self._planned.name, key.name, "sets", "produces")
        if value is not None and type(value) is not key.type:
            self._check_type(key, value)
        self._state.artifacts[key.name] = value

    def revise_artifact(self, key: ArtifactKey[T], value: T, reason: str) -> None:
        """Replace an artifact that another stage produced, log a warning, and record the stage, both values and the
        reason in the result. Raises `NothingToRevise` if the artifact has not been set yet, `UndeclaredArtifact` if it
        is not in the stage's `revises`, and `ArtifactTypeError` if the value has the wrong type.
        """
        if key.name not in self._planned.revises:
            raise UndeclaredArtifact(self._planned.name, key.name, "revises", "revises")
        if not self._state.has(key.name):
            raise NothingToRevise(
                f"stage {self._planned.name} revises the artifact {key.name!r}, which has not been set for this item"
            )
        self._check_type(key, value)
        before = self._state.read(key.name)
        stage, why = self._planned.name, replace_surrogates(str(reason))
        change = RevisionRecord(artifact=key.name, stage=stage, before=before, after=value, reason=why)
        self._state.revisions.append(change)
        self._state.artifacts[key.name] = value
        self.log.warning("%s revises %s: %s", stage, key.name, why)

    def offer_value(
        self, name: str, value: Any, *, why: str | None = None, counts: Literal["undecided", "wrong"] = "undecided"
    ) -> None:
        """Offer a JSON value to template fields that name it as their source, or None with the reason `why` there is
        none. With None, `counts` determines whether such fields are undecided or wrong. Raises `UndeclaredArtifact` if
        the name is not in the stage's `offers`, `ArtifactTypeError` if `value` does not have the type declared there,
        and `ValueError` if it is not JSON, or None without a reason.

        `why` is only stored for None. Fields are undecided if no program could find the value, and wrong if the answer
        has no such value. The result contains the values that its template uses.
        """
        fitting = [offered for offered in self._planned.offers if fnmatchcase(name, offered)]
        if not fitting:
            raise UndeclaredArtifact(self._planned.name, name, "offers", "offers", kind="known value")
        kind = get_origin(declared := self._planned.offers[max(fitting, key=len)]) or declared
        if kind in (str, int, float, bool, list, dict):
            self._check_type(ArtifactKey(name, kind), value)
        if value is None and not why:
            raise ValueError(f"the known value {name!r} is None, but no reason was given; pass the reason as why=...")
        self._state.values[name] = KnownValue(value=value, why=why if value is None else None, counts=counts)

    @property
    def known_values(self) -> Mapping[str, KnownValue]:
        """The values that stages have offered for the item and its answer, keyed by name."""
        return self._state.all_values()

    def set_result_field(self, name: str, value: object) -> None:
        """Set a field of the result. `name` can be a standard field that has no artifact, such as rubric scores. Any
        other name sets `result.extensions[<the stage's distribution>][name]`. A set is stored as a sorted list.
        """
        self._fields_for(name)[name] = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value

    def offer_result_field(self, name: str, value: object) -> None:
        """Set a field of the result like `set_result_field`, unless the field is already set."""
        if name not in self._fields_for(name):
            self.set_result_field(name, value)

    def extend_result_field(self, name: str, more: Mapping[str, object] | Sequence[object]) -> None:
        """Add entries to a mapping or list in the result that several stages share, such as `trait_errors`. A new entry
        replaces one with the same key. Raises `ValueError` if the field already contains a different type of value.
        """
        before = (fields := self._fields_for(name)).get(name)
        if isinstance(more, Mapping) and isinstance(before, Mapping | None):
            fields[name] = {**(before or {}), **more}
        elif not isinstance(more, Mapping) and isinstance(before, list | tuple | None):
            fields[name] = [*(before or ()), *more]
        else:
            raise ValueError(  # noqa: TRY004 - the wrong value is another stage's, not an argument
                f"cannot add to the result field {name!r}, which already contains a {type(before).__name__}"
            )

    def _fields_for(self, name: str) -> dict[str, Any]:
        """Return the section of the result that contains the given field, creating the section if necessary."""
        section = FREE_FIELDS.get(name) or f"extensions:{self._planned.distribution}"
        return self._state.fields.setdefault(section, {})

    # ---- verdicts

    def veto(self, reason: str, outcome: Outcome = Outcome.AUTO_FAILED) -> None:
        """Declare that the item is not correct, and log the reason. Later stages still run. The first veto determines
        the item's outcome. The result lists all vetoes. Raises `ValueError` if `outcome` does not fail the item.
        """
        if Outcome(outcome).passes or not Outcome(outcome).judged:
            raise ValueError(f"{outcome} is not an outcome for a veto, which fails the item; use {Outcome.AUTO_FAILED}")
        stage, why = self._planned.name, replace_surrogates(str(reason))
        self._state.vetoes.append(VetoRecord(stage=stage, reason=why, outcome=Outcome(outcome)))
        self.log.warning("%s vetoes: %s", stage, why)

    @property
    def vetoes(self) -> Sequence[VetoRecord]:
        """The vetoes so far, starting with those from answer-scope stages."""
        return tuple(self._state.all_vetoes())

    def mark_error(self, message: str, outcome: Outcome = Outcome.STAGE_ERROR) -> None:
        """End the item without judging it, and log the error. Later stages are skipped, and only the first error is
        recorded and logged. Raises `ValueError` if `outcome` is an outcome for judged items.
        """
        if self._state.error is None:
            if Outcome(outcome).judged:
                raise ValueError(f"{outcome} is an outcome for judged items, not for errors")
            why = replace_surrogates(str(message))
            self._state.error = error = ItemError(self._planned.name, why, Outcome(outcome))
            self.log.error("%s failed: %s", error.stage, error.message)

    @property
    def error(self) -> ItemError | None:
        """The error that ended the item, or None."""
        return self._state.first_error()

    # ---- models

    def prompt(
        self,
        task: PromptTask,
        user: str,
        model: ModelConfig | None = None,
        *,
        attachments: tuple[Attachment, ...] = (),
    ) -> list[Message]:
        """Return the messages for a call to `model` (by default, the judge): its system prompt with the instructions
        from the task, the plugins and the user, the task's examples, and a last message with `user` and the
        `attachments`. Raises `MissingArtifact` if there is neither a `model` nor a judge.

        `user` is not changed. The question's attachments are not sent unless they are given here.
        """
        chosen = model or self.parsing_model
        added = self._state.item.ports.instructions(task.name, chosen.interface)
        own = self.config.core.prompt_config
        messages = assemble(
            task, user, system_prompt=chosen.system_prompt, added=added, user_instructions=own, attachments=attachments
        )
        if task.shows_truth:
            self.calls.with_truth.append(messages[-1])
        return messages

    def llm(self, model: ModelConfig | None = None) -> LLMPort:
        """Return the plain-text port of `model` (by default, the judge)."""
        return StagePort(self.calls, model or self.parsing_model)

    def parser(self, model: ModelConfig | None = None) -> ParserPort:
        """Return the JSON port of `model` (by default, the judge)."""
        return StagePort(self.calls, model or self.parsing_model)

    def agent(self, model: ModelConfig | None = None) -> AgentPort:
        """Return the port of `model` (by default, the judge) for conversations with tools."""
        return StagePort(self.calls, model or self.parsing_model)

    @property
    def call_info(self) -> CallInfo:
        """Information about this item, which calls include by default."""
        return self.calls.info

    def count_failure(self, error: PortError | None = None) -> None:
        """Record that a call failed on every attempt, so that a resumed run runs the item again. If `error` is a
        `NoRecordedReply`, the stage fails with it when it ends.
        """
        self.calls.count_failure(error)

    def answers_through_agent(self) -> bool:
        """Return whether the adapter requires this answer to come through the agent port."""
        return self._state.item.ports.answers_through_agent(self.answering_model, self.call_info)

    def answer_is_recorded(self) -> bool:
        """Return whether the answer is a recording. The adapter decides this."""
        return self._state.item.ports.recorded(self.answering_model)

    async def consult(
        self, service: str, query: str, ask: Ask, *, seconds: float | None = None, per_replicate: bool = True
    ) -> str:
        """Return the reply of a service that is not a model, such as a search or database: the stored reply to the same
        `service` and `query`, or else that of `ask`, which makes a single request. Raises `PortError` if all attempts
        fail.

        The reply is stored in the journal, and taken from there when a run is resumed or replayed. Temporary failures
        are retried, and identical concurrent queries are only sent once. Failures are not stored, so a resumed run runs
        the item again.

        Include everything on which the reply depends in `query` (as JSON if there are several values), but no secrets.
        The request must finish within `request_timeout` seconds. `ask` may return an awaitable. A plain function runs
        in a thread. With `seconds`, that is the limit instead, and there is only one attempt. Without `per_replicate`,
        repetitions of the question share the reply.

        If `ask` raises a `PortError`, its category determines whether to retry. All other exceptions are permanent
        errors.
        """
        try:
            info = self.call_info if per_replicate else replace(self.call_info, replicate=1)
            return await self._state.item.ports.consult(service, query, ask, info, seconds)
        except PortError as error:
            self.calls.count_failure(error)
            raise

    # ---- work

    def at_end(self, callback: AtEnd) -> None:
        """Call `callback` when the item has ended, even after errors.

        For answer-scope stages, this is when the answer's last item has ended. Callbacks run in reverse order and may
        return an awaitable. Their errors are only logged.
        """
        self._state.at_end.append(callback)

    def enter_workspace(self, folder: Path) -> None:
        """Record that agents are working in a folder. This is called automatically before an agent runs there."""
        self._state.enter_workspace(folder)

    async def leave_workspace(self, folder: Path) -> None:
        """End the processes that agents started in the folder, unless other items are using it.

        Call this before removing a workspace. Otherwise, it is called automatically after the last stage of the item
        or, for answer-scope stages, of the answer.
        """
        await self._state.leave_workspace(folder)

    async def in_thread(self, function: Callable[[*Ts], T], *arguments: *Ts, abandon: bool = False) -> T:
        """Run a function in a thread, and return its result. Use this for work that takes more than a few milliseconds.

        A thread cannot be stopped. If the item is cancelled (`item_timeout`, Ctrl-C), it therefore waits for the thread
        to finish. Set `abandon` to skip this wait, which is only safe for functions without side effects.
        """
        return await to_thread.run_sync(function, *arguments, abandon_on_cancel=abandon)

    # ---- for the pipeline and the finalizer

    @property
    def state(self) -> State:
        """The state of the item, for stages that read everything (`optional = ANY`). Raises `UndeclaredArtifact` for
        any other stage.
        """
        if not self._planned.reads_everything:
            raise UndeclaredArtifact(self._planned.name, "*", "reads", "`optional` (as optional = ANY)")
        return self._state

    def _check_read_of_all(self, key: AnyKey) -> None:
        """Raise `UndeclaredArtifact` unless the stage declares that it reads all artifacts."""
        if not self._planned.reads_everything:
            raise UndeclaredArtifact(self._planned.name, key.name, "reads", "requires or optional")

    def _check_type(self, key: AnyKey, value: object) -> None:
        """Raise `ArtifactTypeError` if the value has the wrong type for `key`. None is always valid."""
        if not key.accepts(value):
            requirement = f"{key.type.__name__}; {key.cure}" if key.cure else key.type.__name__
            what = f"stage {self._planned.name} of {self._planned.distribution} set {key.name!r}"
            raise ArtifactTypeError(f"{what} to a {type(value).__name__}, but its type is {requirement}")


class _StageLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the message prefixed with the question's id."""
        return f"[{(self.extra or {}).get('question')}] {msg}", kwargs
