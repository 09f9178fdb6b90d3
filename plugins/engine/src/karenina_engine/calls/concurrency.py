"""The limits on concurrent calls that a configuration and adapters set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

CEILING: Final = 256
START: Final = 32


class Bounds(NamedTuple):
    """The initial (`start`) and maximum (`ceiling`) number of permits for a server.

    If `fixed` is set, the number never changes.
    """

    start: int = START
    ceiling: int = CEILING
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The limits set by a configuration.

    `most` limits the total number of calls to all servers; None means no limit. `models` contains fixed limits by model
    id. All other servers start with `start` permits and never have more than `ceiling`. If an adapter declares a limit,
    it replaces `ceiling`, and also `start` if that is None. `part` is the index of this worker and the number of
    workers, which share the permits equally.
    """

    start: int | None = None
    ceiling: int = CEILING
    models: Mapping[str, int] = field(default_factory=dict)
    most: int | None = None
    part: tuple[int, int] = (0, 1)

    def share(self, worker: int, workers: int) -> Self:
        """Return the limits for worker number `worker`, counted from 0, of `workers`. Every worker gets at least one
        permit. If there are more workers than permits, the total is therefore exceeded.
        """
        most = _share_of(self.most, worker, workers) if self.most is not None else None
        return replace(self, most=most, part=(worker, workers))

    def bounds(self, model: ModelConfig, declared: int | None) -> Bounds:
        """Return this worker's bounds for the model's server. `declared` is the limit declared by the model's adapter,
        if any. A fixed limit for the model takes precedence over it.
        """
        fixed = self.models.get(model.id)
        if fixed is not None:
            permits = _share_of(fixed, *self.part)
            return Bounds(permits, permits, fixed=True)
        ceiling = self.ceiling if declared is None else max(1, declared)
        start = self.start if self.start is not None else START if declared is None else ceiling
        return Bounds(_share_of(min(start, ceiling), *self.part), _share_of(ceiling, *self.part))


def _share_of(permits: int, worker: int, workers: int) -> int:
    return max(1, (permits + workers - 1 - worker) // workers)
