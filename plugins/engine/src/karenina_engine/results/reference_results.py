"""Converting result files of the reference implementation.

They are JSON lines or JSON documents: an export of a run with `results`, an archive of several runs with `runs`, a list
of results, or an object with results by id. Fields without a counterpart here are kept in `extensions["reference"]`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import ROOT_FIELDS, SECTIONS, ModelIdentity, VerificationResultMetadata

NAME: Final = "reference"
"""The key in `extensions` for fields without a counterpart."""
_OF_FAILURE: Final = {
    "recursion_limit": Outcome.AUTO_FAILED,
    "trace_validation": Outcome.AUTO_FAILED,
    "deep_judgment": Outcome.AUTO_FAILED,
    "deep_judgment_rubric": Outcome.AUTO_FAILED,
    "abstention": Outcome.ABSTAINED,
    "sufficiency": Outcome.INSUFFICIENT,
    "template_validation": Outcome.TEMPLATE_ERROR,
    "parsing": Outcome.PARSE_ERROR,
}
"""The outcome for each category of failure.

For `content`, the outcome follows from the verdict. For other categories, it follows from the stage.
"""
_RENAMED: Final = {
    ("rubric", "agentic_trait_investigation_traces"): "agentic_trait_traces",
    ("metadata", "answering_replicate"): "replicate",
}
_OF_ITEMS: Final = ("answering", "parsing", "answering_model", "parsing_model")

Rows = Sequence[tuple[str, Any]]
"""The results in a file as JSON values, each with its location for messages."""


def find_rows(document: Any) -> Rows | None:
    """Return the results in a JSON document of the reference implementation or of this project, each with its location,
    or None if it is not a result file.
    """
    if isinstance(document, Mapping) and isinstance(document.get("runs"), Mapping):
        return [
            (f"runs.{name}, result {number}", _with_run(row, name))
            for name, rows in document["runs"].items()
            if isinstance(rows, list)
            for number, row in enumerate(rows, 1)
        ]
    rows = document.get("results", document) if isinstance(document, Mapping) else document
    if isinstance(rows, Mapping) and rows and all(map(is_row, rows.values())):
        return [(f"result {id}", row) for id, row in rows.items()]
    if isinstance(rows, list) and (any(map(is_row, rows)) or (rows is not document and "format_version" in document)):
        return [(f"result {number}", row) for number, row in enumerate(rows, 1)]
    return None


def is_row(value: Any) -> bool:
    """Return whether a JSON value is a result of this implementation or of the reference implementation."""
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    return isinstance(metadata, Mapping) and isinstance(metadata.get("question_id"), str)


def is_own(row: Any) -> bool:
    """Return whether a result was written by this implementation."""
    return isinstance(row, Mapping) and "outcome" in row


def _with_run(row: Any, name: str) -> Any:
    """Return an archived result with the run's name, unless it has one. Any other value is returned unchanged."""
    if not is_row(row) or row["metadata"].get("run_name") is not None:
        return row
    return {**row, "metadata": {**row["metadata"], "run_name": name}}


def convert_rows(rows: Rows) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the location of each result of the reference implementation with the values of a `VerificationResult`. If
    several results of an item have the same replicate number, the later ones get the next free number. Raises
    `ValueError`, with the location, if a value is not a result.
    """
    names = {role: _name_models(rows, role) for role in ("answering", "parsing")}
    taken: dict[tuple[object, ...], set[int]] = defaultdict(set)
    for place, row in rows:
        if not is_row(row):
            raise ValueError(f"{place} is not a result because it has no `metadata` with a `question_id`")
        try:
            values = _convert(row, names)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"{place} cannot be read: {error}") from error
        meta = values["metadata"]
        of = taken[(meta["question_id"], meta["answering_id"], meta["parsing_id"])]
        number = meta["replicate"] if isinstance(meta["replicate"], int) else 1
        while number in of:  # several runs in one file: no result replaces another
            number += 1
        of.add(number)
        meta["replicate"] = number
        yield place, values


def _name_models(rows: Rows, role: str) -> dict[str, str]:
    """Return a unique name for each model with the given role, keyed by the model as JSON: its `config_id` or the
    provider's name for it, with an addition if that is not unique.
    """
    every = (_model(row, role) for _, row in rows if is_row(row))
    models = {json.dumps(model, sort_keys=True): model for model in every}
    count = Counter(str(model["model_name"]) for model in models.values())
    names: dict[str, str] = {}
    for key, model in models.items():
        name = str(model["model_name"])
        if count[name] > 1:
            tools = model.get("tools")
            named = f"+{'+'.join(map(str, tools))}" if tools and isinstance(tools, list) else ""
            name = f"{model['interface']}:{name}{named}"
        base, number = str(model.get("config_id") or name), 2
        name = base
        while name in names.values():
            name, number = f"{base}-{number}", number + 1
        names[key] = name
    return names


def _model(row: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return a result's model in the given role as an object. Missing parts are "unknown". In early files, the model is
    a string such as `openai/gpt-4o`.
    """
    meta = row["metadata"]
    model = meta.get(role)
    if isinstance(model, Mapping):
        return {"interface": "unknown", "model_name": "unknown", **model}
    text = str(meta.get(f"{role}_model") or "unknown")
    for sign in (":", "/"):
        interface, separator, name = text.partition(sign)
        if separator and name and interface.isidentifier():
            return {"interface": interface, "model_name": name}
    return {"interface": "unknown", "model_name": text}


def _convert(row: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Convert a result of the reference implementation to the values of a `VerificationResult`; values without a
    counterpart are kept in `extensions`. `names` contains the result of `_name_models` for each role. Raises
    `TypeError` or `AttributeError` if part of the result has the wrong type.
    """
    other: dict[str, Any] = {}
    outcome = _outcome(row)
    values: dict[str, Any] = {"outcome": outcome.value}
    meta = _section("metadata", row["metadata"], VerificationResultMetadata, other)
    for role in ("answering", "parsing"):
        model = _model(row, role)
        meta[role] = {key: value for key, value in model.items() if key in ModelIdentity.model_fields}
        meta[f"{role}_id"] = names[role][json.dumps(model, sort_keys=True)]
    meta |= {"question_text": meta.get("question_text") or "", "template_id": meta.get("template_id") or "no_template"}
    failure = row["metadata"].get("failure")
    failed = not outcome.judged
    meta["completed_without_errors"] = not failed
    if failed:
        meta["error"] = meta.get("error") or _why(failure) or "the result has no verdict"
    elif failure and outcome.group == "failed":
        stage = str(failure.get("stage") or NAME)
        values["vetoes"] = [{"stage": stage, "reason": _why(failure), "outcome": outcome.value}]
    elif meta.get("error"):
        other.setdefault("metadata", {})["error"] = meta.pop("error")
    meta.setdefault("replicate", None)
    if not meta.get("result_id"):
        parts = [row["metadata"].get(key) for key in ("question_id", "timestamp", "replicate", *_OF_ITEMS)]
        meta["result_id"] = hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]
    values["metadata"] = meta
    for name, section in SECTIONS.items():
        if isinstance(row.get(name), Mapping):
            values[name] = _section(name, row[name], section, other)
    template = values.setdefault("template", {})
    if failed and template.get("verify_result") is not None:
        other.setdefault("template", {})["verify_result"] = template.pop("verify_result")
    mode = other.get("deep_judgment", {}).get("deep_judgment_mode")
    if mode is not None:
        values["deep_judgment"]["deep_judgment_enabled"] = mode != "disabled"
    values |= {name: row[name] for name in ROOT_FIELDS if row.get(name) is not None}
    converted = {"metadata", *SECTIONS, *ROOT_FIELDS}
    other |= {key: value for key, value in row.items() if key not in converted and value not in (None, [], {})}
    return {**values, **({"extensions": {NAME: other}} if other else {})}


def _section(name: str, stored: Mapping[str, Any], model: Any, other: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a section under the field names of `model`, without nulls. Values without a counterpart are
    added to `other` under the section's name, except for empty ones, False, and the models in `_OF_ITEMS`.
    """
    values: dict[str, Any] = {}
    for key, value in stored.items():
        new = _RENAMED.get((name, key), key)
        if value is None:
            continue
        if new in model.model_fields:
            values.setdefault(new, value)
        elif value not in ([], {}, False) and key not in _OF_ITEMS:
            other.setdefault(name, {})[key] = value
    return values


def _outcome(row: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a reference result, from the first of these that exists: a failure not due to the content,
    the error if there is no failure, a veto, a limit that was reached, the verdict (partial if the granular score is
    above 0). Without any, it is scored if it has a rubric, and otherwise a stage error.
    """
    meta, template = row["metadata"], row.get("template") or {}
    failure = meta.get("failure")
    if isinstance(failure, Mapping) and failure.get("category") != "content":
        outcome = _OF_FAILURE.get(str(failure.get("category")))
        return outcome if outcome is not None else _of_stage(str(failure.get("stage")))
    if failure is None and (meta.get("completed_without_errors") is False or meta.get("error")):
        if template.get("template_validation_error"):
            return Outcome.TEMPLATE_ERROR
        if not template.get("raw_llm_response"):
            return Outcome.MODEL_ERROR
        return Outcome.STAGE_ERROR if template.get("parsed_llm_response") else Outcome.PARSE_ERROR
    verdict = template.get("verify_result")
    if template.get("abstention_detected") and template.get("abstention_override_applied"):
        return Outcome.ABSTAINED
    if template.get("sufficiency_detected") is False and template.get("sufficiency_override_applied"):
        return Outcome.INSUFFICIENT
    if verdict is not True and template.get("recursion_limit_reached"):
        return Outcome.AUTO_FAILED
    if isinstance(verdict, bool):
        granular = template.get("verify_granular_result")
        is_partial = isinstance(granular, int | float) and not isinstance(granular, bool) and granular > 0
        return Outcome.CORRECT if verdict else Outcome.PARTIAL if is_partial else Outcome.WRONG
    return Outcome.SCORED if row.get("rubric") else Outcome.STAGE_ERROR


def _of_stage(stage: str) -> Outcome:
    """Return the outcome for a failed call that was made by the given stage."""
    name = stage.replace("_", "").lower()
    if name.startswith("generate"):
        return Outcome.MODEL_ERROR
    return Outcome.PARSE_ERROR if "parse" in name else Outcome.STAGE_ERROR


def _why(failure: Any) -> str:
    """Return the category and the reason of a failure as text, or an empty string if it is not an object."""
    if not isinstance(failure, Mapping):
        return ""
    return ": ".join(str(failure[key]) for key in ("category", "reason") if failure.get(key))
