"""Each format end to end: import, check, and judge the recorded answers with a scripted judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from imports import import_file, karenina, run_imported, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_core.plugins import Plugins
from karenina_importing.format_choice import import_formats
from karenina_importing.plugin import plugin

pytestmark = pytest.mark.alone

RECORD = ("--recordings", "answers.jsonl")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_samples_of_lm_eval(tmp_path: Path) -> None:
    def sample(id: int, question: str, target: str, *replies: str, filter: str = "strict") -> dict[str, Any]:
        return {
            "doc_id": id,
            "doc": {"question": question, "answer": target},
            "target": target,
            "arguments": {"gen_args_0": {"arg_0": f"Q: {question}\nA:", "arg_1": {"until": ["\n"]}}},
            "resps": [list(replies)],
            "filtered_resps": ["?"],
            "filter": filter,
            "doc_hash": "d1",
            "exact_match": 1.0,
        }

    france = ("Which city is the capital of France?", "Paris", "The answer is Paris.")
    peru = ("Which city is the capital of Peru?", "Lima", "The answer is Cusco.")
    rows = [sample(0, *france), sample(1, *peru), sample(0, *france, filter="flexible")]
    source = write_lines(tmp_path / "samples_capitals_2026-01-01.jsonl", rows)

    done = import_file(source, *RECORD, "--map", "answer=text")

    assert done.code == 0, done.err
    assert "2 questions from 2 rows of lm-evaluation-harness samples" in done.out
    assert run_imported(tmp_path) == {"doc-0": True, "doc-1": False}


def choice_sample(
    id: int, doc: dict[str, Any], target: str, context: str, continuations: Sequence[str]
) -> dict[str, Any]:
    """Return a sample of a multiple-choice task of lm-evaluation-harness, which has a request for each option."""
    requests = {f"gen_args_{at}": {"arg_0": context, "arg_1": f" {text}"} for at, text in enumerate(continuations)}
    replies = [[["-3.2", "False"]] for _ in continuations]
    return {"doc_id": id, "doc": doc, "target": target, "arguments": requests, "resps": replies, "acc": 1.0}


def truths() -> list[tuple[str | None, str | None]]:
    """Return the correct answer and the last line of the text of each question in `out.yaml`."""
    return [(question.raw_answer, question.question.splitlines()[-1]) for question in Benchmark.load("out.yaml")]


def test_targets_of_multiple_choice_samples_are_options_of_the_requests(tmp_path: Path) -> None:
    sciq = {"question": "What makes cheese?", "distractor1": "sun", "distractor2": "salt", "correct_answer": "bacteria"}
    rte = {"sentence1": "It rains.", "sentence2": "It is wet.", "label": 0}
    numbers = {"question": "What is 3 - 1?", "choices": ["3", "2", "1", "0"], "answer": 1}
    rows = [
        choice_sample(0, sciq, "2", "Question: What makes cheese?\nAnswer:", ["sun", "salt", "bacteria"]),
        choice_sample(1, rte, "0", "It rains.\nQuestion: It is wet. True or False?\nAnswer:", ["True", "False"]),
        choice_sample(2, numbers, "1", "What is 3 - 1?\nA. 3\nB. 2\nC. 1\nD. 0\nAnswer:", ["A", "B", "C", "D"]),
    ]

    done = import_file(write_lines(tmp_path / "samples_sciq.jsonl", rows))

    assert done.code == 0, done.err
    assert "answer: 3 questions with options" in done.err
    assert truths() == [("C. bacteria", "C. bacteria"), ("A. True", "B. False"), ("B. 2", "D. 0")]


def test_multiple_choice_samples_whose_options_are_only_in_the_request_ask_it(tmp_path: Path) -> None:
    doc = {"question": "Which is a gene?", "A": "BCL2", "B": "water", "answer": "A"}
    context = "Which is a gene?\nA. BCL2\nB. water\nAnswer:"
    source = write_lines(tmp_path / "samples_ceval.jsonl", [choice_sample(0, doc, "0", context, ["A", "B"])])

    done = import_file(source)

    assert done.code == 0, done.err
    assert [question.question for question in Benchmark.load("out.yaml")] == [context]
    assert truths() == [("A", "Answer:")]


def test_targets_that_are_not_the_index_of_one_option_are_left_out(tmp_path: Path) -> None:
    rows = [choice_sample(at, {"q": "x"}, target, f"Q{at}", ["a", "b"]) for at, target in enumerate(("[0, 1]", "-100"))]
    rows += [choice_sample(2, {"q": "x"}, "1", "Q2", ["a", "a"]), choice_sample(3, {"q": "x"}, "29", "Q3", [*"0" * 30])]
    rows.append(choice_sample(4, {"q": "x"}, "None", "Q4", ["None", "One"]))

    done = import_file(write_lines(tmp_path / "samples_mc2.jsonl", rows))

    assert done.code == 0, done.err
    assert "Not carried over: 4 target that is not the index of one option" in done.err
    assert [truth for truth, _ in truths()] == [None, None, None, None, "A. None"]


def test_targets_of_lm_eval_may_be_labels_of_options(tmp_path: Path) -> None:
    doc = {"question": "Which is red?", "choices": {"text": ["sun", "moon", "mars"], "label": ["1", "2", "3"]}}
    row = {"doc_id": 0, "doc": doc, "target": "3", "resps": [["It is 3."]], "filtered_resps": ["3"]}

    done = import_file(write_lines(tmp_path / "samples_arc_chat.jsonl", [row]))

    assert done.code == 0, done.err
    assert truths() == [("C. mars", "C. mars")]


def test_likelihoods_of_whole_texts_are_not_recorded_as_answers(tmp_path: Path) -> None:
    arguments = {"gen_args_0": {"arg_0": "A long text."}}
    row = {"doc_id": 0, "doc": {"page": "A long text."}, "target": "A long text.", "arguments": arguments}
    source = write_lines(tmp_path / "samples_wikitext.jsonl", [{**row, "resps": [["-10.5"]]}])

    refused = import_file(source, *RECORD)

    assert refused.code == 2
    assert "has no answers; remove --recordings" in refused.err


def test_passages_that_are_only_in_the_requests_of_lm_eval_are_named(tmp_path: Path) -> None:
    passage = "The team played in Lima, where it won by three goals to two."
    doc = {"passage": passage, "question": "Where did the team win?", "query_id": "q"}
    request = f"Passage: {passage}\nQuestion: Where did the team win?\nAnswer:"
    arguments = {"gen_args_0": {"arg_0": request, "arg_1": {"until": ["."]}}}
    row = {"doc_id": 0, "doc": doc, "target": "Lima", "arguments": arguments, "resps": [["Lima"]]}
    source = write_lines(tmp_path / "samples_drop.jsonl", [row])

    done = import_file(source)
    whole = import_file(source, "--map", "question=request")

    assert done.code == whole.code == 0, done.err + whole.err
    assert "the requests also contain doc.passage, which the documents' questions do not; --map question=r" in done.err
    assert [question.question for question in Benchmark.load("out.yaml")] == [request]


def test_placeholder_targets_of_lm_eval_are_not_correct_answers(tmp_path: Path) -> None:
    doc = {"key": 1000, "prompt": "Write a summary without commas.", "instruction_id_list": ["punctuation:no_comma"]}
    row = {"doc_id": 0, "doc": doc, "target": "0", "resps": [["So it is."]], "filtered_resps": ["So it is."]}

    done = import_file(write_lines(tmp_path / "samples_ifeval.jsonl", [row]))

    assert done.code == 0, done.err
    assert "Not carried over: 1 instruction check" in done.err
    assert truths() == [(None, "Write a summary without commas.")]


def test_several_options_that_the_document_labels_as_right_are_left_out(tmp_path: Path) -> None:
    def targets(*labels: int) -> dict[str, Any]:
        return {"choices": ["Nothing", "You sleep", "You grow"][: len(labels)], "labels": [*labels]}

    doc = {"question": "What happens?", "mc1_targets": targets(1, 0), "mc2_targets": targets(1, 1, 0)}
    rows = [
        choice_sample(at, doc, "0", f"Q{at}: What happens?", doc[key]["choices"])
        for at, key in enumerate(("mc1_targets", "mc2_targets"))
    ]

    done = import_file(write_lines(tmp_path / "samples_mc2.jsonl", rows), "--map", "question=request")

    assert done.code == 0, done.err
    assert "Not carried over: 1 target that is not the index of one option" in done.err
    assert [truth for truth, _ in truths()] == ["A. Nothing", None]


def test_options_of_winogrande_are_in_the_document(tmp_path: Path) -> None:
    def sample(id: int, **doc: Any) -> dict[str, Any]:
        texts = [f"It was too small for the {option}, because the {option}" for option in ("trophy", "case")]
        requests = {f"gen_args_{at}": {"arg_0": text, "arg_1": f" was big in {id}."} for at, text in enumerate(texts)}
        target = f"was big in {id}."
        return {"doc_id": id, "doc": doc, "target": target, "arguments": requests, "resps": [[["-1", "False"]]] * 2}

    sentence = "It was too small, because the _ was big in 0."
    rows = [sample(0, sentence=sentence, option1="trophy", option2="case", answer="2"), sample(1, label=0)]

    done = import_file(write_lines(tmp_path / "samples_winogrande.jsonl", rows))

    assert done.code == 0, done.err
    assert "Not carried over: 1 target that is not the index of one option" in done.err
    first, second = Benchmark.load("out.yaml")
    assert (first.question, first.raw_answer) == (f"{sentence}\n\nA. trophy\nB. case", "B. case")
    assert second.raw_answer is None


def test_spans_of_drop_are_alternatives_or_all_needed(tmp_path: Path) -> None:
    parts = {"number": "", "date": {}, "spans": ["x"]}
    samples: list[tuple[str, dict[str, Any]]] = [
        ("[('Paris',), ('Paris FC',)]", {}),
        ("[('Paris', 'Rome'), ('Rome', 'paris')]", {}),
        ("[('Paris', 'Rome'), ('Rome',)]", {}),
        ("number,date,spans", {"answer": parts, "answers": [["3"]]}),
        ("number,date,spans", {"answer": parts}),
        ("None", {}),
        ("None", {"answer": "None"}),
        ("None", {"choices": ["None", "One"]}),
        ("A,B", {"options": {"A": "x", "B": "y"}}),
        ("text", {"answer": {"text": "x"}}),
    ]
    rows = [
        {"doc_id": id, "doc": {"question": f"Question {id}", **doc}, "target": target, "resps": [["Paris"]]}
        for id, (target, doc) in enumerate(samples)
    ]

    done = import_file(write_lines(tmp_path / "samples_drop.jsonl", rows))

    assert done.code == 0, done.err
    assert "Not carried over: 2 target that is not an answer" in done.err
    assert "are not compared with responses" not in done.err
    one, all_, several, number, *_ = Benchmark.load("out.yaml")
    shown = ["Paris or Paris FC", "Paris; Rome", "Paris; Rome or Rome", "3", None, None]
    shown += ["None", "A. None", "A. x; B. y", "text"]
    assert [truth for truth, _ in truths()] == shown
    assert "'paris fc': 'paris'" in str(one.answer_template)
    assert "SetContainment" in str(all_.answer_template)
    assert several.answer_template is None
    assert "none of it: Paris; Rome" in str(several.rubric)
    assert "NumberWithUnit" in str(number.answer_template)


def test_multiple_choice_samples_of_lm_eval_have_no_texts(tmp_path: Path) -> None:
    doc = {"question": "What is the capital of Peru?", "choices": {"text": ["Cusco", "Lima"], "label": ["A", "B"]}}
    row = {"doc_id": 7, "doc": doc, "target": "1", "resps": [[["-3.2", "False"]], [["-1.2", "True"]]]}
    source = write_lines(tmp_path / "samples_arc.jsonl", [row])

    refused = import_file(source, *RECORD)
    done = import_file(source, "--map", "answer=choice")

    assert refused.code == 2
    assert "has no answers that can be recorded" in refused.err
    assert "line 1: the row has an error instead of an answer: the model was asked for likelihoods only" in refused.err
    assert done.code == 0, done.err
    (question,) = Benchmark.load("out.yaml")
    assert question.question == "What is the capital of Peru?\n\nA. Cusco\nB. Lima"
    assert question.raw_answer == "B. Lima"
    assert "verify_with=Choice(options={'A': 'Cus" in str(question.answer_template)


SAMPLES = [
    {
        "id": "france",
        "epoch": epoch,
        "input": [{"role": "user", "content": "attachment://a1"}],
        "choices": ["Lyon", "Paris"],
        "target": "B",
        "attachments": {"a1": "Which city is the capital of France?"},
        "messages": [],
        "output": {"choices": [{"message": {"role": "assistant", "content": reply}}]},
    }
    for epoch, reply in (
        (1, "The answer is B."),
        (2, [{"type": "reasoning", "reasoning": "A?"}, {"type": "text", "text": "The answer is A."}]),
    )
]
FAILED = {"id": 2, "epoch": 1, "input": "Peru?", "choices": ["Lima", "Cusco"], "target": "A", "output": {}}
ABOUT = {"version": 2, "status": "success", "eval": {"task": "capitals", "model": "openai/gpt-x"}}


@pytest.mark.parametrize("suffix", [".json", ".eval"])
def test_logs_of_inspect(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / f"log{suffix}"
    samples = [*SAMPLES, {**FAILED, "error": {"message": "timed out", "traceback": ""}}]
    if suffix == ".json":
        write_json(source, {**ABOUT, "samples": samples})
    else:
        with ZipFile(source, "w", ZIP_DEFLATED) as archive:
            archive.writestr("_journal/start.json", json.dumps(ABOUT))
            for sample in samples:
                archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
            archive.writestr("header.json", json.dumps(ABOUT))

    done = import_file(source, *RECORD, "--map", "answer=choice")

    assert done.code == 0, done.err
    assert (
        "2 questions from 3 rows (1 repeating the question of an earlier row) of an Inspect log or dataset" in done.out
    )
    assert "2 recorded answers" in done.out
    assert "(id 2, epoch 1): the row has an error instead of an answer: timed out" in done.err
    recorded = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert [(recording["replicate"], recording["model"], recording["response"]) for recording in recorded] == [
        (1, "openai/gpt-x", "The answer is B."),
        (2, "openai/gpt-x", "The answer is A."),
    ]
    assert run_imported(tmp_path, *RECORD, "--partial", "--question", "france") == {"france": True}


def test_archives_of_inspect_are_benchmarks_without_an_import(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("samples/france_epoch_1.json", json.dumps(SAMPLES[0]))

    (question,) = Benchmark.load(tmp_path / "log.eval")

    assert question.raw_answer == "B. Paris"


def test_records_of_openai_evals(tmp_path: Path) -> None:
    def event(id: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"run_id": "r", "event_id": 0, "sample_id": id, "type": kind, "data": data, "created_at": "now"}

    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "The capital of France?"}]
    rows = [
        {"spec": {"completion_fns": ["gpt-x"], "eval_name": "capitals.test.v0", "run_id": "r"}},
        event("c.test.0", "sampling", {"prompt": prompt, "sampled": ["The answer is Paris."]}),
        event("c.test.1", "sampling", {"prompt": "The capital of Peru?", "sampled": "The answer is Cusco."}),
        event("c.test.0", "match", {"correct": True, "expected": "Paris", "picked": "Paris"}),
        event("c.test.1", "match", {"correct": False, "expected": ["Lima", "Ciudad de Lima"], "picked": None}),
        {"final_report": {"accuracy": 0.5}},
    ]
    source = write_lines(tmp_path / "record.jsonl", rows)

    done = import_file(source, *RECORD, "--map", "answer=text")

    assert done.code == 0, done.err
    assert "2 questions from 2 rows of an OpenAI Evals run or samples" in done.out
    assert run_imported(tmp_path) == {"c.test.0": True, "c.test.1": False}
    first, second = Benchmark.load("out.yaml")
    assert first.question == "System: Be brief.\n\nUser: The capital of France?"
    assert second.raw_answer == "Lima or Ciudad de Lima"


def test_runs_of_openai_evals_in_one_file_have_their_own_models(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for model, reply in (("gpt-x", "It is Paris."), ("gpt-y", "It is Rome.")):
        event = {"run_id": f"run of {model}", "event_id": 0, "sample_id": "c.test.0", "created_at": "now"}
        asked = {"prompt": "The capital of France?", "sampled": [reply]}
        graded = {"correct": "Paris" in reply, "expected": "Paris", "picked": None}
        rows.append({"spec": {"completion_fns": [model], "eval_name": "capitals.test.v0"}})
        rows += [{**event, "type": "sampling", "data": asked}, {**event, "type": "match", "data": graded}]
        rows.append({"final_report": {"accuracy": float("Paris" in reply)}})

    done = import_file(write_lines(tmp_path / "records.jsonl", rows), *RECORD)

    assert done.code == 0, done.err
    recorded = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert [(answer["id"], answer["model"], answer["response"]) for answer in recorded] == [
        ("c.test.0", "gpt-x", "It is Paris."),
        ("c.test.0", "gpt-y", "It is Rome."),
    ]


def test_samples_of_openai_evals(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "1 + 1?"}]
    rows = [{"input": chat, "ideal": ["2", "two"]}, {"input": "2 + 2?", "ideal": "4"}]
    source = write_lines(tmp_path / "samples.jsonl", rows)

    assert import_file(source, "--map", "answer=text").code == 0
    write_lines(
        tmp_path / "answers.jsonl",
        [
            {"question": "1 + 1?", "response": "The answer is two."},
            {"question": "2 + 2?", "response": "The answer is 5."},
        ],
    )

    assert run_imported(tmp_path) == {"q1-1-1": True, "q2-2-2": False}


@pytest.mark.parametrize("version", [2, 3])
def test_results_of_promptfoo(tmp_path: Path, version: int) -> None:
    def result(prompt: str, expected: str, output: str, provider: str) -> dict[str, Any]:
        about = {"id": provider, "label": ""}
        return {
            "prompt": {"raw": prompt, "label": "p"},
            "vars": {"country": "x"},
            "provider": about,
            "response": {"output": output},
            "testCase": {"assert": [{"type": "latency", "threshold": 5}, {"type": "icontains", "value": expected}]},
            "success": True,
        }

    chat = json.dumps([{"role": "user", "content": "The capital of France?"}])
    rows = [
        result(chat, "Paris", "The answer is Paris.", "openai:a"),
        result(chat, "Paris", "The answer is Lyon.", "openai:b"),
        {**result("Of Peru?", "Lima", "", "openai:a"), "response": {"error": "429 Too Many Requests"}},
        result("Of Peru?", "Lima", "The answer is Lima.", "openai:b"),
    ]
    source = write_json(
        tmp_path / "results.json",
        {"evalId": "e", "results": {"version": version, "results": rows, "stats": {}}, "config": {}},
    )

    done = import_file(source, *RECORD, "--map", "answer=text")

    assert done.code == 0, done.err
    assert "result 3: the row has an error instead of an answer: 429 Too Many Requests" in done.err
    assert "The recordings are from 2 models: openai:a, openai:b" in done.err
    chosen = done.err.partition("--answering '")[2].partition("'")[0].replace("openai:a", "openai:b")
    assert run_imported(tmp_path, "--answering", chosen) == {"q1-the-capital-of": False, "q2-of-peru": True}


def test_refusals_that_promptfoo_marks_are_recorded_as_refusals(tmp_path: Path) -> None:
    response = {"output": "I cannot help.", "isRefusal": True, "finishReason": "stop"}
    rows = [
        {
            "prompt": {"raw": "Who?"},
            "vars": {},
            "provider": {"id": "a"},
            "response": response,
            "testCase": {},
            "success": True,
        }
    ]
    source = write_json(tmp_path / "results.json", {"results": {"version": 3, "results": rows}, "config": {}})

    done = import_file(source, *RECORD)

    assert done.code == 0, done.err
    assert json.loads(Path("answers.jsonl").read_text("utf-8"))["finish_reason"] == "refusal"


def test_parquet_files_of_hugging_face(tmp_path: Path) -> None:
    from pyarrow import Table
    from pyarrow.parquet import write_table

    rows = [
        {"id": "a", "question": "The capital of France?", "answers": {"text": ["Paris", "paris"], "start": [1, 2]}},
        {"id": "b", "question": "The capital of Peru?", "answers": {"text": ["Lima"], "start": [1]}},
    ]
    write_table(Table.from_pylist(rows), tmp_path / "validation.parquet")
    write_lines(
        tmp_path / "answers.jsonl",
        [{"id": "a", "response": "The answer is Paris."}, {"id": "b", "response": "The answer is Lyon."}],
    )

    done = import_file("validation.parquet", "--map", "answer=text")

    assert done.code == 0, done.err
    assert run_imported(tmp_path) == {"a": True, "b": False}
    assert [question.id for question in Benchmark.load("validation.parquet")] == ["a", "b"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_tables_with_questions_and_answers_of_models(tmp_path: Path, kind: str) -> None:
    rows = [
        {"problem": "1 + 1?", "gold": "so 1 + 1 = 2 #### 2", "output": "The answer is 2", "who": "m"},
        {"problem": "2 + 2?", "gold": "#### 4", "output": "The answer is 5", "who": "m"},
    ]
    source = tmp_path / f"math.{kind}"
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        source.write_text("\n".join(lines), "utf-8")
    elif kind == "jsonl":
        write_lines(source, rows)
    else:
        write_json(source, rows)
    paths = ("raw_answer=gold", "response=output", "model=who", "answer=integer", r"answer_pattern=#### (\d+)")

    done = import_file(source, *RECORD, *(word for path in paths for word in ("--map", path)))

    assert done.code == 0, done.err
    assert run_imported(tmp_path) == {"q1-1-1": True, "q2-2-2": False}


def test_the_formats_are_offered_through_the_hook() -> None:
    keys = {import_format.key for import_format in import_formats(Plugins.discover())}

    assert keys >= {"huggingface", "lm-eval", "inspect", "openai-evals", "promptfoo", "deepeval", "pydantic-evals"}
    assert keys >= {"langsmith", "langfuse", "helm", "lm-eval-task", "openai-evals-registry"}


def test_formats_are_listed_as_their_modules_name_them() -> None:
    listed = plugin.karenina_formats()
    loaded = [unloaded.load() for unloaded in listed]

    assert [(unloaded.key, unloaded.name, unloaded.suffixes) for unloaded in listed] == [
        (import_format.key, import_format.name, import_format.suffixes) for import_format in loaded
    ]


def test_options_that_are_letters_are_not_repeated_after_a_question_that_has_them(tmp_path: Path) -> None:
    question = "Which city is the capital?\n\nA) Quito\nB) Lima\nC) Cusco\nReply with A/B/C."
    row = {"question": question, "choices": ["A", "B", "C"], "answer": "B"}
    write_lines(tmp_path / "rows.jsonl", [row])

    done = import_file("rows.jsonl")

    assert done.code == 0, done.err
    (first,) = Benchmark.load("out.yaml")
    assert first.question == question
    assert first.raw_answer == "B"


def test_labelled_targets_of_lm_eval_are_lists_in_any_order(tmp_path: Path) -> None:
    def sample(id: int, target: str) -> dict[str, Any]:
        return {
            "doc_id": id,
            "doc": {"text": "x"},
            "target": target,
            "arguments": {"gen_args_0": {"arg_0": f"Which entities are in text {id}?"}},
            "resps": [["none"]],
        }

    targets = ["PER: Ada $$ LOC: Lima $$ PER: Ada", "PER: Bo", ""]
    write_lines(tmp_path / "samples_ner.jsonl", [sample(id, target) for id, target in enumerate(targets)])

    done = import_file("samples_ner.jsonl")

    assert done.code == 0, done.err
    templates = [str(question.answer_template) for question in Benchmark.load("out.yaml")]
    truths = ("['PER: Ada', 'LOC: Lima']", "['PER: Bo']", "[]")
    assert all(truth in text for truth, text in zip(truths, templates, strict=True))
    assert all("SetContainment" in text for text in templates)
    checked = karenina("check", "out.yaml")
    assert "3 questions read: 0 errors, 0 warnings" in checked.out, checked.out


def test_references_of_a_log_repeat_no_more_than_a_file_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes could refer to any number of messages, or of long texts."""
    monkeypatch.setenv("KARENINA_MAX_FILE_BYTES", "1000000")
    sample = {"id": 1, "epoch": 1, "input": "Which city?", "target": "Rome"}
    message = {"role": "assistant", "content": "x" * 10_000}
    with ZipFile(tmp_path / "a.eval", "w", ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1/sample.json", json.dumps({**sample, "message_refs": [[0, 1]] * 200}))
        archive.writestr("samples/1_epoch_1/messages/0.json", json.dumps([message]))
    repeated = {**sample, "messages": [{**message, "content": "attachment://a"}] * 200}
    log = {**ABOUT, "samples": [{**repeated, "attachments": {"a": "x" * 10_000}}]}
    (tmp_path / "b.json").write_text(json.dumps(log), "utf-8")

    for name in ("a.eval", "b.json"):
        done = import_file(name, "--from", "inspect", "--recordings", "r.jsonl")
        assert done.code == 2
        assert "the samples up to this point, including the parts they refer to, exceed the file size limit" in done.err
        assert not (tmp_path / "r.jsonl").exists()


def test_an_import_writes_no_more_than_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_MAX_FILE_BYTES", "1000000")
    rows = [{"question": f"q{number}", "context": "x" * 500} for number in range(1000)]
    (tmp_path / "t.json").write_text(json.dumps(rows), "utf-8")

    assert import_file("t.json", "--map", "question={question} {context}").code == 0
    done = import_file("t.json", "--map", "question={question} {context} {context}")
    assert done.code == 2
    assert "the questions up to this point are larger than 1 MB" in done.err


def test_the_rows_of_a_source_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_MAX_FILE_BYTES", "100000")
    (tmp_path / "log.json").write_text(json.dumps({**ABOUT, "samples": [{}] * 20_001}), "utf-8")

    done = import_file("log.json", "--from", "inspect")

    assert done.code == 2
    assert "the source has more than 20,000 rows; import fewer rows with --limit" in done.err
