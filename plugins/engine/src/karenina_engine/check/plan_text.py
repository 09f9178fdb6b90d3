"""A plan as text: its stages, what each waits for, and what is left out. Notebooks show it as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from karenina_core.planning.plan import Plan, PlannedStage
from karenina_core.text import to_html
from karenina_toolkit.notebook_html import Cell, make_heading, make_table, make_text, render_html
from karenina_toolkit.printable import quantity

PLAN_HEAD: Final = ("#", "Stage", "Slot", "From", "Waits for")


def plan_rows(plan: Plan) -> Iterator[list[str]]:
    """Yield a row for each stage, with the columns of `PLAN_HEAD`."""
    for number, stage in enumerate(plan.stages, 1):
        slot = stage.slot.config_name if stage.slot is not None else "-"
        once = " (once per answer)" if stage.stage.scope == "answer" else ""
        yield [str(number), stage.name + once, slot, f"{stage.distribution} {stage.version}", _waits(stage)]


def left_out_lines(plan: Plan) -> Iterator[str]:
    """Yield the stages that are left out, with the reasons."""
    for left in plan.left_out:
        yield f"{left.name}: {left.why}"


def show_plans_in_notebooks() -> None:
    """Let notebooks show a plan as `plan_html` does."""
    to_html.register(Plan, plan_html)


def plan_html(plan: Plan) -> str:
    """Return a plan as HTML for a notebook."""
    rows: list[list[Cell]] = [[*row, make_text(waits)] for *row, waits in plan_rows(plan)]
    left = [make_heading("Left out"), make_text("\n".join(left_out_lines(plan)))] if plan.left_out else []
    return render_html(make_heading(f"Plan of {quantity(len(rows), 'stage')}"), make_table(PLAN_HEAD, rows), *left)


def _waits(stage: PlannedStage) -> str:
    if stage.reads_everything:
        return "all others: reads everything"
    by_stage: dict[str, list[str]] = {}
    for wait in stage.waits_for:
        reason = f"{wait.why} {wait.artifact}" if wait.artifact is not None else wait.why
        by_stage.setdefault(wait.stage, []).append(reason)
    return "\n".join(f"{name}: {', '.join(reasons)}" for name, reasons in by_stage.items())
