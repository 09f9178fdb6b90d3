"""Execute a run with progress, print its results, and exit with its code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from karenina_cli.exit_codes import ExitCode
from karenina_cli.json_output import result_json, summary_json
from karenina_cli.screen import Screen

if TYPE_CHECKING:
    from karenina_cli.result_output import Results
    from karenina_engine.journal.request import RunRequest
    from karenina_engine.results.aggregate import Totals
    from karenina_engine.scheduling.session import RunSession


def execute_run(screen: Screen, request: RunRequest, *, fail_under: float | None, as_json: bool, quiet: bool) -> None:
    """Run what is requested with progress, print the results, and end as `ExitCode` says.

    Also what a run that was stopped has found out so far is printed; after Ctrl-C the single results only as JSON.
    """
    from karenina_cli.cost_output import budget_hint, cost_json, print_ledger
    from karenina_engine.results.result_set import StoredResults, VerificationResultSet
    from karenina_engine.scheduling.prepare import open_run

    output = request.output
    assert output is not None  # a command always names one
    with _exit_on_failed_write(screen), open_run(request) as prepared:
        totals, interrupted = _run_with_progress(screen, prepared, output, quiet=quiet)
        _note_reuse(screen, prepared)
    missing = len(prepared) - len(totals)
    results: Results = StoredResults(output, len(totals)) if len(totals) else VerificationResultSet()
    if as_json:
        rest = {**summary_json(totals), "output": str(output), "calls": _calls_json(prepared)}
        rest["distributions"] = prepared.distributions
        rest |= {"not_run": missing, "stopped": prepared.stopped, "interrupted": interrupted}
        screen.json_list("results", map(result_json, results), {**rest, "money": cost_json(prepared)})
    else:
        _print(screen, results, totals, output, quiet=quiet or interrupted)
        print_ledger(screen.out, prepared.ledger)
    if missing and (interrupted or prepared.stopped is not None):
        if not interrupted and prepared.budget is not None and prepared.budget.exhausted:
            screen.note(f"{missing} items were not run. {budget_hint(prepared)}")
            raise typer.Exit(ExitCode.BUDGET_SPENT)
        screen.note(_resume_hint(prepared, output))
        raise typer.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.TIMED_OUT)
    summary = totals.summary()
    rate = summary.pass_rate.value
    if summary.not_judged == summary.items:
        screen.note(
            f"Nothing was judged: all {summary.items} items ended in an error. {_recovery_hint(prepared, request)}"
        )
    if fail_under is not None and (rate is None or rate < fail_under):
        screen.note(f"The pass rate is below {fail_under:g}." if rate is not None else "There is no pass rate.")
        raise typer.Exit(ExitCode.BELOW_THRESHOLD)
    if summary.not_judged == summary.items:
        raise typer.Exit(ExitCode.NOTHING_JUDGED)


@contextmanager
def _exit_on_failed_write(screen: Screen) -> Iterator[None]:
    """End with the code of a failure, and not of bad input, if the journal cannot be written."""
    from karenina_engine.journal.file import JournalNotWritten

    try:
        yield
    except JournalNotWritten as error:
        screen.fail(str(error), ExitCode.FAILED)


def _run_with_progress(screen: Screen, prepared: RunSession, path: Path, *, quiet: bool) -> tuple[Totals, bool]:
    """Run, with progress. The results that there are, counted, and whether Ctrl-C ended it before its end."""
    from karenina_cli.cost_output import spent_text
    from karenina_cli.progress import RunProgress
    from karenina_cli.signal_handlers import INTERRUPTED as BY_THE_USER
    from karenina_cli.signal_handlers import stop_on_signals
    from karenina_engine.execution import execute_session
    from karenina_engine.journal.file import JournalDamaged, JournalError
    from karenina_engine.offline.precompute import precompute_results
    from karenina_engine.results.result_set import VerificationResultSet, read_results
    from karenina_engine.scheduling.blocking import run_blocking

    progress = RunProgress(
        screen.err,
        len(prepared),
        limits=prepared.limits,
        quiet=quiet,
        cost=lambda: spent_text(prepared.ledger),
    )
    try:
        with precompute_results(prepared) as computed, progress, stop_on_signals(prepared, screen.note):
            found = run_blocking(
                lambda: execute_session(
                    prepared,
                    output=path,
                    on_result=lambda _place, result: progress.finished(result),
                    computed=computed,
                )
            )
    except KeyboardInterrupt:
        screen.note(f"Stopped after {progress.done} of {len(prepared)} items.")
        return VerificationResultSet(read_results(path) if progress.done else ()).totals(), True
    except JournalError as error:
        code = ExitCode.BAD_INPUT if isinstance(error, JournalDamaged) else ExitCode.FAILED
        screen.fail(f"stopped after {progress.done} of {len(prepared)} items: {error}", code)
    except OSError as error:
        screen.fail(
            f"stopped after {progress.done} of {len(prepared)} items, because {path} cannot be written: "
            f"{error.strerror or error}; what was written stays there",
            ExitCode.FAILED,
        )
    return found, prepared.stopped == BY_THE_USER and len(found) < len(prepared)


def _print(screen: Screen, results: Results, totals: Totals, path: Path, *, quiet: bool) -> None:
    from karenina_cli.result_output import print_results
    from karenina_cli.summary_output import print_summary

    if not quiet:
        print_results(screen.out, results)
    print_summary(screen.out, totals, path)


def _note_reuse(screen: Screen, prepared: RunSession) -> None:
    """Say what a run took from its journal, where it did."""
    kept, tally = prepared.result_store, prepared.tally
    if kept is None or prepared.journal is None or not (kept.kept or tally.cached):
        return
    journal = prepared.journal.path
    if kept.kept == len(prepared):
        screen.note(f"All {kept.kept} results are in the journal {journal}, and no call was made; --fresh begins anew.")
        return
    again = f"; {kept.again} ran again, because a call or a stage had failed" if kept.again else ""
    screen.note(
        f"From the journal {journal}: {kept.kept} of {len(prepared)} results and {tally.cached} replies{again}. "
        f"Now made: {tally.made} calls."
    )


def _calls_json(prepared: RunSession) -> dict[str, int]:
    """How many calls were made now and how many replies were taken from the journal."""
    tally, kept = prepared.tally, prepared.result_store
    return {
        "made": tally.made,
        "kept": tally.cached,
        "failed": tally.failed,
        "items_kept": kept.kept if kept is not None else 0,
        "input_tokens": tally.used.input_tokens,
        "output_tokens": tally.used.output_tokens,
    }


def _recovery_hint(prepared: RunSession, request: RunRequest) -> str:
    """What one does about a run in which everything failed."""
    again = "give the same command again" + (
        f", or `karenina resume {prepared.journal.path}`" if prepared.journal is not None and not request.replay else ""
    )
    return f"`karenina show {request.output}` says why; mend it, and {again}."


def _resume_hint(prepared: RunSession, path: Path) -> str:
    """What is kept of a run that was stopped, and how it goes on."""
    kept = f"Finished results are in {path}: `karenina show {path}`.\n"
    if prepared.journal is None:
        return (
            f"{kept}To go on, give the same command with another --output and --skip-done {path}: what is judged there "
            "is not asked again."
        )
    return (
        f"{kept}Every reply is kept in {prepared.journal.path}. To go on, give the same command again, or "
        f"`karenina resume {prepared.journal.path}`: no finished call is made twice."
    )
