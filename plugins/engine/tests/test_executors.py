"""Executors: the selection of one, and the contract of those that plugins add."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from journal_runs import ScriptedRuns
from pydantic import BaseModel, Field

from karenina_benchmark import Benchmark
from karenina_core import VerificationConfig, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command
from karenina_core.config import all_settings
from karenina_core.errors import ConfigError, RunError
from karenina_core.models.model import ModelConfig
from karenina_core.plugins import Plugins
from karenina_engine import plugin as engine
from karenina_engine.calls.concurrency import Concurrency
from karenina_engine.run.execution import collect_results
from karenina_engine.run.executor import Executor
from karenina_engine.run.matrix import IndexedResult
from karenina_engine.run.prepare import prepare_session
from karenina_engine.run.request import RunRequest
from karenina_engine.run.session import RunSession

pytestmark = pytest.mark.alone


class Lamps(BaseModel):
    lamps: int = Field(default=1, description="How many.", json_schema_extra={"changes_results": False})


@dataclass(eq=False)
class Lighthouse(Executor):
    """An executor of a plugin that runs one answer after another."""

    name: ClassVar[str] = "lighthouse"
    settings: ClassVar[type[BaseModel]] = Lamps
    stops: list[float] = field(default_factory=list)

    def check(self, session: RunSession) -> None:
        if session.config.section(Lamps).lamps < 1:
            raise ConfigError(["lamps: there must be one"])

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        session.add_stop_listener(self.stops.append)
        for task in session.matrix:
            judges, kept = session.pending_judges(task)
            for placed in kept:
                yield placed
            made: list[IndexedResult] = []
            async with aclosing(session.runner.answer(task, judges)) as results:
                async for judge, result in results:
                    made.append(await session.store_result(task, judge, result))
            for placed in made:
                yield placed
            if self.stops:
                return

    @hookimpl
    def karenina_executors(self) -> Sequence[Executor]:
        return [self]


class Thrifty(Lighthouse):
    """An executor that supports budgets."""

    keeps_budgets: ClassVar[bool] = True


MONEY = {"prices": {id: {"input": 1, "output": 1} for id in ("a", "j", "k")}, "budget": "1"}


def world(*more: object) -> Plugins:
    plugins = ScriptedRuns().plugins()
    for one in more:
        plugins.register(one)
    return plugins


def config(**values: object) -> VerificationConfig:
    models = {"interface": "scripted", "model_name": "m"}
    return VerificationConfig(
        answering_models=[{"id": "a", **models}],
        parsing_models=[{"id": "j", **models}, {"id": "k", **models}],
        **values,
    )


def run_of(executor: str, plugins: Plugins, **values: object) -> RunSession:
    benchmark = Benchmark.create("b")
    for number in range(3):
        benchmark.add_question(f"What is {number}?")
    with plugin_room.use_plugins(plugins):
        return prepare_session(
            RunRequest(benchmark, config(executor=executor, evaluation_mode="rubric_only", **values))
        )


def test_a_plugins_executor_yields_the_same_results_as_asyncio() -> None:
    plugins = world(Lighthouse())

    theirs, ours = (asyncio.run(collect_results(run_of(name, plugins))) for name in ("lighthouse", "asyncio"))

    assert len(ours) == 6
    compared = [[(one.item, one.outcome, one.extensions) for one in results] for results in (theirs, ours)]
    assert compared[0] == compared[1]


def test_an_executor_is_notified_when_the_run_stops() -> None:
    lighthouse = Lighthouse()
    run = run_of("lighthouse", world(lighthouse))

    results = asyncio.run(collect_results(run, on_result=lambda _result: run.stop("enough", grace=2.0)))

    assert lighthouse.stops[0] == 2.0
    assert (len(results), run.stopped) == (2, "enough")


@pytest.mark.parametrize("stopped", [True, False])
def test_a_failing_callback_stops_the_run_but_ends_no_wait(stopped: bool) -> None:
    lighthouse = Lighthouse()
    run = run_of("lighthouse", world(lighthouse))

    def fail(_result: object) -> None:
        if stopped:
            run.stop("enough", grace=2.0)
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        asyncio.run(collect_results(run, on_result=fail))

    assert lighthouse.stops == [2.0 if stopped else 0.0]
    assert run.stopped == ("enough" if stopped else "a result could not be written or passed on")


def test_an_executor_owns_settings_and_checks_them_before_the_run() -> None:
    plugins = world(Lighthouse())
    with plugin_room.use_plugins(plugins):
        assert all_settings()["lamps"].owner == "this-program"

    with pytest.raises(ConfigError, match="lamps: there must be one"):
        run_of("lighthouse", plugins, lamps=0)


def test_a_budget_is_refused_if_the_executor_ignores_budgets() -> None:
    plugins = world(Lighthouse())

    with pytest.raises(ConfigError, match="the executor 'lighthouse' does not support a budget; remove the budget, or"):
        run_of("lighthouse", plugins, **MONEY)

    run = run_of("lighthouse", world(Thrifty()), **MONEY)
    assert run.budget is not None


def test_no_item_has_to_run_once_the_budget_is_spent() -> None:
    run = run_of("lighthouse", world(Thrifty()), **MONEY)
    assert run.budget is not None
    assert [run.pending_judges(task) for task in run.matrix] == [([0, 1], [])] * 3

    run.budget.exhaustion = "it is spent"

    assert [run.pending_judges(task) for task in run.matrix] == [([], [])] * 3


def test_the_first_stop_has_grace_after_the_budget_is_spent() -> None:
    run = run_of("lighthouse", world(Thrifty()), **MONEY)
    stops: list[float] = []
    run.add_stop_listener(stops.append)
    assert run.budget is not None

    run.budget.exhaustion = run.budget.describe_exhaustion()
    for _ in range(2):
        run.stop("Ctrl-C", grace=2.0)

    assert stops == [2.0, 0.0]
    assert str(run.stopped).startswith("the run's budget of $1.0000 does not cover the next call")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("asyncoi", "there is no executor 'asyncoi'.*asyncio"),
        (
            "ray",
            "executor: the executor 'ray' is not available; karenina-ray is not installed: "
            + re.escape(install_command("karenina-ray")),
        ),
    ],
)
def test_an_unknown_executor_is_an_error_with_the_cure(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_of(name, world())


def test_an_unknown_executor_is_reported_before_models_that_cannot_be_used() -> None:
    no_model = Plugins()
    no_model.register(engine)
    with pytest.raises(ConfigError, match=r"^executor: there is no executor 'asyncoi'; did you mean 'asyncio'\?$"):
        run_of("asyncoi", no_model)


def test_two_executors_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two plugins offer the executor 'lighthouse'"):
        run_of("lighthouse", world(Lighthouse(), Lighthouse()))


class Nameless(Executor):
    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        raise NotImplementedError


class Dark(Executor):
    name = "dark"

    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]: ...  # type: ignore[empty-body]


class plugin:
    @staticmethod
    @hookimpl
    def karenina_executors() -> list[Executor]:
        return [Nameless(), Dark()]


def test_an_executor_without_a_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"'nameless'.*the class Nameless has no name; write name = "):
        run_of("nameless", world(plugin))


def test_an_executor_without_results_ends_the_run() -> None:
    message = r"execute\(\) of the executor Dark returned None instead of an asynchronous generator"
    with pytest.raises(RunError, match=message):
        asyncio.run(collect_results(run_of("dark", world(plugin))))


class Forgetful(Lighthouse):
    """An executor that ends after the first result."""

    name: ClassVar[str] = "forgetful"

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        async for placed in super().execute(session):
            yield placed
            return


class Stuttering(Lighthouse):
    """An executor that yields each result twice."""

    name: ClassVar[str] = "stuttering"

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        async for placed in super().execute(session):
            yield placed
            yield placed


class Misplacing(Lighthouse):
    """An executor that yields results with the place of the item before."""

    name: ClassVar[str] = "misplacing"

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        async for placed in super().execute(session):
            yield placed._replace(place=placed.place - 1)


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        (Forgetful(), r"the executor Forgetful ended after the results of 1 of \d+ items; yield all"),
        (Stuttering(), "the executor Stuttering yielded the result of an item twice; yield each once"),
        (Misplacing(), r"the executor Misplacing yielded a result at place -1 of \d+ items"),
    ],
)
def test_an_executor_yields_each_result_once(executor: Executor, message: str) -> None:
    with pytest.raises(RunError, match=message):
        asyncio.run(collect_results(run_of(executor.name, world(executor))))


class Lost(Lighthouse):
    """An executor that fails after the first result."""

    name: ClassVar[str] = "lost"

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        async for placed in super().execute(session):
            yield placed
            raise ConnectionError("the node is lost")


class Adrift(Lighthouse):
    """An executor that fails before it returns a generator."""

    name: ClassVar[str] = "adrift"

    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        raise ConnectionError("the node is lost")


class Counting(Lighthouse):
    """An executor that yields no results, but numbers."""

    name: ClassVar[str] = "counting"

    async def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        yield 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        (Lost(), r"the executor Lost failed: ConnectionError: the node is lost \(test_executors.py:\d+\)"),
        (Adrift(), r"the executor Adrift failed: ConnectionError: the node is lost \(test_executors.py:\d+\)"),
        (Counting(), "the executor Counting failed: AttributeError: 'int' object has no attribute 'place'"),
    ],
)
def test_an_executor_that_fails_is_named(executor: Executor, message: str) -> None:
    with pytest.raises(RunError, match=message):
        asyncio.run(collect_results(run_of(executor.name, world(executor))))


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("declared", [None, 9])
def test_workers_share_the_concurrency_of_one(workers: int, declared: int | None) -> None:
    whole = Concurrency(ceiling=50, start=20, models={"fixed": 8}, most=30)
    parts = [whole.share(worker, workers) for worker in range(workers)]

    assert sum(part.most or 0 for part in parts) == 30
    for id in ("fixed", "free"):
        model = ModelConfig(id=id, interface="scripted", model_name="m")
        bounds = [part.bounds(model, declared) for part in parts]
        assert sum(one.ceiling for one in bounds) == whole.bounds(model, declared).ceiling
        assert sum(one.start for one in bounds) == whole.bounds(model, declared).start
