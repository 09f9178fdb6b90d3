"""Every hook of Karenina: the table of contents of what a plugin can add.

A plugin is any object (a class, a module, an instance) whose functions carry `@hookimpl` and are named like one of
the specifications here. An entry point in one of the groups `karenina.stages`, `karenina.adapters` or
`karenina.plugins` names it. An implementation may take fewer arguments than its specification.

The thirteen slot hooks each offer stage classes for one slot, in the order in which the slots are passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer
    from pydantic import BaseModel

    from karenina_core.adapters import AdapterSpec
    from karenina_core.config import VerificationConfig
    from karenina_core.prices import PriceSource
    from karenina_core.results import StageRecord, VerificationResult
    from karenina_core.rubrics import RubricTrait
    from karenina_core.rubrics.evaluation import TraitEvaluator
    from karenina_core.run.calls import Made
    from karenina_core.run.events import (
        AnswerStarted,
        CallStarted,
        ItemStarted,
        RunFinished,
        RunStarted,
        StageStarted,
    )
    from karenina_core.run.executors import Executor
    from karenina_core.search import SearchTool
    from karenina_core.stage import Stage
    from karenina_core.templates import Primitive
    from karenina_core.tool_sources import ToolSource

API_VERSION = 1
"""The version of these specifications. A plugin that sets `karenina_api` to another one is not loaded."""

PROJECT = "karenina"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def karenina_validate_template() -> Sequence[type[Stage]]:
    """Offer stages for slot 1, which turns a question's template into classes that the judge and the check can use."""


@hookspec
def karenina_generate_answer() -> Sequence[type[Stage]]:
    """Offer stages for slot 2, which gets the answer of the model under test."""


@hookspec
def karenina_recursion_limit_auto_fail() -> Sequence[type[Stage]]:
    """Offer stages for slot 3, which fails answers of agents that ran into their turn limit."""


@hookspec
def karenina_trace_validation_auto_fail() -> Sequence[type[Stage]]:
    """Offer stages for slot 4, which fails conversations that do not end in an answer."""


@hookspec
def karenina_abstention_check() -> Sequence[type[Stage]]:
    """Offer stages for slot 5, which finds refusals."""


@hookspec
def karenina_sufficiency_check() -> Sequence[type[Stage]]:
    """Offer stages for slot 6, which finds answers that cannot fill the template."""


@hookspec
def karenina_parse_template() -> Sequence[type[Stage]]:
    """Offer stages for slot 7, which has a judge fill the template from the answer."""


@hookspec
def karenina_verify_template() -> Sequence[type[Stage]]:
    """Offer stages for slot 8, which compares the filled template with the truth."""


@hookspec
def karenina_embedding_check() -> Sequence[type[Stage]]:
    """Offer stages for slot 9, which may reverse a failure where truth and value mean the same."""


@hookspec
def karenina_deep_judgment_auto_fail() -> Sequence[type[Stage]]:
    """Offer stages for slot 10, which fails extracted values that nothing in the answer supports."""


@hookspec
def karenina_rubric_evaluation() -> Sequence[type[Stage]]:
    """Offer stages for slot 11, which scores rubric traits."""


@hookspec
def karenina_deep_judgment_rubric_auto_fail() -> Sequence[type[Stage]]:
    """Offer stages for slot 12, which fails trait scores that nothing in the answer supports."""


@hookspec
def karenina_finalize_result() -> Sequence[type[Stage]]:
    """Offer stages for slot 13, which makes the `VerificationResult`, whatever happened before."""


@hookspec
def karenina_extra_stages() -> Sequence[type[Stage]]:
    """Offer stages without a slot; each stands where its artifacts and its `after` and `before` put it."""


@hookspec
def karenina_adapters() -> Sequence[AdapterSpec]:
    """Offer adapters: ways to reach models, each under an interface name."""


@hookspec
def karenina_primitives() -> Sequence[type[Primitive]]:
    """Offer verification primitives; templates then use them by class name like the built-in ones."""


@hookspec
def karenina_trait_kinds() -> Sequence[type[RubricTrait]]:
    """Offer kinds of rubric traits; benchmarks then hold them like the built-in ones."""


@hookspec
def karenina_trait_evaluators() -> Sequence[TraitEvaluator]:
    """Offer what scores rubric traits; each trait goes to the first evaluator that claims it."""


@hookspec
def karenina_search_tools() -> Sequence[SearchTool]:
    """Offer ways to look up what an answer claims, each under the name by which a configuration chooses it."""


@hookspec
def karenina_tool_sources() -> Sequence[ToolSource]:
    """Offer sources of tools for agents; the run opens them for the models that are configured to have them."""


@hookspec
def karenina_prices() -> Sequence[PriceSource]:
    """Offer lists of what models cost; the first that has a model's price, by the lists' names, says it."""


@hookspec
def karenina_executors() -> Sequence[Executor]:
    """Offer ways to work through a run, in other processes or on other machines, chosen by name (`executor`)."""


@hookspec
def karenina_prompt_instructions(task: str, interface: str) -> str | None:
    """Add instructions to the prompt of `task` for judges of `interface`; None adds nothing. Asked for every prompt."""


@hookspec
def karenina_settings() -> Sequence[type[BaseModel]]:
    """Offer settings models for configuration names that no stage owns; each name has one owner."""


@hookspec
def karenina_commands(app: typer.Typer) -> None:
    """Add commands to the `karenina` command. Called once, before the arguments are read.

    Asked are plugins with an entry point in the group `karenina.plugins`: no stage or adapter is imported for it.
    """


@hookspec
def karenina_observers(config: VerificationConfig) -> Sequence[object]:
    """Offer observers of one run under `config`: objects with the hooks below, told of this run and of no other.

    Asked when the run is prepared; nothing is offered where the configuration asks for nothing, and nothing is paid
    then. A `KareninaError` refuses the run. Observers are told in the event loop, so they must not wait, and in the
    task that does the work: what they set in a context variable when something starts is seen by all that it does.
    """


@hookspec
def karenina_run_started(event: RunStarted) -> None:
    """Told before the first item of a run."""


@hookspec
def karenina_run_finished(event: RunFinished) -> None:
    """Told after the last item of a run, also when it was interrupted."""


@hookspec
def karenina_answer_started(event: AnswerStarted) -> None:
    """Told before a model is asked for one answer, which is then put before its judges."""


@hookspec
def karenina_answer_finished(event: AnswerStarted) -> None:
    """Told when all judges have seen the answer, also when that was cut off."""


@hookspec
def karenina_item_started(event: ItemStarted) -> None:
    """Told when an item, one answer before one judge, begins. The `item` of its result will be its `event.item.key`."""


@hookspec
def karenina_item_finished(result: VerificationResult) -> None:
    """Told when an item has its result, also where the journal had it and nothing began."""


@hookspec
def karenina_stage_started(event: StageStarted) -> None:
    """Told before a stage executes; not for stages that are skipped."""


@hookspec
def karenina_stage_finished(event: StageStarted, record: StageRecord) -> None:
    """Told after a stage executed or failed, with what is recorded about it; not for stages that are skipped."""


@hookspec
def karenina_call_started(event: CallStarted) -> None:
    """Told before a model is called: once for all tries, and not for replies that the journal had."""


@hookspec
def karenina_call_finished(event: CallStarted, made: Made) -> None:
    """Told what became of the call and what it took; it has neither reply nor error where it was cut off."""
