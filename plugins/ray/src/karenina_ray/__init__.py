"""The executor `ray`, which distributes a run over a Ray cluster.

The entry point refers to `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_engine.run.executor import Executor
    from karenina_ray.executor import RayExecutor, RaySettings

__all__ = ["RayExecutor", "RaySettings", "plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """The hook implementations that this distribution provides."""

    @staticmethod
    @hookimpl
    def karenina_executors() -> list[Executor]:
        """Return the executor called `ray`."""
        from karenina_ray.executor import RayExecutor

        return [RayExecutor()]


def __getattr__(name: str) -> object:
    if name == "RayExecutor":
        from karenina_ray.executor import RayExecutor

        return RayExecutor
    if name == "RaySettings":
        from karenina_ray.executor import RaySettings

        return RaySettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
