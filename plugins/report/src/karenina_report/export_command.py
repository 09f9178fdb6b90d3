"""`karenina export`: results in other formats."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, TextIO, cast

import typer

from karenina_report.options import Model, config_error, moved_note
from karenina_terminal.completion import matching, result_files
from karenina_terminal.options import output_option
from karenina_terminal.screen import get_screen, print_only_results
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_report.exports.exporter import Exporter, ExportRequest
    from karenina_terminal.screen import Screen

logger: Final = logging.getLogger("karenina")

_NOTHING: Final = b"\0"
"""A byte that no text file starts with, which prevents any existing file from being replaced."""


def _format_names(incomplete: str) -> list[str]:
    """Return the export formats that start with `incomplete`, for shell completion."""
    from karenina_report.exports.exporter import Exporter
    from karenina_report.exports.hookspecs import karenina_exporters
    from karenina_terminal.command_hook import command_plugins

    exporters = command_plugins().call(karenina_exporters, Exporter)
    return matching((exporter.name for exporter in exporters), incomplete)


def _table_names(incomplete: str) -> list[str]:
    """Return the tables that start with `incomplete`, for shell completion."""
    return matching(("results", "fields", "traits", "excerpts", "stages", "calls"), incomplete)


def export(
    ctx: typer.Context,
    results: Annotated[
        Path | None,
        typer.Argument(
            metavar="RESULTS",
            help="The results or journal of `karenina run`, or an earlier export.",
            autocompletion=result_files,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="jsonl, json, csv, excel, parquet, junit, markdown, recording (only the answers, for --recordings), "
            "or a format from a plugin. Default: the format with the output's suffix, otherwise jsonl.",
            autocompletion=_format_names,
        ),
    ] = None,
    output: Annotated[Path | None, output_option("The file to write; standard output by default, or for -.")] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write this table: results, fields, traits, excerpts, stages, or the calls of a journal. By "
            "default, json and jsonl write whole results, csv and parquet write the results table, and "
            "excel writes every table.",
            autocompletion=_table_names,
        ),
    ] = None,
    model: Model = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole/--no-whole",
            help="Add whole results to the results table (csv, parquet) or on a separate sheet (excel), so that "
            "`karenina export` can read them back.",
        ),
    ] = True,
    files: Annotated[
        Path | None,
        typer.Option(
            "--files",
            metavar="DIR",
            help="Also write the files of items and the patches of agents to this new folder, by item.",
        ),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a result and exit.")] = False,
) -> None:
    """Write results in another format: tables for analysis, JUnit XML for CI, Markdown, JSON, answers.

    If a run's journal is in the same folder as its results, the journal is exported instead. An existing file is kept
    under a new name.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        if schema:
            from karenina_report.exports.json_lines import published_schema

            typer.echo(published_schema(), nl=False)
            return
        if results is None:
            raise config_error("RESULTS is missing; specify a result file, a journal, or an export")
        from karenina_engine.results.kept_files import KeptFiles
        from karenina_report.exports.exporter import ExportRequest
        from karenina_report.exports.registered import choose, open_results
        from karenina_terminal.command_hook import command_plugins

        if output is None or str(output) == "-":
            print_only_results(ctx)
        installed = command_plugins()
        exporter = choose(installed, format, output)
        if table is not None and not exporter.takes_table:
            raise config_error(f"--table has no effect with the {exporter.name!r} format, which does not write tables")
        source = open_results(results, installed, screen.note, model)
        request = ExportRequest(
            source=results,
            results=source,
            tables=source.table,
            table=table,
            warn=screen.note,
            journal=source.journal,
            model=model,
            distributions=source.distributions,
            with_results=whole,
            run=source.run,
            rescored=source.rescored,
        )
        kept = KeptFiles(results, source.journal)
        if files is not None:
            from karenina_report.exports.item_files import write_item_files

            screen.note(f"{quantity(write_item_files(files, source, kept, screen.note), 'file')} written to {files}.")
        for folder in kept.own if files is None else ():
            screen.note(
                f"The export does not include the files of items. They are in {folder}, named by their digests; "
                "--files DIR writes them under their names."
            )
        if output is None or str(output) == "-":
            _print(exporter, request, screen)
        else:
            _save(exporter, request, output, screen.note)


def _print(exporter: Exporter, request: ExportRequest, screen: Screen) -> None:
    """Write an export to standard output, but raise `ConfigError` if the format is binary and that is a terminal."""
    if exporter.is_binary and screen.out.file.isatty():
        raise config_error(f"the {exporter.name!r} format cannot be shown in a terminal; specify a file with -o")
    file = cast(TextIO, screen.out.file).buffer
    _write(exporter, request, file)
    file.flush()


def _write(exporter: Exporter, request: ExportRequest, file: BinaryIO) -> None:
    """Write an export to an open file. Raises `ConfigError` if the exporter fails with anything but a `KareninaError`
    or `OSError`, which propagate, or if it returns something instead of writing it.
    """
    from karenina_core.errors import KareninaError, type_and_message

    write: Callable[[ExportRequest, BinaryIO], object] = exporter.write
    try:
        returned = write(request, file)
    except (KareninaError, OSError):
        raise
    except Exception as error:
        logger.debug("the traceback of the export format %s:", exporter.name, exc_info=True)
        raise config_error(f"the export format {exporter.name!r} failed: {type_and_message(error)}") from error
    if not isinstance(returned, int | None):  # such as what file.write() returns
        what = f"returned {type(returned).__name__}, but has to write to the file, without async"
        raise config_error(f"the export format {exporter.name!r} failed: its function write {what}")


def _save(exporter: Exporter, request: ExportRequest, output: Path, note: Callable[[str], None]) -> None:
    """Write an export to `output`, and call `note` with a message that names the file. An earlier export in the same
    format is renamed. Raises `ConfigError` if the file looks like anything else, or if writing fails.
    """
    from karenina_report.exports.exporter import ANY_BYTES
    from karenina_report.options import write_whole

    is_named = output.suffix.lower() in exporter.suffixes
    begins = exporter.first_bytes if is_named or exporter.first_bytes != ANY_BYTES else (_NOTHING,)
    moved = write_whole(output, begins, lambda file: _write(exporter, request, file))
    note(f"The export was written to {output}{moved_note(moved)}.")
