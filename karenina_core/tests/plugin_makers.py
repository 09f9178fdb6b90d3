"""A maker of plugins for the tests of the core."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import hookimpl


def offering(**offered: Sequence[object]) -> type:
    """Return a plugin that offers these objects, by hook."""

    def implementation(values: Sequence[object]) -> object:
        return staticmethod(hookimpl(lambda: values))

    return type("plugin", (), {hook: implementation(values) for hook, values in offered.items()})
