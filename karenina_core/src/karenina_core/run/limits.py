"""How many calls of a model may be under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig

Server = tuple[str, str, str | None]


def server_of(model: ModelConfig) -> Server:
    """What limits are for: models of one interface, name and base URL share their places."""
    return (model.interface, model.model_name, model.endpoint_base_url)


@dataclass(slots=True)
class Limits:
    """The places of all models of a run. `allowed` says how many a model has."""

    allowed: Callable[[ModelConfig], int]
    _places: dict[Server, asyncio.Semaphore] = field(default_factory=dict)

    @asynccontextmanager
    async def place(self, model: ModelConfig) -> AsyncIterator[None]:
        """Hold one place of the model while the block runs. A call that waits for a retry holds none."""
        server = server_of(model)
        if server not in self._places:
            self._places[server] = asyncio.Semaphore(self.allowed(model))
        async with self._places[server]:
            yield
