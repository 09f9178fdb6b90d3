"""The run engine: model calls, costs, the journal, runs and the checks before them, offline work, and results.

The package's entry point is `plugin`.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry point's name
    """The engine's hook implementations."""

    karenina_settings = offer("karenina_engine.settings:EngineSettings")
