"""The hook for export formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_report.exports.exporter import Exporter


@hookspec
@HookPolicy(stability="provisional")
def karenina_exporters() -> Sequence[Exporter]:
    """Return formats for `karenina export`, which the user selects with `--format` or by the output's suffix.

    The built-in formats use this hook too.
    """
