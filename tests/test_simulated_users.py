"""Runs with simulated users: their faults do not change the pass rate, and no call is made twice."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import preloaded
import pytest
from command_runs import CommandResult, run_karenina

from karenina_core.models.ports import ErrorCategory, FinishReason, LLMReply, PortError, Usage
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels
from karenina_testing.server import Reply, Request, ScriptedServer

QUESTION = """
  - id: {id}
    question: Hello, I want a refund for {id}.
    user: {{brief: A polite customer., knows: {{order: W12}}, goal: The refund is confirmed., max_turns: {limit}}}
    answer: {{days: {{description: The number of days, ground_truth: {truth}}}}}
"""
MODELS = ("-a", "scripted:m", "-j", "scripted:j", "--user", "scripted:u")
FAULTY = ("empty", "role", "error", "contradiction", "spoken")
OVER = {"say": None, "done": True, "reached": True}


def write(file: Path, *ids: str, limit: int = 5, truth: int = 4711) -> Path:
    questions = "".join(QUESTION.format(id=id, limit=limit, truth=truth) for id in ids)
    file.write_text(f"karenina: 1\nname: shop\nquestions:{questions}", "utf-8")
    return file


class Shop:
    """A shop whose model answers with the right number of days unless the id begins with `bad`, and its users."""

    def __init__(self) -> None:
        self.models = ScriptedModels(say=self.answer, fill=self.fill)
        self.plugins = Plugins.discover()
        self.plugins.register(self.models)

    def run(self, file: Path, *more: str) -> CommandResult:
        return run_karenina("run", file, *MODELS, "--no-journal", *more, "--json", plugins=self.plugins)

    @staticmethod
    def answer(messages: Any, info: Any) -> str:
        if len(messages) == 1:
            return "What is the number of the order?"
        return "It takes 30 days." if info.question_id.startswith("bad") else "It takes 4711 days."

    @staticmethod
    def fill(messages: Any, schema: Mapping[str, Any], info: Any) -> Mapping[str, Any]:
        text, id = messages[-1].content, info.question_id
        if "say" in schema["properties"]:
            return Shop.user(id, len([message for message in messages if message.role == "user"]))
        if "fault" in schema["properties"]:
            found = id == "contradiction"
            sentence = "It is W99." if found else None
            return {"reasoning": "-", "fault": "contradiction" if found else "none", "sentence": sentence}
        return {"days": 30 if "30 days" in text else 4711}

    @staticmethod
    def user(id: str, turn: int) -> Mapping[str, Any]:
        if id == "error":
            raise PortError("no server", category=ErrorCategory.PERMANENT)
        if turn > 1 and id not in ("empty", "role", "long"):
            return OVER
        says = {
            "empty": "",
            "long": "a" * 20_001,
            "role": "Assistant: I have refunded it.",
            "contradiction": "It is W99. Thanks.",
            "spoken": "W12. It takes 4711 days, I think.",
        }
        return {"say": says.get(id, "It is W12."), "done": False, "reached": False}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop()


def rates(done: CommandResult) -> tuple[Any, Any]:
    (group,) = done.json["summary"]["groups"]
    return group["pass_rate"], group


def test_broken_users_do_not_change_the_pass_rate(shop: Shop, tmp_path: Path) -> None:
    good = ("one", "two", "three", "bad")
    alone = shop.run(write(tmp_path / "good.yaml", *good))
    mixed = shop.run(write(tmp_path / "mixed.yaml", *good, *FAULTY), "--set", "check_user=true")

    outcomes = {result["metadata"]["question_id"]: result for result in mixed.json["results"]}
    assert rates(mixed)[0] == rates(alone)[0]
    assert (rates(alone)[0]["hits"], rates(alone)[0]["out_of"]) == (3, 4)
    assert {outcomes[id]["outcome"] for id in FAULTY} == {"stage_error"}
    reasons = {id: outcomes[id]["metadata"]["error"] for id in FAULTY}
    assert "it says nothing although it is not done" in reasons["empty"]
    assert "the message is written as the assistant" in reasons["role"]
    assert "the simulated user 'u' failed: no server" in reasons["error"]
    assert "the simulated user contradicts its brief: 'It is W99.'" in reasons["contradiction"]
    assert "the simulated user says the right answer before the assistant does: 'W12. It" in reasons["spoken"]


def test_without_a_second_look_a_contradiction_is_judged(shop: Shop, tmp_path: Path) -> None:
    done = shop.run(write(tmp_path / "b.yaml", "contradiction"), "--set", "check_user=false")

    assert [result["outcome"] for result in done.json["results"]] == ["correct"]
    assert not [request for request in shop.models.requests if "fault" in (request.schema or {}).get("properties", {})]


@pytest.mark.parametrize(("setting", "counted"), [("false", False), ("true", True)])
def test_a_dry_run_lists_the_check_of_users_only_if_on(shop: Shop, tmp_path: Path, setting: str, counted: bool) -> None:
    dry = ("--dry-run", "--set", f"check_user={setting}")
    done = run_karenina("run", write(tmp_path / "b.yaml", "one"), *MODELS, *dry, plugins=shop.plugins)

    assert done.code == 0, done.err
    assert ("CheckUser" in done.out) is counted
    assert "no judge is needed" not in done.out


def test_a_check_without_a_usable_reply_judges_the_item(shop: Shop, tmp_path: Path) -> None:
    shop.models.fill = lambda messages, schema, info: (
        {"reasoning": "-", "fault": "role", "sentence": "Nobody says this."}
        if "fault" in schema["properties"]
        else Shop.fill(messages, schema, info)
    )
    done = shop.run(write(tmp_path / "b.yaml", "one"), "--set", "check_user=true")

    (result,) = done.json["results"]
    assert result["outcome"] == "correct"
    assert result["extensions"]["karenina-conversation"]["user_checked"] is False


@pytest.mark.parametrize(("at_limit", "outcome"), [("judge", "correct"), ("fail", "auto_failed")])
def test_a_conversation_at_its_limit_is_judged_unless_it_should_fail(
    shop: Shop, tmp_path: Path, at_limit: str, outcome: str
) -> None:
    file = write(tmp_path / "b.yaml", "role", limit=2)
    file.write_text(file.read_text("utf-8").replace("max_turns: 2", f"max_turns: 2, at_limit: {at_limit}"), "utf-8")
    shop.models.fill = lambda messages, schema, info: (
        {"say": "It is W12.", "done": False, "reached": False}
        if "say" in schema["properties"]
        else Shop.fill(messages, schema, info)
    )
    (result,) = shop.run(file).json["results"]

    assert result["outcome"] == outcome
    assert result["extensions"]["karenina-conversation"]["conversation"]["ended"] == "limit"


@pytest.mark.parametrize(
    ("end", "error", "why"),
    [
        ("content_filter", False, "the conversation broke off"),
        ("stop", True, "the simulated user gave no usable reply"),
        ("stop", False, None),
    ],
)
def test_a_user_is_not_blamed_for_a_conversation_that_broke_off(
    shop: Shop, tmp_path: Path, end: FinishReason, error: bool, why: str | None
) -> None:
    shop.models.say = lambda _messages, _info: LLMReply("It takes 4711 days.", Usage(calls=1), finish_reason=end)
    file = write(tmp_path / "shop.yaml", "error" if error else "ok")
    known = "{reached: {from: conversation.reached, ground_truth: true}}"
    file.write_text(re.sub(r"answer: .*", f"answer: {known}", file.read_text("utf-8")), "utf-8")
    (result,) = shop.run(file).json["results"]

    assert result["template"]["known_values"]["conversation.reached"].get("why") == why


def test_no_prompt_contains_a_truth(shop: Shop, tmp_path: Path) -> None:
    shop.models.say = lambda *_: "I do not know."
    shop.run(write(tmp_path / "b.yaml", "one", truth=987123), "--set", "check_user=true")

    assert shop.models.requests
    assert not [request for request in shop.models.requests if "987123" in request.text]


def test_calls_of_users_have_lines_of_their_own(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one", limit=3)
    lines = shop.run(file, "--dry-run").json["estimate"]["lines"]
    expected = {(line["model"], line["stage"]): line["calls"][2] for line in lines}
    journal = tmp_path / "b.journal"
    run_karenina("run", file, *MODELS, "--journal", journal, "-o", tmp_path / "b.jsonl", plugins=shop.plugins)
    spent = run_karenina("status", journal, "--json", plugins=shop.plugins).json
    (result,) = shop.run(file).json["results"]

    assert expected == {("m", "Converse"): 3, ("u", "SimulatedUser"): 3, ("j", "ParseTemplate"): 1}
    assert {(line["model"], line["stage"], line["calls"]) for line in spent["spent"]["lines"]} == {
        ("m", "Converse", 2),
        ("u", "SimulatedUser", 2),
        ("j", "ParseTemplate", 1),
    }
    assert result["template"]["usage_metadata"]["simulated_user"]["calls"] == 2


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_run_without_a_model_for_its_users_is_refused(shop: Shop, tmp_path: Path, more: Sequence[str]) -> None:
    file = write(tmp_path / "b.yaml", "one")
    done = run_karenina("run", file, *MODELS[:4], "--no-journal", *more, plugins=shop.plugins)

    assert done.code == 2
    assert "have a simulated user (the first is 'one'), but no model plays it" in done.err
    assert "--user openai:NAME" in done.err


def test_a_budget_needs_the_price_of_the_user(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one")
    known = ("--set", "prices.m={input=1,output=1}", "--set", "prices.j={input=1,output=1}")
    done = shop.run(file, "--budget", "1", *known)
    paid = shop.run(file, "--budget", "1", *known, "--set", "prices.u={input=1,output=1}")

    assert "a budget needs the price of 'u'" in done.err
    assert [result["outcome"] for result in paid.json["results"]] == ["correct"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("user: {knows: {a: 1}}", "user.brief: Field required"),
        ("user: {brief: A man., max_turn: 3}", "did you mean 'max_turns'?"),
        ("user: {brief: A man., max_turns: 0}", "greater than or equal to 1"),
        ("user: {brief: A man., max_turns: true}", "valid integer"),
        ("user: {brief: ' '}", "it must not be blank"),
        ("user: {brief: A man.}\n    turns: [Really.]", "line 4: a question can have `turns` (a script) or `user`"),
        ("user:", "user: write a mapping with `brief`, which says who the user is, or remove `user`"),
        ("user: grumpy", "user: write a mapping with `brief`, which says who the user is, or remove `user`"),
        ("user: {brief: A man., knows: 5}", "user.knows: write a mapping"),
    ],
)
def test_a_wrong_user_is_found_before_the_run(shop: Shop, tmp_path: Path, fields: str, why: str) -> None:
    file = write(tmp_path / "b.yaml", "one")
    lines = [f"    {fields}" if line.lstrip().startswith("user:") else line for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines), "utf-8")

    assert why in run_karenina("check", file, plugins=shop.plugins).out


@pytest.mark.parametrize(
    ("turn", "why"),
    [
        ("6", "turn 6 does not exist; the last turn that the simulated user can have is number 5 (max_turns)"),
        ("order", "turn 'order' does not exist, because the turns of a simulated user have no ids; write a number"),
    ],
)
def test_a_turn_that_a_user_cannot_have_is_refused(shop: Shop, tmp_path: Path, turn: str, why: str) -> None:
    file = write(tmp_path / "b.yaml", "one")
    file.write_text(file.read_text("utf-8").replace("days: {", f"days: {{turn: {turn}, "), "utf-8")

    assert f"field 'days': {why}" in run_karenina("check", file, plugins=shop.plugins).out
    assert f"field 'days': {why}" in shop.run(file).err


def test_a_replay_and_a_rescore_make_no_call(shop: Shop, tmp_path: Path) -> None:
    file, journal = write(tmp_path / "b.yaml", "one", "bad"), tmp_path / "b.journal"
    first = ("run", file, *MODELS, "--journal", journal, "-o", tmp_path / "b.jsonl")
    run_karenina(*first, plugins=shop.plugins)
    text, calls = (tmp_path / "b.jsonl").read_text("utf-8"), len(shop.models.requests)

    replayed = run_karenina(*first[:-1], tmp_path / "again.jsonl", "--replay", plugins=shop.plugins)
    write(file, "one", "bad", truth=30)
    rescored = run_karenina("rescore", journal, file, "--diff", plugins=shop.plugins)

    assert replayed.code == 0, replayed.err
    assert (tmp_path / "again.jsonl").read_text("utf-8") == text
    assert "correct -> wrong" in rescored.out.replace("→", "->")
    assert len(shop.models.requests) == calls


def depth(request: Request) -> tuple[str, int]:
    """Return the model of a request, and the number of messages that its model has already written."""
    body = request.body
    return body["model"], sum(message["role"] == "assistant" for message in body["messages"])


LEVELS = [("m", 0), ("u", 0), ("m", 1), ("u", 1), ("m", 2), ("u", 2), ("j", 0)]
"""The calls of a conversation of three turns, in order."""


class Gate:
    """Replies that end a conversation after three turns, and that wait at the level at which a run is killed."""

    def __init__(self) -> None:
        self.level = 0
        self.waiting = threading.Semaphore(0)

    async def __call__(self, request: Request) -> Any:
        model, before = depth(request)
        if LEVELS.index((model, before)) >= self.level:
            self.waiting.release()
            return Reply(end="hang", raw=b"")
        return self.reply(model, before)

    @staticmethod
    def reply(model: str, before: int) -> str:
        if model == "m":
            return "It takes 4711 days."
        if model == "j":
            return json.dumps({"days": 4711})
        over = before == 2
        return json.dumps({"say": None if over else "It is W12.", "done": over, "reached": over})


@pytest.mark.parametrize(
    ("number", "kills"),
    [(3, [3, 5]), pytest.param(20, range(len(LEVELS)), marks=pytest.mark.release)],
    ids=["3 twice", "20 after each call"],
)
def test_conversations_of_killed_runs_repeat_no_call(number: int, kills: Sequence[int], tmp_path: Path) -> None:
    gate = Gate()
    write(tmp_path / "b.yaml", *(f"q{at}" for at in range(number)))
    with ScriptedServer(gate) as server:
        models = [word for option, name in (("-a", "m"), ("-j", "j"), ("--user", "u"))
                  for word in (option, f"openai:{name}@{server.url}/v1")]  # fmt: skip
        command = ["run", "b.yaml", *models, "--set", "concurrency_start=40"]
        for gate.level in kills:
            with (tmp_path / "problems").open("wb") as errors:
                run = preloaded.start(command, folder=tmp_path, environment=os.environ, errors=errors)
            for _ in range(number):
                assert gate.waiting.acquire(timeout=120), f"the run made no call of level {gate.level}"
            os.kill(run.pid, signal.SIGKILL)
            run.wait(120)
        gate.level = len(LEVELS)
        done = preloaded.run([*command, "--json"], folder=tmp_path, environment=os.environ, timeout=120)
        answered = Counter(depth(entry.request) for entry in server.log if entry.reply and entry.reply.end == "keep")

    assert [result["outcome"] for result in json.loads(done.stdout)["results"]] == ["correct"] * number
    assert answered == dict.fromkeys(LEVELS, number)


def test_check_names_a_truth_that_the_user_may_say(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one")
    file.write_text(file.read_text("utf-8").replace("order: W12", "order: W12, days: it takes 4711 days"), "utf-8")
    done = run_karenina("check", file, plugins=shop.plugins)

    assert done.code == 0
    assert "user.knows contains the ground truth of field 'days', '4711'" in done.out


def test_check_names_a_truth_in_a_script_but_not_in_its_conditions(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one")
    turns = "    turns: [{when: {said: {type: RegexMatch, pattern: '.*4711.*'}}, say: 'Not 4711?'}, Really.]"
    lines = [turns if line.lstrip().startswith("user:") else line for line in file.read_text("utf-8").splitlines()]
    file.write_text("\n".join(lines), "utf-8")
    done = run_karenina("check", file, plugins=shop.plugins)

    assert done.out.count("contains the ground truth") == 1
    assert "turn 2 contains the ground truth of field 'days'" in done.out


def test_a_recorded_conversation_needs_no_user(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one")
    said = [("user", "Hello, I want a refund for one."), ("assistant", "The number?"), ("user", "W12."),
            ("assistant", "It takes 4711 days.")]  # fmt: skip
    trace = [{"role": role, "content": text} for role, text in said]
    recorded = tmp_path / "answers.jsonl"
    recorded.write_text(json.dumps({"question_id": "one", "trace": trace}) + "\n", "utf-8")
    done = run_karenina("run", file, "--recordings", recorded, "-j", "scripted:j", "--json", plugins=shop.plugins)

    assert done.code == 0, done.err
    (result,) = done.json["results"]
    assert result["outcome"] == "correct"
    assert [turn["turn"] for turn in result["extensions"]["karenina-conversation"]["conversation"]["turns"]] == [1, 2]


ENDED = "answer: {ended: {from: conversation.ended, ground_truth: goal}, "


def judge_export(shop: Shop, file: Path, *more: str, states_end: bool = True) -> tuple[Any, Any]:
    """Run the benchmark, export its answers, and judge them again. Returns both results."""
    run_karenina("run", file, *MODELS, "-o", "live.jsonl", "--journal", "live.journal", *more, plugins=shop.plugins)
    exported = run_karenina("export", "live.journal", "--format", "recording", plugins=shop.plugins)
    rows = [json.loads(line) for line in exported.out.splitlines()]
    if not states_end:
        rows = [{key: value for key, value in row.items() if key != "conversation"} for row in rows]
    Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    again = ("--recordings", "answers.jsonl", "-j", "scripted:j", "-o", "again.jsonl", "--json", *more)
    live = run_karenina("export", "live.jsonl", "--format", "json", plugins=shop.plugins).json["results"][0]
    done = run_karenina("run", file, *again, plugins=shop.plugins)
    assert done.code in (0, 1, 4), done.err
    return live, done.json["results"][0]


def test_the_end_of_a_recorded_user_is_not_known(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one")
    file.write_text(file.read_text("utf-8").replace("answer: {", ENDED), "utf-8")
    live, result = judge_export(shop, file, states_end=False)

    assert live["template"]["field_results"] == {"ended": True, "days": True}
    assert result["outcome"] == "undecided"
    assert result["template"]["field_results"] == {"ended": None, "days": True}
    assert "a recording does not state why its user stopped" in json.dumps(result)
    stats = run_karenina("stats", "again.jsonl", plugins=shop.plugins).out
    assert re.search("Ended +1 not recorded", stats)


@pytest.mark.parametrize(
    ("last", "limit", "at_limit", "ended", "reached", "outcome"),
    [
        ({"say": None, "done": True, "reached": True}, 5, "judge", "goal", True, "correct"),
        ({"say": None, "done": True, "reached": False}, 5, "judge", "gave_up", False, "partial"),
        ({"say": "Go on.", "done": False, "reached": True}, 2, "judge", "limit", True, "partial"),
        ({"say": "Go on.", "done": False, "reached": False}, 2, "fail", "limit", False, "auto_failed"),
    ],
)
def test_an_exported_user_ends_as_it_did(
    shop: Shop, tmp_path: Path, last: Any, limit: int, at_limit: str, ended: str, reached: bool, outcome: str
) -> None:
    file = write(tmp_path / "b.yaml", "one", limit=limit)
    text = file.read_text("utf-8").replace(f"max_turns: {limit}", f"max_turns: {limit}, at_limit: {at_limit}")
    known = "turns: {from: conversation.turns, ground_truth: 2}, goal: {from: conversation.reached, ground_truth: true}"
    file.write_text(text.replace("answer: {", f"{ENDED}{known}, "), "utf-8")
    first = {"say": "It is W12.", "done": False, "reached": False}
    shop.models.fill = lambda messages, schema, info: (
        (first if sum(message.role == "user" for message in messages) == 1 else last)
        if "say" in schema["properties"]
        else Shop.fill(messages, schema, info)
    )
    live, again = judge_export(shop, file)

    expected = {"conversation.ended": ended, "conversation.turns": 2, "conversation.reached": reached}
    for result in (live, again):
        assert result["outcome"] == outcome
        assert result["extensions"]["karenina-conversation"]["conversation"]["ended"] == ended
        if outcome != "auto_failed":
            assert {name: value["value"] for name, value in result["template"]["known_values"].items()} == expected


def test_an_exported_user_may_end_after_the_first_answer(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one")
    file.write_text(file.read_text("utf-8").replace("answer: {", ENDED), "utf-8")
    shop.models.fill = lambda messages, schema, info: OVER if "say" in schema["properties"] else {"days": 4711}
    live, again = judge_export(shop, file)

    assert live["template"]["field_results"] == again["template"]["field_results"] == {"ended": True, "days": True}
    assert live["template"]["raw_llm_response"] == again["template"]["raw_llm_response"]


def test_the_fault_of_an_exported_user_is_found_again(shop: Shop, tmp_path: Path) -> None:
    live, again = judge_export(shop, write(tmp_path / "b.yaml", "spoken"))

    faults = [result["extensions"]["karenina-conversation"]["user_fault"] for result in (live, again)]
    assert faults == ["truth", "truth"]
    assert live["outcome"] == again["outcome"] == "stage_error"


def test_a_conversation_without_a_recording_did_not_break_off(shop: Shop, tmp_path: Path) -> None:
    file = write(tmp_path / "b.yaml", "one", "role", "empty")
    judge_export(shop, file, "--partial")
    stats = run_karenina("stats", "again.jsonl", plugins=shop.plugins).out

    assert re.search(
        r"Users +0 of 1 simulated user at fault \(0.0%\)\n +not known for 2 conversations without a", stats
    )
    assert re.search(r"Ended +2 no recorded answer, 1 goal", stats)


def test_an_unknown_end_of_a_recorded_user_is_listed(shop: Shop, tmp_path: Path) -> None:
    file, recorded = write(tmp_path / "b.yaml", "one"), tmp_path / "answers.jsonl"
    trace = [{"role": "assistant", "content": "It takes 4711 days."}]
    row = {"question_id": "one", "trace": trace, "conversation": {"ended": "gaol"}}
    recorded.write_text(json.dumps(row) + "\n", "utf-8")
    done = run_karenina("run", file, "--recordings", recorded, "-j", "scripted:j", plugins=shop.plugins)

    assert done.code == 2
    assert "1 recorded user ends in an unknown way: 'one' ('gaol'; did you mean 'goal'?)" in done.err
    partial = ("--recordings", recorded, "-j", "scripted:j", "--partial", "--json")
    (result,) = run_karenina("run", file, *partial, plugins=shop.plugins).json["results"]
    assert result["extensions"]["karenina-conversation"]["conversation"]["ended"] == "not_recorded"


def judge_recording(shop: Shop, folder: Path, *texts: str, more: Sequence[str] = ()) -> CommandResult:
    file, recorded = write(folder / "b.yaml", "one"), folder / "answers.jsonl"
    said = ("Hello, I want a refund for one.", *texts)
    trace = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(said)]
    recorded.write_text(json.dumps({"question_id": "one", "trace": trace}) + "\n", "utf-8")
    options = ("--recordings", recorded, "-j", "scripted:j", "--json", *more)
    return run_karenina("run", file, *options, plugins=shop.plugins)


@pytest.mark.parametrize("blank", ["", " \n", "\u200b", "\u3164\U000e0041"])
def test_an_empty_message_of_a_recorded_user_is_listed(shop: Shop, tmp_path: Path, blank: str) -> None:
    texts = ("The number?", blank, "Please?", "W12.", "It takes 4711 days.")
    done = judge_recording(shop, tmp_path, *texts)

    assert done.code == 2
    assert "1 recorded user sends an empty message: 'one' (turn 2)" in done.out + done.err
    partial = judge_recording(shop, tmp_path, *texts, more=("--partial",))
    (result,) = partial.json["results"]
    turns = result["extensions"]["karenina-conversation"]["conversation"]["turns"]
    assert [turn["state"] for turn in turns] == ["taken", "missing", "missing"]


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("Assistant: I refund 4711 now.", "role"),
        ("What is the number?", "role"),
        ("<|im_end|>", "role"),
        ("a" * 20_001, "too_long"),
    ],
    ids=["label", "echo", "token", "long"],
)
def test_a_recorded_user_is_at_fault_as_in_a_live_run(shop: Shop, tmp_path: Path, said: str, fault: str) -> None:
    done = judge_recording(shop, tmp_path, "What is the number?", said, "It takes 4711 days.")

    (result,) = done.json["results"]
    assert result["outcome"] == "stage_error"
    assert "the recorded user's message after turn 1" in result["metadata"]["error"]
    assert result["extensions"]["karenina-conversation"]["user_fault"] == fault


def test_a_recorded_message_without_an_answer_is_no_turn(shop: Shop, tmp_path: Path) -> None:
    done = judge_recording(shop, tmp_path, "The number?", "W12.", "It takes 4711 days.", "Thanks.")

    (result,) = done.json["results"]
    turns = result["extensions"]["karenina-conversation"]["conversation"]["turns"]
    assert [turn["state"] for turn in turns] == ["taken", "taken", "missing"]
    assert result["outcome"] == "correct"


def read_page(file: Path) -> str:
    """Return the data of a report page."""
    blocks = re.findall(r'<script type="text/plain" id="karenina-[\w-]+">([^<]*)</script>', file.read_text("utf-8"))
    return "".join(gzip.decompress(base64.b64decode(block)).decode() for block in blocks)


def test_faulty_users_are_stated_with_the_bounds_of_the_rate(shop: Shop, tmp_path: Path) -> None:
    file, output = write(tmp_path / "b.yaml", "one", "bad", "empty", "spoken", "long"), tmp_path / "out.jsonl"
    run = run_karenina("run", file, *MODELS, "-o", output, plugins=shop.plugins)
    done = run_karenina("stats", output, plugins=shop.plugins)
    report = run_karenina("report", output, "-o", tmp_path / "page.html", plugins=shop.plugins)

    bounds = "pass rate 20.0% if these were wrong, 80.0% if right"
    line = f"3 of 5 conversations not judged, because the simulated user was at fault; {bounds}"
    assert line in run.out
    assert bounds in done.out
    assert report.code == 0, report.err
    assert line in read_page(tmp_path / "page.html")
    assert "3 of 5 simulated users at fault (60.0%), not judged: 1 empty, 1 truth, 1 too long" in done.out
    assert "1 of 2 judged" in done.out


@pytest.mark.parametrize("known", [r"F/C=C\F", "first line\nsecond line", 'it\'s "W12", I think', "C:\\new folder"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_user_may_say_what_it_knows(shop: Shop, tmp_path: Path, known: str, nested: bool) -> None:
    file = write(tmp_path / "b.yaml", "one")
    text = file.read_text("utf-8").replace("order: W12", f"order: {json.dumps([known] if nested else known)}")
    file.write_text(text.replace("The number of days, ground_truth: 4711", f"-, ground_truth: {json.dumps(known)}"))
    shop.models.fill = lambda messages, schema, info: (
        ({"say": known, "done": False, "reached": False} if len(messages) == 2 else OVER)
        if "say" in schema["properties"]
        else {"days": known}
    )
    (result,) = shop.run(file).json["results"]

    assert result["outcome"] == "correct", result["metadata"]["error"]
