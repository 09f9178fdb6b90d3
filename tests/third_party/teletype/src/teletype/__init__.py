"""A third-party adapter for a machine with its own protocol. It uses the standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import AdapterSpec, ModelConfig, hookimpl
from karenina_core.models.adapters import AdapterConfigError

if TYPE_CHECKING:
    from teletype.ports import Teletype


def _port(model: ModelConfig) -> Teletype:
    from teletype.ports import Teletype

    return Teletype(model)


def _check(model: ModelConfig) -> None:
    for name in model.extra:
        raise AdapterConfigError(f"model {model.id!r}, extra.{name}: a teletype has no settings; remove it")


class plugin:
    """Offers the adapter."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> Sequence[AdapterSpec]:
        """Return one interface with all three ports."""
        return [
            AdapterSpec(
                interface="teletype.line",
                description="A machine that types lines.",
                llm=_port,
                parser=_port,
                agent=_port,
                check=_check,
                allowed_in_files=True,
            )
        ]
