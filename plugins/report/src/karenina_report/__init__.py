"""Reports on runs of Karenina: comparisons and statistics with intervals, and the questions that flipped.

Names are imported when they are first used, so that importing the package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_report.report_file import write_report
    from karenina_report.run_comparison import compare
    from karenina_report.run_statistics import describe

_HOMES = {
    "compare": "karenina_report.run_comparison",
    "describe": "karenina_report.run_statistics",
    "write_report": "karenina_report.report_file",
}

__all__ = ["compare", "describe", "write_report"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
