"""The hook for notes about pass rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_report.run_notes import NotedRun, RunNote


@hookspec
@HookPolicy(stability="provisional")
def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
    """Return functions that annotate pass rates, for `karenina show` and `compare`. If a function raises, a warning is
    logged and its notes are skipped.

    This hook is called for plugins with an entry point in the group `karenina.plugins`, without importing stages or
    adapters.
    """
