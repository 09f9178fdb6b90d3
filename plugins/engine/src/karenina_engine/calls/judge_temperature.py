"""Judges at temperature 0, if the user set no temperature and the server accepts one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import NO_INFO, CallInfo, ErrorCategory, Message, ParserPort, ParserReply, PortError

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig

logger = logging.getLogger("karenina")


def with_zero_temperature(model: ModelConfig, spec: AdapterSpec) -> ModelConfig:
    """Return the model as a judge: at temperature 0, unless it sets one or its adapter takes none."""
    if model.temperature is not None or spec.recorded or (spec.uses is not None and "temperature" not in spec.uses):
        return model
    return model.model_copy(update={"temperature": 0.0})


class ZeroTemperatureParser:
    """A parser port that sends temperature 0, and no temperature once the server has refused it."""

    def __init__(self, make: Callable[[ModelConfig], ParserPort], model: ModelConfig, cold: ModelConfig) -> None:
        self._make = make
        self._model = model
        self._cold = make(cold)
        self._plain: ParserPort | None = None

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Request JSON that fits `schema`. Raises `PortError`."""
        if self._plain is not None:
            return await self._plain.parse(messages, schema, info=info)
        try:
            return await self._cold.parse(messages, schema, info=info)
        except PortError as error:
            if not _refuses_temperature(error):
                raise
        return await self._without_temperature().parse(messages, schema, info=info)

    def _without_temperature(self) -> ParserPort:
        if self._plain is None:  # else another call was refused at the same time
            logger.info("judge %r is called without a temperature: its server refuses 0", self._model.id)
            self._plain = self._make(self._model)
        return self._plain

    async def aclose(self) -> None:
        """Close the ports."""
        await self._cold.aclose()
        if self._plain is not None:
            await self._plain.aclose()


def _refuses_temperature(error: PortError) -> bool:
    return error.category is ErrorCategory.PERMANENT and "temperature" in str(error).lower()
