"""A third-party adapter: its model answers every question with its own name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from karenina_core import AdapterSpec, Message, ModelConfig, Usage, hookimpl
from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, ParserReply


class Parrot:
    """Both ports of one model."""

    def __init__(self, model: ModelConfig) -> None:
        self._says = model.model_name

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Say the name."""
        return LLMReply(self._says, Usage(input_tokens=7, output_tokens=3, calls=1))

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Say the name, which had better be JSON."""
        return ParserReply(self._says, "json_schema")

    async def aclose(self) -> None:
        """Nothing is open."""


class plugin:
    """Offers the adapter."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> Sequence[AdapterSpec]:
        """Return one interface."""
        return [
            AdapterSpec(
                interface="parrot.echo",
                description="Says its own name.",
                llm=Parrot,
                parser=Parrot,
                allowed_in_files=True,
            )
        ]
