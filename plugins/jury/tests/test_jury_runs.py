"""Runs with a jury: one result per answer, votes by field or verdict, escalation, failures, resuming and rescoring."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from jury_runs import FAILS, Jury, found, record_of
from killed_run import FOUND, JURY, NotedJury

from karenina_benchmark import Benchmark
from karenina_core import Outcome
from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError
from karenina_engine.results.rates import wilson
from karenina_engine.results.result_set import VerificationResultSet
from karenina_jury.jury_result import EXTENSION, describe_juries
from karenina_jury.page_section import jury_notes, jury_sections
from karenina_report.page.section import PageRuns, TableBlock
from karenina_report.run_notes import NotedRun
from karenina_report.runs import read_runs

RIGHT, WRONG = found("BCL2"), found("TP53")
STRONG = {"escalate_to": "strong"}


def test_judges_that_agree_spare_the_stronger_one() -> None:
    jury = Jury({"q": {"a": RIGHT, "b": found("bcl2 ."), "strong": WRONG}})
    (result,) = jury.run("a", "b", "strong", jury=STRONG)

    assert result.outcome is Outcome.CORRECT
    assert result.item == ("q", "m", "jury(a,b>strong)", 1)
    assert result.metadata.parsing_model == "jury:a+b>strong"
    assert sorted(jury.asked) == [("q", "a"), ("q", "b")]
    record = record_of([result], "q")
    assert record.agreement == {"gene": 1.0, "year": 1.0, "drug": 1.0}
    assert [(vote.judge, vote.verdict, vote.calls) for vote in record.judges] == [("a", True, 1), ("b", False, 1)]
    assert record.escalated is None


def test_the_stronger_judge_decides_if_the_others_disagree() -> None:
    jury = Jury({"q": {"a": RIGHT, "b": WRONG, "strong": RIGHT}, "r": {"a": WRONG, "b": WRONG, "strong": RIGHT}})
    results = jury.run("a", "b", "strong", jury=STRONG)

    assert [result.outcome for result in results] == [Outcome.CORRECT, Outcome.PARTIAL]
    assert [judge for question, judge in jury.asked if judge == "strong"] == ["strong"]
    record = record_of(results, "q")
    assert record.escalated == "fewer than 2 of 2 judges agree on gene (a: 'BCL2'; b: 'TP53')"
    assert [(vote.judge, vote.decides) for vote in record.judges] == [("a", False), ("b", False), ("strong", True)]
    assert record.agreement == {"gene": 0.5, "year": 1.0, "drug": 1.0}


def test_a_tie_is_not_judged() -> None:
    jury = Jury({"q": {"a": RIGHT, "b": WRONG}, "r": {"a": RIGHT, "b": RIGHT}})
    results = jury.run("a", "b", jury={})
    summary = results.summary()

    assert results[0].outcome is Outcome.PARSE_ERROR
    assert results[0].metadata.error == "jury: fewer than 2 of 2 judges agree on gene (a: 'BCL2'; b: 'TP53')"
    assert results[0].template.verify_result is None
    assert (summary.items, summary.judged, summary.not_judged) == (2, 1, 1)
    assert (summary.pass_rate.hits, summary.pass_rate.out_of) == (1, 1)


def test_fields_are_voted_on_one_by_one() -> None:
    values = {"a": found("BCL2", 1999), "b": found("BCL2", 2016), "c": found("TP53", 2016)}
    jury = Jury({"q": values, "r": {**values, "b": found("KRAS", 2016)}})
    results = jury.run("a", "b", "c", jury={})

    assert results[0].outcome is Outcome.CORRECT
    assert results[0].template.parsed_llm_response == found("BCL2", 2016)
    assert record_of(results, "q").agreement == pytest.approx({"gene": 2 / 3, "year": 2 / 3, "drug": 1})
    assert results[1].outcome is Outcome.PARSE_ERROR


def test_values_of_several_judges_are_combined_and_verified() -> None:
    values = {"a": found("BCL2", 2016, "x"), "b": found("BCL2", 1999), "c": found("TP53", 2016)}
    jury = Jury({"q": values, "r": {**values, "c": found("TP53", 1999), "a": found("BCL2", 1998, "x")}})
    results = jury.run("a", "b", "c", jury={})

    assert results[0].template.parsed_llm_response == {"gene": "BCL2", "year": 2016, "drug": "venetoclax"}
    assert results[0].outcome is Outcome.CORRECT
    assert [vote.verdict for vote in record_of(results, "q").judges] == [False, False, False]
    assert results[1].template.field_results == {"gene": True, "year": False, "drug": True}
    assert results[1].template.verify_granular_result == pytest.approx(2 / 3)


def test_a_failing_judge_has_no_vote_and_is_no_wrong_answer() -> None:
    jury = Jury(
        {
            "q": {"a": RIGHT, "b": FAILS, "c": RIGHT},
            "r": {"a": RIGHT, "b": "no JSON", "c": WRONG},
            "s": {"a": FAILS, "b": "no JSON", "c": FAILS},
        }
    )
    results = jury.run("a", "b", "c", jury={})

    assert [result.outcome for result in results] == [Outcome.CORRECT, Outcome.PARSE_ERROR, Outcome.PARSE_ERROR]
    assert record_of(results, "q").agreement["gene"] == pytest.approx(2 / 3)
    assert [vote.error is not None for vote in record_of(results, "q").judges] == [False, True, False]
    assert record_of(results, "s").undecided == "no judge could judge the answer"


def test_a_stronger_judge_that_fails_leaves_the_answer_unjudged() -> None:
    jury = Jury({"q": {"a": RIGHT, "b": WRONG, "strong": "no JSON"}})
    (result,) = jury.run("a", "b", "strong", jury=STRONG)

    assert result.outcome is Outcome.PARSE_ERROR
    assert "strong failed: ParseTemplate: the judge gave no usable reply" in result.why()


def test_a_vote_on_verdicts_ignores_how_values_differ() -> None:
    jury = Jury({"q": {"a": found("TP53"), "b": found("KRAS"), "strong": RIGHT}})
    (result,) = jury.run("a", "b", "strong", jury={**STRONG, "vote": "verdict"})

    assert result.template.verify_result is False
    assert ("q", "strong") not in jury.asked
    assert record_of([result], "q").agreement == {"verdict": 1.0}


def test_a_smaller_quorum_asks_the_stronger_judge_less_often() -> None:
    values = {"a": RIGHT, "b": RIGHT, "c": WRONG, "strong": WRONG}
    lenient, strict = Jury({"q": values}), Jury({"q": values})

    assert lenient.run(*values, jury={**STRONG, "quorum": 2})[0].outcome is Outcome.CORRECT
    assert strict.run(*values, jury=STRONG)[0].outcome is Outcome.PARTIAL
    assert ("q", "strong") in strict.asked
    assert ("q", "strong") not in lenient.asked


def test_a_missing_excerpt_asks_the_stronger_judge() -> None:
    answer = "It is BCL2, in 2016, for venetoclax."
    quoted = {"gene": ["BCL2"], "year": ["2016"], "drug": ["venetoclax"]}
    jury = Jury({id: dict.fromkeys(("a", "b", "strong"), RIGHT) for id in ("q", "r")}, answer=answer)
    jury.excerpts = {"q": {"a": quoted, "b": quoted}, "r": {"a": quoted, "b": {**quoted, "gene": []}}}
    jury.excerpts = {id: {**excerpts, "strong": quoted} for id, excerpts in jury.excerpts.items()}
    results = jury.run(
        "a", "b", "strong", jury=STRONG, deep_judgment_mode="full", deep_judgment_excerpt_retry_attempts=0
    )

    assert [result.outcome for result in results] == [Outcome.CORRECT, Outcome.CORRECT]
    assert record_of(results, "q").escalated is None
    assert record_of(results, "r").escalated == "b found no excerpt for gene"


def test_refusals_are_votes_too() -> None:
    jury = Jury({id: dict.fromkeys("abc", RIGHT) for id in ("q", "r", "s")})
    jury.refused = {"q": {"a", "b"}, "r": {"a"}, "s": set()}
    results = jury.run("a", "b", "c", jury={}, abstention_enabled=True)

    assert [result.outcome for result in results] == [Outcome.ABSTAINED, Outcome.CORRECT, Outcome.CORRECT]
    assert record_of(results, "q").agreement == {"outcome": pytest.approx(2 / 3)}
    assert record_of(results, "r").agreement == pytest.approx(dict.fromkeys(("gene", "year", "drug"), 2 / 3))


def test_usage_and_stages_are_those_of_all_judges() -> None:
    jury = Jury({"q": {"a": RIGHT, "b": WRONG, "strong": RIGHT}})
    (result,) = jury.run("a", "b", "strong", jury=STRONG)
    usage = result.template.usage_metadata
    assert usage is not None

    assert usage["parsing"]["calls"] == usage["total"]["calls"] == 3
    assert usage["total"]["input_tokens"] == 30
    assert sum(stage.calls for stage in result.stages) == 3
    assert [stage.name for stage in result.stages].count("ParseTemplate") == 3
    assert [stage.name for stage in result.stages].count("GenerateAnswer") == 1


def test_a_resumed_run_repeats_no_call_of_any_judge(tmp_path: Path) -> None:
    journal = tmp_path / "run.journal"
    jury = Jury({"q": {"a": RIGHT, "b": WRONG, "strong": FAILS}, "r": {"a": RIGHT, "b": RIGHT, "strong": FAILS}})
    first = jury.run("a", "b", "strong", journal=journal, jury=STRONG)
    assert [result.outcome for result in first] == [Outcome.PARSE_ERROR, Outcome.CORRECT]

    jury.found = {"q": {"a": FAILS, "b": FAILS, "strong": RIGHT}, "r": {}}
    before = len(jury.asked)
    again = jury.run("a", "b", "strong", journal=journal, jury=STRONG)
    assert [result.outcome for result in again] == [Outcome.CORRECT, Outcome.CORRECT]
    assert jury.asked[before:] == [("q", "strong")]

    jury.found = {"q": {}, "r": {}}
    third = jury.run("a", "b", "strong", journal=journal, jury=STRONG)
    assert [result.model_dump() for result in third] == [result.model_dump() for result in again]


def test_a_killed_run_resumes_with_the_same_votes(tmp_path: Path) -> None:
    """One call at a time: each reply is stored before the next call, so that none is paid for twice."""
    journal, calls = tmp_path / "run.journal", tmp_path / "calls"
    script = Path(__file__).with_name("killed_run.py")
    killed = subprocess.run([sys.executable, script, journal, calls, "q3 strong"], check=False, timeout=120)
    before = calls.read_text("utf-8").splitlines()
    resumed = NotedJury(calls).run("a", "b", "strong", journal=journal, jury=JURY)
    undisturbed = NotedJury(tmp_path / "others").run("a", "b", "strong", jury=JURY)

    assert killed.returncode == -signal.SIGKILL
    assert {"q3 a", "q3 b"} <= set(before)
    assert "q3 strong" not in before
    lines = calls.read_text("utf-8").splitlines()
    assert sorted(lines) == sorted((tmp_path / "others").read_text("utf-8").splitlines())
    assert len(lines) == 2 * 8 + 4
    for id in FOUND:
        assert record_of(resumed, id) == record_of(undisturbed, id)
    assert resumed.summary().judged == 8


def test_a_replay_returns_equal_results(tmp_path: Path) -> None:
    journal = tmp_path / "run.journal"
    jury = Jury({"q": {"a": RIGHT, "b": WRONG, "strong": RIGHT}, "r": {"a": WRONG, "b": WRONG, "strong": RIGHT}})
    first = jury.run("a", "b", "strong", journal=journal, jury=STRONG)
    before = len(jury.asked)
    with plugin_room.use_plugins(jury.plugins):
        config = jury.config("a", "b", "strong", jury=STRONG)
        again = jury.benchmark.run_verification(config, journal=journal, replay=True, progress=False)

    assert len(jury.asked) == before
    assert [result.model_dump_json() for result in again] == [result.model_dump_json() for result in first]


def test_another_quorum_needs_only_the_missing_calls(tmp_path: Path) -> None:
    journal = tmp_path / "run.journal"
    jury = Jury({"q": {"a": RIGHT, "b": RIGHT, "c": WRONG, "strong": WRONG}})
    jury.run("a", "b", "c", "strong", journal=journal, jury={**STRONG, "quorum": 2})
    before = len(jury.asked)
    (result,) = jury.run("a", "b", "c", "strong", journal=journal, jury=STRONG)

    assert result.outcome is Outcome.PARTIAL
    assert jury.asked[before:] == [("q", "strong")]


def test_a_changed_truth_is_rescored_without_a_call(tmp_path: Path) -> None:
    journal = tmp_path / "run.journal"
    jury = Jury({"q": {"a": RIGHT, "b": WRONG, "strong": RIGHT}, "r": {"a": WRONG, "b": WRONG, "strong": RIGHT}})
    jury.run("a", "b", "strong", journal=journal, jury=STRONG)
    before = len(jury.asked)
    with plugin_room.use_plugins(jury.plugins):
        config = jury.config("a", "b", "strong", jury=STRONG)
        report = jury.benchmark_with("TP53", 2016).rescore(journal, config, progress=False)

    assert len(jury.asked) == before
    changes = {change.item[0]: (change.before, change.after) for change in report.changes}
    assert changes == {"q": (Outcome.CORRECT, Outcome.PARTIAL), "r": (Outcome.PARTIAL, Outcome.CORRECT)}


@pytest.mark.parametrize(
    ("ids", "jury", "problem"),
    [
        (["a"], {}, "a jury needs at least two judges, but there is only 1"),
        (["a", "strong"], STRONG, "at least two judges in addition to escalate_to, but there is only 1"),
        (
            ["a", "b", "strong"],
            {"escalate_to": "strnog"},
            "not the id of a judge in parsing_models (--judge); did you mean 'strong'?",
        ),
        (
            ["a", "b", "c"],
            {"quorum": 1},
            "jury.quorum must be from 2 to 3 (more than half of the 3 voting judges), not 1",
        ),
        (["a", "b"], {"quorum": 3}, "jury.quorum must be 2 (more than half of the 2 voting judges), not 3"),
    ],
)
def test_juries_that_cannot_vote_are_refused(ids: list[str], jury: dict[str, object], problem: str) -> None:
    case = Jury({"q": dict.fromkeys(ids, RIGHT)})

    with pytest.raises(ConfigError, match=re.escape(problem)):
        case.run(*ids, jury=jury)
    assert case.asked == []


def test_a_jury_needs_templates() -> None:
    with pytest.raises(ConfigError, match="a jury votes on templates"):
        Jury({"q": {"a": RIGHT, "b": RIGHT}}).run("a", "b", jury={}, evaluation_mode="rubric_only")


def test_without_the_setting_each_judge_has_its_own_result() -> None:
    results = Jury({"q": {"a": RIGHT, "b": WRONG}}).run("a", "b")

    assert [result.metadata.parsing_id for result in results] == ["a", "b"]
    assert all("karenina-jury" not in result.extensions for result in results)


def day(text: str) -> dict[str, str]:
    """Return the values of a judge that reads a day."""
    return {"gene": "BCL2", "day": text, "drug": "venetoclax"}


DAYS = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
    day: str = VerifiedField(description="The day that is named", ground_truth="2024-02-01", verify_with=DateMatch())
    drug: str = VerifiedField(description="The drug that is named", ground_truth="venetoclax", verify_with=ExactMatch())
"""
TWO_DATES, FIRST, OTHER = day("01/02/2024"), day("2024-02-01"), day("2024-03-01")
WHY = "field day: 01/02/2024 can be read as two different dates"


class DayJury(Jury):
    """A jury on answers with a day."""

    def benchmark_with(self, gene: str, year: int) -> Benchmark:
        benchmark = Benchmark.create(name="jury")
        for id in self.found:
            benchmark.add_question(f"When was {id}?", None, DAYS, question_id=id)
        return benchmark


@pytest.mark.parametrize(
    ("votes", "outcome", "why"),
    [
        ((FIRST, FIRST, TWO_DATES), Outcome.CORRECT, None),  # a majority without it
        ((OTHER, TWO_DATES, OTHER), Outcome.PARTIAL, None),
        (
            (FIRST, OTHER, TWO_DATES),
            Outcome.UNDECIDED,
            "fewer than 2 of 3 judges agree on verdict (a: True; b: False); undecided: c",
        ),
        ((TWO_DATES,) * 3, Outcome.UNDECIDED, "no judge could judge the answer; undecided: a, b, c"),
        (
            (FIRST, FAILS, TWO_DATES),
            Outcome.PARSE_ERROR,
            "fewer than 2 of 3 judges agree on verdict (a: True); undecided: c",
        ),
    ],
)
def test_an_undecided_judge_has_no_vote_on_the_verdict(
    votes: tuple[object, ...], outcome: Outcome, why: str | None
) -> None:
    jury = DayJury({"q": dict(zip("abc", votes, strict=True))})  # type: ignore[arg-type]
    results = jury.run("a", "b", "c", jury={"vote": "verdict"})

    assert results[0].outcome is outcome
    assert record_of(results, "q").undecided == why
    voted = [vote.verdict for vote in record_of(results, "q").judges]
    assert [verdict for verdict, vote in zip(voted, votes, strict=True) if vote is TWO_DATES] == [None] * votes.count(
        TWO_DATES
    )


def test_in_a_vote_on_fields_the_value_counts_and_the_winner_is_compared() -> None:
    jury = DayJury({"q": {"a": TWO_DATES, "b": TWO_DATES, "c": FIRST}, "r": {"a": FIRST, "b": TWO_DATES, "c": FIRST}})
    results = jury.run("a", "b", "c", jury={})

    assert [result.outcome for result in results] == [Outcome.UNDECIDED, Outcome.CORRECT]
    assert results[0].why() == record_of(results, "q").undecided == WHY
    assert results[0].template.field_results == {"gene": True, "day": None, "drug": True}
    assert record_of(results, "q").judges[0].error == WHY


def test_judges_that_extract_the_same_undecided_value_agree() -> None:
    jury = DayJury({"q": dict.fromkeys("ab", TWO_DATES), "r": {"a": FIRST, "b": {**FIRST, "drug": "aspirin"}}})
    (statistics,) = describe_juries(jury.run("a", "b", jury={}))

    assert (statistics.unanimous.hits, statistics.unanimous.out_of) == (1, 2)
    assert {name: (rate.hits, rate.out_of) for name, rate in statistics.fields.items()} == {
        "gene": (2, 2),
        "day": (2, 2),
        "drug": (1, 2),
    }
    assert (statistics.not_judged, statistics.failed) == (2, 1)


def test_judges_with_different_undecided_values_do_not_agree() -> None:
    jury = DayJury({"q": {"a": TWO_DATES, "b": day("02/01/2024"), "strong": FIRST}})
    (result,) = jury.run("a", "b", "strong", jury=STRONG)

    assert result.outcome is Outcome.CORRECT
    assert record_of([result], "q").agreement == {"gene": 1.0, "day": 0.5, "drug": 1.0}
    assert ("q", "strong") in jury.asked


def test_answers_that_the_model_did_not_give_are_in_no_share_of_a_jury() -> None:
    agreed, split = dict.fromkeys(["a", "b", "strong"], RIGHT), {"a": FAILS, "b": RIGHT, "strong": RIGHT}
    judged = list(Jury({"q": agreed, "r": split}).run("a", "b", "strong", jury=STRONG))
    record = record_of(VerificationResultSet(judged), "q")
    votes = [
        vote.model_copy(update={"outcome": Outcome.MODEL_ERROR, "verdict": None, "calls": 0}) for vote in record.judges
    ]
    lost = record.model_copy(update={"agreement": {"outcome": 0.0}, "judges": votes}).model_dump(mode="json")
    failed = [
        judged[0].model_copy(update={"outcome": Outcome.MODEL_ERROR, "extensions": {EXTENSION: lost}}) for _ in range(3)
    ]

    (statistics,) = describe_juries([*judged, *failed])

    assert (statistics.answers, statistics.not_judged, statistics.unasked) == (5, 3, 3)
    assert (statistics.unanimous.hits, statistics.unanimous.out_of) == (1, 2)
    assert (statistics.escalated.hits, statistics.escalated.out_of) == (1, 2)
    assert statistics.saved_calls == 1
    assert {judge.judge: (judge.asked, judge.failed) for judge in statistics.judges} == {
        "a": (2, 1),
        "b": (2, 0),
        "strong": (1, 0),
    }
    assert {name: (rate.hits, rate.out_of) for name, rate in statistics.fields.items()}["outcome"] == (1, 2)


def test_pages_count_undecided_answers_not_as_failed() -> None:
    jury = DayJury({"q": dict.fromkeys("ab", TWO_DATES), "r": dict.fromkeys("ab", FAILS)})
    (section,) = jury_sections(PageRuns(read_runs([jury.run("a", "b", jury={})]), ["A"]))
    table = section.blocks[1]

    assert isinstance(table, TableBlock)
    names = [column.name for column in table.columns]
    shown = [[row[names.index(name)] for name in ("Judge", "Failed", "Undecided")] for row in table.rows]
    assert shown == [["jury(a,b)", 1, 1], ["a", 1, 1], ["b", 1, 1]]


def test_pages_have_the_intervals_of_the_cluster() -> None:
    results = DayJury({id: dict.fromkeys("ab", OTHER) for id in "qrs"}).run("a", "b", jury={})
    bounds = []
    for cluster in (None, "template_id"):
        (section,) = jury_sections(PageRuns(read_runs([results]), ["A"], cluster=cluster))
        table = section.blocks[1]
        assert isinstance(table, TableBlock)
        bounds.append(table.rows[0][3])

    assert bounds == [wilson(0, 3)[1], pytest.approx(wilson(0, 1)[1])]


def test_notes_have_the_intervals_of_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    DayJury({id: dict.fromkeys("ab", OTHER) for id in "qrs"}).run("a", "b", jury={}).save(file)
    notes = [jury_notes([NotedRun("A", None, file, cluster)])[0] for cluster in (None, "template_id")]

    highs = [(note.values["pass_rate"]["high"], note.values["judges"][0]["pass_rate"]["high"]) for note in notes]
    assert highs == [(wilson(0, 3)[1],) * 2, (pytest.approx(wilson(0, 1)[1]),) * 2]


def test_combined_values_may_be_undecided() -> None:
    values = {"a": {**TWO_DATES, "drug": "aspirin"}, "b": OTHER, "c": {**TWO_DATES, "gene": "TP53"}}
    jury = DayJury({"q": values})
    (result,) = jury.run("a", "b", "c", jury={})

    assert result.template.parsed_llm_response == TWO_DATES
    assert result.outcome is Outcome.UNDECIDED
    assert result.why() == WHY


def test_a_stronger_judge_decides_for_undecided_ones() -> None:
    jury = DayJury(
        {"q": {"a": TWO_DATES, "b": FIRST, "strong": FIRST}, "r": dict.fromkeys(["a", "b", "strong"], TWO_DATES)}
    )
    results = jury.run("a", "b", "strong", jury={**STRONG, "vote": "verdict"})

    assert [result.outcome for result in results] == [Outcome.CORRECT, Outcome.UNDECIDED]
    assert record_of(results, "r").undecided == WHY


def test_statistics_of_a_jury_have_the_lower_rate() -> None:
    jury = DayJury({"q": dict.fromkeys("abc", FIRST), "r": {"a": TWO_DATES, "b": TWO_DATES, "c": FIRST}})
    (statistics,) = describe_juries(jury.run("a", "b", "c", jury={"vote": "verdict"}))

    assert (statistics.pass_rate.value, statistics.pass_rate.undecided, statistics.pass_rate.if_undecided_wrong) == (
        1.0,
        1,
        0.5,
    )
    rates = {
        judge.judge: (judge.failed, judge.pass_rate.undecided, judge.pass_rate.if_undecided_wrong)
        for judge in statistics.judges
    }
    assert rates == {"a": (0, 1, 0.5), "b": (0, 1, 0.5), "c": (0, 0, 1.0)}
