"""Ports for one stage alone: those of the registered adapters, without limits, retries or a journal."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_core.config import find_adapter, prompt_instructions
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_core.models.ports import CallInfo, ModelRequest
from karenina_toolkit.service_call import call_service

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask


@dataclass
class StagePorts:
    """The ports of one stage. Each call is made once; the tools of MCP servers are not started."""

    plugins: Plugins
    request_timeout: float
    _opened: dict[tuple[str, int], Any] = field(default_factory=dict)

    def call(self, request: ModelRequest) -> Coroutine[Any, Any, Any]:
        """Return the reply of the adapter's port."""
        return request.send(self._port(request.port, request.model))

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Return whether this answer requires the agent port."""
        spec = self._spec(model)
        if (model.mcp_urls_dict and not spec.recorded) or spec.tier is AgentTier.DEEP_AGENT:
            return True
        return spec.needs_agent is not None and spec.needs_agent(model, info)

    def recorded(self, model: ModelConfig) -> bool:
        """Return whether the model's answers were recorded earlier."""
        return self._spec(model).recorded

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """Return what plugins add to the prompt of `task`."""
        return prompt_instructions(self.plugins, task, interface)

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo) -> str:
        """Return the result of `ask`. Raises `PortError`."""
        return await call_service(ask, self.request_timeout)

    def enter_workspace(self, workspace: Path) -> None:
        """Do nothing: no tools are started."""

    async def leave_workspace(self, workspace: Path) -> None:
        """Do nothing: no tools were started."""

    async def aclose(self) -> None:
        """Close the ports."""
        for port in self._opened.values():
            await port.aclose()
        self._opened.clear()

    def _spec(self, model: ModelConfig) -> AdapterSpec:
        return find_adapter(self.plugins, model.interface).spec

    def _port(self, kind: str, model: ModelConfig) -> Any:
        key = (kind, id(model))
        if key not in self._opened:
            make = getattr(self._spec(model), kind)
            if make is None:
                raise LookupError(f"the adapter {model.interface!r} has no {kind} port")
            self._opened[key] = make(model)
        return self._opened[key]
