"""`karenina plan`: print which stages run, in what order, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.named_files import load_checked, select_usable
from karenina_cli.input.options import ConfigOptions, benchmark_argument, question_option
from karenina_terminal.options import PrintJSON, TableOptions, with_option_groups
from karenina_terminal.screen import Screen, get_screen, print_wrapped
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from karenina_core.plan import Plan


@with_option_groups
def plan(
    ctx: typer.Context,
    *,
    file: Annotated[
        Path | None, benchmark_argument("A benchmark. Default: a question without traits or metadata.")
    ] = None,
    setup: ConfigOptions,
    tables: TableOptions,
    question: Annotated[list[str] | None, question_option("Plan only this question.")] = None,
    as_json: PrintJSON = False,
) -> None:
    """Print the plan: the stages in order, what each waits for, and what is left out and why."""
    screen = get_screen(ctx)
    with screen.report_errors():
        plans = _plans(file, setup, question, tables.parse())
        if as_json:
            screen.json(_json(plans, of_file=file is not None))
            return
        for stage_plan, ids in plans:
            if len(plans) > 1:
                screen.out.print(
                    Text(clean(f"{len(ids)} question{'' if len(ids) == 1 else 's'}: {', '.join(ids[:5])}"), "bold")
                )
            _print(screen, stage_plan)


def _plans(
    file: Path | None, setup: ConfigOptions, wanted: list[str] | None, columns: dict[str, str] | None
) -> list[tuple[Plan, list[str]]]:
    """Return the distinct plans, each with the ids of its questions.

    Without `file`, this is the plan for a plain question. Raises `ConfigError` if there are no questions.
    """
    from karenina_core.data.question import Question
    from karenina_core.errors import ConfigError
    from karenina_engine.check.planner import Planner
    from karenina_engine.check.plugin_checks import check_selection, warn_about_plugins
    from karenina_engine.check.questions import select_questions
    from karenina_toolkit.plugin_lookup import plugins_of

    benchmark = load_checked(file, columns=columns) if file is not None else None
    chosen = read_configuration(benchmark, setup.config, setup.settings)
    if benchmark is None:
        if wanted:
            raise ConfigError(["--question selects questions from a benchmark; specify the benchmark file"])
        questions = [Question(question="A plain question", id="plain")]
    else:
        questions = list(select_questions(benchmark, chosen, wanted or None))
        select_usable(benchmark, None, chosen, [question.id for question in questions])
        if not questions:
            raise ConfigError([f"{file} contains no questions to plan for"])
    plugins = plugins_of(chosen)
    check_selection(plugins, chosen)
    warn_about_plugins(plugins)
    planner = Planner(chosen, plugins)
    plans: dict[tuple[str, ...], tuple[Plan, list[str]]] = {}
    for question in questions:
        stage_plan = planner.plan(question)
        key = tuple(f"{stage.distribution}:{stage.name}" for stage in stage_plan.stages)
        plans.setdefault(key, (stage_plan, []))[1].append(question.id)
    return list(plans.values())


def _json(plans: list[tuple[Plan, list[str]]], *, of_file: bool) -> dict[str, Any]:
    """Convert plans to JSON. The first is at the top, and others are under `other_plans`.

    The first has question ids only with `of_file`.
    """
    (first, ids), *others = plans
    data = first.to_json()
    if of_file:
        data["questions"] = ids
    if others:
        data["other_plans"] = [{**stage_plan.to_json(), "questions": more} for stage_plan, more in others]
    return data


def _print(screen: Screen, stage_plan: Plan) -> None:
    """Print the stages of a plan, what each waits for, and those left out."""
    from karenina_engine.check.planner import left_out_lines, plan_rows

    for number, name, slot, owner, waits in plan_rows(stage_plan):
        facts = Text(f"  {f'slot {slot}' if slot != '-' else 'no slot'}; {owner}", "dim")
        print_wrapped(screen.out, Text(f"{number:>2}  ") + Text(name, "bold") + facts)
        for line in waits.splitlines():
            print_wrapped(screen.out, Text(clean(f"    waits for {line}")))
    if stage_plan.left_out:
        screen.out.print("Left out:")
        for line in left_out_lines(stage_plan):
            print_wrapped(screen.out, Text(f"  {line}"))
