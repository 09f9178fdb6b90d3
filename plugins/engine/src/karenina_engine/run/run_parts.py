"""The parts of a run that are shared by everything that executes its items."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter
from karenina_core.data.trust import Trust
from karenina_engine.calls.concurrency_limits import Bounds, Concurrency, ConcurrencyLimits
from karenina_engine.calls.journal_labels import ModelLabel
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.progress.observers import NO_OBSERVERS, Observers
from karenina_engine.results.kept_files import FileStore

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.call import BudgetGuard, CallLedger, ReplyStore


def _default_limits() -> ConcurrencyLimits:
    return ConcurrencyLimits(lambda _model: Bounds())


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of a run: its plugins and settings, what it may do, and where its calls are stored and counted.

    A run has one; an executor that works in other processes makes one in each. With `offline` no model may be called,
    since the `store` has all replies. `ledger` counts the calls, and `budget` must cover them. `observers` receive the
    events, and `files` stores what stages and adapters keep with an item.
    """

    plugins: Plugins
    config: VerificationConfig
    trust: Trust = field(default_factory=Trust)
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    limits: ConcurrencyLimits = field(default_factory=_default_limits)
    observers: Observers = NO_OBSERVERS
    store: ReplyStore | None = None
    ledger: CallLedger | None = None
    budget: BudgetGuard | None = None
    files: FileStore = field(default_factory=lambda: FileStore(None, 0, 0))
    offline: bool = False


def limit_calls(plugins: Plugins, concurrency: Concurrency, patience: float) -> ConcurrencyLimits:
    """Return the limits on calls in flight under a configuration, within what adapters declare."""

    def bounds(model: ModelConfig) -> Bounds:
        declared = (
            find_adapter(plugins, model.interface).spec.concurrency if not isinstance(model, ModelLabel) else None
        )
        return concurrency.bounds(model, declared(model) if declared is not None else None)

    return ConcurrencyLimits(bounds, concurrency.most or inf, patience=patience)
