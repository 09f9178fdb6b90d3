"""A shell completes commands, options, values, files and the ids of questions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runs import make_result, write_results
from journal_runs import ScriptedRuns, make_benchmark

from karenina_benchmark.question_ids import MAX_BYTES, read_question_ids
from karenina_cli import main
from karenina_core.data.result import VerificationResult
from karenina_engine.journal.view import JournalView

BENCHMARK = """karenina: 1
name: Genes
config: {answering_models: [{id: small, interface: openai, model_name: small-1, endpoint_base_url: "http://h:1/v1"}]}
questions:
  - {question: "Which gene is it?", answer: {gene: {description: The gene, ground_truth: BCL2}}}
  - {id: year, question: "Which year?", answer: {year: {description: The year, ground_truth: 2016}}}
"""
IDS = ["q1-which-gene-is", "year"]

KARENINA = Path(sys.executable).with_name("karenina")

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Return a function for the completions of the last of its words, as bash requests them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["karenina"])
    (tmp_path / "genes.yaml").write_text(BENCHMARK, "utf-8")

    def run(*words: str) -> list[str]:
        monkeypatch.setenv("_KARENINA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["karenina", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        main()
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.splitlines()

    return run


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["resc"], ["rescore"]),
        (["journal", ""], ["repair"]),
        (["run", "--no-j"], ["--no-journal"]),
        (["export", "r.jsonl", "--format", "j"], ["jsonl", "json", "junit"]),
        (["export", "r.jsonl", "--table", "f"], ["fields"]),
        (["show", "r.jsonl", "--outcome", "part"], ["partial"]),
        (["run", "genes.yaml", "--executor", "a"], ["asyncio"]),
        (["run", "genes.yaml", "--set", "replicate_c"], ["replicate_count=", "replicate_count=1"]),
        (["run", "genes.yaml", "--set", "abstention_en", "=", ""], []),
        (["run", "genes.yaml", "--set", "abstention_enabled", "="], ["true", "false"]),
        (["run", "genes.yaml", "--set", "evaluation_mode", "=", "template_"], ["template_only", "template_and_rubric"]),
        (["run", "genes.yaml", "--set", "slots.embedding_check", "="], ["EmbeddingCheck"]),
        (["run", "genes.yaml", "-a", "claude_t"], ["claude_tool:"]),
        (["run", "genes.yaml", "-a", "openai", ":", "s"], ["small-1@http://h:1/v1"]),
        (["run", "genes.yaml", "-a", "openai", ":", "small-1", "@", "h"], ["http://h:1/v1"]),
        (["prompts", "genes.yaml", "--task", "pars"], ["parsing", "parsing_with_rejected"]),
        (["config", "parsing_m"], ["parsing_models"]),
        (["primitives", "NumericM"], ["NumericMinimum", "NumericMaximum"]),
        (["traits", "ll"], ["llm"]),
        (["model", "pull", "smol"], ["smollm2-135m"]),
        (["import", "log.eval", "--from", "op"], ["openai-evals", "openai-evals-registry"]),
        (["import", "log.eval", "--map", "re"], ["response=", "replicate="]),
        (["import", "log.eval", "--map", "answer", "=", "n"], ["number"]),
        (["import", "hf"], ["hf:"]),
        (["import", "log.eval", "--map-file", "g"], ["genes.yaml"]),
        (["new", "a"], ["adapter"]),
        (["demo", "--answering", "smol"], ["smollm2-135m"]),
        (["demo", "--judge", "qwen"], ["qwen2.5-coder-0.5b"]),
        (["plugins", "--check", "karenina-cal"], ["karenina-calibration"]),
        (["selftest", "--family", "lang"], ["languages"]),
        (["run", "genes.yaml", "-q", ""], IDS),
        (["plan", "genes.yaml", "-q", "y"], ["year"]),
        (["run", "absent.yaml", "-q", ""], []),
        (["run", "-q", ""], []),
        (["run", "genes.yaml", "-c", "absent.toml", "-j", "openai_"], ["openai_endpoint:"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_bash_completes(complete: Complete, words: list[str], found: list[str]) -> None:
    assert complete(*words) == found


def test_files_of_the_right_kind_and_folders_are_completed(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("notes.md", "run.toml", "data/more.csv", "genes.results.jsonl", "log.eval"):
        (tmp_path / name).touch()

    assert complete("run", "") == ["data/", "genes.results.jsonl", "genes.yaml"]
    assert complete("import", "") == ["data/", "genes.results.jsonl", "log.eval"]
    assert complete("label", "g") == complete("calibrate", "g") == complete("jury", "g") == ["genes.results.jsonl"]
    assert complete("draft", "genes.y") == complete("selftest", "genes.y") == ["genes.yaml"]
    assert complete("run", "da") == ["data/more.csv"]
    assert complete("run", "genes.yaml", "-c", "r") == ["run.toml"]


def test_ids_in_results_are_completed(complete: Complete, tmp_path: Path) -> None:
    rows = [{"run": {}}, *({"metadata": {"question_id": id}} for id in (*IDS, *IDS))]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n{"metadata": {"ques', "utf-8")

    assert complete("show", "r.jsonl", "-q", "") == IDS


def test_columns_and_models_of_results_are_completed(complete: Complete, tmp_path: Path) -> None:
    write_results(tmp_path / "r.jsonl", make_result(extensions={"karenina-mine": {"mood": "glad"}}))

    assert complete("compare", "r.jsonl", "r.jsonl", "--by", "k") == ["keyword"]
    assert complete("stats", "r.jsonl", "--by", "mo") == ["mood"]
    assert complete("calibrate", "r.jsonl", "--cluster", "mo") == ["mood"]
    assert complete("report", "r.jsonl", "--model", "") == complete("export", "r.jsonl", "--model", "") == ["m"]
    assert complete("compare", "r.jsonl", "--baseline", "r") == ["r.jsonl"]


def test_models_in_journals_are_completed(complete: Complete, tmp_path: Path) -> None:
    ScriptedRuns().run(make_benchmark("a"), journal=tmp_path / "r.journal")
    with JournalView(tmp_path / "r.journal") as opened:
        results = [VerificationResult.model_validate_json(line) for line in opened.results()]

    assert complete("stats", "r.journal", "--model", "") == sorted({result.metadata.answering_id for result in results})


def test_values_that_a_shell_would_execute_are_left_out(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "$(touch x).yaml").touch()
    strange = BENCHMARK.replace("id: year", "id: '\\$(touch x)'")
    (tmp_path / "strange.yaml").write_text(strange, "utf-8")

    assert complete("run", "") == ["genes.yaml", "strange.yaml"]
    assert complete("run", "strange.yaml", "-q", "") == IDS[:1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.jsonl", '{"karenina": 1}\n{"question": "Which gene is it?"}\n{"question": "Which year?", "id": "year"}\n'),
        ("b.csv", "Question,Id\nWhich gene is it?,\nWhich year?,year\n"),
        ("b.tsv", "question\tid\nWhich gene is it?\t\nWhich year?\tyear\n"),
        ("b.jsonld", json.dumps({"dataFeedElement": [{"@type": "DataFeedItem", "@id": id} for id in IDS]})),
    ],
)
def test_ids_of_every_format_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert read_question_ids(tmp_path / name) == IDS


@pytest.mark.parametrize("ending", ["yaml", "jsonl", "jsonld", "csv"])
def test_only_the_beginning_of_a_large_file_is_read(tmp_path: Path, ending: str) -> None:
    wide = "w" * (MAX_BYTES // 20)
    ids = [f"q{number}" for number in range(25)]
    items = [{"@type": "DataFeedItem", "@id": id, "item": wide} for id in ids]
    texts = {
        "yaml": "questions:\n" + "".join(f"  - id: {id}\n    question: {wide}\n" for id in ids),
        "jsonl": "".join(json.dumps({"id": id, "question": wide}) + "\n" for id in ids),
        "jsonld": json.dumps({"dataFeedElement": items}),
        "csv": "id,question\n" + "".join(f"{id},{wide}\n" for id in ids),
    }
    file = tmp_path / f"large.{ending}"
    file.write_text(texts[ending], "utf-8")

    found = read_question_ids(file)
    assert found == ids[: len(found)]
    assert 17 <= len(found) <= 20


def test_a_large_file_without_a_question_at_its_beginning_has_no_ids(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    file.write_text(f"karenina: 1\nname: {'w' * MAX_BYTES}\nquestions:\n  - id: a\n    question: Which?\n", "utf-8")

    assert read_question_ids(file) == []


def test_bash_itself_completes_with_the_printed_script(tmp_path: Path) -> None:
    (tmp_path / "genes.yaml").write_text(BENCHMARK, "utf-8")
    program = f"""
eval "$({KARENINA} --show-completion bash)"
COMP_WORDS=(karenina run genes.yaml -a openai : s); COMP_CWORD=6
_karenina_completion {KARENINA}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("small-1@http://h:1/v1\n", "")
