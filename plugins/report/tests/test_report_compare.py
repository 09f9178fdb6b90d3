"""`karenina.compare`: the comparison of runs in Python."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any, Literal

import pytest
from result_builders import result, run

from karenina_benchmark import Benchmark
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.rubrics import LLMRubricTrait
from karenina_core.errors import ConfigError
from karenina_report import compare
from karenina_report.comparison.comparison_result import Difference, FieldValues, Pair
from karenina_report.comparison.comparison_text import p_value, points
from karenina_template.question_template import template_of


def only(pairs: object) -> Pair:
    """Return the only pair of a comparison."""
    assert isinstance(pairs, list)
    (pair,) = pairs
    assert isinstance(pair, Pair)
    return pair


def verdicts(pair: Pair) -> Difference:
    """Return the difference of the pass rates."""
    difference = pair.difference()
    assert difference is not None
    return difference


def test_the_rates_of_both_runs_subtract_to_the_difference() -> None:
    a = run([True, True, False, None], model="a")
    b = [*run([True, False, False, True], model="b"), result("q9", True, model="b")]

    pair = only(compare(a, b).pairs)
    difference = verdicts(pair)

    assert (difference.questions, difference.a, difference.b) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert difference.difference == pytest.approx(difference.a - difference.b)
    assert (pair.only_a, pair.only_b, pair.unpaired) == ([], ["q9"], ["q3"])


def test_replicates_of_different_answers_are_not_paired() -> None:
    """Only the mean of a question counts, not which replicate was right."""
    a = [result("q", right, replicate=at, model="a") for at, right in enumerate([True, False, False], 1)]
    b = [result("q", right, replicate=at, model="b") for at, right in enumerate([False, True], 1)]

    difference = verdicts(only(compare(a, b).pairs))

    assert difference.difference == pytest.approx(1 / 3 - 1 / 2)
    assert difference.flipped.questions == 1


def test_replicates_of_the_same_stored_answers_are_paired() -> None:
    def judged(rights: list[bool | None]) -> list[object]:
        return [result("q", right, replicate=at, answer=f"answer {at}") for at, right in enumerate(rights, 1)]

    pair = only(compare(judged([True, True, False]), judged([True, None, False])).pairs)

    assert pair.same_answers
    assert verdicts(pair).difference == 0


def test_the_bounds_say_whether_the_sign_depends_on_the_unjudged() -> None:
    holds = verdicts(only(compare(run([True] * 9 + [None]), run([False] * 10, model="b")).pairs)).bounds
    turns = verdicts(only(compare(run([True, None, None]), run([False, True, True], model="b")).pairs)).bounds

    assert holds is not None
    assert (holds.unjudged_a, holds.unjudged_b, holds.sign_holds) == (1, 0, True)
    assert (holds.low, holds.high) == (pytest.approx(0.9), pytest.approx(1.0))
    assert turns is not None
    assert (turns.low, turns.high, turns.sign_holds) == (pytest.approx(-1 / 3), pytest.approx(1 / 3), False)


def test_the_shares_of_errors_are_compared_too() -> None:
    difference = only(compare(run([True, None, None, None]), run([True] * 4, model="b")).pairs).difference("not judged")

    assert difference is not None
    assert (difference.a, difference.b, difference.questions) == (0.75, 0.0, 4)


def test_questions_with_the_same_text_are_one_unit_by_default() -> None:
    a = [result(f"q{at}", at % 2 == 0, text=f"text {at // 2}") for at in range(12)]
    b = [result(f"q{at}", at < 3, text=f"text {at // 2}", model="b") for at in range(12)]

    together = only(compare(a, b).pairs)
    apart = only(compare(a, b, cluster="question_id").pairs)

    assert (verdicts(together).units, verdicts(apart).units, verdicts(apart).questions) == (6, 12, 12)
    assert "12 questions have the same text as another question" in together.notes[0]
    assert apart.notes == []


def test_an_unknown_column_names_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"no column 'keywrod'; the columns are keyword, .*; did you mean 'keyword'\?"
    ):
        compare(run([True]), run([True], model="b"), by="keywrod")


@pytest.mark.parametrize("column", ["answering_model", "run_name"])
def test_a_column_that_tells_the_runs_apart_has_no_groups(column: str) -> None:
    a, b = run([True, False]), run([True, True], model="b")
    for item in a:
        item.metadata.run_name = "first"
    for item in b:
        item.metadata.run_name = "second"
    pair = only(compare(a, b, by=column).pairs)

    assert pair.groups == []
    assert f"no question has the same {column} in both runs; `karenina stats --by {column}`" in " ".join(pair.notes)


def test_groups_of_replicates_contain_only_their_results() -> None:
    """The whole questions would give each replicate the rates of all."""
    a, b = (
        [item for at in (1, 2) for item in run([(at == 1) == (model == "a")] * 6, model=model, replicate=at)]
        for model in ("a", "b")
    )

    groups = only(compare(a, b, by="replicate").pairs).groups

    assert [(group.value, group.questions, group.a, group.b) for group in groups] == [("1", 6, 1, 0), ("2", 6, 0, 1)]


def test_different_judges_are_refused_unless_any_judge() -> None:
    a, b = run([True, False], judge="j"), run([True, True], judge="k", model="b")

    with pytest.raises(ConfigError, match=r"judged by manual:j .*by manual:k.*--any-judge"):
        compare(a, b)
    assert verdicts(only(compare(a, b, any_judge=True).pairs)).difference == -0.5


def test_only_judges_of_both_runs_count() -> None:
    a = [*run([True, True], judge="j"), *run([True, False], judge="k"), *run([False, False], judge="only a")]
    b = [*run([False, True], judge="j", model="b"), *run([False, False], judge="k", model="b")]

    pair = only(compare(a, b).pairs)

    assert pair.judges == ["manual:j", "manual:k"]
    assert verdicts(pair).difference == 0.5
    assert {judge: difference.difference for judge, difference in pair.by_judge.items()} == {
        "manual:j": 0.5,
        "manual:k": 0.5,
    }
    assert pair.notes == ["only one run has the judge manual:only a, so this judge was left out"]


def test_a_changed_template_is_listed_and_left_out() -> None:
    a = run([True, True, False])
    b = [
        result("q0", False, template="another", model="b"),
        *[result(f"q{at}", True, model="b") for at in (1, 2)],
    ]

    pair = only(compare(a, b).pairs)

    assert pair.changed == {"q0": ["template"]}
    assert verdicts(pair).questions == 2
    compared = only(compare(a, b, any_template=True).pairs)
    assert verdicts(compared).questions == 3
    assert not compared.changed
    assert compared.notes == ["compared 1 question despite a different template: q0"]


def test_other_attachments_are_another_question() -> None:
    def asked(digest: str | None, model: str) -> VerificationResult:
        files = [{"name": "a.png", "sha256": digest}] if digest else []
        return result("q0", True, model=model).model_copy(update={"extensions": {"karenina-x": {"attachments": files}}})

    with pytest.raises(ConfigError, match=r"the attachments changed .* not comparable\. To compare them anyway"):
        compare([asked("1", "m")], [asked("2", "b")])
    with pytest.raises(ConfigError, match="the attachments changed"):
        compare([asked("1", "m")], [asked(None, "b")])
    assert not only(compare([asked("1", "m")], [asked("1", "b")]).pairs).changed


def test_runs_with_other_templates_throughout_are_not_comparable_without_rescore() -> None:
    with pytest.raises(
        ConfigError, match=r"the template changed .* not comparable\. To make them comparable, .*karenina rescore"
    ):
        compare(run([True]), run([True], template="another", model="b"))


def test_a_changed_judge_prompt_is_not_comparable_without_rescore() -> None:
    a, b = run([True], judge_prompt="Be strict."), run([True], judge_prompt="Be lenient.", model="b")

    with pytest.raises(ConfigError, match=r"the system prompt of the judge changed .*karenina rescore"):
        compare(a, b)
    assert verdicts(only(compare(a, b, any_judge=True).pairs)).questions == 1


def test_runs_without_a_common_question_are_refused() -> None:
    with pytest.raises(ConfigError, match="no questions in common"):
        compare([result("one", True)], [result("two", True)])


def test_a_flip_names_what_changed() -> None:
    a = [result("q0", True, answer="same", extracted={"gene": "BCL2"}), result("q1", True), result("q2", True)]
    b = [
        result("q0", False, answer="same", extracted={"gene": "TP53"}),
        result("q1", Outcome.ABSTAINED, answer="I cannot say."),
        result("q2", True),
    ]

    flips = only(compare(a, b).pairs).flips

    assert [(flip.question_id, flip.changed) for flip in flips] == [
        ("q0", ["extraction", "verdict"]),
        ("q1", ["answer", "verdict"]),
    ]
    assert flips[1].b.outcomes == {"abstained": 1}
    assert flips[1].b.answer == "I cannot say."


def declared(tmp_path: Path, tolerance: float = 0.5) -> Benchmark:
    """Return a benchmark whose question `q0` has a number with a tolerance."""
    file = tmp_path / f"{tolerance}.yaml"
    file.write_text(
        "karenina: 1\nname: Numbers\nquestions:\n  - id: q0\n    question: How many?\n    answer:\n      number: "
        "{type: float, description: The number, ground_truth: 40, "
        f"verify_with: {{type: NumericTolerance, tolerance: {tolerance}}}}}\n",
        "utf-8",
    )
    return Benchmark.load(file)


def numbers(template: str, *found: float | None, model: str = "m") -> list[VerificationResult]:
    """Return results of `q0` whose number was extracted and compared with 40; None means that nothing was extracted."""
    results = []
    for at, number in enumerate(found, 1):
        extracted = {"number": number} if number is not None else None
        item = result("q0", number == 40 if extracted else None, replicate=at, model=model, extracted=extracted)
        update = {
            "parsed_gt_response": {"number": 40},
            "field_results": {"number": number == 40} if extracted else None,
        }
        metadata = item.metadata.model_copy(update={"template_id": template, "keywords": ["count"]})
        results.append(
            item.model_copy(update={"template": item.template.model_copy(update=update), "metadata": metadata})
        )
    return results


def test_a_flip_has_both_values_the_truth_and_the_rule(tmp_path: Path) -> None:
    benchmark = declared(tmp_path)
    template = template_of(next(iter(benchmark)))
    assert template is not None
    a, b = numbers(template.template_id, 40), numbers(template.template_id, 6, model="b")

    comparison = compare(a, b, benchmark=benchmark)

    (flip,) = only(comparison.pairs).flips
    assert flip.values == [
        FieldValues(name="number", a={"40": 1}, b={"6": 1}, truths=["40"], rule="NumericTolerance (tolerance 0.5)")
    ]
    assert "number: 40 -> 6, truth 40, rule NumericTolerance (tolerance 0.5)" in repr(comparison)


def test_a_changed_template_lends_no_rule(tmp_path: Path) -> None:
    template = template_of(next(iter(declared(tmp_path))))
    assert template is not None
    a, b = numbers(template.template_id, 40), numbers(template.template_id, 6, model="b")

    comparison = compare(a, b, benchmark=declared(tmp_path, tolerance=2))

    assert "number: 40 -> 6, truth 40\n" in repr(comparison)


def test_values_of_replicates_are_counted() -> None:
    text = repr(compare(numbers("t", 40, 40, 6), numbers("t", 6, 6, None, model="b")))

    assert "number: 40 (2 of 3) or 6 (1 of 3) -> 6, truth 40" in text
    assert "number: 0.667 -> 0" in text


def test_changes_are_selected_by_direction_and_keyword() -> None:
    a = [result("q0", True, keywords=["x"]), result("q1", False, keywords=["x"]), result("q2", True, keywords=["y"])]
    b = [result(f"q{at}", right, keywords=["xxy"[at]], model="b") for at, right in enumerate([False, True, False])]
    comparison = compare(a, b)

    def selected(*arguments: Any) -> list[str]:
        return [change.question_id for change in only(comparison.select_changes(*arguments).pairs).changes]

    assert selected("worse") == ["q0", "q2"]
    assert selected("better") == ["q1"]
    assert selected("worse", ["x"]) == ["q0"]
    assert only(comparison.select_changes("worse").pairs).more_undecided == only(comparison.pairs).more_undecided
    with pytest.raises(ConfigError, match=r"has the keyword 'units'; available: x, y"):
        comparison.select_changes(None, ["units"])


def test_what_is_left_out_is_said_before_the_rates() -> None:
    a = [*run([True, None], model="a"), result("q8", True, template="old", model="a")]
    b = [*run([True, True], model="b"), result("q8", True, template="new", model="b"), result("q9", True, model="b")]

    text = repr(compare(a, b))

    places = [text.index(f"\n{name} ") for name in ("Only in B", "Unpaired", "Changed", "Pass rate   A")]
    assert places == sorted(places)


def test_ordinal_traits_are_compared_by_means_and_cuts() -> None:
    a = [result(f"q{at}", None, traits={"clarity": score, "polite": True}) for at, score in enumerate([5, 4, 1])]
    b = [result(f"q{at}", None, traits={"clarity": score, "polite": at > 0}) for at, score in enumerate([3, 3, None])]
    for item in [*a, *b]:
        item.outcome = Outcome.SCORED

    pair = only(compare(a, b, cuts={"clarity": 4}, scales={"clarity": (1, 5)}).pairs)
    values = {difference.metric: (difference.a, difference.b, difference.questions) for difference in pair.differences}

    assert values["clarity (mean)"] == (pytest.approx(0.875), pytest.approx(0.5), 2)
    assert values["clarity >= 4"] == (1.0, 0.0, 2)
    assert values["polite"] == (1.0, pytest.approx(2 / 3), 3)
    missing = pair.difference("clarity >= 4")
    assert missing is not None
    assert missing.bounds is not None
    assert (missing.bounds.unjudged_a, missing.bounds.unjudged_b) == (0, 1)


def test_labels_are_compared_by_their_shares() -> None:
    a = [result(f"q{at}", True, traits={"tone": tone}) for at, tone in enumerate(["warm", "warm", "cold"])]
    b = [result(f"q{at}", True, traits={"tone": "cold"}, model="b") for at in range(3)]

    pair = only(compare(a, b).pairs)
    values = {
        difference.metric: difference.difference
        for difference in pair.differences
        if difference.metric.startswith("tone")
    }

    assert values == {"tone is cold": pytest.approx(-2 / 3), "tone is warm": pytest.approx(2 / 3)}


def test_the_benchmark_adds_columns_and_the_scales_of_traits() -> None:
    benchmark = Benchmark.create("Papers")
    trait = LLMRubricTrait(name="clarity", description="Is it clear?", kind="score")
    for at in range(6):
        facts = {"document": f"d{at // 2}"}
        benchmark.add_question(f"What is q{at}?", question_id=f"q{at}", rubric=[trait], metadata=facts)
    a = [result(f"q{at}", True, traits={"clarity": 3}) for at in range(6)]
    b = [result(f"q{at}", at > 2, traits={"clarity": 2}, model="b") for at in range(6)]

    pair = only(compare(a, b, by="document", cluster="document", benchmark=benchmark).pairs)
    clarity = pair.difference("clarity (mean)")

    assert (verdicts(pair).units, pair.unit) == (3, "document")
    assert [(group.value, group.difference) for group in pair.groups] == [("d0", 1.0), ("d1", 0.5), ("d2", 0.0)]
    assert clarity is not None
    assert (clarity.a, clarity.b) == (0.5, 0.25)
    with pytest.raises(ConfigError, match=r"no column 'document'.*--benchmark FILE"):
        compare(a, b, by="document")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_decomposed_ids_name_the_same_questions(form: Literal["NFC", "NFD"]) -> None:
    benchmark = Benchmark.create("Caf\u00e9s")
    for at in range(4):
        facts = {"document": f"d{at // 2}"}
        benchmark.add_question(f"What is q{at}?", question_id=f"caf\u00e9 {at}", metadata=facts)
    ids = [unicodedata.normalize(form, f"caf\u00e9 {at}") for at in range(4)]
    some = [{"clear": True} if at < 2 else None for at in range(4)]
    a = [result(id, True, text="same", traits=traits) for id, traits in zip(ids, some, strict=True)]
    b = [result(id, at > 1, text="same", traits=some[at], model="b") for at, id in enumerate(ids)]

    pair = only(compare(a, b, by="document", cluster="document", benchmark=benchmark).pairs)

    assert (verdicts(pair).questions, verdicts(pair).units, verdicts(pair).difference) == (4, 2, 0.5)
    assert [(group.value, group.difference) for group in pair.groups] == [("d0", 1.0), ("d1", 0.0)]
    assert pair.difference("clear") is not None


def test_partial_credit_is_compared_on_its_own() -> None:
    a = [result("q0", Outcome.PARTIAL, granular=2 / 3), result("q1", True, granular=1.0)]
    b = [result("q0", False, granular=0.0, model="b"), result("q1", True, granular=1.0, model="b")]

    pair = only(compare(a, b).pairs)
    difference = pair.difference("partial credit")

    assert difference is not None
    assert difference.difference == pytest.approx(1 / 3)
    assert difference.p_exact
    assert verdicts(pair).difference == 0
    assert [(change.question_id, change.flipped) for change in pair.changes] == [("q0", False)]


def test_p_values_of_several_runs_are_adjusted_metric_by_metric() -> None:
    runs = [run([at < right for at in range(20)], model=f"m{right}") for right in (4, 10, 18)]

    comparison = compare(*runs)
    differences = [verdicts(pair) for pair in comparison.pairs]

    assert [(pair.a, pair.b) for pair in comparison.pairs] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert [difference.p_adjusted for difference in differences] == pytest.approx(
        [differences[0].p, 3 * differences[1].p, 2 * differences[2].p]
    )
    assert verdicts(only(compare(*runs[:2]).pairs)).p_adjusted is None


def test_each_run_is_compared_with_the_baseline() -> None:
    runs = [run([True, False], model=name) for name in ("a", "b", "c")]

    assert [(pair.a, pair.b) for pair in compare(*runs, baseline=1).pairs] == [("A", "B"), ("C", "B")]
    assert [(pair.a, pair.b) for pair in compare(*runs, baseline="c").pairs] == [("A", "C"), ("B", "C")]
    with pytest.raises(ConfigError, match="there is no run named 'd'"):
        compare(*runs, baseline="d")


def test_a_source_with_several_models_is_several_runs() -> None:
    both = [*run([True, True], model="a"), *run([True, False], model="b")]

    comparison = compare(both)

    assert [entry.name for entry in comparison.runs] == ["a", "b"]
    assert verdicts(only(comparison.pairs)).difference == 0.5
    with pytest.raises(ConfigError, match="contains only one answering model"):
        compare(both, model="a")


def test_groups_have_intervals_from_five_questions() -> None:
    def keyworded(rights: list[bool], model: str) -> list[object]:
        return [
            result(f"q{at}", right, keywords=["few"] if at < 4 else ["many", "all"], model=model)
            for at, right in enumerate(rights)
        ]

    pair = only(compare(keyworded([True] * 9, "a"), keyworded([False] * 9, "b"), by="keyword").pairs)
    groups = {group.value: group for group in pair.groups}

    assert {name: group.questions for name, group in groups.items()} == {"all": 5, "few": 4, "many": 5}
    assert groups["few"].low is None
    assert groups["many"].low is not None


def test_more_replicates_help_only_if_replicates_differ() -> None:
    def several(rights: list[list[bool]], model: str) -> list[object]:
        return [
            result(f"q{number}", right, replicate=at, model=model)
            for number, some in enumerate(rights)
            for at, right in enumerate(some, 1)
        ]

    steady = verdicts(
        only(
            compare(
                several([[True] * 4, [False] * 4, [True] * 4], "a"), several([[False] * 4, [True] * 4, [True] * 4], "b")
            ).pairs
        )
    )
    shaky = verdicts(
        only(
            compare(several([[True, False] * 2] * 3, "a"), several([[True, False] * 2, [True] * 4, [False] * 4], "b"))
            .pairs
        )
    )  # fmt: skip

    assert steady.power is not None
    assert steady.power.within == 0
    assert shaky.power is not None
    assert shaky.power.within is not None
    assert shaky.power.within > 0.3
    assert verdicts(only(compare(run([True, False]), run([True, True], model="b")).pairs)).power.within is None  # type: ignore[union-attr]


def test_only_runs_with_one_replicate_are_said_to_have_one() -> None:
    def alike(model: str, replicates: int) -> list[object]:
        places = [(number, at) for number in range(6) for at in range(1, replicates + 1)]
        return [result(f"q{number}", number % 2 == 0, replicate=at, model=model) for number, at in places]

    said = [" ".join(str(compare(alike("a", count), alike("b", count))).split()) for count in (1, 3)]

    assert ["with one replicate" in text for text in said] == [True, False]
    assert all("it is not known whether more replicates would help" in text for text in said)


def test_a_difference_larger_than_the_flips_needs_six_of_them() -> None:
    power = verdicts(only(compare(run([True] * 30), run([True] * 29 + [False], model="b")).pairs)).power

    assert power is not None
    assert power.six_flips
    assert power.detectable > 1 / 30


def test_fewer_than_six_units_show_no_difference() -> None:
    """The smallest p of a sign-flip test over five units is 1/16."""
    five = " ".join(str(compare(run([True] * 5), run([False] * 5, model="b"))).split())
    six = " ".join(str(compare(run([True] * 6), run([False] * 6, model="b"))).split())

    assert "Detectable no difference, because p cannot be below 0.05 with fewer than 6 questions;" in five
    assert "points (80% power)" not in five
    assert "points (80% power)" in six


def test_intervals_of_groups_are_those_of_units() -> None:
    a = [result(f"q{at}", at % 3 != 0, keywords=["few" if at < 30 else "more"], text=f"{at % 3}") for at in range(30)]
    a += [result(f"q{at}", at % 4 != 0, keywords=["more"], text=f"{at % 6} more") for at in range(30, 60)]
    b = [result(item.question_id, True, keywords=item.metadata.keywords or (), text=item.metadata.question_text,
                model="b") for item in a]  # fmt: skip

    compared = compare(a, b, by="keyword")

    assert {
        group.value: (group.questions, group.units, group.low is None) for group in only(compared.pairs).groups
    } == {
        "few": (30, 3, True),
        "more": (30, 6, False),
    }
    assert " rough [" in str(compared).partition("more  ")[2].splitlines()[0]


def test_runs_with_other_shares_of_undecided_items_are_warned_about() -> None:
    undecided = Outcome.UNDECIDED
    comparison = compare(run([True] * 7 + [False, undecided, undecided]), run([undecided, *[True] * 9], model="b"))
    pair = only(comparison.pairs)

    assert [note for note in pair.notes if note.startswith("warning: 2 of 10 results of A (20.0%) and 1 of 10")]
    assert [(change.question_id, change.undecided) for change in pair.changes if change.undecided] == [
        ("q0", 1),
        ("q8", -1),
        ("q9", -1),
    ]
    text = " ".join(str(comparison).split())
    assert "if undecided are wrong 70.0% 90.0% Undecided 2 1" in text
    assert (
        "2 questions more often in A, 1 in B; pass rates over all judged and undecided results, counting the latter as "
        "wrong: A 70.0%, B 90.0%" in text
    )
    assert "To and from undecided (3 of 3 questions)" in text
    assert "correct -> undecided" in text


def test_runs_with_other_shares_of_faulty_users_are_warned_about() -> None:
    honest, cheat = run([True, False]), run([True, Outcome.STAGE_ERROR], model="b")
    cheat[1].extensions["karenina-conversation"] = {"user_fault": "role"}
    pair = only(compare(honest, cheat).pairs)

    assert [note for note in pair.notes if "1 of 2 results of B (50.0%) have a simulated user at fault" in note]
    assert not [note for note in only(compare(honest, run([True, True], model="b")).pairs).notes if "at fault" in note]


def test_questions_that_stay_undecided_are_said_to_be_as_many() -> None:
    comparison = compare(run([True, Outcome.UNDECIDED]), run([False, Outcome.UNDECIDED], model="b"))

    text = " ".join(str(comparison).split())
    assert (
        "every compared question as often in A as in B; pass rates over all judged and undecided results, counting the "
        "latter as wrong" in text
    )
    assert "0 questions more often" not in text


def test_without_undecided_items_a_comparison_does_not_mention_them() -> None:
    comparison = compare(run([True, False, None]), run([True, True, True], model="b"))

    dumped = comparison.model_dump_json(exclude={"pairs": {"__all__": {"more_undecided"}}})
    assert "undecided" not in f"{comparison}{dumped}".casefold()


def test_small_differences_and_p_values_are_not_shown_as_none() -> None:
    assert [points(one) for one in (0.0, -0.0, 1e-5, -1e-5, 0.1)] == ["+0.00", "+0.00", "+0.001", "-0.001", "+10.00"]
    assert [p_value(one) for one in (1.0, 0.9996, 0.0496, 0.5, 0.00001)] == [
        *("1.000", "> 0.999", "0.0496", "0.500", "< 0.0001")
    ]
