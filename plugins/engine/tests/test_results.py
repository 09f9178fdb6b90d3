"""Results round-trip exactly, and summaries state their denominators."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_metadata import metadata

from karenina_core import Outcome, Question, VerificationResult
from karenina_core.data.sections import (
    VerificationResultRubric,
    VerificationResultTemplate,
)
from karenina_core.models.attachments import Attachment
from karenina_engine.results.aggregate import OutcomeTally, Summary, Totals
from karenina_engine.results.question_units import UnitCounts
from karenina_engine.results.rates import Rate, rate, wilson
from karenina_engine.results.result_set import ResultFileError, VerificationResultSet
from karenina_engine.results.summary_text import number_text, percent, rate_text, seconds_text, short_number

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(Outcome),
    st.text(),
    st.dictionaries(st.text(), JSON, max_size=3),
    st.dictionaries(st.text(), st.dictionaries(st.text(), JSON, max_size=2), max_size=2),
    st.one_of(st.none(), st.booleans()),
)
def test_json_round_trips_are_exact(
    outcome: Outcome,
    text: str,
    parsed: dict[str, object],
    extensions: dict[str, dict[str, object]],
    verdict: bool | None,
) -> None:
    result = VerificationResult(
        metadata=metadata(),
        outcome=outcome,
        template=VerificationResultTemplate(raw_llm_response=text, parsed_llm_response=parsed, verify_result=verdict),
        extensions=extensions,
    )
    assert VerificationResult.model_validate_json(result.model_dump_json()) == result


def test_a_file_of_results_holds_them_all(tmp_path: Path) -> None:
    results = VerificationResultSet(
        VerificationResult(metadata=metadata(str(at)), outcome=Outcome.CORRECT) for at in range(5)
    )
    results.save(tmp_path / "r.jsonl")
    assert list(VerificationResultSet.load(tmp_path / "r.jsonl")) == list(results)


def test_results_are_saved_through_a_link_as_the_umask_says(tmp_path: Path) -> None:
    results = VerificationResultSet([VerificationResult(metadata=metadata(), outcome=Outcome.WRONG)])
    (tmp_path / "link.jsonl").symlink_to("r.jsonl")
    before = os.umask(0o027)
    try:
        results.save(tmp_path / "link.jsonl")
    finally:
        os.umask(before)

    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "r.jsonl").stat().st_mode & 0o777 == 0o640
    assert len(VerificationResultSet.load(tmp_path / "r.jsonl")) == 1


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    VerificationResultSet([VerificationResult(metadata=metadata(), outcome=Outcome.WRONG)]).save(file, full=True)
    file.write_text(file.read_text() + '{"outcome": "right"}\n')
    with pytest.raises(ResultFileError, match="line 2 is not a result of this version"):
        VerificationResultSet.load(file)


def test_an_incomplete_line_is_named_with_its_column(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    VerificationResultSet([VerificationResult(metadata=metadata(), outcome=Outcome.WRONG)]).save(file, full=True)
    line = file.read_text()
    file.write_text(f"{line}{line[:200]}\n{line}")
    with pytest.raises(ResultFileError, match=r"line 2 is incomplete \(it ends at column 200\); remove that line"):
        VerificationResultSet.load(file)
    file.write_text(f"{line}{{oops}}\n{line}")
    with pytest.raises(ResultFileError, match=r"line 2 is not valid JSON \(key must be a string"):
        VerificationResultSet.load(file)


def test_a_truncated_last_line_is_skipped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "results.jsonl"
    results = [VerificationResult(metadata=metadata(question), outcome=Outcome.WRONG) for question in "12"]
    VerificationResultSet(results).save(file, full=True)
    whole = file.read_bytes()
    for cut in (1, 100):
        file.write_bytes(whole[:-cut])
        assert len(VerificationResultSet.load(file)) == (2 if cut == 1 else 1)
    (warning,) = caplog.messages
    assert f"{file} ends within line 2" in warning
    assert "the results before that line (1) are complete" in warning


def test_an_incomplete_line_that_needs_a_table_is_named_with_its_column(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    VerificationResultSet([VerificationResult(metadata=metadata(), outcome=Outcome.WRONG)]).save(file)
    table, line = file.read_text().splitlines()
    file.write_text(f"{table}\n{line[:100]}\n{line}\n")
    with pytest.raises(ResultFileError, match=r"line 2 is incomplete \(it ends at column 100\); remove that line"):
        VerificationResultSet.load(file)
    file.write_text(f"{table}\n{line}\n{line[:100]}")
    assert len(VerificationResultSet.load(file)) == 1


def test_a_cut_line_before_the_last_one_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    VerificationResultSet([VerificationResult(metadata=metadata(), outcome=Outcome.WRONG)] * 2).save(file, full=True)
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first[:-100] + b"\n" + second)
    with pytest.raises(ResultFileError, match="line 1 is incomplete"):
        VerificationResultSet.load(file)


def test_a_file_without_results_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "results.jsonl").touch()
    assert len(VerificationResultSet.load(tmp_path / "results.jsonl")) == 0
    assert caplog.messages == [f"{tmp_path / 'results.jsonl'} contains no results"]


@pytest.mark.parametrize(
    ("name", "content", "cure"),
    [
        ("run.journal", b"SQLite format 3\0 and so on", "is a journal.*`karenina status .*`karenina export "),
        ("genes.yaml", b"name: genes\nquestions: []\n", "is not a result file.*`karenina run .*genes.yaml`"),
        ("genes.jsonld", b'{"@context": {}}\n', "is not a result file.*`karenina run .*genes.jsonld`"),
        ("notes", b"words\n", "is not a result file"),
    ],
)
def test_other_files_are_errors_with_the_command_for_them(name: str, content: bytes, cure: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ResultFileError, match=cure):
        VerificationResultSet.load(tmp_path / name)


def summarize(outcomes: Iterable[Outcome]) -> Summary:
    """Return the summary of items with these outcomes, each of a question of its own."""
    tally = OutcomeTally()
    for question, outcome in enumerate(outcomes):
        tally.add(outcome, question)
    return tally.summary()


def test_errors_are_not_in_the_denominator_of_the_rate() -> None:
    summary = summarize([Outcome.CORRECT] * 6 + [Outcome.WRONG] * 2 + [Outcome.PARSE_ERROR] * 2 + [Outcome.SCORED])
    assert (summary.items, summary.judged, summary.not_judged, summary.scored) == (11, 8, 2, 1)
    assert (summary.pass_rate.hits, summary.pass_rate.out_of, summary.pass_rate.value) == (6, 8, 0.75)
    assert (summary.worst, summary.best) == (0.6, 0.8)


def test_abstained_and_failed_answers_count_as_not_correct() -> None:
    summary = summarize(
        [Outcome.CORRECT, Outcome.ABSTAINED, Outcome.INSUFFICIENT, Outcome.AUTO_FAILED, Outcome.TRUNCATED]
    )
    assert (summary.judged, summary.pass_rate.value) == (5, 0.2)


def test_a_run_in_which_nothing_was_judged_has_no_rate() -> None:
    summary = summarize([Outcome.MODEL_ERROR] * 3)
    assert (summary.pass_rate.value, summary.worst, summary.best) == (None, 0.0, 1.0)


def test_undecided_items_lower_the_second_rate_and_not_the_first() -> None:
    summary = summarize([Outcome.CORRECT] * 72 + [Outcome.WRONG] * 20 + [Outcome.UNDECIDED] * 8)
    rate = summary.pass_rate

    assert (summary.judged, summary.not_judged, summary.outcomes["undecided"]) == (92, 8, 8)
    assert (rate.hits, rate.out_of, rate.undecided, rate.if_undecided_wrong) == (72, 92, 8, 0.72)
    assert rate.value == 72 / 92
    assert rate_text(rate).endswith("(78.3%, 95% CI 68.8%-85.5%); 72.0% if the 8 undecided are wrong")
    assert Rate.model_validate_json(rate.model_dump_json()) == rate
    assert rate.model_dump()["if_undecided_wrong"] == 0.72


def test_a_rate_without_undecided_items_has_no_trace_of_them() -> None:
    rate = summarize([Outcome.CORRECT, Outcome.PARSE_ERROR]).pass_rate

    assert list(rate.model_dump()) == ["hits", "out_of", "value", "low", "high", "clusters"]
    assert rate.if_undecided_wrong == rate.value == 1.0


@given(st.lists(st.sampled_from(Outcome)))
def test_a_model_never_gains_by_what_cannot_be_decided(outcomes: list[Outcome]) -> None:
    wrong = [Outcome.WRONG if one is Outcome.UNDECIDED else one for one in outcomes]
    assert summarize(outcomes).pass_rate.if_undecided_wrong == summarize(wrong).pass_rate.value


@given(st.lists(st.sampled_from(Outcome)))
def test_every_item_is_in_exactly_one_part_of_the_summary(outcomes: list[Outcome]) -> None:
    summary = summarize(outcomes)
    assert summary.items == len(outcomes) == summary.judged + summary.not_judged + summary.scored
    assert sum(summary.outcomes.values()) == summary.items
    if summary.pass_rate.value is not None and summary.worst is not None and summary.best is not None:
        assert summary.worst <= summary.pass_rate.value <= summary.best


@pytest.mark.parametrize(
    ("hits", "out_of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_the_interval_is_wilsons(hits: int, out_of: int, low: float, high: float) -> None:
    assert wilson(hits, out_of) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    found = rate((at, at < hits) for at in range(out_of))
    assert (found.low, found.high) == wilson(hits, out_of)


@pytest.mark.parametrize(("hits", "out_of"), [(-1, 3), (4, 3), (0, 0)])
def test_an_invalid_proportion_has_no_interval(hits: int, out_of: int) -> None:
    with pytest.raises(ValueError, match="is not a proportion"):
        wilson(hits, out_of)


def test_items_of_one_question_are_not_independent() -> None:
    alike = rate((question, question < 5) for question in range(10) for _ in range(12))
    assert (alike.hits, alike.out_of, alike.clusters) == (60, 120, 10)
    assert alike.low == pytest.approx(wilson(5, 10)[0], abs=0.03)
    never = rate((question, False) for question in range(20) for _ in range(12))
    assert never.low == 0
    assert never.high == pytest.approx(wilson(0, 20)[1], abs=0.01)


def test_nearly_unanimous_questions_do_not_narrow_an_interval() -> None:
    """Without pseudo-questions 88.9% of such intervals held the true rate: 50 questions, 5 replicates, 97% right."""
    found = rate((question, not (question == 0 and replicate == 0)) for question in range(50) for replicate in range(5))

    assert found.low is not None
    assert found.low < wilson(49 * 5 - 1, 49 * 5)[0] - 0.02


def test_one_question_counts_as_at_least_one_observation() -> None:
    found = rate(("only", True) for _ in range(5))

    assert (found.low, found.high) == wilson(1, 1)


@pytest.mark.parametrize(("questions", "rough"), [(19, True), (20, False)])
def test_an_interval_of_few_questions_is_rough(questions: int, rough: bool) -> None:
    assert rate((question, True) for question in range(questions)).is_rough is rough


def test_replicates_that_vary_like_questions_count_in_full() -> None:
    mixed = rate((question, (question + replicate) % 2 == 0) for question in range(10) for replicate in range(4))
    assert mixed.low == pytest.approx(wilson(20, 40)[0], abs=0.13)
    assert mixed.low <= wilson(20, 40)[0]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1))
def test_the_interval_holds_the_rate_and_is_wide_enough(
    items: list[tuple[int, bool]],
) -> None:
    found = rate(items)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9
    low, high = wilson(found.hits, found.out_of)
    assert found.high - found.low >= high - low - 1e-9


def test_summaries_by_models_are_separate_for_each_judge() -> None:
    results = VerificationResultSet(
        [
            VerificationResult(metadata=metadata(judge="j"), outcome=Outcome.CORRECT),
            VerificationResult(metadata=metadata(judge="k"), outcome=Outcome.WRONG),
        ]
    )
    assert {pair: summary.pass_rate.value for pair, summary in results.by_models().items()} == {
        ("a", "j"): 1.0,
        ("a", "k"): 0.0,
    }


def test_a_trait_is_found_by_its_name_with_its_kind() -> None:
    rubric = VerificationResultRubric(llm_trait_scores={"clarity": 4}, regex_trait_scores={"cites": True})
    assert rubric.get_trait_by_name("clarity") == (4, "llm")
    assert rubric.get_trait_by_name("nothing") is None
    assert rubric.get_all_trait_scores() == {"clarity": 4, "cites": True}


def test_a_question_stays_open_while_failed_results_of_files_count_for_its_text() -> None:
    """A result that failed before the answer does not state its question's files, so its unit is that of the text."""

    def result(question: str, outcome: Outcome, replicate: int) -> VerificationResult:
        return VerificationResult(metadata=metadata(question, replicate=replicate), outcome=outcome)

    questions = [
        Question(id="plain", question="Which?"),
        Question(id="image", question="Which?", attachments=(Attachment("a.png"),)),
    ]
    results = [
        result("plain", Outcome.CORRECT, 1),
        result("image", Outcome.MODEL_ERROR, 1),
        result("plain", Outcome.WRONG, 2),
    ]
    units = UnitCounts()
    for question in questions:
        units.add(question)
    repeated = {unit: 2 * count for unit, count in units.repeated().items()}
    totals = Totals(per_question=2, repeated=repeated)
    for one in results:
        totals.add(one)

    assert totals.summary().pass_rate == VerificationResultSet(results).summary().pass_rate


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (2999 / 3000, "99.97%"),
        (1 / 3000, "0.03%"),
        (1 / 3_000_000, "0.00003%"),
        (1 - 1e-16, "100.0%"),
        (1.0, "100.0%"),
        (0.0, "0.0%"),
        (2 / 3, "66.7%"),
        (None, "-"),
    ],
)
def test_only_all_and_none_are_shown_as_100_and_0_percent(share: float | None, shown: str) -> None:
    assert percent(share) == shown


def test_a_failed_item_without_a_template_is_in_no_pass_rate() -> None:
    tally = OutcomeTally()
    for at, outcome in enumerate((Outcome.SCORED, Outcome.AUTO_FAILED, Outcome.ABSTAINED)):
        tally.add(outcome, at, template_id="no_template")
    summary = tally.summary()
    assert (summary.items, summary.scored, summary.judged, summary.pass_rate.value) == (3, 1, 0, None)

    tally.add(Outcome.AUTO_FAILED, 3, template_id="t")
    assert (tally.summary().judged, tally.summary().pass_rate.value) == (1, 0.0)


def test_rounded_numbers_do_not_look_like_whole_numbers_that_they_are_not() -> None:
    assert [number_text(one) for one in (0.9996, 0.0004, 1.0, -0.0, 0.12345)] == [
        *("0.9996", "0.0004", "1.000", "0.000", "0.123")
    ]
    assert [short_number(one) for one in (4.999, 5.0, 12345.0, 0.3333, 1000.0)] == [
        *("4.999", "5", "12345", "0.333", "1000")
    ]
    assert [seconds_text(one) for one in (0.0, 0.003, 2.0)] == ["0.00", "< 0.01", "2.00"]
