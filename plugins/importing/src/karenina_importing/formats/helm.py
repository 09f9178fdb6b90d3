"""HELM: the scenario state of a run (`scenario_state.json`), and the instances of a scenario (`instances.json`).

Each instance is a row. References tagged `correct` are the correct answers, each of them by itself unless the run's
adapter asks for several labels (`multi_label`). A multiple-choice question keeps the letters that the run used.
Requests that only score a specific reference have no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.tables.answer_kinds import Cell
from karenina_benchmark.tables.column_roles import TRUTH
from karenina_benchmark.tables.declare_answers import declare_answers
from karenina_benchmark.tables.table_answers import declare_options
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.structured_values import as_mapping, as_metadata, make_recording
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, read_json

_STATES: Final = "request_states"
_CORRECT: Final = "correct"


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` for HELM scenario states and lists of HELM instances, else `Fit.NO`."""
    document = head.document
    if isinstance(document, Mapping):
        return Fit.YES if isinstance(document.get(_STATES), list) and "adapter_spec" in document else Fit.NO
    return Fit.YES if isinstance(document, list) and document and all(map(_is_instance, document)) else Fit.NO


def _is_instance(value: Any) -> bool:
    """Return whether a value is an instance, which has `input` and `references`."""
    return isinstance(value, Mapping) and isinstance(value.get("input"), Mapping) and _has_list(value, "references")


def _has_list(value: Mapping[str, Any], key: str) -> bool:
    """Return whether an object has a list or null under `key`."""
    return key in value and (value[key] is None or isinstance(value[key], list))


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each instance or request. Raises `BenchmarkFileError` if the file contains neither."""
    document = read_json(path)
    if isinstance(document, list):
        for number, instance in enumerate(document, 1):
            yield _row(f"instance {number}", {"instance": instance}, None, are_all_needed=False)
        return
    states = document.get(_STATES) if isinstance(document, Mapping) else None
    if not isinstance(states, list):
        raise BenchmarkFileError(
            path, "", f"the file has no `{_STATES}` list, so it is not a HELM run", "choose another format with --from"
        )
    spec = document.get("adapter_spec")
    model = as_mapping(spec).get("model")
    are_all_needed = as_mapping(spec).get("multi_label") is True
    for number, state in enumerate(states, 1):
        yield _row(f"request {number}", state, model if isinstance(model, str) else None, are_all_needed=are_all_needed)


def _row(place: str, state: Any, model: str | None, *, are_all_needed: bool) -> SourceRow:
    """Make the row for a request, or for an instance without a request. `model` is the run's model. If `are_all_needed`
    is set, an answer must name all correct references, otherwise one of them. The row has a problem if there is no
    valid instance, or if the instance contains only an image or audio.
    """
    instance = state.get("instance") if isinstance(state, Mapping) else None
    if not isinstance(instance, Mapping) or not _is_instance(instance):
        return SourceRow(place, {}, "the instance is missing, or does not have both `input` and `references`")
    asked = instance["input"]
    messages = asked.get("messages")
    question = asked.get("text") or (messages if isinstance(messages, list) else None)
    if asked.get("multimedia_content") and not question:
        return SourceRow(place, {}, "the input is an image or audio, not text")
    references = [reference for reference in instance["references"] or () if isinstance(reference, Mapping)]
    texts = [_text(reference) for reference in references]
    right = [
        _text(reference)
        for reference in references
        if isinstance(reference.get("tags"), list) and _CORRECT in reference["tags"]
    ]
    choices = _choices(state.get("output_mapping"), texts, right)
    values: dict[str, Any] = {
        "question": question,
        "references": right[0] if len(right) == 1 else right,
        "choices": choices,
        "id": _id(instance),
    }
    metadata = {
        "split": instance.get("split"),
        "sub_split": instance.get("sub_split"),
        "extra": instance.get("extra_data"),
    }
    left_out = ["image or audio part"] if asked.get("multimedia_content") else []
    left_out += ["few-shot example of the prompt"] * int(bool(state.get("num_train_instances")))
    recordings: list[dict[str, Any]] | None = None
    if "request" in state or "result" in state:
        answers, values["failure"] = _recordings(state, model)
        recordings = answers or None
    answer = _declare(choices, right, are_all_needed=are_all_needed)
    if answer and are_all_needed:
        values["references"] = "; ".join(right)
    question = {**as_metadata(metadata), **({"answer": answer} if answer else {})}
    return SourceRow(place, values, question=question, recordings=recordings, left_out=left_out)


def _declare(choices: list[str] | None, right: list[str], *, are_all_needed: bool) -> dict[str, Any]:
    """Return the field for the letters of several correct options, or for several labels that are all needed. Any other
    question is declared by the kind of its answer, so the result is empty.
    """
    if choices and len(right) > 1 and set(right) <= set(choices) and len(choices) <= len(ascii_uppercase):
        options = dict(zip(ascii_uppercase, choices, strict=False))
        letters = [letter for letter, text in options.items() if text in right]
        return {TRUTH: declare_options(options, letters, several=are_all_needed)}
    if choices or not right or not are_all_needed:
        return {}
    (declared,) = declare_answers([Cell(right)]).fields
    return {TRUTH: declared} if declared else {}


def _text(reference: Mapping[str, Any]) -> str:
    """Return the text of a reference, or an empty string."""
    output = reference.get("output")
    return str(output.get("text", "")) if isinstance(output, Mapping) else ""


def _choices(mapping: Any, texts: list[str], right: list[str]) -> list[str] | None:
    """Return the options that the model was shown, in the order of their letters in `mapping`. Without letters from A
    on, these are the texts of all references if exactly one of several is right, otherwise None.
    """
    letters = list(ascii_uppercase[: len(mapping)]) if isinstance(mapping, Mapping) else []
    if letters and list(mapping) == letters:
        return [str(mapping[letter]) for letter in letters]
    return texts if len(texts) > len(right) > 0 and len(right) == 1 else None


def _id(instance: Mapping[str, Any]) -> str | None:
    """Return an instance's ID, with the name and seed of a perturbation, or None if the ID is not a string."""
    id, change = instance.get("id"), instance.get("perturbation")
    if not isinstance(id, str):
        return None
    named = change.get("name") if isinstance(change, Mapping) else None
    if not named:
        return id
    seed = change.get("seed") if isinstance(change, Mapping) else None
    return f"{id}-{named}" + (f"-{seed}" if seed is not None else "")


def _recordings(state: Mapping[str, Any], model: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return the answers to a request as recordings, and the reason if there are none (otherwise None). The recordings
    name `model` as their model or, if it is None, the request's model.
    """
    if state.get("reference_index") is not None:
        return [], "the request scores a given reference and has no answer"
    result, request = state.get("result"), state.get("request")
    if not isinstance(result, Mapping) or result.get("success") is False:
        return [], str((result.get("error") if isinstance(result, Mapping) else None) or "the request has no result")
    completions = result["completions"] if isinstance(result.get("completions"), list) else []
    own = request.get("model") if isinstance(request, Mapping) else None
    name = model or (own if isinstance(own, str) else None)
    recordings = [
        make_recording(text, name, end=as_mapping(completion.get("finish_reason")).get("reason"))
        for completion in map(as_mapping, completions)
        if isinstance(text := completion.get("text"), str) and text
    ]
    return recordings, None if recordings else "the completion is empty"


HELM: Final = make_import_format(
    "helm",
    "a HELM run or HELM instances",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("question",),
            "raw_answer": ("references",),
            "id": ("id",),
            "choices": ("choices",),
            "error": ("failure",),
        },
        choice_by="text",
    ),
)
"""HELM scenario states and instances."""
