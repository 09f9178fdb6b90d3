"""The index of the page: one column for each property of the items that the page lists and filters by."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any, Final

from karenina_core.data.outcome import Outcome
from karenina_engine.results.result_text import field_rows
from karenina_toolkit.printable import shorten

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

_MOST_OF_AN_ANSWER: Final = 160
_MOST_OF_A_VALUE: Final = 80


class ItemIndex:
    """The properties of the items that were added. Texts that repeat are stored once, and by their position."""

    def __init__(self, flipped: Set[str]) -> None:
        """Begin an index; `flipped` are the ids of questions whose verdict differs between runs."""
        self._flipped = flipped
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in (
                *("run", "id", "question_id", "question", "outcome", "model", "judge", "keywords", "replicate"),
                *("passed", "granular", "seconds", "calls", "tokens", "flip", "answer", "extracted", "truth", "cost"),
            )
        }
        self._questions: dict[str, int] = {}
        self._outcomes: dict[str, int] = {}
        self._models: dict[str, int] = {}
        self._judges: dict[str, int] = {}
        self._keywords: dict[str, int] = {}
        self._values: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._columns["id"])

    def add(self, run: int, result: VerificationResult, cost: float | None) -> None:
        """Add an item of the run with this number. `cost` is that of its calls in US dollars, None if not known."""
        meta, template = result.metadata, result.template
        usage = (template.usage_metadata or {}).get("total", {})
        granular = template.verify_granular_result
        rows = field_rows(result)
        one = len(rows) == 1
        extracted = [_named(name, text, alone=one) for name, text, _, _ in rows] if template.parsed_llm_response else []
        truths = [_named(name, text, alone=one) for name, _, text, _ in rows if text]
        values = {
            "run": run,
            "id": meta.result_id,
            "question_id": meta.question_id,
            "question": _position(self._questions, meta.question_text),
            "outcome": _position(self._outcomes, result.outcome.value),
            "model": _position(self._models, meta.answering_id),
            "judge": _position(self._judges, meta.parsing_id),
            "keywords": [_position(self._keywords, keyword) for keyword in meta.keywords or ()],
            "replicate": meta.replicate or 1,
            "passed": template.verify_result,
            "granular": round(float(granular), 4) if isinstance(granular, int | float) else None,
            "seconds": round(meta.execution_time, 3),
            "calls": usage.get("calls", 0),
            "tokens": usage.get("input_tokens", 0) + usage.get("output_tokens", 0),
            "flip": int(meta.question_id in self._flipped),
            "answer": shorten(template.raw_llm_response[:_MOST_OF_AN_ANSWER], _MOST_OF_AN_ANSWER),
            "extracted": _position(self._values, "; ".join(extracted)),
            "truth": _position(self._values, "; ".join(truths) or shorten(meta.raw_answer or "", _MOST_OF_A_VALUE)),
            "cost": cost,
        }
        for name, value in values.items():
            self._columns[name].append(value)

    def to_json(self) -> dict[str, Any]:
        """Return the index with the texts that it refers to, as JSON values."""
        ordered = [one for one in Outcome if one.value in self._outcomes]
        places = {self._outcomes[one.value]: place for place, one in enumerate(ordered)}
        return {
            "index": {**self._columns, "outcome": [places[place] for place in self._columns["outcome"]]},
            "questions": list(self._questions),
            "outcomes": [{"name": one.value, "class": one.group} for one in ordered],
            "models": list(self._models),
            "judges": list(self._judges),
            "keywords": list(self._keywords),
            "values": list(self._values),
        }


def _named(name: str, text: str, *, alone: bool) -> str:
    shown = shorten(text, _MOST_OF_A_VALUE)
    return shown if alone else f"{shorten(name, _MOST_OF_A_VALUE)}: {shown}"


def _position(known: dict[str, int], text: str) -> int:
    return known.setdefault(text, len(known))
