"""Plugins' notes about pass rates, such as a rate corrected with labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy


@dataclass(frozen=True, slots=True)
class NotedRun:
    """The run that a note is about: the results of one answering model in a file.

    `label` is the run's letter in a comparison, or empty for a single run. `model` is the answering model's id, or None
    for all results in the file. `source` is the file, or None for results in memory.
    """

    label: str
    model: str | None
    source: Path | None


@dataclass(frozen=True, slots=True)
class RunNote:
    """A note about runs.

    `name` has one or two words. `values` contains the note's numbers and must be JSON-compatible.
    """

    name: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@hookspec
@HookPolicy(stability="provisional")
def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
    """Return functions that annotate pass rates, for `karenina show` and `compare`. If a function raises, a warning is
    logged and its notes are skipped.

    This hook is called for plugins with an entry point in the group `karenina.plugins`, without importing stages or
    adapters.
    """
