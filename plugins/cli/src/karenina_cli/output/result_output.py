"""Results as text: a single result, or several in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from karenina_core.data.outcome import Outcome, OutcomeGroup
from karenina_engine.results.result_text import (
    Results,
    answer_text,
    as_text,
    field_rows,
    models_text,
    outcome_symbol,
    trait_lines,
)
from karenina_engine.results.summary_text import seconds_text
from karenina_engine.results.tables import result_table
from karenina_terminal.styled_text import (
    Content,
    LineWriter,
    Part,
    StyledTable,
    StyledText,
    lay_out_grid,
    wrap_parts,
)
from karenina_toolkit.files.bounded_files import format_size
from karenina_toolkit.printable import clean, clip, in_one_line, quantity, shorten
from karenina_toolkit.shown_work import FIELDS, FORGEABLE, OWNER, shown_checks, shown_patch

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import KeptFile, StageRecord
    from karenina_engine.results.kept_files import KeptFiles
    from karenina_report.rules import FieldRules

STYLES: Final[Mapping[OutcomeGroup, str]] = {
    "right": "green",
    "partial": "yellow",
    "wrong": "red",
    "failed": "red",
    "scored": "cyan",
    "not_judged": "magenta",
    "undecided": "magenta",
}
_PLAIN: Final[Mapping[str, str]] = {"✓": "+", "◐": "~", "•": "*", "✗": "x", "!": "!", "?": "?", "…": "..."}
MAX_DETAILED: Final = 20_000
"""The maximum number of characters of wrapped text. Wrapping more would take seconds."""
MAX_ROWS: Final = 100
"""The maximum number of results in a table. The result file contains all results."""
_MOST_RANGES: Final = 10
_UNLIMITED: Final = 1_000_000_000
WIDE: Final = 100
"""The minimum terminal width for a table of results."""
_DIFF_STYLES: Final[Mapping[str, str]] = {"+": "green", "-": "red", "@": "cyan"}
_MOST_OUTPUT: Final = 3_000
_LEAST_WAIT: Final = 0.05
"""Waiting times below this number of seconds are not shown."""


def verdict(outcome: Outcome, console: Console) -> Text:
    """Return the outcome with its symbol and in its color."""
    return Text(*_verdict(outcome, unicode=_is_unicode(console)))


def _verdict(outcome: Outcome, *, unicode: bool) -> Part:
    """Return the outcome with its symbol and color. The symbol is ASCII unless `unicode` is set."""
    symbol = outcome_symbol(outcome)
    return f"{symbol if unicode else _PLAIN[symbol]} {outcome.value}", STYLES[outcome.group]


def print_result(
    console: Console,
    result: VerificationResult,
    position: str = "",
    *,
    detailed: bool = False,
    full: bool = False,
    most_answer: int = 1200,
    rules: FieldRules | None = None,
    files: KeptFiles | None = None,
) -> None:
    """Print a result: `position` (such as "3/12"), question, answer, extracted values next to the ground truth, verdict
    and reason. The answer is cut to `most_answer` characters. With `detailed`, it is cut to `MAX_DETAILED` characters
    like all other text, and vetoes, revisions, reasons, excerpts, tokens and stages are printed too. With `full`, the
    whole answer is printed at the end.

    `rules` describes how each template field is compared, if known. `files` finds the files that the item kept.
    """
    meta = result.metadata
    writer = LineWriter(console)
    unicode = _is_unicode(console)
    most = MAX_DETAILED if detailed else most_answer
    models = StyledText([(models_text(result), "dim")], "dim")
    grid: list[tuple[str, Content]] = [
        ("Question", [_cut(meta.question_text)]),
        ("Answer", [_answer(result, most, full=full), models]),
    ]
    rows = field_rows(result)
    if rows and (result.template.parsed_llm_response is not None or result.template.field_results):
        grid.append(("Fields", [_fields(rows, result.undecided_fields(), rules or {}, unicode=unicode)]))
    elif rows or meta.raw_answer:
        truths = "\n".join(f"{name}: {truth}" for name, _, truth, _ in rows)
        grid.append(("Truth", [_cut(truths or _raw_truth(result))]))
    traits = trait_lines(result)
    if traits:
        grid.append(("Traits", [_cut("\n".join(traits))]))
    grid.append(("Why", [_cut(result.why())]))
    if detailed:
        grid += _details(result, files)
    width = console.width
    head = wrap_parts(_head(result, position, unicode=unicode), width)
    writer.write(chain(head, lay_out_grid(grid, width), [[(" " * width, "")]]))
    if full and len(answer := answer_text(result)) > most:
        writer.write([[(line, "")] for line in (*clean(answer).split("\n"), "")])


def _head(result: VerificationResult, position: str, *, unicode: bool) -> list[Part]:
    """Return the first line of a result: verdict, position and question id."""
    text, style = _verdict(result.outcome, unicode=unicode)
    others = [(f"  {clean(part)}", f"dim {style}") for part in (position, result.metadata.question_id) if part]
    return [(text, style), *others]


def print_table(console: Console, results: Results, path: Path | None = None) -> None:
    """Print results as a table. If there are more than `MAX_ROWS` results, only incorrect ones are printed, up to this
    number. `path` is the result file. If several items failed for the same reason, the first has a row, and the others
    are listed below the table.
    """
    several = len({result.item[1:] for result in results}) > 1
    failures = Failures(console, len(results))
    table = Table(show_lines=True, expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    for name, ratio in (("Question", 3), ("Answer", 4), ("Extracted", 3), ("Truth", 3), ("Verdict", 2), ("Why", 3)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for number, result in _select(results, failures, MAX_ROWS):
        rows = field_rows(result)
        question = Text(shorten(result.metadata.question_text, 80))
        if several:
            question.append(f"\n{models_text(result)}", style="dim")
        table.add_row(
            str(number),
            question,
            Text(shorten(result.template.raw_llm_response, 160)),
            Text("\n".join(f"{name}: {shorten(extracted, 60)}" for name, extracted, _, _ in rows)),
            Text("\n".join(shorten(truth, 60) for _, _, truth, _ in rows) or shorten(_raw_truth(result), 80)),
            verdict(result.outcome, console),
            _why(result),
        )
    console.print(table)
    failures.print(path)
    _print_selection(console, len(results), MAX_ROWS)


def _why(result: VerificationResult) -> Text:
    """Return the reason for the outcome, cut to 200 characters if the item was judged, otherwise to `MAX_DETAILED`."""
    if result.outcome.judged:
        return Text(shorten(result.why(), 200))
    beginning, note = clip(result.why(), MAX_DETAILED)
    return Text(beginning) + Text(note, style="dim")


def print_results(console: Console, results: Results, path: Path | None = None, *, some: bool = False) -> None:
    """Print results as a table if the terminal is wide, otherwise one by one with cut answers. On a terminal, or with
    `some`, only incorrect ones are printed if there are more than `MAX_ROWS`, up to this number. `path` is the result
    file. If several items failed for the same reason, only the first is printed in full.
    """
    if console.is_terminal and console.width >= WIDE:
        print_table(console, results, path)
        return
    most = MAX_ROWS if some or console.is_terminal else None
    failures = Failures(console, len(results), listed=most is None or len(results) <= most)
    for number, result in _select(results, failures, most):
        print_result(console, result, f"{number}/{len(results)}", most_answer=400)
    failures.print(path)
    _print_selection(console, len(results), most)


def _select(results: Results, failures: Failures, most: int | None) -> Iterator[tuple[int, VerificationResult]]:
    """Yield the results to print with their numbers, skipping repeated failures. If there are more than `most` results,
    only incorrect ones are yielded, up to this number.
    """
    all_fit = most is None or len(results) <= most
    shown = 0
    for number, result in enumerate(results, 1):
        if not failures.repeats(result, number) and (
            all_fit or (shown < (most or 0) and result.outcome is not Outcome.CORRECT)
        ):
            shown += 1
            yield number, result


def _print_selection(console: Console, count: int, most: int | None) -> None:
    """Print which results were skipped, if there are more than `most`. None means no limit."""
    if most is not None and count > most:
        note = f"Of {count:,} results, at most {most} that are not correct are shown; `karenina show` prints all."
        console.print(Text(note, style="dim"))


class Failures:
    """The failures of the items printed so far. If several have the same reason, only the first is printed.

    With `listed`, the others are listed with one line each, unless the output is a terminal.
    """

    def __init__(self, console: Console, count: int, *, listed: bool = True) -> None:
        self._console = console
        self._count = count
        self._listed = listed and not console.is_terminal
        self._first: dict[str, int] = {}
        self._others: dict[int, list[int]] = {}
        self._undecided: set[int] = set()

    def repeats(self, result: VerificationResult, number: int) -> bool:
        """Return whether an earlier item failed or was undecided for the same reason. If so, a line for this one is
        printed, if these failures are `listed`. The failure is recorded, so call this once for each result, in order.
        """
        if result.outcome.judged:
            return False
        from karenina_engine.results.aggregate import failure_kind, item_texts

        kind = failure_kind(result.why(), result.question_id, item_texts(result))
        first = self._first.setdefault(kind, number)
        if result.outcome is Outcome.UNDECIDED:
            self._undecided.add(first)
        if first == number:
            return False
        self._others.setdefault(first, []).append(number)
        if self._listed:
            head = _head(result, f"{number}/{self._count}", unicode=_is_unicode(self._console))
            state = "undecided" if first in self._undecided else "failed"
            line = [*head, (f"  {state} like item {first}", head[0][1])]
            LineWriter(self._console).write(wrap_parts(line, _UNLIMITED))
        return True

    def print(self, path: Path | None) -> None:
        """Print which items failed for the same reason as an item that was printed. `path` is the result file."""
        for first, numbers in self._others.items():
            several = len(numbers) > 1
            verb = f"{'are' if several else 'is'} undecided" if first in self._undecided else "failed"
            items = f"{'Items' if several else 'Item'} {format_ranges(numbers)} {verb} like item {first}, for the same "
            items += "reason"
            how = f"; `karenina show {quote(str(path))} -q '#{numbers[0]}'` prints item {numbers[0]}"
            self._console.print(Text(clean(f"{items}{how if path is not None else ''}")))
        if self._others:
            self._console.print()


def format_ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers as ranges, such as `2-5, 7`. After `_MOST_RANGES` ranges, numbers are only counted."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    named, left = ranges[:_MOST_RANGES], ranges[_MOST_RANGES:]
    count = sum(bounds[-1] - bounds[0] + 1 for bounds in left)
    return ", ".join("-".join(map(str, bounds)) for bounds in named) + (f" and {count:,} more" if left else "")


def _raw_truth(result: VerificationResult) -> str:
    """Return the benchmark's correct answer, which may be empty."""
    return result.metadata.raw_answer or ""


def _answer(result: VerificationResult, most: int, *, full: bool) -> StyledText:
    """Return the answer up to `most` characters, or a note if it is empty. With `full`, a longer answer is replaced by
    a note on its length, because it is printed below.
    """
    answer = answer_text(result)
    if not answer.strip():
        missing = "(none)" if result.outcome.unjudgeable else "(empty)" if not answer else "(only white space)"
        return StyledText([(missing, "dim")], "dim")
    if full and len(answer) > most:
        return StyledText([(f"({len(answer):,} characters, below)", "dim")], "dim")
    return _cut(answer, most, hint=": `karenina show --full`")


def _cut(text: str, most: int = MAX_DETAILED, hint: str = "") -> StyledText:
    """Cut text to `most` characters, and add the number of missing characters and `hint`."""
    beginning, note = clip(text, most, hint)
    return StyledText([(beginning, ""), (note, "dim")])


def _fields(
    rows: Sequence[tuple[str, str, str, bool | None]],
    undecided: Sequence[str],
    rules: FieldRules,
    *,
    unicode: bool,
) -> StyledTable:
    """Return a table of the template's fields, with a column for the rules if any are known. Each row has a field's
    name, extracted value, ground truth, and whether they match. The mark for a match is empty if they were not
    compared, and `?` if the field is undecided.
    """
    shown = any(name in rules for name, *_ in rows)
    good, bad = ("✓", "✗") if unicode else ("+", "x")
    table = []
    for name, extracted, truth, passed in rows:
        if passed is None:
            mark = StyledText([("?" if name in undecided else "", "")])
        else:
            mark = StyledText([(good, "green") if passed else (bad, "red")])
        rule = [_cut(rules.get(name, ""))] if shown else []
        table.append([mark, StyledText([(clean(name), "")]), _cut(extracted), _cut(truth), *rule])
    return StyledTable(["", "field", "extracted", "truth", *(("rule",) if shown else ())], table)


def _details(result: VerificationResult, files: KeptFiles | None) -> Iterator[tuple[str, Content]]:
    """Yield the rows that only detailed output has, as pairs of a heading and its content: vetoes, revisions, reasons,
    excerpts, patterns, plugins' values, files, stages, and the item's id and time.
    """
    template = result.template
    for veto in result.vetoes:
        yield "Veto", [_cut(f"{veto.stage}: {veto.reason} ({veto.outcome.value})")]
    for change in result.revisions:
        text = f"{change.stage}: {change.artifact} from {as_text(change.before)} to {as_text(change.after)}"
        yield "Revision", [_cut(f"{text}: {change.reason}")]
    if template.verify_granular_result is not None:
        yield "Granular", [StyledText([(as_text(template.verify_granular_result), "")])]
    judged = result.deep_judgment
    for name, reason in ((judged.attribute_reasoning or {}) if judged is not None else {}).items():
        yield "Reason", [_cut(f"{name}: {reason}")]
    for row in result_table([result], "excerpts"):
        sure = f" ({row['confidence']} confidence)" if row["confidence"] is not None else ""
        yield "Excerpt", [_cut(f"{row['name']}: \u201c{row['text']}\u201d{sure}")]
    for name, reason in (result.rubric.reasons() if result.rubric is not None else {}).items():
        yield "Reason", [_cut(f"{name}: {reason}")]
    for name, passed in (template.regex_validation_results or {}).items():
        yield "Pattern", [_cut(f"{name}: {'found' if passed else 'not found'}")]
    yield from _work(result)
    for owner, values in result.extensions.items():
        if owner == OWNER and isinstance(values, Mapping):
            values = {name: value for name, value in values.items() if name not in FIELDS}
            if not values:
                continue
        yield "Extension", [_cut(f"{owner}: {as_text(values)}")]
    for number, kept in enumerate(result.metadata.files):
        yield "" if number else "Files", [_cut(file_text(kept, files))]
    for number, record in enumerate(result.stages):
        yield "" if number else "Stages", [StyledText([(_stage_text(record), "")])]
    meta = result.metadata
    item = in_one_line(f"{meta.result_id}, {seconds_text(meta.execution_time)} s, ended {meta.timestamp}")
    yield "Item", [StyledText([(item, "dim")], "dim")]


def _work(result: VerificationResult) -> Iterator[tuple[str, Content]]:
    """Yield rows for what an agent changed in its workspace, and for the checks with their output."""
    patch = shown_patch(result)
    if patch is not None:
        lines = clean(patch[:MAX_DETAILED]).splitlines(keepends=True)
        note = clip(patch, MAX_DETAILED)[1]
        yield "Work", [StyledText([*((line, _DIFF_STYLES.get(line[:1], "")) for line in lines), (note, "dim")])]
    for check in shown_checks(result):
        notes = [StyledText([(FORGEABLE, "dim")], "dim")] if check.has_report else []
        yield "Check", [_cut(f"{check.name} {check.ended}"), _cut(check.output.rstrip(), _MOST_OUTPUT), *notes]


def file_text(kept: KeptFile, files: KeptFiles | None) -> str:
    """Describe a kept file in one line: name, type, size, and its path or the reason why it is missing."""
    size = "" if kept.size is None else f", {format_size(kept.size)}"
    file = files.find(kept) if files is not None else None
    where = kept.left_out if file is None else file.problem or str(file.path)
    return f"{kept.name} ({kept.media_type}{size})" + (f": {where}" if where else "")


def _stage_text(record: StageRecord) -> str:
    """Describe a stage in one line. For example, `ParseTemplate ran in 1.204 s, 1 call, 526 tokens in, 10 out
    (karenina-template)`.
    """
    reason = record.error or record.reason
    if record.status == "skipped":
        return clean(f"{record.name} skipped: {reason}")
    parts = [
        f"{record.name} {record.status} in {'< 0.001' if 0 < record.seconds < 0.0005 else f'{record.seconds:.3f}'} s"
    ]
    if record.calls:
        parts.append(quantity(record.calls, "call"))
        parts.append(f"{record.input_tokens:,} tokens in" if record.input_tokens else "input tokens not reported")
        parts.append(f"{record.output_tokens:,} out" if record.output_tokens else "output tokens not reported")
    if record.waited >= _LEAST_WAIT:
        parts.append(f"{record.waited:.1f} s of waiting")
    if record.failed_calls:
        parts.append(quantity(record.failed_calls, "failed call"))
    line = f"{', '.join(parts)} ({record.distribution} {record.version})"
    return clean(f"{line}: {reason}" if reason else line)


def _is_unicode(console: Console) -> bool:
    """Return whether the console can print symbols such as check marks."""
    return console.encoding.lower().startswith("utf")
