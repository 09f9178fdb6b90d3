"""`karenina calibrate`: agreement with people, and the corrected pass rate."""

from __future__ import annotations

from pathlib import Path

import pytest
from labelled import is_right, label_all, label_run, verdict_of
from runs import errant_run, karenina, result, save

from karenina_calibration import calibrate
from karenina_calibration.answers import Answer
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return label_run(tmp_path / "genes.results.jsonl", errant_run(300), count=90)


def test_the_corrected_rate_is_beside_the_raw_one(run: Path) -> None:
    done = karenina("calibrate", run)
    (rate,) = karenina("calibrate", run, "--json").json["corrected"]

    assert done.code == 0, done.err
    assert "Corrected pass rate\n" in done.out
    assert "90 labels of 300 answers on 300 questions" in done.out
    assert "raw rate     56.0% [" in done.out
    assert rate["low"] < 0.6 < rate["high"]
    assert rate["value"] == pytest.approx(0.6, abs=0.06)
    assert sum(stratum["labels"] for stratum in rate["strata"]) == 90


def test_confusion_sensitivity_and_specificity_are_printed(run: Path) -> None:
    out = karenina("calibrate", run).out
    (verdicts,) = karenina("calibrate", run, "--json").json["verdicts"]

    assert "verdict      people: right  not right" in out
    assert "right answers that are called correct" in out
    table = verdicts["table"]
    assert sum(table["correct"].values()) + sum(table["not correct"].values()) == 90
    assert verdicts["agreement"]["low"] < 0.8 < verdicts["agreement"]["high"]
    assert verdicts["kappa"]["low"] < verdicts["kappa"]["value"] < verdicts["kappa"]["high"]


def test_agreement_is_weighted_by_the_draw(tmp_path: Path) -> None:
    """Of 190 correct and 10 other verdicts, the rare ones are drawn more often and are all mistaken."""
    results = [result(f"q{at}", True) for at in range(190)] + [result(f"w{at}", False) for at in range(10)]
    run = label_run(tmp_path / "genes.results.jsonl", results, count=20)

    (verdicts,) = karenina("calibrate", run, "--json").json["verdicts"]

    assert sum(verdicts["table"]["not correct"].values()) == 5
    assert verdicts["agreement"]["value"] == pytest.approx(0.95)
    assert verdicts["sensitivity"]["value"] == pytest.approx(0.95)


def test_weighted_shares_of_merged_verdicts_are_named(tmp_path: Path) -> None:
    """At least 5 of 6 other verdicts are drawn, and at most 3 of them get a label that is not unclear."""
    results = [result(f"q{at}", True) for at in range(60)] + [result(f"w{at}", False) for at in range(6)]
    merged = label_run(
        tmp_path / "merged.results.jsonl",
        results,
        count=20,
        say=lambda answer: None if answer.question_id in ("w0", "w1", "w2") else is_right(answer),
    )
    apart = label_run(tmp_path / "apart.results.jsonl", results, count=20)

    says = "labels of merged verdicts count for different numbers of answers, so their share is weighted"
    assert says in karenina("calibrate", merged).out
    assert says not in karenina("calibrate", apart).out


def test_fields_and_worst_items_are_listed(run: Path) -> None:
    out = karenina("calibrate", run, "--worst", "1").out
    data = karenina("calibrate", run, "--json").json

    assert "field gene  j" in out
    assert out.count("  people    ") == 1
    assert "not said  field gene = " in out
    (gene,) = data["values"]
    assert gene["agreement"]["low"] < 0.8 < gene["agreement"]["high"]
    table = data["verdicts"][0]["table"]
    mistakes = table["correct"]["not right"] + table["not correct"]["right"]
    assert len(data["worst"]) == mistakes
    assert all(item["verdicts"] and item["extractions"] for item in data["worst"])


def test_several_labellers_vote_and_show_the_ceiling(run: Path) -> None:
    """The second labeller says the opposite of the first one at answers to every tenth question: these are ties."""

    def other(answer: Answer) -> bool | None:
        return is_right(answer) ^ answer.question_id.endswith("0")

    label_run(run, (), say=other, labeller="ben", count=90)
    two = karenina("calibrate", run, "--json").json
    label_run(run, (), labeller="cem", count=90)
    three = karenina("calibrate", run, "--json").json

    assert two["tied"] > 0
    assert two["corrected"][0]["labels"] == 90 - two["tied"]
    assert two["ceiling"]["pairs"]["value"] == pytest.approx(1 - two["tied"] / 90)
    assert three["tied"] == 0
    assert three["ceiling"]["answers"] == 90
    assert three["labellers"] == {"ann": 90, "ben": 90, "cem": 90}
    assert "the highest agreement that a judge can reach" in karenina("calibrate", run).out


def test_unclear_answers_are_left_out_and_counted(tmp_path: Path) -> None:
    def unsure(answer: Answer) -> bool | None:
        return None if answer.question_id.endswith("0") else is_right(answer)

    run = label_run(tmp_path / "genes.results.jsonl", errant_run(300), say=unsure, count=90)
    data = karenina("calibrate", run, "--json").json

    assert data["unclear"] > 0
    assert data["corrected"][0]["labels"] == 90 - data["unclear"]
    assert f"{data['unclear']} unclear, 0 with a tie" in karenina("calibrate", run).out


def test_results_without_an_answer_leave_bounds(tmp_path: Path) -> None:
    results = [*errant_run(90), *(result(f"e{at}", None, answer="", outcome=Outcome.MODEL_ERROR) for at in range(10))]
    run = label_run(tmp_path / "genes.results.jsonl", results)

    (rate,) = karenina("calibrate", run, "--json").json["corrected"]

    assert (rate["answers"], rate["missing"]) == (90, 10)
    assert rate["lowest"] == pytest.approx(0.9 * rate["value"])
    assert rate["highest"] == pytest.approx(0.9 * rate["value"] + 0.1)
    assert f"10 results without an answer: {rate['lowest']:.1%} if all are wrong" in karenina("calibrate", run).out


def test_questions_without_a_template_leave_no_bounds(tmp_path: Path) -> None:
    """Their items would have no verdict, so they are not part of the bounds of `show` either."""
    poem = result("poem", None, answer="", outcome=Outcome.MODEL_ERROR)
    poem = poem.model_copy(update={"metadata": poem.metadata.model_copy(update={"template_id": "no_template"})})
    run = label_run(tmp_path / "genes.results.jsonl", [*errant_run(90), poem])

    (rate,) = karenina("calibrate", run, "--json").json["corrected"]

    assert (rate["answers"], rate["missing"], rate["lowest"]) == (90, 0, rate["value"])


def test_an_answer_without_a_template_that_a_rule_failed_has_no_verdict(tmp_path: Path) -> None:
    """It is in no pass rate, so neither in the rates that labels correct."""
    poem = result("poem", None, outcome=Outcome.AUTO_FAILED)
    poem = poem.model_copy(update={"metadata": poem.metadata.model_copy(update={"template_id": "no_template"})})
    run = label_run(tmp_path / "genes.results.jsonl", [*errant_run(90), poem])

    data = karenina("calibrate", run, "--json").json

    (rate,) = data["corrected"]
    assert rate["answers"] == 90
    assert {tuple(one["verdicts"]) for one in rate["strata"]} == {("correct",), ("not correct",)}
    assert data["verdicts"][0]["raw"]["m"]["out_of"] == 90


def test_answers_that_were_not_judged_are_a_stratum(tmp_path: Path) -> None:
    results = [*errant_run(90), *(result(f"e{at}", None) for at in range(10))]
    run = label_run(tmp_path / "genes.results.jsonl", results)

    data = karenina("calibrate", run, "--json").json

    strata = {tuple(stratum["verdicts"]): stratum for stratum in data["corrected"][0]["strata"]}
    assert strata[("not judged",)]["answers"] == 10
    assert sum(data["verdicts"][0]["table"]["not judged"].values()) == strata[("not judged",)]["labels"]


def test_it_says_how_many_more_labels_would_help(tmp_path: Path) -> None:
    many = label_run(tmp_path / "many.results.jsonl", errant_run(3000), count=40)
    few = label_run(tmp_path / "few.results.jsonl", errant_run(50), count=40)

    assert "more labels would halve the interval" in karenina("calibrate", many).out
    assert "no number of labels would halve the interval; the run's own 50 questions" in karenina("calibrate", few).out


def test_simple_random_labels_have_a_cross_check(tmp_path: Path) -> None:
    run = label_run(tmp_path / "genes.results.jsonl", errant_run(300), count=90, simple=True)

    (rate,) = karenina("calibrate", run, "--json").json["corrected"]

    assert [stratum["verdicts"] for stratum in rate["strata"]] == [["correct", "not correct"]]
    assert rate["powered"]["low"] < 0.6 < rate["powered"]["high"]
    assert "PPI++ as a cross-check" in karenina("calibrate", run).out


def test_labels_of_another_run_correct_by_its_quality(run: Path, tmp_path: Path) -> None:
    new = save(tmp_path / "new.results.jsonl", errant_run(250))

    done = karenina("calibrate", new, "--quality-from", run)
    (rate,) = karenina("calibrate", new, "--quality-from", run, "--json").json["carried"]

    assert "assumed to carry over" in done.out
    assert rate["low"] < 0.6 < rate["high"]
    assert rate["raw"]["value"] == pytest.approx(0.56)


def test_the_quality_of_other_judges_is_refused(run: Path, tmp_path: Path) -> None:
    """The rates of the other run would be printed as if they were those of this one."""
    new = save(tmp_path / "new.results.jsonl", [result("q", True, judge="k"), result("r", True, judge="l")])

    done = karenina("calibrate", new, "--quality-from", run)

    assert (done.code, done.out) == (2, "")
    why = f"there are no labels in {run} for the verdicts of this run's judges (k, l): it has those of j"
    assert why in " ".join(done.err.split())


def test_labels_of_other_results_are_refused(run: Path, tmp_path: Path) -> None:
    new = save(tmp_path / "new.results.jsonl", errant_run(250))

    done = karenina("calibrate", new, run.with_name("genes.labels.jsonl"))

    assert done.code == 2
    assert "--quality-from" in done.err


def test_a_judge_like_a_coin_cannot_be_corrected(tmp_path: Path) -> None:
    coin = [result(f"q{at}", at % 4 < 2, answer="It is BCL2." if at % 2 else "No.") for at in range(80)]
    old = label_run(tmp_path / "old.results.jsonl", coin)
    new = save(tmp_path / "new.results.jsonl", coin)

    assert "the rate cannot be corrected for this judge" in karenina("calibrate", new, "--quality-from", old).out


def test_labels_without_a_draw_show_agreement_only(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", errant_run(50))
    labels = label_all(run, tmp_path / "people.jsonl")
    some = tmp_path / "some.jsonl"
    some.write_text("".join(labels.read_text("utf-8").splitlines(keepends=True)[:20]), "utf-8")

    whole, part = karenina("calibrate", run, labels, "--json").json, karenina("calibrate", run, some, "--json").json

    assert whole["corrected"][0]["value"] == pytest.approx(0.6, abs=0.01)
    assert part["corrected"] == []
    assert "the labels do not record a draw" in karenina("calibrate", run, some).out
    assert part["verdicts"][0]["agreement"]["out_of"] == 20


def test_labels_outside_of_the_draw_count_for_fields_only(run: Path, tmp_path: Path) -> None:
    labels = label_all(run, tmp_path / "people.jsonl")

    data = karenina("calibrate", run, labels, "--json").json

    assert (data["labelled"], data["outside"]) == (300, 210)
    assert data["corrected"][0]["labels"] == data["verdicts"][0]["agreement"]["out_of"] == 90
    assert data["values"][0]["agreement"]["out_of"] == 300
    assert len(data["worst"]) == 60


def test_labels_with_the_verdict_in_sight_are_reported(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", errant_run(20))
    karenina("label", run, "--show-verdict", "--n", "5", type="y\ny\n" * 10)

    assert "labels were given while the verdict was shown" in karenina("calibrate", run).out


def test_without_labels_the_command_says_how_to_label(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", errant_run(20))
    none = karenina("calibrate", run)
    karenina("label", run, type="q\n")
    drawn = karenina("calibrate", run)

    assert none.code == drawn.code == 2
    assert f"label answers with: karenina label {run}" in none.err
    assert "no answer in the results has a label in" in drawn.err


def test_too_few_labels_are_no_corrected_rate(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", errant_run(20))
    karenina("label", run, type="y\ny\ny\ny\nq\n")

    reason = "only 2 of the drawn answers are labelled right or wrong, but at least 5 must be"
    assert reason in karenina("calibrate", run).out


def test_python_programs_calibrate(run: Path) -> None:
    calibration = calibrate(run)

    assert calibration.corrected[0].labels == 90
    assert "Corrected pass rate" in repr(calibration)
    assert "Corrected pass rate" in (calibration._repr_html_() or "")


def test_a_judge_that_agrees_with_people_is_not_corrected_away(tmp_path: Path) -> None:
    run = label_run(tmp_path / "genes.results.jsonl", errant_run(300), say=verdict_of, count=90)

    calibration = calibrate(run)

    assert calibration.verdicts[0].agreement.value == 1
    assert calibration.corrected[0].value == pytest.approx(0.56, abs=0.02)
    assert not [item for item in calibration.worst if item.verdicts]


def test_undecided_answers_are_a_row_and_a_stratum_of_their_own(tmp_path: Path) -> None:
    results = [*errant_run(20), *(result(f"u{at}", None, outcome=Outcome.UNDECIDED) for at in range(5))]
    file = save(tmp_path / "genes.results.jsonl", results)
    label_all(file, tmp_path / "genes.results.labels.jsonl")

    done = karenina("calibrate", file, tmp_path / "genes.results.labels.jsonl")
    calibration = calibrate(file, tmp_path / "genes.results.labels.jsonl")

    (verdicts,) = calibration.verdicts
    assert verdicts.table["undecided"] == {"right": 5, "not right": 0}
    raw = verdicts.raw["m"]
    assert (raw.undecided, verdicts.agreement.out_of) == (5, 20)
    assert [stratum.answers for stratum in calibration.corrected[0].strata if stratum.verdicts == ["undecided"]] == [5]
    lower = f"{raw.hits / 25:.1%} if the 5 undecided are wrong"
    assert lower in done.out


def test_rates_of_several_models_are_never_pooled(run: Path, tmp_path: Path) -> None:
    def of(model: str, count: int) -> list[VerificationResult]:
        return [result(f"q{at}", at < count, model=model) for at in range(100)]

    new = label_run(tmp_path / "new.results.jsonl", [*of("alpha", 90), *of("beta", 50)])

    carried = calibrate(new, quality_from=run).carried
    raw = calibrate(new).verdicts[0].raw

    assert {rate.model: rate.raw.value for rate in carried} == {"alpha": 0.9, "beta": 0.5}
    assert {model: rate.value for model, rate in raw.items()} == {"alpha": 0.9, "beta": 0.5}
    assert "alpha, judged by j" in karenina("calibrate", new, "--quality-from", run).out
    assert "raw rate of alpha" in karenina("calibrate", new).out


def test_two_files_with_draws_say_whose_counts(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "ben.labels.jsonl"
    karenina("label", run, "--labels", other, "--seed", "5", "--labeller", "ben", type="y\ny\n" * 60)

    done = karenina("calibrate", run, other)

    own = run.with_name("genes.labels.jsonl")
    assert f"the draw in {other}, line 1 is used, not the one in {own}" in done.out
    assert "is used, not the one in" not in karenina("calibrate", run).out


def test_each_label_of_a_template_counts_once_for_several_judges(tmp_path: Path) -> None:
    results = [result(f"q{at}", True, judge=judge) for at in range(9) for judge in ("j", "k")]
    of_template = [
        item.model_copy(
            update={"metadata": item.metadata.model_copy(update={"template_id": "few" if at < 8 else "many"})}
        )
        for at, item in enumerate(results)
    ]
    file = label_run(tmp_path / "r.jsonl", of_template)

    (template,) = karenina("calibrate", file, "--json").json["templates"]

    assert (template["template"], template["labels"], template["agreement"]["out_of"]) == ("many", 5, 10)
    assert karenina("calibrate", file).out.count(" labels  verdicts\n") == 1


def test_a_template_of_several_questions_says_how_many(tmp_path: Path) -> None:
    results = [result(f"q{at}", True) for at in range(10)]
    results += [
        item.model_copy(update={"metadata": item.metadata.model_copy(update={"template_id": "u"})}) for item in results
    ]
    results = [*results[:5], *results[15:]]
    run = label_run(tmp_path / "genes.results.jsonl", results)

    assert "? (and 4 more)" in karenina("calibrate", run).out


def test_undecided_answers_join_the_wrong_ones_for_each_model(tmp_path: Path) -> None:
    def of(model: str, right: int, wrong: int) -> list[VerificationResult]:
        verdicts = [True] * right + [False] * wrong + [None] * 2
        outcomes = {None: Outcome.UNDECIDED}
        return [
            result(f"q{at}", verdict, model=model, outcome=outcomes.get(verdict)) for at, verdict in enumerate(verdicts)
        ]

    run = label_run(tmp_path / "genes.results.jsonl", [*of("alpha", 30, 10), *of("beta", 10, 30)])

    strata = {tuple(part.verdicts) for rate in calibrate(run).corrected for part in rate.strata}
    assert strata == {("correct",), ("not correct", "undecided")}


def test_labels_outside_of_the_draw_say_how_they_would_count(run: Path, tmp_path: Path) -> None:
    labels = label_all(run, tmp_path / "people.jsonl")

    assert f"`karenina label {run} --n 300` draws all answers" in karenina("calibrate", run, labels).out
    done = karenina("label", run, "--from", labels)
    assert "left out of rates: 210 labelled answers outside the draw" in done.err
    drawn = karenina("label", run, "--n", "300", "--from", labels)
    assert "outside the draw" not in drawn.err
    assert calibrate(run).corrected[0].labels == 300
