"""The hook for sections of the report page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hook_policy import HookPolicy
from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_report.page.section import PageRuns, PageSection


@hookspec
@HookPolicy(stability="provisional")
def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
    """Offer functions that return sections of the page of `karenina report`, from the runs on it.

    The tables of models, judges and keywords are offered in the same way. A function that fails is left out, with a
    warning.
    """
