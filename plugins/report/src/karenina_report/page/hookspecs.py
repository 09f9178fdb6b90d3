"""The hook for sections of the report page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_report.page.section import PageRuns, PageSection


@hookspec
@HookPolicy(stability="provisional")
def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
    """Return functions that make sections for the `karenina report` page, given the page's runs. If a function raises,
    a warning is shown and its sections are skipped.

    The built-in tables of models, judges and keywords use this hook too.
    """
