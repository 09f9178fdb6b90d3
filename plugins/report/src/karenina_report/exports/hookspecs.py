"""The hook for the formats of exported results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hook_policy import HookPolicy
from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_report.exports.exporter import Exporter


@hookspec
@HookPolicy(stability="provisional")
def karenina_exporters() -> Sequence[Exporter]:
    """Offer formats for `karenina export`, each chosen by `--format` or by the suffix of the output.

    The built-in formats are offered in the same way.
    """
