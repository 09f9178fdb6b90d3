"""Checks of stages before a run, fields to which several stages add, and retried calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest
from offers import offering
from pydantic import BaseModel

from karenina_core import Question, Skip, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import (
    NO_INFO,
    AgentOptions,
    AgentReply,
    CallInfo,
    ErrorCategory,
    LLMReply,
    Message,
    ModelRequest,
    PortError,
    Turn,
    Usage,
)
from karenina_core.namespaces import namespace_of
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import ModelNeed
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.check.stage_checks import check_models
from karenina_engine.run.port_factory import PortFactory, RunParts
from karenina_engine.run.prepare import make_session
from karenina_engine.run.session import RunSession
from karenina_testing import ScriptedModels, run_stage

ENTRIES = [Question(question="One?", id="1"), Question(question="Two?", id="2"), Question(question="Left?", id="left")]


class Answers(Stage):
    """A stage of slot 2 that needs no model."""

    from karenina_core import ArtifactKeys as Keys

    name = "Answers"
    scope = "answer"
    produces = frozenset({Keys.RAW_LLM_RESPONSE})
    fallback = True

    def execute(self, context: VerificationContext) -> None:
        context.set_artifact(self.Keys.RAW_LLM_RESPONSE, "an answer")


class Grade(BaseModel):
    """A question's field without a default."""

    level: int
    note: str = ""


class Grades(Answers):
    """A stage that needs a field of each question."""

    name = "Grades"
    question_settings = Grade


def run_with(
    look: Callable[[VerificationConfig, Sequence[Question]], Iterable[ModelNeed]],
    wants: Callable[[Question], bool] = lambda _question: True,
    check: Callable[[VerificationConfig], None] = lambda _config: None,
    includes: Callable[[Question], bool] = lambda question: question.id != "left",
    answers: type[Stage] = Answers,
    questions: Sequence[Question] = ENTRIES,
) -> RunSession:
    class Outside(Stage):
        name = "Outside"

        def execute(self, context: VerificationContext) -> None:
            raise AssertionError("it is in no plan")

        def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
            return Skip("it is in no plan")

        def before_any_run(self, config: VerificationConfig) -> None:
            check(config)

    class Looks(Stage):
        name = "Looks"

        def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
            return includes(question)

        def checks_question(self, config: VerificationConfig, question: Question) -> bool:
            return wants(question)

        def before_run(
            self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
        ) -> Iterable[ModelNeed]:
            return look(config, questions)

        def execute(self, context: VerificationContext) -> None:
            """Do nothing."""

    text = AdapterSpec(interface="text", description="Text alone.", llm=lambda _: None)  # type: ignore[arg-type,return-value]
    offer = offering(generate_answer=[answers], extra_stages=[Looks, Outside], adapters=[text])

    from karenina_core.stages import finalize

    plugins = Plugins()
    models = ScriptedModels()
    for plugin in (offer, models, finalize.plugin):
        plugins.register(plugin)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            evaluation_mode="rubric_only", answering_models=[models.model()], parsing_models=[models.model("judge")]
        )
        return make_session(questions, config, plugins, trust=Trust())


def test_a_question_without_a_required_field_is_refused_before_the_run() -> None:
    name = f"{namespace_of(Grade)}level"
    graded = [Question(question="One?", id="1", extra={name: 3}), Question(question="Two?", id="2")]

    with pytest.raises(ConfigError) as caught:
        run_with(lambda _config, _questions: (), answers=Grades, questions=graded)
    assert caught.value.problems == [
        f"question 2: {name} is missing, which the stage Grades requires; add it to the question"
    ]
    run_with(lambda _config, _questions: (), answers=Grades, questions=graded[:1])


def test_a_stage_in_no_plan_sees_the_configuration_once() -> None:
    seen: list[VerificationConfig] = []

    run = run_with(lambda _config, _questions: (), check=seen.append)

    assert seen == [run.config]


def test_a_stage_in_no_plan_can_refuse_the_run() -> None:
    def refuse(_config: VerificationConfig) -> None:
        raise ValueError("the folder is missing")

    with pytest.raises(ConfigError, match="Outside: the folder is missing"):
        run_with(lambda _config, _questions: (), check=refuse)


def fail(_model: ModelConfig) -> None:
    raise KeyError("region")


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (fail, "judge 'm': check() of 'plain' failed: KeyError: 'region'"),
        (lambda _model: ["no region"], "judge 'm': check() of 'plain' returned ['no region']; it must raise Adapter"),
    ],
)
def test_a_check_of_an_adapter_that_fails_or_returns_its_finding_is_named(check: Any, says: str) -> None:
    plugins = Plugins()
    plugins.register(offering(adapters=[AdapterSpec(interface="plain", description="", check=check)]))
    with pytest.raises(ConfigError, match=re.escape(says)):
        check_models(plugins, [("judge", ModelConfig(id="m", interface="plain", model_name="m"))])


def test_a_stage_checks_only_the_questions_it_selects() -> None:
    seen: list[str] = []

    def look(_config: VerificationConfig, questions: Sequence[Question]) -> Iterable[ModelNeed]:
        seen.extend(question.id for question in questions)
        return ()

    run_with(look)
    run_with(look, lambda question: question.id == "2")
    assert seen == ["1", "2", "2"]


def _is_left_unless_it_fails(question: Question) -> bool:
    try:
        return question.id != "left"
    except Exception:
        return True


@pytest.mark.parametrize(
    "includes",
    [
        _is_left_unless_it_fails,
        lambda question: getattr(question, "id", None) != "left",
        lambda question: question.model_copy().id != "left",
        lambda question: isinstance(question, Question) and question.id != "left",
        lambda question: len({question, *ENTRIES[:2]}) == 2,
        lambda question: question != ENTRIES[2],
        lambda question: "'left'" not in repr(question),
        lambda question: "id='left'" not in str(question) and bool(question),
    ],
    ids=["caught", "by name", "copied", "by class", "in a set", "compared", "as text", "formatted"],
)
def test_a_stage_may_read_the_question_in_any_way(includes: Callable[[Question], bool]) -> None:
    seen: list[str] = []

    def look(_config: VerificationConfig, questions: Sequence[Question]) -> Iterable[ModelNeed]:
        seen.extend(question.id for question in questions)
        return ()

    run_with(look, includes=includes)
    assert seen == ["1", "2"]


def test_a_stage_checks_the_questions_of_its_plans_once() -> None:
    asked: list[list[str]] = []

    def look(_: VerificationConfig, questions: Sequence[Question]) -> Iterable[ModelNeed]:
        asked.append([question.id for question in questions])
        return ()

    run_with(look)
    assert asked == [["1", "2"]]


@pytest.mark.parametrize("error", [ValueError("the cable is out"), ConfigError(["the cable is out"])])
def test_problems_of_stages_are_reported_before_the_run(error: Exception) -> None:
    def look(*_: object) -> Iterable[ModelNeed]:
        raise error

    with pytest.raises(ConfigError, match="the cable is out"):
        run_with(look)


@pytest.mark.parametrize(
    ("model", "ports", "told"),
    [
        ({"interface": "text"}, {"llm"}, None),
        ({"interface": "text"}, {"llm", "agent"}, "checker 'm': Looks needs the agent port, which the adapter 'text'"),
        ({"interface": "absent"}, {"llm"}, "absent"),
        ({"interface": "text", "extra": {"x": 1}}, {"llm"}, "has no extra settings; remove x from extra"),
        (
            {"interface": "text", "model_name": "m@gpu1:80"},
            {"llm"},
            "move the URL to endpoint_base_url = 'http://gpu1:80'",
        ),
        ({"interface": "text", "model_name": "m@https://gpu1"}, {"llm"}, "endpoint_base_url = 'https://gpu1'"),
        ({"interface": "text", "model_name": "m@v1.beta", "endpoint_base_url": "http://gpu1"}, {"llm"}, None),
    ],
)
def test_the_models_that_a_stage_names_are_checked(model: dict[str, Any], ports: set[str], told: str | None) -> None:
    need = ModelNeed("checker", ModelConfig(**{"id": "m", "model_name": "m", **model}), frozenset(ports))
    if told is None:
        assert len(run_with(lambda *_: [need])) == 3
        return
    with pytest.raises(ConfigError) as caught:
        run_with(lambda *_: [need, need])
    assert told in str(caught.value)
    assert len(caught.value.problems) == 1


class Adds(Stage):
    """A stage that adds to fields that have a value already."""

    name = "Adds"
    more: ClassVar[list[tuple[str, Any]]] = []

    def execute(self, context: VerificationContext) -> None:
        for name, value in self.more:
            context.extend_result_field(name, value)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([{"a": "1"}], {"a": "1"}),
        ([{"a": "1"}, {"b": "2"}], {"a": "1", "b": "2"}),
        ([{"a": "1"}, {"a": "2"}], {"a": "2"}),
        ([["a"], ("b",)], ["a", "b"]),
        ([{}], {}),
    ],
)
def test_several_stages_can_add_to_one_result_field(more: list[Any], expected: object) -> None:
    stage = type("Adds", (Adds,), {"more": [("trait_errors", one) for one in more]})
    found = asyncio.run(run_stage(stage))
    assert found.error is None
    assert found.field("trait_errors") == expected


def test_a_stage_cannot_add_to_a_field_of_another_type() -> None:
    stage = type("Adds", (Adds,), {"more": [("trait_errors", ["a"]), ("trait_errors", {"b": "c"})]})
    found = asyncio.run(run_stage(stage))
    assert found.error is not None
    assert "'trait_errors', which already contains a list" in found.error.message


PARTIAL = AgentReply((Message.assistant("so far"),), Usage(7, 3, calls=1))
QUICK = RetryPolicy(base=0.0)


class Fails:
    """An agent that fails a given number of times; a `guarded` one passes each of two requests through the guard."""

    def __init__(self, guarded: bool, error: PortError, times: int) -> None:
        self.guards_calls = guarded
        self.error = error
        self.left = times
        self.requests: list[str] = []

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        async def first() -> Turn:
            self.requests.append("first")
            return Turn(Message.assistant("one"))

        async def second() -> Turn:
            self.requests.append("second")
            if self.left:
                self.left -= 1
                raise self.error
            return Turn(Message.assistant("two"))

        for request in (first, second):
            await self._through(options, request)
        return AgentReply((Message.assistant("done"),))

    async def _through(self, options: AgentOptions, request: Callable[[], Awaitable[Turn]]) -> None:
        assert (options.guard is not None) is self.guards_calls
        await (options.guard(request, ()) if options.guard is not None else request())

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("guarded", "requests"), [(True, ["first", "second", "second"]), (False, ["first", "second", "first", "second"])]
)
def test_a_failed_request_of_an_agent_is_retried_alone(guarded: bool, requests: list[str]) -> None:
    port = Fails(guarded, PortError("busy", category=ErrorCategory.SERVER), 1)
    assert asyncio.run(ask(port)).trace[-1].content == "done"
    assert port.requests == requests


@pytest.mark.parametrize(("partial", "tries"), [(PARTIAL, 1), (None, 2)])
def test_an_agent_that_timed_out_is_not_started_again(partial: AgentReply | None, tries: int) -> None:
    port = Fails(False, PortError("late", category=ErrorCategory.TIMEOUT, partial=partial), 9)
    with pytest.raises(PortError, match="late"):
        asyncio.run(ask(port))
    assert port.requests.count("first") == tries


async def ask(port: Fails) -> AgentReply:
    class Offer:
        @hookimpl
        def karenina_adapters(self) -> Sequence[AdapterSpec]:
            return [AdapterSpec(interface="fails", description="d", agent=lambda _: port)]

    plugins = Plugins()
    plugins.register(Offer())
    hub = PortFactory(RunParts(plugins, VerificationConfig(request_timeout=1.0), policy=QUICK))
    model = ModelConfig(id="m", interface="fails", model_name="m")
    return await hub.call(ModelRequest(model, [Message.user("?")], NO_INFO, options=AgentOptions()))


@pytest.mark.parametrize(("port", "missing"), [(None, "NoneType without invoke and aclose"), (Answers(), "invoke")])
def test_a_port_without_its_methods_is_an_error_of_its_adapter(port: Any, missing: str) -> None:
    plugins = Plugins()
    plugins.register(offering(adapters=[AdapterSpec(interface="odd", description="", llm=lambda _model: port)]))
    hub = PortFactory(RunParts(plugins, VerificationConfig(), policy=QUICK))
    request = ModelRequest(ModelConfig(id="m", interface="odd", model_name="m"), [Message.user("?")], NO_INFO)
    with pytest.raises(PortError, match=missing) as caught:
        asyncio.run(hub.call(request))
    assert "the llm port of the adapter 'odd'" in str(caught.value)


class NotAsync:
    """A port that returns a reply without being async."""

    def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        return LLMReply("BCL2")

    async def aclose(self) -> None:
        """Do nothing."""


class TakesTooFew(NotAsync):
    """A port that cannot be called as a run does."""

    async def invoke(self, messages: Sequence[Message]) -> LLMReply:  # type: ignore[override]
        return LLMReply("BCL2")


class OfAnotherKind(NotAsync):
    """A port for text that returns the reply of an agent."""

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> AgentReply:  # type: ignore[override]
        return AgentReply((Message.assistant("BCL2"),))


@pytest.mark.parametrize(
    ("port", "why"),
    [
        (NotAsync, "the llm port of the adapter of odd:m returned LLMReply at once; write its method with async def"),
        (TakesTooFew, r"the llm port of the adapter of odd:m cannot be called: TypeError.*'info'.*; correct the"),
        (OfAnotherKind, "the adapter of odd:m returned AgentReply instead of LLMReply; correct the adapter"),
    ],
)
def test_a_port_that_breaks_its_contract_is_an_error_of_its_adapter(port: type[NotAsync], why: str) -> None:
    plugins = Plugins()
    plugins.register(offering(adapters=[AdapterSpec(interface="odd", description="", llm=lambda _model: port())]))
    hub = PortFactory(RunParts(plugins, VerificationConfig(), policy=QUICK))
    request = ModelRequest(ModelConfig(id="m", interface="odd", model_name="m"), [Message.user("?")], NO_INFO)
    with pytest.raises(PortError, match=why) as caught:
        asyncio.run(hub.call(request))
    assert not caught.value.retriable


class Closing:
    """A port that answers, and whose end is another matter."""

    def __init__(self, end: Callable[[], Awaitable[None]]) -> None:
        self.aclose = end

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        return LLMReply("BCL2")


async def fail() -> None:
    raise ValueError("there is no connection")


async def never_end() -> None:
    await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("end", "why"), [(fail, "ValueError: there is no connection"), (never_end, "it took more than 0.1 s")]
)
def test_a_port_that_does_not_close_is_named_and_left(
    end: Callable[[], Awaitable[None]], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = Plugins()
    plugins.register(offering(adapters=[AdapterSpec(interface="odd", description="", llm=lambda _: Closing(end))]))
    hub = PortFactory(RunParts(plugins, VerificationConfig(request_timeout=0.1), policy=QUICK))
    request = ModelRequest(ModelConfig(id="m", interface="odd", model_name="m"), [Message.user("?")], NO_INFO)

    async def work() -> None:
        await hub.call(request)
        await hub.aclose()

    asyncio.run(work())

    assert f"the llm port of the adapter 'odd' (this-program 0) could not be closed: {why}" in caplog.text


def test_a_port_of_several_models_is_closed_once() -> None:
    plugins, closed = Plugins(), []

    async def end() -> None:
        closed.append(1)

    shared = Closing(end)
    plugins.register(offering(adapters=[AdapterSpec(interface="odd", description="", llm=lambda _: shared)]))
    hub = PortFactory(RunParts(plugins, VerificationConfig(), policy=QUICK))

    async def work() -> None:
        for id in ("a", "b"):
            model = ModelConfig(id=id, interface="odd", model_name="m")
            await hub.call(ModelRequest(model, [Message.user("?")], NO_INFO))
        await hub.aclose()

    asyncio.run(work())

    assert closed == [1]


def test_ports_that_do_not_close_take_as_long_as_one(caplog: pytest.LogCaptureFixture) -> None:
    plugins, waiting, all_closing = Plugins(), [], asyncio.Event()

    async def end() -> None:
        waiting.append(1)
        if len(waiting) == 3:
            all_closing.set()
        await all_closing.wait()

    plugins.register(offering(adapters=[AdapterSpec(interface="odd", description="", llm=lambda _: Closing(end))]))
    hub = PortFactory(RunParts(plugins, VerificationConfig(request_timeout=20), policy=QUICK))

    async def work() -> None:
        for id in ("a", "b", "c"):
            model = ModelConfig(id=id, interface="odd", model_name="m")
            await hub.call(ModelRequest(model, [Message.user("?")], NO_INFO))
        await hub.aclose()

    asyncio.run(work())

    assert "could not be closed" not in caplog.text
