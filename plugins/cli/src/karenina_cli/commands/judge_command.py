"""`karenina judge`: judge existing outputs without a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.model_options import ModelsWithoutAnswering
from karenina_cli.input.options import CIOptions, ConfigOptions, Quiet, ResultsJSON, benchmark_option
from karenina_cli.running.ci_reports import CIReports, Conditions
from karenina_terminal.options import (
    Encoding,
    JournalPath,
    Rows,
    Sheet,
    output_option,
    parse_columns,
    with_option_groups,
)
from karenina_terminal.screen import exit_codes_help, get_screen

if TYPE_CHECKING:
    from karenina_core.data.rubrics import Rubric
    from karenina_terminal.screen import Screen

app = typer.Typer()
OutputColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="NAME=COLUMN",
        help="Map response, id and question to other columns or keys, such as response=reply.",
    ),
]


@app.command(epilog=exit_codes_help(resumable=False))
@with_option_groups
def judge(
    ctx: typer.Context,
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Outputs: a .jsonl file, a .json file with a list, or a table (.csv, .tsv, .xlsx, .parquet) with a "
            "`response` per row (optionally `id` and `question`), a conversation from another program (.json, "
            ".jsonl), or one text file.",
        ),
    ],
    template: Annotated[
        Path | None,
        typer.Option(metavar="FILE.py", help="The answer template: a Python file with a class named Answer."),
    ] = None,
    rubric: Annotated[Path | None, benchmark_option("A benchmark file whose rubric scores the outputs.")] = None,
    models: ModelsWithoutAnswering,
    columns: OutputColumns = None,
    rows: Rows = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    setup: ConfigOptions,
    output: Annotated[
        Path | None, output_option("The result file. Default: FILE's name with .results.jsonl, in this folder.")
    ] = None,
    journal: JournalPath = None,
    ci: CIOptions,
    trust_all: Annotated[bool, typer.Option("--trust-all", help="Run code in the template and the rubric.")] = False,
    as_json: ResultsJSON = False,
    quiet: Quiet = False,
) -> None:
    """Judge outputs of a product, a log or another program, with one template or rubric for all of them.

    No answering model is called: the judge fills in the template from each output, and a program compares the fields.
    To judge answers to a benchmark's questions, use `karenina run --recordings`.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_benchmark.evaluation import prepare_evaluation
        from karenina_benchmark.output_files import describe_conversations, read_outputs
        from karenina_cli.running.run_execution import execute_run
        from karenina_engine.check.restricted_values import require_trust
        from karenina_engine.results.result_file import check_output, default_journal, default_output
        from karenina_engine.run.request import RunRequest

        path = output if output is not None else default_output(file)
        check_output(path)
        conditions = Conditions.parse(ci.fail_under, ci.max_unjudged)
        reports = CIReports(ci.junit, ci.summary_markdown)
        run_journal = journal or default_journal(path)
        reports.check(as_json=as_json, files=(path, run_journal))
        outputs = list(read_outputs(file, parse_columns(columns, rows, encoding, sheet)))
        for note in describe_conversations(outputs, file):
            screen.note(note)
        benchmark, chosen = prepare_evaluation(
            outputs,
            template=_read_template(template),
            rubric=_read_rubric(rubric, trust_all=trust_all),
            judge=None,
            config=_read_settings(setup, models, screen),
        )
        conditions.check(chosen)
        for file_of_others in (rubric, template):
            # Traits and fields come from this file, not from the caller, so its restricted values need trust.
            benchmark.path = file_of_others
            _, chosen = require_trust(benchmark, chosen, "all" if trust_all else None)
        benchmark.path = None
        request = RunRequest(
            benchmark,
            chosen,
            trust="all" if trust_all else None,
            output=path,
            journal=run_journal,
            config_file=setup.config,
        )
        execute_run(screen, request, conditions=conditions, reports=reports, as_json=as_json, quiet=quiet)


def _read_template(path: Path | None) -> str | None:
    """Read a template's source, or return None without a path. Raises `ConfigError` if the file cannot be read or is
    not Python.
    """
    if path is None:
        return None
    import ast

    from karenina_core.errors import ConfigError
    from karenina_toolkit.files import bounded_files

    try:
        source = bounded_files.read_text(path)
    except bounded_files.FileError as error:
        raise ConfigError([f"the template {error.path} cannot be read: {error.what}; {error.cure}"]) from error
    try:
        ast.parse(source)
    except SyntaxError as error:
        cure = "pass a Python file with a class named Answer"
        raise ConfigError([f"the template {path}, line {error.lineno}, is not Python: {error.msg}; {cure}"]) from error
    return source


def _read_rubric(path: Path | None, *, trust_all: bool) -> Rubric | None:
    """Read a benchmark file's global rubric, or return None without a path. Raises `ConfigError` if the file has no
    rubric. With `trust_all`, the file may refer to files outside its folder.
    """
    if path is None:
        return None
    from karenina_benchmark import Benchmark
    from karenina_core.data.trust import Trust
    from karenina_core.errors import ConfigError
    from karenina_engine.user_files import load_trust

    rubric = Benchmark.load(path, Trust.all() if trust_all else load_trust()).global_rubric
    if not rubric:
        raise ConfigError(
            [f"{path} has no rubric; use a benchmark file, such as a YAML file, with traits under `rubric`"]
        )
    return rubric


def _read_settings(setup: ConfigOptions, models: ModelsWithoutAnswering, screen: Screen) -> dict[str, Any]:
    """Return the settings that were set explicitly, except `answering_models`, which has no effect here. If it was set,
    a note is printed.
    """
    values = read_configuration(None, setup.config, setup.settings, models=models).given()
    if values.pop("answering_models", None):
        screen.note("answering_models has no effect because the outputs take the place of a model's answers.")
    return values
