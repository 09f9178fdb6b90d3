"""Every hook has its documented effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from command_runs import make_plugins, run_karenina, write_benchmark
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from karenina import Benchmark
from karenina_benchmark.formats.format import Format
from karenina_cli.app import build_app
from karenina_cli.hookspecs import karenina_commands
from karenina_core import ANY, ArtifactKeys, Slot, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.config import all_settings
from karenina_core.data.result import VerificationResult
from karenina_core.errors import ConfigError, KareninaError, PluginError, RunError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, ErrorCategory, Message, PortError
from karenina_core.plugins import Plugins, use_plugins
from karenina_core.stage_selection import SLOT_RULES
from karenina_core.stages.finalize import plugin as core_plugin
from karenina_core.stages.stage import registered_stages
from karenina_engine.calls.call import PanelModel
from karenina_engine.calls.opened_port import list_tool_sources
from karenina_engine.calls.program_sandboxes import find_program_sandbox
from karenina_engine.cost.ledger import list_price_sources
from karenina_engine.cost.price_source import PriceSource
from karenina_engine.results.result_set import VerificationResultSet, read_results
from karenina_engine.run.executor import AsyncioExecutor
from karenina_engine.run.panel import PanelAnswer
from karenina_engine.run.plugin_offers import configured_panel, find_observers, offered_executors
from karenina_testing import ScriptedModels
from karenina_toolkit.agents.tool_sources import ToolSource
from karenina_toolkit.package_check.metadata import Finding
from karenina_toolkit.plugin_lookup import find_adapter, prompt_instructions, specified_hooks

SHARED = ("karenina-benchmark", "karenina-cli", "karenina-core", "karenina-engine")
HOOKS = sorted(hook.name for hook in specified_hooks(Plugins()) if hook.distribution in SHARED)
TESTED: set[str] = set()


def shows(*hooks: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note that a test shows these hooks at work."""
    TESTED.update(hooks)
    return lambda test: test


def offering(hook: str, what: object) -> object:
    """Return a plugin whose one hook returns `what`."""
    return type("Offers", (), {hook: staticmethod(hookimpl(lambda: what, specname=hook))})()


def fill(slot: Slot) -> type[Stage]:
    """Return a stage for `slot` that sets what the slot asks for, to nothing."""
    keys = SLOT_RULES[slot].produces
    if slot is Slot.GENERATE_ANSWER:
        keys |= {ArtifactKeys.RAW_LLM_RESPONSE}

    def execute(self: Stage, context: VerificationContext) -> None:
        for key in keys:
            context.set_artifact(key, None)

    scope = "answer" if slot in (Slot.VALIDATE_TEMPLATE, Slot.GENERATE_ANSWER) else "item"
    name = f"Fill{slot.value}"
    declared = {"name": name, "for_slot": slot, "produces": keys, "scope": scope, "fallback": True}
    return type(name, (Stage,), {**declared, "execute": execute})


@pytest.fixture
def plugins() -> Iterator[Plugins]:
    found = Plugins()
    found.register(core_plugin)
    found.register(ScriptedModels())
    with plugin_room.use_plugins(found):
        yield found


@shows(*(slot.hook for slot in Slot))
@pytest.mark.parametrize("slot", Slot)
def test_the_hook_of_a_slot_offers_stages_for_it_only(slot: Slot, plugins: Plugins) -> None:
    stage = fill(slot)
    plugins.register(offering(slot.hook, [stage]))
    assert stage in [offered.stage for offered in registered_stages(plugins)]
    other = Slot.ABSTENTION_CHECK if slot is not Slot.ABSTENTION_CHECK else Slot.EMBEDDING_CHECK
    with pytest.raises(PluginError, match=slot.hook):
        Plugins().register(offering(other.hook, [fill(slot)]))


@shows("karenina_extra_stages")
def test_extra_stages_are_offered_without_a_slot(plugins: Plugins) -> None:
    extra = type("Extra", (Stage,), {"name": "Extra", "execute": lambda self, context: None})
    plugins.register(offering("karenina_extra_stages", [extra]))
    assert extra in [offered.stage for offered in registered_stages(plugins)]


@shows("karenina_adapters")
def test_adapters_are_offered_under_their_interface(plugins: Plugins) -> None:
    assert find_adapter(plugins, "scripted").spec.ports == ("llm", "parser", "agent")


@shows("karenina_prices")
def test_lists_of_prices_are_offered_by_name(plugins: Plugins) -> None:
    lists = [type("List", (PriceSource,), {"name": name, "edition": "1"})() for name in ("public", "ours")]
    plugins.register(offering("karenina_prices", lists))
    assert [one.name for one in list_price_sources(plugins)] == ["ours", "public"]


@shows("karenina_tool_sources")
def test_tool_sources_are_offered_by_name(plugins: Plugins) -> None:
    sources = [type("Source", (ToolSource,), {"name": name})() for name in ("mcp", "library")]
    plugins.register(offering("karenina_tool_sources", sources))
    assert [one.name for one in list_tool_sources(plugins)] == ["library", "mcp"]


@shows("karenina_program_sandbox")
def test_the_sandbox_for_programs_is_that_of_the_configuration(plugins: Plugins) -> None:
    class Boxes:
        @hookimpl
        def karenina_program_sandbox(self, config: VerificationConfig, plugins: Plugins) -> object | None:
            return config.core.run_name if "box" in (config.core.run_name or "") else None

    plugins.register(Boxes())
    assert find_program_sandbox(plugins, VerificationConfig(run_name="a box")) == "a box"
    assert find_program_sandbox(plugins, VerificationConfig()) is None


@shows("karenina_executors")
def test_executors_are_offered_beside_the_one_of_the_core(plugins: Plugins) -> None:
    class Elsewhere(AsyncioExecutor):
        name = "elsewhere"

    plugins.register(offering("karenina_executors", [Elsewhere()]))
    assert [one.name for one, _ in offered_executors(plugins)] == ["asyncio", "elsewhere"]


@shows("karenina_formats")
def test_formats_are_offered_beside_the_built_in_ones(plugins: Plugins) -> None:
    def read(path: Path, _check: Any) -> Benchmark:
        return Benchmark.create(name=path.stem)

    plugins.register(offering("karenina_formats", [Format("cards", (".cards",), read)]))
    assert Benchmark.load("capitals.cards").name == "capitals"


@shows("karenina_prompt_instructions")
def test_instructions_are_added_for_a_task_and_an_interface(plugins: Plugins) -> None:
    class Advice:
        @hookimpl
        def karenina_prompt_instructions(self, task: str, interface: str) -> str | None:
            return f"{task} for {interface}" if interface == "small" else None

    plugins.register(Advice())
    assert prompt_instructions(plugins, "parsing", "small") == ("parsing for small",)
    assert prompt_instructions(plugins, "parsing", "large") == ()


@shows("karenina_settings")
def test_settings_that_no_stage_owns_are_names_of_the_configuration(plugins: Plugins) -> None:
    class Colours(BaseModel):
        colour: str = Field(default="red", description="What colour.")

    plugins.register(offering("karenina_settings", [Colours]), distribution="paint")
    assert all_settings()["colour"].owner == "paint"
    assert VerificationConfig(colour="blue").section(Colours).colour == "blue"
    with pytest.raises(ConfigError, match="did you mean 'colour'"):
        VerificationConfig(color="blue")


@shows("karenina_commands")
def test_commands_are_added_and_one_that_fails_stops_no_other(plugins: Plugins) -> None:
    class Adds:
        @hookimpl
        def karenina_commands(self, app: typer.Typer) -> None:
            app.command("greet")(lambda: typer.echo("hello"))
            app.command("part")(lambda: typer.echo("bye"))

    class Breaks:
        @hookimpl
        def karenina_commands(self, app: typer.Typer) -> None:
            raise RuntimeError("no commands today")

    plugins.register(Breaks())
    plugins.register(Adds())
    app = typer.Typer()
    assert len(list(plugins.each(karenina_commands, app=app))) == 1
    assert CliRunner().invoke(app, ["greet"]).output == "hello\n"
    assert "no commands today" in (next(info for info in plugins.describe() if info.name == "Breaks").failure or "")


@shows("karenina_demos")
def test_the_demo_is_what_a_plugin_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Demo:
        answering, judge = "small", "smaller"

        def get(self, names: Sequence[str], note: Callable[[str], None]) -> None:
            note(f"Getting {' and '.join(names)}")

        def questions(self) -> contextlib.AbstractContextManager[Path]:
            return contextlib.nullcontext(write_benchmark(tmp_path, "q1", "q2"))

        def config(self, answering: str, judge: str) -> dict[str, Any]:
            models = [{"id": id, "interface": "scripted", "model_name": id} for id in (answering, judge)]
            return {
                "answering_models": models[:1],
                "parsing_models": models[1:],
                "evaluation_mode": "rubric_only",
            }

        def recorded_config(self) -> dict[str, Any]:
            raise KareninaError("nothing is recorded")

        def agreement(self, judge: str) -> str:
            return f"{judge} was never measured."

    monkeypatch.chdir(tmp_path)
    offers = make_plugins()
    offers.register(offering("karenina_demos", [Demo()]))

    done = run_karenina("demo", "--judge", "tiny", plugins=offers)
    none = run_karenina("demo", plugins=make_plugins())

    assert done.code == 0
    assert "Getting small and tiny" in done.err
    assert "tiny was never measured." in done.err
    assert len(list(read_results(tmp_path / "karenina-demo.results.jsonl"))) == 2
    assert (none.code, "install karenina-local, which does: pip install" in none.err) == (2, True)


@shows("karenina_diagnoses")
def test_what_plugins_find_on_the_machine_is_reported_by_doctor() -> None:
    class Diagnosis:
        def findings(self, config: VerificationConfig, plugins: Plugins) -> Iterator[Finding]:
            yield Finding("Theatre", "problem", "the curtain is stuck; oil it")

    offers = make_plugins()
    offers.register(offering("karenina_diagnoses", [Diagnosis()]))

    done = run_karenina("doctor", plugins=offers)
    assert (done.code, "Theatre: the curtain is stuck; oil it" in done.out) == (2, True)
    assert run_karenina("doctor", plugins=make_plugins()).code == 0


@shows("karenina_rehearsals")
def test_rehearsals_run_when_a_benchmark_is_checked(tmp_path: Path) -> None:
    class Rehearsal:
        def applies_to(self, question: object) -> bool:
            return True

        def unavailable(self, config: VerificationConfig) -> str | None:
            return None

        def inspect(self, *_: object) -> list[tuple[tuple[str, str], str]]:
            return [(("warning", "the curtain is torn"), "q1")]

        async def run(self, *_: object) -> list[tuple[str, str]]:
            return [("error", "the play was bad"), ("note", "the hall was full")]

    offers = make_plugins()
    offers.register(offering("karenina_rehearsals", [Rehearsal()]))
    file = write_benchmark(tmp_path, "q1")

    done = run_karenina("check", file, "--run-checks", "--set", "evaluation_mode=rubric_only", plugins=offers)
    assert (done.code, "the play was bad" in done.out, "the hall was full" in done.err) == (2, True, True)
    assert run_karenina("check", file, "--run-checks", plugins=make_plugins()).code == 2

    done = run_karenina("check", file, "--set", "evaluation_mode=rubric_only", plugins=offers)
    assert (done.code, "the curtain is torn" in done.out, "play" in done.out) == (0, True, False)


def test_a_plugin_cannot_replace_a_core_command(plugins: Plugins, capsys: pytest.CaptureFixture[str]) -> None:
    class Replaces:
        @hookimpl
        def karenina_commands(self, app: typer.Typer) -> None:
            @app.command()
            def show() -> None:
                typer.echo("mine")

            app.command("wave")(lambda: typer.echo("hello"))

    plugins.register(Replaces())
    with use_plugins(plugins):
        runner = CliRunner()
        app = build_app()
        assert (
            "the command 'show' of this-program 0 was ignored because Karenina already has a command with that name"
            in capsys.readouterr().err
        )
        assert runner.invoke(app, ["wave"]).output == "hello\n"
        assert "mine" not in runner.invoke(app, ["show", "absent.jsonl"]).output


@shows(
    "karenina_run_started",
    "karenina_run_finished",
    "karenina_answer_started",
    "karenina_answer_finished",
    "karenina_item_started",
    "karenina_item_finished",
    "karenina_stage_started",
    "karenina_stage_finished",
)
def test_observers_hear_of_the_run_its_items_and_its_stages(plugins: Plugins) -> None:
    heard: list[tuple[str, object]] = []

    class Listens:
        @hookimpl
        def karenina_run_started(self, event: Any) -> None:
            heard.append(("run started", event.items))

        @hookimpl
        def karenina_run_finished(self, event: Any) -> None:
            heard.append(("run finished", event.summary.items))

        @hookimpl
        def karenina_answer_started(self, event: Any) -> None:
            heard.append(("answer started", event.item.question.id))

        @hookimpl
        def karenina_answer_finished(self, event: Any) -> None:
            heard.append(("answer finished", event.item.question.id))

        @hookimpl
        def karenina_item_started(self, event: Any) -> None:
            heard.append(("item started", event.item.key))

        @hookimpl
        def karenina_item_finished(self, result: Any) -> None:
            heard.append(("item finished", result.item))

        @hookimpl
        def karenina_stage_started(self, event: Any) -> None:
            heard.append(("stage started", event.stage))

        @hookimpl
        def karenina_stage_finished(self, event: Any, record: Any) -> None:
            heard.append(("stage finished", record.name))

    plugins.register(Listens())
    run_of_filled_slots(plugins)
    item = ("q", "m", "m", 1)
    assert heard == [
        ("run started", 1),
        ("answer started", "q"),
        *(("stage " + when, f"Fill{number}") for number in (1, 2) for when in ("started", "finished")),
        ("item started", item),
        *(("stage " + when, f"Fill{number}") for number in (7, 8) for when in ("started", "finished")),
        ("stage started", "FinalizeResult"),
        ("stage finished", "FinalizeResult"),
        ("answer finished", "q"),
        ("item finished", item),
        ("run finished", 1),
    ]


def run_of_filled_slots(
    plugins: Plugins, stages: Sequence[type[Stage]] = (), journal: Path | None = None
) -> VerificationResultSet:
    """Run one question with stages that set nothing, and with `stages`."""
    plugins.register(offering("karenina_extra_stages", stages))
    benchmark = filled_benchmark(plugins)
    config = VerificationConfig(answering_models=[scripted_model("m")], parsing_models=[scripted_model("m")])
    return benchmark.run_verification(config, journal=journal)


def filled_benchmark(plugins: Plugins) -> Benchmark:
    """Return a benchmark of one question, and register stages that set nothing."""
    for slot in (Slot.VALIDATE_TEMPLATE, Slot.GENERATE_ANSWER, Slot.PARSE_TEMPLATE, Slot.VERIFY_TEMPLATE):
        plugins.register(offering(slot.hook, [fill(slot)]))
    benchmark = Benchmark.create(name="one")
    benchmark.add_question("Which?", question_id="q")
    return benchmark


def scripted_model(id: str) -> ModelConfig:
    """Return a scripted model."""
    return ModelConfig(id=id, interface="scripted", model_name=id)


@shows("karenina_call_started", "karenina_call_finished")
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_observers_hear_of_every_call_that_is_made(plugins: Plugins, fails: bool, kept: bool, tmp_path: Path) -> None:
    heard: list[tuple[Any, ...]] = []
    within: ContextVar[str] = ContextVar("within", default="nothing")

    def say(_messages: Sequence[Message], info: CallInfo) -> str:
        heard.append(("asked", info.stage, within.get()))
        if fails:
            raise PortError("no such model", category=ErrorCategory.PERMANENT)
        return "an answer"

    class Listens:
        @hookimpl
        def karenina_call_started(self, event: Any) -> None:
            within.set("the call")
            heard.append(("started", event.call.endpoint.model.id, event.call.messages[0].content))

        @hookimpl
        def karenina_call_finished(self, event: Any, made: Any) -> None:
            heard.append(("finished", made.reply and made.reply.text, made.error and str(made.error)))

    plugins.register(ScriptedModels(say=say, interface="other"))
    plugins.register(Listens())

    class Asks(Stage):
        name = "Asks"

        async def execute(self, context: VerificationContext) -> None:
            other = context.parsing_model.model_copy(update={"interface": "other"})
            for _ in range(2):
                with contextlib.suppress(PortError):
                    await context.llm(other).invoke([Message.user("Well?")], info=context.call_info)

    run_of_filled_slots(plugins, [Asks], tmp_path / "journal.db" if kept else None)
    once = [
        ("started", "m", "Well?"),
        ("asked", "Asks", "the call"),
        ("finished", None if fails else "an answer", "no such model" if fails else None),
    ]
    assert heard == once * (1 if kept and not fails else 2)


def test_observers_cannot_change_a_result(plugins: Plugins) -> None:
    class Changes:
        @hookimpl
        def karenina_item_finished(self, result: Any) -> None:
            result.metadata.question_text = "another"
            result.stages.clear()

    plugins.register(Changes())
    [result] = run_of_filled_slots(plugins)
    assert result.metadata.question_text == "Which?"
    assert len(result.stages) == 5


@shows("karenina_observers")
def test_observers_of_a_run_depend_on_its_configuration(plugins: Plugins) -> None:
    heard: list[str] = []

    class OfOneRun:
        def __init__(self, name: str) -> None:
            self.name = name

        @hookimpl
        def karenina_item_finished(self, result: Any) -> None:
            heard.append(f"{self.name}: {result.question_id}")

    class Offers:
        @hookimpl
        def karenina_observers(self, config: VerificationConfig) -> list[object]:
            name = config.core.run_name
            if name == "refused":
                raise ConfigError(["not with this configuration"])
            return [OfOneRun(name)] if name else []

    plugins.register(Offers())
    named = VerificationConfig(run_name="one")
    assert find_observers(plugins, named).observes_items
    assert not find_observers(plugins, VerificationConfig()).observes_items
    run_of_filled_slots(plugins)
    assert heard == []
    with pytest.raises(ConfigError, match="not with this configuration"):
        find_observers(plugins, VerificationConfig(run_name="refused"))


@shows("karenina_panel")
def test_a_panel_takes_the_place_of_the_judges(plugins: Plugins) -> None:
    judges = [scripted_model(id) for id in ("a", "b")]
    panel = PanelModel(id="both", interface="panel", model_name="both", members=tuple(judges))

    class Both:
        model = panel

        async def evaluate(self, answer: PanelAnswer) -> VerificationResult:
            first, second = [await answer.ask(judge) for judge in panel.members]
            assert [one.metadata.parsing_id for one in (first, second)] == ["a", "b"]
            return first.model_copy(update={"metadata": first.metadata.model_copy(update={"parsing_id": panel.id})})

    class Offers:
        @hookimpl
        def karenina_panel(self, config: VerificationConfig) -> Both | None:
            return Both() if config.core.run_name == "panel" else None

    plugins.register(Offers())
    benchmark = filled_benchmark(plugins)
    config = {"answering_models": [scripted_model("m")], "parsing_models": judges}
    assert [one.metadata.parsing_id for one in benchmark.run_verification(config)] == ["a", "b"]
    assert [one.metadata.parsing_id for one in benchmark.run_verification({**config, "run_name": "panel"})] == ["both"]
    plugins.register(offering("karenina_panel", Both()), distribution="another")
    with pytest.raises(ConfigError, match=r"a run can have only one panel of judges, but .* and another"):
        benchmark.run_verification({**config, "run_name": "panel"})


def test_an_observer_that_is_none_is_refused_with_its_owner(plugins: Plugins) -> None:
    class Odd:
        @hookimpl
        def karenina_item_finished(self, results: Any) -> None: ...

    plugins.register(offering("karenina_observers", [Odd()]), distribution="odd", version="3")
    with pytest.raises(PluginError, match=r"odd 3.*karenina_item_finished"):
        find_observers(plugins, VerificationConfig())


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        (object(), "has no method evaluate"),
        (PanelAnswer, "is a class; return an instance of it"),
        (SimpleNamespace(evaluate=print), "has no PanelModel as its attribute model, but None"),
    ],
)
def test_a_panel_that_is_none_is_refused_with_its_owner(plugins: Plugins, offered: object, message: str) -> None:
    plugins.register(offering("karenina_panel", offered), distribution="odd")

    with pytest.raises(PluginError, match=f"the panel of odd cannot be used: .* returned .*, which {message}"):
        configured_panel(plugins, VerificationConfig())


def test_a_panel_hook_that_fails_is_refused_with_its_owner(plugins: Plugins) -> None:
    class Fails:
        @hookimpl
        def karenina_panel(self, config: VerificationConfig) -> None:
            raise ZeroDivisionError("no judges")

    plugins.register(Fails(), distribution="odd")

    with pytest.raises(PluginError, match="panel of odd cannot be used: karenina_panel failed: ZeroDivisionError"):
        configured_panel(plugins, VerificationConfig())


async def no_result(_answer: PanelAnswer) -> None: ...


async def failing(_answer: PanelAnswer) -> None:
    raise ZeroDivisionError("no votes")


def no_coroutine(_answer: PanelAnswer) -> None: ...


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (no_coroutine, "is not async"),
        (no_result, "returned None; write return"),
        (failing, "failed: ZeroDivisionError: no votes"),
    ],
)
def test_a_panel_without_a_result_ends_the_run(plugins: Plugins, evaluate: object, message: str) -> None:
    judges = [scripted_model("a")]
    model = PanelModel(id="odd", interface="panel", model_name="odd", members=tuple(judges))
    plugins.register(offering("karenina_panel", SimpleNamespace(model=model, evaluate=evaluate)))
    benchmark = filled_benchmark(plugins)

    with pytest.raises(RunError, match=f"evaluate\\(\\) of the panel 'odd' {message}"):
        benchmark.run_verification({"answering_models": [scripted_model("m")], "parsing_models": judges})


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        ([AsyncioExecutor], "TypeError: AsyncioExecutor is a class; return [AsyncioExecutor(...)]"),
        (object(), "TypeError: karenina_observers must return list[object], not <object object"),
    ],
)
def test_observers_that_cannot_be_used_are_left_out_with_a_warning(
    plugins: Plugins, caplog: pytest.LogCaptureFixture, offered: object, message: str
) -> None:
    plugins.register(offering("karenina_observers", offered), distribution="odd", version="3")

    find_observers(plugins, VerificationConfig())

    assert f"the observers of odd 3 could not be created, so the run continues without them: {message}" in caplog.text


def test_every_hook_is_shown_at_work_here() -> None:
    assert sorted(TESTED) == HOOKS


def test_any_stands_for_every_artifact() -> None:
    assert ArtifactKeys.PARSED_ANSWER in ANY
    assert "parsed_answer" not in ANY


def test_a_failing_observer_affects_neither_run_nor_other_observers(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    class Breaks:
        @hookimpl
        def karenina_item_finished(self) -> None:
            raise RuntimeError("the dashboard is away")

    class Listens:
        @hookimpl
        def karenina_item_finished(self, result: Any) -> None:
            heard.append(result.question_id)

    for slot in (Slot.VALIDATE_TEMPLATE, Slot.GENERATE_ANSWER, Slot.PARSE_TEMPLATE, Slot.VERIFY_TEMPLATE):
        plugins.register(offering(slot.hook, [fill(slot)]))
    plugins.register(Breaks())
    plugins.register(Listens())
    benchmark = Benchmark.create(name="one")
    benchmark.add_question("Which?", question_id="q")
    model = {"id": "m", "interface": "scripted", "model_name": "m"}
    with caplog.at_level("WARNING", logger="karenina"):
        results = benchmark.run_verification(VerificationConfig(answering_models=[model], parsing_models=[model]))
    assert (len(results), heard) == (1, ["q"])
