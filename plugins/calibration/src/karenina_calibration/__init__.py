"""Labels of people for the answers of a run, and the agreement of its judge with them.

Names are imported when they are first used, so that importing the package is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_calibration.calibration import calibrate

__all__ = ["calibrate"]


def __getattr__(name: str) -> object:
    if name != "calibrate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from karenina_calibration.calibration import calibrate

    globals()[name] = calibrate
    return calibrate


def __dir__() -> list[str]:
    return __all__
