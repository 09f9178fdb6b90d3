"""A prepared run: its items, its settings, and the results of the checks before the first call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter
from karenina_engine.scheduling.observers import NO_OBSERVERS, Observers
from karenina_engine.scheduling.planner import Planner

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.cost.price_table import PriceTable
    from karenina_engine.scheduling.matrix import Matrix


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that has passed all checks and has not begun; a `RunSession` executes it.

    `policy` replaces the retry settings of the configuration. `offline` says that no model may be called. `planner` and
    `prices` cache the plans and prices that were looked up. `budget` is in picodollars.
    """

    matrix: Matrix
    config: VerificationConfig
    plugins: Plugins
    trust: Trust
    policy: RetryPolicy | None
    offline: bool
    observers: Observers
    planner: Planner
    prices: PriceTable
    budget: int | None

    def __len__(self) -> int:
        """Return the number of items of the run."""
        return len(self.matrix)

    @property
    def calls_models(self) -> bool:
        """Whether a model may be called: not in a replay, nor if all answers are recorded and there is no judge."""
        core = self.config.core
        models = [*core.answering_models, *core.parsing_models] if not self.offline else []
        return any(not find_adapter(self.plugins, model.interface).spec.recorded for model in models)

    def without_calls(self) -> PreparedRun:
        """Return the same run without calls, observers and budget, for a process that only computes results."""
        planner = Planner(self.config, self.plugins)
        return replace(self, offline=True, observers=NO_OBSERVERS, planner=planner, budget=None)
