"""Karenina adapter for recorded answers, which calls no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_manual.settings import ManualExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, AgentReply, CallInfo, LLMPort

__all__ = ["ManualExtra", "plugin"]


def _llm(model: ModelConfig) -> LLMPort:
    """Return the LLM port. Like the functions below, this imports the module on first use."""
    from karenina_manual.ports import RecordedLLM

    return RecordedLLM(model)


def _agent(model: ModelConfig) -> AgentPort:
    from karenina_manual.ports import RecordedAgent

    return RecordedAgent(model)


def _check(model: ModelConfig) -> None:
    """Raise `AdapterConfigError` if the model has no recordings or a recording is invalid."""
    from karenina_manual.recordings import recordings_of

    recordings_of(model).check()


def _mismatches(model: ModelConfig, asked: Iterable[CallInfo], others: Iterable[CallInfo]) -> list[str]:
    """Return messages about questions in `asked` that have no recording, and recordings that have no question.
    Recordings for questions in `others`, which are not part of the run, are not reported.
    """
    from karenina_manual.recordings import recordings_of

    return recordings_of(model).mismatches(asked, others)


def _needs_agent(model: ModelConfig) -> Callable[[CallInfo], bool]:
    """Return a function that returns whether the recording for a call is a conversation."""
    from karenina_manual.recordings import recordings_of

    return recordings_of(model).is_conversation


def _recording(model: ModelConfig, info: CallInfo) -> AgentReply:
    """Return the recorded answer for a call. Raises `PortError` if there is none."""
    from karenina_manual.ports import find_reply
    from karenina_manual.recordings import recordings_of

    return find_reply(model, recordings_of(model), info)


def _concurrency(model: ModelConfig) -> int:  # noqa: ARG001 - the same for all recordings
    """Return a limit on concurrent calls. No call waits for it, because recordings are read without waiting, but it
    determines how many items are in progress. Many more would not fit into a processor's caches, which takes longer.
    """
    return 64


SPEC = AdapterSpec(
    interface="manual",
    recorded=True,
    llm=_llm,
    agent=_agent,
    extra=ManualExtra,
    description="Recorded answers and conversations, by question id or text, from a file or a mapping.",
    allowed_in_files=True,
    check=_check,
    mismatches=_mismatches,
    recording=_recording,
    needs_agent=_needs_agent,
    concurrency=_concurrency,
    uses=("manual_traces",),
)


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with the `manual` adapter."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> list[AdapterSpec]:
        """Return the adapter for the `manual` interface."""
        return [SPEC]
