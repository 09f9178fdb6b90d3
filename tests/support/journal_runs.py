"""Runs with a journal and two stages: one calls the answering model, and one the judge."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offers import offering

from karenina_benchmark import Benchmark
from karenina_core import ArtifactKeys, Stage, VerificationContext
from karenina_core import plugins as plugin_room
from karenina_core.errors import RunError
from karenina_core.models.ports import CallInfo, LLMReply, Message, ParserReply, Usage
from karenina_core.plugins import Plugins
from karenina_core.stages.finalize import FinalizeResult
from karenina_engine import plugin as engine
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.results.result_set import VerificationResultSet
from karenina_testing import ScriptedModels

SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}
AT_ONCE = RetryPolicy(base=0.0)


class RunKilled(RunError):
    """An error that ends a run like a signal from outside."""


class GenerateText(Stage):
    """A stage that calls the answering model."""

    name = "Say"
    scope = "answer"
    produces = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    usage_key = "answer_generation"
    fallback = True

    async def execute(self, context: VerificationContext) -> None:
        reply = await context.llm(context.answering_model).invoke([Message.user(context.question.question)])
        context.set_artifact(ArtifactKeys.RAW_LLM_RESPONSE, reply.text)


class CountWords(Stage):
    """A stage that asks the judge for the number of words of the answer."""

    name = "Count"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    usage_key = "counting"

    async def execute(self, context: VerificationContext) -> None:
        answer = context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)
        reply = await context.parser().parse([Message.user(f"How many words? {answer}")], SCHEMA)
        context.set_result_field("words", reply.text)


STAGES_ONLY = offering(generate_answer=[GenerateText], extra_stages=[CountWords], finalize_result=[FinalizeResult])
"""A plugin with the stages, and no model."""


@dataclass
class ScriptedRuns:
    """Runs with scripted models, whose replies are given and whose calls are recorded. `on_call` may raise or wait."""

    on_call: Callable[[str], Any] = lambda _text: None
    calls: list[str] = field(default_factory=list)
    answers: Callable[[str], str | LLMReply] = lambda text: f"an answer to {text}"
    counts: Callable[[str], str | ParserReply] = lambda text: f'{{"words": {len(text.split())}}}'
    version: str = "1.2"
    """The version of the distribution with the stages."""

    def plugins(self) -> Plugins:
        """Return the plugins of a run with these models."""
        plugins = Plugins()
        plugins.register(engine)
        plugins.register(STAGES_ONLY, distribution="karenina-test", version=self.version)
        plugins.register(ScriptedModels(say=self._say, fill=self._fill))
        plugins.register(ScriptedModels(say=self._say_more, interface="talkative"))
        return plugins

    def run(self, benchmark: Benchmark, **more: Any) -> VerificationResultSet:
        """Return the results of one run: `m` and `n` answer and `j` judges, unless `config` has other models."""
        config = {**CONFIG, **more.pop("config", {})}
        with plugin_room.use_plugins(self.plugins()):
            return benchmark.run_verification(config, policy=AT_ONCE, **more)

    def _say(self, messages: Sequence[Message], info: CallInfo) -> str | LLMReply:
        text = messages[-1].content
        self.calls.append(f"{info.task} {text}")
        self.on_call(text)
        return self.answers(text)

    def _say_more(self, messages: Sequence[Message], info: CallInfo) -> str:
        return f"{self._say(messages, info)} and more"

    def _fill(self, messages: Sequence[Message], _schema: Mapping[str, Any], info: CallInfo) -> str | ParserReply:
        text = messages[-1].content
        self.calls.append(f"{info.task} {text}")
        self.on_call(text)
        said = self.counts(text)
        return said if isinstance(said, ParserReply) else ParserReply(said, "json_schema", Usage(7, 3, calls=1))


def interrupted_at(call: int) -> ScriptedRuns:
    """Return runs in which Ctrl-C is pressed at the call of this number."""
    world = ScriptedRuns()

    def on_call(_text: str) -> None:
        if len(world.calls) == call:
            signal.raise_signal(signal.SIGINT)

    world.on_call = on_call
    return world


def make_model(id: str, **fields: Any) -> dict[str, Any]:
    """Return a scripted model. One called `n` says more than the others."""
    return {"id": id, "interface": "talkative" if id == "n" else "scripted", "model_name": id, **fields}


CONFIG: Mapping[str, Any] = {
    "answering_models": [make_model("m"), make_model("n")],
    "parsing_models": [make_model("j")],
    "evaluation_mode": "rubric_only",
}


def make_benchmark(*ids: str) -> Benchmark:
    """Return a benchmark with a question for each id."""
    benchmark = Benchmark.create("Words")
    for id in ids:
        benchmark.add_question(f"What is {id}?", question_id=id)
    return benchmark


def summarize(results: VerificationResultSet) -> list[tuple[Any, ...]]:
    """Return the findings of a run without its times: one line per item, in order."""
    return [
        (
            one.item,
            one.outcome.value,
            one.template.raw_llm_response,
            one.extensions,
            one.template.usage_metadata,
            [(record.name, record.status, record.error, record.calls) for record in one.stages],
        )
        for one in results
    ]


def read_result_lines(path: Path) -> list[str]:
    """Return the lines of the results in a file, without those that name what they share."""
    return [line for line in path.read_text("utf-8").splitlines() if not line.startswith(('{"run":', '{"table":'))]
