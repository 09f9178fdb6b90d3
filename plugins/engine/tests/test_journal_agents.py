"""Tests of agents with a journal: each turn is stored, so that a resumed run repeats no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from journal_runs import AT_ONCE, RunKilled, make_benchmark
from looping_agent import LoopingAgent

from karenina_core import ArtifactKeys, Stage, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.ports import AgentOptions, Message, Tool, ToolCall, Turn, Usage
from karenina_core.plugins import Plugins
from karenina_core.stages.finalize import FinalizeResult
from karenina_engine.results.result_set import VerificationResultSet

CONFIG: Mapping[str, Any] = {
    "answering_models": [{"id": "m", "interface": "looping", "model_name": "m"}],
    "evaluation_mode": "rubric_only",
}


@dataclass(eq=False)
class Agents:
    """Agents that call a tool twice and then answer. `dies_at` ends the run at the request of this number."""

    folder: Path | None = None
    dies_at: int = 0
    requests: list[int] = field(default_factory=list)
    tools_called: int = 0

    def run(self, **more: Any) -> VerificationResultSet:
        """Run over one question."""
        plugins = Plugins()
        plugins.register(self, distribution="karenina-test", version="1")
        with plugin_room.use_plugins(plugins):
            return make_benchmark("a").run_verification(CONFIG, policy=AT_ONCE, **more)

    @hookimpl
    def karenina_adapters(self) -> list[AdapterSpec]:
        return [AdapterSpec(interface="looping", description="", agent=lambda _: LoopingAgent(lambda: _Talk(self)))]

    @hookimpl
    def karenina_generate_answer(self) -> Sequence[type[Stage]]:
        world = self

        class Work(Stage):
            name = "Work"
            scope = "answer"
            produces = frozenset({ArtifactKeys.RAW_LLM_RESPONSE, ArtifactKeys.TRACE_MESSAGES})
            usage_key = "answer_generation"
            fallback = True

            async def execute(self, context: VerificationContext) -> None:
                options = AgentOptions(tools=(_Look(world),), workspace=world.folder)
                asked = [Message.user(context.question.question)]
                reply = await context.agent(context.answering_model).run(asked, options)
                context.set_artifact(ArtifactKeys.RAW_LLM_RESPONSE, reply.trace[-1].content)
                context.set_artifact(ArtifactKeys.TRACE_MESSAGES, list(reply.trace))

        return [Work]

    @hookimpl
    def karenina_finalize_result(self) -> Sequence[type[Stage]]:
        return [FinalizeResult]


class _Look:
    name = "look"
    description = "Looks."
    schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, world: Agents) -> None:
        self._world = world

    async def call(self, arguments: Mapping[str, Any]) -> str:
        del arguments
        self._world.tools_called += 1
        return "nothing there"


class _Talk:
    where = "the looping agent"

    def __init__(self, world: Agents) -> None:
        self._world = world
        self._wires: list[Any] = []

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        del tools, first
        turn = len(self._wires) + 1
        self._world.requests.append(turn)
        if self._world.dies_at == turn:
            raise RunKilled
        assert self._wires == [f"wire {number}" for number in range(1, turn)], "the provider gets its own words back"
        calls = [ToolCall(f"call_{turn}", "look")] if turn < 3 else []
        said = Message.assistant("" if calls else "There is nothing.", calls)
        return Turn(said, Usage(10, 5, calls=1), wire=f"wire {turn}")

    def add_turn(self, turn: Turn) -> None:
        self._wires.append(turn.wire)

    def add_results(self, results: Sequence[Message]) -> None:
        assert [one.content for one in results] == ["nothing there"]


@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.parametrize("in_folder", [False, True])
def test_stopped_agent_continues_at_its_next_turn(tmp_path: Path, stop: int, *, in_folder: bool) -> None:
    folder = tmp_path if in_folder else None
    stopped, rest, whole = Agents(folder, dies_at=stop), Agents(folder), Agents(folder)
    with pytest.raises(RunKilled):
        stopped.run(journal=tmp_path / "j.journal")
    found = rest.run(journal=tmp_path / "j.journal")
    expected = whole.run()

    assert rest.requests == list(range(stop, 4))
    assert rest.tools_called == 2, "the tools work once more, in what may be a fresh folder"
    assert found[0].template.trace_messages == expected[0].template.trace_messages
    assert found[0].template.usage_metadata == expected[0].template.usage_metadata


def test_finished_agent_is_not_repeated_if_its_folder_is_unread(tmp_path: Path) -> None:
    Agents().run(journal=tmp_path / "j.journal")
    extended = Agents()
    results = _run_with_other_name(extended, tmp_path / "j.journal")

    assert (extended.requests, extended.tools_called) == ([], 0)
    assert results[0].template.raw_llm_response == "There is nothing."


def test_agent_whose_folder_is_read_repeats_its_stored_turns(tmp_path: Path) -> None:
    Agents(tmp_path).run(journal=tmp_path / "j.journal")
    extended = Agents(tmp_path)
    _run_with_other_name(extended, tmp_path / "j.journal")

    assert (extended.requests, extended.tools_called) == ([], 2)


def test_a_replay_gives_an_agents_trace_without_its_tools(tmp_path: Path) -> None:
    Agents(tmp_path).run(journal=tmp_path / "j.journal", output=tmp_path / "then.jsonl")
    replayed = Agents(tmp_path)
    replayed.run(journal=tmp_path / "j.journal", output=tmp_path / "now.jsonl", replay=True)

    assert (replayed.requests, replayed.tools_called) == ([], 0)
    assert (tmp_path / "now.jsonl").read_bytes() == (tmp_path / "then.jsonl").read_bytes()


def _run_with_other_name(world: Agents, journal: Path) -> VerificationResultSet:
    """Run the same calls again without using the journal's results."""
    plugins = Plugins()
    plugins.register(world, distribution="karenina-test", version="1")
    with plugin_room.use_plugins(plugins):
        return make_benchmark("a").run_verification({**CONFIG, "run_name": "other"}, policy=AT_ONCE, journal=journal)
