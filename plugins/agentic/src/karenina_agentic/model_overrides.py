"""Models that agentic traits name in place of the judge."""

from __future__ import annotations

import json

from pydantic import ValidationError

from karenina_core import ModelConfig
from karenina_core.data.rubrics import AgenticRubricTrait
from karenina_core.errors import ConfigError


class ModelOverrides:
    """A cache of models, each created once: a run has one connection for each `ModelConfig` object."""

    def __init__(self) -> None:
        self._models: dict[str, ModelConfig] = {}

    def model_for(self, trait: AgenticRubricTrait) -> ModelConfig:
        """Return the model of `trait.model_override`; its default `id` is the trait's name. Raises `ConfigError`."""
        fields = {"id": trait.name, **(trait.model_override or {})}
        key = json.dumps(fields, sort_keys=True)
        if key not in self._models:
            try:
                made = ModelConfig.model_validate(fields)
            except ValidationError as error:
                where = f"model_override of trait {trait.name!r}"
                problems = error.errors(include_url=False, include_input=False)
                raise ConfigError(
                    [f"{where}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems]
                ) from None
            _check_programs(made, trait.name)
            self._models[key] = made
        return self._models[key]


def _check_programs(model: ModelConfig, trait: str) -> None:
    """Raise `ConfigError` for a server with a relative path: it would be started from the working directory."""
    for name, command in (model.mcp_urls_dict or {}).items():
        program = command.split(maxsplit=1)[0] if command.strip() else ""
        if "/" in program and "://" not in program and not program.startswith(("/", "${")):
            raise ConfigError(
                [
                    f"model_override of trait {trait!r}, mcp_urls_dict.{name}: {program} is relative to the working "
                    "directory; give an absolute path, or the name of an installed program"
                ]
            )
