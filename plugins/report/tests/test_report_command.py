"""`karenina compare`: files, journals, exit codes and output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_runs import CommandResult, run_karenina
from result_builders import result, run, save

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import VerificationResultRubric
from karenina_core.plugins import Plugins
from karenina_report.commands import commands


def compare(*arguments: str | Path, width: int = 400) -> CommandResult:
    """Run `karenina compare` with these arguments."""
    plugins = Plugins()
    plugins.register(commands)
    return run_karenina("compare", *arguments, plugins=plugins, width=width)


@pytest.fixture
def better(tmp_path: Path) -> Path:
    return save(tmp_path / "better.results.jsonl", run([True] * 30, model="new"))


@pytest.fixture
def worse(tmp_path: Path) -> Path:
    return save(tmp_path / "worse.results.jsonl", run([False] * 15 + [True] * 15, model="old"))


def test_two_files_are_compared(better: Path, worse: Path) -> None:
    done = compare(better, worse)

    assert done.code == 0, done.err
    assert "A 100.0%, B 50.0% on 30 questions" in done.out
    assert "+50.00 points, 95% CI [" in done.out
    assert "p < 0.0001" in done.out or "p = 0.0001" in done.out
    assert "15 questions: 15 better in A, 0 in B" in done.out
    assert "changed: answer, verdict" in done.out


def test_json_has_all_flips(better: Path, worse: Path) -> None:
    comparison = compare(better, worse, "--json", "--changes", "1").json

    (pair,) = comparison["pairs"]
    assert len(pair["changes"]) == 15
    assert pair["differences"][0]["difference"] == 0.5
    assert comparison["runs"][0]["input_tokens"] == 300
    assert comparison["failures"] == []


def test_a_regression_ends_with_1(better: Path, worse: Path) -> None:
    assert compare(better, worse, "--fail-on-regression").code == 1
    assert compare(better, worse, "--fail-on-regression", "60").code == 0
    assert compare(worse, better, "--fail-on-regression").code == 0
    assert compare("--fail-on-regression", worse, better).code == 0
    failed = compare(better, worse, "--fail-on-regression", "10", "--json")
    assert failed.code == 1
    assert failed.json["failures"] == [failed.err.removeprefix("Error: ").strip()]


def test_a_condition_names_the_questions_that_it_does_not_check(better: Path, tmp_path: Path) -> None:
    few = [*run([True] * 9, model="new"), result("more", True, model="new"), result("q9", None, model="new")]
    done = compare(better, save(tmp_path / "few.results.jsonl", few), "--fail-on-regression")

    assert done.code == 0
    assert "A (better) and B (few) were compared on 9 questions; 22 were not checked: " in done.err
    assert "20 only in A (better), 1 only in B (few), 1 without a verdict in both." in done.err
    assert "not checked" not in compare(better, better, "--fail-on-regression").err


def test_a_run_not_shown_as_good_exits_with_1(better: Path, tmp_path: Path) -> None:
    equal = save(tmp_path / "equal.results.jsonl", run([True] * 29 + [False], model="equal"))

    assert compare(better, equal, "--require-within", "1").code == 1
    assert compare(better, equal, "--require-within", "20").code == 0


@pytest.fixture
def all_right(tmp_path: Path) -> Path:
    return save(tmp_path / "right.results.jsonl", run([True] * 20, model="right"))


@pytest.fixture
def half(tmp_path: Path) -> Path:
    return save(tmp_path / "half.results.jsonl", run([True] * 10 + [Outcome.UNDECIDED] * 10, model="half"))


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (("--fail-on-regression", "1"), "is below -1 points, a regression: 95% CI [-"),
        (("--require-within", "20"), "is not shown to be above -20 points: 95% CI [-"),
    ],
)
def test_conditions_also_hold_if_the_undecided_are_wrong(
    all_right: Path, half: Path, tmp_path: Path, condition: tuple[str, str], says: str
) -> None:
    done = compare(all_right, half, *condition)

    assert done.code == 1
    assert f", with undecided results counted as wrong in B and as right in A, {says}" in done.err
    assert "right in A, wrong in B: +50.00 points, 95% CI [" in done.out
    assert compare(half, all_right, "--baseline", "B", *condition).code == 1
    assert compare(half, all_right, *condition).code == 0
    wrong = save(tmp_path / "wrong.results.jsonl", run([True] * 10 + [False] * 10, model="wrong"))
    assert compare(half, wrong, *condition).code == 1


def test_differences_stay_within_100_points_and_p_is_an_inequality(tmp_path: Path) -> None:
    right = save(tmp_path / "right.results.jsonl", run([True] * 30, model="a"))
    wrong = save(tmp_path / "wrong.results.jsonl", run([False] * 30, model="b"))
    done = compare(right, wrong)

    assert "+100.00 points, 95% CI [+" in done.out
    assert ", +100.00]" in done.out
    assert "p < 0.0001 (sign flip" in done.out
    assert "= <" not in done.out


def test_the_numbers_of_classes_have_no_mean(tmp_path: Path) -> None:
    def toned(name: str, labels: list[str]) -> Path:
        results = run([True] * len(labels), model=name)
        for item, label in zip(results, labels, strict=True):
            score = {"harsh": 0, "plain": 1, "kind": 2}[label]
            item.rubric = VerificationResultRubric(llm_trait_scores={"tone": score}, llm_trait_labels={"tone": label})
        return save(tmp_path / f"{name}.results.jsonl", results)

    done = compare(toned("a", ["harsh", "kind"]), toned("b", ["plain", "kind"]))

    assert "tone is harsh" in done.out
    assert "tone (mean)" not in done.out


def test_each_model_is_held_against_itself(tmp_path: Path) -> None:
    def both(name: str, one: int, other: int, *more: str) -> Path:
        rights = {"m": one, "n": other, **dict.fromkeys(more, 30)}
        return save(
            tmp_path / f"{name}.results.jsonl",
            [
                item
                for model, right in rights.items()
                for item in run([True] * right + [False] * (30 - right), model=model)
            ],
        )

    old = both("old", 30, 5)

    assert compare(old, both("same", 30, 5), "--fail-on-regression").code == 0
    worse = compare(old, both("worse", 30, 0, "new"), "--fail-on-regression", "1")
    assert compare(old, both("better", 29, 15), "--require-within", "20").code == 0
    assert "E (new (worse)) was not checked" in worse.err
    broken = compare(old, both("broken", 5, 30), "--fail-on-regression")
    assert broken.code == 1
    assert "C (m (broken)) minus A (m (old)) is below" in broken.err
    assert "D (" not in broken.err


def test_a_new_model_beside_the_old_one_is_no_regression(tmp_path: Path) -> None:
    old = save(tmp_path / "old.results.jsonl", run([True] * 30, model="m"))
    both = [*run([True] * 30, model="m"), *run([False] * 30, model="n")]
    done = compare(old, save(tmp_path / "new.results.jsonl", both), "--fail-on-regression")

    assert done.code == 0
    assert "C (n (new)) was not checked" in done.err
    broken = [*run([False] * 30, model="m"), *run([True] * 30, model="n")]
    done = compare(old, save(tmp_path / "broken.results.jsonl", broken), "--fail-on-regression")
    assert done.code == 1
    assert "minus A (m (old)) is below 0 points, a regression" in done.err
    others = [*run([False] * 30, model="k"), *run([True] * 30, model="n")]
    done = compare(old, save(tmp_path / "others.results.jsonl", others), "--fail-on-regression")
    assert done.code == 1  # neither is the old model: both are held against it


def test_the_other_one_of_a_rescored_run_has_to_be_rescored(tmp_path: Path) -> None:
    old = save(tmp_path / "old.results.jsonl", run([True] * 3))
    new = save(tmp_path / "new.results.jsonl", [result("q0", False, template="another"), *run([True] * 3)[1:]])
    line = '{"run":{"distributions":{},"rescored":true}}\n'
    new.write_text(line + new.read_text("utf-8"), "utf-8")

    assert "left out (not comparable without `karenina rescore` of A too): q0" in compare(old, new).out
    assert "left out (not comparable without `karenina rescore` of B too): q0" in compare(new, old).out


def test_each_judge_must_meet_the_condition(tmp_path: Path) -> None:
    def judged(name: str, right: int) -> Path:
        strict = [True] * right + [False] * (20 - right)
        return save(
            tmp_path / f"{name}.results.jsonl",
            [*run([True] * 20, model=name, judge="mild"), *run(strict, model=name, judge="strict")],
        )

    done = compare(judged("a", 20), judged("b", 2), "--require-within", "60")

    assert done.code == 1
    assert "judged by manual:strict, is not shown to be above" in done.err
    assert "judged by manual:mild, is not" not in done.err


def test_a_run_without_a_verdict_cannot_pass(all_right: Path, tmp_path: Path) -> None:
    none = save(tmp_path / "none.results.jsonl", run([Outcome.UNDECIDED] * 20, model="none"))

    assert compare(all_right, none, "--fail-on-regression").code == 1
    assert compare(all_right, none, "--require-within", "20").code == 1


def test_the_same_undecided_values_are_no_regression(tmp_path: Path) -> None:
    def undecided(model: str, days: list[str]) -> Path:
        results = [
            result(f"q{n}", Outcome.UNDECIDED, model=model, extracted={"day": day}) for n, day in enumerate(days)
        ]
        for item in results:
            item.template.field_results = {"day": None}
        right = [result(f"r{n}", True, model=model) for n in range(20)]
        return save(tmp_path / f"{model}.results.jsonl", [*results, *right])

    old = undecided("old", ["01/02/2024"] * 20)

    assert compare(old, undecided("new", ["01/02/2024"] * 20), "--fail-on-regression").code == 0
    assert compare(old, undecided("new", ["01/02/2024"] * 20), "--require-within", "20").code == 0
    assert compare(old, undecided("other", ["2/1/2024"] * 20), "--fail-on-regression").code == 1


def test_a_file_with_several_runs_is_no_baseline(better: Path, tmp_path: Path) -> None:
    both = save(tmp_path / "both.jsonl", [*run([True], model="x"), *run([True], model="y")])
    done = compare(both, better, "--baseline", both)
    assert done.code == 2
    assert f"{both} contains several runs; the baseline must be one of A, B, C, " in done.err


def test_with_a_baseline_the_others_are_held_to_it(better: Path, worse: Path) -> None:
    assert compare(worse, better, "--baseline", "B", "--fail-on-regression").code == 1
    assert compare(worse, better, "--baseline", worse, "--fail-on-regression").code == 0


def test_bad_input_ends_with_2_and_a_cure(better: Path, worse: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n", "utf-8")

    for arguments, message in (
        ([better], "contains only one answering model"),
        ([better, tmp_path / "missing.jsonl"], "missing.jsonl cannot be read"),
        ([better, broken], "line 1 is not a result"),
        ([better, better], "was given more than once"),
        ([better, worse, tmp_path / "x" / ".." / better.name], "is the same file as"),
        ([better, worse, "--cut", "clarity"], "is not of the form TRAIT=SCORE"),
        ([better, worse, "--cut", "clarity=3"], "no result has a score for the trait 'clarity'"),
        ([better, worse, "--scale", "clarity=5:1"], "is not of the form TRAIT=LOW:HIGH"),
        ([better, worse, "--cut", "a=1", "--cut", "a=2"], "--cut a was given more than once"),
        ([better, worse, "--scale", "a=1:2", "--scale", "a=1:5"], "--scale a was given more than once"),
        ([better, worse, "--by", "colour"], "there is no column 'colour'"),
    ):
        done = compare(*arguments)
        assert (done.code, done.out) == (2, ""), done.out
        assert message in done.err


def test_it_says_how_often_equal_runs_fail() -> None:
    help = " ".join(compare("--help").out.split())

    assert "Of 40 equally good runs, about one fails" in help
    assert "Exit codes:" in help


@pytest.mark.parametrize("width", [60, 80])
def test_it_fits_narrow_terminals_without_cutting_a_number(tmp_path: Path, width: int) -> None:
    files = [
        save(
            tmp_path / f"{name}.results.jsonl",
            [
                result(f"q{at}", at % 3 > place, model=name, traits={"clarity": at % 5}, keywords=[f"k{at % 3}"])
                for at in range(40)
            ],
        )
        for place, name in enumerate(("first", "second", "third"))
    ]

    done = compare(*files, "--by", "keyword", width=width)

    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= width
    assert [line for line in done.out.splitlines() if line != line.rstrip()] == []


def test_texts_of_results_cannot_steer_the_terminal(tmp_path: Path) -> None:
    hostile = "\x1b[2J\u202eevil\r\n\x07"
    files = [
        save(tmp_path / f"{name}.jsonl", [result(hostile, right, text=hostile, model=hostile + name, judge=hostile)])
        for name, right in (("a", True), ("b", False))
    ]

    out = compare(*files).out

    assert "evil" in out
    assert [ch for ch in out if not ch.isprintable() and ch != "\n"] == []


def test_help_and_import_load_neither_numpy_nor_results() -> None:
    program = (
        "import sys, karenina_report, karenina_report.compare_command\n"
        "print([name for name in ('numpy', 'pydantic', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_listed_flips_are_chosen_by_direction_and_keyword(tmp_path: Path) -> None:
    a = save(tmp_path / "a.jsonl", [result("q0", True, keywords=["x"]), result("q1", False, keywords=["y"])])
    b = save(tmp_path / "b.jsonl", [result("q0", False, keywords=["x"]), result("q1", True, keywords=["y"])])

    worse = compare(a, b, "--flips", "worse").out
    y = compare(a, b, "--keyword", "y", "--json").json
    unknown = compare(a, b, "--keyword", "units")

    assert "correct -> wrong" in worse
    assert "wrong -> correct" not in worse
    assert [change["question_id"] for change in y["pairs"][0]["changes"]] == ["q1"]
    assert y["pairs"][0]["changes"][0]["higher_in"] == "b"
    assert (unknown.code, "has the keyword 'units'; available: x, y" in unknown.err) == (2, True)
