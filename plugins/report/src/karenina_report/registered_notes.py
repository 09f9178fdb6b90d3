"""Collect notes about runs from the installed plugins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from karenina_core.errors import describe_error
from karenina_report.hookspecs import karenina_run_notes
from karenina_report.statistics.statistics_result import ReportModel
from karenina_terminal.command_hook import command_plugins

if TYPE_CHECKING:
    from karenina_report.run_notes import NotedRun

logger: Final = logging.getLogger("karenina")


class Note(ReportModel):
    """A note about the runs, from a plugin or about the benchmark. `values` contains its numbers."""

    name: str
    text: str
    values: Mapping[str, Any] = Field(default_factory=dict)


def find_notes(runs: Sequence[NotedRun]) -> list[Note]:
    """Return all plugins' notes about the given runs. A plugin that raises is skipped with a warning."""
    notes = []
    for offer in command_plugins().offers(karenina_run_notes, Callable):
        try:
            notes += [Note(name=note.name, text=note.text, values=note.values) for note in offer.value(runs)]
        except Exception as error:
            logger.warning(
                "notes from %s %s were left out: %s", offer.distribution, offer.version, describe_error(error)
            )
    return notes
