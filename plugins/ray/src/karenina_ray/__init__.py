"""The executor `ray`: a run spread over workers of a Ray cluster. The entry point names `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_ray.executor import RayExecutor
from karenina_ray.settings import RaySettings

if TYPE_CHECKING:
    from karenina_core.run.executors import Executor

__all__ = ["RayExecutor", "RaySettings", "plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """What this distribution offers to Karenina."""

    @staticmethod
    @hookimpl
    def karenina_executors() -> list[Executor]:
        """The executor that a configuration chooses with `executor = "ray"`."""
        return [RayExecutor()]
