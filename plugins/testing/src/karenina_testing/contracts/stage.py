"""The contracts for stages, for answer checks (`CheckStage`), and for stages that fill in templates.

Stages must do what they declare, must not show the ground truth to models, and must survive failing models.
"""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import pytest
from pydantic import TypeAdapter

from karenina_core.artifacts.artifact import AnyKey, Slot
from karenina_core.artifacts.declarations import why_refused
from karenina_core.artifacts.keys import ArtifactKeys, BoundTemplate
from karenina_core.config import VerificationConfig
from karenina_core.data.question import Question
from karenina_core.data.result import VerificationResult
from karenina_core.data.trust import Trust
from karenina_core.models.ports import AgentReply, CallInfo, ErrorCategory, LLMReply, Message, ParserReply, PortError
from karenina_core.plugins import active_plugins
from karenina_core.stage_selection import select
from karenina_core.stages.finalize import make_result
from karenina_core.stages.stage import CheckStage, RegisteredStage, Skip, Stage, registered_stages
from karenina_testing.contracts.plugin import PluginContract, find_unmarked_fields
from karenina_testing.scripted_models import ScriptedModels
from karenina_testing.stage_runner import StageRun, configure, run_stage

TRUTH: Final = "truth-4711-that-no-model-may-see"
"""The sample question's raw answer, which no model may see."""


class StageContract(PluginContract):
    """Contract tests for a stage, which run it in isolation with the artifacts of a sample item.

    - `stage`: the stage class.
    - `artifacts`: values for the artifacts that the stage requires and for any optional artifacts that it reads.
    - `skipped_with`: additional artifacts, each of which must make the stage skip the item.
    - `question`: the item's question; its `raw_answer` must not reach any model.
    - `settings`: the run's configuration.
    - `truths`: additional strings that must not reach any model.
    - `plugins`: additional plugins that the stage needs.

    If the stage calls models, override `fill`, `say` and `act`. They reply in the same way as the functions of
    `ScriptedModels`.
    """

    stage: ClassVar[type[Stage]]
    artifacts: ClassVar[Mapping[AnyKey, object]] = {ArtifactKeys.RAW_LLM_RESPONSE: "It is BCL2."}
    skipped_with: ClassVar[Mapping[AnyKey, object]] = {}
    question: ClassVar[Question] = Question(question="Which gene was found first?", raw_answer=TRUTH)
    settings: ClassVar[Mapping[str, Any]] = {}
    truths: ClassVar[Sequence[str]] = ()
    plugins: ClassVar[Sequence[object]] = ()

    def fill(
        self, messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo
    ) -> Mapping[str, Any] | str | ParserReply:
        """Return the reply to a request for JSON."""
        return dict.fromkeys(schema.get("properties", {}))

    def say(self, messages: Sequence[Message], info: CallInfo) -> str | LLMReply:
        """Return the reply to a request for text."""
        return "an answer"

    def act(self, messages: Sequence[Message], info: CallInfo) -> Sequence[Message] | AgentReply:
        """Return an agent's trace."""
        return [Message.assistant("an answer")]

    @property
    def slot(self) -> Slot | None:
        """The installed stage's slot, or the class's `for_slot` if no plugin offers the stage.

        If it is None, the position depends on the stage's relations to other stages.
        """
        offered = [stage.slot for stage in registered_stages(active_plugins()) if stage.stage is self.stage]
        return offered[0] if offered else self.stage.for_slot

    def models(self) -> ScriptedModels:
        """Return the models for the stage to call. They record every request."""
        return ScriptedModels(fill=self.fill, say=self.say, act=self.act)

    def run(
        self, artifacts: Mapping[AnyKey, object] | None = None, models: ScriptedModels | None = None, **settings: Any
    ) -> StageRun:
        """Run the stage alone in an event loop of its own, then its clean-up, and return what it did. `artifacts` and
        `models` replace those of the contract, and `settings` are added to its settings.
        """

        async def run() -> StageRun:
            stage_run = await run_stage(
                self.stage,
                question=self.question,
                artifacts=self.artifacts if artifacts is None else artifacts,
                models=models or self.models(),
                plugins=self.plugins,
                slot=self.slot,
                **{**self.settings, **settings},
            )
            await stage_run.end()
            return stage_run

        return asyncio.run(run())

    def test_its_declarations_are_valid(self) -> None:
        """A plugin whose stage has an invalid declaration is rejected with the same message."""
        stage: Any = self.stage
        assert why_refused(stage) is None

    def test_it_keeps_its_declarations(self) -> None:
        """The stage reads and sets only what it declares, and sets every artifact that it declares to produce."""
        run = self.run()
        assert (run.record.status, run.record.reason, run.record.error) == ("ran", None, None)
        missing = [key.name for key in self.stage.produces if not run.state.has(key.name)]
        assert missing == [], "a stage that runs must set every artifact that it produces; None counts as a value"

    def test_it_offers_each_known_value_that_it_declares(self) -> None:
        """Each name in `offers` has a value of its type, or a reason; names with `*` have at least one."""
        values = self.run().state.values
        missing = [name for name in self.stage.offers if not fnmatch.filter(values, name)]
        assert missing == [], (
            "a stage that runs must call offer_value for each name in `offers`, with None and a reason if there is no "
            "value; a stage that offers only what templates compare needs a `question` whose template compares them all"
        )
        for name, known in values.items():
            offered = max((pattern for pattern in self.stage.offers if fnmatch.fnmatchcase(name, pattern)), key=len)
            if known.value is not None:
                kind: Any = self.stage.offers[offered]
                TypeAdapter(kind).validate_python(known.value, strict=True)

    def test_it_runs_with_only_what_it_requires(self) -> None:
        required = {key: value for key, value in self.artifacts.items() if key in self.stage.requires}
        lacking = sorted(key.name for key in self.stage.requires - required.keys())
        assert lacking == [], "define a sample of each required artifact for the contract"
        assert self.run(required).error is None

    def test_it_skips_items_with_a_reason(self) -> None:
        for key, value in self.skipped_with.items():
            record = self.run({**self.artifacts, key: value}).record
            assert record.status == "skipped", f"the stage runs although {key.name} is {value!r}"
            assert (record.reason or "").strip()
            assert "failed" not in (record.reason or "").split(":")[0], record.reason

    def test_leaving_it_out_of_the_plan_has_a_reason(self) -> None:
        models = self.models()
        for settings in (self.settings, {}):
            included = self.stage().included(self.config(models, settings), self.question)
            assert included is True or (isinstance(included, Skip) and included.why.strip()), (
                "included() must return True or Skip(reason)"
            )

    def test_no_ground_truth_reaches_a_model(self) -> None:
        models = self.models()
        self.run(models=models)
        secret = [text for text in (self.question.raw_answer, *self.truths) if text]
        assert [text for text in secret for request in models.requests if text in request.text] == []

    def test_a_stage_that_calls_the_judge_says_so(self) -> None:
        models = self.models()
        self.run(models=models)
        judged = [request for request in models.requests if request.info.judge]
        needs = self.stage().needs_judge(self.config(models, self.settings), self.question, Trust())
        assert needs or not judged, "list the stage's prompt tasks in `prompts`, or define needs_judge()"

    @pytest.mark.parametrize("failure", ["no server", "no reply", "no JSON"])
    def test_a_failing_model_is_never_a_wrong_answer(self, failure: str) -> None:
        run = self.run(models=failing_models(failure))
        if run.record.calls or run.record.failed_calls:
            assert run.vetoes == [], "a failing model must not affect the verdict on the answer"
            verdict = ArtifactKeys.FIELD_VERIFICATION_RESULT
            assert verdict not in self.stage.produces or run.artifact(verdict) is not False

    def test_its_result_is_the_same_after_a_round_trip_through_json(self) -> None:
        state = self.run().state
        result = make_result(state)
        assert "the result cannot be built" not in (result.metadata.error or "")
        assert VerificationResult.model_validate_json(result.model_dump_json()) == result
        extensions = [values for section, values in state.fields.items() if section.startswith("extensions:")]
        assert list(result.extensions.values()) == extensions, (
            "extension fields must be set to JSON values, such as lists, and dictionaries with string keys"
        )

    def test_each_setting_says_whether_a_benchmark_may_set_it(self) -> None:
        models = [model for model in (self.stage.settings, self.stage.trait_settings) if model is not None]
        assert [name for model in models for name in find_unmarked_fields(model)] == []

    def config(self, models: ScriptedModels, settings: Mapping[str, Any]) -> VerificationConfig:
        """Return the configuration for a run with only this stage."""
        return configure(self.stage, models, self.plugins, settings=settings, slot=self.slot)[1]


def failing_models(failure: str) -> ScriptedModels:
    """Return models of which each call fails as `failure` states: with `no server`, with `no reply` (an empty string),
    or for any other text with a reply that is not JSON.
    """

    def fail(*_: object) -> Any:
        if failure == "no server":
            raise PortError("no server at 127.0.0.1:1", category=ErrorCategory.CONNECTION)
        return "" if failure == "no reply" else "I cannot judge this."

    def act(*_: object) -> Sequence[Message]:
        return [Message.assistant(fail())]

    return ScriptedModels(fill=fail, say=fail, act=act)


class CheckContract(StageContract):
    """The contract for an answer check that passes the response `passing` and vetoes the response `failing`.

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
        """Return the check's four artifacts: performed, detected, override applied, reasoning."""
        return tuple(run.artifact(key) for key in self.stage.check_keys())


class ParseStageContract(StageContract):
    """The contract for a stage that fills in a template from a response.

    - `question`: a question whose `answer_template` is the template's source.
    - `template`: the template, bound to a question:
      `karenina_template.templates.load_template(source).for_question("q1")`.
    - `response`: a response with a wrong answer; it must not contain any of the template's ground truths.
    - `extracted`: the values that the stage must extract from `response`.
    - `usual`: whether the stage is the default, which fills in templates unless the configuration selects another
      stage.
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
        """Return the artifacts for an item with the template and the given response."""
        return {
            ArtifactKeys.RAW_ANSWER_CLASS: type(
                self.template.bind(dict.fromkeys(self.template.judge_fields), response)
            ),
            ArtifactKeys.ANSWER_CLASS: self.template,
            ArtifactKeys.RAW_LLM_RESPONSE: response,
        }

    @property
    def truths(self) -> list[str]:  # type: ignore[override]
        """The template's ground truths as strings, including the elements of lists. Booleans and None are omitted."""
        parts = [part for value in self.template.expected().values() for part in _parts(value)]
        return [str(value) for value in parts if value is not None and not isinstance(value, bool)]

    def test_it_is_a_stage_of_the_parse_slot(self) -> None:
        assert self.slot is Slot.PARSE_TEMPLATE
        assert ArtifactKeys.PARSED_ANSWER in self.stage.produces

    def test_the_sample_response_contains_no_truth(self) -> None:
        assert [truth for truth in self.truths if truth in self.response] == []

    def test_it_extracts_what_the_response_says(self) -> None:
        answer = self.run().artifact(ArtifactKeys.PARSED_ANSWER)
        assert self.template.extracted(answer) == self.extracted
        assert answer is not None
        assert answer.verify() is False, "the sample response must be a wrong answer"

    def test_installing_it_changes_no_plan(self) -> None:
        offered = RegisteredStage(self.stage, "under-test", "0", self.slot)
        selection = select([offered], self.config(self.models(), {}), self.question, {})
        assert self.usual or selection.stages == [], "a plan must change only if the configuration selects the stage"

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
    """Return the elements of a list, or any other value as a list of one."""
    return value if isinstance(value, list) else [value]
