"""`CallableRubricTrait`: a quality that a function computes."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from karenina_core.data.rubrics.base import RubricTrait, register_trait_kind
from karenina_core.data.rubrics.scale import check_range
from karenina_core.models.from_files import FromFiles

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


@register_trait_kind
class CallableRubricTrait(RubricTrait):
    """A quality that a function computes from the answer's text: `f(text) -> bool`, or `-> int` for kind score.

    The function is named by its import path, or is given as source text, which runs only after the user trusted it.
    Nothing is ever pickled or unpickled: `pickled` only carries what another program stored, so that saving loses
    nothing, and a trait that has nothing else cannot be scored. A function that may take long limits itself: a run can
    leave it (`item_timeout`), and cannot end it.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["callable"] = "callable"
    kind: Literal["boolean", "score"] = Field(default="boolean", description="What the function returns.")
    function: str | None = Field(
        default=None,
        description='Import path, "package.module:function".',
        json_schema_extra={"from_files": "never"},  # many a function of an installed package runs what it is given
    )
    source: str | None = Field(default=None, description="Python source that defines the function.")
    pickled: str | None = Field(default=None, description="Another program's pickled function; never loaded.")
    min_score: int | None = Field(default=None, description="Lowest score of kind score (1).")
    max_score: int | None = Field(default=None, description="Highest score of kind score (5).")
    invert_result: bool = Field(default=False, description="Kind boolean: True where the function says False.")

    @model_validator(mode="after")
    def _one_function(self) -> Self:
        given = [name for name in ("function", "source", "pickled") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "a callable trait has either `function` (an import path) or `source`; "
                f"this one has {' and '.join(given) or 'neither'}"
            )
        if self.function is not None and not _IMPORT_PATH.fullmatch(self.function):
            raise ValueError(f'`function` is an import path such as "package.module:function", not {self.function!r}')
        if self.source is not None and not self.source.strip():
            raise ValueError("`source` is empty; give the source of a function")
        if self.invert_result and self.kind != "boolean":
            raise ValueError('invert_result belongs to kind "boolean"')
        low, high = check_range(self.kind, self.min_score, self.max_score)
        object.__setattr__(self, "min_score", low)
        object.__setattr__(self, "max_score", high)
        return self

    @classmethod
    def from_callable(cls, name: str, function: Callable[[str], bool | int], **fields: Any) -> Self:
        """A trait that calls `function`; `fields` are further fields of the trait.

        A function of an importable module is kept by its path, another one by its source. Raises `ValueError` for a
        function that has neither (a lambda, a built-in made at run time): put it into a module.
        """
        module = getattr(function, "__module__", None)
        path = getattr(function, "__qualname__", "")
        if module and module != "__main__" and _IMPORT_PATH.fullmatch(f"{module}:{path}"):
            return cls(name=name, function=f"{module}:{path}", **fields)
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            source = ""
        if not source.startswith(("def ", "@")):
            raise ValueError(
                f"the function of trait {name!r} has no import path and no source that stands alone; "
                "define it with `def` in a module"
            )
        return cls(name=name, source=source, **fields)
