"""Tests of what cannot be sent to workers: it is refused before any call, with the cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ray_runs import benchmark, config, serving

from karenina_benchmark import Benchmark
from karenina_core import Stage, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError
from karenina_core.plugins import Plugins
from karenina_engine.run.prepare import prepare_session
from karenina_engine.run.request import RunRequest
from karenina_template.templates import BaseAnswer, ExactMatch, VerifiedField

HIDDEN = "BCL2"


class SelfContained(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())


class Dependent(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth=HIDDEN, verify_with=ExactMatch())


def refusal(questions: Benchmark, **values: Any) -> str:
    with serving() as server, pytest.raises(ConfigError) as caught:
        prepare_session(RunRequest(questions, config(server, "ray", **values)))
    assert server.received == []
    return str(caught.value)


def test_plugin_registered_in_this_process_only_is_refused() -> None:
    class Unshared(Stage):
        name = "Unshared"

        def execute(self, context: VerificationContext) -> None:
            """Do nothing."""

    class Offer:
        @hookimpl
        def karenina_extra_stages(self) -> Sequence[type[Stage]]:
            return [Unshared]

    plugins = Plugins.discover()
    plugins.register(Offer())
    with plugin_room.use_plugins(plugins):
        message = refusal(benchmark(1))

    assert "the plugin 'Offer' is registered only in this process" in message
    assert "entry points" in message
    assert "asyncio" in message


def test_template_class_must_be_rebuildable_from_its_source() -> None:
    questions = Benchmark.create("genes")
    questions.add_question(question="Which gene?", raw_answer="BCL2", answer_template=SelfContained)
    with serving() as server:
        assert len(prepare_session(RunRequest(questions, config(server, "ray")))) == 2

    questions.add_question(question="Which gene, then?", raw_answer="BCL2", answer_template=Dependent)
    message = refusal(questions)
    assert "is a class in this process and cannot be rebuilt from its source alone" in message
    assert "asyncio" in message


def test_ray_client_address_is_refused() -> None:
    message = refusal(benchmark(1), ray_address="ray://head:10001")
    assert "ray_address (of karenina-ray): the Ray client (ray://) is not supported" in message
