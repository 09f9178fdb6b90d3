"""Results as text for commands, and as HTML for notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from karenina_core.data.outcome import Outcome, OutcomeGroup
from karenina_core.data.result import VerificationResult
from karenina_core.text import to_html
from karenina_engine.results.summary_text import Summarized, group_table, summary_rows
from karenina_terminal.notebook_html import (
    MAX_ROWS,
    Cell,
    make_facts,
    make_heading,
    make_note,
    make_table,
    make_text,
    render_html,
)
from karenina_toolkit.conversations import OWNER as CONVERSATION_OWNER
from karenina_toolkit.conversations import show_turns
from karenina_toolkit.known_values import known_fields
from karenina_toolkit.printable import clean, quantity

_SYMBOLS: Final[Mapping[OutcomeGroup, str]] = {
    "right": "✓",
    "partial": "◐",
    "wrong": "✗",
    "failed": "✗",
    "scored": "•",
    "not_judged": "!",
    "undecided": "?",
}
NOT_EXTRACTED: Final = "(compares the answer itself)"
LEFT_OUT: Final = "(its turn was left out)"
_WITHOUT_TURN: Final = {"left_out": LEFT_OUT, "missing": "(its turn is missing)"}
NOTHING: Final = "nothing"
_MAX_FIELDS: Final = 50
_READABLE: Final = json.JSONEncoder(ensure_ascii=False)


class Results(Protocol):
    """Results that can be counted and iterated over. They need not be in memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[VerificationResult]: ...


def outcome_symbol(outcome: Outcome) -> str:
    """Return the one-character symbol of an outcome."""
    return _SYMBOLS[outcome.group]


def answer_text(result: VerificationResult) -> str:
    """Return the answer of a result as readable text. A conversation of several turns is shown turn by turn."""
    shown = show_turns(result)
    return result.template.raw_llm_response if shown is None else shown


def left_out_fields(result: VerificationResult) -> Mapping[str, str]:
    """Return the fields that do not count because their turn was left out of the conversation, with the reasons."""
    left_out: object = result.extensions.get("karenina-template", {}).get("left_out")
    return left_out if isinstance(left_out, Mapping) else {}


def field_rows(result: VerificationResult) -> list[tuple[str, str, str, bool | None]]:
    """Return a row for each field of a result: its name, extracted value (or a text that says why there is none),
    ground truth (empty if it has none), and whether it passed (None if it was not compared).

    The second cell is "-" if nothing was extracted, `NOT_EXTRACTED` for a field that is not extracted, and a note such
    as `LEFT_OUT` for a field whose turn did not take place. For a field filled with a known value, it contains the
    value, or the reason why it is not known, and its name.
    """
    template = result.template
    extracted = template.parsed_llm_response
    truths = template.parsed_gt_response or {}
    passed, known, left_out = template.field_results or {}, known_fields(template), left_out_fields(result)
    without_turn = _fields_without_turn(result)
    rows = []
    for name in dict.fromkeys([*(extracted or {}), *truths, *passed]):
        shown = "-" if extracted is None else NOT_EXTRACTED
        if name in left_out:
            shown = LEFT_OUT
        elif name in without_turn and (extracted or {}).get(name) is None:
            shown = without_turn[name]
        elif extracted is not None and name in extracted:
            shown = as_text(extracted[name])
        elif name in known:
            source, value = known[name]
            unknown = f"not known: {clean(value.why)}" if value.why else "not known"
            shown = f"{as_text(value.value, none=unknown)} ({source})"
        truth = "" if name not in truths else as_text(truths[name], none="should hold")
        rows.append((name, shown, truth, passed.get(name)))
    return rows


def _fields_without_turn(result: VerificationResult) -> Mapping[str, str]:
    """Return the fields whose turn did not take place, whether they count or not, each with a note for its row."""
    described: Any = result.extensions.get(CONVERSATION_OWNER, {}).get("conversation")
    if not described:
        return {}
    try:
        states = {entry["turn"]: entry["state"] for entry in described["turns"]}
        turns = result.extensions["karenina-template"]["field_turns"].items()
        return {name: _WITHOUT_TURN[states[turn]] for name, turn in turns if states.get(turn) in _WITHOUT_TURN}
    except (AttributeError, KeyError, TypeError):  # a result file of others may contain anything
        return {}


def as_text(value: Any, none: str = NOTHING) -> str:
    """Return a JSON value as readable text that is safe to print. Returns `none` if the value is null. Strings have no
    quotation marks, except for the empty string (`""`).
    """
    if value is None:
        return none
    if isinstance(value, str):
        return clean(value) or '""'
    if isinstance(value, bool):  # as many truths are; encoding it takes ten times as long
        return "true" if value else "false"
    return clean(_READABLE.encode(value))


def trait_lines(result: VerificationResult) -> list[str]:
    """Return a line for each trait, with its score or the reason for the missing score. Without a rubric, there are
    none.
    """
    if result.rubric is None:
        return []
    errors = result.rubric.trait_errors or {}
    labels = result.rubric.labels()
    return [
        f"{name}: not scored: {errors[name]}"
        if name in errors
        else f"{name} = {as_text(value)}" + (f" ({labels[name]})" if name in labels else "")
        for name, value in {**dict.fromkeys(errors), **result.rubric.get_all_trait_scores()}.items()
    ]


def models_text(result: VerificationResult) -> str:
    """Return the answering model as text. The judge is added if it is a different model. The replicate is added if it
    is greater than 1.
    """
    meta = result.metadata
    models = f"{meta.answering_id} ({meta.answering_model})"
    if meta.parsing_id != meta.answering_id or meta.parsing != meta.answering:
        models += f", judged by {meta.parsing_id} ({meta.parsing_model})"
    return clean(models + (f", replicate {meta.replicate}" if (meta.replicate or 1) > 1 else ""))


def select_results(results: Results, most: int) -> tuple[list[VerificationResult], bool]:
    """Return the results for a table of at most `most` rows, without the correct ones if there are too many, and
    whether `results` come from several models, judges or replicates.
    """
    few = len(results) <= most
    selected: list[VerificationResult] = []
    kinds = set()
    for result in results:
        kinds.add(result.item[1:])
        if len(selected) < most and (few or result.outcome is not Outcome.CORRECT):
            selected.append(result)
    return selected, len(kinds) > 1


def set_html(results: Results, totals: Summarized) -> str:
    """Return as HTML the summary and a table of all results, or of at most `MAX_ROWS` that are not correct if there are
    more.
    """
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
    """Return a sentence about which results are shown, for a table that does not show all of them."""
    if not shown:
        return f"All {count:,} results are correct."
    which = f"the first {shown} of those" if shown == MAX_ROWS else f"the {shown} of {count:,} results"
    return f"The table shows {which} that are not correct."


def _head(several: bool) -> list[str]:
    """Return the column headings for a table of results. If `several` is set, there is a column for the models."""
    models = ["Models"] if several else []
    return ["Outcome", "Question", *models, "Answer", "Extracted", "Truth", "Why"]


def _row(result: VerificationResult, several: bool) -> list[Cell]:
    """Return the table row for a result, with the columns of `_head`, including the models if there are `several`."""
    rows = field_rows(result)
    truth = "; ".join(truth for _, _, truth, _ in rows) or result.metadata.raw_answer or ""
    return [
        _outcome(result.outcome),
        f"{result.question_id}: {result.metadata.question_text}",
        *([models_text(result)] if several else []),
        answer_text(result),
        "; ".join(f"{name}: {value}" for name, value, _, _ in rows),
        truth,
        result.why(),
    ]


@to_html.register(VerificationResult)
def result_html(result: VerificationResult) -> str:
    """Return a result as HTML: its question, answer, fields and traits, and the reason for the verdict."""
    heading = f"{_outcome(result.outcome)}  {result.question_id}"
    return render_html(make_heading(heading), make_facts(_facts(result)))


def _facts(result: VerificationResult) -> Iterator[tuple[str, Cell]]:
    """Yield the rows of `result_html` as pairs of a name and its content, with at most `_MAX_FIELDS` fields."""
    meta = result.metadata
    yield "Question", meta.question_text
    yield "Answer", answer_text(result)
    yield "Models", models_text(result)
    rows = field_rows(result)
    if rows:
        marks = {True: "✓", False: "✗", None: ""}
        undecided = result.undecided_fields()
        shown = [
            ["?" if name in undecided else marks[passed], name, value, truth]
            for name, value, truth, passed in rows[:_MAX_FIELDS]
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
    """Return the symbol and the name of an outcome."""
    return f"{outcome_symbol(outcome)} {outcome.value}"
