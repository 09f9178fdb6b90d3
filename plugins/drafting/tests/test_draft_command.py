"""`karenina draft`: what it writes, what it asks again, what it leaves to the person, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina
from full_disk import no_file_above
from scripted_drafts import GENE, YEAR, draft, drafting_model

from karenina_benchmark import Benchmark
from karenina_core.errors import ConfigError
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plugins import Plugins
from karenina_drafting.drafts import write_drafts
from karenina_testing import ScriptedModels

TABLE = "id,question,answer\ngene,Which gene is the target?,BCL2\nyear,In which year was it approved?,2016\n"
DRAFTS = {"gene": {"fields": [GENE]}, "year": {"fields": [YEAR]}}


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a table with two questions, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))
    table = tmp_path / "q.csv"
    table.write_text(TABLE, "utf-8")
    return table


def good_model() -> ScriptedModels:
    return drafting_model(lambda question, _try: DRAFTS[question])


def test_drafts_are_written_for_review(file: Path) -> None:
    done = draft(good_model(), file)

    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "Drafts   2 of 2 passed their checks, 2 on the first try"
    text = Path("q.draft.yaml").read_text("utf-8")
    assert text.startswith("# Drafted by scripted:m with `karenina draft`; 2 of 2 questions.\n# Review every field")
    assert (
        "  # drafted in 1 try: it builds, its truth passes, changed truths fail, no name or description shows a truth, "
        "the answer to year fails\n  - id: gene\n"
    ) in text


def test_synonyms_that_are_not_in_the_answer_are_marked(file: Path) -> None:
    file.write_text(TABLE.replace("BCL2", '"BCL2 (BCL-2)"'), "utf-8")
    gene = GENE | {"synonyms": ["BCL-2", "TP53"]}
    done = draft(drafting_model(lambda question, _try: {**DRAFTS, "gene": {"fields": [gene]}}[question]), file)

    assert "Marked   1 synonym that the answers do not contain" in done.out
    text = Path("q.draft.yaml").read_text("utf-8")
    assert "tp53: bcl2  # not in the answer: is it exactly the same thing?\n" in text
    assert text.count("# not in the answer") == 1
    assert Benchmark.check_file("q.draft.yaml").questions == 2


def test_characters_that_change_the_order_of_a_text_are_seen(file: Path) -> None:
    gene = GENE | {
        "description": "The gene \u202eeman\u202c that the response names",
        "synonyms": ["\u2067bcl two\u2069"],
    }
    done = draft(drafting_model(lambda question, _try: {**DRAFTS, "gene": {"fields": [gene]}}[question]), file)

    assert done.code == 0, done.err
    text = Path("q.draft.yaml").read_text("utf-8")
    assert r"The gene \u202Eeman\u202C that" in text
    assert [ch for ch in text if not ch.isprintable() and ch != "\n"] == []


def test_the_written_file_passes_the_check_and_verifies(file: Path) -> None:
    draft(good_model(), file)

    report = Benchmark.check_file("q.draft.yaml")
    assert (report.questions, report.findings) == (2, ())
    loaded = Benchmark.load("q.draft.yaml")
    assert [question.raw_answer for question in loaded] == ["BCL2", "2016"]
    assert run_karenina("check", "q.draft.yaml", "--strict", plugins=Plugins.discover()).code == 0


def test_a_failing_draft_is_asked_again_with_the_reasons(file: Path) -> None:
    leaking = {"fields": [GENE | {"description": "The gene, such as BCL2"}]}
    models = drafting_model(lambda question, number: leaking if (question, number) == ("gene", 1) else DRAFTS[question])
    done = draft(models, file)

    assert "2 of 2 passed their checks, 1 on the first try" in done.out
    again = next(request for request in models.requests if len(request.messages) > 2)
    assert (
        "does not pass its checks:\n- the description of field 'gene' contains the ground truth, 'BCL2'"
        in again.messages[-1].content
    )
    assert "drafted in 2 tries" in Path("q.draft.yaml").read_text("utf-8")


def test_a_draft_that_never_passes_is_left_to_the_person(file: Path) -> None:
    wrong = {"fields": [YEAR | {"ground_truth": ["2015"]}]}
    models = drafting_model(lambda question, _try: wrong if question == "year" else DRAFTS[question])
    done = draft(models, file, "--tries", "2")

    assert done.code == 0
    assert len([request for request in models.requests if request.info.question_id == "year"]) == 2
    assert "1 question without a draft:\n         year: the truth 2015 of 'year' is not in the answer" in done.out
    text = Path("q.draft.yaml").read_text("utf-8")
    assert "  # not drafted in 2 tries: the truth 2015 of 'year' is not in the answer '2016'" in text
    assert not Benchmark.load("q.draft.yaml").get("year").has_template


def test_a_model_that_fails_for_all_exits_with_4(file: Path) -> None:
    done = draft(ScriptedModels(fill=lambda *_: "I cannot."), file, "--json")

    assert done.code == 4
    assert [(entry["id"], entry["failed"]) for entry in done.json["drafts"]] == [("gene", True), ("year", True)]
    assert Path("q.draft.yaml").read_text("utf-8").count("# not drafted: the model failed:") == 2


def test_no_part_of_the_drafts_is_left_on_a_full_disk(file: Path) -> None:
    with no_file_above(100), pytest.raises(ConfigError, match=r"cannot be written to .*: File too large"):
        write_drafts(Path("q.draft.yaml"), "Genes", [], "scripted:m")

    assert not Path("q.draft.yaml").exists()
    assert [*file.parent.iterdir()] == [file]


def test_an_existing_output_is_never_overwritten(file: Path) -> None:
    Path("q.draft.yaml").write_text("mine", "utf-8")
    models = good_model()
    done = draft(models, file)

    assert done.code == 2
    assert "q.draft.yaml already exists and was not overwritten" in done.err
    assert (models.requests, Path("q.draft.yaml").read_text("utf-8")) == ([], "mine")


def test_a_second_run_repeats_no_call(file: Path) -> None:
    draft(good_model(), file)
    Path("q.draft.yaml").unlink()
    models = good_model()
    done = draft(models, file)

    assert models.requests == []
    assert "2 of 2 passed their checks" in done.out


def test_a_budget_stops_drafts_and_the_same_command_continues(file: Path) -> None:
    prices = 'prices={"m":{"input":100,"output":0},"recorded":{"input":0,"output":0}}'
    models = good_model()
    settings = ("--set", prices, "--set", "max_concurrency=1")
    stopped = draft(models, file, *settings, "--set", "budget=3")
    assert stopped.code == 3, stopped.err
    assert "run the same command with a larger --set budget=USD" in stopped.err
    assert "karenina resume" not in stopped.err, "which continues runs of benchmark files only"
    assert not Path("q.draft.yaml").exists()
    calls = len(models.requests)

    done = draft(models, file, *settings)

    assert done.code == 0, done.err
    assert (calls, len(models.requests)) == (1, 2)


def test_questions_with_templates_and_without_answers(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "karenina: 1\nname: Own\nquestions:\n"
        "  - {id: done, question: Which one, answer: {gene: {description: The named gene, ground_truth: BAX}}}\n"
        "  - {id: gene, question: Which gene, raw_answer: BCL2}\n"
        "  - {id: open, question: And now}\n",
        "utf-8",
    )
    done = draft(good_model(), file)

    assert done.code == 0, done.err
    assert "Skipped 1 question with a template." in done.err
    assert "1 of 2 passed" in done.out
    text = Path("own.draft.yaml").read_text("utf-8")
    assert "no other question has a different answer" in text
    assert "  # not drafted: the question has no answer\n  - id: open\n" in text


def test_a_limit_that_selects_no_answer_is_named(file: Path) -> None:
    file.write_text(TABLE.replace("BCL2", ""), "utf-8")
    done = draft(good_model(), file, "--limit", "1")

    assert done.code == 2
    assert "--limit 1 selects no question with an answer; raise the limit, or add" in done.err


def test_settings_without_effect_are_named(file: Path) -> None:
    done = draft(good_model(), file, "--set", "abstention_enabled=true")

    assert "These settings have no effect on drafts: abstention_enabled." in done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--question", "gone"], "the file has no question 'gone'"),
        (["--columns", "answer=missing"], "missing"),
        (["--tries", "0"], "greater than or equal to 1"),
    ],
)
def test_bad_input_is_refused_before_a_call(arguments: list[str], problem: str, file: Path) -> None:
    models = good_model()
    done = draft(models, file, *arguments)

    assert done.code == 2
    assert problem in done.err
    assert models.requests == []


def test_a_model_must_be_named(file: Path) -> None:
    done = run_karenina("draft", file, plugins=Plugins.discover())

    assert done.code == 2
    assert "no model was given; specify one with --model" in done.err


def test_ordinary_runs_do_not_draft(file: Path) -> None:
    plugins = Plugins.discover()
    plugins.register(ScriptedModels())

    done = run_karenina("plan", "--set", "evaluation_mode=template_only", plugins=plugins)

    assert "DraftTemplate" in done.out
    assert "draft_templates is false" in done.out


PROSE = (
    "id,question,answer\n"
    "gene,What is venetoclax?,Venetoclax blocks BCL2 and was approved in 2016.\n"
    "other,What is imatinib?,Imatinib blocks ABL1 and was approved in 2001.\n"
)


def prose_model(read: Callable[[str], Mapping[str, Any]]) -> ScriptedModels:
    """Return a model that drafts a gene and a year, and reads answers as `read` says."""
    names = {"venetoclax": ("BCL2", "2016"), "imatinib": ("ABL1", "2001")}

    def fill(messages: Sequence[Message], schema: Mapping[str, Any], _info: CallInfo) -> Mapping[str, Any]:
        text = messages[1].content
        if "fields" not in schema["properties"]:
            return read(text)
        gene, year = names["venetoclax" if "What is venetoclax?" in text else "imatinib"]
        plain = {name: value for name, value in GENE.items() if name != "synonyms"}
        return {"fields": [plain | {"ground_truth": [gene]}, YEAR | {"ground_truth": [year]}]}

    return ScriptedModels(fill=fill)


def test_drafts_from_prose_are_filled_from_their_own_answer(file: Path) -> None:
    file.write_text(PROSE, "utf-8")

    def read(text: str) -> Mapping[str, Any]:
        return {"gene": "BCL2", "year": 2016} if "Venetoclax blocks" in text else {"gene": "ABL1", "year": 2001}

    models = prose_model(read)
    done = draft(models, file, "--from-response")

    assert done.code == 0, done.err
    assert "2 of 2 passed their checks" in done.out
    assert len(models.requests) == 6
    assert "what the model reads from the answer passes" in Path("q.draft.yaml").read_text("utf-8")
    readings = [
        request for request in models.requests if request.schema is not None and "gene" in request.schema["properties"]
    ]
    assert all(
        "ground_truth" not in reading.text and "does not know the right answer" not in reading.text
        for reading in readings
    )


def test_drafts_that_a_judge_misreads_are_left_to_the_person(file: Path) -> None:
    file.write_text(PROSE, "utf-8")
    done = draft(prose_model(lambda _text: {"gene": "BCL2", "year": 2016}), file, "--from-response", "--tries", "1")

    assert "gene: a judge that reads the answer to another question extracts values that pass" in done.out
    assert "other: a judge that reads the answer extracts 'gene' as 'BCL2', 'year' as 2016, which fails" in done.out


def test_rows_of_other_files_are_drafted_like_a_table() -> None:
    rows = '{"prompt": "Which gene is the target?", "expected": "BCL2", "id": "gene"}\n'
    Path("q.jsonl").write_text(rows, "utf-8")

    done = draft(good_model(), Path("q.jsonl"))

    assert done.code == 0, done.err
    assert "question is 'prompt', answer is 'expected', id is 'id'" in done.err
    assert "  - id: gene\n" in Path("q.draft.yaml").read_text("utf-8")
