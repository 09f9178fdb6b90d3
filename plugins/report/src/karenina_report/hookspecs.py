"""Hooks for export formats, sections of the report page, and notes about pass rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_report.exports.exporter import Exporter
    from karenina_report.page.section import PageRuns, PageSection
    from karenina_report.run_notes import NotedRun, RunNote


@hookspec
@HookPolicy(stability="provisional")
def karenina_exporters() -> Sequence[Exporter]:
    """Return formats for `karenina export`, which the user selects with `--format` or by the output's suffix.

    The built-in formats use this hook too.
    """


@hookspec
@HookPolicy(stability="provisional")
def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
    """Return functions that make sections for the `karenina report` page, given the page's runs. If a function raises,
    a warning is shown and its sections are skipped.

    The built-in tables of models, judges and keywords use this hook too.
    """


@hookspec
@HookPolicy(stability="provisional")
def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
    """Return functions that annotate pass rates, for `karenina show` and `compare`. If a function raises, a warning is
    logged and its notes are skipped.

    This hook is called for plugins with an entry point in the group `karenina.plugins`, without importing stages or
    adapters.
    """
