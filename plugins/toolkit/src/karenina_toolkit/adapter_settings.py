"""The adapter settings in a model's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.text import join_problems

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

E = TypeVar("E", bound=BaseModel)


def extra_of(model: ModelConfig, kind: type[E]) -> E:
    """Return `model.extra` as an instance of `kind`, the adapter's settings model. Raises `AdapterConfigError` if the
    settings are invalid. The message shows no values, because they may be secret.
    """
    try:
        return kind.model_validate(model.extra)
    except ValidationError as error:
        details = error.errors(include_input=False, include_url=False, include_context=False)
        problems = join_problems([f"{'.'.join(('extra', *map(str, item['loc'])))}: {item['msg']}" for item in details])
        strange = any(item["type"] == "extra_forbidden" for item in details)
        supported = f". Supported names: {', '.join(kind.model_fields)}" if strange else ""
        raise AdapterConfigError(f"model {model.id!r}, {problems}{supported}") from None
