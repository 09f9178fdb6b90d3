"""The built-in kinds of traits, scored by a judge, an agent, a function or a pattern, or by counting statements."""

from __future__ import annotations

import builtins
import dis
import inspect
import re
import textwrap
from collections.abc import Callable
from contextlib import suppress
from types import CodeType
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, PrivateAttr, model_validator

from karenina_core.data.rubrics.base import RubricTrait, ScaledTrait, register_trait_kind
from karenina_core.models.model import SECRECY
from karenina_core.models.settings_models import AllowedInFiles

_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
Metric = Literal["precision", "recall", "f1", "specificity", "accuracy"]
_NEEDS_TRUE_NEGATIVES = ("specificity", "accuracy")


@register_trait_kind
class AgenticRubricTrait(ScaledTrait):
    """A quality that an agent scores after examining the workspace, the trace, or both.

    `model_override` contains fields of a `ModelConfig`, which are checked before a run. It must not contain an API key,
    because files with traits are often shared.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    type: Literal["agentic"] = "agentic"
    context_mode: Literal["workspace_only", "trace_and_workspace", "trace_only"] = Field(
        default="trace_and_workspace", description="What the agent may see."
    )
    materialize_trace: bool = Field(
        default=False, description="Give the trace to the agent as a file instead of in the prompt."
    )
    persist_trace: bool = Field(default=False, description="Keep the trace file after the evaluation.")
    max_turns: int = Field(default=15, gt=0, description="Maximum number of assistant turns.")
    timeout_seconds: float = Field(default=120, gt=0, description="Time limit for the whole agent run, in seconds.")
    model_override: dict[str, JsonValue] | None = Field(
        default=None,
        description="A different model to use for this trait.",
        json_schema_extra={"allowed_in_files": "models"},
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Return the trait. Raises `ValueError` if its name contains a dot, `context_mode` excludes a trace that is
        required, or `model_override` contains an API key.
        """
        if "." in self.name:
            raise ValueError(
                f"the name {self.name!r} contains a dot, which separates trait and field in results; remove the dot"
            )
        if self.materialize_trace and self.context_mode == "workspace_only":
            raise ValueError(
                "materialize_trace needs a trace, which context_mode 'workspace_only' excludes; change one of them"
            )
        override = self.model_override or {}
        if keys := [name for name, secrecy in SECRECY.items() if secrecy == "key" and override.get(name)]:
            raise ValueError(f"model_override.{keys[0]} is an API key; set a variable such as OPENAI_API_KEY instead")
        return self


@register_trait_kind
class CallableRubricTrait(ScaledTrait):
    """A quality that a function computes from the text of the answer.

    `f(text)` returns a bool, a number (for the kind `score`) or the name of a class (for the kind `literal`). The
    function is given as an import path or as source code, and only runs if the user trusts it. Nothing is ever pickled
    or unpickled: `pickled` only preserves a function from another program, and a trait that has nothing else cannot be
    scored. A slow function must limit its own running time. After `item_timeout`, a run stops waiting for the function
    but cannot stop it.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    type: Literal["callable"] = "callable"
    kind: Literal["boolean", "score", "literal"] = Field(default="boolean", description="What the function returns.")
    function: str | None = Field(
        default=None,
        description='The import path, in the form "package.module:function".',
        json_schema_extra={"allowed_in_files": "never"},  # functions of installed packages may execute their argument
    )
    source: str | None = Field(default=None, description="Python source that defines the function.")
    pickled: str | None = Field(default=None, description="A function pickled by another program; it is never loaded.")
    invert_result: bool = Field(default=False, description='For kind "boolean": invert the function\'s result.')

    _callable: Callable[[str], object] | None = PrivateAttr(default=None)
    _unsaved: str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_function(self) -> Self:
        """Return the trait. Raises `ValueError` unless it has exactly one of `function`, `source` and `pickled`, in a
        valid form, or if `invert_result` is set for a kind other than `boolean`.
        """
        given = [name for name in ("function", "source", "pickled") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "a callable trait needs either `function` (an import path) or `source`, but this one has "
                f"{' and '.join(given) or 'neither'}"
            )
        if self.function is not None and not _IMPORT_PATH.fullmatch(self.function):
            raise ValueError(f'`function` must be an import path like "package.module:function", not {self.function!r}')
        if self.source is not None and not self.source.strip():
            raise ValueError("`source` is empty; it must contain the source code of a function")
        if self.invert_result and self.kind != "boolean":
            raise ValueError('invert_result is only for kind "boolean"; remove invert_result, or change the kind')
        return self

    @classmethod
    def from_callable(cls, name: str, function: Callable[[str], bool | float | str], **fields: Any) -> Self:
        """Create a trait that calls `function` with the text of the answer. A function without an import path is saved
        as source code; if that does not work on its own, the trait cannot be saved, and `unsaved` gives the reason.
        Raises `ValueError` if the function cannot be called with one argument.

        `fields` are the trait's other fields. The function is considered your own code. It needs no trust in this
        process, and may use globals and enclosing variables.
        """
        try:
            with suppress(ValueError):  # a function of C may not state its parameters
                inspect.signature(function).bind("")
        except TypeError as error:
            why = f"the function of trait {name!r} cannot be called with only the answer text: {error}"
            raise ValueError(why) from error
        path = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', '')}"
        importable = _IMPORT_PATH.fullmatch(path) and not path.startswith("__main__:")
        source, unsaved = (None, None) if importable else _source_of(function)
        trait = cls(name=name, **({"function": path} if importable else {"source": source}), **fields)
        trait._callable, trait._unsaved = function, unsaved
        return trait

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallableRubricTrait) and self.__dict__ == other.__dict__  # ignores the callable

    @property
    def given(self) -> Callable[[str], object] | None:
        """The function passed to `from_callable`, or None if the trait came from a file."""
        return self._callable

    @property
    def unsaved(self) -> str | None:
        """The reason why the function from `from_callable` cannot be saved or sent to other processes, with a fix. This
        is None if the function can be saved.
        """
        return self._unsaved


def _source_of(function: Callable[..., object]) -> tuple[str, str | None]:
    """Return a function's source code, and the reason why it does not work on its own, or None if it does. If the
    source code is not available, a comment is returned in its place.
    """
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        source = "# not available"
    if not source.startswith(("def ", "@")):
        return source, "has neither an import path nor source code of its own; define it with `def` in a module"
    missing = sorted(_globals(compile(source, "<callable trait>", "exec")) - {*vars(builtins), function.__name__})
    if not missing:
        return source, None
    cure = "import or define everything it uses inside the function, or move the function to a module"
    return source, f"cannot be imported, and its source uses {', '.join(missing)} from its module; {cure}"


def _globals(code: CodeType) -> set[str]:
    """Return the names of the globals used by `code` and its nested functions."""
    own = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return own.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


@register_trait_kind
class LLMRubricTrait(ScaledTrait):
    """A quality that a judge model scores based on the text of the answer."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    type: Literal["llm"] = "llm"


@register_trait_kind
class MetricRubricTrait(RubricTrait):
    """A trait that counts expected statements in an answer and computes metrics from 0 to 1.

    - `tp_only`: `tp_instructions` list the contents of a correct answer. Every other statement is a false positive.
      There are no true negatives, so `specificity` and `accuracy` cannot be computed.
    - `full_matrix`: in addition, `tn_instructions` list what an answer must not contain.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    type: Literal["metric"] = "metric"
    evaluation_mode: Literal["tp_only", "full_matrix"] = Field(default="tp_only", description="Which lists are used.")
    metrics: tuple[Metric, ...] = Field(min_length=1, description="The metrics to report.")
    tp_instructions: tuple[str, ...] = Field(
        min_length=1, description="What the answer should contain, as separate statements."
    )
    tn_instructions: tuple[str, ...] = Field(default=(), description="What the answer should not contain.")
    repeated_extraction: bool = Field(default=True, description="Count repeated statements only once.")

    @model_validator(mode="after")
    def _computable(self) -> Self:
        """Return the trait. Raises `ValueError` if a metric is listed twice or cannot be computed in the evaluation
        mode, or if `tn_instructions` are missing for `full_matrix` or given for `tp_only`.
        """
        if len(set(self.metrics)) != len(self.metrics):
            raise ValueError(f"a metric is listed more than once in {list(self.metrics)}; list each metric once")
        if self.evaluation_mode == "full_matrix":
            if not self.tn_instructions:
                raise ValueError("'full_matrix' requires tn_instructions, which state what answers must not contain")
            return self
        if self.tn_instructions:
            raise ValueError("evaluation_mode 'tp_only' does not use tn_instructions; remove them or set 'full_matrix'")
        missing = [metric for metric in self.metrics if metric in _NEEDS_TRUE_NEGATIVES]
        if missing:
            raise ValueError(
                f"{', '.join(missing)} cannot be computed with evaluation_mode 'tp_only', which has no true "
                "negatives; set evaluation_mode to 'full_matrix' and add tn_instructions"
            )
        return self


@register_trait_kind
class RegexRubricTrait(RubricTrait):
    """A trait that is true if `pattern` is found in the answer. Set `invert_result` to reverse this.

    Patterns use the syntax of the `regex` library. They are checked when a file is loaded and before a run.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1, description="The pattern to search for.")
    case_sensitive: bool = Field(default=True, description="Whether matching is case-sensitive.")
    invert_result: bool = Field(default=False, description="The score is true if the pattern is not found.")
