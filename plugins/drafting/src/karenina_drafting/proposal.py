"""Templates proposed by a model. They are pure data, which is converted to a declaration as in YAML.

The schema of `Proposal` and the messages of `ProposalError` are sent to the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from karenina_drafting.brief import boolean_in, date_of, numbers_in
from karenina_template.templates import known_primitives, primitives_by_field_type
from karenina_template.templates.normalize import normalize

NORMALIZE: Final = ("lowercase", "strip", "remove_punctuation", "collapse_whitespace")
_PLAIN: Final = ("lowercase", "strip")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MOST_FIELDS: Final = 8
_MOST_VALUES: Final = 50
"""The maximum number of values in ground_truth, synonyms and choices together."""
_LONGEST: Final = 500
"""The maximum length of a description and of each value."""
_LARGEST_SHARE: Final = 0.5
"""The largest relative tolerance."""


class ProposalError(ValueError):
    """Raised if a proposed field is invalid. The message is for the model that proposed it."""


class ProposedField(BaseModel):
    """One field of a proposed template. Every value is data; none of it becomes code."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="A short name in lower case, with underscores, such as gene or approval_year.")
    description: str = Field(
        description="What to extract from a response, such as 'The gene that the response names'. Never the answer."
    )
    primitive: str = Field(
        description="The rule that compares the extracted value with ground_truth.",
        json_schema_extra=lambda schema: schema.update(enum=[*_KINDS, *primitives_by_field_type().values()]),
    )
    ground_truth: list[str] = Field(description="The right value, copied from the answer; several for a list.")
    synonyms: list[str] = Field(default=[], description="Other names of exactly the same thing, for ExactMatch.")
    choices: list[str] = Field(
        default=[], description="All possible values, for LiteralMatch and Choice; ground_truth is one of them."
    )
    tolerance: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="The largest accepted distance, for numbers and quantities.",
    )
    tolerance_mode: Literal["absolute", "relative"] = Field(
        default="absolute", description="Whether the tolerance is in the unit of the number, or a share of it."
    )


class Proposal(BaseModel):
    """A proposed template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fields: list[ProposedField] = Field(description="The fields of the template, one to four.")


def declare(proposal: Proposal) -> dict[str, dict[str, Any]]:
    """Return the declarations of the proposed fields by name, as under `answer` in a YAML file. Nothing in the proposal
    is executed. Raises `ProposalError` with all problems, one per line, or if there are not one to eight fields.
    """
    fields: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    if not 1 <= len(proposal.fields) <= _MOST_FIELDS:
        raise ProposalError(f"the draft has {len(proposal.fields)} fields; write one to {_MOST_FIELDS}")
    for field in proposal.fields:
        try:
            if not _NAME.fullmatch(field.name):
                raise ProposalError("the name is not a short name in lower case with underscores")
            if field.name in fields:
                raise ProposalError("two fields have this name")
            fields[field.name] = _declare_field(field)
        except ProposalError as error:
            problems.append(f"field {field.name[:60]!r}: {error}")
    if problems:
        raise ProposalError("\n".join(problems))
    return fields


def _declare_field(field: ProposedField) -> dict[str, Any]:
    """Declare a field. Raises `ProposalError`, with a text for the model, if the ground truth is empty or does not fit
    the primitive, if a string is too long, or if there are too many values.
    """
    texts = [text.strip() for text in field.ground_truth]
    if not texts or not all(texts):
        raise ProposalError("a ground_truth is empty")
    if len(texts) + len(field.synonyms) + len(field.choices) > _MOST_VALUES:
        raise ProposalError(f"it has more than {_MOST_VALUES} values")
    if len(field.description) > _LONGEST:
        raise ProposalError(f"the description has {len(field.description):,} characters; write at most {_LONGEST}")
    for text in (*field.ground_truth, *field.synonyms, *field.choices):
        if len(text) > _LONGEST:
            what = f"the value {text[:40]!r}... has {len(text):,} characters"
            raise ProposalError(f"{what}; copy at most {_LONGEST}, only the part that a response must contain")
    declare_kind = _KINDS.get(field.primitive, _declare_read)
    kind, truth, rule = declare_kind(field, texts)
    return {"type": kind, "description": field.description.strip(), "ground_truth": truth, "verify_with": rule}


def _declare_text(field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, ground truth and rule for a string. The ground truth is the first of `texts`, and the other
    texts and the field's synonyms are accepted as well.
    """
    truth, *others = texts
    steps: list[object] = list(_steps(truth))
    canonical = normalize(truth, _steps(truth))
    aliases = (normalize(alias, _steps(truth)) for alias in (*others, *field.synonyms))
    mapping = {alias: canonical for alias in aliases if alias not in ("", canonical, "type")}
    if mapping:
        steps.append({"type": "SynonymMap", "mapping": mapping})
    return "str", truth, {"type": "ExactMatch", "normalize": steps}


def _declare_number(field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, ground truth and rule for a number. Raises `ProposalError` unless the ground truth is a single
    string with one number; `NumericTolerance` also requires a valid tolerance. `NumericExact` with a whole number has
    the type `int`.
    """
    numbers = numbers_in(_single(texts))
    if len(numbers) != 1:
        raise ProposalError(f"ground_truth must be one number for {field.primitive}, such as 4.5")
    number = numbers[0]
    whole = number == number.to_integral_value()
    if field.primitive == "NumericExact":
        return ("int", int(number), "NumericExact") if whole else ("float", float(number), "NumericExact")
    if field.tolerance is None or field.tolerance <= 0:
        raise ProposalError("NumericTolerance needs a tolerance above 0; without one, use NumericExact")
    if field.tolerance_mode == "relative" and field.tolerance > _LARGEST_SHARE:
        raise ProposalError(f"a relative tolerance is a share of at most {_LARGEST_SHARE}, such as 0.05")
    rule = {"type": "NumericTolerance", "tolerance": field.tolerance, "mode": field.tolerance_mode}
    return "float", float(number), rule


def _declare_boolean(_field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, ground truth and rule for a boolean. Raises `ProposalError` unless the ground truth is a single
    string that starts with yes, no, true or false.
    """
    truth = boolean_in(_single(texts))
    if truth is None:
        raise ProposalError("ground_truth must be true or false for BooleanMatch")
    return "bool", truth, "BooleanMatch"


def _declare_date(_field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, ground truth and rule for a date. Raises `ProposalError` if the ground truth is not a complete
    date.
    """
    truth: date | None = date_of(_single(texts))
    if truth is None:
        raise ProposalError("ground_truth must be a whole date for DateMatch, such as 2001-12-31")
    return "date", truth.isoformat(), "DateMatch"


def _declare_choice(field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, ground truth and rule for a choice, or for a string if there are no choices. Raises
    `ProposalError` unless there are at least two choices and the ground truth is one of them.
    """
    if not field.choices:  # small models use LiteralMatch for names
        return _declare_text(field, texts)
    truth = _single(texts)
    choices = list(dict.fromkeys(choice.strip() for choice in field.choices if choice.strip()))
    if len(choices) < 2 or truth not in choices:
        cure = "for a name or a few words, use ExactMatch instead"
        raise ProposalError(f"LiteralMatch needs at least two choices, with ground_truth among them; {cure}")
    return {"literal": choices}, truth, "LiteralMatch"


def _declare_collection(field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, ground truth and rule for a list. The order only matters for `OrderedMatch`."""
    steps = list(NORMALIZE if all(normalize(text, NORMALIZE) for text in texts) else _PLAIN)
    if field.primitive == "OrderedMatch":
        return "list[str]", texts, {"type": "OrderedMatch", "normalize": steps}
    return "list[str]", texts, {"type": "SetContainment", "mode": "exact", "normalize": steps}


def _declare_amount(_field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, ground truth and rule for a number whose unit is not converted, such as an amount of money."""
    return "str", _single(texts), "NumberWithUnit"


def _declare_read(field: ProposedField, texts: list[str]) -> tuple[object, object, object]:
    """Return the type, truth and rule for text that a primitive with a `field_type` reads, such as a quantity. Raises
    `ProposalError` if there is no such primitive, or several ground truths.
    """
    if field.primitive not in primitives_by_field_type().values():
        known = ", ".join([*_KINDS, *primitives_by_field_type().values()])
        raise ProposalError(f"there is no primitive {field.primitive[:60]!r}; use one of {known}")
    parameters = known_primitives()[field.primitive].model_fields
    rule: dict[str, Any] = {"type": field.primitive}
    if "options" in parameters:
        rule["options"] = field.choices
    if field.tolerance is not None and "tolerance" in parameters:
        is_share = field.tolerance_mode == "relative" and "relative" in parameters
        rule["relative" if is_share else "tolerance"] = field.tolerance
    return "str", _single(texts), rule


def _single(texts: list[str]) -> str:
    """Return the only string in a ground truth. Raises `ProposalError` if there are several."""
    if len(texts) != 1:
        raise ProposalError("ground_truth must be a single value; for several use SetContainment or OrderedMatch")
    return texts[0]


def _steps(truth: str) -> tuple[str, ...]:
    """Return the normalizers for `text`. Punctuation is only removed if it contains anything else."""
    return NORMALIZE if normalize(truth, NORMALIZE) else _PLAIN


_KINDS: Final[Mapping[str, Any]] = {
    "ExactMatch": _declare_text,
    "NumericExact": _declare_number,
    "NumericTolerance": _declare_number,
    "BooleanMatch": _declare_boolean,
    "DateMatch": _declare_date,
    "LiteralMatch": _declare_choice,
    "SetContainment": _declare_collection,
    "OrderedMatch": _declare_collection,
    "NumberWithUnit": _declare_amount,
}
"""The primitives that a draft may use, in addition to those that read text. The checks know wrong values for each."""
