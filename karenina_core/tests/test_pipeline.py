"""The pipeline enforces the declarations of stages, contains their failures, and always makes a result."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from karenina_core import (
    ANY,
    ArtifactKey,
    ArtifactKeys,
    AutoFailStage,
    CheckStage,
    Detection,
    ModelConfig,
    Outcome,
    Question,
    Skip,
    Stage,
    VerificationConfig,
    VerificationContext,
    VerificationResult,
)
from karenina_core import plugins as plugin_room
from karenina_core.data.trust import Trust
from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_core.models.prompts import PromptTask
from karenina_core.pipeline import Pipeline
from karenina_core.plan import order_stages
from karenina_core.plugins import Plugins
from karenina_core.stage_selection import SelectedStage
from karenina_core.stages.context import Item, State
from karenina_core.stages.finalize import FinalizeResult
from karenina_engine.run.plugin_offers import find_observers
from karenina_engine.run.port_factory import PortFactory, RunParts
from karenina_testing import ScriptedModels, run_stage

A = ArtifactKey("test.a", int)
B = ArtifactKey("test.b", int)


def stage(name: str, execute: Callable[[VerificationContext], Any], **declared: Any) -> type[Stage]:
    return type(name, (Stage,), {"name": name, "execute": lambda self, context: execute(context), **declared})


def nothing(context: VerificationContext) -> None:
    """A stage without an effect."""


def run(*stages: type[Stage], judges: int = 1, models: ScriptedModels | None = None) -> list[VerificationResult]:
    """Return the result of one question for each judge, by a pipeline of these stages and FinalizeResult."""
    scripted = models or ScriptedModels()
    plugins = Plugins()
    plugins.register(scripted)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig()

    async def work() -> list[VerificationResult]:
        hub = PortFactory(RunParts(plugins, config))
        pipeline = Pipeline(
            order_stages([SelectedStage(one(), f"dist-of-{one.name}", "1.2") for one in (*stages, FinalizeResult)]),
            find_observers(plugins),
        )

        def item(judge: ModelConfig | None) -> Item:
            return Item(Question(question="Which?"), scripted.model("answers"), judge, 1, config, hub, Trust())

        answer = await pipeline.answer(item(None))
        results = [await pipeline.judge(answer, item(scripted.model(f"judge{at}"))) for at in range(judges)]
        await pipeline.end(answer)
        return results

    return asyncio.run(work())


def test_stages_read_artifacts_of_earlier_stages() -> None:
    seen = []
    run(
        stage("Maker", lambda context: context.set_artifact(A, 41), produces={A}),
        stage("Reader", lambda context: seen.append(context.get_artifact(A)), requires={A}),
    )
    assert seen == [41]


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (lambda context: context.get_artifact(A), "reads the artifact 'test.a' without declaring it"),
        (lambda context: context.find_artifact(A), "reads the artifact 'test.a' without declaring it"),
        (lambda context: context.set_artifact(A, 1), "sets the artifact 'test.a' without declaring it"),
        (lambda context: context.revise_artifact(A, 1, "why"), "revises the artifact 'test.a' without declaring it"),
        (lambda context: context.setting("somebody_elses"), "reads the setting 'somebody_elses' of another owner"),
        (lambda context: context.state, "reads the artifact '\\*' without declaring it"),
    ],
)
def test_undeclared_access_is_an_error_that_says_what_to_declare(
    does: Callable[[VerificationContext], Any], says: str
) -> None:
    (result,) = run(stage("Nosy", does))
    assert result.outcome is Outcome.STAGE_ERROR
    assert __import__("re").search(says, result.metadata.error or "")


def test_a_setting_whose_owner_is_absent_has_the_readers_default() -> None:
    seen = []
    run(stage("Reader", lambda context: seen.append(context.setting("somebody_elses")), reads={"somebody_elses": 3}))
    assert seen == [3]


def test_a_missing_product_names_the_stage_and_its_distribution() -> None:
    (result,) = run(stage("Idle", nothing, produces={A, B}))
    assert "stage Idle of dist-of-Idle ran without setting test.a, test.b" in (result.metadata.error or "")


def test_a_value_of_another_type_is_refused() -> None:
    (result,) = run(stage("Typo", lambda context: context.set_artifact(A, "five"), produces={A}))
    assert "set 'test.a' to a str, but its type is int" in (result.metadata.error or "")


def test_none_is_a_value() -> None:
    seen = []
    (result,) = run(
        stage("Maker", lambda context: context.set_artifact(A, None), produces={A}),  # type: ignore[arg-type]
        stage("Reader", lambda context: seen.append(context.get_artifact(A)), requires={A}),
    )
    assert seen == [None]
    assert result.metadata.completed_without_errors


def test_after_an_exception_only_stages_for_errors_run() -> None:
    ran = []

    def explode(context: VerificationContext) -> None:
        raise ZeroDivisionError("oops")

    (result,) = run(
        stage("Bomb", explode, produces={A}, error_outcome=Outcome.MODEL_ERROR),
        stage("Later", lambda context: ran.append("later"), after={"Bomb"}),
        stage("Cleaner", lambda context: ran.append("cleaner"), after={"Bomb"}, runs_after_error=True),
    )
    assert ran == ["cleaner"]
    assert result.outcome is Outcome.MODEL_ERROR
    line = explode.__code__.co_firstlineno + 1
    assert result.metadata.error == f"Bomb: ZeroDivisionError: oops (test_pipeline.py:{line})"
    assert result.template.verify_result is None
    statuses = {record.name: (record.status, record.reason or record.error) for record in result.stages}
    assert statuses["Bomb"] == ("failed", f"ZeroDivisionError: oops (test_pipeline.py:{line})")
    assert statuses["Later"] == ("skipped", "Bomb failed")


class Own(BaseException):
    """An exception of a plugin that is not a subclass of Exception."""


LEAKS: dict[str, tuple[BaseException, str]] = {
    "cancelled": (asyncio.CancelledError("by a library"), "CancelledError: by a library"),
    "exit": (SystemExit(3), "SystemExit: 3"),
    "interrupt": (KeyboardInterrupt("of a library"), "KeyboardInterrupt: of a library"),
    "own": (Own("mine"), "Own: mine"),
    "group": (BaseExceptionGroup("two", [Own("one"), ValueError("two")]), "Own: one; ValueError: two"),
    "nested": (ExceptionGroup("a", [ExceptionGroup("b", [ValueError("deep")])]), "ValueError: deep"),
    "closed": (GeneratorExit("of its own"), "GeneratorExit: of its own"),
}


LEAKING = [
    *((place, leak) for place in ("execute", "should_run") for leak in LEAKS),
    *(("a thread", leak) for leak in LEAKS if leak != "closed"),
    *(("a task", leak) for leak in ("own", "group", "nested")),  # the others end the event loop itself
]


@pytest.mark.parametrize(("place", "leak"), LEAKING)
def test_an_interrupt_raised_by_a_stage_ends_only_its_item(place: str, leak: str) -> None:
    error, said = LEAKS[leak]

    def let_out(*_: object) -> Any:
        raise error

    async def execute(context: VerificationContext) -> None:
        await asyncio.sleep(0)
        if place == "a thread":
            await context.in_thread(let_out)
        elif place == "a task":
            async with asyncio.TaskGroup() as group:
                group.create_task(later(let_out))
        let_out()

    async def later(raising: Callable[[], Any]) -> None:
        raising()

    more = {"should_run": let_out} if place == "should_run" else {}
    (result,) = run(stage("Leaky", execute, produces={A}, **more))
    assert result.outcome is Outcome.STAGE_ERROR
    assert (result.metadata.error or "").partition(" (")[0] == f"Leaky: {said}"


@pytest.mark.parametrize("leak", [Own("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_a_clean_up_that_lets_something_out_changes_no_result(leak: BaseException) -> None:
    def clean() -> None:
        raise leak

    def execute(context: VerificationContext) -> None:
        context.set_artifact(A, 1)
        context.at_end(clean)

    (result,) = run(stage("Leaky", execute, produces={A}))
    assert result.metadata.completed_without_errors


def test_a_program_exits_on_a_signal_during_any_stage() -> None:
    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(5)

    def execute(context: VerificationContext) -> None:
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit) as left:
            run(stage("Working", execute))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left.value.code == 5


def test_a_cancelled_run_cancels_its_stages() -> None:
    def cancel(context: VerificationContext) -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return asyncio.sleep(1)

    with pytest.raises(asyncio.CancelledError):
        run(stage("Stopped", cancel))


def test_a_failure_names_the_line_of_the_stages_own_package() -> None:
    """The line is that of the plugin, not of the library that raised the error."""

    def explode(context: VerificationContext) -> None:
        json.loads("{")

    def undeclared(context: VerificationContext) -> None:
        context.get_artifact(A)

    for work in (explode, undeclared):
        (result,) = run(stage("Bomb", work))
        line = work.__code__.co_firstlineno + 1
        assert (result.metadata.error or "").endswith(f" (test_pipeline.py:{line})")


def test_the_first_marked_error_stands() -> None:
    def marks(context: VerificationContext) -> None:
        context.mark_error("first", Outcome.PARSE_ERROR)
        context.mark_error("second")

    (result,) = run(stage("Marks", marks, produces={A}))
    assert (result.outcome, result.metadata.error) == (Outcome.PARSE_ERROR, "Marks: first")


def test_stages_that_need_a_skipped_stage_are_skipped() -> None:
    (result,) = run(
        stage("Maker", nothing, produces={A}, should_run=lambda self, context: Skip("not today")),
        stage("Reader", nothing, requires={A}),
    )
    assert [(record.name, record.reason) for record in result.stages if record.status == "skipped"] == [
        ("Maker", "not today"),
        ("Reader", "test.a is missing because Maker did not run"),
    ]


def test_a_revision_keeps_who_from_to_and_why() -> None:
    (result,) = run(
        stage("Maker", lambda context: context.set_artifact(A, 1), produces={A}),
        stage("Reviser", lambda context: context.revise_artifact(A, 2, "better"), revises={A}),
    )
    (change,) = result.revisions
    assert (change.artifact, change.stage, change.before, change.after, change.reason) == (
        "test.a",
        "Reviser",
        1,
        2,
        "better",
    )


def test_revisions_of_an_answer_are_in_all_judges_results() -> None:
    results = run(
        stage("Producer", lambda context: context.set_artifact(A, 1), produces={A}, scope="answer"),
        stage("Reviser", lambda context: context.revise_artifact(A, 2, "better"), revises={A}, scope="answer"),
        stage("Last", lambda context: context.revise_artifact(A, 3, "best"), revises={A}, after={"Reviser"}),
        judges=2,
    )
    for result in results:
        assert [(one.stage, one.before, one.after) for one in result.revisions] == [("Reviser", 1, 2), ("Last", 2, 3)]


def test_revising_what_nobody_produced_is_an_error() -> None:
    (result,) = run(stage("Reviser", lambda context: context.revise_artifact(A, 2, "better"), revises={A}))
    assert "revises the artifact 'test.a', which has not been set for this item" in (result.metadata.error or "")


def test_a_parsed_answer_of_a_wrong_type_names_the_cure() -> None:
    parsed = ArtifactKeys.PARSED_ANSWER
    parse = stage("MyParse", lambda context: context.set_artifact(parsed, {"gene": "BCL2"}), produces={parsed})
    (result,) = run(parse)
    assert result.outcome is Outcome.STAGE_ERROR
    error = result.metadata.error or ""
    assert "MyParse of dist-of-MyParse set 'parsed_answer' to a dict" in error
    assert "the value returned by bind(values, response) of the ANSWER_CLASS artifact" in error


def test_an_error_cannot_have_the_outcome_of_a_judged_item() -> None:
    (result,) = run(stage("Odd", lambda context: context.mark_error("no", Outcome.CORRECT)))
    assert result.outcome is Outcome.STAGE_ERROR
    assert "correct is an outcome for judged items, not for errors" in (result.metadata.error or "")


def test_a_stage_that_does_not_say_whether_to_run_fails() -> None:
    (result,) = run(stage("Forgetful", nothing, should_run=lambda self, context: None))
    assert result.outcome is Outcome.STAGE_ERROR
    assert "it must return True, False or Skip(reason), not None (NoneType)" in (result.metadata.error or "")


@pytest.mark.parametrize("outcome", [Outcome.CORRECT, Outcome.SCORED, Outcome.PARSE_ERROR, Outcome.UNDECIDED])
def test_a_veto_cannot_pass_an_item(outcome: Outcome) -> None:
    (result,) = run(stage("Odd", lambda context: context.veto("no", outcome)))
    assert (result.outcome, result.vetoes) == (Outcome.STAGE_ERROR, [])
    assert f"{outcome} is not an outcome for a veto, which fails the item" in (result.metadata.error or "")


def test_an_unknown_outcome_of_a_veto_fails_its_stage() -> None:
    (result,) = run(stage("Odd", lambda context: context.veto("no", "nonsense")))
    assert (result.outcome, result.vetoes) == (Outcome.STAGE_ERROR, [])
    assert "'nonsense' is not a valid Outcome" in (result.metadata.error or "")


def test_a_value_that_cannot_be_written_costs_no_other() -> None:
    def odd(context: VerificationContext) -> None:
        context.set_result_field("odd", b"\xff")
        context.set_result_field("words", 7)

    (result,) = run(stage("Odd", odd))
    assert result.extensions["dist-of-Odd"] == {
        "odd": "(a value of type bytes that cannot be stored as JSON)",
        "words": 7,
    }


def test_vetoes_fail_the_item_and_the_first_sets_its_outcome() -> None:
    class First(AutoFailStage):
        name = "First"
        veto_outcome = Outcome.ABSTAINED

        def reason(self, context: VerificationContext) -> str:
            return "refused"

    class Second(AutoFailStage):
        name = "Second"
        after = frozenset({"First"})

        def reason(self, context: VerificationContext) -> str:
            return "looped"

    (result,) = run(First, Second)
    assert (result.outcome, result.template.verify_result) == (Outcome.ABSTAINED, False)
    assert [(veto.stage, veto.reason) for veto in result.vetoes] == [("First", "refused"), ("Second", "looped")]
    assert result.metadata.completed_without_errors


def test_fields_of_other_distributions_are_stored_in_the_extensions() -> None:
    (result,) = run(
        stage("One", lambda context: context.set_result_field("words", 7)),
        stage("Two", lambda context: context.set_result_field("words", [3, 4])),
    )
    assert result.extensions["dist-of-One"] == {"words": 7}
    assert result.extensions["dist-of-Two"]["words"] == [3, 4]


def test_a_set_is_stored_in_the_same_order_in_every_run() -> None:
    names = {f"name {number}" for number in range(20)}

    def say(context: VerificationContext) -> None:
        context.set_result_field("names", names)
        context.offer_result_field("offered", frozenset(names))

    (result,) = run(stage("Say", say))
    assert result.extensions["dist-of-Say"] == {"names": sorted(names), "offered": sorted(names)}


def test_sets_at_any_depth_are_stored_in_order() -> None:
    names = {f"gene-{number}" for number in range(50)}

    def say(context: VerificationContext) -> None:
        context.set_result_field("found", {"by": [{"names": names, "pairs": ({frozenset(names)}, 1)}]})
        context.extend_result_field("more", [{"names": frozenset(names)}])

    (result,) = run(stage("Say", say))
    assert result.extensions["dist-of-Say"] == {
        "found": {"by": [{"names": sorted(names), "pairs": [[sorted(names)], 1]}]},
        "more": [{"names": sorted(names)}],
    }


def test_fields_of_a_wrong_type_become_extensions() -> None:
    def odd(context: VerificationContext) -> None:
        context.set_result_field("llm_trait_scores", "high")
        context.set_result_field("llm_trait_labels", {"Tone": "warm"})
        context.set_result_field("used_full_trace", [1])

    (result,) = run(stage("Odd", odd))
    assert result.extensions["karenina-core"]["unfit_fields"] == {
        "rubric.llm_trait_scores": "high",
        "used_full_trace": [1],
    }
    assert result.rubric is not None
    assert result.rubric.llm_trait_labels == {"Tone": "warm"}


def test_the_time_of_an_item_includes_that_of_its_answer() -> None:
    async def wait(context: VerificationContext) -> None:
        await asyncio.sleep(0.02)

    (result,) = run(stage("Answer", wait, scope="answer"), stage("Judge", wait))
    answered, judged, _ = (record.seconds for record in result.stages)
    assert result.metadata.execution_time >= answered + judged > answered > 0


def test_answer_stages_run_once_for_all_judges() -> None:
    made = []

    def make(context: VerificationContext) -> None:
        made.append(1)
        context.set_artifact(A, 1)

    results = run(
        stage("Maker", make, produces={A}, scope="answer"),
        stage("Reviser", lambda context: context.revise_artifact(A, 2, "mine"), revises={A}),
        judges=3,
    )
    assert made == [1]
    assert [result.revisions[0].before for result in results] == [1, 1, 1]


def test_an_answer_stage_has_no_judge_and_says_so() -> None:
    (result,) = run(stage("Early", lambda context: context.llm(), scope="answer"))
    assert "there is no parsing model" in (result.metadata.error or "")


def test_model_calls_are_counted_under_the_usage_key() -> None:
    async def ask(context: VerificationContext) -> None:
        await context.llm(context.answering_model).invoke([Message.user("hello")])

    async def ask_judge(context: VerificationContext) -> None:
        await context.llm().invoke([Message.user("hello")])

    results = run(
        stage("Asks", ask, scope="answer", usage_key="answer_generation"),
        stage("Judges", ask_judge, usage_key="parsing"),
        judges=2,
    )
    usage = results[0].template.usage_metadata or {}
    assert usage["answer_generation"]["total_tokens"] == usage["parsing"]["total_tokens"] == 15
    assert usage["total"]["calls"] == 2
    record = results[0].stage("Judges")
    assert record is not None
    assert (record.calls, record.input_tokens, record.output_tokens) == (1, 10, 5)
    from karenina_engine.results.result_set import VerificationResultSet

    assert VerificationResultSet(results).usage().calls == 3


def test_a_usage_key_of_answer_and_item_stages_has_two_entries() -> None:
    async def ask(context: VerificationContext) -> None:
        await context.llm(context.answering_model).invoke([Message.user("hello")])

    (result,) = run(stage("Asks", ask, scope="answer", usage_key="asking"), stage("Again", ask, usage_key="asking"))
    usage = result.template.usage_metadata or {}
    assert {key: (entry["calls"], entry.get("scope")) for key, entry in usage.items()} == {
        "asking": (1, "answer"),
        "asking (item)": (1, "item"),
        "total": (2, None),
    }


def test_callbacks_run_at_the_end_even_after_failures() -> None:
    done = []

    async def close() -> None:
        done.append("async")

    def fail() -> None:
        raise OSError("gone")

    def arrange_end(context: VerificationContext) -> None:
        context.at_end(lambda: done.append("plain"))
        context.at_end(fail)
        context.at_end(close)
        raise ValueError("broken")

    run(stage("Ends", arrange_end))
    assert done == ["async", "plain"]


def test_an_interrupt_of_a_callback_skips_no_other() -> None:
    done = []

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    def arrange_end(context: VerificationContext) -> None:
        context.at_end(lambda: done.append("first"))
        context.at_end(cancel)

    with pytest.raises(asyncio.CancelledError):
        run(stage("Ends", arrange_end))
    assert done == ["first"]


def test_a_failed_check_is_recorded_as_not_performed() -> None:
    class Check(CheckStage):
        name = "Check"
        prefix = "tone"

        async def detect(self, context: VerificationContext) -> Detection:
            raise PortError("the judge is away", category=ErrorCategory.SERVER)

    performed, detected, override, reasoning = Check.check_keys()
    found = asyncio.run(run_stage(Check))
    assert found.error is None
    assert (found.artifact(performed), found.artifact(detected), found.artifact(override)) == (False, None, False)
    assert "the judge is away" in (found.artifact(reasoning) or "")


def test_a_check_vetoes_where_it_triggers() -> None:
    class Check(CheckStage):
        name = "Check"
        prefix = "tone"
        veto_outcome = Outcome.INSUFFICIENT

        async def detect(self, context: VerificationContext) -> Detection:
            return Detection(False, reasoning="too short")

        def triggers(self, detected: bool) -> bool:
            return not detected

    found = asyncio.run(run_stage(Check))
    assert [(veto.outcome, veto.reason) for veto in found.vetoes] == [(Outcome.INSUFFICIENT, "tone check: too short")]


def test_a_prompt_begins_with_all_instructions() -> None:
    from karenina_core import hookimpl

    class Advice:
        @hookimpl
        def karenina_prompt_instructions(self, task: str) -> str | None:
            return "From a plugin." if task == "parsing" else None

    task = PromptTask("parsing", "From the task.")

    async def greet(context: VerificationContext) -> None:
        await context.llm().invoke(context.prompt(task, "Hello."))

    models = ScriptedModels()
    plugins = Plugins()
    plugins.register(models)
    plugins.register(Advice())
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(prompt_config={"parsing": "From the user."})
    greeter = stage("Greeter", greet)

    async def work() -> None:
        hub = PortFactory(RunParts(plugins, config))
        item = Item(Question(question="Which?"), models.model("a"), models.model("j"), 1, config, hub, Trust())
        plan = order_stages([SelectedStage(greeter(), "d", "1")])
        await Pipeline(plan, find_observers(plugins)).run_stages(plan.stages, State(item))

    asyncio.run(work())
    system, user = models.requests[0].messages
    assert (system.role, system.content) == ("system", "From the task.\n\nFrom a plugin.\n\nFrom the user.")
    assert (user.role, user.content) == ("user", "Hello.")


def test_observers_hear_of_stages_that_execute() -> None:
    from karenina_core import hookimpl
    from karenina_engine.progress.observers import StageStarted

    heard = []

    class Listener:
        @hookimpl
        def karenina_stage_started(self, event: StageStarted) -> None:
            heard.append(("started", event.stage))

        @hookimpl
        def karenina_stage_finished(self, event: StageStarted, record: Any) -> None:
            heard.append((record.status, event.stage))

    async def bomb(context: VerificationContext) -> None:
        raise ValueError("x")

    class Both(ScriptedModels, Listener):
        """A scripted adapter that is also a listener."""

    run(stage("Bomb", bomb, produces={A}), stage("Never", nothing, requires={A}), models=Both())
    assert heard[:2] == [("started", "Bomb"), ("failed", "Bomb")]
    assert "Never" not in [name for _, name in heard]


def test_a_finalizer_that_fails_still_leaves_a_result() -> None:
    class Broken(FinalizeResult):
        def execute(self, context: VerificationContext) -> None:
            raise RuntimeError("no")

    assert Broken.optional is ANY
    plugins = Plugins()
    models = ScriptedModels()
    plugins.register(models)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig()

    async def work() -> VerificationResult:
        pipeline = Pipeline(order_stages([SelectedStage(Broken(), "d", "1")]), find_observers(plugins))
        item = Item(
            Question(question="Which?"),
            models.model("a"),
            models.model("j"),
            1,
            config,
            PortFactory(RunParts(plugins, config)),
            Trust(),
        )
        return await pipeline.judge(await pipeline.answer(item), item)

    result = asyncio.run(work())
    assert result.outcome is Outcome.STAGE_ERROR
    assert (result.metadata.error or "").startswith("FinalizeResult: RuntimeError: no (test_pipeline.py:")


def test_an_error_after_a_veto_keeps_the_verdict() -> None:
    def objects_and_fails(context: VerificationContext) -> None:
        context.veto("refused", Outcome.ABSTAINED)
        raise ValueError("oops")

    (result,) = run(stage("Objects", objects_and_fails))
    assert (result.outcome, result.template.verify_result) == (Outcome.STAGE_ERROR, False)
