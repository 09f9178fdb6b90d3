"""The index of the page: one column for each property of the items that the page lists and filters by."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from karenina_core.data.outcome import Outcome

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

_CLASSES = {
    Outcome.CORRECT: "right",
    Outcome.PARTIAL: "partial",
    Outcome.WRONG: "wrong",
    Outcome.SCORED: "scored",
    Outcome.UNDECIDED: "undecided",
}


class ItemIndex:
    """The properties of the items that were added. Texts that repeat are stored once, and by their position."""

    def __init__(self, flipped: Set[str]) -> None:
        """Begin an index; `flipped` are the ids of questions whose verdict differs between runs."""
        self._flipped = flipped
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in (
                *("run", "id", "question_id", "question", "outcome", "model", "judge", "keywords", "replicate"),
                *("passed", "granular", "seconds", "calls", "tokens", "flip"),
            )
        }
        self._questions: dict[str, int] = {}
        self._outcomes: dict[str, int] = {}
        self._models: dict[str, int] = {}
        self._judges: dict[str, int] = {}
        self._keywords: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._columns["id"])

    def add(self, run: int, result: VerificationResult) -> None:
        """Add an item of the run with this number."""
        meta, template = result.metadata, result.template
        usage = (template.usage_metadata or {}).get("total", {})
        granular = template.verify_granular_result
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
            "outcomes": [{"name": one.value, "class": _class_of(one)} for one in ordered],
            "models": list(self._models),
            "judges": list(self._judges),
            "keywords": list(self._keywords),
        }


def _position(known: dict[str, int], text: str) -> int:
    return known.setdefault(text, len(known))


def _class_of(outcome: Outcome) -> str:
    """Return the class that decides the outcome's color and mark: an unknown verdict is `failed`."""
    return _CLASSES.get(outcome, "failed" if outcome.judged else "not_judged")
