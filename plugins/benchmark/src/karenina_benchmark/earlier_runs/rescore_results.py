"""Score a result file without a journal again, from the values that the judge extracted.

Result files of the reference have no journal. The extracted values are compared with the templates of the benchmark as
it is now; refusals, guard results, overrides by similarity, and trait scores stay as they are.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_engine.offline.rescoring import RescoreReport, find_change
from karenina_engine.results.aggregate import RunTally
from karenina_engine.results.result_set import VerificationResultSet, read_results

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_engine.offline.rescoring import Change

_COMPARED: Final = ("right", "partial", "wrong", "undecided")
"""The outcome groups that result from comparing the extracted values."""


def rescore_results(path: Path, benchmark: Benchmark, trust: Trust, output: Path | None = None) -> RescoreReport:
    """Compare the extracted values in a result file with `benchmark`, and return what changes. No model is called.

    The new results are written to `output`. Raises `ConfigError` if no result is for a question in the benchmark.
    """
    began = time.monotonic()
    before, after = RunTally(), RunTally()
    changes: list[Change] = []
    done: list[VerificationResult] = []
    gone = 0
    for then in read_results(path):
        question = benchmark.get(then.question_id) if then.question_id in benchmark else None
        if question is None:
            gone += 1
            continue
        now = _rescore(then, question, trust)
        group = (then.metadata.answering_id, then.metadata.parsing_id)
        before.add(group, then.outcome, then.question_id, then.template.verify_granular_result)
        after.add(group, now.outcome, now.question_id, now.template.verify_granular_result)
        change = find_change(then, now)
        changes += [change] if change is not None else []
        done.append(now)
    if not done:
        raise ConfigError([f"no question of the benchmark has a result in {path}: pass the benchmark of that run"])
    if output is not None:
        VerificationResultSet(done).save(output)
    new = len(set(benchmark.ids) - {one.question_id for one in done})
    return RescoreReport(before.summary(), after.summary(), changes, gone, new, time.monotonic() - began)


def _rescore(then: VerificationResult, question: Question, trust: Trust) -> VerificationResult:
    """Return a result with a new verdict on its extracted values; unchanged if they did not decide its outcome."""
    from karenina_template.question_template import template_of
    from karenina_template.templates import TemplateError
    from karenina_template.templates.comparison import Comparison

    values = then.template.parsed_llm_response
    if values is None or then.outcome.group not in _COMPARED or then.template.embedding_override_applied:
        return then
    now = then.model_copy(deep=True)
    try:
        template = template_of(question, trust)
        if template is None:
            return _unjudged(now, Outcome.TEMPLATE_ERROR, "the question has no template")
        bound = template.for_question(question.id)
        answer = bound.bind(values, then.template.raw_llm_response)
        comparison = Comparison(answer)
        passed, patterns = comparison.passed(), answer.verify_regex(then.template.raw_llm_response)
        fields, granular = comparison.results(), comparison.granular() if bound.is_graded else None
    except TemplateError as error:
        return _unjudged(now, Outcome.TEMPLATE_ERROR, str(error))
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        return _unjudged(now, Outcome.PARSE_ERROR, f"the extracted values do not fit the template: {what}")
    now.template.field_results, now.template.verify_granular_result = fields, granular
    now.template.regex_validation_results = patterns.results or None
    now.template.regex_overall_success = patterns.overall_success
    now.template.field_verification_error = comparison.why_undecided() if passed is None else None
    if patterns.overall_success is False:
        passed = False
    now.template.verify_result = passed
    partial = granular is not None and granular > 0
    now.outcome = Outcome.UNDECIDED if passed is None else Outcome.PARTIAL if partial else Outcome.WRONG
    if passed:
        now.outcome = Outcome.CORRECT
    return now


def _unjudged(now: VerificationResult, outcome: Outcome, why: str) -> VerificationResult:
    now.outcome, now.template.verify_result, now.metadata.error = outcome, None, why
    now.metadata.completed_without_errors = False
    return now
