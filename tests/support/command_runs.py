"""Run the `karenina` command in this process with the plugins that a test chooses."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import pytest
from offers import offering
from typer.testing import CliRunner

from karenina_cli.app import build_command
from karenina_core import ArtifactKeys, Stage, VerificationContext
from karenina_core import plugins as plugin_room
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import ModelIdentity, VerificationResultMetadata, VerificationResultTemplate
from karenina_core.plugins import Plugins
from karenina_core.stages.finalize import FinalizeResult
from karenina_engine import plugin as engine
from karenina_testing import ScriptedModels

Plugin = TypeVar("Plugin")


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The standard output, which is JSON and nothing else."""
        return json.loads(self.out)


def run_karenina(
    *arguments: str | Path, plugins: Plugins | None = None, width: int = 400, type: str = ""
) -> CommandResult:
    """Run the command; without `plugins`, none is installed. `type` is the input of the user."""
    runner = CliRunner(env={"COLUMNS": str(width), "NO_COLOR": "1"})
    with plugin_room.use_plugins(plugins if plugins is not None else Plugins()):
        # `runner.invoke` would build all commands a second time.
        command = build_command() if plugins is not None else _command_without_plugins()
        with runner.isolation(input=type) as (out, err, _):
            with pytest.raises(SystemExit) as ended:
                command(args=[str(argument) for argument in arguments], prog_name="karenina")
            sys.stdout.flush()
            sys.stderr.flush()
            return CommandResult(_exit_code(ended.value), _text(out), _text(err))


@cache
def _command_without_plugins() -> Callable[..., object]:
    return build_command()


def _exit_code(ended: SystemExit) -> int:
    """Return the exit code of a command, which ends without a message of its own."""
    assert ended.code is None or isinstance(ended.code, int)
    return ended.code or 0


def _text(stream: BytesIO) -> str:
    """Return what a command wrote."""
    return stream.getvalue().decode().replace("\r\n", "\n")


@contextmanager
def registered(plugin: Plugin) -> Iterator[Plugin]:
    """Use the installed plugins, and `plugin`, inside the block."""
    plugins = Plugins.discover()
    plugins.register(plugin)
    with plugin_room.use_plugins(plugins):
        yield plugin


class GenerateText(Stage):
    """A minimal stage that calls the model and stores its reply. Longer answers take longer."""

    name = "Say"
    scope = "answer"
    produces = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    fallback = True

    async def execute(self, context: VerificationContext) -> None:
        messages: list[Any] = []
        reply = await context.llm(context.answering_model).invoke(messages, info=context.call_info)
        for _ in reply.text:
            await asyncio.sleep(0)
        context.set_artifact(ArtifactKeys.RAW_LLM_RESPONSE, reply.text)


def make_plugins(say: Callable[[str], str] = lambda _question: "an answer") -> Plugins:
    """Return plugins that run a benchmark with `evaluation_mode=rubric_only`; models reply with `say(question id)`."""
    plugins = Plugins()
    plugins.register(engine)
    stages = offering(generate_answer=[GenerateText], finalize_result=[FinalizeResult])
    plugins.register(stages, distribution="karenina-test", version="1.2")
    plugins.register(ScriptedModels(say=lambda _messages, info: say(info.question_id)))
    return plugins


def write_benchmark(folder: Path, *ids: str, more: str = "") -> Path:
    """Return a benchmark file with these questions."""
    file = folder / "words.yaml"
    questions = "".join(f"\n  - {{id: {id}, question: 'What is {id}?'}}" for id in ids)
    file.write_text(f"karenina: 1\nname: Words\n{more}questions:{questions or ' []'}\n", "utf-8")
    return file


def make_result(
    id: str = "q1", outcome: Outcome = Outcome.CORRECT, answer: str = "It is 7.", **fields: Any
) -> VerificationResult:
    """Return a result as a run writes it."""
    model = ModelIdentity(interface="scripted", model_name="m")
    metadata = {
        "question_id": id,
        "template_id": "t",
        "result_id": f"r-{id}",
        "question_text": f"What is {id}?",
        "answering_id": "m",
        "parsing_id": "j",
        "answering": model,
        "parsing": model,
        **fields.pop("metadata", {}),
    }
    template = {"raw_llm_response": answer, **fields.pop("template", {})}
    return VerificationResult(
        metadata=VerificationResultMetadata(**metadata),
        outcome=outcome,
        template=VerificationResultTemplate(**template),
        **fields,
    )


def write_results(file: Path, *results: VerificationResult) -> Path:
    """Return a result file with these lines."""
    file.write_text("".join(one.model_dump_json() + "\n" for one in results), "utf-8")
    return file
