"""Reports on Karenina runs: comparisons, and statistics with confidence intervals.

Names are imported on first use to keep the package fast to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_toolkit.lazy_names import lazy_names

if TYPE_CHECKING:
    from karenina_report.comparison.run_comparison import compare
    from karenina_report.page.writer import write_report
    from karenina_report.statistics.run_statistics import describe

__all__ = ["compare", "describe", "write_report"]


__getattr__ = lazy_names(
    __name__,
    {
        "compare": ".comparison.run_comparison",
        "describe": ".statistics.run_statistics",
        "write_report": ".page.writer",
    },
)


def __dir__() -> list[str]:
    return __all__
