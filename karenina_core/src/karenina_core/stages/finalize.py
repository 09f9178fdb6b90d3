"""FinalizeResult, slot 13: makes the `VerificationResult` of what is there, whatever happened before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from karenina_core.artifacts.artifact import ANY, ArtifactKey
from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.artifacts.keys import standard_keys
from karenina_core.artifacts.slots import Slot
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import ROOT_FIELDS, SECTIONS, Section, VerificationResultRubric
from karenina_core.errors import describe_error
from karenina_core.hooks import hookimpl
from karenina_core.models.ports import NO_USAGE, Message, Usage
from karenina_core.stages.context import ItemError, State, VerificationContext
from karenina_core.stages.stage import Stage
from karenina_core.text import replace_surrogates, replace_surrogates_in

if TYPE_CHECKING:
    from karenina_core.artifacts.keys import BoundTemplate, ParsedAnswer
    from karenina_core.data.question import Question

VERIFICATION_RESULT = ArtifactKey("verification_result", VerificationResult)

_PLACES = {key.name: (key.section, key.field) for key in standard_keys().values() if key.section is not None}
"""Where in the result an artifact lands: its section and field, by its name."""
NO_TEMPLATE = "no_template"
_ROOM: Final = 20
"""How many levels of nesting are left to what a result is put into."""


class FinalizeResult(Stage):
    """The last stage: reads everything, asks nobody, and always ends in a result."""

    name = "FinalizeResult"
    slot = Slot.FINALIZE_RESULT
    optional = ANY
    produces = frozenset({VERIFICATION_RESULT})
    fallback = True
    runs_after_error = True

    def execute(self, context: VerificationContext) -> None:
        """Collect every section that has data, the verdict and the outcome."""
        context.set_artifact(VERIFICATION_RESULT, make_result(context.state))


class plugin:  # noqa: N801 - what entry points name
    """The core's own stage, offered like anybody else's."""

    @staticmethod
    @hookimpl
    def karenina_finalize_result() -> Sequence[type[Stage]]:
        """Slot 13."""
        return [FinalizeResult]


def make_result(state: State) -> VerificationResult:
    """Return the result of everything that is known about an item, whatever its stages left."""
    try:
        return _result(state)
    except Exception as failure:
        error = ItemError(FinalizeResult.name, f"no result can be made: {describe_error(failure)}", Outcome.STAGE_ERROR)
        return _result(State(state.item, started=state.started, error=error))


def _result(state: State) -> VerificationResult:
    verdict = verify_result(state)
    sections = _sections(state)
    template = sections.setdefault("template", {})
    template.update(_parsed(state))
    template["template_verification_performed"] = state.has(Keys.FIELD_VERIFICATION_RESULT.name)
    template["verify_result"] = verdict
    template["usage_metadata"] = _usage(state)
    template["trace_messages"] = [
        message.to_dict() if isinstance(message, Message) else message
        for message in state.read(Keys.TRACE_MESSAGES.name) or ()
    ]
    root = sections.pop("root", {})
    extensions = {
        section.removeprefix("extensions:"): sections.pop(section)
        for section in list(sections)
        if section.startswith("extensions:")
    }
    result = _made(
        {
            **root,
            **sections,
            "metadata": _metadata(state),
            "outcome": outcome(state, verdict),
            "vetoes": state.all_vetoes(),
            "revisions": state.all_revisions(),
            "stages": [],  # a default that is a list is copied, which takes longer
            "extensions": extensions,
        }
    )
    if result.outcome is Outcome.SCORED and not _all_scored(state.item.question, result.rubric):
        result.outcome = Outcome.RUBRIC_ERROR
    return result


def _all_scored(question: Question, rubric: VerificationResultRubric | None) -> bool:
    """Return whether every trait has a score, or is a dynamic one whose concept the answer does not have."""
    rubric = rubric or VerificationResultRubric()
    scores, skipped = rubric.get_all_trait_scores(), rubric.dynamic_rubric_skipped_traits or {}
    return all(scores.get(name) is not None or name in skipped for name in question.trait_names())


def verify_result(state: State) -> bool | None:
    """The verdict: any veto fails it; else the fields and the patterns decide; None where nothing was compared.

    An error after a veto changes the outcome (the item is not judged, and enters no rate), not the verdict.
    """
    if state.all_vetoes():
        return False
    if state.first_error() is not None or not state.has(Keys.FIELD_VERIFICATION_RESULT.name):
        return None
    fields = bool(state.read(Keys.FIELD_VERIFICATION_RESULT.name))
    return fields and state.read(Keys.REGEX_OVERALL_SUCCESS.name) is not False


def outcome(state: State, verdict: bool | None) -> Outcome:
    """The first that holds: error, veto, correct, truncated, partial, wrong, scored."""
    error = state.first_error()
    if error is not None:
        return error.outcome
    vetoes = state.all_vetoes()
    if vetoes:
        return vetoes[0].outcome
    if verdict:
        return Outcome.CORRECT
    if state.read(Keys.RESPONSE_TRUNCATED.name):
        return Outcome.TRUNCATED
    granular = state.read(Keys.VERIFY_GRANULAR_RESULT.name)
    if isinstance(granular, (int, float)) and granular > 0:
        return Outcome.PARTIAL
    return Outcome.SCORED if verdict is None else Outcome.WRONG


def _made(values: dict[str, Any]) -> VerificationResult:
    """Return the result that `values` make. What JSON cannot say becomes text; what is of a wrong type is set apart."""
    try:
        return VerificationResult.model_validate_json(to_json(values, fallback=str, inf_nan_mode="strings"))
    except Exception:
        held = _held(values, levels=3)
    try:
        return VerificationResult.model_validate(held)
    except ValidationError as error:
        return VerificationResult.model_validate(_without_unfit(held, error))


def _held(value: Any, levels: int) -> Any:
    """Return `value` as JSON values; of the first `levels`, a part that cannot be written costs no other part."""
    if levels and isinstance(value, (dict, Section)):
        return {replace_surrogates(str(key)): _held(item, levels - 1) for key, item in dict(value).items()}
    if levels and isinstance(value, list):
        return [_held(item, levels - 1) for item in value]
    try:
        text = to_json(replace_surrogates_in(to_jsonable_python(value, fallback=str)), inf_nan_mode="strings")
        from_json(b"[" * _ROOM + text + b"]" * _ROOM)
        return from_json(text)
    except Exception:
        return f"(a value of type {type(value).__name__} that JSON cannot hold)"


def _sections(state: State) -> dict[str, dict[str, Any]]:
    """Result fields by section: those of artifacts, then those set by name, the answer's first."""
    found: dict[str, dict[str, Any]] = {}
    for level in (state.parent, state):
        if level is None:
            continue
        for name, value in level.artifacts.items():
            if value is not None and name in _PLACES:
                place, field = _PLACES[name]
                found.setdefault(place, {})[field] = value
        for section, values in level.fields.items():
            found.setdefault(section, {}).update(values)
    return found


def _without_unfit(values: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """Return the values of a result, those of a wrong type moved to the extensions."""
    unfit = values["extensions"].setdefault("karenina-core", {}).setdefault("unfit_fields", {})
    for problem in error.errors(include_url=False):
        section, *field = (str(part) for part in problem["loc"])
        if section in SECTIONS and field and field[0] in values[section]:
            unfit[f"{section}.{field[0]}"] = values[section].pop(field[0])
        elif section in ROOT_FIELDS and section in values:
            unfit[section] = values.pop(section)
    return values


def _parsed(state: State) -> dict[str, Any]:
    """What the judge extracted, and the truth beside it."""
    bound: BoundTemplate | None = state.read(Keys.ANSWER_CLASS.name)
    answer: ParsedAnswer | None = state.read(Keys.PARSED_ANSWER.name)
    if bound is None:
        return {}
    return {
        "parsed_llm_response": bound.extracted(answer) if answer is not None else None,
        "parsed_gt_response": bound.expected(),
    }


def _usage(state: State) -> dict[str, dict[str, Any]] | None:
    found: dict[str, dict[str, Any]] = {}
    total = NO_USAGE
    for level in (state.parent, state):
        for key, usage in level.usage.items() if level is not None else ():
            found[key] = {**_usage_json(usage), "scope": "item" if level is state else "answer"}
            total += usage
    if not found:
        return None
    if "answer_generation" in found:
        found["answer_generation"]["model"] = state.item.answering_model.model_name
    return {**found, "total": _usage_json(total)}


def _usage_json(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "calls": usage.calls,
    }


def _metadata(state: State) -> dict[str, Any]:
    item = state.item
    question = item.question
    judge = item.parsing_model or item.answering_model
    error = state.first_error()
    bound: BoundTemplate | None = state.read(Keys.ANSWER_CLASS.name)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    identity = "\x1f".join((question.id, item.answering_model.id, judge.id, now, str(item.replicate)))
    answered = sum(record.seconds for record in state.parent.records) if state.parent is not None else 0.0
    answering, servers = item.answering_model, item.answering_model.mcp_urls_dict or {}
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
        "answering": {
            "interface": answering.interface,
            "model_name": answering.model_name,
            "tools": sorted(servers),
        },
        "parsing": {"interface": judge.interface, "model_name": judge.model_name},
        "answering_system_prompt": answering.system_prompt,
        "parsing_system_prompt": judge.system_prompt,
        "completed_without_errors": error is None,
        "error": f"{error.stage}: {error.message}" if error is not None else None,
        "execution_time": answered + max(0.0, time.monotonic() - state.started),
        "timestamp": now,
    }


__all__ = ["VERIFICATION_RESULT", "FinalizeResult", "make_result", "outcome", "plugin", "verify_result"]
