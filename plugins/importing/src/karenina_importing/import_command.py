"""`karenina import`: converts other tools' files to a benchmark and recorded answers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from karenina_importing import format_choice
from karenina_terminal.options import Encoding, JSONObject, Rows, Sheet, output_option
from karenina_terminal.screen import get_screen
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from karenina_importing.conversion import Imported, RowProblem
    from karenina_importing.import_format import ImportFormat
    from karenina_importing.imported_files import Written
    from karenina_importing.source_files import SourceRow
    from karenina_terminal.screen import Screen

logger = logging.getLogger("karenina")

app = typer.Typer()
EPILOG: Final = (
    "\b\nExit codes:\n"
    "  0    the files were written\n"
    "  2    bad input, or rows that cannot be converted without --partial; nothing was written\n"
)
_SERVER: Final = "https://datasets-server.huggingface.co"
_HF: Final = "hf:"
_TABLES: Final = "huggingface"
"""The format for which `--rows` selects the rows of a JSON document."""
_MOST_SHOWN: Final = 20


@app.command("import", epilog=EPILOG)
def import_(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file, or hf:NAME for a Hugging Face dataset, which is read over the network.",
            autocompletion=format_choice.sources,
        ),
    ],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="The format of SOURCE, such as huggingface, lm-eval, inspect or promptfoo. Default: detected.",
            autocompletion=format_choice.formats,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        output_option(
            "Write the benchmark to this YAML file. Default: the name of SOURCE with the suffix .yaml, in the "
            "current folder. An existing file is kept under another name.",
            metavar="FILE",
        ),
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Write models' answers to this file, for `karenina run --recordings`."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write people's verdicts on the answers to this file, for `karenina calibrate RESULTS FILE.csv`.",
        ),
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="NAME=PATH",
            help="Map a name to a path in a row, such as question=doc.question, or set answer=auto (the "
            "default), text, number, integer, boolean, date, choice, graded or none.",
            autocompletion=format_choice.mapped_names,
        ),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Use this mapping file, which was written by an earlier import and which you can edit.",
            autocompletion=format_choice.mapping_files,
        ),
    ] = None,
    rows: Rows = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the benchmark. Default: taken from SOURCE.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Read only the first N rows.")] = None,
    subset: Annotated[str | None, typer.Option(metavar="NAME", help="The subset of hf:NAME to read.")] = None,
    split: Annotated[str | None, typer.Option(metavar="NAME", help="The split of hf:NAME to read.")] = None,
    server: Annotated[str, typer.Option(metavar="URL", help="The dataset server for hf:NAME.")] = _SERVER,
    partial: Annotated[
        bool, typer.Option("--partial", help="Leave out rows that cannot be converted, and list them.")
    ] = False,
    as_json: JSONObject = False,
) -> None:
    """Convert another tool's questions and answers to a benchmark and recordings. Nothing in the source is executed.

    The mapping of the source's values is written next to the benchmark: edit it, and import again with --map-file.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_importing.conversion import convert
        from karenina_importing.field_mapping import read_mapping
        from karenina_importing.imported_files import check_outputs, mapping_path, write_files

        key, mapping = read_mapping(map_file) if map_file is not None else (None, None)
        _check_options(source, from_, key, subset=subset, split=split, server=server)
        format = _choose(source, from_ or key or (None if rows is None else _TABLES))
        choose = format.choose if mapping is None else None
        mapping = (mapping or format.mapping).changed(map or ())
        output = output or Path(f"{_title(source)}.yaml")
        check_outputs(output, recordings, labels, source=source, map_file=map_file)
        source_rows = _rows(source, format, limit, subset, split, server, rows=rows, encoding=encoding, sheet=sheet)
        done = convert(source_rows, mapping, choose)
        mapping = done.mapping
        _check_rows(screen, done, mapping.given, source, partial=partial)
        if recordings is not None and not done.recordings:
            _refuse_recordings(source, done)
        if labels is not None and not done.labels:
            _refuse_labels(source, done)
        title = name or _title(source)
        written = write_files(done, mapping, format.key, title, output, mapping_path(output), recordings, labels)
        if as_json:
            _print_json(screen, done, format, written)
        else:
            _print(screen, done, format, written)


def _check_options(
    source: str, from_: str | None, key: str | None, *, subset: str | None, split: str | None, server: str
) -> None:
    """Raise `ConfigError` if `--from` contradicts the mapping file, or if dataset options are used for a file. `key` is
    the format in the mapping file, or None if there is no mapping file.
    """
    from karenina_core.errors import ConfigError

    if from_ is not None and key is not None and from_ != key:
        raise ConfigError([f"the mapping is for the format '{key}', but --from is '{from_}'; remove one of them"])
    if not source.startswith(_HF) and (subset is not None or split is not None or server != _SERVER):
        raise ConfigError(["--subset, --split and --server apply only to hf:NAME, not to files; remove these options"])


def _choose(source: str, key: str | None) -> ImportFormat:
    """Return the format called `key`, or detect it if `key` is None. `hf:` sources are tables. Raises `ConfigError` if
    there is no such format, or if the file is empty.
    """
    from karenina_core import plugins
    from karenina_core.config.setting_owners import not_loaded
    from karenina_core.errors import ConfigError
    from karenina_importing.format_choice import choose_format, detect_format, import_formats

    formats = import_formats(plugins.active_plugins())
    if source.startswith(_HF):
        return choose_format(formats, key or "huggingface")
    if Path(source).is_file() and Path(source).stat().st_size == 0:
        raise ConfigError([f"{source} is empty (0 bytes); create it again with the tool that wrote it"])
    if key is not None:
        return choose_format(formats, key)
    if missing := not_loaded():
        logger.warning("the format is chosen without those of some plugins%s", missing)
    return detect_format(formats, Path(source))


def _rows(
    source: str,
    format: ImportFormat,
    limit: int | None,
    subset: str | None,
    split: str | None,
    server: str,
    *,
    rows: str | None,
    encoding: str | None,
    sheet: str | None,
) -> Iterable[SourceRow]:
    """Return the first `limit` rows of a file or a dataset, or all rows if `limit` is None. `subset`, `split` and
    `server` are for datasets (`hf:NAME`), and are ignored for files. Raises `ConfigError` if `rows`, `encoding` or
    `sheet` is given for a source that is not a table in a file.
    """
    from itertools import islice

    from karenina_core.errors import ConfigError
    from karenina_importing.formats.dataset_server import Dataset

    if rows is not None or encoding is not None or sheet is not None:
        if format.rows_at is None or source.startswith(_HF):
            what = f"--rows, --sheet and --encoding apply only to tables, but {source} is {format.name}"
            raise ConfigError([f"{what}; remove these options"])
        return islice(format.rows_at(Path(source), rows, encoding, sheet), limit)
    of_server = source.startswith(_HF)
    dataset_rows = Dataset(source.removeprefix(_HF), subset, split, limit, server).rows() if of_server else None
    return islice(format.rows(Path(source)) if dataset_rows is None else dataset_rows, limit)


def _title(source: str) -> str:
    """Return the name of a benchmark made from a source, which is the dataset's name or the file's stem."""
    if source.startswith(_HF):
        return source.removeprefix(_HF).rpartition("/")[2] or "dataset"
    return Path(source).stem or "benchmark"


_MEDIA: Final = "not only text"
_CURE_OF_MEDIA: Final = (
    "Only files inside Inspect logs and promptfoo files are imported; for these rows, save the files beside the "
    "benchmark and name them in `attachments`, or leave the rows out"
)


def _check_rows(screen: Screen, done: Imported, mapped: Iterable[str], source: str, *, partial: bool) -> None:
    """Print the rows that could not be converted. Raises `ConfigError` if there are any and `partial` is not set, if no
    row was converted, or if a name in `mapped` has no value in any row.
    """
    from karenina_core.errors import ConfigError

    missing = sorted(set(mapped) - done.found - {"error"})
    keys = ", ".join(list(done.keys)[:30])
    if missing and done.questions:
        raise ConfigError([f"{source}: no row has a value for {', '.join(missing)}; the rows have the keys {keys}"])
    if not done.rows:
        raise ConfigError([f"{source} has no rows"])
    if not done.problems:
        return
    if not done.questions and "karenina" in done.keys and Path(source).suffix.lower() in (".yaml", ".yml"):
        raise ConfigError([f"{source} is a benchmark already; it needs no import: karenina run {quote(source)}"])
    count = f"{len(done.problems)} of {quantity(done.rows, 'row')} could not be converted"
    screen.note(f"{count}:\n{_lines(done.problems)}")
    if not done.questions:
        for note in done.notes:
            screen.note(note)
        cure = f"the rows have the keys {keys}. {_cure_of_rows(done)}" if keys else "check the file"
        raise ConfigError([f"{source}: no row could be converted; {cure}"])
    if not partial:
        wrong = "these rows" if all(problem.of_source for problem in done.problems) else "the mapping"
        cure = f"Correct {wrong}, or use --partial to leave these rows out"
        if any(problem.what.endswith(_MEDIA) for problem in done.problems):
            cure = f"{_CURE_OF_MEDIA} with --partial"
        raise ConfigError([f"{count}; nothing was written. {cure}"])


def _cure_of_rows(done: Imported) -> str:
    """Return a hint for the user on how to mend an import of which no row could be converted."""
    if all(problem.what.endswith(_MEDIA) for problem in done.problems):
        return _CURE_OF_MEDIA
    if "question" not in done.found:
        return "Map question to a path with --map"
    if "raw_answer" not in done.found and done.mapping.answer not in ("auto", "none"):
        cure = "map raw_answer to a path with --map, or use --map answer=none"
        return f"Questions were found, but no correct answers; {cure}"
    return "Questions were found; correct the mapping of the values named above"


def _refuse_recordings(source: str, done: Imported) -> NoReturn:
    """Raise the `ConfigError` for a source whose import `done` has no answers to record, listing its rows that only
    have other content.
    """
    from karenina_core.errors import ConfigError

    if done.unanswered:
        listed = _lines(done.unanswered)
        raise ConfigError(
            [f"{source} has no answers that can be recorded; remove --recordings. Rows without a recording:\n{listed}"]
        )
    raise ConfigError([f"{source} has no answers; remove --recordings, or map response to a path with --map"])


def _refuse_labels(source: str, done: Imported) -> NoReturn:
    """Raise the `ConfigError` for a source whose import `done` has no verdicts by people. It names the rows' keys."""
    from karenina_core.errors import ConfigError

    keys = ", ".join(list(done.keys)[:30])
    what = f"{source} has no human verdicts"
    raise ConfigError([f"{what}; map label to a path with --map, or remove --labels. The rows have the keys {keys}"])


def _lines(problems: Sequence[RowProblem]) -> str:
    """Return the first 20 problems as lines, and the number of further problems."""
    lines = [f"  {in_one_line(problem.place)}: {in_one_line(problem.what)}" for problem in problems[:_MOST_SHOWN]]
    more = len(problems) - _MOST_SHOWN
    return "\n".join([*lines, *([f"  and {more} more; use --json --partial to list them all"] if more > 0 else [])])


def _print(screen: Screen, done: Imported, format: ImportFormat, written: Written) -> None:
    """Print what was imported and written. What is missing, and what to do next, is printed to standard error."""
    repeats = f" ({done.repeats} repeating the question of an earlier row)" if done.repeats else ""
    typer.echo(
        f"{quantity(len(done.questions), 'question')} from {quantity(done.rows, 'row')}{repeats} of {format.name}"
    )
    for path, moved in written.files.items():
        typer.echo(f"  {path}{f' (the earlier file is now {moved})' if moved else ''}")
    if written.recordings is not None:
        models = f" from {len(done.models)} models" if len(done.models) > 1 else ""
        typer.echo(f"{quantity(len(done.recordings), 'recorded answer')}{models}")
        if done.unanswered:
            screen.note(f"{quantity(len(done.unanswered), 'row')} without a recording:\n{_lines(done.unanswered)}")
        if len(done.models) > 1:
            screen.note(_select_model(done.models, written.recordings))
    elif done.recordings:
        answers = quantity(len(done.recordings), "answer")
        screen.note(f"The source contains {answers}; add --recordings FILE.jsonl to write all answers to a file")
    if written.labels is not None:
        unclear = sum(label.get("right") is None for label in done.labels)
        more = f", {unclear} of them neither right nor wrong" if unclear else ""
        typer.echo(f"{quantity(len(done.labels), 'label')}{more}")
        screen.note(f"After the run: karenina calibrate RESULTS {quote(str(written.labels))}")
    elif done.labels:
        count = quantity(len(done.labels), "verdict")
        screen.note(
            f"The source contains {count} given by people; add --recordings FILE.jsonl --labels FILE.csv "
            "to write all verdicts to a file"
        )
    if done.left_out:
        counts = ", ".join(f"{count} {what}" for what, count in done.left_out.most_common())
        screen.note(f"Not carried over: {counts}")
    for note in done.notes:
        screen.note(note)
    if done.unchecked:
        count = (
            f"The {'question has' if done.unchecked == 1 else 'questions have'} neither a template nor traits"
            if done.unchecked == len(done.questions)
            else f"Found {quantity(done.unchecked, 'question')} with neither a template nor traits"
        )
        them = "it" if done.unchecked == 1 else "them"
        has_truths = any("raw_answer" in question for question in done.questions.values())
        cure = (
            "add --map answer=text (or number, integer, boolean, date, choice)"
            if has_truths
            else "no correct answers were found, so map their path with --map raw_answer=PATH, add traits"
        )
        screen.note(
            f"{count}, so answers to {them} cannot be judged yet; {cure}, declare fields in "
            f"{written.mapping}, or use `karenina run --skip-broken` to leave {them} out"
        )


def _select_model(models: Sequence[str], recordings: Path) -> str:
    """Return a text that explains how to judge the recordings of one of several models."""
    import json
    from shlex import quote

    extra = {"model": models[0]}
    named = {"interface": "manual", "id": models[0], "model_name": models[0]}
    spec = {**named, "manual_traces": str(recordings), "extra": extra}
    return (
        f"The recordings are from {len(models)} models: {', '.join(models)}. To judge one or more of them, replace "
        f"--recordings with\n  --answering {quote(json.dumps(spec))}"
    )


def _print_json(screen: Screen, done: Imported, format: ImportFormat, written: Written) -> None:
    """Print what was imported and written as a single JSON object."""

    def listed(problems: Sequence[RowProblem]) -> list[dict[str, str]]:
        return [{"place": problem.place, "problem": problem.what} for problem in problems]

    screen.json(
        {
            "format": format.key,
            "rows": done.rows,
            "questions": len(done.questions),
            "repeats": done.repeats,
            "recordings": len(done.recordings),
            "models": done.models,
            "labels": len(done.labels),
            "left_out": dict(done.left_out),
            "notes": list(done.notes),
            "problems": listed(done.problems),
            "unanswered": listed(done.unanswered),
            "files": [str(path) for path in written.files],
        }
    )
