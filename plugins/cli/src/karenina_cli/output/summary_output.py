"""A run's summary, its costs by model, stage and judge, and the estimate for `--dry-run`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from karenina_engine.cost.ledger import UNKNOWN_COST, SpendCounts, sum_counts
from karenina_engine.cost.price_source import format_cost, format_rounded_up, to_dollars
from karenina_engine.results.summary_text import GROUP_TEXTS, Summarized, group_table, summary_rows
from karenina_terminal.screen import print_rows, print_wrapped
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from karenina_core.data.result import VerificationResult
    from karenina_engine.cost.ledger import Ledger, LedgerLine
    from karenina_engine.offline.estimate import Estimate, EstimatedLine, Span
    from karenina_engine.results.aggregate import Totals
    from karenina_engine.run.request import RunRequest
    from karenina_engine.run.session import RunSession
    from karenina_terminal.screen import Screen


def print_summary(
    console: Console,
    results: Summarized,
    path: Path | None = None,
    *,
    cost: str | None = None,
    notes: Sequence[tuple[str, str]] = (),
    all_failures: bool = False,
) -> None:
    """Print each group's pass rate with its interval, unjudged items, bounds and tokens, and below the pass rate the
    `notes`, which are pairs of a name and a text. `path` is the result file, if there is one, and `cost` is the cost as
    text. With `all_failures`, every reason why items were not judged is printed.
    """
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    groups = group_table(results.summary())
    if groups:
        print_rows(console, groups, GROUP_TEXTS)
    summary = [*summary_rows(results, all_failures=all_failures)]
    first = 0 if groups else 1
    rows = [
        *summary[:first],
        *notes,
        *summary[first:],
        ("Cost", cost or ""),
        ("Results", str(path) if path is not None else ""),
    ]
    for name, text in rows:
        if text:
            grid.add_row(name, Text(clean(text)))
    console.print(grid)


def result_json(result: VerificationResult) -> dict[str, Any]:
    """Convert a result to JSON for `--json`, with `question_id` at the top."""
    return {"question_id": result.question_id, **json.loads(result.model_dump_json())}


def summary_json(results: Totals) -> dict[str, Any]:
    """Return a dict for `--json` whose key `summary` contains the summary of the results, their usage, failures
    and failed checks.
    """
    usage = results.usage()
    return {
        "summary": {
            **results.summary().model_dump(mode="json"),
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
                "calls": usage.calls,
            },
            "failures": [{"items": failure.items, "error": failure.error} for failure in results.failures()],
            "failed_checks": [{"items": failed.items, "error": failed.error} for failed in results.failed_checks()],
        }
    }


def cost_json(session: RunSession) -> dict[str, Any]:
    """Return `money` for `--json`: the run's ledger and its budget in US dollars, which may be null."""
    budget = session.budget
    limit = float(to_dollars(budget.limit)) if budget is not None else None
    return {"budget_usd": limit, "budget_spent": budget is not None and budget.exhausted, **session.ledger.to_dict()}


def print_ledger(console: Console, ledger: Ledger) -> None:
    """Print what this run spent by model, stage and judge, the total, and the source of the prices. Nothing is printed
    if no replies were needed.
    """
    spent, stored, earlier = ledger.total(), ledger.cached_total(), ledger.earlier
    if not spent.calls and not stored.calls:
        return
    lines = [line for line in ledger.lines if line.spent.calls]
    if lines:
        print_rows(console, ledger_rows(lines, spent), texts=(0, 1, 2))
    sentences = [f"Cost: {spent.format_cost()} for {quantity(spent.calls, 'call')}."]
    if stored.calls:
        worth = f" (worth {stored.format_cost()})" if stored.cost or stored.unpriced else ""
        sentences.append(f"Stored replies: {stored.calls:,}{worth}, which cost nothing this time.")
    if earlier.calls:
        sentences.append(f"Earlier runs with this journal spent {earlier.format_cost()}.")
    print_wrapped(console, Text(" ".join(sentences)))
    uncounted, counted = Counter[str](), Counter[str]()
    for line in lines:
        name = f"{line.model} ({line.interface}:{line.model_name})"
        uncounted[name] += line.spent.unpriced
        counted[name] += line.spent.cost
    for name, price in ledger.prices.snapshot()["models"].items():
        is_stated = not price["known"] and counted[name] and not uncounted[name]
        source = "what the provider states in each reply" if is_stated else price["from"]
        print_wrapped(console, Text(clean(f"Price of {name}: {source}"), style="dim"))
        if price["known"] and uncounted[name]:
            what = f"The cost of {quantity(uncounted[name], 'call')} of {name} is unknown and not included"
            why = "the server counted no tokens, or something has no known price, such as searches or a service tier"
            print_wrapped(console, Text(clean(f"{what}: {why}.")))


def ledger_rows(lines: Iterable[LedgerLine], total: SpendCounts) -> list[tuple[str, ...]]:
    """Return table rows: a header, one row for each line of a ledger, and `total`."""
    return [
        ("Model", "Stage", "Judge", "Calls", "Tokens in", "From cache", "Tokens out", "Cost"),
        *((line.model, line.stage, line.judge or "all", *_cells(line.spent)) for line in lines),
        ("All", "", "", *_cells(total)),
    ]


def spent_text(ledger: Ledger) -> str | None:
    """Return the amount spent so far for the progress display, or None before the first call."""
    total = ledger.total()
    if not total.calls:
        return None
    words = total.format_cost()
    return "cost unknown" if words == UNKNOWN_COST else f"{words} spent"


def read_spending(files: Sequence[Path]) -> list[LedgerLine] | None:
    """Return what the runs that wrote `files` spent, from their journals, or None if a journal is missing or
    unreadable. Runs with only free models need no journal.
    """
    from karenina_engine.journal.file import JournalError
    from karenina_engine.journal.view import JournalView, find_journal

    if _without_cost(files):
        return None
    lines: list[LedgerLine] = []
    for journal in filter(None, dict.fromkeys(map(find_journal, files))):
        try:
            with JournalView(journal) as view:
                lines += view.spent()
        except JournalError:
            return None
    return lines


def _without_cost(files: Sequence[Path]) -> list[Path]:
    """Return the files whose runs have no journal, from which their cost is read, except those of free runs."""
    from karenina_engine.journal.view import find_journal
    from karenina_engine.results.result_file import read_header

    return [file for file in files if find_journal(file) is None and read_header(file).get("free") is not True]


def cost_text(files: Sequence[Path], lines: Sequence[LedgerLine] | None) -> str:
    """Describe in one line what the runs that wrote `files` spent, by model. `lines` comes from `read_spending`. If it
    is None, the line explains why the cost is unknown.
    """
    if lines is None:
        from karenina_report.runs import describe_missing_cost

        return f"{UNKNOWN_COST}: {describe_missing_cost(next(iter(_without_cost(files)), files[0]), None)}"
    total = sum_counts(line.spent for line in lines)
    if not lines:
        return f"{total.format_cost()}: all models in the run are free"
    by_model: dict[str, SpendCounts] = {}
    for line in lines:
        by_model.setdefault(line.model, SpendCounts()).merge(line.spent)
    each = ", ".join(f"{clean(model)} {count.format_cost()}" for model, count in sorted(by_model.items()))
    return f"{total.format_cost()} for {total.calls:,} calls in all runs of the journal" + (f": {each}" if each else "")


def budget_hint(session: RunSession, *, quiet: bool) -> str:
    """Return a hint on continuing a run that has used up its budget. `quiet` adds `--quiet` to the command."""
    assert session.budget is not None
    least, spent = format_rounded_up(session.budget.spent + session.budget.refused), format_cost(session.budget.spent)
    if session.journal is None:
        return (
            f"There is no journal, so running the same command again, with a budget of {least} or more, repeats the "
            "calls."
        )
    again = "run the same command with a larger --set budget=USD"
    command = f"karenina resume {quote(str(session.journal.path))} --budget MORE{' --quiet' if quiet else ''}"
    how = f"run `{command}`" if session.resumable else again
    return (
        f"To continue, {how}; the next call needs a budget of {least} or more, which includes the {spent} spent so "
        "far. No paid call is repeated."
    )


def _cells(count: SpendCounts) -> tuple[str, ...]:
    """Return the last cells of a ledger row: calls, tokens and cost. Tokens that were not reported are shown as "-"."""
    read, written = count.input_tokens, count.output_tokens
    tokens = (f"{read:,}", f"{count.cached_tokens:,}") if read else ("-", "-")
    return (f"{count.calls:,}", *tokens, f"{written:,}" if written else "-", count.format_cost())


def dry_run(screen: Screen, request: RunRequest, *, as_json: bool) -> None:
    """Print the expected calls, tokens and cost of a run, without making calls or writing anything. Raises
    `KareninaError` for most errors that would prevent the run, such as an error in a recording.
    """
    from karenina_engine.check.questions import files_of, select_questions
    from karenina_engine.check.restricted_values import require_trust
    from karenina_engine.check.run_checks import check_recordings
    from karenina_engine.check.stage_checks import check_models
    from karenina_engine.cost.ledger import PriceTable
    from karenina_engine.model_settings import configured_models
    from karenina_engine.offline.estimate import estimate
    from karenina_engine.settings import EngineSettings
    from karenina_toolkit.plugin_lookup import plugins_of

    trust, config = require_trust(request.benchmark, request.config, request.trust)
    plugins = plugins_of(config)
    journal = None if request.fresh else request.journal
    files = files_of(request.benchmark, journal)
    questions = select_questions(request.benchmark, config, request.question_ids, files=files)
    # An estimate needs no keys, but recordings are read, so an error in them stops it as it would stop the run.
    check_models(plugins, configured_models(config), offline=True)
    check_recordings(plugins, config, questions, request.benchmark)
    estimated = estimate(
        questions,
        config,
        plugins,
        PriceTable(plugins, config.section(EngineSettings).prices),
        trust=trust,
        journal=journal,
    )
    if as_json:
        screen.json({"estimate": estimated.to_dict()})
        return
    _print_estimate(screen, estimated)


def _print_estimate(screen: Screen, estimated: Estimate) -> None:
    """Print an estimate: a table, what it is based on, and which calls it does not include."""
    if estimated.lines:
        head = ("Model", "Stage", "Calls", "Tokens in", "Tokens out", "Cost", "From", "To")
        rows = [
            (line.model, line.stage, _range_text(line.calls), *_tokens(line), *_costs(line)) for line in estimated.lines
        ]
        print_rows(screen.out, [head, *rows], texts=(0, 1))
    _say(
        screen,
        f"No calls were made. Of {quantity(estimated.items, 'item')}, {estimated.done:,} "
        f"{'has' if estimated.done == 1 else 'have'} a result in the journal.",
    )
    if estimated.kept:
        _say(
            screen,
            f"The journal contains {estimated.kept:,} replies for the other items; their calls are not paid for again.",
        )
    _say(screen, f"Expected: {_range_text(estimated.calls)} calls for {estimated.format_cost()}.")
    for line in estimated.lines:
        if line.attached.most:
            tokens = f"{round(line.attached.typical):,} tokens (at most {round(line.attached.most):,})"
            _say(screen, f"Of the tokens in, {tokens} of {line.model} in {line.stage} are for attachments.")
    if estimated.spent.cost or estimated.spent.unpriced:
        _say(screen, f"Earlier runs with this journal spent {estimated.spent.format_cost()}.")
    if estimated.sample and estimated.lines:
        basis = (
            "the calls in the journal"
            if all(line.measured for line in estimated.lines)
            else "replies of typical length"
        )
        _say(screen, f"Estimated from {quantity(estimated.sample, 'question')} and {basis}; retries cost more.")
    for stage, why in estimated.not_counted.items():
        _say(screen, f"Not counted: {stage}: {why}")
    for stage, error in estimated.failed.items():
        _say(screen, f"Not counted: {stage}, because it could not be simulated: {error}")
    for name, price in estimated.prices["models"].items():
        print_wrapped(screen.out, Text(clean(f"Price of {name}: {price['from']}"), style="dim"))


def _say(screen: Screen, text: str) -> None:
    """Print wrapped text to standard output, making control characters visible."""
    print_wrapped(screen.out, Text(clean(text)))


def _tokens(line: EstimatedLine) -> tuple[str, str]:
    return _count_text(line.input_tokens), _count_text(line.output_tokens)


def _count_text(span: Span) -> str:
    """Return the typical number as a string, without the range."""
    return f"{round(span.typical):,}"


def _range_text(span: Span) -> str:
    """Return a number of calls as a string: *12 (10 to 20)*, *10 to 20* if the typical number is also the largest, or
    the number alone if it is certain.
    """
    least, typical, most = (f"{round(number):,}" for number in span)
    if least == most:
        return typical
    return f"{least} to {most}" if typical == most else f"{typical} ({least} to {most})"


def _costs(line: EstimatedLine) -> tuple[str, str, str]:
    """Return the typical, lowest and highest cost as strings. Without a price, the first is `unknown`."""
    if line.cost is None:
        return "unknown", "", ""
    least, typical, most = (format_cost(round(amount)) for amount in line.cost)
    return typical, least, most
