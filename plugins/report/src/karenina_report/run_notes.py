"""Notes of plugins about pass rates, such as a rate corrected with labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from karenina_core.hook_policy import HookPolicy
from karenina_core.hooks import hookspec


@dataclass(frozen=True, slots=True)
class NotedRun:
    """The run that a note is about: the results of one answering model in a file.

    `label` is its letter in a comparison, or empty for a single run. `model` is the id of the answering model, or None
    for all results in the file. `source` is the file, or None for results in memory.
    """

    label: str
    model: str | None
    source: Path | None


@dataclass(frozen=True, slots=True)
class RunNote:
    """A note about runs: a name of one or two words, a text, and its numbers in `values` (JSON-compatible)."""

    name: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@hookspec
@HookPolicy(stability="provisional")
def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
    """Return functions that make notes about pass rates, for `karenina show` and `compare` to print.

    A function that fails is left out with a warning. This hook is called for plugins with an entry point in the group
    `karenina.plugins`, without importing stages or adapters.
    """
