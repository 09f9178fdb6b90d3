"""A plugin as third parties write them, installed as a distribution: an adapter for the test server, and two stages.

Workers find it as they find any other, by its entry points.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from karenina_core import ArtifactKeys, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core.data.question import Question
from karenina_core.errors import RunError
from karenina_core.models import ports
from karenina_core.models.adapters import AdapterConfigError, AdapterSpec
from karenina_core.models.model import ModelConfig
from karenina_toolkit.files.bounded_files import max_file_bytes
from karenina_toolkit.kept_files import keep_file

SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}


RUN: ContextVar[str] = ContextVar("fake_plugin_run", default="")
WORKING: set[str] = set()


class Ask(Stage):
    """A stage that calls the answering model. A question about poison kills the process that works on it."""

    name = "Ask"
    scope = "answer"
    produces = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    usage_key = "answer_generation"
    fallback = True

    def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[ports.SourceFolder]:
        _, _, folder = question.question.partition("What is in ")
        return [ports.SourceFolder(Path(folder))] if folder else []

    async def execute(self, context: VerificationContext) -> None:
        if "poison" in context.question.question:
            os.kill(os.getpid(), signal.SIGKILL)
        if "ends the run" in context.question.question:
            raise RunError("the stage ends the run")
        if "cancels itself" in context.question.question:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)
        asked = ports.Message("user", context.question.question, attachments=context.question.attachments)
        WORKING.add(context.question.id)
        if "in progress" in context.question.question:
            context.set_result_field("in_progress", len(WORKING))
        try:
            reply = await context.llm(context.answering_model).invoke([asked])
        finally:
            WORKING.discard(context.question.id)
        context.set_artifact(ArtifactKeys.RAW_LLM_RESPONSE, reply.text)
        if "keep" in context.question.question:
            keep_file("answer.txt", reply.text.encode())


class Judge(Stage):
    """A stage that has the judge count the words of the answer. It records what applies to the run."""

    name = "Judge"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    usage_key = "judging"

    def before_any_run(self, config: VerificationConfig) -> None:
        logging.getLogger("karenina").warning("the run is called %s", config.core.run_name)
        RUN.set(config.core.run_name or "")
        behind, _, run = (config.core.run_name or "").partition(" s behind ")
        if run and int(run) != os.getpid():
            now = time.time
            time.time = lambda: now() - int(behind)

    async def execute(self, context: VerificationContext) -> None:
        answer = context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)
        if "weary" in answer:
            logging.getLogger("karenina").warning("[%s] the answer is weary", context.question.id)
        reply = await context.parser().parse(
            [ports.Message.user(f"{context.parsing_model.id} reads: {answer}")], SCHEMA
        )
        context.set_result_field("words", reply.text)
        context.set_result_field("run", RUN.get())
        context.set_result_field("max_file_bytes", max_file_bytes())


class Port:
    """A port that calls the test server, with one connection per call. It sends its process id."""

    def __init__(self, model: ModelConfig) -> None:
        self._model = model
        where = urlsplit(model.endpoint_base_url or "")
        self._host, self._port = where.hostname, where.port

    async def invoke(
        self, messages: Sequence[ports.Message], *, info: ports.CallInfo = ports.NO_INFO
    ) -> ports.LLMReply:
        if "keep" in messages[-1].content:
            keep_file("same.txt", b"the same of every call")
        reply = ports.LLMReply(await self._request(messages), usage=ports.Usage(10, 5, calls=1))
        return replace(reply, finish_reason="other", server_reason="weary") if "weary" in reply.text else reply

    async def parse(
        self, messages: Sequence[ports.Message], schema: Mapping[str, Any], *, info: ports.CallInfo = ports.NO_INFO
    ) -> ports.ParserReply:
        return ports.ParserReply(await self._request(messages), "prompt", usage=ports.Usage(20, 3, calls=1))

    async def aclose(self) -> None:
        """Do nothing: no connection stays open."""

    async def _request(self, messages: Sequence[ports.Message]) -> str:
        key = self._model.endpoint_api_key
        body = {
            "pid": os.getpid(),
            "model": self._model.model_name,
            "text": messages[-1].content,
            "files": [[file.source, file.media_type, file.sha256] for file in messages[-1].attachments],
            "key": key.get_secret_value() if key else None,
        }
        data = json.dumps(body).encode()
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(b"POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            head, _, reply = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise ports.PortError("the server refused the call", category=ports.ErrorCategory.PERMANENT, status=400)
        return reply.decode()


def check_key(model: ModelConfig) -> None:
    """Raise `AdapterConfigError` if the environment contains no key."""
    if "FAKE_PLUGIN_KEY" not in os.environ:
        raise AdapterConfigError(f"model {model.id!r}: set FAKE_PLUGIN_KEY")


class plugin:
    @staticmethod
    @hookimpl
    def karenina_generate_answer() -> Sequence[type[Stage]]:
        return [Ask]

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        return [Judge]

    @staticmethod
    @hookimpl
    def karenina_adapters() -> Sequence[AdapterSpec]:
        fake = AdapterSpec(interface="fake_plugin.fake", description="The test server.", llm=Port, parser=Port)
        recorded = replace(fake, interface="fake_plugin.recorded", recorded=True, concurrency=lambda _model: 1000)
        keyed = replace(fake, interface="fake_plugin.keyed", check=check_key)
        return [fake, recorded, keyed]
