"""`karenina run`: have a benchmark answered and judged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karenina_cli.configuring import (
    Answering,
    Columns,
    ConfigFile,
    Judges,
    Settings,
    TrustAll,
    chosen_ids,
    columns_of,
    configuration,
)
from karenina_cli.exit_codes import ExitCode
from karenina_cli.screen import Screen, screen_of

if TYPE_CHECKING:
    from karenina_cli.printing import Results
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_engine.journal.request import RunRequest
    from karenina_engine.results.aggregate import Totals
    from karenina_engine.scheduling.session import RunSession


def run(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A benchmark: .yaml, .jsonld, .json, .jsonl, .csv or .xlsx.", show_default=False
        ),
    ],
    config: ConfigFile = None,
    settings: Settings = None,
    answering: Answering = None,
    judge: Judges = None,
    recordings: Annotated[
        Path | None, typer.Option(help="Judge the answers in this file instead of asking a model.", show_default=False)
    ] = None,
    columns: Columns = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Go on if questions have no recorded answer, or answers match no question."),
    ] = False,
    question: Annotated[
        list[str] | None, typer.Option("--question", "-q", metavar="ID", help="Ask only this question.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only the first questions.", show_default=False)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where the results go, one JSON object a line, each as it ends; FILE's name with .results.jsonl in "
            "this folder by default. An earlier file of the name is kept under another.",
            show_default=False,
        ),
    ] = None,
    skip_done: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RESULTS", help="Leave out the questions that are wholly judged in this file.", show_default=False
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where replies and results are kept as they come, so that the same command goes on where it was "
            "stopped; beside the output by default (<name>.journal).",
            show_default=False,
        ),
    ] = None,
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Keep no journal.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew: an earlier journal is kept under another name.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Ask nobody: the journal answers, and what it does not hold is an error.")
    ] = False,
    executor: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where the work is done: asyncio is this process.", show_default=False),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="USD",
            help="Most US dollars to spend, with what earlier runs of the journal spent; then the run stops, and goes "
            "on when it is given more.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask nobody: print how many calls and tokens it would take, and the cost.")
    ] = False,
    fail_under: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Exit with 1 where the pass rate is below this, or there is none.",
            show_default=False,
        ),
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out the questions of the file that cannot be read.")
    ] = False,
    trust_all: TrustAll = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print results and summary as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, and no results but the summary.")] = False,
) -> None:
    """Have a benchmark answered and judged, and print each result and the summary."""
    screen = screen_of(ctx)
    with screen.report_errors():
        from karenina_benchmark import Benchmark
        from karenina_core.data.trust import Trust
        from karenina_core.errors import ConfigError
        from karenina_engine.journal.request import RunRequest
        from karenina_engine.journal.trust_store import stored_trust
        from karenina_engine.results.result_file import check_output, default_journal, default_output

        trust = Trust.all() if trust_all else stored_trust()
        benchmark = Benchmark.load(file, trust, skip_broken=skip_broken, columns=columns_of(columns))
        settings = [*(settings or ()), *((f"executor={executor}",) if executor else ())]
        settings += (f"budget={budget}",) if budget is not None else ()
        settings += ("partial_recordings=true",) if partial else ()
        chosen = configuration(benchmark, config, settings, answering=answering, judges=judge, recordings=recordings)
        if not len(benchmark):
            raise ConfigError([f"{file} holds no question: add some under `questions`, or with Benchmark.add_question"])
        ids = chosen_ids(benchmark, question, limit)
        if skip_done:
            ids = _not_done(ids, chosen, skip_done)
            if not ids:
                screen.note("Every question is judged in what --skip-done names: there is nothing left to do.")
                if as_json:
                    screen.json({"results": [], "summary": None, "output": None})
                return
        path = output if output is not None else default_output(file)
        check_output(path)
        request = RunRequest(
            benchmark,
            chosen,
            question_ids=ids,
            trust="all" if trust_all else None,
            output=path,
            journal=None if no_journal else journal or default_journal(path),
            replay=replay,
            fresh=fresh,
            config_file=config,
            skip_broken=skip_broken,
            columns=benchmark.columns,
        )
        if benchmark.load_notice and not quiet:
            screen.note(benchmark.load_notice)
        if dry_run:
            from karenina_cli.dry_run import dry_run as have_estimated

            have_estimated(screen, request, as_json=as_json)
            return
        have_run(screen, request, fail_under=fail_under, as_json=as_json, quiet=quiet)


def have_run(screen: Screen, request: RunRequest, *, fail_under: float | None, as_json: bool, quiet: bool) -> None:
    """Run what is requested with progress, print the results, and end as `ExitCode` says.

    Also what a run that was stopped has found out so far is printed; after Ctrl-C the single results only as JSON.
    """
    from karenina_cli.money import how_to_raise, money_json, print_ledger
    from karenina_engine.results.result_set import StoredResults, VerificationResultSet
    from karenina_engine.scheduling.prepare import open_run

    output = request.output
    assert output is not None  # a command always names one
    with _failed_writes(screen), open_run(request) as prepared:
        totals, interrupted = _carry_out(screen, prepared, output, quiet=quiet)
        _tell_what_was_kept(screen, prepared)
    missing = len(prepared) - len(totals)
    results: Results = StoredResults(output, len(totals)) if len(totals) else VerificationResultSet()
    if as_json:
        rest = {**summary_json(totals), "output": str(output), "calls": _calls_json(prepared)}
        rest["distributions"] = prepared.distributions
        rest |= {"not_run": missing, "stopped": prepared.stopped, "interrupted": interrupted}
        screen.json_list("results", map(result_json, results), {**rest, "money": money_json(prepared)})
    else:
        _print(screen, results, totals, output, quiet=quiet or interrupted)
        print_ledger(screen.out, prepared.ledger)
    if missing and (interrupted or prepared.stopped is not None):
        if not interrupted and prepared.budget is not None and prepared.budget.exhausted:
            screen.note(f"{missing} items were not run. {how_to_raise(prepared)}")
            raise typer.Exit(ExitCode.BUDGET_SPENT)
        screen.note(_how_to_go_on(prepared, output))
        raise typer.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.OUT_OF_TIME)
    summary = totals.summary()
    rate = summary.pass_rate.value
    if summary.not_judged == summary.items:
        screen.note(
            f"Nothing was judged: all {summary.items} items ended in an error. {_how_to_mend(prepared, request)}"
        )
    if fail_under is not None and (rate is None or rate < fail_under):
        screen.note(f"The pass rate is below {fail_under:g}." if rate is not None else "There is no pass rate.")
        raise typer.Exit(ExitCode.BELOW_THRESHOLD)
    if summary.not_judged == summary.items:
        raise typer.Exit(ExitCode.NOTHING_JUDGED)


@contextmanager
def _failed_writes(screen: Screen) -> Iterator[None]:
    """End with the code of a failure, and not of bad input, if the journal cannot be written."""
    from karenina_engine.journal.file import JournalNotWritten

    try:
        yield
    except JournalNotWritten as error:
        screen.fail(str(error), ExitCode.FAILED)


def _calls_json(prepared: RunSession) -> dict[str, int]:
    """How many calls were made now and how many replies were taken from the journal."""
    tally, kept = prepared.tally, prepared.continuing
    return {
        "made": tally.made,
        "kept": tally.kept,
        "failed": tally.failed,
        "items_kept": kept.kept if kept is not None else 0,
        "input_tokens": tally.used.input_tokens,
        "output_tokens": tally.used.output_tokens,
    }


def _tell_what_was_kept(screen: Screen, prepared: RunSession) -> None:
    """Say what a run took from its journal, where it did."""
    kept, tally = prepared.continuing, prepared.tally
    if kept is None or prepared.journal is None or not (kept.kept or tally.kept):
        return
    journal = prepared.journal.path
    if kept.kept == len(prepared):
        screen.note(f"All {kept.kept} results are in the journal {journal}, and no call was made; --fresh begins anew.")
        return
    again = f"; {kept.again} ran again, because a call or a stage had failed" if kept.again else ""
    screen.note(
        f"From the journal {journal}: {kept.kept} of {len(prepared)} results and {tally.kept} replies{again}. "
        f"Now made: {tally.made} calls."
    )


def result_json(result: VerificationResult) -> dict[str, Any]:
    """A result as `--json` prints it: all of it, with `question_id` beside `outcome`."""
    return {"question_id": result.question_id, **json.loads(result.model_dump_json())}


def summary_json(results: Totals) -> dict[str, Any]:
    """`summary` as `--json` prints it, with the usage and a summary for each pair of models."""
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
            "failures": [{"items": one.items, "error": one.error} for one in results.failures()],
            "by_models": [
                {"answering": answering, "judge": judge, **summary.model_dump(mode="json")}
                for (answering, judge), summary in results.by_models().items()
            ],
        }
    }


def _carry_out(screen: Screen, prepared: RunSession, path: Path, *, quiet: bool) -> tuple[Totals, bool]:
    """Run, with progress. The results that there are, counted, and whether Ctrl-C ended it before its end."""
    from karenina_cli.money import spent_in_words
    from karenina_cli.progress import RunProgress
    from karenina_cli.stopping import INTERRUPTED as BY_THE_USER
    from karenina_cli.stopping import stopping
    from karenina_engine.execution import carry_out
    from karenina_engine.journal.file import JournalDamaged, JournalError
    from karenina_engine.offline.precompute import precompute_results
    from karenina_engine.results.result_set import VerificationResultSet, read_results
    from karenina_engine.scheduling.blocking import run_blocking

    progress = RunProgress(
        screen.err,
        len(prepared),
        limits=prepared.limits,
        quiet=quiet,
        cost=lambda: spent_in_words(prepared.ledger),
    )
    try:
        with precompute_results(prepared) as computed, progress, stopping(prepared, screen.note):
            found = run_blocking(
                lambda: carry_out(
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


def _how_to_mend(prepared: RunSession, request: RunRequest) -> str:
    """What one does about a run in which everything failed."""
    again = "give the same command again" + (
        f", or `karenina resume {prepared.journal.path}`" if prepared.journal is not None and not request.replay else ""
    )
    return f"`karenina show {request.output}` says why; mend it, and {again}."


def _how_to_go_on(prepared: RunSession, path: Path) -> str:
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


def _not_done(ids: list[str], config: VerificationConfig, files: list[Path]) -> list[str]:
    """The questions that do not have a judged result in the files for each of their items."""
    from karenina_engine.results.result_set import read_results

    core = config.core
    judges: list[str | None] = [model.id for model in core.parsing_models] or [None]
    judged = {
        (result.question_id, result.metadata.answering_id, judge, result.metadata.replicate or 1)
        for path in files
        for result in read_results(path)
        if result.outcome.judged
        for judge in (result.metadata.parsing_id, None)
    }
    left: Counter[str] = Counter()
    for id in ids:
        for model in core.answering_models:
            for judge in judges:
                for replicate in range(1, core.replicate_count + 1):
                    left[id] += (id, model.id, judge, replicate) not in judged
    return [id for id in ids if left[id] or not core.answering_models]


def _print(screen: Screen, results: Results, totals: Totals, path: Path, *, quiet: bool) -> None:
    from karenina_cli.printing import print_results, print_summary

    if not quiet:
        print_results(screen.out, results)
    print_summary(screen.out, totals, path)
