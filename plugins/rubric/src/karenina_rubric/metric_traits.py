"""The evaluator for metric traits, which computes precision, recall and similar metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from karenina_core.data.rubrics import MetricRubricTrait
from karenina_rubric.evaluators import KindEvaluator, TraitScore
from karenina_rubric.prompts import EVERY_TIME, EXTRA, METRIC, ONCE, REASONING, SAID, UNWANTED, metric_request
from karenina_toolkit.structured import InvalidReply, ask, may_mean_nothing, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationContext


class Confusion(NamedTuple):
    """The statements that a trait's metrics are based on: true and false positives and negatives.

    In the mode `tp_only`, there are no true negatives, and `tn` is empty.
    """

    tp: tuple[str, ...]
    fp: tuple[str, ...]
    fn: tuple[str, ...]
    tn: tuple[str, ...] = ()

    def lists(self) -> dict[str, list[str]]:
        """Return the four lists in the form that is stored in the result."""
        return {"tp": list(self.tp), "tn": list(self.tn), "fp": list(self.fp), "fn": list(self.fn)}

    def metric(self, name: str) -> float:
        """Return the given metric, from 0 to 1. If the denominator is 0, the result is 0.0."""
        tp, fp, fn, tn = len(self.tp), len(self.fp), len(self.fn), len(self.tn)
        above, below = {
            "precision": (tp, tp + fp),
            "recall": (tp, tp + fn),
            "f1": (2 * tp, 2 * tp + fp + fn),
            "specificity": (tn, tn + fp),
            "accuracy": (tp + tn, tp + fp + fn + tn),
        }[name]
        return above / below if below else 0.0


class MetricTraitEvaluator(KindEvaluator[MetricRubricTrait]):
    """Scores metric traits by counting the expected and unwanted statements in an answer.

    The judge sees the trait's statements, which are the ground truth, as a numbered list, and replies with the numbers
    of those that it finds. In the mode `tp_only`, it also lists the other statements in the answer, which are the false
    positives. In `full_matrix`, the false positives are the unwanted statements in the answer. With
    `repeated_extraction`, repeated statements are only counted once. Each trait takes one call.
    """

    name: ClassVar[str] = "metric"
    result_field: ClassVar[str] = "metric_trait_scores"
    kind = MetricRubricTrait

    async def score(self, trait: MetricRubricTrait, text: str, context: VerificationContext) -> TraitScore:
        """Ask the judge which statements the response contains, and return a score that maps the trait's metrics to
        their values.
        """
        request = metric_request(trait, context.question.question, text)
        asked = await ask(context, METRIC, request, metric_schema(trait), lambda data: read_confusion(trait, data))
        metrics = {name: asked.value.metric(name) for name in trait.metrics}
        lists = {"metric_trait_confusion_lists": asked.value.lists()}
        return TraitScore(trait.name, self.result_field, metrics, fields=lists)


def metric_schema(trait: MetricRubricTrait) -> dict[str, Any]:
    """Return the JSON Schema of the reply: reasoning, the numbers of the statements in the answer and, in
    `full_matrix`, of the unwanted ones, or in `tp_only` any other statements.
    """
    repeats = ONCE if trait.repeated_extraction else EVERY_TIME
    properties: dict[str, dict[str, Any]] = {
        "reasoning": {"type": "string", "description": REASONING},
        "said": _array_schema("integer", SAID.format(repeats=repeats)),
    }
    if trait.evaluation_mode == "full_matrix":
        properties["unwanted_said"] = _array_schema("integer", UNWANTED.format(repeats=repeats))
    else:
        properties["other_things_said"] = _array_schema("string", EXTRA)
    return object_schema(properties)


def read_confusion(trait: MetricRubricTrait, data: Mapping[str, Any]) -> Confusion:
    """Return the true and false positives and negatives that follow from a judge's reply about a trait. With
    `repeated_extraction`, a repeated statement counts once. Raises `InvalidReply` if a number is unknown or a list of
    numbers is null.

    If the list of other statements is null, it counts as empty. Words for nothing in it, such as "None", are left out.
    """
    tp, fn = _split_numbered("said", data["said"], trait.tp_instructions, once=trait.repeated_extraction)
    if trait.evaluation_mode == "full_matrix":
        fp, tn = _split_numbered(
            "unwanted_said", data["unwanted_said"], trait.tn_instructions, trait.repeated_extraction
        )
        return Confusion(tp, fp, fn, tn)
    others = [entry.strip() for entry in data["other_things_said"] or () if entry and not may_mean_nothing(entry)]
    if trait.repeated_extraction:
        others = list({" ".join(entry.casefold().split()): entry for entry in reversed(others)}.values())[::-1]
    return Confusion(tp, tuple(others), fn)


def _split_numbered(
    key: str, numbers: Sequence[int | None] | None, things: Sequence[str], once: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the `things` whose number, from 1, is in `numbers`, and those that the answer lacks, both in order. A
    thing that is listed several times is repeated unless `once` is set. Raises `InvalidReply`, which names `key`, if
    `numbers` is None or contains an unknown number.
    """
    if numbers is None:
        raise InvalidReply(f"{key} must be a list, not null; use an empty list if the answer contains none")
    counts = Counter(int(number) for number in numbers if number is not None)
    wrong = sorted(number for number in counts if not 1 <= number <= len(things))
    if wrong:
        raise InvalidReply(f"{key} contains {wrong[0]}, but the things are numbered from 1 to {len(things)}")
    there = [thing for at, thing in enumerate(things, 1) for _ in range(min(counts[at], 1) if once else counts[at])]
    return tuple(there), tuple(thing for at, thing in enumerate(things, 1) if not counts[at])


def _array_schema(kind: str, description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": kind}, "description": description}
