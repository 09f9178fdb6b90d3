"""The stage `FinalizeResult` for slot 13, which creates an item's result, even after errors."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from karenina_core.artifacts.artifact import ANY, ArtifactKey
from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.artifacts.keys import standard_keys
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import ROOT_FIELDS, SECONDS_DIGITS, SECTIONS, Section, VerificationResultRubric
from karenina_core.errors import describe_error
from karenina_core.hooks import hookimpl
from karenina_core.models.ports import NO_USAGE, REPORTED_COUNTS, Message, Usage
from karenina_core.stages.stage import Stage
from karenina_core.stages.state import ItemError, State
from karenina_core.text import replace_surrogates, replace_surrogates_in

if TYPE_CHECKING:
    from karenina_core.artifacts.keys import BoundTemplate, ParsedAnswer
    from karenina_core.data.question import Question
    from karenina_core.stages.context import VerificationContext

VERIFICATION_RESULT = ArtifactKey("verification_result", VerificationResult)

_RESULT_FIELDS = {key.name: (key.section, key.field) for key in standard_keys().values() if key.section is not None}
"""The section and field of the result that each artifact sets, keyed by artifact name."""
NO_TEMPLATE = "no_template"
_RESERVED_LEVELS: Final = 20
"""The levels of JSON nesting reserved for the documents in which results are stored."""


class FinalizeResult(Stage):
    """The last stage, which reads all artifacts and always creates a result. It does not call models."""

    name = "FinalizeResult"
    optional = ANY
    produces = frozenset({VERIFICATION_RESULT})
    fallback = True
    runs_after_error = True

    def execute(self, context: VerificationContext) -> None:
        """Create the item's result."""
        context.set_artifact(VERIFICATION_RESULT, make_result(context.state))


class plugin:  # noqa: N801 - what entry points name
    """The plugin that provides the core's own stage."""

    @staticmethod
    @hookimpl
    def karenina_finalize_result() -> Sequence[type[Stage]]:
        """Return the stage for slot 13."""
        return [FinalizeResult]


def make_result(state: State) -> VerificationResult:
    """Return the result of an item in any state. If this fails, return a result that only contains the error."""
    try:
        return _make_result(state)
    except Exception as failure:
        why = f"the result cannot be built: {describe_error(failure)}"
        error = ItemError(FinalizeResult.name, why, Outcome.STAGE_ERROR)
        return _make_result(State(state.item, started=state.started, error=error))


def _make_result(state: State) -> VerificationResult:
    """Return an item's result. Unlike `make_result`, this raises an exception if the result cannot be built."""
    verdict = verify_result(state)
    sections = _sections(state)
    template = sections.setdefault("template", {})
    template.update(_extracted_values(state))
    template["template_verification_performed"] = state.has(Keys.FIELD_VERIFICATION_RESULT.name)
    template["verify_result"] = verdict
    template["usage_metadata"] = _usage(state)
    template["trace_messages"] = [
        message.to_dict() if isinstance(message, Message) else message
        for message in state.read(Keys.TRACE_MESSAGES.name) or ()
    ]
    extensions = {
        section.removeprefix("extensions:"): _in_order(sections.pop(section))
        for section in list(sections)
        if section.startswith("extensions:")
    }
    result = _validate_result(
        {
            **sections.pop("root", {}),
            **sections,
            "metadata": _metadata(state),
            "outcome": outcome(state, verdict)._value_,  # faster than `value`, a property
            "vetoes": state.all_vetoes(),
            "revisions": state.all_revisions(),
            "stages": [],  # faster than the default, which is copied
            "extensions": extensions,
        }
    )
    if result.outcome is Outcome.SCORED and not _all_scored(state.item.question, result.rubric):
        result.outcome = Outcome.RUBRIC_ERROR
    return result


def _all_scored(question: Question, rubric: VerificationResultRubric | None) -> bool:
    """Return whether every trait has a score. Dynamic traits whose concept is not in the answer do not need one."""
    rubric = rubric or VerificationResultRubric()
    scores, skipped = rubric.get_all_trait_scores(), rubric.dynamic_rubric_skipped_traits or {}
    return all(scores.get(name) is not None or name in skipped for name in question.trait_names())


def verify_result(state: State) -> bool | None:
    """Return the verdict: False after a veto, otherwise None if an error occurred or nothing was compared, otherwise
    False if a pattern fails, otherwise whether the fields match, or None if that is undecided.

    An error after a veto changes the outcome (the item is not judged and does not count in any rate), but not the
    verdict.
    """
    if state.all_vetoes():
        return False
    if state.first_error() is not None or not state.has(Keys.FIELD_VERIFICATION_RESULT.name):
        return None
    if state.read(Keys.REGEX_OVERALL_SUCCESS.name) is False:
        return False
    fields = state.read(Keys.FIELD_VERIFICATION_RESULT.name)
    return None if fields is None else bool(fields)


def outcome(state: State, verdict: bool | None) -> Outcome:
    """Return the first outcome that applies: error, veto, correct, undecided, truncated, partial, wrong, scored.
    `verdict` is the return value of `verify_result`.

    An answer that was cut off is truncated even if nothing was compared. An item without a verdict is scored even if
    some traits have no score.
    """
    if (error := state.first_error()) is not None:
        return error.outcome
    if vetoes := state.all_vetoes():
        return vetoes[0].outcome
    if verdict:
        return Outcome.CORRECT
    if verdict is None and state.has(Keys.FIELD_VERIFICATION_RESULT.name):
        return Outcome.UNDECIDED
    if state.read(Keys.RESPONSE_TRUNCATED.name):
        return Outcome.TRUNCATED
    granular = state.read(Keys.VERIFY_GRANULAR_RESULT.name)
    if isinstance(granular, (int, float)) and granular > 0:
        return Outcome.PARTIAL
    return Outcome.SCORED if verdict is None else Outcome.WRONG


def _validate_result(values: dict[str, Any]) -> VerificationResult:
    """Create a result from the given values. Unsupported values are converted to strings, and fields of the wrong type
    are moved to the extensions.
    """
    try:
        return VerificationResult.model_validate_json(to_json(values, fallback=str, inf_nan_mode="strings"))
    except Exception:
        plain = _to_json_values(values, levels=3)
    try:
        return VerificationResult.model_validate(plain)
    except ValidationError as error:
        return VerificationResult.model_validate(_move_invalid_fields(plain, error))


def _in_order(value: Any) -> Any:
    """Return a copy of a value with sorted lists in place of sets at any depth, whose order differs between runs."""
    if isinstance(value, dict):
        return {key: _in_order(item) for key, item in value.items()}
    items = [*map(_in_order, value)] if isinstance(value, (list, tuple, set, frozenset)) else value
    return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items


def _to_json_values(value: Any, levels: int) -> Any:
    """Return `value` as a JSON-compatible value. Its parts down to a depth of `levels` are converted separately, and
    each that cannot be converted is replaced by a string.

    Unsupported objects, NaN and infinities are converted to strings. A string in place of a part names its type. Parts
    below `levels` are not replaced separately.
    """
    if levels and isinstance(value, (dict, Section)):
        return {replace_surrogates(str(key)): _to_json_values(item, levels - 1) for key, item in dict(value).items()}
    if levels and isinstance(value, list):
        return [_to_json_values(item, levels - 1) for item in value]
    try:
        text = to_json(replace_surrogates_in(to_jsonable_python(value, fallback=str)), inf_nan_mode="strings")
        from_json(b"[" * _RESERVED_LEVELS + text + b"]" * _RESERVED_LEVELS)
        return from_json(text)
    except Exception:
        return f"(a value of type {type(value).__name__} that cannot be stored as JSON)"


def _sections(state: State) -> dict[str, dict[str, Any]]:
    """Return the result's fields, grouped by section. Fields set by name override those set by artifacts. An item's
    fields override those of its answer. Artifacts that are None are omitted.
    """
    sections: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for level in (state.parent, state):
        if level is None:
            continue
        for name, value in level.artifacts.items():
            if value is not None and (place := _RESULT_FIELDS.get(name)) is not None:
                sections[place[0]][place[1]] = value
        for section, values in level.fields.items():
            sections[section].update(values)
    return sections


def _move_invalid_fields(values: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """Move values of the wrong type to the extensions. Modifies and returns `values`."""
    invalid = values["extensions"].setdefault("karenina-core", {}).setdefault("unfit_fields", {})
    for problem in error.errors(include_url=False):
        section, *field = (str(part) for part in problem["loc"])
        if section in SECTIONS and field and field[0] in values[section]:
            invalid[f"{section}.{field[0]}"] = values[section].pop(field[0])
        elif section in ROOT_FIELDS and section in values:
            invalid[section] = values.pop(section)
    return values


def _extracted_values(state: State) -> dict[str, Any]:
    """Return the result's fields for the known values that the template uses, the values extracted by the judge, and
    the ground truth. Without a template, the result is empty.
    """
    bound: BoundTemplate | None = state.read(Keys.ANSWER_CLASS.name)
    answer: ParsedAnswer | None = state.read(Keys.PARSED_ANSWER.name)
    if bound is None:
        return {}
    filled: dict[str, list[str]] = {}
    for field, name in bound.sources.items():
        filled.setdefault(name, []).append(field)
    offered = state.all_values().items() if filled else ()
    known = {key: value.model_copy(update={"fields": filled[key]}) for key, value in offered if key in filled}
    return {
        "known_values": known or None,
        "parsed_llm_response": bound.extracted(answer) if answer is not None else None,
        "parsed_gt_response": bound.expected(),
    }


def _usage(state: State) -> dict[str, dict[str, Any]] | None:
    """Return the token counts and scope of each usage key, with their sum as `total`, or None if no calls were made.
    Calls made for the answer are included. Keys without calls, such as those of a recorded answer, are omitted. A key
    of the answer that the item uses, too, gets a second entry, `KEY (item)`.
    """
    entries: dict[str, dict[str, Any]] = {}
    total = NO_USAGE
    for level in (state.parent, state):
        for key, usage in level.usage.items() if level is not None else ():
            if usage.calls or usage != NO_USAGE:
                entry = entries[f"{key} (item)" if key in entries else key] = _usage_json(usage)
                entry["scope"] = "item" if level is state else "answer"
                total += usage
    if not entries:
        return None
    if "answer_generation" in entries:
        entries["answer_generation"]["model"] = state.item.answering_model.model_name
    entries["total"] = _usage_json(total)
    return entries


def _usage_json(usage: Usage) -> dict[str, Any]:
    """Return token counts as a JSON-compatible dict, with the number of calls. `total_tokens` is the sum of input and
    output.
    """
    return {name: getattr(usage, name) for name in REPORTED_COUNTS}


def _metadata(state: State) -> dict[str, Any]:
    """Return the metadata section. Without a judge, the answering model takes its place. The execution time includes
    the time spent on the answer.
    """
    item, question = state.item, state.item.question
    answering, judge = item.answering_model, item.parsing_model or item.answering_model
    tools = sorted(answering.mcp_urls_dict or {})
    error = state.first_error()
    bound: BoundTemplate | None = state.read(Keys.ANSWER_CLASS.name)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    identity = "\x1f".join((question.id, answering.id, judge.id, now, str(item.replicate)))
    answered = sum([record.seconds for record in state.parent.records]) if state.parent is not None else 0.0
    return {
        "question_id": question.id,
        "template_id": str(bound.template_id) if bound is not None else NO_TEMPLATE,
        "result_id": sha256(identity.encode()).hexdigest()[:16],
        "question_text": question.question,
        "raw_answer": question.raw_answer,
        "keywords": list(question.keywords) or None,
        "run_name": item.run_name,
        "replicate": item.replicate,
        "answering_id": answering.id,
        "parsing_id": judge.id,
        "answering": {"interface": answering.interface, "model_name": answering.model_name, "tools": tools},
        "parsing": {"interface": judge.interface, "model_name": judge.model_name},
        "answering_system_prompt": answering.system_prompt,
        "parsing_system_prompt": judge.system_prompt,
        "completed_without_errors": error is None,
        "error": f"{error.stage}: {error.message}" if error is not None else None,
        "execution_time": round(answered + max(0.0, time.monotonic() - state.started), SECONDS_DIGITS),
        "timestamp": now,
        "files": [],
    }


__all__ = ["VERIFICATION_RESULT", "FinalizeResult", "make_result", "outcome", "plugin", "verify_result"]
