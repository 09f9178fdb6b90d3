"""Agentic judges in whole runs: real tool calls over HTTP on loopback, in real folders."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from folders import write_files
from servers import RecordingServer, recording_server

from karenina import Benchmark, VerificationResultSet
from karenina_core import ModelConfig, Outcome, VerificationConfig, VerificationResult, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import AgenticRubricTrait, LLMRubricTrait, RegexRubricTrait, Rubric
from karenina_core.errors import ConfigError
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_core.models.ports import NO_INFO, AgentOptions, AgentReply, CallInfo, Message, Usage
from karenina_core.plan import PlanError
from karenina_core.plugins import Plugins
from karenina_engine.run.prepare import prepare_session
from karenina_engine.run.request import RunRequest
from karenina_toolkit.plugin_lookup import find_adapter

TEMPLATE = """
class Answer(BaseAnswer):
    code: str = VerifiedField(description="The code in the file", ground_truth="QX4711", verify_with=ExactMatch())
"""
ANSWER = "I am sure that the code is WRONG-SECRET."

Body = dict[str, Any]


def call(name: str, **arguments: Any) -> Body:
    """Return a message that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": f"c_{name}", "type": "function", "function": function}]}


def investigator(*steps: Body) -> Callable[[Body], str | Body]:
    """Return a model that answers, investigates with these calls, reports the last result, and extracts from reports.

    A report holds the code of the file if there is one; a trait is scored 4, and named traits are true.
    """

    def reply(body: Body) -> str | Body:
        said = body["messages"]
        if "response_format" in body:
            return json.dumps(filled(body["response_format"]["json_schema"]["schema"], said[-1]["content"]))
        if "tools" in body:
            done = sum(message["role"] == "assistant" for message in said)
            return steps[done] if done < len(steps) else f"The file says: {said[-1]['content']}"
        return ANSWER if "Response:" not in said[-1]["content"] else "The file says: nothing."

    return reply


def filled(schema: Body, prompt: str) -> Body:
    """Return the values that an extracting judge finds in a report."""
    code = re.search(r"QX\d+", prompt)
    score = 4 if "Score: a whole number" in prompt else True
    values = {"code": code[0] if code else None, "reasoning": "as reported", "score": score}
    return {name: values.get(name, {"reasoning": "r", "score": True}) for name in schema["properties"]}


READ = call("read_file", path="data/code.txt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "root", {"task/data/code.txt": "QX4711"})


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server(investigator(READ)) as running:
        yield running


def benchmark(path: str | None = "task", rubric: Rubric | None = None) -> Benchmark:
    made = Benchmark.create(name="files")
    made.add_question("Which code is in the file?", "QX4711", TEMPLATE, workspace_path=path, rubric=rubric)
    return made


def run(
    server: RecordingServer, root: Path | None, made: Benchmark | None = None, judges: int = 1, **settings: Any
) -> VerificationResultSet:
    model = {"interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
    chosen = {
        "answering_models": [{"id": "a", **model}],
        "parsing_models": [{"id": f"j{number}", **model} for number in range(judges)],
        "agentic_parsing": True,
        "workspace_root": root,
        **settings,
    }
    return (made or benchmark()).run_verification(VerificationConfig(**chosen))


def left_in(root: Path) -> list[str]:
    return sorted(one.name for one in root.iterdir())


def test_the_agent_judges_by_a_file_of_a_copied_workspace(server: RecordingServer, root: Path) -> None:
    (result,) = run(server, root)
    assert (result.outcome, result.metadata.error) == (Outcome.CORRECT, None)
    assert result.template.agentic_parsing_performed
    trace = result.template.investigation_trace or ""
    assert "[1] assistant calls read_file" in trace
    assert "| QX4711" in trace
    assert result.template.parsed_llm_response == {"code": "QX4711"}
    assert result.deep_judgment is None or not result.deep_judgment.deep_judgment_performed
    usage = result.template.usage_metadata or {}
    assert (usage["agentic_parsing"]["calls"], usage["total"]["calls"]) == (3, 4)
    assert left_in(root) == ["task"]


@pytest.mark.parametrize(
    ("context", "answer_shown", "tools", "outcome"),
    [
        ("workspace_only", False, True, Outcome.CORRECT),
        ("trace_and_workspace", True, True, Outcome.CORRECT),
        ("trace_only", True, False, Outcome.WRONG),
    ],
)
def test_what_the_judge_is_sent_is_what_its_context_allows(
    server: RecordingServer, root: Path, context: str, answer_shown: bool, tools: bool, outcome: Outcome
) -> None:
    (result,) = run(server, root, agentic_judge_context=context)
    assert result.outcome is outcome
    judged = server.seen[1:]
    assert any("WRONG-SECRET" in request for request in judged) is answer_shown
    assert any('"tools"' in request for request in judged) is tools
    assert not any(str(root) in request for request in judged)


def test_the_turn_limit_keeps_the_trace_and_no_verdict(root: Path) -> None:
    """Reaching the turn limit is not a wrong answer."""
    with recording_server(investigator(*[call("list_files")] * 50)) as server:
        (result,) = run(server, root, agentic_parsing_max_turns=3)
    assert result.outcome is Outcome.PARSE_ERROR
    assert "turn limit of 3" in (result.metadata.error or "")
    assert (result.template.investigation_trace or "").count("calls list_files") == 3
    assert len(server.seen) == 1 + 3
    assert left_in(root) == ["task"]


def test_a_time_out_keeps_the_trace_and_no_verdict(root: Path) -> None:
    """A time-out is not a wrong answer."""
    over = threading.Event()

    def slow(body: Body) -> str | Body:
        if body["messages"][-1]["role"] == "tool":
            over.wait(200)
        return investigator(READ)(body)

    for seconds in (1, 8, 64):  # a busy machine takes longer to come to the second request
        over.clear()
        with recording_server(slow) as server:
            (result,) = run(server, root, agentic_parsing_timeout=seconds)
            over.set()
        if "calls read_file" in (result.template.investigation_trace or ""):
            break
    assert result.outcome is Outcome.PARSE_ERROR
    assert f"did not finish within {seconds} s" in (result.metadata.error or "")
    assert "raise agentic_parsing_timeout" in (result.metadata.error or "")
    assert "calls read_file" in (result.template.investigation_trace or "")
    assert (result.template.usage_metadata or {})["agentic_parsing"]["calls"] == 1
    assert left_in(root) == ["task"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("absent", "the folder 'absent' does not exist"),
        ("../root/task", "without '..'"),
        ("/etc", "relative to the workspace root"),
        ("out", "is a link that points outside the workspace root"),
        ("linked", "is a link that points outside the workspace root"),
    ],
)
def test_a_refused_workspace_fails_its_items_without_calls(
    server: RecordingServer, root: Path, path: str, told: str
) -> None:
    (root / "out").symlink_to("/etc")
    (root / "linked").mkdir()
    (root / "linked/passwd").symlink_to("/etc/passwd")
    before = left_in(root)
    (result,) = run(server, root, benchmark(path))
    assert result.outcome is Outcome.STAGE_ERROR
    assert told in (result.metadata.error or "")
    assert server.seen == []
    assert left_in(root) == before


def test_without_a_root_the_item_says_what_to_set(server: RecordingServer) -> None:
    (result,) = run(server, None)
    assert "set workspace_root" in (result.metadata.error or "")
    assert server.seen == []


def test_the_benchmarks_root_goes_over_that_of_the_configuration(
    server: RecordingServer, root: Path, tmp_path: Path
) -> None:
    made = benchmark()
    made.workspace_root = root
    (result,) = run(server, tmp_path / "elsewhere", made)
    assert result.outcome is Outcome.CORRECT


def test_agentic_parsing_that_the_slots_choose_has_its_workspace(server: RecordingServer, root: Path) -> None:
    slots = {"parse_template": "AgenticParseTemplate"}
    (result,) = run(server, root, agentic_parsing=False, slots=slots)
    assert (result.outcome, left_in(root)) == (Outcome.CORRECT, ["task"])


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({}, []),
        ({"workspace_cleanup": False}, ["task_run"]),
        ({"workspace_copy": False}, []),
        ({"workspace_copy": False, "workspace_cleanup": False}, []),
    ],
)
def test_what_is_left_after_a_run(
    server: RecordingServer, root: Path, settings: dict[str, Any], left: list[str]
) -> None:
    (result,) = run(server, root, **settings)
    assert result.outcome is Outcome.CORRECT
    assert (root / "task/data/code.txt").read_text() == "QX4711"
    assert [name.split("_2")[0] for name in left_in(root) if name != "task"] == left


def test_concurrent_replicates_and_judges_have_separate_workspaces(root: Path) -> None:
    steps = (call("list_files"), call("write_file", path="mine.txt", content="x"), call("list_files"), READ)
    with recording_server(investigator(*steps)) as server:
        results = run(server, root, judges=3, replicate_count=6)
    assert [result.outcome for result in results] == [Outcome.CORRECT] * 18
    for result in results:
        before, _, after = (result.template.investigation_trace or "").partition("calls write_file")
        assert ("data/code.txt" in before, "mine.txt" in before, "| mine.txt (1 bytes)" in after) == (True, False, True)
    assert left_in(root) == ["task"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_run_that_is_left_early_leaves_no_folder_behind(root: Path, packed: bool) -> None:
    if packed:
        with tarfile.open(root / "task.tar", "w") as archive:
            archive.add(root / "task", "task")
        shutil.rmtree(root / "task")
    before = left_in(root)

    def slow(body: Body) -> str | Body:
        if body["messages"][-1]["role"] == "tool":
            time.sleep(0.05)
        return investigator(READ)(body)

    async def first() -> VerificationResult:
        model = {"interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
        config = VerificationConfig(
            answering_models=[{"id": "a", **model}],
            parsing_models=[{"id": "j", **model}],
            agentic_parsing=True,
            workspace_root=root,
            replicate_count=12,
        )
        async with aclosing(prepare_session(RunRequest(benchmark(), config)).results()) as results:
            async for result in results:
                assert len(left_in(root)) > 1
                return result
        raise AssertionError("there was no result")

    with recording_server(slow) as server:
        assert asyncio.run(first()).outcome is Outcome.CORRECT
    assert left_in(root) == before


class Builder:
    """An answering agent of its own runtime: it builds something in its workspace, another thing each time."""

    def __init__(self) -> None:
        self.folders: list[Path] = []

    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        return [
            AdapterSpec(
                interface="builder",
                description="Builds files.",
                tier=AgentTier.DEEP_AGENT,
                llm=lambda _: self,  # type: ignore[arg-type,return-value]  # never asked
                agent=lambda _: self,
            )
        ]

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        assert options.workspace is not None
        self.folders.append(options.workspace)
        (options.workspace / "data/code.txt").write_text(f"QX4711 made by replicate {info.replicate}")
        (options.workspace / "python").symlink_to("/usr/bin")
        return AgentReply((Message.assistant(ANSWER),), Usage(calls=1))

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.fixture
def builder() -> Iterator[Builder]:
    made = Builder()
    room = Plugins.discover()
    room.register(made)
    with plugin_room.use_plugins(room):
        yield made


BUILDING = [ModelConfig(id="b", interface="builder", model_name="b")]


def test_two_judges_of_one_answer_share_its_workspace(
    server: RecordingServer, root: Path, builder: Builder, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "karenina"):
        results = run(server, root, judges=2, replicate_count=2, answering_models=BUILDING)
    assert [result.outcome for result in results] == [Outcome.CORRECT] * 4
    for result in results:
        assert f"made by replicate {result.metadata.replicate}" in (result.template.investigation_trace or "")
    assert len(set(builder.folders)) == len(builder.folders) == 2
    assert left_in(root) == ["task"]
    assert (root / "task/data/code.txt").read_text() == "QX4711"
    links = [one.message for one in caplog.records if "link" in one.message]
    assert {"python is a link that points outside the workspace root" in message for message in links} == {True}


def test_without_copy_only_the_answering_agent_uses_the_original_folder(root: Path, builder: Builder) -> None:
    steps = (call("write_file", path="data/code.txt", content="changed by the judge"), READ)
    with recording_server(investigator(*steps)) as server:
        (result,) = run(server, root, answering_models=BUILDING, workspace_copy=False)
    assert "changed by the judge" in (result.template.investigation_trace or "")
    assert (root / "task/data/code.txt").read_text() == "QX4711 made by replicate 1"
    assert builder.folders == [root / "task"]


def test_a_judge_without_agent_port_is_refused_before_any_call(
    server: RecordingServer, root: Path, builder: Builder
) -> None:
    plain = AdapterSpec(interface="plain", description="No agent.", llm=lambda _: builder, parser=lambda _: builder)  # type: ignore[arg-type,return-value]

    class Plain:
        @hookimpl
        def karenina_adapters(self) -> Sequence[AdapterSpec]:
            return [plain]

    plugin_room.active_plugins().register(Plain())
    with pytest.raises(ConfigError) as caught:
        run(server, root, parsing_models=[ModelConfig(id="j", interface="plain", model_name="p")])
    assert "judge 'j': AgenticParseTemplate needs the agent port" in str(caught.value)
    assert "openai" in str(caught.value)
    assert (server.seen, left_in(root)) == ([], ["task"])


SCORED = AgenticRubricTrait(name="tidy", description="Tidy work.", kind="score")
TRUE = AgenticRubricTrait(name="there", description="A file is there.")


@pytest.mark.parametrize("mode", ["rubric_only", "template_and_rubric"])
def test_agentic_traits_are_scored_beside_the_others(server: RecordingServer, root: Path, mode: str) -> None:
    pytest.importorskip("karenina_rubric")
    rubric = Rubric.of(SCORED, TRUE, LLMRubricTrait(name="clear"), RegexRubricTrait(name="sure", pattern="sure"))
    (result,) = run(server, root, benchmark(rubric=rubric), evaluation_mode=mode, agentic_parsing=False)
    assert result.metadata.error is None
    assert result.rubric is not None
    assert result.rubric.agentic_trait_scores == {"tidy": 4, "there": True}
    assert sorted(result.rubric.agentic_trait_traces or {}) == ["there", "tidy"]
    assert result.rubric.regex_trait_scores == {"sure": True}
    assert result.rubric.llm_trait_scores == {"clear": True}
    assert not result.rubric.trait_errors
    assert left_in(root) == ["task"]


def test_errors_of_agentic_traits_stand_beside_those_of_others(root: Path) -> None:
    pytest.importorskip("karenina_rubric")

    def reply(body: Body) -> str | Body:
        if "response_format" in body and "clear" in json.dumps(body["messages"]):
            return "no JSON"
        return investigator(*[READ] * 99)(body) if '\\"tidy\\"' in json.dumps(body) else investigator(READ)(body)

    rubric = Rubric.of(SCORED.model_copy(update={"max_turns": 2}), TRUE, LLMRubricTrait(name="clear"))
    with recording_server(reply) as server:
        (result,) = run(server, root, benchmark(rubric=rubric), evaluation_mode="rubric_only", agentic_parsing=False)
    assert result.rubric is not None
    assert result.rubric.agentic_trait_scores == {"tidy": None, "there": True}
    assert sorted(result.rubric.trait_errors or {}) == ["clear", "tidy"]


@pytest.mark.parametrize(
    ("blocked", "trait", "told"),
    [
        ("karenina-agentic", TRUE, "there"),
        ("karenina-rubric", RegexRubricTrait(name="sure", pattern="sure"), "sure"),
    ],
)
def test_a_trait_without_its_plugin_is_an_error(
    server: RecordingServer, root: Path, blocked: str, trait: Any, told: str
) -> None:
    """A trait whose plugin is not installed is an error even if another trait can be scored."""
    pytest.importorskip("karenina_rubric")
    other = RegexRubricTrait(name="x", pattern="x") if trait is TRUE else SCORED
    settings: dict[str, Any] = {"evaluation_mode": "rubric_only", "plugins": {"block": [blocked]}}
    if blocked != "karenina-agentic":
        settings["workspace_root"] = root
    model = {"id": "m", "interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
    config = VerificationConfig(answering_models=[model], parsing_models=[model], **settings)
    with pytest.raises(PlanError, match=rf"rubric traits \({told}\)") as caught:
        benchmark(rubric=Rubric.of(trait, other)).run_verification(config)
    assert "no stage in slot rubric_evaluation" in str(caught.value)
    assert server.seen == []


def test_agentic_parsing_goes_before_deep_judgment_with_one_warning(
    server: RecordingServer, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if "deep_judgment_mode" not in VerificationConfig().model_dump():
        pytest.skip("karenina-deep-judgment is not installed")
    made = benchmark()
    made.add_question("Which code is in the other file?", "QX4711", TEMPLATE, workspace_path="task")
    with caplog.at_level(logging.WARNING, "karenina"):
        results = run(server, root, made, deep_judgment_enabled=True)
    for result in results:
        assert result.outcome is Outcome.CORRECT
        stages = {record.name: record.status for record in result.stages}
        assert stages["AgenticParseTemplate"] == "ran"
        assert stages["DeepJudgmentAutoFail"] == "skipped"
        assert "DeepJudgmentParseTemplate" not in stages
    warned = [one.message for one in caplog.records if "deep judgment" in one.message]
    assert len(warned) == 1


@pytest.mark.parametrize(("stated", "allowed"), [("work", True), ("../elsewhere", False), ("/", False)])
def test_the_workspace_root_of_a_file_stays_below_it(tmp_path: Path, stated: str, allowed: bool) -> None:
    from karenina_core.data.trust import NO_TRUST
    from karenina_engine.check.questions import with_workspace_root
    from karenina_engine.check.restricted_values import RestrictedValues, check_restricted_values

    folder = tmp_path / "given"
    folder.mkdir()
    made = Benchmark.create("Given")
    made.workspace_root = Path(stated)
    made.save(folder / "b.jsonld")
    loaded = Benchmark.load(folder / "b.jsonld")
    if allowed:
        assert with_workspace_root(loaded, VerificationConfig()).workspace_root == folder / "work"
    else:
        with pytest.raises(RestrictedValues, match="workspace_root"):
            check_restricted_values(loaded, VerificationConfig(), NO_TRUST)
    own = VerificationConfig(workspace_root=tmp_path)
    check_restricted_values(loaded, own, NO_TRUST)
    assert with_workspace_root(loaded, own).workspace_root == (folder / "work" if allowed else tmp_path)
    loaded.workspace_root = tmp_path / "mine"
    assert with_workspace_root(loaded, own).workspace_root == tmp_path / "mine"


def test_an_answering_agent_has_a_workspace_without_an_agentic_judge(
    server: RecordingServer, root: Path, builder: Builder
) -> None:
    plain = {"id": "a", "interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
    results = run(server, root, answering_models=[*BUILDING, plain], agentic_parsing=False)

    assert [ANSWER in result.template.raw_llm_response for result in results] == [True, True]
    assert len(builder.folders) == 1, "the other model gets no folder"
    assert builder.folders[0].name.startswith("task_run_")
    assert left_in(root) == ["task"]
    assert (root / "task/data/code.txt").read_text() == "QX4711"


class Deep:
    """The agent of the interface `openai`, as one that has a workspace for each answer."""

    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        return [replace(find_adapter(Plugins.discover(), "openai").spec, interface="deep", tier=AgentTier.DEEP_AGENT)]


@pytest.mark.parametrize(
    ("later", "file", "outcome"),
    [
        (["", ""], "QX4711", Outcome.CORRECT),
        (["", ""], "QX1", Outcome.WRONG),
        (["", ANSWER], "QX4711", Outcome.CORRECT),
        ([" \n", "</s>"], "QX4711", Outcome.CORRECT),
    ],
)
def test_an_agent_without_a_last_word_is_judged_by_its_workspace(
    root: Path, later: list[str], file: str, outcome: Outcome
) -> None:
    judge, turns = investigator(READ), list[Body]()
    left: list[str | Body] = [call("write_file", path="data/code.txt", content=file), *later]

    def reply(body: Body) -> str | Body:
        if body["model"] != "silent":
            return judge(body)
        turns.append(body)
        return left.pop(0)

    room = Plugins.discover()
    room.register(Deep())
    with recording_server(reply) as server, plugin_room.use_plugins(room):
        silent = {"id": "a", "interface": "deep", "model_name": "silent", "endpoint_base_url": server.url}
        (result,) = run(server, root, answering_models=[silent])
    assert [turn["messages"][-1]["role"] for turn in turns] == ["user", "tool", "tool"], "it was asked once more"
    assert (result.outcome, result.metadata.error) == (outcome, None)
    usage = result.template.usage_metadata or {}
    assert usage["answer_generation"]["calls"] == 3, "both empty turns were paid for"
    assert [one["role"] for one in result.template.trace_messages or []] == ["assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [
        ({"agentic_parsing": False}, Outcome.AUTO_FAILED),
        ({"agentic_judge_context": "trace_only"}, Outcome.AUTO_FAILED),
        ({"agentic_judge_context": "trace_and_workspace"}, Outcome.CORRECT),
    ],
)
def test_an_agent_without_a_last_word_fails_if_only_its_answer_is_judged(
    root: Path, settings: dict[str, Any], outcome: Outcome
) -> None:
    judge = investigator(READ)
    left: list[str | Body] = [call("write_file", path="data/code.txt", content="QX4711"), "", ""]
    room = Plugins.discover()
    room.register(Deep())
    with (
        recording_server(lambda body: left.pop(0) if body["model"] == "silent" else judge(body)) as server,
        plugin_room.use_plugins(room),
    ):
        silent = {"id": "a", "interface": "deep", "model_name": "silent", "endpoint_base_url": server.url}
        (result,) = run(server, root, answering_models=[silent], **settings)
    assert (result.outcome, result.metadata.error) == (outcome, None)
    reasons = [veto.reason.partition(":")[0] for veto in result.vetoes]
    assert reasons == (["the trace does not end in an answer"] if outcome is Outcome.AUTO_FAILED else [])


def test_an_agent_that_says_and_does_nothing_is_not_judged(root: Path) -> None:
    judge = investigator(READ)
    room = Plugins.discover()
    room.register(Deep())
    with (
        recording_server(lambda body: "" if body["model"] == "silent" else judge(body)) as server,
        plugin_room.use_plugins(room),
    ):
        silent = {"id": "a", "interface": "deep", "model_name": "silent", "endpoint_base_url": server.url}
        (result,) = run(server, root, answering_models=[silent])
    assert result.outcome is Outcome.MODEL_ERROR
    assert "sent an empty reply" in (result.metadata.error or "")
    assert len(server.seen) == 2


def test_no_folder_is_prepared_where_neither_agents_answer_nor_judge(server: RecordingServer, root: Path) -> None:
    (result,) = run(server, root / "absent", agentic_parsing=False)
    assert result.metadata.completed_without_errors
    assert "PrepareWorkspace" not in {record.name for record in result.stages}
