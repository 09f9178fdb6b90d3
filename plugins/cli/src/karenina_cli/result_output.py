"""Results as text: one in full, or many as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from karenina_cli.screen import clean, shorten
from karenina_core.data.outcome import Outcome

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

STYLES: Final[Mapping[Outcome, str]] = {
    Outcome.CORRECT: "green",
    Outcome.PARTIAL: "yellow",
    Outcome.SCORED: "cyan",
    Outcome.TEMPLATE_ERROR: "magenta",
    Outcome.MODEL_ERROR: "magenta",
    Outcome.PARSE_ERROR: "magenta",
    Outcome.STAGE_ERROR: "magenta",
    Outcome.TIMED_OUT: "magenta",
    Outcome.RUBRIC_ERROR: "magenta",
}
_SYMBOLS: Final[Mapping[Outcome, str]] = {
    Outcome.CORRECT: "✓",
    Outcome.PARTIAL: "◐",
    Outcome.SCORED: "•",
    Outcome.TEMPLATE_ERROR: "!",
    Outcome.MODEL_ERROR: "!",
    Outcome.PARSE_ERROR: "!",
    Outcome.STAGE_ERROR: "!",
    Outcome.TIMED_OUT: "!",
    Outcome.RUBRIC_ERROR: "!",
}
_PLAIN: Final[Mapping[str, str]] = {"✓": "+", "◐": "~", "•": "*", "✗": "x", "!": "!", "…": "..."}
MAX_DETAILED: Final = 20_000
"""The most characters of a text that are wrapped; more would take seconds."""
NOT_EXTRACTED: Final = "(compares the answer itself)"
NOTHING: Final = "nothing"
MAX_ROWS: Final = 100
"""The most results that a table shows; the file has all."""


class Results(Protocol):
    """Results that can be counted and iterated, and need not all be in memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[VerificationResult]: ...


def verdict(outcome: Outcome, console: Console) -> Text:
    """Return the outcome with its symbol, in its color."""
    symbol = _SYMBOLS.get(outcome, "✗")
    if not _unicode(console):
        symbol = _PLAIN[symbol]
    return Text(f"{symbol} {outcome.value}", style=STYLES.get(outcome, "red"))


def print_result(
    console: Console,
    result: VerificationResult,
    position: str = "",
    *,
    detailed: bool = False,
    full: bool = False,
    most_answer: int = 1200,
    same_as: str | None = None,
) -> None:
    """Print one result: question, answer, extracted values next to the truth, verdict and reason.

    `position` ("3/12") is printed first. The answer is cut after `most_answer` characters, with a note on what is
    missing. `detailed` prints more of the answer (`full`: all of it, below), and vetoes, revisions, trait scores,
    tokens and the stages. Other texts are cut like a detailed answer. `same_as` is the position of an item that failed
    for the same reason, and is printed instead of the reason.
    """
    meta = result.metadata
    head = verdict(result.outcome, console)
    for part in (position, meta.question_id):
        head.append(f"  {clean(part)}" if part else "", style="dim")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("Question", _cut(meta.question_text))
    if same_as is not None and not result.template.raw_llm_response.strip():
        grid.add_row("Why", Text(f"the same as {same_as}", style="dim"))
        _print_block(console, head, grid)
        return
    answer = _answer(result, MAX_DETAILED if detailed else most_answer, full=full)
    grid.add_row("Answer", Group(answer, Text(_models_text(result), style="dim")))
    rows = field_rows(result)
    if rows:
        grid.add_row("Fields", _fields(rows, console))
    elif meta.raw_answer:
        grid.add_row("Truth", _cut(meta.raw_answer))
    traits = _trait_lines(result)
    if traits:
        grid.add_row("Traits", _cut("\n".join(traits)))
    grid.add_row("Why", _cut(result.why() if same_as is None else f"the same as {same_as}"))
    if detailed:
        _add_details(grid, result)
    _print_block(console, head, grid)
    if full and len(result.template.raw_llm_response) > (MAX_DETAILED if detailed else most_answer):
        console.print(_UnwrappedText(clean(result.template.raw_llm_response)), crop=False)


@dataclass(frozen=True, slots=True)
class _UnwrappedText:
    """A text that is printed without wrapping, which would take minutes for megabytes."""

    text: str

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> Iterator[Segment]:
        yield Segment(f"{self.text}\n\n")


def _print_block(console: Console, head: Text, grid: Table) -> None:
    console.print(head)
    console.print(Padding(grid, (0, 0, 1, 2)))


def field_rows(result: VerificationResult) -> list[tuple[str, str, str, bool | None]]:
    """Return each field of a result: name, extracted value, truth, and whether it passed (None: not compared)."""
    template = result.template
    extracted = template.parsed_llm_response
    truths = template.parsed_gt_response or {}
    passed = template.field_results or {}
    rows = []
    for name in dict.fromkeys([*(extracted or {}), *truths, *passed]):
        found = "-" if extracted is None else NOT_EXTRACTED
        if extracted is not None and name in extracted:
            found = as_text(extracted[name])
        truth = "" if name not in truths else as_text(truths[name], none="should hold")
        rows.append((name, found, truth, passed.get(name)))
    return rows


def as_text(value: Any, none: str = NOTHING) -> str:
    """Return a JSON value as readable text."""
    if value is None:
        return none
    if isinstance(value, str):
        return clean(value) or '""'
    return clean(json.dumps(value, ensure_ascii=False))


def print_table(console: Console, results: Results) -> None:
    """Print results as a table. Of more than `MAX_ROWS` results, those that are not correct are shown."""
    few = len(results) <= MAX_ROWS
    shown: list[VerificationResult] = []
    kinds = set()
    for result in results:
        kinds.add(result.item[1:])
        if len(shown) < MAX_ROWS and (few or result.outcome is not Outcome.CORRECT):
            shown.append(result)
    several = len(kinds) > 1
    seen = _SeenFailures()
    table = Table(show_lines=True, expand=True)
    for name, ratio in (("Question", 3), ("Answer", 4), ("Extracted", 3), ("Truth", 3), ("Verdict", 2), ("Why", 3)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for result in shown:
        rows = field_rows(result)
        repeated = seen.first(result, result.metadata.result_id) is not None
        question = Text(shorten(result.metadata.question_text, 80))
        if several:
            question.append(f"\n{_models_text(result)}", style="dim")
        table.add_row(
            question,
            Text(shorten(result.template.raw_llm_response, 160)),
            Text("\n".join(f"{name}: {shorten(found, 60)}" for name, found, _, _ in rows)),
            Text("\n".join(shorten(truth, 60) for _, _, truth, _ in rows) or shorten(_raw_truth(result), 80)),
            verdict(result.outcome, console),
            Text("the same as above" if repeated else shorten(result.why(), 200)),
        )
    console.print(table)
    if len(shown) < len(results):
        console.print(
            Text(f"The table shows {len(shown)} of {len(results)} results; `karenina show` prints all.", style="dim")
        )


def print_results(console: Console, results: Results) -> None:
    """Print results as a table on a terminal, and each in full in a file or a pipe."""
    if console.is_terminal:
        print_table(console, results)
        return
    seen = _SeenFailures()
    for number, result in enumerate(results, 1):
        position = f"{number}/{len(results)}"
        print_result(console, result, position, most_answer=400, same_as=seen.first(result, position))


class _SeenFailures:
    """The failures printed so far, each with the position of the first item that has it."""

    def __init__(self) -> None:
        self._positions: dict[str, str] = {}

    def first(self, result: VerificationResult, position: str) -> str | None:
        """Return the position of an earlier item with the same failure; None if there is none."""
        if result.outcome.judged:
            return None
        from karenina_engine.results.failure_counts import failure_kind

        earlier = self._positions.setdefault(failure_kind(result.why(), result.question_id), position)
        return earlier if earlier != position else None


def _trait_lines(result: VerificationResult) -> list[str]:
    """Return each trait with its score, or why it has none."""
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


def _raw_truth(result: VerificationResult) -> str:
    return result.metadata.raw_answer or ""


def _models_text(result: VerificationResult) -> str:
    meta = result.metadata
    models = f"{meta.answering_id} ({meta.answering_model})"
    if meta.parsing_id != meta.answering_id or meta.parsing != meta.answering:
        models += f", judged by {meta.parsing_id} ({meta.parsing_model})"
    return clean(models + (f", replicate {meta.replicate}" if (meta.replicate or 1) > 1 else ""))


def _answer(result: VerificationResult, most: int, *, full: bool) -> Text:
    answer = result.template.raw_llm_response
    if not answer.strip():
        got_none = result.outcome in (Outcome.MODEL_ERROR, Outcome.TEMPLATE_ERROR)
        return Text("(none)" if got_none else "(empty)" if not answer else "(only white space)", style="dim")
    if full and len(answer) > most:
        return Text(f"({len(answer):,} characters, below)", style="dim")
    return _cut(answer, most, way_on=": `karenina show --full`")


def _cut(text: str, most: int = MAX_DETAILED, way_on: str = "") -> Text:
    """Return the beginning of a text, with the number of missing characters."""
    if len(text) <= most:
        return Text(clean(text))
    return Text(clean(text[:most])) + Text(f" ... ({len(text) - most:,} more characters{way_on})", style="dim")


def _fields(rows: Sequence[tuple[str, str, str, bool | None]], console: Console) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("field", "extracted", "truth"):
        table.add_column(name, overflow="fold")
    good, bad = ("✓", "✗") if _unicode(console) else ("+", "x")
    for name, found, truth, passed in rows:
        mark = Text("") if passed is None else Text(good, "green") if passed else Text(bad, "red")
        table.add_row(mark, Text(clean(name)), _cut(found), _cut(truth))
    return table


def _add_details(grid: Table, result: VerificationResult) -> None:
    template = result.template
    for veto in result.vetoes:
        grid.add_row("Veto", _cut(f"{veto.stage}: {veto.reason} ({veto.outcome.value})"))
    for change in result.revisions:
        text = f"{change.stage}: {change.artifact} from {as_text(change.before)} to {as_text(change.after)}"
        grid.add_row("Revision", _cut(f"{text}: {change.reason}"))
    if template.verify_granular_result is not None:
        grid.add_row("Granular", Text(as_text(template.verify_granular_result)))
    for name, reason in (result.rubric.reasons() if result.rubric is not None else {}).items():
        grid.add_row("Reason", _cut(f"{name}: {reason}"))
    for name, passed in (template.regex_validation_results or {}).items():
        grid.add_row("Pattern", _cut(f"{name}: {'found' if passed else 'not found'}"))
    for owner, values in result.extensions.items():
        grid.add_row("Extension", _cut(f"{owner}: {as_text(values)}"))
    stages = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("stage", "status", "seconds", "calls", "tokens in/out", "of", "why"):
        stages.add_column(name, overflow="fold", no_wrap=name != "why")
    for record in result.stages:
        tokens = f"{record.input_tokens}/{record.output_tokens}" if record.calls else ""
        stages.add_row(
            record.name,
            record.status,
            f"{record.seconds:.3f}",
            str(record.calls or ""),
            tokens,
            f"{record.distribution} {record.version}",
            _cut(record.reason or record.error or ""),
        )
    grid.add_row("Stages", stages)
    meta = result.metadata
    grid.add_row("Item", Text(f"{meta.result_id}, {meta.execution_time:.2f} s, ended {meta.timestamp}", style="dim"))


def _unicode(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")
