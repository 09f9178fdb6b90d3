"""The tools of a run's agents: each source is opened once per workspace, shared by its users, and then closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karenina_core.config import registered_adapters
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_engine.calls.hookspecs import karenina_tool_sources

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool
    from karenina_core.plugins import Plugins
    from karenina_toolkit.agents.tool_sources import ToolSource

_Key = tuple[str, str, "Path | None"]
_OWN_FIELDS = ("mcp_urls_dict", "mcp_tool_filter", "mcp_tool_description_overrides", "mcp_server_options")

logger = logging.getLogger("karenina")


@dataclass(slots=True)
class ToolSessions:
    """The open tool sources of a run.

    There is one session for each combination of source, workspace and `mcp_` fields (models with the same fields share
    it). A session lasts as long as items use its workspace or, without a workspace, as long as the run.
    """

    plugins: Plugins
    _open: dict[_Key, _Session] = field(default_factory=dict)
    _users: dict[Path, int] = field(default_factory=dict)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)

    async def tools(self, model: ModelConfig, workspace: Path | None) -> tuple[Tool, ...]:
        """Return the tools that the model is configured to have in that workspace. Raises `PortError`.

        If a source could not be opened, the next call tries again.
        """
        sources = [source for source in list_tool_sources(self.plugins) if source.applies_to(model)]
        found = [await self._session(source, model, workspace) for source in sources]
        return tuple(tool for tools in found for tool in tools)

    def enter(self, workspace: Path) -> None:
        """Record that an item uses the workspace, until `leave` is called as many times as `enter`."""
        self._users[workspace] = self._users.get(workspace, 0) + 1

    async def leave(self, workspace: Path) -> None:
        """Record that an item has left the workspace; after the last item, the workspace's sources are closed."""
        left = self._users.get(workspace, 0) - 1
        if left > 0:
            self._users[workspace] = left
            return
        self._users.pop(workspace, None)
        await self._close([key for key in self._open if key[2] == workspace])

    async def aclose(self) -> None:
        """Close everything. If a source fails to close, a warning is logged and the others are closed."""
        self._users.clear()
        await self._close(list(self._open))
        if self._closing:  # workspaces whose item was cancelled while it waited for them to close
            await asyncio.wait(self._closing)

    async def _session(self, source: ToolSource, model: ModelConfig, workspace: Path | None) -> Sequence[Tool]:
        stated = model.model_dump_json(include=set(_OWN_FIELDS))
        key = (source.name, stated, workspace)
        session = self._open.get(key)
        if session is None:
            session = self._open[key] = _Session(source, model, workspace)
        try:
            return await asyncio.shield(session.tools)
        except PortError:
            if self._open.get(key) is session:
                del self._open[key]
            raise

    async def _close(self, keys: Sequence[_Key]) -> None:
        ending = {self._open.pop(key).end() for key in keys}
        if not ending:
            return
        self._closing |= ending
        await asyncio.wait(ending)
        self._closing -= ending


class _Session:
    """An open source, in a task of its own, because it must be exited in the task in which it was entered."""

    def __init__(self, source: ToolSource, model: ModelConfig, workspace: Path | None) -> None:
        self.tools: asyncio.Future[Sequence[Tool]] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._hold(source, model, workspace), name=f"tools of {source.name}")

    def end(self) -> asyncio.Task[None]:
        """Start closing the source, or cancel it if it is still being opened, and return the task that does so."""
        self._over.set()
        if not self.tools.done():
            self._task.cancel()
        return self._task

    async def _hold(self, source: ToolSource, model: ModelConfig, workspace: Path | None) -> None:
        try:
            async with source.open(model, workspace) as tools:
                self.tools.set_result(tools)
                await self._over.wait()
        except PortError as error:
            self._fail(source, error)
        except asyncio.CancelledError:
            self.tools.cancel()
            raise
        except Exception as error:
            self._fail(source, error)

    def _fail(self, source: ToolSource, error: Exception) -> None:
        if self.tools.done():
            logger.warning("the tools of %s could not be closed: %s", source.name, error, exc_info=error)
            return
        if not isinstance(error, PortError):
            message = f"the tool source {source.name!r} failed: {type(error).__name__}: {error}"
            error = PortError(message, category=ErrorCategory.PERMANENT)
        self.tools.set_exception(error)
        self.tools.exception()  # retrieve it, since a caller that was cancelled meanwhile does not


def list_tool_sources(plugins: Plugins) -> list[ToolSource]:
    """Return the tool sources for agents, sorted by name and distribution."""
    offers = sorted(plugins.offers(karenina_tool_sources), key=lambda one: (one.value.name, one.distribution))
    return [offer.value for offer in offers]


def find_tool_problems(plugins: Plugins, model: ModelConfig, spec: AdapterSpec) -> Iterator[str]:
    """Yield the reasons for which the model cannot have its configured tools. Opens no source."""
    if spec.recorded or spec.starts_tools:
        return
    stated = [name for name in _OWN_FIELDS[1:] if getattr(model, name)]
    if stated and not model.mcp_urls_dict:
        yield f"{stated[0]} is set, but there is no MCP server that it applies to: set mcp_urls_dict, or remove it"
    wanted = [source for source in list_tool_sources(plugins) if source.applies_to(model)]
    if model.mcp_urls_dict and not wanted:
        yield _missing(plugins)
    if (wanted or model.mcp_urls_dict) and spec.agent is None:
        able = sorted(
            one.spec.interface for one in registered_adapters(plugins) if one.spec.agent and not one.spec.recorded
        )
        yield (
            f"it is configured to have tools, but the adapter {spec.interface!r} has no agent port to use them; these "
            f"have one: {', '.join(able) or 'no installed adapter'}"
        )
    for source in wanted:
        try:
            source.check(model)
        except ValueError as error:
            yield str(error)


def _missing(plugins: Plugins) -> str:
    from karenina_core.catalog import read_catalog

    why = "; or ".join(plugins.why_absent(owner) for owner in sorted(set(read_catalog()["tool_sources"].values())))
    return f"mcp_urls_dict names MCP servers, but no plugin for them is available: {why}"
