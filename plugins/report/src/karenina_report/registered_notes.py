"""The notes of the installed plugins on runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from karenina_core.errors import describe_error
from karenina_core.plugins import command_plugins
from karenina_report.comparison_result import Note
from karenina_report.hookspecs import karenina_run_notes

if TYPE_CHECKING:
    from karenina_report.run_notes import NotedRun

logger: Final = logging.getLogger("karenina")


def find_notes(runs: Sequence[NotedRun]) -> list[Note]:
    """Return the notes of all plugins on these runs."""
    found = []
    for offer in command_plugins().offers(karenina_run_notes):
        try:
            found += [Note(name=one.name, text=one.text, values=one.values) for one in offer.value(runs)]
        except Exception as error:
            logger.warning("notes of %s %s are left out: %s", offer.distribution, offer.version, describe_error(error))
    return found
