"""A worker as the run sees it: the actor, what it was given, and what it has to be told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karenina_ray import serialization
from karenina_ray.serialization import Payload

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_ray.work_queue import Job


@dataclass(slots=True, eq=False)
class WorkerHandle:
    """One worker. `place` is which of the workers it is; the one that takes the place of a dead one inherits it.

    `jobs` are those that it has, by their order in the run; `room` is how many answers it could work on at once.
    `servers` are limit, held, queued and retrying of each server. `suspect` says that a worker has died of one of its
    jobs, so that it gets no others.
    """

    actor: Any
    place: int
    alive: bool = True
    ready: bool = False
    stopped: bool = False
    suspect: bool = False
    room: int = 1
    jobs: dict[int, Job] = field(default_factory=dict)
    models: dict[int, ModelConfig] = field(default_factory=dict)
    servers: list[list[float]] = field(default_factory=list)
    _outbox: list[Payload] = field(default_factory=list)

    def tell(self, told: Payload) -> None:
        """Send a message; those of one turn of the event loop go together."""
        if not self.alive:
            return
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._send)
        self._outbox.append(told)

    def _send(self) -> None:
        outbox, self._outbox = self._outbox, []
        if self.alive:
            self.actor.handle_messages.remote(serialization.written(outbox))
