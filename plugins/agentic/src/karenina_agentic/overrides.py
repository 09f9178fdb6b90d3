"""The models that agentic traits name in place of the judge."""

from __future__ import annotations

import json

from pydantic import ValidationError

from karenina_core import ModelConfig
from karenina_core.errors import ConfigError
from karenina_core.rubrics import AgenticRubricTrait


class Overrides:
    """Makes each model once: the run keeps one connection for each `ModelConfig` object."""

    def __init__(self) -> None:
        self._made: dict[str, ModelConfig] = {}

    def of(self, trait: AgenticRubricTrait) -> ModelConfig:
        """The model of `trait.model_override`; its `id` is the trait's name where it has none. Raises `ConfigError`."""
        fields = {"id": trait.name, **(trait.model_override or {})}
        key = json.dumps(fields, sort_keys=True)
        if key not in self._made:
            try:
                self._made[key] = ModelConfig.model_validate(fields)
            except ValidationError as error:
                where = f"model_override of trait {trait.name!r}"
                problems = error.errors(include_url=False, include_input=False)
                raise ConfigError(
                    [f"{where}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems]
                ) from None
        return self._made[key]
