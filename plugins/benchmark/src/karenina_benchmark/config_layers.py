"""Values of the configuration from several sources, with the origin of each value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karenina_core.config import VerificationConfig
from karenina_core.errors import ConfigError


class ConfigLayers:
    """Values of configuration names, each layer over the earlier ones, and the place that each value comes from."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}

    def add(self, table: Mapping[str, Any], place: str) -> None:
        """Put the values of `table`, which come from `place`, over all earlier ones."""
        self.values.update(table)
        self.origin.update(dict.fromkeys(table, place))

    def names_from(self, place: str) -> frozenset[str]:
        """Return the names whose values come from `place`."""
        return frozenset(name for name, origin in self.origin.items() if origin == place)

    def make_config(self) -> VerificationConfig:
        """Return the configuration. Raises `ConfigError`, each problem with the place that its value comes from."""
        try:
            return VerificationConfig(**self.values)
        except ConfigError as error:
            raise ConfigError([self._with_origin(problem) for problem in error.problems]) from error

    def _with_origin(self, problem: str) -> str:
        name = problem.partition(":")[0].partition(".")[0].partition(" ")[0]
        return f"{problem} (from {self.origin[name]})" if name in self.origin else problem
