"""Settings models that reject unknown names."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from karenina_core.text import did_you_mean


class StrictSettings(BaseModel):
    """The base of settings in tables. An unknown name is an error that suggests the nearest known name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _suggest_names(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(values)
        except ValidationError as error:
            names = {*cls.model_fields, *(info.alias for info in cls.model_fields.values() if info.alias)}
            lines: list[InitErrorDetails] = []
            for one in error.errors(include_url=False):
                kind, message = one["type"], one["msg"]
                if kind == "extra_forbidden":
                    kind, message = "unknown_name", f"there is no such name{did_you_mean(str(one['loc'][-1]), names)}"
                made = PydanticCustomError(kind, message)
                lines.append(InitErrorDetails(type=made, loc=one["loc"], input=one["input"]))
            hidden = bool(cls.model_config.get("hide_input_in_errors"))
            raise ValidationError.from_exception_data(cls.__name__, lines, hide_input=hidden) from None
