"""JSON files of the reference's graphical interface, its drafts, and its scenarios."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_benchmark import Benchmark
from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.formats.format_registry import FORMATS

TEMPLATE = """class Answer(BaseAnswer):
    metal: str = VerifiedField(description="The metal", ground_truth="mercury", verify_with=ExactMatch())
"""
LIQUID: dict[str, Any] = {
    "question": "Which metal is liquid at 20 C?",
    "raw_answer": "mercury",
    "original_answer_template": "class Answer(BaseAnswer): ...",
    "answer_template": TEMPLATE,
    "date_created": "2025-03-01T08:00:00Z",
    "last_modified": "2025-03-02T08:00:00Z",
    "finished": True,
    "question_rubric": {
        "llm_traits": [],
        "regex_traits": [{"name": "number", "pattern": "[0-9]+", "case_sensitive": False}],
    },
    "few_shot_examples": [{"question": "Which is red?", "answer": "copper"}],
    "custom_metadata": {"difficulty": "easy"},
    "author": {"@type": "Person", "name": "Bo"},
    "keywords": ["metals"],
}
DRAFT = {"question": "Which metal melts last?", "raw_answer": "tungsten", "finished": False, "answer_template": ""}
GUI: dict[str, Any] = {
    "version": "2.0",
    "global_rubric": {"llm_traits": [{"name": "brief", "description": "Is it brief?", "kind": "boolean"}]},
    "dataset_metadata": {
        "name": "Metals",
        "description": "Of metals",
        "license": "CC0",
        "custom_properties": {"a": "b"},
    },
    "checkpoint": {"q1": LIQUID, "q2": DRAFT},
}


def write(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data), "utf-8")
    return path


def test_a_checkpoint_of_the_interface_is_a_benchmark(tmp_path: Path) -> None:
    benchmark = Benchmark.load(write(tmp_path / "gui.json", GUI))

    first, second = benchmark
    assert (benchmark.name, benchmark.description, benchmark.metadata) == ("Metals", "Of metals", {"a": "b"})
    assert benchmark.unread["license"] == "CC0"
    assert benchmark.global_rubric is not None
    assert benchmark.global_rubric.names == ("brief",)
    assert (first.id, first.question, first.raw_answer) == ("q1", LIQUID["question"], "mercury")
    assert (first.answer_template, first.keywords) == (TEMPLATE, ("metals",))
    assert first.rubric is not None
    assert first.rubric.regex_traits[0].pattern == "[0-9]+"
    assert (first.author, first.metadata) == ({"@type": "Person", "name": "Bo"}, {"difficulty": "easy"})
    assert first.few_shot_examples[0].answer == "copper"
    assert (first.date_created, first.date_modified) == (LIQUID["date_created"], LIQUID["last_modified"])
    assert (second.raw_answer, second.answer_template) == ("tungsten", None)


@pytest.mark.parametrize("suffix", [".jsonld", ".yaml", ".jsonl"])
def test_it_is_equal_after_it_was_saved(tmp_path: Path, suffix: str) -> None:
    benchmark = Benchmark.load(write(tmp_path / "gui.json", GUI))
    benchmark.save(tmp_path / f"saved{suffix}")

    again = Benchmark.load(tmp_path / f"saved{suffix}")

    assert again == benchmark
    assert again.unfinished_ids() == ["q2"]


def test_a_file_of_extracted_questions_is_a_benchmark(tmp_path: Path) -> None:
    about = {"author": {"name": "Bo"}, "url": "https://example.org", "keywords": ["metals"]}
    data = {"a1": {"question": "Q?", "raw_answer": "A", "answer_template": TEMPLATE, "metadata": about}}

    (question,) = Benchmark.load(write(tmp_path / "extracted.json", data))

    assert (question.id, question.raw_answer, question.keywords) == ("a1", "A", ("metals",))
    assert (question.author, question.metadata) == ({"name": "Bo"}, {"url": "https://example.org"})


def test_early_files_have_their_traits_in_one_list(tmp_path: Path) -> None:
    rubric = {"traits": [{"name": "clear", "kind": "score", "min_score": 1, "max_score": 5}]}

    benchmark = Benchmark.load(write(tmp_path / "gui.json", {**GUI, "global_rubric": rubric}))

    assert benchmark.global_rubric is not None
    assert benchmark.global_rubric.llm_traits[0].max_score == 5


def test_a_question_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    data = {**GUI, "checkpoint": {"q1": LIQUID, "q2": {"question": 7}, "q3": "text"}}

    with pytest.raises(BenchmarkFileError, match=r"question 2 \(q2\).*'text' must be a string, not 7"):
        Benchmark.load(write(tmp_path / "gui.json", data))
    assert [question.id for question in Benchmark.load(tmp_path / "gui.json", skip_broken=True)] == ["q1"]


def test_drafts_are_announced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        benchmark = Benchmark.load(write(tmp_path / "gui.json", GUI))

    cure = "to run such questions anyway, name them with --question"
    assert f"1 question is marked `finished: false` and left out of runs: q2; {cure}" in caplog.text
    assert benchmark.unfinished_ids() == ["q2"]


def scenario(name: str, *edges: dict[str, Any], **node: Any) -> dict[str, Any]:
    """A scenario as the reference stores it. Its edges lead from `ask` to `challenge`."""
    nodes = {
        id: {
            "@type": "karenina:ScenarioNode",
            "nodeId": id,
            "question": {"@type": "Question", "text": f"{id}?", "acceptedAnswer": {"@type": "Answer", "text": "A"}},
            **node,
        }
        for id in ("ask", "challenge")
    }
    stored = [{"source": "ask", "target": "challenge", "condition": None, **edge} for edge in edges]
    return {"@type": "karenina:Scenario", "name": name, "entryNode": "ask", "nodes": nodes, "edges": stored}


def on(field: str) -> dict[str, Any]:
    """An edge that is followed if a value of the scenario's state is true."""
    check = {"type": "state_check", "field": field, "expected": True, "verify_with": {"type": "BooleanMatch"}}
    return {"condition": check}


def test_a_file_of_scenarios_only_is_named_as_such(tmp_path: Path) -> None:
    scenarios = [scenario("haggling", on("verify_result")), scenario("spam", {})]
    data = {"@type": "DataFeed", "name": "S", "dataFeedElement": [], "hasPart": scenarios}

    with pytest.raises(BenchmarkFileError) as raised:
        Benchmark.load(write(tmp_path / "s.jsonld", data))
    assert (
        "the file contains no questions, but 2 scenarios that cannot be run: haggling (the next turn depends on "
        "verify_result, but answers are judged only after the conversation); spam (no edge has a condition, so "
        "`turns` can express it); write scenarios as questions with `turns`"
    ) in str(raised.value)


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (scenario("s", on("parsed.price"), {}), "depends on parsed.price, but answers are judged only after"),
        (
            scenario("s", {"condition": [on("accumulated.n")["condition"], on("node_visits.ask")["condition"]]}),
            "depends on accumulated.n, but answers are judged only after the conversation; the next turn depends on "
            "node_visits.ask, which a condition of `turns` cannot test",
        ),
        (scenario("s", {"conditionSource": "lambda state: True"}), "(the next turn depends on Python code)"),
        (scenario("s", {"handover": "transcript_prepend"}), "(its turns have different models, tools or histories)"),
        (scenario("s", {}, agentIdentity="guard"), "(its turns have different models, tools or histories)"),
        (
            scenario("s", {}, modelOverride={"answering_model": {"model_name": "m"}}),
            "(its turns have different models, tools or histories)",
        ),
        (
            scenario("s", {}, modelOverride={"parsing_model": {}}),
            "(no edge has a condition, so `turns` can express it)",
        ),
        (scenario("s", {"condition": "verify_result"}), "depends on verify_result, but answers are judged only after"),
        ({"@type": "karenina:Scenario", "name": "s", "nodes": 1, "edges": [2]}, "(no edge has a condition"),
    ],
)
def test_what_turns_cannot_express_is_named(stored: dict[str, Any], reason: str, tmp_path: Path) -> None:
    data = {"@type": "DataFeed", "name": "S", "dataFeedElement": [], "hasPart": [stored]}

    with pytest.raises(BenchmarkFileError) as raised:
        Benchmark.load(write(tmp_path / "s.jsonld", data))
    assert reason in str(raised.value)


def test_many_scenarios_of_one_kind_are_counted(tmp_path: Path) -> None:
    scenarios = [scenario(f"q{number}", on("verify_result")) for number in range(1, 41)]
    data = {"@type": "DataFeed", "name": "S", "dataFeedElement": [], "hasPart": scenarios}

    with pytest.raises(BenchmarkFileError, match=r"40 scenarios that cannot be run: q1, q2, q3 and 37 more \(the"):
        Benchmark.load(write(tmp_path / "s.jsonld", data))


def test_scenarios_beside_questions_are_kept_and_announced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    element = {"@id": "q", "item": {"text": "Q?"}}
    data = {"@type": "DataFeed", "name": "S", "dataFeedElement": [element], "hasPart": [scenario("haggling", {})]}

    with caplog.at_level(logging.WARNING):
        benchmark = Benchmark.load(write(tmp_path / "s.jsonld", data))
    benchmark.save(tmp_path / "again.jsonld")

    assert "the file contains 1 scenario that cannot be run: haggling (" in caplog.text
    assert json.loads((tmp_path / "again.jsonld").read_text("utf-8"))["hasPart"] == [scenario("haggling", {})]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "q?"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from([*LIQUID, "llm_traits", "traits", "name", "@type"]), inner, max_size=4)
    ),
    max_leaves=6,
)
QUESTIONS = st.dictionaries(
    st.sampled_from(["q1", "q2"]),
    st.fixed_dictionaries({"question": JSON, "raw_answer": JSON, "answer_template": JSON}) | JSON,
)


@given(st.fixed_dictionaries({}, optional={**dict.fromkeys(GUI, JSON), "checkpoint": QUESTIONS}) | QUESTIONS)
def test_any_json_is_read_and_saved_alike_or_refused(data: Any) -> None:
    read = next(known_format.read for known_format in FORMATS if ".json" in known_format.suffixes)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = write(Path(folder) / "gui.json", data)
        try:
            benchmark = read(path, lambda *_: None)
            if benchmark.broken:
                return
            saved = next(
                known_format
                for known_format in FORMATS
                if known_format.write is not None and ".json" in known_format.suffixes
            )
            assert saved.write is not None
            text = "".join(str(chunk) for chunk in saved.write(benchmark, path))
        except BenchmarkFileError:
            return
        path.with_name("again.json").write_text(text, "utf-8")
        assert read(path.with_name("again.json"), lambda *_: None) == benchmark
