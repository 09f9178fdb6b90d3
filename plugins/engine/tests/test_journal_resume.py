"""Tests of runs with a journal: no call is repeated, and the same command resumes a stopped run."""

from __future__ import annotations

from pathlib import Path

import pytest
from journal_runs import RunKilled, ScriptedRuns, make_benchmark, make_model, read_result_lines, summarize

from karenina_core.data.result import VerificationResult
from karenina_core.models.ports import ErrorCategory, LLMReply, PortError, Usage
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_lines import dump_result
from karenina_engine.results.result_set import VerificationResultSet, read_results


def dies_after(calls: int) -> ScriptedRuns:
    """Return a world that ends the run at the call of this number."""
    world = ScriptedRuns()

    def on_call(_text: str) -> None:
        if len(world.calls) == calls:
            raise RunKilled

    world.on_call = on_call
    return world


def test_the_same_call_again_asks_nobody_and_gives_the_same(tmp_path: Path) -> None:
    first, again = ScriptedRuns(), ScriptedRuns()
    results = first.run(make_benchmark("a", "b"), journal=tmp_path / "j.journal", output=tmp_path / "out.jsonl")
    before = (tmp_path / "out.jsonl").read_bytes()
    same = again.run(make_benchmark("a", "b"), journal=tmp_path / "j.journal", output=tmp_path / "out.jsonl")

    assert (len(first.calls), again.calls) == (8, [])
    assert same.results == results.results
    assert (tmp_path / "out.jsonl").read_bytes() == before
    assert not (tmp_path / "out-1.jsonl").exists()


def test_output_of_resumed_run_has_the_lines_of_the_journal(tmp_path: Path) -> None:
    journal, output = tmp_path / "j.journal", tmp_path / "out.jsonl"
    ScriptedRuns().run(make_benchmark("a"), journal=journal)
    results = ScriptedRuns().run(
        make_benchmark("a", "b"), journal=journal, output=output
    )  # some are kept, and some are new

    with JournalView(journal) as view:
        assert list(view.results()) == [dump_result(result) for result in results]
    assert list(read_results(output)) == list(results)


def test_a_continued_run_has_one_result_for_each_item(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    for version in ("1.2", "1.3", "1.2", "1.4", "1.4", "1.3"):  # each makes results of another version invalid
        ScriptedRuns(version=version).run(make_benchmark("a", "b"), journal=journal)
        with JournalView(journal) as view:
            results = [VerificationResult.model_validate_json(text) for text in view.results()]
            assert view.status().done == view.count_results().total() == len(results) == 4
        assert {stage.version for result in results for stage in result.stages} == {version}


def test_more_kept_results_than_fit_at_once_come_all(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(150)]
    ScriptedRuns().run(make_benchmark(*ids), journal=tmp_path / "j.journal")

    assert len(ScriptedRuns().run(make_benchmark(*ids), journal=tmp_path / "j.journal")) == 300


@pytest.mark.parametrize("stop", [1, 2, 5, 8])
def test_resumed_run_repeats_no_finished_call(tmp_path: Path, stop: int) -> None:
    whole, rest, stopped = ScriptedRuns(), ScriptedRuns(), dies_after(stop)
    expected = summarize(whole.run(make_benchmark("a", "b")))

    with pytest.raises(RunKilled):
        stopped.run(make_benchmark("a", "b"), journal=tmp_path / "j.journal", output=tmp_path / "out.jsonl")
    found = rest.run(make_benchmark("a", "b"), journal=tmp_path / "j.journal", output=tmp_path / "out.jsonl")

    assert summarize(found) == expected
    finished = [call for number, call in enumerate(stopped.calls, 1) if number != stop]
    assert sorted(finished + rest.calls) == sorted(whole.calls)
    assert summarize(VerificationResultSet.load(tmp_path / "out.jsonl")) == expected


def test_larger_run_makes_only_the_missing_calls(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    ScriptedRuns().run(make_benchmark("a"), journal=journal, config={"answering_models": [make_model("m")]})
    asked = {}
    for name, ids, config in [
        ("question", "ab", {"answering_models": [make_model("m")]}),
        ("model", "ab", {}),
        ("judge", "ab", {"parsing_models": [make_model("j"), make_model("k")]}),
        ("replicate", "ab", {"parsing_models": [make_model("j"), make_model("k")], "replicate_count": 2}),
    ]:
        world = ScriptedRuns()
        results = world.run(make_benchmark(*ids), journal=journal, config=config)
        asked[name] = (len(results), len(world.calls))

    assert asked == {"question": (2, 2), "model": (4, 4), "judge": (8, 4), "replicate": (16, 12)}


def test_changed_question_model_or_truth_uses_no_stored_result(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    one = {"answering_models": [make_model("m")]}
    ScriptedRuns().run(make_benchmark("a"), journal=journal, config=one)

    changed = make_benchmark("a")
    changed.replace(changed.get("a").changed(raw_answer="42"))
    judged_anew = ScriptedRuns()
    assert judged_anew.run(changed, journal=journal, config=one)[0].metadata.raw_answer == "42"
    warmer = ScriptedRuns()
    warmer.run(make_benchmark("a"), journal=journal, config={"answering_models": [make_model("m", temperature=0.7)]})
    other_words = make_benchmark("a")
    other_words.replace(other_words.get("a").changed(question="What is a, really?"))
    asked_anew = ScriptedRuns()
    asked_anew.run(other_words, journal=journal, config=one)

    assert judged_anew.calls == []
    assert warmer.calls == ["answer_generation What is a?"], "the judge read the same answer"
    assert len(asked_anew.calls) == 2


def test_failed_calls_are_repeated_on_resume(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"

    def no(text: str) -> None:
        if "b" in text:
            raise PortError("no", category=ErrorCategory.PERMANENT)

    broken, mended = ScriptedRuns(on_call=no), ScriptedRuns()
    first = broken.run(make_benchmark("a", "b"), journal=journal, config={"answering_models": [make_model("m")]})
    second = mended.run(make_benchmark("a", "b"), journal=journal, config={"answering_models": [make_model("m")]})

    assert [one.outcome.judged for one in first] == [True, False]
    assert [one.outcome.judged for one in second] == [True, True]
    assert [call.split()[-1] for call in mended.calls] == ["b?", "b?"]


def test_truncated_reply_is_not_used_on_resume(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    one = {"answering_models": [make_model("m")]}
    stopped = dies_after(2)
    stopped.answers = lambda text: LLMReply("cut", Usage(calls=1), "length")
    with pytest.raises(RunKilled):
        stopped.run(make_benchmark("a"), journal=journal, config=one)
    rest = ScriptedRuns()

    assert (
        rest.run(make_benchmark("a"), journal=journal, config=one)[0].template.raw_llm_response
        == "an answer to What is a?"
    )
    assert len(rest.calls) == 2


def test_results_stand_in_the_order_of_the_matrix(tmp_path: Path) -> None:
    ScriptedRuns().run(make_benchmark(*"abcdef"), journal=tmp_path / "j.journal", output=tmp_path / "out.jsonl")
    found = VerificationResultSet.load(tmp_path / "out.jsonl")

    assert [(one.question_id, one.metadata.answering_id) for one in found] == [(q, m) for q in "abcdef" for m in "mn"]


def test_an_output_of_another_command_is_kept(tmp_path: Path) -> None:
    journal, output = tmp_path / "j.journal", tmp_path / "out.jsonl"
    ScriptedRuns().run(make_benchmark("a"), journal=journal, output=output)
    ScriptedRuns().run(make_benchmark("a"), journal=journal, output=output, config={"replicate_count": 2})

    assert [len(read_result_lines(tmp_path / name)) for name in ("out-1.jsonl", "out.jsonl")] == [2, 4]
