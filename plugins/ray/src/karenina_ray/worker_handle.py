"""`WorkerHandle`: a worker as the run sees it, with its jobs, its state and the messages to send."""

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
    """One worker. `index` is its number among the workers of the run; the replacement of a dead worker inherits it.

    `jobs` are its jobs by their order in the run, and `room` is how many answers it could work on at once. `models` are
    the models that it has sent, by number, and `servers` the limit, held, queued and retrying calls of each server.
    `suspect` says that a worker has died with one of its jobs, so that it gets no others.
    """

    actor: Any
    index: int
    alive: bool = True
    ready: bool = False
    stopped: bool = False
    suspect: bool = False
    room: int = 1
    jobs: dict[int, Job] = field(default_factory=dict)
    models: dict[int, ModelConfig] = field(default_factory=dict)
    servers: list[list[float]] = field(default_factory=list)
    _outbox: list[Payload] = field(default_factory=list)

    def send(self, message: Payload) -> None:
        """Send a message, together with the others of this turn of the event loop."""
        if not self.alive:
            return
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._send_outbox)
        self._outbox.append(message)

    def _send_outbox(self) -> None:
        outbox, self._outbox = self._outbox, []
        if self.alive:
            self.actor.handle_messages.remote(serialization.encode(outbox))
