"""Tests of replays: all replies come from the journal, and the results are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from journal_runs import CONFIG, STAGES_ONLY, ScriptedRuns, make_benchmark, make_model, summarize

from karenina_benchmark import Benchmark
from karenina_core import ModelConfig, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError
from karenina_core.hooks import hookimpl
from karenina_core.models.adapters import AdapterConfigError, AdapterSpec
from karenina_core.models.ports import ErrorCategory, LLMReply, PortError, Usage
from karenina_core.plugins import Plugins
from karenina_engine.journal.journal import JournalError
from karenina_engine.offline.rescoring import rescore
from karenina_engine.results.result_set import VerificationResultSet


def _no_key(_model: ModelConfig) -> None:
    raise AdapterConfigError("there is no key")


def _never(_model: ModelConfig) -> Any:
    raise AssertionError("a port is made, although nobody is to be asked")


class NobodyHome:
    """The interfaces of the other runs on a machine where they have neither key nor package."""

    @hookimpl
    def karenina_adapters(self) -> list[AdapterSpec]:
        return [
            AdapterSpec(
                interface=name,
                description="",
                llm=_never,
                parser=_never,
                check=_no_key,
                unavailable=lambda: "its package is not installed",
                by_item=True,
            )
            for name in ("scripted", "talkative")
        ]


def replay(benchmark: Benchmark, **more: Any) -> VerificationResultSet:
    """Replay a run whose servers are gone."""
    plugins = Plugins()
    plugins.register(STAGES_ONLY, distribution="karenina-test", version="1.2")
    plugins.register(NobodyHome())
    with plugin_room.use_plugins(plugins):
        return benchmark.run_verification({**CONFIG, **more.pop("config", {})}, replay=True, **more)


def test_a_replay_writes_the_same_file_to_the_byte(tmp_path: Path) -> None:
    tries: dict[str, int] = {}

    def troubles(text: str) -> None:
        tries[text] = tries.get(text, 0) + 1
        if "b" in text and "many" not in text:
            raise PortError("b is refused", category=ErrorCategory.PERMANENT, status=400)
        if "c" in text and tries[text] < 3:
            raise PortError("wait", category=ErrorCategory.RATE_LIMIT)

    world = ScriptedRuns(on_call=troubles)
    world.answers = lambda text: LLMReply("cut", Usage(5, 5, calls=1), "length") if "d" in text else f"yes to {text}"
    journal = tmp_path / "j.journal"
    world.run(make_benchmark(*"abcd"), journal=journal, output=tmp_path / "then.jsonl")
    replay(make_benchmark(*"abcd"), journal=journal, output=tmp_path / "now.jsonl")

    then = (tmp_path / "then.jsonl").read_bytes()
    assert (tmp_path / "now.jsonl").read_bytes() == then
    assert b'"retries":{"rate_limit":2}' in then
    assert b"b is refused" in then


def test_missing_reply_is_an_error_of_its_item(tmp_path: Path) -> None:
    ScriptedRuns().run(
        make_benchmark("a"), journal=tmp_path / "j.journal", config={"answering_models": [make_model("m")]}
    )
    found = replay(
        make_benchmark("a", "b"),
        journal=tmp_path / "j.journal",
        config={"answering_models": [make_model("m")], "parsing_models": [make_model("j"), make_model("k")]},
    )

    assert [(one.question_id, one.metadata.parsing_id, one.outcome.judged) for one in found] == [
        ("a", "j", True),
        ("a", "k", False),
        ("b", "j", False),
        ("b", "k", False),
    ]
    assert (
        "contains no reply from 'k' (scripted:k) to this call of stage Count (counting) for question 'a'"
        in found[1].why()
    )
    assert "stage Say (answer_generation) for question 'b', replicate 1" in found[2].why()


def test_a_replay_changes_nothing_in_the_journal_and_needs_one(tmp_path: Path) -> None:
    journal = tmp_path / "j.journal"
    ScriptedRuns().run(make_benchmark("a"), journal=journal)
    before = journal.read_bytes()
    replay(make_benchmark("a"), journal=journal)

    assert journal.read_bytes() == before
    with pytest.raises(JournalError, match="there is no journal"):
        replay(make_benchmark("a"), journal=tmp_path / "none.journal")
    with pytest.raises(
        ConfigError, match="a replay reads replies from a journal instead of calling models; set a journal"
    ):
        replay(make_benchmark("a"))


def test_a_new_truth_is_judged_by_the_replies_of_then(tmp_path: Path) -> None:
    ScriptedRuns().run(make_benchmark("a"), journal=tmp_path / "j.journal")
    changed = make_benchmark("a")
    changed.replace(changed.get("a").changed(raw_answer="new"))

    assert {one.metadata.raw_answer for one in replay(changed, journal=tmp_path / "j.journal")} == {"new"}


def test_half_a_character_in_reasoning_or_errors_is_stored(tmp_path: Path) -> None:
    def broken(text: str) -> None:
        if "b" in text and "many" not in text:
            raise PortError("half \ud800", category=ErrorCategory.PERMANENT, status=400)

    world = ScriptedRuns(on_call=broken)
    world.answers = lambda text: LLMReply(f"yes to {text}", Usage(5, 5, calls=1), reasoning="half \ud800")
    journal = tmp_path / "j.journal"
    first = world.run(make_benchmark("a", "b"), journal=journal)
    asked = len(world.calls)
    assert [one.outcome.judged for one in first if one.question_id == "b"] == [False, False]
    assert summarize(replay(make_benchmark("a", "b"), journal=journal)) == summarize(first)
    assert len(world.calls) == asked


class _Observes:
    """A plugin that takes part in a run without changing it."""

    @hookimpl
    def karenina_run_started(self, event: object) -> None:
        """Do nothing."""


def test_a_plugin_of_the_last_run_that_is_missing_now_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = tmp_path / "j.journal"
    benchmark = make_benchmark("a")
    plugins = ScriptedRuns().plugins()
    plugins.register(_Observes(), distribution="their-stage", version="3.4")
    with plugin_room.use_plugins(plugins):
        benchmark.run_verification(CONFIG, journal=journal)
        benchmark.run_verification(CONFIG, journal=journal)
    assert "so results may differ" not in caplog.text

    replay(benchmark, journal=journal)
    with plugin_room.use_plugins(ScriptedRuns().plugins()):
        rescore(journal, benchmark, VerificationConfig(**CONFIG))
    says = f"the last run in {journal} used plugins of their-stage 3.4, which is not in use now, so results may differ"
    assert caplog.text.count(says) == 2
