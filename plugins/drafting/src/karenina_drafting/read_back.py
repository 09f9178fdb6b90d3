"""Read answers in prose with a drafted template, as a judge does, and compare the fields with the truths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.errors import StructuredError
from karenina_drafting.prompts import READING
from karenina_template.parsing_stage import parsing_request
from karenina_template.templates.comparison import Comparison
from karenina_toolkit.structured import call_structured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core import VerificationContext
    from karenina_drafting.brief import OtherAnswer
    from karenina_template.templates import BaseAnswer, BoundTemplate


async def find_misreadings(
    context: VerificationContext, bound: BoundTemplate, reference: str, others: Sequence[OtherAnswer]
) -> list[str]:
    """Return what is wrong if the model itself fills the template from answers: none if it works.

    The reference answer must pass, and the first of the other answers must fail. Raises `PortError`.
    """
    try:
        filled = await _fill(context, bound, reference)
        passes = Comparison(filled).passed()
        wrong = [] if passes else [name for name, passed in filled.field_results().items() if not passed]
        if wrong:
            named = ", ".join(f"{name!r} as {getattr(filled, name, None)!r}" for name in wrong)
            return [
                f"a judge that reads the answer extracts {named}, which fails; make the description or rule clearer"
            ]
        for other in others[:1]:
            if Comparison(await _fill(context, bound, other.answer)).passed():
                return ["a judge that reads the answer to another question extracts values that pass; be stricter"]
    except StructuredError:
        return ["a judge cannot fill these fields from the answer; make them simpler"]
    return []


async def _fill(context: VerificationContext, bound: BoundTemplate, text: str) -> BaseAnswer:
    """Return the template, filled by the model from a text. Raises `PortError` and `StructuredError`."""
    schema = bound.judge_schema()
    messages = context.prompt(READING, parsing_request(context.question.question, schema, {}, text))
    found = await call_structured(
        context.parser(), messages, schema, lambda values: bound.bind(values, text), info=context.call_info
    )
    return found.value
