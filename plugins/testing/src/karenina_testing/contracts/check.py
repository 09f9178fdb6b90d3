"""The contract for every answer check (`CheckStage`)."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from typing import ClassVar

import pytest

from karenina_core.artifacts.keys import ArtifactKeys
from karenina_core.stages.stage import CheckStage
from karenina_testing.contracts.stage import StageContract, failing_models
from karenina_testing.stage_runner import StageRun


class CheckContract(StageContract):
    """The contract for an answer check, with two sample responses: it passes `passing` and vetoes `failing`.

    If a judge decides, override `fill` to reply to the requests about both responses.
    """

    stage: ClassVar[type[CheckStage]]
    passing: ClassVar[str]
    failing: ClassVar[str]

    def checked(self, response: str) -> StageRun:
        """Run the check on a response."""
        return self.run({**self.artifacts, ArtifactKeys.RAW_LLM_RESPONSE: response})

    def test_it_lets_a_good_response_through(self) -> None:
        run = self.checked(self.passing)
        performed, detected, override, _ = self.findings(run)
        assert (run.error, run.vetoes) == (None, [])
        assert (performed, detected is None, override) == (True, False, False)

    def test_it_vetoes_a_bad_response_with_a_reason(self) -> None:
        run = self.checked(self.failing)
        performed, detected, override, _ = self.findings(run)
        assert run.error is None
        assert [veto.outcome for veto in run.vetoes] == [self.stage.veto_outcome]
        assert run.vetoes[0].reason.strip()
        assert (performed, detected is None, override) == (True, False, True)

    @pytest.mark.parametrize("response", ["", "  \n"])
    def test_a_response_without_text_is_no_error(self, response: str) -> None:
        assert self.checked(response).error is None

    @pytest.mark.parametrize("failure", ["no server", "no reply", "no JSON"])
    def test_a_check_without_a_judge_is_not_performed(self, failure: str) -> None:
        run = self.run(models=failing_models(failure))
        if run.record.calls or run.record.failed_calls:
            performed, detected, override, _ = self.findings(run)
            assert (run.error, performed, detected, override) == (None, False, None, False)

    def findings(self, run: StageRun) -> tuple[object, ...]:
        """Return the values of the check's four artifacts: performed, detected, override applied, reasoning."""
        return tuple(run.artifact(key) for key in self.stage.check_keys())
