"""Results as text: the parts that commands print and notebooks show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from karenina_core.data.outcome import Outcome, OutcomeGroup
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

_SYMBOLS: Final[Mapping[OutcomeGroup, str]] = {
    "right": "✓",
    "partial": "◐",
    "wrong": "✗",
    "failed": "✗",
    "scored": "•",
    "not_judged": "!",
    "undecided": "?",
}
NOT_EXTRACTED: Final = "(compares the answer itself)"
NOTHING: Final = "nothing"


class Results(Protocol):
    """Results that can be counted and iterated, and need not all be in memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[VerificationResult]: ...


def outcome_symbol(outcome: Outcome) -> str:
    """Return the symbol of an outcome, one character."""
    return _SYMBOLS[outcome.group]


def field_rows(result: VerificationResult) -> list[tuple[str, str, str, bool | None]]:
    """Return each field of a result: name, extracted value, truth, and whether it passed (None: not compared)."""
    template = result.template
    extracted = template.parsed_llm_response
    truths = template.parsed_gt_response or {}
    passed = template.field_results or {}
    rows = []
    for name in dict.fromkeys([*(extracted or {}), *truths, *passed]):
        found = "-" if extracted is None else NOT_EXTRACTED
        if extracted is not None and name in extracted:
            found = as_text(extracted[name])
        truth = "" if name not in truths else as_text(truths[name], none="should hold")
        rows.append((name, found, truth, passed.get(name)))
    return rows


def as_text(value: Any, none: str = NOTHING) -> str:
    """Return a JSON value as readable text."""
    if value is None:
        return none
    if isinstance(value, str):
        return clean(value) or '""'
    return clean(json.dumps(value, ensure_ascii=False))


def trait_lines(result: VerificationResult) -> list[str]:
    """Return each trait with its score, or why it has none."""
    if result.rubric is None:
        return []
    errors = result.rubric.trait_errors or {}
    labels = result.rubric.labels()
    return [
        f"{name}: not scored: {errors[name]}"
        if name in errors
        else f"{name} = {as_text(value)}" + (f" ({labels[name]})" if name in labels else "")
        for name, value in {**dict.fromkeys(errors), **result.rubric.get_all_trait_scores()}.items()
    ]


def models_text(result: VerificationResult) -> str:
    """Return the answering model of a result, its judge and its replicate."""
    meta = result.metadata
    models = f"{meta.answering_id} ({meta.answering_model})"
    if meta.parsing_id != meta.answering_id or meta.parsing != meta.answering:
        models += f", judged by {meta.parsing_id} ({meta.parsing_model})"
    return clean(models + (f", replicate {meta.replicate}" if (meta.replicate or 1) > 1 else ""))


def select_results(results: Results, most: int) -> tuple[list[VerificationResult], bool]:
    """Return the results for a table of at most `most` rows, and whether there are several models or replicates.

    If there are more results, those that are not correct are selected.
    """
    few = len(results) <= most
    selected: list[VerificationResult] = []
    kinds = set()
    for result in results:
        kinds.add(result.item[1:])
        if len(selected) < most and (few or result.outcome is not Outcome.CORRECT):
            selected.append(result)
    return selected, len(kinds) > 1
