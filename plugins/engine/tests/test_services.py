"""Tests of services that stages call: their replies are stored, replayed and retried as those of models."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from journal_runs import AT_ONCE, CONFIG, ScriptedRuns, make_benchmark, make_model

from karenina_benchmark import Benchmark
from karenina_core import ArtifactKeys, Question, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.stages.stage import ServiceNeed
from karenina_engine.results.result_set import VerificationResultSet

ONE = {**CONFIG, "answering_models": [make_model("m")]}


@dataclass
class Library:
    """A service: what it says, and every query that reached it. `closed` says why it cannot be asked here."""

    says: Callable[[str], str | Awaitable[str]] = lambda query: f"a book on {query}"
    closed: str | None = None
    asked: list[str] = field(default_factory=list)

    def ask(self, query: str) -> str | Awaitable[str]:
        """Answer one query."""
        self.asked.append(query)
        return self.says(query)


def looking_up(library: Library) -> object:
    """Return a plugin with a stage that looks up the answer, and goes on if it cannot."""

    class LookUp(Stage):
        name = "LookUp"
        requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})

        def before_run(
            self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
        ) -> Iterable[ServiceNeed]:
            return [ServiceNeed(f"the library: {library.closed}")] if library.closed is not None else []

        async def execute(self, context: VerificationContext) -> None:
            query = context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)
            try:
                found = await context.consult("library", query, lambda: library.ask(query))
            except PortError as error:
                found = f"nothing: {error}"
            context.set_result_field("found", found)

    class Plugin:
        @hookimpl
        def karenina_extra_stages(self) -> Sequence[type[Stage]]:
            return [LookUp]

    return Plugin()


def run(
    library: Library, benchmark: Benchmark, world: ScriptedRuns | None = None, **more: Any
) -> VerificationResultSet:
    """Run with a library service."""
    plugins = (world or ScriptedRuns()).plugins()
    plugins.register(looking_up(library), distribution="karenina-library", version="1")
    if "replay" not in more:
        more["policy"] = AT_ONCE
    with plugin_room.use_plugins(plugins):
        return benchmark.run_verification({**ONE, **more.pop("config", {})}, **more)


def found(results: VerificationResultSet) -> list[str]:
    """Return what the stage found for each item."""
    return [one.extensions["karenina-library"]["found"] for one in results]


def test_a_replay_asks_no_service_and_writes_the_same_bytes(tmp_path: Path) -> None:
    library = Library(closed=None)
    run(library, make_benchmark("a", "b"), journal=tmp_path / "j", output=tmp_path / "then.jsonl")
    away = Library(closed="it is away")
    run(away, make_benchmark("a", "b"), journal=tmp_path / "j", output=tmp_path / "now.jsonl", replay=True)

    assert (tmp_path / "now.jsonl").read_bytes() == (tmp_path / "then.jsonl").read_bytes()
    assert "a book on an answer to What is a?" in (tmp_path / "now.jsonl").read_text()
    assert (len(library.asked), away.asked) == (2, [])


def test_resumed_run_sends_a_service_only_new_queries(tmp_path: Path) -> None:
    library = Library()
    run(library, make_benchmark("a"), journal=tmp_path / "j")
    more_judges = {"parsing_models": [make_model("j"), make_model("k")]}
    results = run(library, make_benchmark("a", "b"), journal=tmp_path / "j", config=more_judges)

    assert library.asked == ["an answer to What is a?", "an answer to What is b?"]
    assert found(results) == [f"a book on an answer to What is {id}?" for id in "aabb"]


def test_missing_service_reply_is_an_error_of_its_item(tmp_path: Path) -> None:
    world, library = ScriptedRuns(), Library()
    with plugin_room.use_plugins(world.plugins()):
        make_benchmark("a").run_verification(ONE, journal=tmp_path / "j")
    (result,) = run(library, make_benchmark("a"), journal=tmp_path / "j", replay=True)

    assert not result.outcome.judged
    assert "contains no reply from the service 'library' to this call of stage LookUp" in result.why()
    assert library.asked == []


def test_failed_service_call_is_repeated_on_resume(tmp_path: Path) -> None:
    def closed(_query: str) -> str:
        raise OSError("the doors are shut")

    output = tmp_path / "then.jsonl"
    first = run(Library(closed), make_benchmark("a"), journal=tmp_path / "j", output=output)
    replayed = run(Library(), make_benchmark("a"), journal=tmp_path / "j", output=tmp_path / "now.jsonl", replay=True)
    world, library = ScriptedRuns(), Library()
    second = run(library, make_benchmark("a"), world, journal=tmp_path / "j")

    assert found(first) == found(replayed) == ["nothing: OSError: the doors are shut"]
    assert (tmp_path / "now.jsonl").read_bytes() == output.read_bytes()
    assert found(second) == ["a book on an answer to What is a?"]
    assert (world.calls, len(library.asked)) == ([], 1)


@pytest.mark.parametrize(
    ("category", "asked"), [(ErrorCategory.RATE_LIMIT, 3), (ErrorCategory.SERVER, 3), (ErrorCategory.PERMANENT, 1)]
)
def test_a_service_that_fails_for_a_while_is_asked_again(category: ErrorCategory, asked: int) -> None:
    library = Library()

    def troubled(query: str) -> str:
        if len(library.asked) < 3:
            raise PortError("not now", category=category)
        return f"a book on {query}"

    library.says = troubled
    (result,) = run(library, make_benchmark("a"))
    (record,) = (one for one in result.stages if one.name == "LookUp")
    assert len(library.asked) == asked
    assert sum(record.retries.values()) == asked - 1
    assert record.failed_calls == (asked == 1)


def test_service_that_hangs_is_cancelled_after_the_request_timeout() -> None:
    goes_on = threading.Event()

    def hangs(_query: str) -> str:
        goes_on.wait(120)
        return "at last"

    try:
        results = run(Library(hangs), make_benchmark("a"), config={"request_timeout": 0.5})
    finally:
        goes_on.set()
    assert found(results)[0].startswith(
        "nothing: TimeoutError: the service did not answer within 0.5 s (request_timeout)"
    )


def test_items_that_ask_the_same_at_once_share_one_answer(tmp_path: Path) -> None:
    library = Library()
    judges = {"parsing_models": [make_model("j"), make_model("k"), make_model("l")]}
    results = run(library, make_benchmark("a"), journal=tmp_path / "j", config=judges)
    assert (len(results), len(library.asked)) == (3, 1)


def test_a_service_counts_as_no_call_of_a_model(tmp_path: Path) -> None:
    (result,) = run(Library(), make_benchmark("a"), journal=tmp_path / "j")
    (record,) = (one for one in result.stages if one.name == "LookUp")
    assert (record.calls, record.input_tokens) == (0, 0)
    with sqlite3.connect(tmp_path / "j") as database:
        assert database.execute("SELECT count(*) FROM spent WHERE model = 'library'").fetchone() == (0,)
        kept = database.execute("SELECT port, model, stage, calls FROM replies WHERE port = 'service'").fetchall()
    assert kept == [("service", "library", "LookUp", 0)]


def test_unavailable_service_is_reported_before_any_call() -> None:
    world = ScriptedRuns()
    with pytest.raises(ConfigError, match="the library: it is closed today"):
        run(Library(closed="it is closed today"), make_benchmark("a"), world)
    assert world.calls == []
