"""Notes about a run from its journal: items without a result, and replies of another model than the one requested."""

from __future__ import annotations

import base64
import gzip
import json
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment
from gene_questions import TWO_GENES
from journal_runs import ScriptedRuns, interrupted_at, make_benchmark
from servers import recording_server

from karenina_core.models.ports import Usage
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_set import VerificationResultSet
from karenina_report import describe
from karenina_report.journal_notes import is_other_model, unfinished_notes
from karenina_report.run_notes import NotedRun
from karenina_testing.server import Reply, Say
from karenina_testing.server.formats import completion_of


def test_results_of_a_stopped_run_say_so_until_it_is_continued(tmp_path: Path) -> None:
    benchmark, files = (
        make_benchmark("a", "b", "c"),
        {"output": tmp_path / "r.jsonl", "journal": tmp_path / "r.journal"},
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
    with pytest.raises(KeyboardInterrupt):
        interrupted_at(8).run(benchmark, **files, config={"max_concurrency": 1})
    signal.signal(signal.SIGINT, before)
    [note] = unfinished_notes([NotedRun("", None, files["output"])])
    results = len(VerificationResultSet.load(files["output"]))
    assert 0 < results < 6
    assert note.text == f"{6 - results} of 6 items have no result; the run was stopped or is running"
    assert note.text in [text for one in describe(files["output"]) for text in one.notes]

    ScriptedRuns().run(benchmark, **files, config={"max_concurrency": 1})
    assert unfinished_notes([NotedRun("", None, files["output"])]) == []


def served(names: Mapping[str, str]) -> Any:
    """Return a reply function that answers BCL2 and states the model in `names`, or by default the requested one."""

    def reply(body: Mapping[str, Any]) -> Reply:
        text = json.dumps({"gene": "BCL2"}) if "response_format" in body else "I think that it is BCL2."
        said = Say(text, usage=Usage(3, 2), model=names.get(body["model"], body["model"]))
        return Reply(completion_of(said))

    return reply


MANY = "karenina: 1\nname: Many\nquestions:\n" + "".join(
    f"  - id: q{number}\n    question: Which {number}?\n    answer: {{gene: {{description: A, ground_truth: BCL2}}}}\n"
    for number in range(8)
)


def names_of_its_own(body: Mapping[str, Any]) -> Reply:
    """Return a reply that states a model of its own for each question."""
    judged = "response_format" in body
    name = body["model"] if judged else f"{json.dumps(body)[:300]}{'x' * 500}"
    text = json.dumps({"gene": "BCL2"}) if judged else "I think that it is BCL2."
    return Reply(completion_of(Say(text, usage=Usage(3, 2), model=name)))


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("llama-3-8b", "2 replies of a came from the model 'llama-3-8b'; 'llama-3-70b' was requested"),
        ("Meta/llama-3-70b-2024-08-06", None),
    ],
)
def test_summary_and_statistics_name_another_model(site: Environment, name: str, note: str | None) -> None:
    file = site.write("genes.yaml", TWO_GENES)
    with recording_server(served({"llama-3-70b": name})) as server:
        model = {"id": "a", "interface": "openai", "model_name": "llama-3-70b", "endpoint_base_url": server.url}
        command = ("run", file, "-a", json.dumps(model), "-j", f"openai:j@{server.url}", "-o", "r.jsonl", "--quiet")
        done, again = site.karenina(*command), site.karenina(*command)

    site.karenina("rescore", "r.journal", "-o", "rescored.jsonl")
    later = [site.karenina("stats", "r.jsonl"), site.karenina("show", "rescored.jsonl", "--quiet")]
    texts = [" ".join(run.stdout.split()) for run in (done, again, *later)]
    assert [note in text if note is not None else "came from" not in text for text in texts] == [True] * 4, texts
    site.karenina("report", "r.jsonl", "-o", "page.html")
    head = re.search(r'id="karenina-head">([^<]*)<', (site.folder / "page.html").read_text("utf-8"))
    assert head is not None
    assert gzip.decompress(base64.b64decode(head[1])).count(b"came from the model") == (note is not None)


def test_rescored_results_name_the_stored_calls(site: Environment) -> None:
    file = site.write("genes.yaml", TWO_GENES)
    with recording_server(served({})) as server:
        models = [f"openai:m@{server.url}", f"openai:j@{server.url}"]
        site.karenina("run", file, "-a", models[0], "-j", models[1], "-o", "r.jsonl", "--quiet")
    site.karenina("rescore", "r.journal", "-o", "rescored.jsonl")
    first, rescored = (VerificationResultSet.load(site.folder / name) for name in ("r.jsonl", "rescored.jsonl"))
    with JournalView(site.folder / "r.journal") as journal:
        before, after = (journal.calls_of(list(results)) for results in (first, rescored))
    assert [len(calls) for calls in before] == [2, 2]
    assert sorted(map(str, after)) == sorted(map(str, before))


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4", "gpt-4-0613"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("claude-sonnet-4-0", "claude-sonnet-4-20250514"),
        ("us.anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku-20240307"),
        ("anthropic/claude-3.5-sonnet", "claude-3-5-sonnet-20241022"),
        ("sonnet", "claude-sonnet-4-5-20250929"),
        ("gemini-2.5-pro", "models/gemini-2.5-pro-preview-05-06"),
        ("gemini-1.5-flash", "gemini-1.5-flash-002"),
        ("mistral-small-latest", "mistral-small-2409"),
        ("meta-llama/Llama-3.1-8B-Instruct:free", "meta-llama/llama-3.1-8b-instruct"),
        ("llama3", "llama3:latest"),
        ("/models/Qwen2.5-7B-Q4_K_M.gguf", "Qwen2.5-7B-Q4_K_M"),
        ("qwen2.5-7b-instruct", "/models/Qwen2.5-7B-Instruct-Q4_K_M.gguf"),
        ("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1"),
        ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-instruct-q4_k_m"),
        ("qwen2.5-7b-instruct@q8_0", "qwen2.5-7b-instruct"),
        ("gemma-3-1b-it", "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"),
        ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1-0528:free"),
        ("databricks-meta-llama-3-3-70b-instruct", "meta-llama-3.3-70b-instruct-121024"),
        ("gpt-35-turbo", "gpt-3.5-turbo-0125"),
        ("gemini-flash-latest", "gemini-2.5-flash-preview-09-2025"),
        ("command-r", "command-r-08-2024"),
        ("grok-3-beta", "grok-3"),
        ("gpt-4o", " "),
    ],
)
def test_snapshots_of_a_model_are_not_another_one(asked: str, served: str) -> None:
    assert not is_other_model(asked, served)


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("llama-3-70b", "llama-3-8b"),
        ("llama3:70b", "llama3:8b"),
        ("gpt-4", "gpt-4o"),
        ("gpt-4", "gpt-4-turbo-2024-04-09"),
        ("gpt-4-0613", "gpt-4-0314"),
        ("gpt-4o", "gpt-4o-mini-2024-07-18"),
        ("gpt-4.1", "gpt-4.1-nano"),
        ("o1", "o1-mini"),
        ("gemini-flash-latest", "gemini-2.5-flash-lite"),
        ("qwen2.5-7b-instruct-q8_0.gguf", "qwen2.5-7b-instruct-q4_k_m.gguf"),
        ("claude-3-5-sonnet-latest", "claude-3-5-haiku-20241022"),
        ("openrouter/auto", "openai/gpt-4o"),
    ],
)
def test_other_sizes_and_variants_are_another_model(asked: str, served: str) -> None:
    assert is_other_model(asked, served)


@pytest.mark.parametrize(
    "served", ["gpt-4o" + "-v123-456" * 50 + "x", "a." * 240 + "\n", "gpt-4o" + "-1234-12-34" * 40 + "x", "a." * 10**6]
)
def test_hostile_names_are_compared_at_once(served: str) -> None:
    assert is_other_model("gpt-4o", served)
    assert is_other_model(served, "gpt-4o")


def test_many_and_long_names_are_not_all_listed(site: Environment) -> None:
    file = site.write("many.yaml", MANY)
    with recording_server(names_of_its_own) as server:
        model = {"id": "a", "interface": "openai", "model_name": "llama-3-70b", "endpoint_base_url": server.url}
        done = site.karenina("run", file, "-a", json.dumps(model), "-j", f"openai:j@{server.url}", "--quiet")

    text = " ".join(done.stdout.split())
    assert text.count("came from the model") == 5
    assert "; 3 replies came from other models, too" in text
    assert len(text) < 2000
