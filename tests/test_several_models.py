"""Runs with several models under test: each has numbers of its own, which are never pooled."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from command_runs import CommandResult, run_karenina

from karenina_core import plugins as plugin_room


def karenina(*arguments: str | Path) -> CommandResult:
    return run_karenina(*arguments, plugins=plugin_room.active_plugins())


@pytest.fixture(autouse=True)
def _own_settings(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"KARENINA_{name}_HOME", str(own_folder / name.lower()))


@pytest.fixture
def two_models() -> tuple[str, ...]:
    """The arguments of a run in which `good` answers ten questions right, and `poor` five of them."""
    answer = "{gene: {description: G, ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}}"
    questions = "".join(f"  - {{id: q{n}, question: 'Q {n}?', answer: {answer}}}\n" for n in range(10))
    Path("genes.yaml").write_text(f"karenina: 1\nname: Genes\nquestions:\n{questions}", "utf-8")
    for name, right in (("good", 10), ("poor", 5)):
        lines = [{"id": f"q{n}", "response": "BCL2" if n < right else "TP53"} for n in range(10)]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    models = [
        {"id": name, "interface": "manual", "model_name": name, "manual_traces": f"{name}.jsonl"}
        for name in ("good", "poor")
    ]
    Path("models.json").write_text(json.dumps({"answering_models": models}), "utf-8")
    return "genes.yaml", "-c", "models.json", "--no-journal"


@pytest.mark.usefixtures("two_models")
def test_each_file_of_recordings_is_one_model() -> None:
    done = karenina(
        "run", "genes.yaml", "--recordings", "good.jsonl", "--recordings", "poor.jsonl", "--quiet", "--json"
    )

    groups = json.loads(done.out)["summary"]["groups"]
    assert {one["answering"]: one["pass_rate"]["value"] for one in groups} == {"good": 1.0, "poor": 0.5}


@pytest.mark.usefixtures("two_models")
def test_recordings_added_to_a_run_leave_the_name_of_the_first() -> None:
    main = ("run", "genes.yaml", "--recordings", "good.jsonl", "--quiet", "-o", "main.results.jsonl")
    assert karenina(*main, "--fail-under", "good=0.7").code == 0
    karenina(*main[:4], "--recordings", "poor.jsonl", "--quiet", "-o", "new.results.jsonl")
    done = karenina("compare", "main.results.jsonl", "new.results.jsonl", "--fail-on-regression")

    assert done.code == 0, done.err
    assert "C (poor (new)) was not checked because main.results.jsonl has no results from this model." in done.err
    assert "B (" not in done.err


def rename(results: str, old: str, new: str) -> None:
    """Change the name of a model in a file of results."""
    Path(results).write_text(Path(results).read_text("utf-8").replace(f'"{old}"', f'"{new}"'), "utf-8")


@pytest.mark.usefixtures("two_models")
def test_results_with_the_name_recorded_are_to_be_written_again() -> None:
    run = ("run", "genes.yaml", "--recordings", "good.jsonl", "--quiet", "--no-journal")
    karenina(*run, "-o", "old.results.jsonl")
    rename("old.results.jsonl", "good", "recorded")
    karenina(*run, "--recordings", "poor.jsonl", "-o", "new.results.jsonl")
    cure = "contains recordings under the name 'recorded', but recordings are now named after their file, so write"

    done = karenina("compare", "old.results.jsonl", "new.results.jsonl", "--fail-on-regression", "100")
    assert done.code == 0
    assert "The run compared with B (good), C (poor) is A (recorded), a different model" in done.err
    assert cure in done.err
    done = karenina("compare", "new.results.jsonl", "old.results.jsonl", "--fail-on-regression")
    assert done.code == 2
    assert "no answering model is in both files" in done.err
    assert "new.results.jsonl has good, poor; old.results.jsonl has recorded" in done.err
    assert cure in done.err


@pytest.mark.usefixtures("two_models")
def test_models_without_a_judge_are_compared() -> None:
    for name in ("good", "poor"):
        karenina("run", "genes.yaml", "--recordings", f"{name}.jsonl", "--no-journal", "-o", f"{name}.results.jsonl")
    done = karenina("compare", "good.results.jsonl", "poor.results.jsonl")

    assert (done.code, "Difference  +50.00 points" in done.out) == (0, True)


@pytest.mark.usefixtures("two_models")
def test_a_copy_without_its_journal_knows_that_its_models_are_free() -> None:
    for name in ("good", "poor"):
        karenina("run", "genes.yaml", "--recordings", f"{name}.jsonl", "--no-journal", "-o", f"{name}.results.jsonl")
    compared = karenina("compare", "good.results.jsonl", "poor.results.jsonl", "--json")
    assert [(run["cost_usd"], run["cost_is_whole"]) for run in json.loads(compared.out)["runs"]] == [(0.0, True)] * 2

    price = ("--set", "prices={poor={input=1,output=1}}", "--no-journal")
    karenina("run", "genes.yaml", "--recordings", "poor.jsonl", *price, "-o", "priced.results.jsonl")
    compared = karenina("compare", "good.results.jsonl", "priced.results.jsonl", "--json")
    assert [run["cost_usd"] for run in json.loads(compared.out)["runs"]] == [0.0, None]


@pytest.mark.usefixtures("two_models")
def test_a_dry_run_refuses_recordings_that_the_run_refuses() -> None:
    models = {name: Path(f"{name}.jsonl").read_text("utf-8").splitlines() for name in ("good", "poor")}
    lines = [{**json.loads(line), "model": name} for name, texts in models.items() for line in texts]
    Path("both.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    ended = [karenina("run", "genes.yaml", "--recordings", "both.jsonl", *more) for more in ([], ["--dry-run"])]

    assert [one.code for one in ended] == [2, 2]
    assert ended[0].err == ended[1].err
    options = shlex.split(ended[0].err.partition("with its own option: ")[2])
    assert options[::2] == ["--answering", "--answering"]
    done = karenina("run", "genes.yaml", *options, "--json", "--quiet")
    assert {one["answering"] for one in json.loads(done.out)["summary"]["groups"]} == {"good", "poor"}

    Path("few.jsonl").write_text(models["good"][0], "utf-8")
    ended = [karenina("run", "genes.yaml", "--recordings", "few.jsonl", *more) for more in ([], ["--dry-run"])]
    assert [one.code for one in ended] == [2, 2]
    assert "9 of 10 questions have no recorded answer" in ended[1].err


@pytest.mark.usefixtures("two_models")
def test_a_replay_without_its_recordings_is_refused() -> None:
    command = ("run", "genes.yaml", "--recordings", "good.jsonl")
    assert karenina(*command).code == 0
    Path("good.jsonl").rename("moved.jsonl")
    done = karenina(*command, "--replay")

    assert done.code == 2
    assert "cannot read the recordings good.jsonl: No such file" in done.err


@pytest.mark.parametrize(
    ("limits", "unmet"),
    [
        (["0.6"], ["The pass rate of poor, 0.5, is below --fail-under 0.6."]),
        (["0.6", "poor=0.5"], []),
        (["0.5", "good=1", "poor judged by poor=0.9"], ["The pass rate of poor, 0.5, is below --fail-under 0.9."]),
        (["poor=0.4"], []),
    ],
)
def test_each_model_must_reach_the_pass_rate(two_models: tuple[str, ...], limits: list[str], unmet: list[str]) -> None:
    done = karenina("run", *two_models, *(f"--fail-under={limit}" for limit in limits))

    assert done.code == (1 if unmet else 0)
    assert [line for line in done.err.splitlines() if "--fail-under" in line] == unmet


def test_rates_of_several_models_are_never_pooled(two_models: tuple[str, ...]) -> None:
    summary = json.loads(karenina("run", *two_models, "--json").out)["summary"]
    printed = karenina("run", *two_models, "--quiet").out

    assert {group["name"]: group["pass_rate"]["value"] for group in summary["groups"]} == {"good": 1.0, "poor": 0.5}
    assert [summary[name] for name in ("pass_rate", "worst", "best", "mean_granular")] == [None] * 4
    assert (summary["items"], summary["outcomes"]) == (20, {"correct": 15, "wrong": 5})
    assert "75.0%" not in printed


def test_each_model_has_its_limit_of_unjudged_items(two_models: tuple[str, ...]) -> None:
    lines = Path("poor.jsonl").read_text("utf-8").splitlines()
    Path("poor.jsonl").write_text("\n".join(lines[:8]), "utf-8")
    allowed = ("run", *two_models, "--partial")

    failed = karenina(*allowed, "--max-unjudged=1", "--max-unjudged=good=0")
    assert failed.code == 1
    assert "2 items of poor were not judged, which is more than --max-unjudged 1." in failed.err
    assert karenina(*allowed, "--max-unjudged=0", "--max-unjudged=poor=2").code == 0


def test_a_model_without_a_judged_item_is_named(two_models: tuple[str, ...]) -> None:
    Path("poor.jsonl").write_text('{"id": "q0", "response": ""}', "utf-8")
    done = karenina("run", *two_models, "--partial", "--fail-under=0.5")

    assert done.code == 1
    assert "No item of poor was judged" in done.err
    assert "There is no pass rate of poor to compare with --fail-under" in done.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--fail-under=pore=0.5", "'pore'; did you mean 'poor'?"),
        ("--fail-under=poor judged by pore=0.5", "no such judge; did you mean 'poor judged by poor'?"),
        ("--fail-under=0.9, --fail-under=0.1", "two limits were given without a model"),
        ("--max-unjudged=poor=0, --max-unjudged=poor=9", "two limits were given for 'poor'"),
        ("--fail-under=poor=70", "a pass rate must be between 0 and 1, not 70; use 0.7 for 70%"),
        ("--fail-under=half", "'half' is not a valid pass rate"),
        ("--max-unjudged=poor=-1", "'-1' is not a valid number of items"),
    ],
)
def test_a_limit_that_cannot_hold_is_refused_first(two_models: tuple[str, ...], options: str, says: str) -> None:
    refused = karenina("run", *two_models, *options.split(", "))

    assert refused.code == 2
    assert says in " ".join(refused.err.split())
    assert not Path("genes.results.jsonl").exists()
