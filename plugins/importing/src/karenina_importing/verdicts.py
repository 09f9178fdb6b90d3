"""Converts people's verdicts on recorded answers to labels for `karenina calibrate`."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karenina_core.text import replace_surrogates
from karenina_report.exports.spreadsheets import protect

_YES: Final = frozenset(
    {"yes", "y", "true", "1", "right", "correct", "pass", "passed", "good", "positive", "thumbs_up", "accept"}
)
_NO: Final = frozenset(
    {"no", "n", "false", "0", "wrong", "incorrect", "fail", "failed", "bad", "negative", "thumbs_down", "-1", "reject"}
)
_FAULT: Final = re.compile(
    r"incorrect|inaccura|wrong|halluc|toxic|harm|bias|error|mistake|fail|issue|problem|unsafe|refus|bad", re.IGNORECASE
)
_RIGHTNESS: Final = re.compile(r"correct|accura|right|verdict|pass", re.IGNORECASE)
_SAID: Final = {True: "yes", False: "no", None: "unclear"}


def as_verdict(value: Any) -> bool | None:
    """Convert a verdict to True for correct, False for wrong, and None for anything else. A verdict is a boolean, a
    word such as `yes` or `incorrect`, or one of the numbers 1, 0 and -1.
    """
    if isinstance(value, bool):
        return value
    word = str(value).strip().casefold().replace(" ", "_").removesuffix("_answer").removesuffix(".0")
    return True if word in _YES else False if word in _NO else None


@dataclass(frozen=True, slots=True)
class Score:
    """A score that a person gave to an answer. `name` is what was scored."""

    name: str
    value: Any
    labeller: Any = None
    note: Any = None


def choose_label(scores: Sequence[Score]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return a label made from the first score whose name is about correctness, or otherwise from the first of all, and
    the names of the other scores. Scores for faults, such as hallucinations, are not used; if there are no others, the
    label is None. It keeps the score's name as `score` for `settle_scales`.
    """
    usable = [score for score in scores if not _FAULT.search(score.name)]
    chosen = next((score for score in usable if _RIGHTNESS.search(score.name)), usable[0] if usable else None)
    others = [score.name for score in scores if score is not chosen]
    if chosen is None:
        return None, others
    return {**make_label(chosen.value, chosen.labeller, chosen.note), "score": chosen.name}, others


def settle_scales(labels: Iterable[dict[str, Any]]) -> list[str]:
    """Mark labels as unclear, in place, if their numbers are on a scale such as 1 to 5, where 1 does not mean correct,
    or if they are 0 where others are negative. Removes the keys `score` and `value` from all labels, and returns notes
    about the scales.
    """
    by_name: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for label in labels:
        name, value = label.pop("score", ""), label.pop("value", None)
        if value is not None:
            by_name.setdefault(name, []).append((value, label))
    notes = []
    for name, scored in by_name.items():
        values = [value for value, _ in scored]
        least, most = min(values), max(values)
        on_scale = least < -1 or most > 1
        for value, label in scored:
            if label["right"] is not None and (on_scale or (value == 0 and least < 0)):
                label["right"] = None
                label["note"] = "; ".join([f"{value:g}", *([label["note"]] if label.get("note") else [])])
        if on_scale:
            of = f" of {name!r:.60}" if name else ""
            notes.append(
                f"label: the verdicts{of} are numbers from {least:g} to {most:g}, which do not say whether an "
                "answer is right or wrong"
            )
    return notes


def make_label(value: Any, labeller: Any = None, note: Any = None) -> dict[str, Any]:
    """Make the label for a verdict, with the labeller and the note, if any. If the verdict is neither correct nor
    wrong, `right` is None, and the verdict is added to the note. A number is kept as `value` for `settle_scales`.
    """
    right = as_verdict(value)
    number = _as_number(value)
    notes = [str(part) for part in ((value,) if right is None else ()) + (note,) if part not in (None, "")]
    named = {"labeller": str(labeller)} if labeller not in (None, "") else {}
    label = {"right": right, **named, **({"note": "; ".join(notes)} if notes else {})}
    return label if number is None else {**label, "value": number}


def _as_number(value: Any) -> float | None:
    """Return a verdict as a finite number, or None for booleans and other values."""
    if isinstance(value, bool):
        return None
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def label_table(labels: Sequence[Mapping[str, Any]], *, with_models: bool) -> str:
    """Return labels as a CSV table for `karenina calibrate` and `karenina label --from`. Set `with_models` to add a
    column with the models, which is needed if there are several.
    """
    models = ["answering_model"] if with_models else []
    columns = ["question_id", "replicate", *models, "labeller", "right", "note"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for label in labels:
        row = {
            **label,
            "question_id": label["id"],
            "answering_model": label.get("model"),
            "right": _SAID[label.get("right")],
        }
        writer.writerow([protect(replace_surrogates(str(row.get(name) or ""))) for name in columns])
    return text.getvalue()
