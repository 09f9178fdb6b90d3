"""A stage may make a model for each item; every call goes to the model that the stage gave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from journal_runs import CONFIG, SCHEMA, GenerateText, make_benchmark
from offers import offering

from karenina_core import ArtifactKeys, Stage, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.config import VerificationConfig
from karenina_core.models.adapters import AdapterConfigError, AdapterSpec
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import (
    NO_INFO,
    ErrorCategory,
    Message,
    ModelRequest,
    ParserReply,
    PortError,
    Usage,
)
from karenina_core.plugins import Plugins
from karenina_core.stages.finalize import FinalizeResult
from karenina_engine import plugin as engine
from karenina_engine.run.port_factory import PortFactory, RunParts
from karenina_testing import ScriptedModels


class AskAModelOfTheItem(Stage):
    """A stage that asks a model of its own, which it makes for each item."""

    name = "AskOwn"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})

    async def execute(self, context: VerificationContext) -> None:
        asked = []
        for number in range(5):
            name = f"{context.question.id}, {number}"
            model = ModelConfig(id=name, interface="named", model_name=name)
            asked.append((await context.parser(model).parse([Message.user("Who are you?")], SCHEMA)).text)
            del model
        context.set_result_field("asked", asked)


class _NamedParser:
    """A port that replies with the name of its model."""

    def __init__(self, model: ModelConfig) -> None:
        self._name = model.model_name

    async def aclose(self) -> None:
        """Do nothing; there is nothing to close."""

    async def parse(self, _messages: Sequence[Message], _schema: Any, **_more: Any) -> ParserReply:
        return ParserReply(self._name, "json_schema", Usage(1, 1, calls=1))


class NamedModels:
    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        return [AdapterSpec(interface="named", description="Says its name.", parser=_NamedParser)]


def test_each_call_goes_to_the_model_made_for_its_item() -> None:
    plugins = Plugins()
    plugins.register(engine)
    stages = offering(
        generate_answer=[GenerateText], extra_stages=[AskAModelOfTheItem], finalize_result=[FinalizeResult]
    )
    plugins.register(stages, distribution="karenina-test", version="1")
    plugins.register(ScriptedModels())
    plugins.register(NamedModels(), distribution="karenina-named", version="1")
    answering = {"id": "m", "interface": "scripted", "model_name": "m"}
    ids = [f"q{number}" for number in range(40)]
    with plugin_room.use_plugins(plugins):
        results = make_benchmark(*ids).run_verification(
            {**CONFIG, "answering_models": [answering], "parsing_models": [answering], "max_concurrency": 1}
        )

    assert [one.extensions["karenina-test"]["asked"] for one in results] == [
        [f"{id}, {number}" for number in range(5)] for id in ids
    ]


class UnusableModels:
    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        def refuse(_model: ModelConfig) -> Any:
            raise AdapterConfigError("the model has no argument base_url")

        return [AdapterSpec(interface="unusable", description="Cannot be created.", llm=refuse)]


@pytest.mark.anyio
async def test_a_model_that_cannot_be_created_is_a_permanent_error() -> None:
    plugins = Plugins()
    plugins.register(UnusableModels(), distribution="karenina-unusable", version="1")
    hub = PortFactory(RunParts(plugins, VerificationConfig()))
    model = ModelConfig(id="m", interface="unusable", model_name="m")
    with pytest.raises(PortError, match=r"^the model has no argument base_url$") as caught:
        await hub.call(ModelRequest(model, [Message.user("?")], NO_INFO))
    assert caught.value.category is ErrorCategory.PERMANENT
