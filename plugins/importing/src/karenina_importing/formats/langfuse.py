"""Langfuse: dataset items, and traces or observations with scores, in JSON or JSON lines.

An item has `input` and `expectedOutput`; a trace has `input` and `output`. Scores given by people (with `source`
ANNOTATION) become labels; evaluator scores are not carried over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.structured_values import (
    answered,
    as_metadata,
    asked,
    make_recording,
    objects,
    parse_text,
    read_objects,
)
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow
from karenina_importing.verdicts import Score, choose_label

_LISTS: Final = ("data", "items")
_ITEM: Final = frozenset(
    {"datasetId", "datasetName", "dataset_id", "sourceTraceId", "source_trace_id", "sourceObservationId"}
)
_TRACE: Final = frozenset({"scores", "traceId", "trace_id", "observations", "sessionId", "htmlPath", "totalCost"})
_EXPECTED: Final = ("expectedOutput", "expected_output")


def _detect(head: FileHead) -> Fit:
    found = objects(head, *_LISTS)
    if not found or not all(isinstance(one, Mapping) and "input" in one for one in found):
        return Fit.NO
    items = all(_ITEM & one.keys() and any(key in one for key in _EXPECTED) for one in found)
    return Fit.YES if items or all("output" in one and _TRACE & one.keys() for one in found) else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    for row in read_objects(path, *_LISTS):
        if row.problem or row.values.get("input") is None:
            yield SourceRow(row.place, {}, row.problem or "it has no `input`")
        else:
            yield _row(row.place, row.values)


def _row(place: str, one: Mapping[str, Any]) -> SourceRow:
    if one.get("status") == "ARCHIVED":
        return SourceRow(place, {}, "the item is archived")
    truth, left = answered(_decode(next((one[key] for key in _EXPECTED if one.get(key) is not None), None)))
    values = {**one, "question": asked(_decode(one["input"])), "expected": truth}
    question = {**as_metadata({"metadata": one.get("metadata")}), **_keywords(one.get("tags"))}
    recordings = None
    if one.get("output") is not None and _TRACE & one.keys():
        response, more = answered(_decode(one["output"]))
        label, scores = _scores(one.get("scores"))
        left = [*left, *more]
        model = one.get("model") or one.get("providedModelName")
        named = model if isinstance(model, str) else None
        recordings = [make_recording(response, named, label)] if response not in (None, "") else []
        left_out = [*(f"output {name!r:.40}" for name in left), *(f"score {name!r:.40}" for name in scores)]
        return SourceRow(place, values, question=question, recordings=recordings, left_out=left_out)
    return SourceRow(place, values, question=question, left_out=[f"output {name!r:.40}" for name in left])


def _keywords(tags: Any) -> dict[str, Any]:
    return {"keywords": tags} if isinstance(tags, list) and tags and all(isinstance(tag, str) for tag in tags) else {}


def _decode(value: Any) -> Any:
    """Return the JSON value in a string, as in table exports; return other values unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    return parse_text(value)


def _scores(scores: Any) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the label for the scores given by people (None if there are none), and the names of the other scores."""
    people, others = [], []
    for score in scores if isinstance(scores, list) else ():
        if not isinstance(score, Mapping):
            continue
        given = score.get("stringValue") if score.get("stringValue") is not None else score.get("value")
        if score.get("source") == "ANNOTATION" and given is not None:
            people.append(Score(str(score.get("name")), given, score.get("authorUserId"), score.get("comment")))
        else:
            others.append(str(score.get("name")))
    label, more = choose_label(people)
    return label, [*others, *more]


LANGFUSE: Final = make_import_format(
    "langfuse",
    "Langfuse items or traces",
    _detect,
    _rows,
    FieldMapping(paths={"question": ("question",), "raw_answer": ("expected",), "id": ("id",)}),
)
"""Langfuse dataset items and traces."""
