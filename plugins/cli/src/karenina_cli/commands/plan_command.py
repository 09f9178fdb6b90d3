"""`karenina plan`: print the stages that run, in what order, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.model_options import ModelOptions
from karenina_cli.input.named_files import load_checked, select_usable
from karenina_cli.input.options import ConfigOptions, benchmark_argument, question_option
from karenina_core.data.trust import NO_TRUST
from karenina_terminal.options import PrintJSON, TableOptions, with_option_groups
from karenina_terminal.screen import Screen, get_screen, print_wrapped
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.plan import Plan


@with_option_groups
def plan(
    ctx: typer.Context,
    *,
    file: Annotated[
        Path | None, benchmark_argument("A benchmark. Default: a question without traits or metadata.")
    ] = None,
    setup: ConfigOptions,
    models: ModelOptions,
    tables: TableOptions,
    question: Annotated[list[str] | None, question_option("Plan only this question.")] = None,
    as_json: PrintJSON = False,
) -> None:
    """Print the plan: the stages in order, what each of them waits for, and which are skipped and why."""
    screen = get_screen(ctx)
    with screen.report_errors():
        plans, executor_use = _plans(file, setup, models, question, tables.parse())
        if as_json:
            about_executor = {"executor_use": executor_use} if executor_use is not None else {}
            screen.json({**_json(plans, of_file=file is not None), **about_executor})
            return
        for planned in plans:
            if len(plans) > 1:
                asked = f"{quantity(len(planned.ids), 'question')}: {', '.join(planned.ids[:5])}"
                screen.out.print(Text(clean(asked), "bold"))
            _print(screen, planned)
        if executor_use is not None:
            print_wrapped(screen.out, Text(clean(executor_use)))


@dataclass(slots=True)
class _Planned:
    """A plan, the ids of its questions, their known values, and the ids of the questions that need no judge.

    If the questions have attachments, `attachments` states for each model which of them it understands.
    """

    plan: Plan
    ids: list[str] = field(default_factory=list)
    known_values: set[str] = field(default_factory=set)
    attachments: dict[str, str] = field(default_factory=dict)
    without_judge: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON-compatible dict, without the ids of its questions."""
        from karenina_engine.check.planner import offering_stages

        known = [{"name": name, "stages": stages} for name, stages in offering_stages(self.plan, self.known_values)]
        return {
            "stages": [
                {
                    "name": planned.name,
                    "slot": planned.slot.config_name if planned.slot is not None else None,
                    "distribution": planned.distribution,
                    "version": planned.version,
                    "waits_for": [wait._asdict() for wait in planned.waits_for],
                }
                for planned in self.plan.stages
            ],
            "left_out": [left._asdict() for left in self.plan.left_out],
            "known_values": known,
            "without_judge": self.without_judge,
            **({"attachments": self.attachments} if self.attachments else {}),
        }


def _plans(
    file: Path | None,
    setup: ConfigOptions,
    models: ModelOptions,
    wanted: list[str] | None,
    columns: dict[str, str] | None,
) -> tuple[list[_Planned], str | None]:
    """Return the distinct plans, each with its questions, and a note on how the configured executor is used, or None.
    Without `file`, there is one plan for a plain question. Raises `ConfigError` if there are no questions to plan for.
    """
    from karenina_core.data.question import Question
    from karenina_core.errors import ConfigError
    from karenina_engine.check.planner import Planner
    from karenina_engine.check.plugin_checks import check_selection, warn_about_plugins
    from karenina_engine.check.questions import select_questions
    from karenina_engine.run.plugin_offers import configured_executor
    from karenina_toolkit.attachments.support import describe_support
    from karenina_toolkit.conversations import has_files
    from karenina_toolkit.plugin_lookup import find_adapter, plugins_of

    benchmark = load_checked(file, columns=columns) if file is not None else None
    chosen = read_configuration(benchmark, setup.config, setup.settings, models=models)
    if benchmark is None:
        if wanted:
            raise ConfigError(["--question selects questions from a benchmark; specify the benchmark file"])
        questions = [Question(question="A plain question", id="plain")]
    else:
        questions = list(select_questions(benchmark, chosen, wanted or None))
        select_usable(benchmark, None, chosen, [question.id for question in questions])
        if not questions:
            raise ConfigError([f"{file} contains no questions to plan for; add one"])
    plugins = plugins_of(chosen)
    check_selection(plugins, chosen)
    warn_about_plugins(plugins)
    planner = Planner(chosen, plugins)

    def describe(models: Iterable[ModelConfig]) -> dict[str, str]:
        """Return which attachments models understand, by the models' ids."""
        return {model.id: describe_support(find_adapter(plugins, model.interface).spec, model) for model in models}

    answering, judges = describe(chosen.core.answering_models), describe(chosen.core.parsing_models)
    plans: dict[tuple[str, ...], _Planned] = {}
    for question in questions:
        stage_plan = planner.plan(question)
        key = tuple(f"{stage.distribution}:{stage.name}" for stage in stage_plan.stages)
        planned = plans.setdefault(key, _Planned(stage_plan))
        planned.ids.append(question.id)
        if has_files(question):
            planned.attachments |= answering
        rubrics = filter(None, (question.rubric, question.dynamic_rubric))
        if any(trait.extra.get("attachments") for rubric in rubrics for trait in rubric.traits):
            planned.attachments |= judges
        stages = [stage.stage for stage in stage_plan.stages]
        names = {name for stage in stages for name in stage.known_values(chosen, question)}
        planned.known_values |= names
        judging = [stage for stage in stages if stage.scope == "item" and stage.needs_judge(chosen, question, NO_TRUST)]
        if names and not judging:
            planned.without_judge.append(question.id)
    return list(plans.values()), configured_executor(plugins, chosen).describe_use(chosen, plugins)


def _json(plans: list[_Planned], *, of_file: bool) -> dict[str, Any]:
    """Convert plans to JSON, with the first at the top level and the others under `other_plans`. The first plan's
    question ids are included only with `of_file`.
    """
    first, *others = plans
    data = first.to_json()
    if of_file:
        data["questions"] = first.ids
    if others:
        data["other_plans"] = [{**planned.to_json(), "questions": planned.ids} for planned in others]
    return data


def _print(screen: Screen, planned: _Planned) -> None:
    """Print the plan's stages with what each waits for, its known values, which attachments the models understand,
    whether no judge is called, and the skipped stages.
    """
    from karenina_engine.check.planner import left_out_lines, offering_stages, plan_rows

    stage_plan = planned.plan
    for number, name, slot, owner, waits in plan_rows(stage_plan):
        facts = Text(f"  {f'slot {slot}' if slot != '-' else 'no slot'}; {owner}", "dim")
        print_wrapped(screen.out, Text(f"{number:>2}  ") + Text(name, "bold") + facts)
        for line in waits.splitlines():
            print_wrapped(screen.out, Text(clean(f"    waits for {line}")))
    if planned.known_values:
        screen.out.print("Known values:")
        for known, stages in offering_stages(stage_plan, planned.known_values):
            print_wrapped(screen.out, Text(clean(f"  {known}, offered by {' and '.join(stages)}")))
    if planned.attachments:
        screen.out.print("Attachments:")
        for model, support in planned.attachments.items():
            print_wrapped(screen.out, Text(clean(f"  {model}: {support}")))
    if planned.without_judge:
        some = len(planned.without_judge) < len(planned.ids)
        of = f" for {len(planned.without_judge)} of {quantity(len(planned.ids), 'question')}" if some else ""
        print_wrapped(screen.out, Text(f"No judge is called{of}: known values fill all fields."))
    if stage_plan.left_out:
        screen.out.print("Left out:")
        for line in left_out_lines(stage_plan):
            print_wrapped(screen.out, Text(f"  {line}"))
