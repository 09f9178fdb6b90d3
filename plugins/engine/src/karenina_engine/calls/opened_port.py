"""A port of an adapter, opened for one model of a run: requests are sent to it, and its replies checked.

Judges are called at temperature 0, if the user set no temperature and the server accepts one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import AgentOptions, ErrorCategory, ModelRequest, PortError
from karenina_toolkit.structured.reply_checks import check_reply, filtered_reply

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig
    from karenina_engine.calls.call import Endpoint


logger = logging.getLogger("karenina")


@dataclass(slots=True)
class OpenedPort:
    """A port of an adapter, opened for one model; `port` is None in a run without calls.

    `open_warm` opens the port without a temperature, if this one sends temperature 0 because the user set none.
    `start_tools` adds the tools of the model's servers to the options of an agent; None if the run starts none.
    """

    endpoint: Endpoint
    port: Any
    open_warm: Callable[[], Any] | None = None
    start_tools: Callable[[AgentOptions], Awaitable[AgentOptions]] | None = None

    @property
    def where(self) -> str:
        """The name of the model in messages."""
        return self.endpoint.model.display_string

    async def send(self, request: ModelRequest) -> Any:
        """Return the reply to a request, if it can be used. Raises `PortError`."""
        port = self.port
        if port is None:
            message = f"this run makes no calls, and a call reached its {request.port} port"
            raise PortError(message, category=ErrorCategory.PERMANENT)
        try:
            try:
                reply = await request.send(port)
            except PortError as error:
                if not _refuses_temperature(error):
                    raise
                if self.port is port:  # else another call was refused at the same time
                    if self.open_warm is None:
                        raise
                    id = self.endpoint.model.id
                    logger.info("judge %r is called without a temperature: its server refuses 0", id)
                    self.port, self.open_warm = self.open_warm(), None
                reply = await request.send(self.port)
        except PortError as error:
            reply = filtered_reply(request.port, error)
        return check_reply(self.where, reply, self.endpoint.model.max_tokens)


def with_zero_temperature(model: ModelConfig, spec: AdapterSpec) -> ModelConfig:
    """Return the model as a judge: at temperature 0, unless it sets one or its adapter takes none."""
    if model.temperature is not None or spec.recorded or (spec.uses is not None and "temperature" not in spec.uses):
        return model
    return model.model_copy(update={"temperature": 0.0})


def _refuses_temperature(error: PortError) -> bool:
    return error.category is ErrorCategory.PERMANENT and "temperature" in str(error).lower()
