"""Judges that hang or are cut off in whole runs: never a wrong answer, and repaired by continuing the run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResultSet
from karenina_core import plugins as plugin_room
from karenina_core.models.ports import CallInfo, ErrorCategory, Message, ParserReply, PortError
from karenina_core.plugins import Plugins
from karenina_engine.offline.rescoring import rescore
from karenina_testing import ScriptedModels

GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
RIGHT = json.dumps({"gene": "BCL2"})
CUT = RIGHT[:-4]


def genes(count: int) -> Benchmark:
    benchmark = Benchmark.create("Genes")
    for number in range(count):
        benchmark.add_question(f"Which gene, number {number}?", "BCL2", GENE, question_id=f"q{number}")
    return benchmark


class Judged:
    """Runs with a judge that replies with `says(question id, number of the request)`."""

    def __init__(self, says: Callable[[str, int], str | ParserReply]) -> None:
        self.asked: dict[str, int] = {}
        self._says = says
        self.models = ScriptedModels(say=lambda *_: "It is BCL2.", fill=self._fill)

    def _fill(self, _messages: Sequence[Message], _schema: Mapping[str, Any], info: CallInfo) -> str | ParserReply:
        self.asked[info.question_id] = self.asked.get(info.question_id, 0) + 1
        return self._says(info.question_id, self.asked[info.question_id])

    def config(self, **settings: Any) -> VerificationConfig:
        return VerificationConfig(
            answering_models=[self.models.model("a")], parsing_models=[self.models.model("j")], **settings
        )

    def plugins(self) -> Plugins:
        plugins = Plugins.discover()
        plugins.register(self.models)
        return plugins

    def run(self, benchmark: Benchmark, journal: Path, **settings: Any) -> VerificationResultSet:
        with plugin_room.use_plugins(self.plugins()):
            return benchmark.run_verification(self.config(**settings), journal=journal)


def test_a_hanging_judge_times_out_and_is_called_again_later(tmp_path: Path) -> None:
    def hangs(id: str, _times: int) -> str:
        if id == "q1":
            raise PortError("wait a minute", category=ErrorCategory.RATE_LIMIT, retry_after=60)
        return RIGHT

    for seconds in (2, 10, 50):  # a busy machine takes longer for the other item
        journal = tmp_path / f"j{seconds}"
        late = Judged(hangs).run(genes(2), journal, item_timeout=seconds)
        if late[0].outcome is Outcome.CORRECT:
            break
    mended = Judged(lambda *_: RIGHT)
    found = mended.run(genes(2), journal, item_timeout=60)

    assert [one.outcome for one in late] == [Outcome.CORRECT, Outcome.TIMED_OUT]
    assert "ParseTemplate" in late[1].why()
    assert "item_timeout" in late[1].why()
    assert (late.summary().pass_rate.out_of, late.summary().not_judged) == (1, 1)
    assert [one.outcome for one in found] == [Outcome.CORRECT, Outcome.CORRECT]
    assert list(mended.asked) == ["q1"]


@pytest.mark.parametrize(
    "cut",
    [
        CUT,
        "",
        "I am afraid that",
        ParserReply(CUT, "json_schema", finish_reason="length"),
        ParserReply("", "json_schema", finish_reason="content_filter"),
    ],
)
def test_an_unfinished_judge_is_called_again_on_resume(tmp_path: Path, cut: str | ParserReply) -> None:
    first = Judged(lambda question, _: cut if question == "q1" else RIGHT)
    then = first.run(genes(2), tmp_path / "j")
    mended = Judged(lambda *_: RIGHT)
    now = mended.run(genes(2), tmp_path / "j")

    assert [one.outcome for one in then] == [Outcome.CORRECT, Outcome.PARSE_ERROR]
    filtered = isinstance(cut, ParserReply) and cut.finish_reason == "content_filter"
    assert first.asked == {"q0": 1, "q1": 1 if filtered else 2}, "a filter is not asked twice"
    assert [one.outcome for one in now] == [Outcome.CORRECT, Outcome.CORRECT]
    assert mended.asked == {"q1": 1}


@pytest.mark.parametrize("said", ['{"protein": "BCL2"}', '{"gene": ["BCL2", "BCL3"]}'])
def test_a_complete_judge_reply_is_not_requested_again(tmp_path: Path, said: str) -> None:
    Judged(lambda *_: said).run(genes(1), tmp_path / "j")
    again = Judged(lambda *_: RIGHT)
    (found,) = again.run(genes(1), tmp_path / "j")

    assert found.outcome is Outcome.PARSE_ERROR
    assert again.asked == {}


def test_replies_that_are_sometimes_cut_off_lose_no_result(tmp_path: Path) -> None:
    draw = random.Random(3)
    now_and_then = Judged(lambda *_: CUT if draw.random() < 0.2 else RIGHT)
    then = now_and_then.run(genes(200), tmp_path / "j")
    lost = [one.question_id for one in then if one.outcome is Outcome.PARSE_ERROR]
    judge = Judged(lambda *_: RIGHT)
    now = judge.run(genes(200), tmp_path / "j")

    assert lost
    assert {one.outcome for one in then} == {Outcome.CORRECT, Outcome.PARSE_ERROR}
    assert {one.outcome for one in now} == {Outcome.CORRECT}
    assert sorted(judge.asked) == sorted(lost)


@pytest.mark.parametrize("ask", [False, True])
def test_rescoring_uses_the_complete_reply_after_a_cut_one(tmp_path: Path, ask: bool) -> None:
    judged = Judged(lambda _, times: CUT if times == 1 else RIGHT)
    judged.run(genes(1), tmp_path / "j")
    with plugin_room.use_plugins(judged.plugins()):
        found = rescore(tmp_path / "j", genes(1), judged.config(), ask=ask)

    assert found.after.outcomes == {"correct": 1}
    assert judged.asked == {"q0": 2}
