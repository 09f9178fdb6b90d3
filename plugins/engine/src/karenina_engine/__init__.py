"""The run engine.

It checks and executes runs, makes the model calls, tracks their cost, and stores replies and results.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry point's name
    """The engine's hook implementations."""

    karenina_settings = offer("karenina_engine.settings:EngineSettings")
