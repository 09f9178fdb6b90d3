"""`ask`: one structured request of a stage to a model, with the stage's prompt and under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from karenina_core.errors import StructuredError
from karenina_toolkit.structured.structured_call import StructuredResult, call_structured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.prompts import PromptTask
    from karenina_core.stages.context import VerificationContext

T = TypeVar("T")


async def ask(
    context: VerificationContext,
    task: PromptTask,
    user: str,
    schema: Mapping[str, Any],
    validate: Callable[[dict[str, Any]], T],
    model: ModelConfig | None = None,
) -> StructuredResult[T]:
    """Have `model` (default: the judge) fill `schema`: prompt, parse, repair, and one retry with the error.

    Raises `PortError` if the call fails, and `StructuredError` if no reply could be read.
    """
    try:
        messages = context.prompt(task, user, model)
        return await call_structured(context.parser(model), messages, schema, validate, info=context.call_info)
    except StructuredError as error:
        if not error.complete:
            context.count_failure()  # no reply was complete, so a resumed run runs the item again
        raise
