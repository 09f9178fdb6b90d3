"""What workers cannot be told is refused before anything is asked, with what to do about it."""

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
from karenina_engine.journal.request import RunRequest
from karenina_engine.scheduling.prepare import prepare_session
from karenina_template.templates import BaseAnswer, ExactMatch, VerifiedField

HIDDEN = "BCL2"


class Plain(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())


class Needy(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth=HIDDEN, verify_with=ExactMatch())


def refusal(questions: Benchmark, **values: Any) -> str:
    with serving() as server, pytest.raises(ConfigError) as caught:
        prepare_session(RunRequest(questions, config(server, "ray", **values)))
    assert server.heard == []
    return str(caught.value)


def test_a_plugin_of_this_process_alone_is_refused() -> None:
    class Hut(Stage):
        name = "Hut"

        def execute(self, context: VerificationContext) -> None:
            """Stands there."""

    class Offer:
        @hookimpl
        def karenina_extra_stages(self) -> Sequence[type[Stage]]:
            return [Hut]

    plugins = Plugins.discover()
    plugins.register(Offer())
    with plugin_room.use_plugins(plugins):
        said = refusal(benchmark(1))

    assert "the plugin Offer is registered in this process only" in said
    assert "entry points" in said
    assert "asyncio" in said


def test_a_template_class_goes_by_its_source_where_that_stands_alone() -> None:
    questions = Benchmark.create("genes")
    questions.add_question(question="Which gene?", raw_answer="BCL2", answer_template=Plain)
    with serving() as server:
        assert len(prepare_session(RunRequest(questions, config(server, "ray")))) == 2

    questions.add_question(question="Which gene, then?", raw_answer="BCL2", answer_template=Needy)
    said = refusal(questions)
    assert "is a class of this process" in said
    assert "asyncio" in said


def test_the_client_of_ray_is_refused() -> None:
    assert "ray_address (of karenina-ray): Ray's client" in refusal(
        benchmark(1), ray_address="ray://head:10001"
    ).replace("ray's", "Ray's")
