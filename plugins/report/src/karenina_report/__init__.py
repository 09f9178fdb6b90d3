"""Reports on runs of Karenina: comparisons with intervals, and the questions that flipped.

Importing this package loads nothing else; a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_report.comparing import compare

__all__ = ["compare"]


def __getattr__(name: str) -> object:
    if name != "compare":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from karenina_report.comparing import compare

    globals()[name] = compare
    return compare


def __dir__() -> list[str]:
    return __all__
