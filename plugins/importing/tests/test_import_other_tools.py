"""DeepEval, ragas, pydantic-evals, LangSmith, Langfuse, HELM, lm-eval tasks, and the OpenAI Evals registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from imports import import_file, karenina, run_imported, write, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_core.data.question import Question
from karenina_template.templates import load_template

RECORD = ("--recordings", "answers.jsonl")
TEXT = ("--map", "answer=text")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def questions() -> list[Question]:
    """Return the questions of the import, and check that they are equal after saving them again."""
    benchmark = Benchmark.load("out.yaml")
    benchmark.save("again.yaml")
    assert Benchmark.load("again.yaml").ids == benchmark.ids
    assert list(Benchmark.load("again.yaml")) == list(benchmark)
    return list(benchmark)


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]


# ---- DeepEval and ragas


def test_goldens_of_deepeval(tmp_path: Path) -> None:
    rows = [
        {"input": "Who discovered radium?", "expected_output": "Curie", "actual_output": "The answer is Curie."},
        {
            "input": "Who discovered oxygen?",
            "expected_output": "Priestley",
            "actual_output": "The answer is Boyle.",
            "context": ["A chemist."],
            "retrieval_context": ["Boyle's law."],
            "additional_metadata": {"level": 2},
        },
    ]

    done = import_file(write_json(tmp_path / "goldens.json", rows), *RECORD, *TEXT)

    assert done.code == 0, done.err
    assert run_imported(tmp_path) == {"q1-who-discovered-radium": True, "q2-who-discovered-oxygen": False}
    assert questions()[1].metadata == {
        "context": ["A chemist."],
        "retrieval_context": ["Boyle's law."],
        "additional_metadata": {"level": 2},
    }


def test_a_test_run_of_deepeval(tmp_path: Path) -> None:
    case = {
        "name": "test_case_0",
        "input": "Refund order 7?",
        "expectedOutput": "done",
        "actualOutput": "The answer is done.",
        "toolsCalled": [{"name": "refund", "inputParameters": {"order": 7}, "output": "ok"}],
        "metricsData": [{"name": "Answer Relevancy", "score": 0.9, "success": True}],
        "tags": ["orders"],
    }
    turns = [{"role": "user", "content": "Hi", "order": 0}, {"role": "assistant", "content": "Hello", "order": 1}]
    talk = {"name": "c", "turns": turns, "expectedOutcome": "A greeting", "scenario": "Someone greets"}
    run = {"testCases": [case], "conversationalTestCases": [talk], "hyperparameters": {"model": "m"}}

    done = import_file(write_json(tmp_path / "run.json", run), *RECORD)

    assert done.code == 0, done.err
    assert "Not carried over: 1 metric Answer Relevancy" in done.err
    first, second = questions()
    assert (first.question, first.raw_answer, first.keywords) == ("Refund order 7?", "done", ("orders",))
    assert second.rubric is not None
    assert second.rubric.llm_traits[0].description == "The conversation ends with this outcome: A greeting"
    call, result, answer = recorded()[0]["response"]
    assert call["tool_calls"][0]["function"] == {"name": "refund", "arguments": '{"order": 7}'}
    assert (result["content"], answer["content"]) == ("ok", "The answer is done.")
    assert [recording["model"] for recording in recorded()] == ["m", "m"]


def test_a_conversation_that_is_to_be_simulated_is_named(tmp_path: Path) -> None:
    row = {"scenario": "Someone greets", "expected_outcome": "A greeting"}

    done = import_file(write_json(tmp_path / "goldens.json", [row]))

    assert done.code == 2
    assert "the conversation for this golden has not been simulated yet" in done.err


def test_samples_of_ragas(tmp_path: Path) -> None:
    turns = [
        {"type": "human", "content": "Weather in Oslo?"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "weather", "args": {"city": "Oslo"}}]},
        {"type": "ai", "content": "Snow."},
    ]
    scale = {"score1_description": "Wrong.", "score3_description": "Right."}
    rows = [
        {
            "user_input": "Who discovered radium?",
            "response": "The answer is Curie.",
            "reference": "Curie",
            "retrieved_contexts": ["Curie worked in Paris."],
            "faithfulness": 0.5,
        },
        {"user_input": turns, "reference": "Snow", "rubrics": scale, "reference_tool_calls": [{"name": "weather"}]},
    ]

    done = import_file(write_lines(tmp_path / "ragas.jsonl", rows), *RECORD)

    assert done.code == 0, done.err
    assert "1 metric faithfulness" in done.err
    assert "1 reference tool calls" in done.err
    first, second = questions()
    assert first.metadata == {"retrieved_contexts": ["Curie worked in Paris."]}
    assert (second.question, second.raw_answer) == ("Weather in Oslo?", "Snow")
    assert second.rubric is not None
    assert (second.rubric.llm_traits[0].min_score, second.rubric.llm_traits[0].max_score) == (1, 3)
    conversation = recorded()[1]["response"]
    assert [turn["role"] for turn in conversation] == ["user", "assistant", "assistant"]
    assert conversation[1]["tool_calls"][0]["function"]["name"] == "weather"


# ---- pydantic-evals

CASES = """# yaml-language-server: $schema=x.json
name: metals
cases:
  - name: liquid
    inputs: Which metal is liquid?
    expected_output: mercury
    evaluators:
      - EqualsExpected
      - Contains: metal
      - LLMJudge: {rubric: It is polite, include_expected_output: true}
  - name: dense
    inputs: {question: "Which is denser?", choices: gold or tin}
    expected_output: {metal: gold, factor: 2.6}
    metadata: {level: 3}
    evaluators: [EqualsExpected, {MaxDuration: 2.0}, {Own: {x: 1}}]
evaluators:
  - IsInstance: str
"""


def test_a_dataset_of_pydantic_evals() -> None:
    Path("metals.yaml").write_text(CASES, "utf-8")

    done = import_file("metals.yaml")

    assert done.code == 0, done.err
    assert "Not carried over: 2 evaluator IsInstance, 1 evaluator MaxDuration, 1 evaluator Own" in done.err
    first, second = questions()
    assert first.metadata == {"name": "liquid"}
    assert "TraceContains(substring='metal')" in str(first.answer_template)
    assert "ground_truth='mercury'" in str(first.answer_template)
    assert first.rubric is not None
    assert first.rubric.llm_traits[0].description == "It is polite\nExpected: mercury"
    assert second.question == "choices: gold or tin\n\nWhich is denser?"
    assert "metal: str" in str(second.answer_template)
    assert "factor: float" in str(second.answer_template)
    assert second.metadata == {"name": "dense", "level": 3}


@pytest.mark.parametrize(
    ("answer", "right"), [("The Metal is seven", True), ("A metal is eight", False), ("It is seven", False)]
)
def test_evaluators_of_pydantic_evals_judge_both_ways(tmp_path: Path, answer: str, right: bool) -> None:
    evaluators = [{"Contains": {"value": "metal", "case_sensitive": False}}, {"Contains": "seven"}]
    report = {"cases": [{"name": "a", "inputs": "How many?", "output": answer, "evaluators": evaluators}]}

    done = import_file(write_json(tmp_path / "report.json", report), *RECORD)

    assert done.code == 0, done.err
    assert list(run_imported(tmp_path).values()) == [right]


# ---- LangSmith and Langfuse


def test_examples_of_langsmith(tmp_path: Path) -> None:
    rows = [
        {"inputs": {"question": "Who discovered radium?"}, "outputs": {"answer": "Curie"}, "metadata": {"n": 1}},
        {
            "id": "e2",
            "inputs": {"input": "Who?", "context": "Of oxygen."},
            "outputs": {"output": "Priestley", "year": 1774},
            "split": "test",
        },
        {"inputs": {"messages": [{"role": "user", "content": "Hi"}]}, "outputs": {"messages": [{"content": "Hello"}]}},
    ]

    done = import_file(write_lines(tmp_path / "examples.jsonl", rows))

    assert done.code == 0, done.err
    assert "Not carried over: 1 output 'year'" in done.err
    first, second, third = questions()
    assert (first.question, first.raw_answer) == ("Who discovered radium?", "Curie")
    assert (second.id, second.question, second.raw_answer) == ("e2", "context: Of oxygen.\n\nWho?", "Priestley")
    assert (third.question, third.raw_answer) == ("Hi", "Hello")


def test_runs_of_langsmith_with_feedback_of_people(tmp_path: Path) -> None:
    def run(example: str, said: str, score: float, source: str, **more: Any) -> dict[str, Any]:
        return {
            "id": f"r-{example}",
            "run_type": "chain",
            "reference_example_id": example,
            "inputs": {"question": f"Who discovered {example}?"},
            "outputs": {"answer": said},
            "reference_outputs": {"answer": "Curie"},
            "extra": {"metadata": {"ls_model_name": "m"}},
            "feedback": [{"key": "correctness", "score": score, "feedback_source": {"type": source}}],
            **more,
        }

    rows = [
        run("radium", "The answer is Curie.", 1, "app"),
        run("polonium", "The answer is Bohr.", 0, "app"),
        run("x", "The answer is Curie.", 0, "model"),
        run("y", "", 0, "model", error="timed out"),
    ]

    done = import_file(write_json(tmp_path / "runs.json", rows), *RECORD, *TEXT, "--labels", "labels.csv")

    assert done.code == 0, done.err
    assert "3 recorded answers" in done.out
    assert "2 labels" in done.out
    assert [line.split(",")[0:4] for line in Path("labels.csv").read_text("utf-8").splitlines()] == [
        ["question_id", "replicate", "labeller", "right"],
        ["radium", "1", "", "yes"],
        ["polonium", "1", "", "no"],
    ]
    ids = [word for id in ("radium", "polonium", "x") for word in ("--question", id)]
    assert run_imported(tmp_path, *RECORD, *ids, "--partial") == {"radium": True, "polonium": False, "x": True}


_MESSAGE = {"type": "ai", "content": "It is Ann", "response_metadata": {"finish_reason": "length"}}


@pytest.mark.parametrize(
    "outputs",
    [
        {"answer": "It is Ann", "finish_reason": "length"},
        {"output": _MESSAGE},
        {"messages": [{"type": "human", "content": "Who?"}, _MESSAGE]},
        {"messages": [{"type": "human", "content": "Who?"}, _MESSAGE], "remaining_steps": 3},
        {"messages": [{"role": "assistant", "content": "It is Ann"}], "finish_reason": "length"},
        {"choices": [{"message": {"content": "It is Ann"}, "finish_reason": "length"}], "model": "m", "usage": {}},
        {"generations": [[{"generation_info": {"finish_reason": "length"}, "message": _MESSAGE}]], "llm_output": None},
        {"generations": [[{"text": "It is Ann", "message": {"lc": 1, "kwargs": _MESSAGE}}]], "llm_output": None},
        {"generations": [[{"text": "It is Ann", "generation_info": {"finish_reason": "length"}}]], "llm_output": None},
        {"choices": [{"text": "It is Ann", "finish_reason": "length"}], "model": "m", "usage": {}},
        {"choices": [{"text": "Bob"}, {"text": "Ann"}], "answer": "It is Ann", "finish_reason": "length"},
    ],
)
@pytest.mark.parametrize("tool", ["langsmith", "langfuse"])
def test_outputs_state_why_an_answer_ended(tool: str, outputs: dict[str, Any], tmp_path: Path) -> None:
    runs = {
        "langsmith": {"run_type": "llm", "inputs": {"question": "Who?"}, "outputs": outputs},
        "langfuse": {"traceId": "a", "input": "Who?", "output": outputs},
    }

    done = import_file(write_json(tmp_path / "runs.json", [runs[tool]]), *RECORD)

    assert done.code == 0, done.err
    (line,) = recorded()
    said = line["response"] if isinstance(line["response"], str) else line["response"][-1]["content"]
    assert (said, line["finish_reason"]) == ("It is Ann", "length")


def test_prompts_of_langchain_models_are_questions(tmp_path: Path) -> None:
    asked = {"lc": 1, "type": "constructor", "id": ["HumanMessage"], "kwargs": {"content": "Who?", "type": "human"}}
    outputs = {"generations": [[{"text": "Ann", "generation_info": {}}]], "llm_output": None}
    run = {"run_type": "llm", "inputs": {"messages": [[asked]]}, "outputs": outputs}

    done = import_file(write_json(tmp_path / "runs.json", [run]), *RECORD)

    assert done.code == 0, done.err
    assert "question: Who?" in Path("out.yaml").read_text("utf-8")
    assert recorded()[0]["response"] == "Ann"


def test_refusals_in_chat_completions_are_recorded_as_refusals(tmp_path: Path) -> None:
    reply = {"message": {"content": None, "refusal": "I cannot help."}, "finish_reason": "stop"}
    outputs = {"choices": [reply], "model": "m"}
    run = {"run_type": "llm", "inputs": {"question": "Who?"}, "outputs": outputs}

    done = import_file(write_json(tmp_path / "runs.json", [run]), *RECORD)

    assert done.code == 0, done.err
    (line,) = recorded()
    assert (line["response"], line["finish_reason"]) == ("I cannot help.", "refusal")


@pytest.mark.parametrize("failed", [{"level": "ERROR", "statusMessage": "429"}, {"error": "429"}])
def test_errors_of_langfuse_and_braintrust_are_named(failed: dict[str, str], tmp_path: Path) -> None:
    good = {"traceId": "a", "input": "Who?", "output": "Ann"}
    bad = {"traceId": "b", "input": "Where?", "output": None, **failed}

    done = import_file(write_json(tmp_path / "traces.json", [good, bad]), *RECORD)

    assert done.code == 0, done.err
    assert "item 2: the row has an error instead of an answer: 429" in done.err


@pytest.mark.parametrize("tool", ["langsmith", "langfuse"])
def test_conversations_of_runs_keep_their_tool_calls(tool: str, tmp_path: Path) -> None:
    asked = {"type": "human", "content": "Who?"}
    call = {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": {}, "id": "c"}]}
    output = {"messages": [asked, call, {"type": "tool", "content": "Curie", "tool_call_id": "c"}]}
    output["messages"].append({"type": "ai", "content": "It is Curie."})
    keys = {"langsmith": ("inputs", "outputs", "run_type"), "langfuse": ("input", "output", "scores")}[tool]
    row = {
        "id": "a",
        **dict(zip(keys, ({"question": "Who?"}, output, "chain" if tool == "langsmith" else []), strict=True)),
    }

    done = import_file(write_lines(tmp_path / "runs.jsonl", [row]), *RECORD)

    assert done.code == 0, done.err
    ((_, said, _, last),) = [line["response"] for line in recorded()]
    assert said["tool_calls"][0]["name"] == "look"
    assert last == {"role": "assistant", "content": "It is Curie."}


def test_items_of_langfuse(tmp_path: Path) -> None:
    items = [
        {
            "id": "i1",
            "datasetName": "d",
            "input": {"question": "Q?"},
            "expectedOutput": {"answer": "A"},
            "status": "ACTIVE",
        },
        {"id": "i2", "datasetName": "d", "input": '{"question": "R?"}', "expectedOutput": "B", "metadata": {"n": 2}},
        {"id": "i3", "datasetName": "d", "input": "S?", "expectedOutput": None, "status": "ARCHIVED"},
    ]

    done = import_file(write_json(tmp_path / "items.json", {"data": items, "meta": {}}), "--partial")

    assert done.code == 0, done.err
    assert "item 3: the item is archived" in done.err
    assert [(question.id, question.question, question.raw_answer) for question in questions()] == [
        ("i1", "Q?", "A"),
        ("i2", "R?", "B"),
    ]


def test_traces_of_langfuse_with_annotations(tmp_path: Path) -> None:
    def trace(id: str, output: str, *scores: dict[str, Any]) -> dict[str, Any]:
        return {"id": id, "input": f"{id}?", "output": output, "scores": list(scores), "tags": ["t"]}

    by_ann = {"name": "quality", "source": "ANNOTATION", "value": 0, "authorUserId": "ann", "comment": "no source"}
    by_judge = {"name": "toxicity", "source": "EVAL", "value": 0.1}
    unclear = {"name": "quality", "source": "ANNOTATION", "stringValue": "so so"}
    rows = [trace("a", "It is A.", by_ann, by_judge), trace("b", "It is B.", unclear), trace("c", "It is C.")]

    done = import_file(write_lines(tmp_path / "traces.jsonl", rows), *RECORD, "--labels", "labels.csv")

    assert done.code == 0, done.err
    assert "2 labels, 1 of them neither right nor wrong" in done.out
    assert "Not carried over: 1 score 'toxicity'" in done.err
    assert Path("labels.csv").read_text("utf-8").splitlines()[1:] == ["a,1,ann,no,no source", "b,1,,unclear,so so"]
    assert questions()[0].keywords == ("t",)


def test_records_of_braintrust(tmp_path: Path) -> None:
    def record(id: str, **more: Any) -> dict[str, Any]:
        return {"id": id, "input": {"question": f"{id}?"}, "span_id": id, "root_span_id": id, "is_root": True, **more}

    rows = [
        record("a", expected="A", output="It is A.", scores={"Factuality": 0.5, "Levenshtein": None}),
        record("b", expected={"answer": "B"}, output={"answer": "It is B."}, scores={}),
        record("c", input="prompt of a judge", output="0.5", root_span_id="a", is_root=False),
    ]

    done = import_file(write_lines(tmp_path / "experiment.jsonl", rows), *RECORD, "--partial")

    assert done.code == 0, done.err
    assert [(question.question, question.raw_answer) for question in questions()] == [("a?", "A"), ("b?", "B")]
    assert [json.loads(line)["response"] for line in Path("answers.jsonl").read_text("utf-8").splitlines()] == [
        "It is A.",
        "It is B.",
    ]
    assert "Not carried over: 1 score 'Factuality'" in done.err
    assert "line 3: the record is a span inside of a trace" in done.err


# ---- HELM


def state(id: str, text: str, said: str | None, *, tag: str = "correct", **more: Any) -> dict[str, Any]:
    """Return a state of a request."""
    references = [{"output": {"text": "Curie"}, "tags": [tag]}, {"output": {"text": "Bohr"}, "tags": []}]
    result = {
        "success": said is not None,
        "completions": [{"text": said, "tokens": []}],
        "error": None if said else "429",
    }
    return {
        "instance": {"input": {"text": text}, "references": references, "split": "test", "id": id},
        "reference_index": None,
        "train_trial_index": 0,
        "num_train_instances": 0,
        "request": {"model": "org/m", "prompt": f"Q: {text}"},
        "result": result,
        **more,
    }


def test_a_run_of_helm(tmp_path: Path) -> None:
    letters = {"output_mapping": {"A": "Bohr", "B": "Curie"}}
    changed = state("id1", "Who found radium, sir?", "The answer is Bohr")
    changed["instance"]["perturbation"] = {"name": "dialect", "seed": 1}
    states = [
        state("id1", "Who discovered radium?", "The answer is B", **letters),
        {**changed, **letters},
        state("id2", "Who discovered polonium?", None),
        {**state("id3", "Who?", "x"), "reference_index": 1},
    ]
    run = {"adapter_spec": {"model": "org/m", "method": "multiple_choice_joint"}, "request_states": states}

    done = import_file(write_json(tmp_path / "scenario_state.json", run), *RECORD, "--map", "answer=choice")

    assert done.code == 0, done.err
    assert "request 3: the row has an error instead of an answer: 429" in done.err
    assert "the request scores a given reference" in done.err
    assert [question.id for question in questions()] == ["id1", "id1-dialect-1", "id2", "id3"]
    assert questions()[0].question == "Who discovered radium?\n\nA. Bohr\nB. Curie"
    assert questions()[0].raw_answer == "B. Curie"
    assert [(recording["id"], recording["model"]) for recording in recorded()] == [
        ("id1", "org/m"),
        ("id1-dialect-1", "org/m"),
    ]


@pytest.mark.parametrize(("reason", "stated"), [("length", "length"), ("endoftext", None), (None, None)])
def test_helm_states_why_an_answer_ended(reason: str | None, stated: str | None, tmp_path: Path) -> None:
    answered = state("id1", "Who discovered radium?", "The answer is")
    answered["result"]["completions"][0]["finish_reason"] = reason and {"reason": reason}
    run = {"adapter_spec": {"model": "org/m"}, "request_states": [answered]}

    done = import_file(write_json(tmp_path / "scenario_state.json", run), *RECORD)

    assert done.code == 0, done.err
    assert recorded()[0].get("finish_reason") == stated


def test_options_of_helm_that_are_numbers_are_found_by_their_text(tmp_path: Path) -> None:
    mapping = {"A": "3", "B": "2", "C": "1", "D": "0"}
    references = [{"output": {"text": text}, "tags": ["correct"] * (text == "2")} for text in mapping.values()]
    instance = {"input": {"text": "What is 3 - 1?"}, "references": references, "id": "x"}
    result = {"success": True, "completions": [{"text": "The answer is B"}]}
    state = {"instance": instance, "request": {"model": "m"}, "result": result, "output_mapping": mapping}
    run = {"adapter_spec": {"model": "m"}, "request_states": [state]}

    done = import_file(write_json(tmp_path / "scenario_state.json", run), *RECORD)

    assert done.code == 0, done.err
    assert [question.raw_answer for question in questions()] == ["B. 2"]
    assert run_imported(tmp_path) == {"x": True}


@pytest.mark.parametrize(
    ("labels", "letters", "answer", "passes"),
    [
        (False, "ABC", "A", True),
        (False, "ABC", "B", True),
        (False, "ABC", "C", False),
        (True, "ABC", ["B", "A"], True),
        (True, "ABC", ["A"], False),
        (True, "", ["Callao", "Lima"], True),
        (True, "", ["Lima"], False),
    ],
)
def test_helm_needs_several_references_only_as_labels(
    tmp_path: Path, *, labels: bool, letters: str, answer: Any, passes: bool
) -> None:
    texts = ("Lima", "Callao", "Cusco")
    references = [{"output": {"text": text}, "tags": ["correct"] * (text != "Cusco")} for text in texts]
    mapping = dict(zip(letters, texts, strict=False)) or None
    asked = {**state("x", "Which port?", json.dumps(answer)), "output_mapping": mapping}
    asked["instance"]["references"] = references
    run = {"adapter_spec": {"model": "m", "multi_label": labels}, "request_states": [asked]}

    done = import_file(write_json(tmp_path / "scenario_state.json", run), *RECORD)

    assert done.code == 0, done.err
    assert "0 errors, 0 warnings" in karenina("check", "out.yaml").out
    bound = load_template(questions()[0].answer_template or "").for_question("x")
    assert bound.bind({"answer": answer}).verify() is passes


def test_instances_of_helm(tmp_path: Path) -> None:
    instances = [
        {"id": "i", "input": {"text": "Who?"}, "references": [{"output": {"text": "Curie"}, "tags": ["correct"]}]},
        {"id": "j", "input": {"text": "", "multimedia_content": {"x": 1}}, "references": []},
    ]

    done = import_file(write_json(tmp_path / "instances.json", instances), "--partial", *TEXT)

    assert done.code == 0, done.err
    assert "instance 2: the input is an image or audio, not text" in done.err
    assert [(question.id, question.raw_answer) for question in questions()] == [("i", "Curie")]


# ---- tasks of lm-evaluation-harness, and the registry of OpenAI Evals

TASK = """task: metals
dataset_path: json
dataset_kwargs:
  data_files: {test: data/metals.jsonl, train: data/none.jsonl}
test_split: test
doc_to_text: "Metals. {{q.strip()}}\\nAnswer:"
doc_to_target: gold
filter_list: [{name: x}]
metric_list: [{metric: exact_match}, {metric: bleu}]
"""


def test_a_task_of_lm_eval_on_a_local_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data/metals.jsonl", [{"q": " Which is liquid? ", "gold": "mercury", "subject": "chem"}])
    Path("metals.yaml").write_text(TASK, "utf-8")

    done = import_file("metals.yaml")

    assert done.code == 0, done.err
    assert "metrics of the task are not carried over: bleu" in done.err
    assert "answer filters are not carried over" in done.err
    (question,) = questions()
    assert (question.question, question.raw_answer) == ("Metals. Which is liquid?\nAnswer:", "mercury")
    assert question.keywords == ("chem",)


def test_the_index_of_an_option_is_not_taken_for_the_text_of_another(tmp_path: Path) -> None:
    write_lines(tmp_path / "m.jsonl", [{"question": "What is 3 - 1?", "opts": ["3", "2", "1", "0"], "answer": 1}])
    rules = "dataset_path: m.jsonl\ntask: m\ndoc_to_text: question\ndoc_to_choice: opts\ndoc_to_target: answer\n"
    Path("m.yaml").write_text(rules, "utf-8")

    done = import_file("m.yaml")

    assert done.code == 0, done.err
    assert [question.raw_answer for question in questions()] == ["B. 2"]
    assert "answer: 1 question with options" in done.err


def test_a_task_of_lm_eval_with_options_and_a_base(tmp_path: Path) -> None:
    write_lines(tmp_path / "m.jsonl", [{"question": "Which is liquid?", "opts": ["iron", "mercury"], "answer": 1}])
    Path("base.yaml").write_text("dataset_path: m.jsonl\ndoc_to_text: question\n", "utf-8")
    rules = "include: base.yaml\ntask: m\ndoc_to_choice: opts\ndoc_to_target: answer\n"
    Path("m.yaml").write_text(f"{rules}process_docs: !function utils.process\n", "utf-8")

    done = import_file("m.yaml", "--map", "answer=choice")

    assert done.code == 0, done.err
    assert "with a Python function (process_docs), which is not executed" in done.err
    (question,) = questions()
    assert question.question == "Which is liquid?\n\nA. iron\nB. mercury"
    assert question.raw_answer == "B. mercury"


def test_a_statement_of_jinja_is_named_and_not_executed(tmp_path: Path) -> None:
    write_lines(tmp_path / "m.jsonl", [{"question": "Which is liquid?", "answer": "mercury"}])
    text = "{% for x in question %}{{x}}{% endfor %}"
    Path("m.yaml").write_text(
        f"task: m\ndataset_path: m.jsonl\ndoc_to_text: '{text}'\ndoc_to_target: answer\n", "utf-8"
    )

    done = import_file("m.yaml")

    assert done.code == 0, done.err
    assert "Not carried over: 1 doc_to_text (the template contains a statement, which is not supported" in done.err
    assert questions()[0].question == "Which is liquid?"


@pytest.mark.parametrize(
    ("documents", "key"),
    [
        ("dataset_path: json\ndataset_kwargs: {data_files: !function utils.load}", "dataset_kwargs.data_files"),
        ("dataset_path: json\ndataset_kwargs:\n  data_files: !function utils.load  # own", "dataset_kwargs.data_files"),
        (
            "dataset_path: json\ndataset_kwargs:\n  data_files: {test: !function utils.load}",
            "dataset_kwargs.data_files",
        ),
        ("dataset_path: json\ndataset_kwargs:\n  data_files: [!function utils.load]", "dataset_kwargs.data_files"),
        ("dataset_path: json\ndataset_kwargs: !function utils.load", "dataset_kwargs"),
        ("dataset_path: !function utils.load", "dataset_path"),
        ("custom_dataset: !function utils.load", "custom_dataset"),
    ],
)
def test_documents_of_a_function_name_the_way_on(documents: str, key: str) -> None:
    write("task.yaml", f"task: t\n{documents}\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n")

    done = import_file("task.yaml")

    assert done.code == 2
    assert f"task.yaml, {key}: the task gets its documents from the Python function utils.load" in done.err
    assert "--log_samples" in done.err
    assert "hf:" not in done.err


def test_other_tags_of_a_task_say_what_is_read() -> None:
    task = "task: t\ndataset_path: json\ndataset_kwargs: {data_files: d.jsonl}\ndoc_to_target: a\n"
    write("d.jsonl", '{"question": "Which city?", "a": "Lima"}\n')
    write("task.yaml", f"{task}doc_to_text: !include text.yaml\n")

    done = import_file("task.yaml")

    assert "1 doc_to_text (a file included with !include)" in done.err

    write("task.yaml", "task: t\ndataset_path: json\ndataset_kwargs: !include base.yaml\ndoc_to_text: q\n")
    assert (
        "the tag `!include base.yaml` is not supported because only the `include` key" in import_file("task.yaml").err
    )


def test_a_task_of_lm_eval_on_a_dataset_names_the_command() -> None:
    Path("g.yaml").write_text('"task": g\n"dataset_path": o/gsm8k\n"dataset_name": main\ntest_split: test\n', "utf-8")

    done = import_file("g.yaml")

    assert done.code == 2
    assert "karenina import hf:o/gsm8k --subset main --split test" in done.err


def registry(tmp_path: Path, kind: str, arguments: str, *samples: dict[str, Any]) -> Path:
    """Write an eval of the registry with its samples, and return its file."""
    (tmp_path / "registry/evals").mkdir(parents=True)
    (tmp_path / "registry/data/m").mkdir(parents=True)
    write_lines(tmp_path / "registry/data/m/samples.jsonl", samples)
    text = (
        f"m:\n  id: m.dev.v0\nm.dev.v0:\n  class: evals.elsuite.{kind}\n  args:\n    samples_jsonl: m/samples.jsonl\n"
    )
    path = tmp_path / "registry/evals/m.yaml"
    path.write_text(text + arguments, "utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "answer", "right"),
    [
        ("", "Curie it was", True),
        ("", "it was CURIE", False),
        ("    ignore_case: true\n", "it was CURIE", True),
        ("", "Bohr", False),
    ],
)
def test_includes_of_the_registry_judges_both_ways(tmp_path: Path, arguments: str, answer: str, right: bool) -> None:
    sample = {"input": [{"role": "user", "content": "Who?"}], "ideal": ["Curie", "Sklodowska"], "level": 1}
    path = registry(tmp_path, "basic.includes:Includes", arguments, sample)
    write_lines(tmp_path / "answers.jsonl", [{"question": "Who?", "response": answer}])

    done = import_file(path)

    assert done.code == 0, done.err
    assert run_imported(tmp_path) == {"q1-who": right}
    assert questions()[0].metadata == {"level": 1}


def test_match_and_grading_of_the_registry(tmp_path: Path) -> None:
    path = registry(tmp_path / "a", "basic.match:Match", "    num_few_shot: 5\n", {"input": "Who?", "ideal": "Curie"})
    matched = import_file(path, *TEXT)
    assert matched.code == 0, matched.err
    assert "Not carried over: 1 few-shot examples" in matched.err
    assert questions()[0].raw_answer == "Curie"

    graded = "    modelgraded_spec: fact\n"
    path = registry(
        tmp_path / "b", "modelgraded.classify:ModelBasedClassify", graded, {"input": "Who?", "ideal": "Curie"}
    )
    done = import_file(path)
    assert done.code == 0, done.err
    assert questions()[0].rubric is not None


def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    path = registry(tmp_path, "basic.match:Match", "")
    (tmp_path / "registry/data/m/samples.jsonl").write_text("version https://git-lfs.github.com/spec/v1\n", "utf-8")

    done = import_file(path)

    assert done.code == 2
    assert "the file is a Git LFS pointer, not the actual content; run `git lfs pull`" in done.err


def test_failures_of_a_report_are_questions_without_an_answer(tmp_path: Path) -> None:
    case = {"name": "a", "inputs": "Q?", "output": "x", "expected_output": "x"}
    failure = {"name": "b", "inputs": "R?", "expected_output": "y", "error_message": "ValueError: no"}
    report = {"name": "run", "cases": [case], "failures": [failure]}

    done = import_file(write_json(tmp_path / "report.json", report), *RECORD)

    assert "failure 1 (b): the row has an error instead of an answer: ValueError: no" in done.err
    assert [question.question for question in questions()] == ["Q?", "R?"]
    assert [recording["response"] for recording in recorded()] == ["x"]


def test_an_evaluator_does_not_replace_a_field_of_the_expected_object() -> None:
    evaluators = "[EqualsExpected, Equals: 5, Contains: {value: a, evaluation_name: city}]"
    case = f"- inputs: Q?\n  expected_output: {{city: Lima, answer: 3}}\n  evaluators: {evaluators}\n"
    Path("cases.yaml").write_text(f"cases:\n{case}", "utf-8")

    assert import_file("cases.yaml").code == 0
    (question,) = questions()
    for truth in ("'Lima'", "ground_truth=3", "5.0", "TraceContains(substring='a')"):
        assert truth in (question.answer_template or "")


LOCAL = "task: t\ndataset_path: json\ndataset_kwargs: {data_files: d.jsonl}\ndoc_to_text: q\ndoc_to_target: y\n"


def test_options_of_a_task_are_filled_and_its_target_is_one_of_them(tmp_path: Path) -> None:
    write_lines(tmp_path / "d.jsonl", [{"q": "Q?", "y": 1, "o": ["no", "yes"]}, {"q": "R?", "y": -1, "o": ["a", "b"]}])
    Path("t.yaml").write_text(LOCAL + "doc_to_choice: ['{{o[0]}}', '{{o[1]}}']\n", "utf-8")

    done = import_file("t.yaml", "--partial")

    assert "line 2: the target is option index -1 (counted from 0), but the number of options is 2" in done.err
    assert [(question.question, question.raw_answer) for question in questions()] == [("Q?\n\nA. no\nB. yes", "B. yes")]


def test_a_task_whose_options_a_program_makes_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "d.jsonl", [{"q": "Q?", "y": 1, "o": ["no", "yes"]}])
    Path("t.yaml").write_text(LOCAL + "doc_to_choice: '{{[o[0], o[1]]}}'\n", "utf-8")

    done = import_file("t.yaml")

    assert done.code == 2
    assert "the options in doc_to_choice could not be determined from the task file" in done.err


def test_variants_of_an_eval_and_samples_without_an_ideal_are_named(tmp_path: Path) -> None:
    write_lines(tmp_path / "s.jsonl", [{"input": "Q?", "ideal": "Lima"}, {"input": "R?"}])
    about = "args: {samples_jsonl: s.jsonl}"
    text = f"x.a:\n  class: evals.elsuite.basic.includes:Includes\n  {about}\n"
    text += f"x.b:\n  class: evals.elsuite.basic.match:Match\n  {about}\n"
    Path("x.yaml").write_text(text, "utf-8")

    done = import_file("x.yaml", "--partial")

    assert done.code == 0, done.err
    assert "x.b was not carried over because it uses the same samples as x.a" in done.err
    assert "x.a, line 2: the sample has no `ideal`" in done.err
    assert [question.question for question in questions()] == ["Q?"]


def test_each_right_answer_of_helm_and_of_openai_evals_is_enough(tmp_path: Path) -> None:
    references = [{"output": {"text": text}, "tags": ["correct"]} for text in ("Lima", "Callao")]
    instance = {"input": {"text": "Which port?"}, "references": references, "id": "x"}
    result = {"success": True, "completions": [{"text": "The answer is Callao"}]}
    state = {"instance": instance, "request": {"model": "m"}, "result": result}
    event = {"run_id": "r", "event_id": 0, "sample_id": "x"}
    asked = {"prompt": "Which port?", "sampled": ["The answer is Callao"]}
    record = [
        {"spec": {"completion_fns": ["m"]}},
        {**event, "type": "sampling", "data": asked},
        {**event, "type": "match", "data": {"correct": True, "expected": ["Lima", "Callao"], "sampled": "Callao"}},
    ]
    state_file = write_json(tmp_path / "state.json", {"adapter_spec": {"model": "m"}, "request_states": [state]})

    for source in (state_file, write_lines(tmp_path / "record.jsonl", record)):
        done = import_file(source, *RECORD)
        assert done.code == 0, done.err
        assert run_imported(tmp_path) == {"x": True}


# ---- labels


def test_one_of_the_scores_of_a_person_is_the_verdict(tmp_path: Path) -> None:
    def trace(id: str, **scores: float) -> dict[str, Any]:
        entries = [{"name": name, "value": value, "source": "ANNOTATION"} for name, value in scores.items()]
        return {"id": id, "input": f"{id}?", "output": "A", "scores": entries}

    rows = [trace("a", helpful=1, correctness=0), trace("b", hallucination=1), trace("c", hallucination=1, helpful=0)]

    done = import_file(write_lines(tmp_path / "traces.jsonl", rows), *RECORD, "--labels", "labels.csv")

    assert "Not carried over: 2 score 'hallucination', 1 score 'helpful'" in done.err
    assert Path("labels.csv").read_text("utf-8").splitlines()[1:] == ["a,1,,no,", "c,1,,no,"]


def test_cells_of_labels_are_no_formulas(tmp_path: Path) -> None:
    scores = [{"name": "correct", "value": 0, "source": "ANNOTATION", "comment": "=cmd()"}]
    row = {"id": " \uff1dcmd()", "input": "a?", "output": "A", "scores": scores}
    import_file(write_lines(tmp_path / "traces.jsonl", [row]), *RECORD, "--labels", "labels.csv")

    cells = Path("labels.csv").read_text("utf-8").splitlines()[1].split(",")
    assert (cells[0], cells[-1]) == ("' \uff1dcmd()", "'=cmd()")


def test_one_of_several_feedbacks_of_people_is_the_verdict(tmp_path: Path) -> None:
    def feedback(key: str, score: float) -> dict[str, Any]:
        return {"key": key, "score": score, "feedback_source": {"type": "app"}}

    about = {"id": "r", "run_type": "chain", "inputs": {"q": "Q?"}, "outputs": {"a": "A"}}
    rows = [{**about, "feedback": [feedback("style", 1), feedback("correctness", 0)]}]

    done = import_file(write_json(tmp_path / "runs.json", rows), *RECORD, "--labels", "labels.csv")

    assert "Not carried over: 1 feedback 'style'" in done.err
    assert Path("labels.csv").read_text("utf-8").splitlines()[1:] == ["r,1,,no,"]


@pytest.mark.parametrize(
    ("values", "said"), [((1, 5), ["unclear", "unclear"]), ((-1, 0), ["no", "unclear"]), ((1, 0.5), ["yes", "unclear"])]
)
def test_a_number_of_a_scale_is_no_verdict(tmp_path: Path, values: tuple[float, ...], said: list[str]) -> None:
    rows = [{"question": f"{at}?", "gold": "A", "response": "A", "stars": value} for at, value in enumerate(values)]
    source = write_lines(tmp_path / "judged.jsonl", rows)

    done = import_file(source, *RECORD, "--map", "label=stars", *TEXT, "--labels", "labels.csv")

    assert done.code == 0, done.err
    assert [line.split(",")[3] for line in Path("labels.csv").read_text("utf-8").splitlines()[1:]] == said
    assert ("are numbers from 1 to 5" in done.err) is (5 in values)


def test_verdicts_of_a_table_become_labels(tmp_path: Path) -> None:
    names = ("question", "gold", "response", "human")
    rows = [
        ("Who discovered radium?", "Curie", "The answer is Curie", "Correct Answer"),
        ("Who discovered oxygen?", "Priestley", "The answer is Boyle", "Incorrect"),
    ]
    source = write_lines(tmp_path / "judged.jsonl", [dict(zip(names, row, strict=True)) for row in rows])
    mapped = ("--map", "raw_answer=gold", "--map", "label=human", *TEXT)

    done = import_file(source, *RECORD, *mapped, "--labels", "labels.csv")

    assert done.code == 0, done.err
    assert "2 labels" in done.out
    assert "After the run: karenina calibrate RESULTS labels.csv" in done.err
    assert run_imported(tmp_path) == {"q1-who-discovered-radium": True, "q2-who-discovered-oxygen": False}
    calibrated = karenina("calibrate", "out.results.jsonl", "labels.csv", "--json")
    assert calibrated.code == 0, calibrated.err
    assert calibrated.json["labelled"] == 2
    assert calibrated.json["verdicts"][0]["agreement"]["value"] == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--labels", "labels.csv"), "--labels requires --recordings FILE.jsonl"),
        ((*RECORD, "--labels", "labels.jsonl"), "--labels must name a CSV file, such as labels.csv"),
        ((*RECORD, "--labels", "labels.csv"), "has no human verdicts; map label to a path"),
    ],
)
def test_labels_that_cannot_be_written_are_refused(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    row = {"question": "Who?", "answer": "Curie", "response": "Curie"}

    done = import_file(write_lines(tmp_path / "a.jsonl", [row]), *arguments)

    assert done.code == 2
    assert problem in done.err


def test_a_list_is_found_beside_an_empty_key_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    goldens = [{"input": "Which city is the capital of Peru?", "expected_output": "Lima"}]
    write_json(Path("goldens.json"), {"test_cases": None, "goldens": goldens})

    assert import_file("goldens.json").code == 0
    assert [question.raw_answer for question in Benchmark.load("out.yaml")] == ["Lima"]
