"""`karenina.evaluate`, `aevaluate` and `karenina judge`: outputs that already exist are judged."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, registered, run_karenina

from karenina import Outcome, aevaluate, evaluate
from karenina.rubrics import RegexRubricTrait
from karenina.templates import BaseAnswer, ExactMatch, VerifiedField
from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError, RunError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, ErrorCategory, Message, PortError
from karenina_core.plugins import Plugins
from karenina_engine.results.result_set import VerificationResultSet
from karenina_testing import ScriptedModels

pytestmark = pytest.mark.usefixtures("own_folder")
TEMPLATE = """from karenina.templates import BaseAnswer, ExactMatch, VerifiedField


class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
DOI = RegexRubricTrait(name="doi", pattern="doi:")
CONVERSATION = [
    {"role": "user", "content": "Which gene?"},
    {"role": "assistant", "content": "It is BCL2."},
]


class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())


class Judge:
    """A judge that extracts the first word in capitals, and notes its prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.models = ScriptedModels(fill=self._fill)

    def _fill(self, messages: Sequence[Message], _schema: Mapping[str, Any], _info: CallInfo) -> Mapping[str, Any]:
        prompt = messages[-1].content
        self.prompts.append(prompt)
        if "unreachable" in prompt:
            raise PortError("no connection", category=ErrorCategory.PERMANENT)
        found = re.search(r"\b(BCL2|TP53)\b", prompt)
        return {"gene": found[0] if found is not None else None}


@pytest.fixture
def judge() -> Iterator[Judge]:
    judge = Judge()
    with registered(judge.models):
        yield judge


def command(*arguments: str | Path) -> CommandResult:
    return run_karenina("judge", *arguments, plugins=plugin_room.active_plugins())


def test_a_limit_that_is_reached_first_is_an_error(judge: Judge) -> None:
    with pytest.raises(RunError, match="its budget or run_timeout was reached"):
        evaluate(response="It is BCL2.", template=Answer, judge="scripted:j", config={"run_timeout": 0.00001})
    assert judge.prompts == []


def test_a_text_is_judged_by_a_template(judge: Judge) -> None:
    right = evaluate(response="It is BCL2.", template=Answer, judge="scripted:j")
    wrong = evaluate(response="It is TP53.", template=TEMPLATE, judge={"interface": "scripted", "model_name": "j"})

    assert (right.outcome, right.template.parsed_llm_response) == (Outcome.CORRECT, {"gene": "BCL2"})
    assert (wrong.outcome, wrong.template.parsed_gt_response) == (Outcome.WRONG, {"gene": "BCL2"})
    assert len(judge.prompts) == 2


def test_a_conversation_is_judged_by_its_last_answer(judge: Judge) -> None:
    found = evaluate(
        response=CONVERSATION, template=Answer, judge=ModelConfig(id="j", interface="scripted", model_name="j")
    )

    assert found.outcome is Outcome.CORRECT
    assert found.evaluation_input == "It is BCL2."
    assert found.template.trace_messages


def test_a_text_is_scored_by_traits_without_a_judge() -> None:
    found = evaluate(response="see doi:10.1000/182", rubric=[DOI])

    assert found.outcome is Outcome.SCORED
    assert found.rubric is not None
    assert found.rubric.get_all_trait_scores() == {"doi": True}


def test_template_and_rubric_are_combined(judge: Judge) -> None:
    found = evaluate(response="BCL2", template=Answer, rubric=[DOI], judge="scripted:j", question="Which gene?")

    assert found.outcome is Outcome.CORRECT
    assert found.rubric is not None
    assert found.rubric.get_all_trait_scores() == {"doi": False}
    assert found.metadata.question_text == "Which gene?"


def test_outputs_are_judged_in_a_running_loop(judge: Judge) -> None:
    async def both() -> list[Outcome]:
        texts = ("It is BCL2.", "It is TP53.")
        found = await asyncio.gather(*(aevaluate(response=one, template=Answer, judge="scripted:j") for one in texts))
        return [one.outcome for one in found]

    assert asyncio.run(both()) == [Outcome.CORRECT, Outcome.WRONG]


def test_a_journal_spares_the_second_call(judge: Judge) -> None:
    for _ in range(2):
        evaluate(response="It is BCL2.", template=Answer, judge="scripted:j", journal="replies.journal")

    assert len(judge.prompts) == 1


def test_a_failing_judge_is_not_a_wrong_answer(judge: Judge) -> None:
    assert evaluate(response="unreachable", template=Answer, judge="scripted:j").outcome is Outcome.PARSE_ERROR


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pass template=, rubric= or both"),
        ({"rubric": [DOI], "config": {"answering_models": []}}, "answering_models cannot be set here"),
        ({"rubric": [DOI], "judge": "scripted:j", "config": {"parsing_models": []}}, "both specify judges"),
        ({"rubric": [DOI], "judge": "gpt-5"}, "does not name the interface of the model; write interface:model_name"),
        ({"rubric": [DOI], "config": {"abstention_enabld": True}}, "did you mean 'abstention_enabled'"),
    ],
)
def test_bad_arguments_are_refused_with_a_cure(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        evaluate(response="BCL2", **arguments)


def test_a_file_of_outputs_is_judged(judge: Judge) -> None:
    lines = [{"response": "It is BCL2."}, "It is TP53.", {"id": "chat", "messages": CONVERSATION, "question": "Which?"}]
    Path("out.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.jsonl", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    assert "2 of 3 judged" in done.out
    found = {one.question_id: one for one in VerificationResultSet.load("out.results.jsonl")}
    assert {name: one.outcome.value for name, one in found.items()} == {
        "line-1": "correct",
        "line-2": "wrong",
        "chat": "correct",
    }
    assert found["chat"].metadata.question_text == "Which?"
    assert command("out.jsonl", "--template", "t.py", "-j", "scripted:j", "--fail-under", "0.9").code == 1
    assert len(judge.prompts) == 3


def test_a_template_that_is_not_python_is_refused_before_a_call(judge: Judge) -> None:
    Path("out.txt").write_text("It is BCL2.", "utf-8")
    Path("t.yaml").write_text("answer:\n  gene: {ground_truth: BCL2}\n", "utf-8")

    done = command("out.txt", "--template", "t.yaml", "-j", "scripted:j")

    assert done.code == 2
    assert "the template t.yaml, line 1, is not Python" in done.err
    assert "pass a Python file with a class named Answer" in done.err
    assert judge.prompts == []


@pytest.mark.parametrize("again", ["resume", "rescore"])
def test_a_journal_of_outputs_is_not_taken_for_somebody_elses(judge: Judge, again: str) -> None:
    Path("out.txt").write_text("It is BCL2.", "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    assert command("out.txt", "--template", "t.py", "-j", "scripted:j").code == 0
    done = run_karenina(again, "out.journal", plugins=plugin_room.active_plugins())

    assert done.code == 2
    assert "belongs to a run without a benchmark file, such as one of `karenina judge`" in done.err
    assert "repeat that command" in done.err


def test_a_table_of_outputs_is_judged_by_rows(judge: Judge) -> None:
    Path("out.csv").write_text("id,Response,question\na,It is BCL2.,Which?\n,It is TP53.,\n", "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.csv", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    found = {one.question_id: one for one in VerificationResultSet.load("out.results.jsonl")}
    assert {name: one.outcome.value for name, one in found.items()} == {"a": "correct", "line-3": "wrong"}
    assert found["a"].metadata.question_text == "Which?"


def test_a_list_of_outputs_in_json_is_many_outputs(judge: Judge) -> None:
    rows = [
        {"input": "Which?", "actual_output": "It is BCL2.", "expected_output": "BCL2"},
        {"input": "Which one?", "actual_output": "It is TP53.", "expected_output": "BCL2"},
    ]
    Path("out.json").write_text(json.dumps(rows), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.json", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    assert "the correct answers in 'expected_output' are not used" in done.err
    found = VerificationResultSet.load("out.results.jsonl")
    assert [(one.metadata.question_text, one.outcome.value) for one in found] == [
        ("Which?", "correct"),
        ("Which one?", "wrong"),
    ]


def test_outputs_of_other_names_and_places_are_mapped(judge: Judge) -> None:
    Path("out.json").write_text(json.dumps({"log": [{"said": "It is BCL2.", "nr": 7}]}), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    given = ("--template", "t.py", "-j", "scripted:j", "--rows", "log", "--columns")
    done = command("out.json", *given, "response=said,id=nr")

    assert done.code == 0, done.err
    assert [one.question_id for one in VerificationResultSet.load("out.results.jsonl")] == ["7"]
    assert "has no 'reply'; the available names are said, nr" in command("out.json", *given, "response=reply").err
    refused = command("out.json", *given, "answer=said").err
    assert "cannot map 'answer'; for outputs, --columns maps only response, id and question" in refused


def test_a_conversation_in_json_stays_one_output(judge: Judge) -> None:
    Path("chat.json").write_text(json.dumps(CONVERSATION), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("chat.json", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    assert [one.question_id for one in VerificationResultSet.load("chat.results.jsonl")] == ["chat.json"]


def test_a_table_without_outputs_is_refused(judge: Judge) -> None:
    Path("out.csv").write_text("prompt,reply\nWhich?,BCL2\n", "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.csv", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 2
    assert (
        "has no `response` column; rename the column that contains the outputs to `response`; the columns are prompt, "
        "reply" in done.err
    )
    assert not judge.prompts


def test_a_text_file_is_one_output(judge: Judge) -> None:
    Path("answer.txt").write_text("see doi:10.1000/182", "utf-8")
    Path("rubric.yaml").write_text(
        'karenina: 1\nname: r\nrubric:\n  - {name: doi, type: regex, pattern: "doi:"}\nquestions:\n'
        "  - {question: q, answer: {gene: {description: d, ground_truth: x}}}\n",
        "utf-8",
    )
    done = command("answer.txt", "--rubric", "rubric.yaml")

    assert done.code == 0, done.err
    assert [one.question_id for one in VerificationResultSet.load("answer.results.jsonl")] == ["answer.txt"]


COMPLETION = {"id": "c1", "object": "chat.completion", "choices": [{"message": CONVERSATION[1]}]}
EVENTS = [
    {"type": "summary", "summary": "Genes", "leafUuid": "2"},
    {"type": "user", "uuid": "1", "message": {"role": "user", "content": "TP53 or another gene?"}},
    {"type": "assistant", "uuid": "2", "message": {"content": [{"type": "text", "text": "It is BCL2."}]}},
]
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is BCL2."}]}
ROLLOUT = [
    {"timestamp": "t", "type": "session_meta", "payload": {"id": "1", "cwd": "/home/ada/genes"}},
    {"timestamp": "t", "type": "event_msg", "payload": {"type": "task_started"}},
    {"timestamp": "t", "type": "response_item", "payload": {**SAID, "role": "user"}},
    {"timestamp": "t", "type": "response_item", "payload": SAID},
    {"timestamp": "t", "type": "event_msg", "payload": {"type": "task_complete", "last_agent_message": "It is BCL2."}},
]
EXEC = [
    {"type": "thread.started", "thread_id": "1"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "It is BCL2."}},
    {"type": "turn.completed", "usage": {"input_tokens": 9}},
]
GEMINI = [
    {"sessionId": "1", "projectHash": "2", "startTime": "t", "lastUpdated": "t"},
    {"id": "1", "timestamp": "t", "type": "user", "content": [{"text": "TP53 or another gene?"}]},
    {"id": "2", "timestamp": "t", "type": "gemini", "content": "It is BCL2.", "model": "m"},
]
GEMINI_STREAM = [
    {"type": "init", "timestamp": "t", "session_id": "1", "model": "m"},
    {"type": "message", "timestamp": "t", "role": "user", "content": "TP53 or another gene?"},
    {"type": "message", "timestamp": "t", "role": "assistant", "content": "It is ", "delta": True},
    {"type": "message", "timestamp": "t", "role": "assistant", "content": "BCL2.", "delta": True},
    {"type": "result", "timestamp": "t", "status": "success", "stats": {}},
]
GEMINI_OUTPUT = {"session_id": "1", "response": "It is BCL2.", "stats": {"models": {}}}
ADK = [
    {"author": "user", "content": {"role": "user", "parts": [{"text": "TP53 or another gene?"}]}, "actions": {}},
    {"author": "guide", "content": {"role": "model", "parts": [{"text": "It is BCL2."}]}, "actions": {}},
]
PYDANTIC_AI = [
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "TP53 or another gene?"}]},
    {"kind": "response", "parts": [{"part_kind": "text", "content": "It is BCL2."}], "finish_reason": "stop"},
]
UI_MESSAGES = [
    {"id": "1", "role": "user", "parts": [{"type": "text", "text": "TP53 or another gene?"}]},
    {"id": "2", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "It is BCL2."}]},
]
AG_UI = [
    {"type": "RUN_STARTED", "threadId": "1", "runId": "1"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "It is BCL2."},
    {"type": "RUN_FINISHED", "threadId": "1", "runId": "1", "result": {"x": 1}},
]
TRAJECTORY = {
    "environment": "e",
    "history": [{"role": "user", "content": "TP53 or another gene?", "agent": "main"}],
    "trajectory": [],
    "info": {"exit_status": "submitted", "submission": "It is BCL2."},
}
SPAN = {"attributes": {"llm.output_messages.0.message.content": "It is BCL2.", "openinference.span.kind": "LLM"}}
TRANSCRIPT = "User: TP53 or another gene?\nAssistant: It is BCL2.\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("talk.json", json.dumps({"messages": CONVERSATION})),
        ("talk.json", json.dumps(CONVERSATION)),
        ("talk.json", json.dumps(COMPLETION)),
        ("talk.jsonl", "\n".join(map(json.dumps, EVENTS))),
        ("talk.jsonl", "\n".join(map(json.dumps, CONVERSATION))),
        *(
            (f"talk.{ending}", write(recording))
            for recording in (ROLLOUT, EXEC, GEMINI, GEMINI_STREAM, ADK, PYDANTIC_AI, UI_MESSAGES, AG_UI)
            for ending, write in (("jsonl", lambda lines: "\n".join(map(json.dumps, lines))), ("json", json.dumps))
        ),
        ("talk.json", json.dumps(GEMINI_OUTPUT)),
        ("talk.json", json.dumps(SPAN)),
        ("talk.json", json.dumps({"id": "s", "app_name": "a", "user_id": "u", "events": ADK})),
        ("talk.traj", json.dumps(TRAJECTORY, indent=2)),
        ("talk.txt", TRANSCRIPT),
    ],
)
def test_a_file_with_one_conversation_is_one_output(judge: Judge, name: str, text: str) -> None:
    Path(name).write_text(text, "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command(name, "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    assert f"{name} was read as one conversation, and its last answer is judged." in done.err
    assert "WARNING" not in done.err
    (found,) = VerificationResultSet.load("talk.results.jsonl")
    assert (found.question_id, found.outcome, found.evaluation_input) == (name, Outcome.CORRECT, "It is BCL2.")


@pytest.mark.parametrize("lines", [EVENTS, ROLLOUT[:-1]])
def test_a_conversation_whose_last_line_is_cut_off_is_not_judged(judge: Judge, lines: list[Any]) -> None:
    whole = "\n".join(map(json.dumps, lines))
    Path("talk.jsonl").write_text(f'{whole}\n{{"type": "resp', "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("talk.jsonl", "--template", "t.py", "-j", "scripted:j")

    assert f"talk.jsonl, line {len(lines) + 1} cannot be read, and is taken as the end of a conversation" in done.err
    (found,) = VerificationResultSet.load("talk.results.jsonl")
    assert (found.outcome.value, judge.prompts) == ("model_error", [])


def test_a_row_that_is_cut_off_is_an_error(judge: Judge) -> None:
    Path("t.py").write_text(TEMPLATE, "utf-8")
    for whole in ('{"response": "It is BCL2."}', json.dumps(CONVERSATION[1])):
        Path("out.jsonl").write_text(f'{whole}\n{{"resp', "utf-8")
        done = command("out.jsonl", "--template", "t.py", "-j", "scripted:j")
        assert (done.code, "out.jsonl, line 2" in done.err, judge.prompts) == (2, True, [])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_text_from_a_pipe_is_read_once(judge: Judge) -> None:
    os.mkfifo("pipe")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    writer = threading.Thread(target=lambda: Path("pipe").write_text("It is BCL2.", "utf-8"), daemon=True)
    writer.start()
    done = command("pipe", "--template", "t.py", "-j", "scripted:j", "-o", "out.jsonl")

    assert done.code == 0, done.err
    assert [one.outcome for one in VerificationResultSet.load("out.jsonl")] == [Outcome.CORRECT]


def test_lines_that_are_conversations_themselves_are_outputs(judge: Judge) -> None:
    state = {"id": "graph", "messages": [{"type": "human", "content": "?"}, {"type": "ai", "content": "It is TP53."}]}
    prompt_and_reply = {"messages": CONVERSATION[:1], "completion": "It is TP53."}
    Path("out.jsonl").write_text("\n".join(map(json.dumps, [COMPLETION, state, prompt_and_reply])), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.jsonl", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    found = {one.question_id: one.outcome.value for one in VerificationResultSet.load("out.results.jsonl")}
    assert found == {"c1": "correct", "graph": "wrong", "line-3": "wrong"}


def test_texts_that_look_like_conversations_are_named(judge: Judge) -> None:
    Path("out.jsonl").write_text("\n".join(map(json.dumps, [TRANSCRIPT, "It is BCL2."])), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.jsonl", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    assert "1 of 2 outputs begins with a role (`User: ...`) (first: line-1). The whole text is judged" in done.err


def test_json_of_a_conversation_in_a_cell_is_read_by_the_name_of_its_column(judge: Judge) -> None:
    talk = json.dumps(CONVERSATION)
    Path("t.py").write_text(TEMPLATE, "utf-8")
    shown = {}
    for column in ("messages", "response"):
        with Path(f"{column}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["id", column], ["a", talk]])
        done = command(f"{column}.csv", "--template", "t.py", "-j", "scripted:j")
        assert done.code == 0, done.err
        assert ("1 of 1 outputs is a conversation in JSON" in done.err) == (column == "response")
        (found,) = VerificationResultSet.load(f"{column}.results.jsonl")
        shown[column] = found.evaluation_input
    assert shown == {"messages": "It is BCL2.", "response": talk}
    assert evaluate(response=talk, template=TEMPLATE, judge="scripted:j").evaluation_input == talk


def test_an_output_that_was_cut_off_is_truncated(judge: Judge) -> None:
    row = {"id": "a", "response": "It is TP53 and", "finish_reason": "length"}
    Path("out.jsonl").write_text(json.dumps(row), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.jsonl", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    (found,) = VerificationResultSet.load("out.results.jsonl")
    assert found.outcome is Outcome.TRUNCATED


def test_a_recorded_conversation_without_an_answer_is_not_judged(judge: Judge) -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]}
    Path("out.jsonl").write_text(json.dumps({"messages": [*CONVERSATION[:1], call]}), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    assert command("out.jsonl", "--template", "t.py", "-j", "scripted:j").code != 0
    (found,) = VerificationResultSet.load("out.results.jsonl")
    assert found.outcome is Outcome.PARSE_ERROR
    assert "does not end with an assistant message" in (found.metadata.error or "")


def test_a_conversation_that_was_cut_off_before_an_answer_is_truncated(judge: Judge) -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "TP53 or"}]}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]}
    cut = [{"response": "", "finish_reason": "length"}]
    cut += [{"messages": [*CONVERSATION[:1], end], "finish_reason": "length"} for end in (thought, call)]
    Path("out.jsonl").write_text("\n".join(map(json.dumps, cut)), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.jsonl", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 0, done.err
    found = VerificationResultSet.load("out.results.jsonl")
    assert [one.outcome for one in found] == [Outcome.TRUNCATED] * 3


def test_a_json_object_of_no_known_shape_is_refused(judge: Judge) -> None:
    Path("out.json").write_text('{"gene": "BCL2"}', "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.json", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 2
    assert "known formats are OpenAI chat messages" in done.err
    assert "a file whose name ends in .txt" in done.err
    assert not judge.prompts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}\n", "line 1 contains no output; add one of the keys response, output"),
        ('"a"\n[1]\n', "line 2 is neither a JSON string nor an object"),
        ("{\n", "line 1, column 2: the JSON is incomplete"),
        ("", "contains no outputs"),
        ('{"id": "a", "response": "x"}\n{"id": "a", "response": "y"}\n', "two outputs have the id 'a'"),
    ],
)
def test_bad_files_of_outputs_end_with_2(judge: Judge, text: str, message: str) -> None:
    Path("out.jsonl").write_text(text, "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    done = command("out.jsonl", "--template", "t.py", "-j", "scripted:j")

    assert done.code == 2
    assert message in done.err
    assert not judge.prompts


def test_code_in_a_template_needs_trust(judge: Judge) -> None:
    Path("out.txt").write_text("It is BCL2.", "utf-8")
    Path("t.py").write_text(TEMPLATE + "\n    def verify(self):\n        return True\n", "utf-8")
    refused = command("out.txt", "--template", "t.py", "-j", "scripted:j")
    trusted = command("out.txt", "--template", "t.py", "-j", "scripted:j", "--trust-all", "-o", "trusted.jsonl")

    assert refused.code == 4
    assert "not trusted" in refused.out
    assert trusted.code == 0, trusted.err


def test_restricted_values_of_a_rubric_need_trust(judge: Judge) -> None:
    """Attack: a rubric of somebody else whose trait starts a program."""
    Path("out.txt").write_text("It is BCL2.", "utf-8")
    model = '{id: x, interface: scripted, model_name: m, mcp_urls_dict: {t: "touch started"}}'
    Path("rubric.yaml").write_text(
        f"karenina: 1\nname: r\nrubric:\n  - {{type: agentic, name: ok, description: d, model_override: {model}}}\n"
        "questions:\n  - {question: q, answer: {gene: {description: d, ground_truth: x}}}\n",
        "utf-8",
    )
    done = command("out.txt", "--rubric", "rubric.yaml", "-j", "scripted:j")

    assert done.code == 2
    assert "mcp_urls_dict" in done.err
    assert not Path("started").exists()


def test_an_exported_answer_says_that_it_was_cut_off(judge: Judge) -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "It is TP53 and"}, "finish_reason": "length"}]}
    Path("out.json").write_text(json.dumps(reply), "utf-8")
    Path("t.py").write_text(TEMPLATE, "utf-8")
    assert command("out.json", "--template", "t.py", "-j", "scripted:j", "--journal", "out.journal").code == 0
    exported = run_karenina(
        "export", "out.journal", "--format", "recording", "-o", "recorded.jsonl", plugins=Plugins.discover()
    )

    assert exported.code == 0, exported.err
    row = json.loads(Path("recorded.jsonl").read_text("utf-8"))
    assert (row["text"], row["finish_reason"]) == ("It is TP53 and", "length")
