"""Options shared by the report commands, and writing of their output files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, TypedDict

import typer

from karenina_engine.results.result_file import check_output, prepare_output
from karenina_terminal.completion import benchmark_files, matching, named_files, result_files
from karenina_toolkit.files import replace_file
from karenina_toolkit.raising import raises

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.data.result import VerificationResult
    from karenina_core.errors import ConfigError
    from karenina_terminal.options import TableOptions

_MOST_COMPLETED: Final = 500
"""The number of results of a file that shell completion reads."""


Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Result files or journals of `karenina run`.", autocompletion=result_files),
]


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the matching columns of the result files on the command line, for shell completion."""
    from karenina_report.statistics.columns import column_names

    return matching(column_names(_first_results(ctx)), incomplete)


def _answering_models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the matching ids of answering models in the result files on the command line."""
    return matching((result.metadata.answering_id for result in _first_results(ctx)), incomplete)


def _first_results(ctx: typer.Context) -> Iterator[VerificationResult]:
    """Yield at most `_MOST_COMPLETED` results of each result file or journal on the command line."""
    from karenina_core.errors import KareninaError
    from karenina_report.runs import iterate_results

    for path in named_files(ctx, "files"):
        with suppress(KareninaError):
            yield from islice(iterate_results(path), _MOST_COMPLETED)


Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Treat questions with the same value in this column as one unit. Default: questions with the same text "
        "are one unit.",
        autocompletion=columns,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Use only this answering model's results.", autocompletion=_answering_models),
]
Cut = Annotated[
    list[str] | None,
    typer.Option(metavar="TRAIT=SCORE", help="Also report the share of results whose trait has at least this score."),
]
Scale = Annotated[
    list[str] | None, typer.Option(metavar="TRAIT=LOW:HIGH", help="The lowest and highest score of a trait.")
]
BenchmarkFile = Annotated[
    Path | None,
    typer.Option(
        "--benchmark",
        metavar="FILE",
        help="The benchmark, which adds columns (question metadata) and trait scales and, in reports, field rules "
        "and prompts.",
        autocompletion=benchmark_files,
    ),
]

AnyJudge = Annotated[bool, typer.Option("--any-judge", help="Compare runs with different judges or judge prompts.")]
AnyTemplate = Annotated[
    bool,
    typer.Option(
        "--any-template", help="Also compare questions whose template, ground truth, text or attachments changed."
    ),
]


def is_number(word: str) -> bool:
    """Return whether `float` accepts a word, so that `nan`, `inf` and `1e3` are numbers."""
    return not raises(ValueError, float, word)


def parse_cuts(given: Sequence[str] | None) -> Mapping[str, float]:
    """Parse the score at which each trait is cut, from options such as `clarity=4`. Raises `ConfigError` if an option
    is malformed or a trait is named twice.
    """
    cuts = {}
    for option in given or ():
        name, equals, score = option.rpartition("=")
        if not equals or not name or not is_number(score):
            raise config_error(f"--cut {option!r} is not of the form TRAIT=SCORE, such as --cut clarity=4")
        if name in cuts:
            raise config_error(f"--cut {name} was given more than once; keep only one")
        cuts[name] = float(score)
    return cuts


def parse_scales(given: Sequence[str] | None) -> Mapping[str, tuple[float, float]]:
    """Parse the lowest and highest score of each trait, from options such as `clarity=1:5`. Raises `ConfigError` if an
    option is malformed, if the lowest score is not below the highest, or if a trait is named twice.
    """
    scales = {}
    for option in given or ():
        name, equals, ends = option.rpartition("=")
        low, colon, high = ends.partition(":")
        if not (equals and name and colon and is_number(low) and is_number(high)) or float(low) >= float(high):
            raise config_error(f"--scale {option!r} is not of the form TRAIT=LOW:HIGH, such as --scale clarity=1:5")
        if name in scales:
            raise config_error(f"--scale {name} was given more than once; keep only one")
        scales[name] = (float(low), float(high))
    return scales


def config_error(text: str) -> ConfigError:
    """Return a `ConfigError` with the given message. Imports the class on first use to keep startup fast."""
    from karenina_core.errors import ConfigError

    return ConfigError([text])


class ReportOptions(TypedDict):
    """The keyword arguments shared by `compare` and `describe`."""

    by: str | None
    cluster: str | None
    model: str | None
    cuts: Mapping[str, float]
    scales: Mapping[str, tuple[float, float]]
    benchmark: Benchmark | None


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The options of `compare`, `report` and `stats`, as one parameter of a command (see `with_option_groups`)."""

    cluster: Cluster = None
    model: Model = None
    cut: Cut = None
    scale: Scale = None
    benchmark: BenchmarkFile = None

    def parse(self, files: Sequence[Path], by: str | None, table: TableOptions) -> ReportOptions:
        """Return the options as keyword arguments for `compare` and `describe`, and load the benchmark file if given.
        Raises `ConfigError` for a malformed or repeated `cut` or `scale`, and the errors of `read_named_benchmark`.

        A `cut` or `scale` is repeated if it names a trait twice.
        """
        benchmark = read_named_benchmark(files, self.benchmark, table.parse())
        return {
            "by": by,
            "cluster": self.cluster,
            "model": self.model,
            "cuts": parse_cuts(self.cut),
            "scales": parse_scales(self.scale),
            "benchmark": benchmark,
        }


def read_named_benchmark(
    files: Sequence[Path], benchmark: Path | None, reading: Mapping[str, str] | None
) -> Benchmark | None:
    """Load the benchmark given with `--benchmark`, or return None without this option. A table is read with the options
    in `reading` or, by default, with those of the user's run that wrote `files`. Raises `BenchmarkFileError` if the
    benchmark cannot be read, and `ConfigError` for table options without a benchmark.
    """
    if benchmark is None:
        if reading:
            raise config_error(
                "--columns, --rows, --encoding, --sheet and --exact apply only to the table of a benchmark; specify "
                "its file with --benchmark"
            )
        return None
    from karenina_report.benchmark_questions import load_benchmark
    from karenina_report.rules import find_reading

    return load_benchmark(benchmark, columns=reading or find_reading(files, benchmark))


def moved_note(moved: Path | None) -> str:
    """Return the end of a message with the new path of an earlier output file, or an empty string."""
    return f" (the earlier file was renamed to {moved})" if moved is not None else ""


def write_whole(output: Path, begins: Sequence[bytes], write: Callable[[BinaryIO], None]) -> Path | None:
    """Write `output` all at once, and return the path to which an earlier file of this name was moved, or None. Raises
    `ConfigError` if the existing file does not start with one of `begins`, or if writing fails.

    `write` is called with an open temporary file, which is renamed when it is complete.
    """
    check_output(output, lines=begins)
    moved: Path | None = None

    def write_and_make_room(file: BinaryIO) -> None:
        """Write the temporary file, then rename an existing output."""
        nonlocal moved
        write(file)
        file.flush()  # a full disk is detected before an earlier file is renamed
        moved = prepare_output(output, lines=begins)

    try:
        replace_file(output, write_and_make_room)
    except OSError as error:
        raise config_error(f"the output {output} cannot be written: {error.strerror or error}") from error
    return moved
