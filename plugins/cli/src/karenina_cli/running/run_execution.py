"""Execution of runs: progress, printed results, exit codes, and a clean stop on Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Self

import typer
from rich.text import Text

from karenina_cli.output.summary_output import (
    budget_hint,
    cost_json,
    print_ledger,
    print_summary,
    result_json,
    spent_text,
    summary_json,
)
from karenina_engine.progress.rich_bar import RichBar
from karenina_terminal.screen import ExitCode, Screen
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from rich.console import Console

    from karenina_cli.running.ci_reports import CIReports, Conditions
    from karenina_core.data.result import VerificationResult
    from karenina_engine.progress.run_progress import RunProgress
    from karenina_engine.results.aggregate import Totals
    from karenina_engine.results.result_text import Results
    from karenina_engine.run.precompute import PrecomputedResults
    from karenina_engine.run.request import RunRequest
    from karenina_engine.run.session import RunSession

INTERRUPTED: Final = "the run was interrupted"


def execute_run(
    screen: Screen,
    request: RunRequest,
    *,
    as_json: bool,
    quiet: bool,
    some: bool = False,
    conditions: Conditions | None = None,
    reports: CIReports | None = None,
) -> None:
    """Execute a run, print its results and write reports. With `quiet`, progress and single results are not printed;
    with `some`, at most as many results as in a terminal. Exits with an `ExitCode` unless the run succeeds: if it was
    stopped, if `conditions` were not met, or if no item was judged.

    If the run is stopped, the results so far are printed. After Ctrl-C, only the summary is printed, unless `as_json`
    is set.
    """
    from karenina_engine.results.result_set import StoredResults, VerificationResultSet
    from karenina_engine.run.execution import execute_session, run_blocking
    from karenina_engine.run.prepare import open_run

    output = request.output
    assert output is not None  # commands always set it
    with (
        exit_without_journal(screen, open_run(request), output) as session,
        show_progress(screen, session, output, quiet=quiet) as shown,
    ):
        shown.totals = run_blocking(
            lambda: execute_session(session, output=output, on_result=shown.finished, computed=shown.computed)
        )
    totals, interrupted = shown.totals, shown.interrupted
    note_reuse(screen, session)
    missing = len(session) - len(totals)
    summary = totals.summary()
    results: Results = StoredResults(output, len(totals)) if len(totals) else VerificationResultSet()
    if as_json:
        rest = {**summary_json(totals), "output": str(output), "calls": _calls_json(session)}
        rest["distributions"] = session.distributions
        rest |= {"not_run": missing, "stopped": session.stopped, "interrupted": interrupted}
        screen.json_list("results", map(result_json, results), {**rest, "money": cost_json(session)})
    else:
        _print(screen, results, totals, output, quiet=quiet or interrupted, some=some)
        print_ledger(screen.out, session.ledger)
        if missing and totals.usage().calls != session.tally.made + session.tally.cached:
            screen.note("Token counts cover only items with a result; the cost includes the calls of other items.")
    unmet = list(conditions.unmet(summary, missing)) if conditions is not None else []
    unjudged = f"No item was judged: {_all(summary.items, 'item')} ended in an error"
    unjudged += f"{' or could not be decided' if summary.undecided else ''}."
    if reports is not None:
        stopped = f"{quantity(missing, 'item')} did not run: {session.stopped or 'the run was interrupted'}."
        reasons = [*([stopped] if missing else []), *([unjudged] if summary.not_judged == summary.items else [])]
        reports.write(screen, results, [*reasons, *unmet])
    exit_if_stopped(screen, session, output, done=len(totals), interrupted=interrupted, quiet=quiet)
    if summary.not_judged == summary.items:
        screen.note(f"{unjudged} {_recovery_hint(session, request)}")
    elif len(summary.groups) > 1:
        for group in summary.groups:
            if group.not_judged == group.items:
                how = f"`karenina show {quote(str(request.output))}`"
                screen.note(f"No item of {group.name} was judged; use {how} to see the reasons.")
    if request.benchmark.path is not None and any(
        "`karenina trust FILE`" in failure.error for failure in totals.failures()
    ):
        screen.note(_trust_hint(request.benchmark.path))
    for message in unmet:
        screen.note(message)
    if unmet:
        raise typer.Exit(ExitCode.BELOW_THRESHOLD)
    if summary.not_judged == summary.items:
        raise typer.Exit(ExitCode.NOTHING_JUDGED)


def run_for_results(screen: Screen, request: RunRequest, output: Path, *, quiet: bool) -> Iterator[VerificationResult]:
    """Execute a run for another command, and yield its results from `output`, which must be the request's output. Exits
    if the run is stopped.
    """
    from karenina_engine.results.result_set import read_results
    from karenina_engine.run.execution import execute_session, run_blocking
    from karenina_engine.run.prepare import open_run

    with (
        exit_without_journal(screen, open_run(request), output) as session,
        show_progress(screen, session, output, quiet=quiet) as shown,
    ):
        shown.totals = run_blocking(
            lambda: execute_session(session, output=output, on_result=shown.finished, computed=shown.computed)
        )
    note_reuse(screen, session)
    exit_if_stopped(screen, session, output, done=len(shown.totals), interrupted=shown.interrupted, quiet=quiet)
    return read_results(output)


def exit_if_stopped(
    screen: Screen, session: RunSession, output: Path, *, done: int, interrupted: bool, quiet: bool
) -> None:
    """Print how to continue a run that was stopped after `done` results in `output`, and exit. Return if it was not
    stopped. Set `interrupted` if Ctrl-C stopped the run. `quiet` adds `--quiet` to the printed command.
    """

    missing = len(session) - done
    if not missing or not (interrupted or session.stopped is not None):
        return
    if not interrupted and session.budget is not None and session.budget.exhausted:
        screen.note(f"{done} of {quantity(len(session), 'item')} finished. {budget_hint(session, quiet=quiet)}")
        raise typer.Exit(ExitCode.BUDGET_SPENT)
    screen.note(_resume_hint(session, output, done=done, timed_out=not interrupted, quiet=quiet))
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.TIMED_OUT)


@contextmanager
def exit_without_journal(
    screen: Screen, opened: AbstractContextManager[RunSession], output: Path
) -> Iterator[RunSession]:
    """Enter `opened`, a run with its journal, and yield the run. Exits if the journal cannot be written or closed. Any
    other `JournalError`, as when it cannot be opened, is raised.
    """
    from karenina_engine.journal.file import JournalDamaged, JournalError, JournalNotWritten

    results = ""
    try:
        with opened as session:
            yield session
            done = f"{len(session.outcomes)} of {quantity(len(session), 'item')} finished"
            results = f"{done}, with results in {output}, but "
    except JournalError as error:
        if not results and not isinstance(error, JournalNotWritten):
            raise
        code = ExitCode.BAD_INPUT if isinstance(error, JournalDamaged) else ExitCode.FAILED
        screen.fail(f"{results}{error}", code)


@contextmanager
def show_progress(screen: Screen, session: RunSession, path: Path, *, quiet: bool) -> Iterator[ShownRun]:
    """Show the progress of the run in the block, which must set `totals`, and stop the run on Ctrl-C without an
    exception. `KeyboardInterrupt` is raised only before the run begins. After Ctrl-C, `totals` is computed from the
    results in `path`. Exits if the journal or `path` cannot be written, or if a plugin's error ends the run.
    """
    from karenina_cli.garbage_collection import collect_as_usual
    from karenina_core.errors import RunError
    from karenina_engine.journal.file import JournalDamaged, JournalError
    from karenina_engine.progress.run_progress import RunProgress
    from karenina_engine.results.result_file import count_results
    from karenina_engine.results.result_set import VerificationResultSet, read_results
    from karenina_engine.run.precompute import precompute_results

    collect_as_usual()  # a run makes cycles of objects with whole replies in them
    progress = RunProgress(len(session), limits=session.limits, cost=lambda: spent_text(session.ledger))
    shown = ShownRun(ProgressOutput(screen.err, progress, quiet=quiet))
    try:
        with precompute_results(session) as shown.computed, shown.output, stop_on_signals(session, screen.note):
            shown.began = True
            yield shown
        shown.interrupted = session.stopped == INTERRUPTED and len(shown.totals) < len(session)
    except KeyboardInterrupt:
        if not shown.began:
            raise
        screen.note(f"Stopped after {progress.done} of {quantity(len(session), 'item')}.")
        shown.totals = VerificationResultSet(read_results(path) if progress.done else ()).totals()
        shown.interrupted = True
    except JournalError as error:
        code = ExitCode.BAD_INPUT if isinstance(error, JournalDamaged) else ExitCode.FAILED
        screen.fail(f"stopped after {progress.done} of {quantity(len(session), 'item')}: {error}", code)
    except RunError as error:
        screen.fail(str(error), ExitCode.FAILED)
    except BrokenPipeError:  # the reader of the progress has gone
        raise
    except OSError as error:
        done, written = len(session.outcomes), count_results(path)
        kept = "the results written so far are kept"
        if written < done:
            kept = (
                f"{quantity(written, 'result')} could be written, and the other {done - written:,} are lost; to run "
                f"the rest, use the same command with another --output and --skip-done {quote(str(path))}"
            )
        if session.journal is not None:
            again = ", and the same command continues the run" if session.resumable else ""
            kept = f"the results so far are in the journal {session.journal.path}{again}"
        screen.fail(
            f"stopped after {done} of {quantity(len(session), 'item')}, because {path} cannot be "
            f"written: {error.strerror or error}; {kept}",
            ExitCode.FAILED,
        )


def _print(screen: Screen, results: Results, totals: Totals, path: Path, *, quiet: bool, some: bool) -> None:
    """Print the results unless `quiet` is set, then the summary with the plugins' notes."""
    from karenina_cli.output.result_output import print_results
    from karenina_report.registered_notes import find_notes
    from karenina_report.run_notes import NotedRun

    if not quiet:
        print_results(screen.out, results, path, some=some)
    notes = find_notes([NotedRun("", None, path)]) if len(totals) else []
    print_summary(screen.out, totals, path, notes=[(note.name, note.text) for note in notes])


def note_reuse(screen: Screen, session: RunSession) -> None:
    """Print how many results and replies came from the journal, or replies from identical calls of this run, if any."""
    store, tally = session.result_store, session.tally
    if store is None or session.journal is None or not (store.kept or tally.cached):
        return
    journal = session.journal.path
    if store.kept == len(session):
        screen.note(
            f"No new call was made: {_all(store.kept, 'result')} came from the journal {journal}; "
            f"{'--fresh' if session.resumable else 'another --journal'} starts from scratch."
        )
        return
    if not session.journal.had_replies:  # all replies are from this run
        took = "took its reply" if tally.cached == 1 else "took their replies"
        screen.note(
            f"New: {quantity(tally.made, 'call')}; {quantity(tally.cached, 'identical call')} {took} from these."
        )
        return
    again = f"; {store.again} ran again, because a call or a stage had failed" if store.again else ""
    screen.note(
        f"From the journal {journal}: {store.kept} of {len(session)} results and "
        f"{tally.cached} {'reply' if tally.cached == 1 else 'replies'}{again}. "
        f"New: {quantity(tally.made, 'call')}."
    )


def _calls_json(session: RunSession) -> dict[str, int]:
    """Return `calls` for `--json`: new and failed calls, reused replies and results, and tokens used."""
    tally, store = session.tally, session.result_store
    return {
        "made": tally.made,
        "kept": tally.cached,
        "failed": tally.failed,
        "items_kept": store.kept if store is not None else 0,
        "input_tokens": tally.used.input_tokens,
        "output_tokens": tally.used.output_tokens,
    }


def _all(count: int, noun: str) -> str:
    """Describe a complete set of things in words: `the only item`, `both items`, `all 12 items`."""
    return f"the only {noun}" if count == 1 else f"both {noun}s" if count == 2 else f"all {count:,} {noun}s"


def _recovery_hint(session: RunSession, request: RunRequest) -> str:
    """Return a hint on what to do if none of a run's items were judged."""
    again = "run the command again"
    if session.journal is not None and session.resumable and not request.replay:
        again += f", or use `karenina resume {quote(str(session.journal.path))}`"
    return f"`karenina show {quote(str(request.output))}` shows the reasons. Correct the cause, then {again}."


def _trust_hint(file: Path) -> str:
    """Return a hint on how to trust the code in the given file. The items' own error messages do not contain the file's
    name.
    """
    return (
        f"The code in {file} was not run because it is not trusted. Read the code, then run: "
        f"karenina trust {quote(str(file))}"
    )


def _resume_hint(session: RunSession, path: Path, *, done: int, timed_out: bool, quiet: bool) -> str:
    """Describe how much of a stopped run is finished (`done` items), and how to continue it, with more time if it was
    `timed_out`.
    """
    where = f"; the results are in {path}, and `karenina show {quote(str(path))}` prints them" if done else ""
    progress = f"{done} of {quantity(len(session), 'item')} finished{where}.\n"
    if session.journal is None:
        return (
            f"{progress}To continue, run the same command with another --output and --skip-done {quote(str(path))}, "
            "which skips the questions that have been judged."
        )
    options = ["without --fresh"] if session.resumable else []  # only `karenina run` has the option
    options += ["with a larger --set run_timeout=SECONDS"] if timed_out else []
    how = f" ({' and '.join(options)})" if options else ""
    again = " for the same time again" if timed_out else ""
    command = f"karenina resume {quote(str(session.journal.path))}{' --quiet' if quiet else ''}"
    resume = f", or use `{command}`{again}" if session.resumable else ""
    return (
        f"{progress}Every reply is stored in {session.journal.path}. To continue, run the same command again{how}"
        f"{resume}; no finished call is repeated."
    )


class ProgressOutput:
    """Shows the progress of a run. With `quiet`, results are only counted."""

    def __init__(self, console: Console, progress: RunProgress, *, quiet: bool = False) -> None:
        self.progress = progress
        self._console = console
        self._quiet = quiet
        self._bar = RichBar(progress, console, transient=True) if console.is_terminal and not quiet else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def finished(self, result: VerificationResult) -> None:
        """Count a result and update the display."""
        self.progress.add(result.outcome, result.metadata.timestamp)
        if self._bar is not None:
            self._bar.advance_to(self.progress.done)
        elif not self._quiet and (line := self.progress.next_line()) is not None:
            self._console.print(Text(line), soft_wrap=True)


class ShownRun:
    """A run whose progress is shown, with its totals and whether Ctrl-C stopped it."""

    totals: Totals
    computed: PrecomputedResults | None = None
    began = False
    interrupted = False

    def __init__(self, output: ProgressOutput) -> None:
        self.output = output

    def finished(self, _index: int, result: VerificationResult) -> None:
        """Count a result and update the display. `execute_session` calls this for each result."""
        self.output.finished(result)


@contextmanager
def stop_on_signals(session: RunSession, note: Callable[[str], None]) -> Iterator[None]:
    """Make Ctrl-C, SIGTERM and, unless it is ignored (as by `nohup`), SIGHUP stop the run in the block. After the first
    signal, no new items start, calls in flight have `GRACE` seconds to finish, and `note` is called with a message
    about them. A second signal, or one while the session is not running, raises `KeyboardInterrupt`. Outside the main
    thread, this has no effect, because only the main thread receives signals.
    """
    from karenina_cli.streams import leave_lost_terminal
    from karenina_engine.run.session import GRACE

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def stop(number: int, _frame: Any) -> None:
        """Stop the run on the first signal. Raise `KeyboardInterrupt` on a second one, or if nothing is running."""
        nonlocal pressed
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)  # when a terminal closes, the shell and the kernel both send it
            leave_lost_terminal()
            if pressed:
                return
        if pressed or not session.running:
            raise KeyboardInterrupt
        pressed = True
        session.stop_soon(INTERRUPTED, grace=GRACE, then=note_calls)

    def note_calls() -> None:
        """Print how many calls in flight are being waited for, if any."""
        calls = session.limits.held
        if calls:
            note(
                f"Stopping: waiting up to {GRACE:g} s for {quantity(calls, 'call')} in flight. Press Ctrl-C again "
                "to stop at once."
            )

    numbers = [signal.SIGINT, signal.SIGTERM]
    numbers += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    previous = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)
