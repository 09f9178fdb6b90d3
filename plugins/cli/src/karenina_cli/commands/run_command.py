"""`karenina run` and `karenina resume`: evaluate models on a benchmark, and continue a stopped run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from karenina_cli.input import completion_values
from karenina_cli.input.configuration import read_configuration, select_ids
from karenina_cli.input.model_options import ModelOptions
from karenina_cli.input.named_files import find_journal, load_checked, select_usable
from karenina_cli.input.options import (
    CIOptions,
    ConfigOptions,
    JournalFile,
    Quiet,
    ResultsJSON,
    TrustAll,
    benchmark_argument,
    question_option,
)
from karenina_cli.running.ci_reports import CIReports, Conditions
from karenina_terminal import completion
from karenina_terminal.options import TableOptions, output_option, with_option_groups
from karenina_terminal.screen import exit_codes_help, get_screen

app = typer.Typer()
resume_app = typer.Typer()


@app.command(epilog=exit_codes_help())
@with_option_groups
def run(
    ctx: typer.Context,
    *,
    file: Annotated[
        Path, benchmark_argument("A benchmark: .yaml, .jsonld, .json, .jsonl, .csv, .tsv, .xlsx or .parquet.")
    ],
    setup: ConfigOptions,
    models: ModelOptions,
    recordings: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Judge the answers in this file instead of calling a model. Each additional file counts as one more "
            "model.",
        ),
    ] = None,
    tables: TableOptions,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Continue even if questions have no recorded answer, or answers match no question."
        ),
    ] = False,
    question: Annotated[list[str] | None, question_option("Run only this question.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Run only the first N questions.")] = None,
    output: Annotated[
        Path | None,
        output_option(
            "The result file: one JSON object per line, written as items finish. Default: FILE's name with "
            ".results.jsonl, in this folder. An existing file is kept under another name."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Write every field to each line of the result file, so that each line can be read on its own.",
        ),
    ] = False,
    skip_done: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RESULTS",
            help="Skip the questions whose items have all been judged in this result file.",
            autocompletion=completion.result_files,
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The journal, which stores replies and results as they arrive, so that the same command continues a "
            "run that was stopped. Default: next to the output (<name>.journal).",
        ),
    ] = None,
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Do not write a journal.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start from scratch; an existing journal is kept under another name.")
    ] = False,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Make no calls; take all replies from the journal. A call without a stored reply is an error.",
        ),
    ] = False,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The executor of the run; asyncio runs it in this process.",
            autocompletion=completion_values.executors,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="USD",
            help="The maximum amount to spend, in US dollars, including earlier runs with the journal. The run stops "
            "when the budget is used up, and can be resumed with a higher budget.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make no calls; print the expected calls, tokens and cost.")
    ] = False,
    ci: CIOptions,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out questions with errors, and traits that cannot be read.")
    ] = False,
    trust_all: TrustAll = False,
    as_json: ResultsJSON = False,
    quiet: Quiet = False,
) -> None:
    """Run a benchmark: call the model and the judge, and print each result and the summary."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_benchmark.checking import QuestionErrorCheck
        from karenina_core.data.trust import Trust
        from karenina_core.errors import ConfigError
        from karenina_engine.results.result_file import check_output, default_journal, default_output
        from karenina_engine.run.request import RunRequest
        from karenina_engine.run.unfinished import unfinished_ids
        from karenina_engine.user_files import load_trust

        trust = Trust.all() if trust_all else load_trust()
        benchmark = load_checked(file, trust, skip_broken=skip_broken, columns=tables.parse())
        extra = {"executor": executor or None, "budget": budget, "partial_recordings": partial or None}
        extra["full_results"] = full or None
        names = {"partial_recordings": "--partial", "full_results": "--full"}
        chosen = read_configuration(
            benchmark,
            setup.config,
            setup.settings,
            models=models,
            recordings=recordings,
            options={names.get(name, f"--{name}"): {name: value} for name, value in extra.items() if value is not None},
        )
        if not len(benchmark):
            raise ConfigError(
                [f"{file} contains no questions; add one (in YAML, under `questions`; in a table, as a row)"]
            )
        if benchmark.missing_answers and chosen.core.evaluation_mode != "rubric_only":
            raise ConfigError([benchmark.missing_answers])
        if benchmark.missing_answers:
            screen.note(f"{benchmark.missing_answers.partition('; to score')[0]}.")
        ids = select_ids(benchmark, question, limit)
        if skip_done:
            ids = unfinished_ids(benchmark, ids, chosen, skip_done)
            if not ids:
                screen.note("Nothing to run: every question has already been judged in the --skip-done result files.")
                if as_json:
                    screen.json({"results": [], "summary": None, "output": None})
                return
        path = output if output is not None else default_output(file)
        check_output(path)
        run_journal = None if no_journal else journal or default_journal(path)
        if skip_broken or dry_run:  # otherwise, the questions are checked while the run is prepared
            earlier = None if fresh else run_journal
            ids = select_usable(benchmark, trust, chosen, ids, skip_broken=skip_broken, journal=earlier)
        conditions = Conditions.parse(ci.fail_under, ci.max_unjudged)
        conditions.check(chosen)
        reports = CIReports(ci.junit, ci.summary_markdown)
        reports.check(as_json=as_json, files=filter(None, (path, run_journal)))
        request = RunRequest(
            benchmark,
            chosen,
            question_ids=ids,
            trust=trust,
            output=path,
            journal=run_journal,
            replay=replay,
            fresh=fresh,
            config_file=setup.config,
            skip_broken=skip_broken,
            columns=benchmark.columns,
            question_check=None if skip_broken else QuestionErrorCheck(benchmark, trust, chosen, ids),
        )
        for note in () if quiet else filter(None, (*benchmark.load_notes, benchmark.load_notice)):
            screen.note(note)
        if dry_run:
            from karenina_cli.output.summary_output import dry_run as print_dry_run

            print_dry_run(screen, request, as_json=as_json)
            return
        from karenina_cli.running.run_execution import execute_run

        execute_run(screen, request, conditions=conditions, reports=reports, as_json=as_json, quiet=quiet)


@resume_app.command(epilog=exit_codes_help())
@with_option_groups
def resume(
    ctx: typer.Context,
    *,
    journal: JournalFile,
    models: ModelOptions,
    budget: Annotated[str | None, typer.Option(metavar="USD", help="A new budget for the run, in US dollars.")] = None,
    as_json: ResultsJSON = False,
    quiet: Quiet = False,
) -> None:
    """Resume one of your stopped runs, with the options of the original command.

    Models given here replace those of the run. Keys are read from the environment again. The command is read from your
    own state folder and never from the journal, which may come from someone else. If the run was not started here,
    nothing is run, and the command described in the journal is printed instead.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_benchmark.resume_request import make_resume_request
        from karenina_cli.running.run_execution import execute_run

        request = make_resume_request(find_journal(screen, journal), screen.note)
        changed = {**models.values(), **({"budget": budget} if budget is not None else {})}
        if changed:
            request = replace(request, config=request.config.with_values(**changed))
        execute_run(screen, request, as_json=as_json, quiet=quiet, some=True)  # the run has printed most of them
