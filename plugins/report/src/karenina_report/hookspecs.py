"""The hook for notes on the pass rates of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hook_policy import HookPolicy
from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_report.run_notes import NotedRun, RunNote


@hookspec
@HookPolicy(stability="provisional")
def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
    """Offer functions that return notes on the pass rates of runs, which `karenina show` and `compare` print.

    A function that fails is left out, with a warning. Called for plugins with an entry point in the group
    `karenina.plugins`, without importing stages or adapters.
    """
