"""Plugins' notes about pass rates, such as a rate corrected with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karenina_report.benchmark_questions import BenchmarkQuestions


@dataclass(frozen=True, slots=True)
class NotedRun:
    """The run that a note is about: the results of one answering model in a file.

    `label` is the run's letter in a comparison, or empty for a single run. `model` is the answering model's id, or None
    for all results in the file. `source` is the file, or None for results in memory. Questions with the same value in
    the column `cluster` (default: the question text) are one statistical unit, and `questions` adds the columns of a
    benchmark.
    """

    label: str
    model: str | None
    source: Path | None
    cluster: str | None = None
    questions: BenchmarkQuestions | None = None


@dataclass(frozen=True, slots=True)
class RunNote:
    """A note about runs.

    `name` has one or two words. `values` contains the note's numbers and must be JSON-compatible.
    """

    name: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
