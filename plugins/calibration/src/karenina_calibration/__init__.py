"""Human labels for the answers of a run, and the agreement of judges with them.

Names are only imported when they are first used, so that importing the package is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_toolkit.lazy_names import lazy_names

if TYPE_CHECKING:
    from karenina_calibration.calibration import calibrate

__all__ = ["calibrate"]


__getattr__ = lazy_names(
    __name__,
    {
        "calibrate": ".calibration",
    },
)


def __dir__() -> list[str]:
    return __all__
