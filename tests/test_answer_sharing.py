"""One answer for several judges: it is generated once per replicate, counted once, and fails for all judges."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResultSet
from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError
from karenina_core.models.ports import CallInfo, ErrorCategory, LLMReply, Message, ParserReply, PortError, Usage
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

TEMPLATE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
ASKED = Usage(input_tokens=100, output_tokens=40, calls=1)
PARSED = Usage(input_tokens=7, output_tokens=3, calls=1)
RIGHT = ParserReply('{"gene": "BCL2"}', "json_schema", PARSED)
AWAY = PortError("no server at 127.0.0.1:1", category=ErrorCategory.PERMANENT)


class Models(ScriptedModels):
    """Answers that differ each time, and judges that find BCL2 in all of them."""

    def __init__(self, failing: Mapping[int, PortError] | None = None, **fields: Any) -> None:
        self.failing = failing or {}
        super().__init__(say=self._say, fill=lambda *_: RIGHT, **fields)

    def _say(self, _messages: Sequence[Message], info: CallInfo) -> LLMReply:
        if info.replicate in self.failing:
            raise self.failing[info.replicate]
        number = sum(request.port == "llm" for request in self.requests)
        return LLMReply(f"Answer {number} of {info.question_id}.", ASKED)

    def of_port(self, port: str) -> list[str]:
        """Return the requests of a port as texts."""
        return [request.text for request in self.requests if request.port == port]


def run(
    answering: Models, judges: Sequence[ScriptedModels], *, questions: int = 1, **more: Any
) -> VerificationResultSet:
    """Return the results of these judges over the answers of one model."""
    plugins = Plugins.discover()
    models = {id(one): one for one in (answering, *judges)}
    for at, one in enumerate(models.values()):
        one.interface = f"scripted-{at}"
        plugins.register(one)
    benchmark = Benchmark.create(name="shared")
    for at in range(questions):
        benchmark.add_question(f"Which gene is number {at}?", "BCL2", TEMPLATE, question_id=f"q{at}")
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[answering.model("a")],
            parsing_models=[judge.model(f"j{at}") for at, judge in enumerate(judges)],
            **more,
        )
        return benchmark.run_verification(config)


def test_one_answer_per_replicate_is_shared_by_all_judges() -> None:
    answering, judge = Models(), Models()
    results = run(answering, [judge, judge], questions=3, replicate_count=2)
    assert len(results) == 3 * 2 * 2
    assert len(answering.of_port("llm")) == 3 * 2
    answers: dict[tuple[str, int | None], set[str | None]] = {}
    for result in results:
        key = (result.question_id, result.metadata.replicate)
        answers.setdefault(key, set()).add(result.template.raw_llm_response)
    assert [len(found) for found in answers.values()] == [1] * 6
    said = [answer for found in answers.values() for answer in found]
    assert len(set(said)) == 6
    assert Counter(answer for text in judge.of_port("parser") for answer in said if answer and answer in text) == (
        dict.fromkeys(said, 2)
    )


@pytest.mark.parametrize(("judges", "replicates"), [(1, 1), (2, 1), (3, 2)])
def test_the_tokens_of_a_shared_answer_count_once(judges: int, replicates: int) -> None:
    """The tokens of a shared answer count once in the totals, and are in the result of every judge."""
    answering, judge = Models(), Models()
    results = run(answering, [judge] * judges, replicate_count=replicates)
    total = results.usage()
    assert total.input_tokens == replicates * (100 + judges * 7)
    assert total.output_tokens == replicates * (40 + judges * 3)
    assert total.calls == replicates * (1 + judges)
    for result in results:
        assert result.template.usage_metadata is not None
        assert result.template.usage_metadata["answer_generation"]["input_tokens"] == 100
        assert result.template.usage_metadata["parsing"]["input_tokens"] == 7


def test_a_failed_answer_is_a_model_error_for_every_judge() -> None:
    """No judge is called if the answer cannot be generated."""
    answering, judge = Models(failing={2: AWAY}), Models()
    results = run(answering, [judge, judge], replicate_count=3)
    outcomes = {(result.metadata.replicate, result.metadata.parsing_id): result.outcome for result in results}
    assert outcomes == {
        (replicate, judge): Outcome.MODEL_ERROR if replicate == 2 else Outcome.CORRECT
        for replicate in (1, 2, 3)
        for judge in ("j0", "j1")
    }
    assert len(judge.of_port("parser")) == 2 * 2
    errors = {result.metadata.error or "" for result in results if result.outcome is Outcome.MODEL_ERROR}
    (error,) = errors
    assert "GenerateAnswer" in error
    assert str(AWAY) in error


def test_a_failing_judge_does_not_affect_other_judges() -> None:
    def fail(*_: object) -> str:
        raise AWAY

    results = run(Models(), [Models(), ScriptedModels(fill=fail), Models()])
    assert {result.metadata.parsing_id: result.outcome for result in results} == {
        "j0": Outcome.CORRECT,
        "j1": Outcome.PARSE_ERROR,
        "j2": Outcome.CORRECT,
    }


def test_what_one_judge_finds_is_not_seen_by_the_other() -> None:
    wrong = ScriptedModels(fill=lambda *_: {"gene": "TP53"})
    results = run(Models(), [wrong, Models()])
    found = {result.metadata.parsing_id: result.template.parsed_llm_response for result in results}
    assert found == {"j0": {"gene": "TP53"}, "j1": {"gene": "BCL2"}}


def recorded(tmp_path: Path) -> Path:
    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps({"question_id": "q0", "answer": "It is BCL2."}) + "\n", "utf-8")
    return file


def judged_only(*answering: Mapping[str, Any], **more: Any) -> VerificationResultSet:
    judge = Models()
    plugins = Plugins.discover()
    plugins.register(judge)
    benchmark = Benchmark.create(name="recorded")
    benchmark.add_question("Which gene?", "BCL2", TEMPLATE, question_id="q0")
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(answering_models=list(answering), parsing_models=[judge.model("j")], **more)
        return benchmark.run_verification(config)


def test_a_run_that_only_judges_takes_recorded_answers(tmp_path: Path) -> None:
    manual = {"id": "m", "interface": "manual", "model_name": "m", "manual_traces": str(recorded(tmp_path))}
    (result,) = judged_only(manual, parsing_only=True)
    assert (result.outcome, result.template.raw_llm_response) == (Outcome.CORRECT, "It is BCL2.")


def test_a_run_that_only_judges_refuses_answering_models(tmp_path: Path) -> None:
    manual = {"id": "m", "interface": "manual", "model_name": "m", "manual_traces": str(recorded(tmp_path))}
    live = [{"id": f"live{at}", "interface": "scripted", "model_name": "x"} for at in range(2)]
    with pytest.raises(ConfigError) as caught:
        judged_only(manual, *live, parsing_only=True)
    assert len(caught.value.problems) == 2
    assert "'live0' would be called" in caught.value.problems[0]
    assert "use recorded answers (manual), or set parsing_only = false" in caught.value.problems[0]
    assert len(judged_only(manual, *live, parsing_only=False)) == 3
