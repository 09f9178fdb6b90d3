"""The second look of a small judge, which checks the value that it extracted.

Of a text: the judge lists the values in the response, letters replace them, and it chooses the letter of the answer. So
it reads what the response says about the values, and not the values. Of a number: `karenina_template.copied_numbers`,
and of a date: `karenina_template.copied_dates`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from karenina_core.errors import StructuredError
from karenina_core.models.special_tokens import break_special_tokens
from karenina_template.copied_dates import is_date_field
from karenina_template.copied_numbers import choices_of, is_number_field
from karenina_template.listed_values import LISTED, find_known, is_bare, select_values
from karenina_template.masked_text import normalize_value
from karenina_template.masked_values import LEAD, MASKED, Choose, is_plausible, score_values
from karenina_toolkit.structured import ask, object_schema

if TYPE_CHECKING:
    from karenina_core.models.prompts import PromptTask
    from karenina_core.stages.context import VerificationContext

_NOT_CHOSEN: Final = -10.0
"""Stands for the log-probability of options that were not chosen, if the adapter does not know it."""

ListValues = Callable[[str, int], Awaitable[Sequence[str]]]
"""A function that has the judge list the values in a response, at least so many."""


def field_to_check(schema: Mapping[str, Any]) -> str | None:
    """Return the field of a form that has only one, for any text; None for all other forms."""
    if len(schema["properties"]) != 1:
        return None
    ((name, part),) = schema["properties"].items()
    kinds = [one for one in part.get("anyOf", [part]) if one.get("type") != "null"]
    is_text = len(kinds) == 1 and kinds[0].get("type") in ("string", ["string", "null"])
    return name if is_text and not kinds[0].keys() & {"enum", "const", "pattern", "format"} else None


def has_second_look(schema: Mapping[str, Any]) -> bool:
    """Return whether a second look checks anything in a form: its only field, for text, or numbers and dates."""
    parts = schema["properties"].values()
    return field_to_check(schema) is not None or any(is_number_field(part) or is_date_field(part) for part in parts)


async def look_again(context: VerificationContext, response: str, value: str, rejected: Sequence[str]) -> str | None:
    """Return the value that the judge gives as the answer of `response` at a second look; None for none.

    `value` and `rejected` are those of its first look. If a reply cannot be used, `value` stays, and the result field
    `parsing` says so.
    """
    try:
        return await check_value(
            response,
            context.question.question,
            value,
            rejected,
            lambda text, count: _list_values(context, text, count),
            lambda text, options: _choose(context, text, options),
        )
    except StructuredError as error:
        context.extend_result_field("parsing", {"not_checked": str(error)})
        return value


async def choose_numbers(
    context: VerificationContext,
    task: PromptTask,
    request: str,
    form: Mapping[str, Any],
    values: Mapping[str, Any],
    response: str,
) -> Mapping[str, object]:
    """Return the numbers and dates that the judge chooses for those that it seems to have misread, by field.

    `values` are its reply to the same `request`. If its choice cannot be used, nothing is returned, and the result
    field `parsing` says so.
    """
    with_choices = choices_of(form, values, response)
    if with_choices is None:
        return {}
    misread = [name for name, part in with_choices["properties"].items() if part is not form["properties"][name]]
    try:
        chosen = await ask(context, task, request, with_choices, lambda reply: {name: reply[name] for name in misread})
    except StructuredError as error:
        context.extend_result_field("parsing", {"not_checked": str(error)})
        return {}
    return chosen.value


async def check_value(
    response: str, question: str, value: str, rejected: Sequence[str], list_values: ListValues, choose: Choose
) -> str | None:
    """Return which value the judge gives as the answer of `response`; None for none, `value` if it finds no other.

    A value that the judge has not named at its first look must also be plausible in its own words. If the first look
    saw no value rejected, another one must lead `value` by far, and so must "none".
    """
    if is_bare(response, value):
        return value
    known = find_known(response, [value, *rejected])
    listed = await list_values(response, 2)
    values = select_values(response, question, known, listed)
    if len(values) < 2:
        values = select_values(response, question, known, [*listed, *await list_values(response, 3)])
    if not values:
        return value
    named = {normalize_value(one) for one in known}
    same = next((one for one in values if normalize_value(one) == normalize_value(value)), None)
    saw_rejected = any(normalize_value(one) != normalize_value(value) for one in rejected)
    lead, lead_of_none = 0.0 if saw_rejected else LEAD, 0.0 if rejected else LEAD
    while True:
        scores = await score_values(response, values, choose)
        best = max(values, key=lambda one: (scores[one], one == same))
        others = [one for one in values if one != best]
        if scores[None] > scores[best] + lead_of_none:
            return None
        if best == same or (same in others and scores[best] < scores[same] + lead):
            return value
        if same is None and any(scores[best] < scores[one] + lead / 2 for one in others):
            return value
        if not others or normalize_value(best) in named or await is_plausible(response, best, others, choose):
            return best
        values = others


async def _list_values(context: VerificationContext, text: str, count: int) -> Sequence[str]:
    item = {"type": "string", "minLength": 1, "maxLength": 60}
    form = object_schema({"values": {"type": "array", "items": item, "minItems": count, "maxItems": 4}})
    request = break_special_tokens(text)
    return (await ask(context, LISTED, request, form, lambda found: [str(one) for one in found["values"]])).value


async def _choose(context: VerificationContext, text: str, options: Sequence[str]) -> Mapping[str, float]:
    form = object_schema({"value": {"type": "string", "enum": list(options)}})
    found = await ask(context, MASKED, break_special_tokens(text), form, lambda values: str(values["value"]))
    known = found.option_logprobs
    if known is not None and known.keys() >= set(options):
        return known
    return {option: 0.0 if option == found.value else _NOT_CHOSEN for option in options}
