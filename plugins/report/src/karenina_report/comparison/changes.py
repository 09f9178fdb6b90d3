"""Find the questions whose verdict, answer, extraction or ground truth differs between two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

from karenina_core.text import compose
from karenina_engine.results.result_text import field_rows
from karenina_report.comparison.comparison_result import Change, FieldValues, Side
from karenina_report.comparison.pairing import SORTED_JSON
from karenina_report.statistics.metrics import NOT_JUDGED, RATE, verdict

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.comparison.paired_values import PairedQuestion
    from karenina_report.comparison.pairing import Pairing, Results
    from karenina_report.rules import Rules


def find_changes(pairing: Pairing, paired: Mapping[str, Sequence[PairedQuestion]], rules: Rules) -> list[Change]:
    """Return the questions in which a metric differs between the runs: flips, then those that are undecided more often
    in one run, then the others, each with the largest change first. `paired` maps each metric to its questions, also
    those that only one run judged, and `rules` maps each template id to its field rules.
    """
    values: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for metric, questions in paired.items():
        for question in questions:
            a, b = question.a.mean, question.b.mean
            if a != b:
                pair = (None if a is None else float(a), None if b is None else float(b))
                values.setdefault(question.id, {})[metric] = pair
    changes = [_change(id, *pairing.questions[id], values[id], rules) for id in pairing.questions if id in values]
    return sorted(changes, key=lambda change: (not change.flipped, not change.undecided, -_size(change)))


def _size(change: Change) -> float:
    """Return the absolute difference between the pass rates, or 0 if one run has no verdict."""
    a, b = change.metrics.get(RATE, (0.0, 0.0))
    return abs(a - b) if a is not None and b is not None else 0.0


def _change(
    id: str,
    ours: Results,
    theirs: Results,
    metrics: Mapping[str, tuple[float | None, float | None]],
    rules: Rules,
) -> Change:
    """Describe the change in one question. One of the runs may have no results for it. `metrics` maps each metric that
    differs to its mean in both runs. If it has a pass rate for both, the question flipped.
    """
    a, b = metrics.get(RATE, (None, None))
    fields = dict(_fields(ours, theirs))
    return Change(
        question_id=id,
        question=(ours or theirs)[0].metadata.question_text,
        keywords=list(dict.fromkeys(map(compose, (ours or theirs)[0].metadata.keywords or ()))),
        flipped=a is not None and b is not None,
        changed=[name for name, fact in _FACTS.items() if _value_shares(ours, fact) != _value_shares(theirs, fact)],
        metrics={name: pair for name, pair in metrics.items() if name != NOT_JUDGED},
        fields=fields,
        values=list(_values(ours, theirs, fields, rules)),
        a=_side(ours),
        b=_side(theirs),
    )


def _truth(result: VerificationResult) -> Hashable:
    """Return the ground truths and the reference answer in a comparable form."""
    return SORTED_JSON.encode([result.template.parsed_gt_response, result.metadata.raw_answer])


_FACTS: Final[Mapping[str, Callable[[VerificationResult], Hashable]]] = {
    "answer": lambda result: result.template.raw_llm_response,
    "extraction": lambda result: SORTED_JSON.encode(result.template.parsed_llm_response),
    "known values": lambda result: SORTED_JSON.encode(
        {n: v.value for n, v in (result.template.known_values or {}).items()}
    ),
    "truth": _truth,
    "verdict": lambda result: result.outcome,
}


def _value_shares(results: Results, fact: Callable[[VerificationResult], Hashable]) -> dict[Hashable, float]:
    """Return the share of the results for which `fact` returns each value.

    Unlike counts, shares are comparable between runs with different numbers of replicates.
    """
    if len(results) == 1:  # as in most runs; a counter takes longer than everything else
        return {fact(results[0]): 1.0}
    counts = Counter(fact(result) for result in results)
    return {value: count / len(results) for value, count in counts.items()}


def _fields(ours: Results, theirs: Results) -> Iterator[tuple[str, tuple[float | None, float | None]]]:
    """Yield each field whose pass rates differ, with both rates. A rate is None if nothing was checked."""
    sides = [_passed(ours), _passed(theirs)]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        a, b = (fmean(side[name]) if name in side else None for side in sides)
        if a != b:
            yield name, (a, b)


def _passed(results: Iterable[VerificationResult]) -> dict[str, list[bool]]:
    """Return the outcomes of each field and regex check by name, skipping checks without an outcome."""
    by_name: dict[str, list[bool]] = {}
    for result in results:
        for checks in (result.template.field_results, result.template.regex_validation_results):
            for name, passed in (checks or {}).items():
                if passed is not None:
                    by_name.setdefault(name, []).append(passed)
    return by_name


def _values(ours: Results, theirs: Results, differing: Container[str], rules: Rules) -> Iterator[FieldValues]:
    """Yield the fields whose extracted values differ, and the fields named in `differing`."""
    sides: list[dict[str, Counter[str]]] = []
    truths: dict[str, dict[str, None]] = {}
    texts: dict[str, str] = {}
    for results in (ours, theirs):
        counts: dict[str, Counter[str]] = {}
        for result in results:
            texts.update(rules.get(result.metadata.template_id, {}))
            for name, text, truth, _ in field_rows(result):
                values = counts.setdefault(name, Counter())
                if result.template.parsed_llm_response is not None:
                    values[text] += 1
                if truth:
                    truths.setdefault(name, {})[truth] = None
        sides.append(counts)
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        a, b = (side.get(name, Counter()) for side in sides)
        if name in differing or _shares(a) != _shares(b):
            yield FieldValues(name=name, a=dict(a), b=dict(b), truths=list(truths.get(name, ())), rule=texts.get(name))


def _shares(counts: Counter[str]) -> dict[str, float]:
    """Return each value's share of the total."""
    return {value: count / counts.total() for value, count in counts.items()}


def _side(results: Results) -> Side:
    """Summarize one run's results for a question. The answer and the reason are from the first result."""
    verdicts = [value for result in results if (value := verdict(result)) is not None]
    first = results[0] if results else None
    return Side(
        correct=fmean(verdicts) if verdicts else None,
        outcomes=dict(Counter(result.outcome.value for result in results)),
        answer=first.template.raw_llm_response if first is not None else "",
        why=first.why() if first is not None else "",
    )
