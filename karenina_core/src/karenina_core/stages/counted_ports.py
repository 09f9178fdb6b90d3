"""Ports for one stage and item, which add the item to each call and count its usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from karenina_core.models.ports import (
    NO_INFO,
    NO_USAGE,
    AgentOptions,
    AgentReply,
    CallInfo,
    LLMReply,
    Message,
    ParserReply,
    PortError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.ports import AgentPort, LLMPort, ParserPort, Usage


class CallCounter(Protocol):
    """The counter of a stage's calls for one item, implemented by `VerificationContext`."""

    @property
    def call_info(self) -> CallInfo:
        """The item for which calls are made."""

    def shows_truth(self, messages: Sequence[Message]) -> bool:
        """Return whether the messages contain a prompt that shows ground truth."""

    def count(self, usage: Usage) -> None:
        """Add the usage of a call."""

    def count_failure(self, error: PortError | None = None) -> None:
        """Count a failed call."""

    def enter_workspace(self, folder: Path) -> None:
        """Note that agents work in the folder."""


class _CountedPort:
    __slots__ = ("_context",)

    def __init__(self, context: CallCounter) -> None:
        self._context = context

    async def aclose(self) -> None:
        """Do nothing: the run closes its ports."""

    def _info(self, info: CallInfo, messages: Sequence[Message]) -> CallInfo:
        """Return the stage's own info for the call, by default that of the item; always with the stage's notes."""
        if info is NO_INFO:
            info = self._context.call_info
        elif info.notes is None:
            info = replace(info, notes=self._context.call_info.notes)
        return replace(info, shows_truth=True) if self._context.shows_truth(messages) else info

    def _count_failure(self, error: PortError) -> None:
        """Count a failed call, and the usage of what it brought."""
        self._context.count_failure(error)
        for usage in (error.partial.usage if error.partial is not None else NO_USAGE, error.usage):
            if usage is not NO_USAGE:
                self._context.count(usage)


class CountedLLM(_CountedPort):
    """A port for text that counts the calls of one stage."""

    __slots__ = ("_port",)

    def __init__(self, context: CallCounter, port: LLMPort) -> None:
        super().__init__(context)
        self._port = port

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Make the call, and count its usage."""
        try:
            reply = await self._port.invoke(messages, info=self._info(info, messages))
        except PortError as error:
            self._count_failure(error)
            raise
        self._context.count(reply.usage)
        return reply


class CountedParser(_CountedPort):
    """A port for JSON that counts the calls of one stage."""

    __slots__ = ("_port",)

    def __init__(self, context: CallCounter, port: ParserPort) -> None:
        super().__init__(context)
        self._port = port

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Make the call, and count its usage."""
        try:
            reply = await self._port.parse(messages, schema, info=self._info(info, messages))
        except PortError as error:
            self._count_failure(error)
            raise
        self._context.count(reply.usage)
        return reply


class CountedAgent(_CountedPort):
    """A port for conversations that counts the calls of one stage."""

    __slots__ = ("_port",)

    def __init__(self, context: CallCounter, port: AgentPort) -> None:
        super().__init__(context)
        self._port = port

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Make the call, and count its usage."""
        if options.workspace is not None:
            self._context.enter_workspace(options.workspace)
        try:
            reply = await self._port.run(messages, options, info=self._info(info, messages))
        except PortError as error:
            self._count_failure(error)
            raise
        self._context.count(reply.usage)
        return reply
