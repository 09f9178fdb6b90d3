"""Base class of settings models, and marks for the fields that files may set without the user's trust.

A value is *restricted* if it can start a program, choose where requests or keys are sent, name a path, read the
environment, choose plugins or the executor, search the web, or change prices. Settings, fields of models, settings of
adapters, and parameters of traits and primitives are restricted unless their owner marks them:

    seed: int = Field(default=0, json_schema_extra={"allowed_in_files": "any"})

To mark all fields that a class declares, put `allowed_in_files: ClassVar[AllowedInFiles] = "any"` in its body.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from karenina_core.text import did_you_mean, list_names

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


AllowedInFiles = Literal["any", "below", "name", "models", "never"]
"""Which values of a field a file may set without the user's trust.

- `any`: all values.
- `below`: paths that are still inside the file's folder after resolving links.
- `name`: words that cannot be paths, such as the name of an embedding model.
- `models`: models, whose fields are checked one by one.
- `never`: no values. This is the default for fields without a mark.
"""


def declared(info: FieldInfo, name: str) -> Any:
    """Return the value that a field declares for `name` in its `json_schema_extra`, or None."""
    extra = info.json_schema_extra
    return extra.get(name) if isinstance(extra, dict) else None


def mark_of(model: type[BaseModel], name: str) -> AllowedInFiles | None:
    """Return the mark of the given field or, if it has none, of the class that declares it, or None. A class's mark
    does not apply to fields of its subclasses. Raises `ValueError` for an unknown mark.
    """
    mark = declared(model.model_fields[name], "allowed_in_files")
    if mark is None:
        owner = next((base for base in model.__mro__ if name in inspect.get_annotations(base)), model)
        mark = vars(owner).get("allowed_in_files")
    if mark is not None and mark not in get_args(AllowedInFiles):
        marks = ", ".join(get_args(AllowedInFiles))
        raise ValueError(f"{model.__name__}.{name}: allowed_in_files must be one of {marks}, not {mark!r}")
    return cast("AllowedInFiles | None", mark)


class StrictSettings(BaseModel):
    """Base class for settings given as tables. The errors suggest known names, and name no types of Python."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="wrap")
    @classmethod
    def _suggest_names(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate the values with `handler`, and reword its errors: suggest the closest known name for an unknown one,
        and list the names if a value is not a mapping.
        """
        try:
            return handler(values)
        except ValidationError as error:
            names = {*cls.model_fields, *(info.alias for info in cls.model_fields.values() if info.alias)}
            lines: list[InitErrorDetails] = []
            for item in error.errors(include_url=False):
                kind, message = item["type"], item["msg"]
                if kind == "extra_forbidden":
                    kind, message = "unknown_name", f"unknown name{did_you_mean(str(item['loc'][-1]), names)}"
                elif kind in ("model_type", "dict_type"):
                    keys = "" if item["loc"] else f" with keys such as {list_names(names)}"
                    kind, message = "no_mapping", f"write a mapping{keys}"
                problem = PydanticCustomError(kind, message)
                lines.append(InitErrorDetails(type=problem, loc=item["loc"], input=item["input"]))
            hidden = bool(cls.model_config.get("hide_input_in_errors"))
            raise ValidationError.from_exception_data(cls.__name__, lines, hide_input=hidden) from None
