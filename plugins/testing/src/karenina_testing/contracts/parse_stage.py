"""The contract for every stage that fills templates (slot 7)."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pytest

from karenina_core.artifacts.artifact import AnyKey, Slot
from karenina_core.artifacts.keys import ArtifactKeys, BoundTemplate
from karenina_core.data.question import Question
from karenina_core.stage_selection import select
from karenina_core.stages.stage import RegisteredStage
from karenina_testing.contracts.stage import StageContract, failing_models


class ParseStageContract(StageContract):
    """The contract for a stage that fills a template from a response.

    - `question`: a question whose `answer_template` is the template's source.
    - `template`: the template, bound to a question:
      `karenina_template.templates.load_template(source).for_question("q1")`.
    - `response`: a response with a wrong answer; it must not contain any of the template's truths.
    - `extracted`: the values that the stage must extract from `response`.
    - `usual`: whether the stage is the default, which fills templates if the configuration selects no other.
    """

    question: ClassVar[Question]
    template: ClassVar[BoundTemplate]
    response: ClassVar[str]
    extracted: ClassVar[Mapping[str, object]]
    usual: ClassVar[bool] = False

    @property
    def artifacts(self) -> Mapping[AnyKey, object]:  # type: ignore[override]
        """The template and the response."""
        return self._artifacts(self.response)

    def _artifacts(self, response: str) -> dict[AnyKey, object]:
        return {
            ArtifactKeys.RAW_ANSWER_CLASS: type(
                self.template.bind(dict.fromkeys(self.template.judge_fields), response)
            ),
            ArtifactKeys.ANSWER_CLASS: self.template,
            ArtifactKeys.RAW_LLM_RESPONSE: response,
        }

    @property
    def truths(self) -> list[str]:  # type: ignore[override]
        """The template's truths as text, without booleans and empty ones."""
        found = [one for value in self.template.expected().values() for one in _parts(value)]
        return [str(value) for value in found if value is not None and not isinstance(value, bool)]

    def test_it_is_a_stage_of_the_parse_slot(self) -> None:
        assert self.slot is Slot.PARSE_TEMPLATE
        assert ArtifactKeys.PARSED_ANSWER in self.stage.produces

    def test_the_sample_response_contains_no_truth(self) -> None:
        assert [truth for truth in self.truths if truth in self.response] == []

    def test_it_extracts_what_the_response_says(self) -> None:
        answer = self.run().artifact(ArtifactKeys.PARSED_ANSWER)
        assert self.template.extracted(answer) == self.extracted
        assert answer is not None
        assert answer.verify() is False, "the sample response is wrong"

    def test_installing_it_changes_no_plan(self) -> None:
        offered = RegisteredStage(self.stage, "under-test", "0", self.slot)
        found = select([offered], self.config(self.models(), {}), self.question, {})
        assert self.usual or found.stages == [], "a plan must change only if the configuration selects the stage"

    def test_an_empty_response_fills_no_field(self) -> None:
        run = self.run(self._artifacts(""))
        assert run.error is None
        values: dict[str, Any] = self.template.extracted(run.artifact(ArtifactKeys.PARSED_ANSWER))
        assert [name for name in self.template.judge_fields if values.get(name) is not None] == []

    @pytest.mark.parametrize("failure", ["no server", "no reply", "no JSON"])
    def test_a_failing_judge_is_an_error_and_fills_nothing(self, failure: str) -> None:
        run = self.run(models=failing_models(failure))
        if run.record.calls or run.record.failed_calls:
            assert run.error is not None
            assert run.error.outcome is self.stage.error_outcome
            assert run.artifact(ArtifactKeys.PARSED_ANSWER) is None


def _parts(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else [value]
