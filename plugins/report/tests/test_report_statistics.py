"""Statistics of one run: `karenina_report.describe` and `karenina stats`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_runs import CommandResult, run_karenina
from nq301 import available, judged
from result_builders import result, run, save

from karenina_benchmark import Benchmark
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.errors import ConfigError
from karenina_core.plugins import Plugins
from karenina_engine.results.rates import wilson
from karenina_engine.results.result_set import VerificationResultSet
from karenina_report import compare, describe
from karenina_report.commands import commands
from karenina_report.estimators.variance_components import BOTH, BOTH_AND_REST, JUDGE, REST
from karenina_report.page.own_sections import run_sections
from karenina_report.page.section import PageRuns, TableBlock
from karenina_report.runs import read_runs
from karenina_report.statistics.statistics_result import RunStatistics


def described(results: list[VerificationResult], **more: object) -> RunStatistics:
    """Return the statistics of the only run."""
    (statistics,) = describe(results, **more)  # type: ignore[arg-type]
    return statistics


def replicated(rights: list[list[bool | None]], judge: str = "j") -> list[VerificationResult]:
    """Return results of questions with several replicates."""
    return [
        result(f"q{number}", right, replicate=at, judge=judge)
        for number, some in enumerate(rights)
        for at, right in enumerate(some, 1)
    ]


def test_the_rate_of_single_items_has_wilsons_interval() -> None:
    rate = described(run([True] * 8 + [False] * 2 + [None])).pass_rate

    assert (rate.hits, rate.out_of) == (8, 10)
    assert (rate.low, rate.high) == wilson(8, 10)


def test_undecided_items_are_beside_each_rate() -> None:
    results = run([True] * 7 + [False, Outcome.UNDECIDED, Outcome.UNDECIDED], keywords=("dates",))
    statistics = described(results, by="keyword")

    assert (statistics.pass_rate.value, statistics.pass_rate.undecided, statistics.pass_rate.if_undecided_wrong) == (
        0.875,
        2,
        0.7,
    )
    assert "7 of 8 judged, on 8 questions; 70.0% if the 2 undecided are wrong" in " ".join(str(statistics).split())
    assert [(group.rate.undecided, group.rate.if_undecided_wrong) for group in statistics.groups] == [(2, 0.7)]
    assert "if these are wrong" in str(statistics)
    assert "undecided" not in f"{described(run([True, None]))}{described(run([True, None])).model_dump_json()}"


def test_equal_questions_under_several_ids_are_one_unit() -> None:
    results = [result(f"q{at}", at < 20, text=f"text {at // 10}") for at in range(40)]

    together, apart = described(results), described(results, cluster="question_id")

    assert together.pass_rate.clusters == 4
    assert apart.pass_rate.clusters == 40
    assert "40 questions have the same text as another question" in together.notes[0]
    assert together.pass_rate.low is not None
    assert apart.pass_rate.low is not None
    assert together.pass_rate.low < apart.pass_rate.low


def test_equal_questions_about_different_files_are_units_of_their_own() -> None:
    results = [result(f"q{at}", None if at % 4 == 0 else at < 20, text="Which cell is it?") for at in range(40)]
    file = {"karenina-engine": {"attachments": [{"name": "a.png", "sha256": "0"}]}}
    with_files = [item.model_copy(update={"extensions": file}) if item.outcome.judged else item for item in results]

    statistics = described(with_files)

    assert statistics.pass_rate.clusters == 30
    assert statistics.pass_rate == statistics.summary.pass_rate


def test_questions_without_any_judged_replicate_are_left_out_of_pass_at_k() -> None:
    of_traits = [result("poem", Outcome.SCORED, replicate=at) for at in (1, 2)]
    statistics = described(replicated([[True, True], [True, None], [None, None]]) + of_traits)

    assert [(draw.k, draw.questions, draw.left_out) for draw in statistics.draws] == [(1, 2, 1), (2, 1, 2)]


def test_items_without_a_template_have_no_bounds_if_they_fail() -> None:
    errors = [Outcome.MODEL_ERROR, Outcome.PARSE_ERROR, Outcome.RUBRIC_ERROR]
    scored = run([Outcome.SCORED, *errors], template="no_template", traits={"clear": True})
    judged = [result("q8", True), result("q9", Outcome.MODEL_ERROR)]

    only_scored = VerificationResultSet(scored)
    bounds = only_scored.summary().worst, only_scored.summary().best
    both = VerificationResultSet([*scored, *judged]).summary()
    broken = VerificationResultSet([result("q8", Outcome.TEMPLATE_ERROR, template="no_template")]).summary()

    assert (only_scored.summary().not_judged, *bounds) == (3, None, None)
    assert "Bounds" not in repr(only_scored)
    assert (both.not_judged, both.worst, both.best) == (4, 0.5, 1.0)
    assert (broken.worst, broken.best) == (0.0, 1.0)
    (pair,) = compare([*scored, *judged], [*judged, *scored[:1]]).pairs
    assert pair.unpaired == ["q9"]


def test_items_without_a_template_that_a_rule_failed_have_no_rate() -> None:
    results = run([Outcome.SCORED, Outcome.AUTO_FAILED], template="no_template", traits={"clear": True})

    assert describe(results)[0].pass_rate.value is None
    assert VerificationResultSet(results).summary().judged == 0
    assert "Pass rate" not in repr(VerificationResultSet(results))


def test_failed_items_miss_the_traits_that_all_other_questions_have() -> None:
    clear = [result(f"q{at}", True, traits={"clear": at < 4}) for at in range(6)]
    own = [result("q6", True, traits={"clear": True, "facts": {"recall": 0.5}})]
    failed = [result(f"q{at}", Outcome.MODEL_ERROR) for at in range(7, 10)]
    without = [result("q6", True, replicate=2, traits={})]
    assert without[0].rubric is not None
    without[0] = without[0].model_copy(
        update={"rubric": without[0].rubric.model_copy(update={"trait_errors": {"clear": "why", "facts": "why"}})}
    )

    missing = {mean.metric: (mean.results, mean.missing) for mean in described([*clear, *own, *failed, *without]).means}

    assert missing == {"clear": (7, 4), "facts.recall": (1, 1)}


def test_partial_credit_is_missing_if_the_fields_of_an_answer_were_not_compared() -> None:
    graded = [result(f"q{at}", at > 3, granular=at / 4) for at in range(5)]
    vetoed = [result(f"q{at}", Outcome.ABSTAINED) for at in range(5, 8)]
    ungraded = [result("q8", True), result("q9", False)]

    (partial,) = described([*graded, *vetoed, *ungraded, result("q10", None)]).means

    assert (partial.metric, partial.results, partial.missing) == ("partial credit", 5, 4)


def test_groups_and_means_of_several_judges_are_not_pooled() -> None:
    results = [
        result(f"q{at}", at < right, judge=judge, keywords=["all"], traits={"clear": at < clear, "depth": at})
        for at in range(8)
        for judge, right, clear in (("strict", 2, 8), ("mild", 6, 4))
    ]

    statistics = described(results, by="keyword")

    assert [(group.judge, group.rate.hits, group.rate.out_of) for group in statistics.groups] == [
        ("manual:strict", 2, 8),
        ("manual:mild", 6, 8),
    ]
    assert [(mean.metric, mean.judge, mean.value) for mean in statistics.means] == [
        ("clear", "manual:strict", 1.0),
        ("clear", "manual:mild", 0.5),
        ("depth (mean)", "manual:strict", 0.5),
        ("depth (mean)", "manual:mild", 0.5),
    ]
    assert re.search(r"all +manual:strict +2 +8 ", str(statistics))
    assert str(statistics).count("depth (mean): scores from 0 to 7") == 1
    assert [group.judge for group in described(results, by="judge").groups] == ["manual:mild", "manual:strict"]
    sections = {section.id: section for section in run_sections(PageRuns(read_runs([results]), ["A"]))}
    (by_keyword,) = sections["keywords"].blocks
    assert isinstance(by_keyword, TableBlock)
    assert [row[0] for row in by_keyword.rows] == ["all, judged by manual:strict", "all, judged by manual:mild"]


@pytest.mark.parametrize(("scores", "mean"), [([1, 0.5, 0.5, 0.75, 1], 0.75), ([0, 0.5, 0.5], 1 / 3)])
def test_shares_are_not_rescaled_if_some_are_whole_numbers(scores: list[float], mean: float) -> None:
    """A function that returns `1` or `0.5` has no scale of whole numbers."""
    statistics = described([result(f"q{at}", True, traits={"share": score}) for at, score in enumerate(scores)])

    assert [(found.metric, found.value) for found in statistics.means] == [("share", pytest.approx(mean))]
    assert statistics.notes == []


def test_scores_that_no_float_can_hold_are_no_numbers() -> None:
    results = [result(f"q{at}", True, traits={"steps": score}) for at, score in enumerate([10**400, 1, 3])]

    assert [(mean.metric, mean.results) for mean in described(results).means] == [("steps (mean)", 2)]


@pytest.mark.parametrize("score", [1, 4])
def test_equal_scores_on_an_unknown_scale_have_no_mean(score: int) -> None:
    """The lowest score of a scale from 1 to 5 must not be shown as 100%."""
    results = run([True] * 6, traits={"clarity": score, "clear": True})
    note = f"the trait clarity has no mean because all its scores are {score}; set its lowest and highest score"

    unknown, known = described(results), described(results, scales={"clarity": (1, 5)})
    (pair,) = compare(results, run([True] * 6, traits={"clarity": score}, model="n")).pairs

    assert [mean.metric for mean in unknown.means] == ["clear"]
    assert [mean.value for mean in known.means if mean.metric == "clarity (mean)"] == [(score - 1) / 4]
    assert [note in " ".join(found.notes) for found in (unknown, known, pair)] == [True, False, True]


def test_any_column_has_rates_of_its_own() -> None:
    results = [
        result(f"q{at}", None if at == 7 else at < 4, keywords=["even" if at % 2 == 0 else "odd", "all"])
        for at in range(8)
    ]

    groups = {group.value: group for group in described(results, by="keyword").groups}

    assert {name: (group.rate.hits, group.rate.out_of, group.not_judged) for name, group in groups.items()} == {
        "all": (4, 7, 1),
        "even": (2, 4, 0),
        "odd": (2, 3, 1),
    }
    with pytest.raises(ConfigError, match="there is no column 'colour'"):
        describe(results, by="colour")


def test_a_column_without_a_value_is_refused_with_its_cure() -> None:
    results = run([True, False])

    with pytest.raises(ConfigError, match=r"no result has a keyword; .*--benchmark FILE .*--columns keywords=COLUMN"):
        describe(results, by="keyword")
    with pytest.raises(ConfigError, match="no result has a value in the column 'run_name'"):
        describe(results, cluster="run_name")
    with pytest.raises(ConfigError, match="no result has a keyword"):
        compare(results, run([True, True], model="b"), by="keyword")


def test_keywords_are_taken_from_the_benchmark() -> None:
    benchmark = Benchmark.create("Years")
    for at in range(4):
        benchmark.add_question(f"What is q{at}?", question_id=f"q{at}", keywords=["early" if at < 3 else "late"])
    results = [*run([True, False, True, True]), result("gone", True, keywords=["old"])]

    groups = described(results, by="keyword", benchmark=benchmark).groups

    assert [(group.value, group.rate.hits, group.rate.out_of) for group in groups] == [
        ("early", 2, 3),
        ("late", 1, 1),
        ("old", 1, 1),
    ]
    with pytest.raises(ConfigError, match=r"and neither does the benchmark: .*--columns keywords=COLUMN"):
        describe(run([True]), by="keyword", benchmark=Benchmark.create("Empty"))


def test_a_run_without_a_value_in_the_column_has_a_note() -> None:
    first, second = describe(run([True], keywords=("a",)), run([True], model="b"), by="keyword")

    assert (list(first.notes), second.groups) == ([], [])
    assert second.notes == ["no result of this run has a value in the column 'keyword'"]


def test_the_intervals_of_small_groups_are_called_rough() -> None:
    results = [result(f"q{at}", at < 4, keywords=["few" if at < 5 else "many"]) for at in range(30)]

    text = repr(describe(results, by="keyword"))

    assert re.search(r"few +4 +5 +5 +80.0% +rough \[", text)
    assert re.search(r"many +0 +25 +25 +0.0% +\[", text)


def test_partial_credit_and_traits_have_means_with_intervals() -> None:
    results = [
        result(f"q{at}", Outcome.PARTIAL, granular=[0.0, 1 / 3, 2 / 3, 1.0][at % 4], traits={"clear": at % 2 == 0})
        for at in range(40)
    ]
    results += [result("failed", Outcome.PARSE_ERROR)]

    means = {mean.metric: mean for mean in described(results).means}

    assert means["partial credit"].value == pytest.approx(0.5)
    assert (means["partial credit"].results, means["partial credit"].missing) == (40, 1)
    low, high = wilson(20, 40)
    assert low < means["partial credit"].low < 0.5 < means["partial credit"].high < high, "grades vary less than hits"
    assert means["clear"].value == 0.5


def test_questions_with_few_judged_replicates_are_counted() -> None:
    draws = described(replicated([[True, True, False], [True, False, False], [True, None, None]])).draws

    assert [(draw.k, draw.questions, draw.left_out) for draw in draws] == [(1, 3, 0), (2, 2, 1), (3, 2, 1)]
    assert draws[1].any_right == pytest.approx((1 + 2 / 3) / 2)
    assert draws[1].all_right == pytest.approx((1 / 3 + 0) / 2)
    assert described(run([True, False])).draws == []


def test_what_verdicts_vary_by_needs_judges_and_replicates() -> None:
    rights: list[list[bool | None]] = [[True, True], [False, False], [True, False], [None, True]]
    variance = described(replicated(rights)).variance
    two = described([*replicated(rights), *replicated(rights[::-1], judge="k")]).variance
    single = described([*run([True, False, True]), *run([True, True, True], judge="k")]).variance

    assert variance is not None
    assert (variance.questions, list(variance.unknown)) == (3, [JUDGE, BOTH])
    assert two is not None
    assert list(two.unknown) == []
    assert sum(two.shares.values()) == pytest.approx(1)
    assert single is not None
    assert list(single.unknown) == [BOTH, REST]
    assert BOTH_AND_REST in single.shares
    assert described(run([True, False])).variance is None


def test_judges_are_compared_on_the_answers_that_both_have_judged() -> None:
    results = [*run([True, True, False, None]), *run([True, False, False, True], judge="k")]

    (pair,) = described(results).agreement

    assert (pair.raw.hits, pair.raw.out_of) == (2, 3)
    assert (pair.correct_by_a, pair.correct_by_b) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert pair.kappa is not None
    assert pair.kappa.value == pytest.approx(0.4)


def test_kappa_of_a_constant_judge_is_undefined() -> None:
    results = [*run([True, True, True]), *run([True, False, True], judge="k")]

    assert described(results).agreement[0].kappa is None


class TestCommand:
    """Tests of `karenina stats`."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """Return a file of results with two judges, replicates, keywords and a trait."""
        return save(
            tmp_path / "both.results.jsonl",
            [
                result(
                    f"q{at}",
                    at % 3 > 0 or (judge == "k" and at % 2 == 0),
                    replicate=replicate,
                    judge=judge,
                    keywords=["even" if at % 2 == 0 else "odd"],
                    traits={"clarity": at % 5},
                )
                for at in range(24)
                for replicate in (1, 2)
                for judge in ("j", "k")
            ],
        )

    def stats(self, *arguments: str | Path, width: int = 400) -> CommandResult:
        """Run the command with these arguments."""
        plugins = Plugins()
        plugins.register(commands)
        return run_karenina("stats", *arguments, plugins=plugins, width=width)

    @pytest.mark.parametrize("width", [60, 80, 400])
    def test_it_prints_every_part_within_the_width(self, file: Path, width: int) -> None:
        done = self.stats(file, "--by", "keyword", "--cut", "clarity=3", width=width)

        assert done.code == 0, done.err
        for part in ("Pass rate", "Variance", "pass^k", "clarity >= 3", "even", "kappa", "Krippendorff"):
            assert part in done.out
        assert max(map(len, done.out.splitlines())) <= width

    def test_json_is_what_python_returns(self, file: Path) -> None:
        assert self.stats(file, "--json").json["runs"] == [entry.model_dump(mode="json") for entry in describe(file)]

    def test_bad_input_ends_with_2(self, file: Path, tmp_path: Path) -> None:
        for arguments in ([tmp_path / "none.jsonl"], [file, "--by", "colour"], [file, "--model", "other"]):
            assert self.stats(*arguments).code == 2


@available
def test_recorded_judges_of_nq301_are_described() -> None:
    statistics = described([*judged("gpt4"), *judged("davinci003")])

    assert statistics.pass_rate is None
    assert [(rate.out_of, rate.clusters) for rate in statistics.by_judge.values()] == [(747, 150), (748, 150)]
    assert statistics.agreement[0].raw.hits == 747 - 44 - 32


def test_sections_of_the_page_have_the_intervals_of_the_cluster() -> None:
    results = [result(f"q{at}", at % 8 < 5, keywords=(f"doc{at // 8}", "all")) for at in range(40)]
    page = PageRuns(read_runs([results]), ["A"], cluster="keyword")

    sections = {section.id: section.blocks[0] for section in run_sections(page)}

    for id, column in (("models", "A: m"), ("keywords", "all")):
        table = sections[id]
        assert isinstance(table, TableBlock)
        rate = described(results, cluster="keyword").pass_rate
        assert [*next(row for row in table.rows if row[0] == column)[1:4]] == [rate.value, rate.low, rate.high]


def test_components_are_not_blamed_on_a_single_replicate_if_there_are_several() -> None:
    results = [result(f"q{at}", at > 2, replicate=replicate) for at in range(6) for replicate in (1, 2 + at % 2)]

    text = " ".join(str(described(results)).split())

    assert "the components are not known: fewer than two questions have all replicates judged by all judges" in text
    assert "cannot be separated with one judge and one replicate" in str(described(run([True, False])))


def test_rounding_errors_are_no_component_of_variance() -> None:
    """One judge is right about one question, always: its component is a difference of equal mean squares."""
    results = [
        result(f"q{at}", judge == "j" and at == 0, judge=judge, replicate=replicate)
        for at in range(12)
        for judge in ("j", "k")
        for replicate in (1, 2)
    ]

    variance = described(results).variance

    assert variance is not None
    assert {name: share for name, share in variance.shares.items() if share} == {BOTH: 1.0}


@pytest.mark.parametrize(("scale", "mean"), [((0, 1), 1.0), ((2, 4), 0.5)])
def test_scores_outside_a_scale_count_as_its_limit_with_a_note(scale: tuple[float, float], mean: float) -> None:
    results = [result(f"q{at}", True, traits={"clarity": at % 5 + 1}) for at in range(20)]

    (found,) = described(results, scales={"clarity": scale}).means
    compared = compare(results, results[:10], scales={"clarity": scale}).pairs[0].differences[-1]

    assert (found.metric, found.value) == ("clarity (mean)", mean)
    assert re.search(r"; scores outside this scale \(.*5\) count as its nearest limit$", found.note)
    assert (compared.metric, compared.a, compared.note) == ("clarity (mean)", mean, found.note)


@pytest.mark.parametrize("scales", [{}, {"clarity": (0, 1)}])
def test_a_score_just_outside_of_0_to_1_is_a_rounding_error(scales: dict[str, tuple[float, float]]) -> None:
    scores = (0.5, 0.25, 1.0000001, -1e-9, 1.0)
    results = [result(f"q{at}", True, traits={"clarity": scores[at % 5]}) for at in range(20)]

    (found,) = described(results, scales=scales).means

    assert (found.metric, found.value, found.note) == ("clarity", pytest.approx(0.55, abs=1e-12), "")


def test_a_score_just_outside_of_another_scale_is_a_rounding_error() -> None:
    results = [result(f"q{at}", True, traits={"clarity": (2.0, 4.0000001)[at % 2]}) for at in range(20)]

    (found,) = described(results, scales={"clarity": (2, 4)}).means

    assert (found.value, found.note) == (0.5, "scores from 2 to 4 were rescaled to 0 to 1")


def test_a_scale_whose_limits_are_exchanged_is_refused() -> None:
    results = [result("q", True, traits={"clarity": 3})]
    with pytest.raises(ConfigError, match="the lowest score of the trait 'clarity', 5, is not below its highest, 1"):
        describe(results, scales={"clarity": (5, 1)})


def test_parts_of_a_score_that_are_empty_are_missing() -> None:
    results = [result(f"q{at}", True, traits={"facts": {"recall": 0.5 if at < 3 else None}}) for at in range(10)]

    assert [(mean.metric, mean.results, mean.missing) for mean in described(results).means] == [("facts.recall", 3, 7)]


def test_users_of_several_judges_are_counted_as_items() -> None:
    results = [item for judge in "jk" for item in run([True] * 5, judge=judge)]
    for item in results:
        item.extensions = {"karenina-conversation": {"user_checked": True}}

    assert "0 of 5 simulated users at fault" in str(described(results[:5]))
    assert "0 of 10 items with a simulated user at fault" in str(described(results))
