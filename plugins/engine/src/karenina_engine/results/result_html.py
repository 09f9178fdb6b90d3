"""Results as HTML for notebooks: one in full, or the summary of many and a table of some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from karenina_core.data.result import VerificationResult
from karenina_core.text import to_html
from karenina_engine.results.result_text import (
    Results,
    field_rows,
    models_text,
    outcome_symbol,
    select_results,
    trait_lines,
)
from karenina_engine.results.summary_text import Summarized, group_table, summary_rows
from karenina_toolkit.notebook_html import (
    MAX_ROWS,
    Cell,
    make_facts,
    make_heading,
    make_note,
    make_table,
    make_text,
    render_html,
)
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.data.outcome import Outcome

_MAX_FIELDS: Final = 50


def set_html(results: Results, totals: Summarized) -> str:
    """Return the summary of results, and a table of at most `MAX_ROWS` of them."""
    shown, several = select_results(results, MAX_ROWS)
    groups = group_table(totals.summary())
    return render_html(
        make_heading(quantity(len(results), "result")),
        make_table(groups[0], groups[1:]) if groups else None,
        make_facts(summary_rows(totals)),
        make_table(_head(several), [_row(result, several) for result in shown]) if shown else None,
        make_note(_selection_text(len(shown), len(results))) if len(results) > MAX_ROWS else None,
    )


def _selection_text(shown: int, count: int) -> str:
    if not shown:
        return f"All {count:,} results are correct."
    which = f"the first {shown} of those" if shown == MAX_ROWS else f"the {shown} of {count:,} results"
    return f"The table shows {which} that are not correct."


def _head(several: bool) -> list[str]:
    models = ["Models"] if several else []
    return ["Outcome", "Question", *models, "Answer", "Extracted", "Truth", "Why"]


def _row(result: VerificationResult, several: bool) -> list[Cell]:
    rows = field_rows(result)
    truth = "; ".join(truth for _, _, truth, _ in rows) or result.metadata.raw_answer or ""
    return [
        _outcome(result.outcome),
        f"{result.question_id}: {result.metadata.question_text}",
        *([models_text(result)] if several else []),
        result.template.raw_llm_response,
        "; ".join(f"{name}: {found}" for name, found, _, _ in rows),
        truth,
        result.why(),
    ]


@to_html.register(VerificationResult)
def result_html(result: VerificationResult) -> str:
    """Return the question, the answer, extracted fields next to the truth, traits, and the reason for the verdict."""
    heading = f"{_outcome(result.outcome)}  {result.question_id}"
    return render_html(make_heading(heading), make_facts(_facts(result)))


def _facts(result: VerificationResult) -> Iterator[tuple[str, Cell]]:
    meta = result.metadata
    yield "Question", meta.question_text
    yield "Answer", result.template.raw_llm_response
    yield "Models", models_text(result)
    rows = field_rows(result)
    if rows:
        marks = {True: "✓", False: "✗", None: ""}
        undecided = result.undecided_fields()
        shown = [
            ["?" if name in undecided else marks[passed], name, found, truth]
            for name, found, truth, passed in rows[:_MAX_FIELDS]
        ]
        yield "Fields", make_table(("", "field", "extracted", "truth"), shown)
        if len(rows) > _MAX_FIELDS:
            yield "", f"and {quantity(len(rows) - _MAX_FIELDS, 'more field')}"
    elif meta.raw_answer:
        yield "Truth", meta.raw_answer
    traits = trait_lines(result)
    if traits:
        yield "Traits", make_text("\n".join(traits))
    yield "Why", result.why()


def _outcome(outcome: Outcome) -> str:
    return f"{outcome_symbol(outcome)} {outcome.value}"
