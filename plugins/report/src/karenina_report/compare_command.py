"""`karenina compare`: compare runs on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karenina_report.options import AnyJudge, AnyTemplate, Runs, SharedOptions, columns, config_error, is_number
from karenina_terminal.completion import result_files
from karenina_terminal.lazy_commands import StrictCommand
from karenina_terminal.options import JSONObject, TableOptions, with_option_groups
from karenina_terminal.screen import get_screen
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_report.comparison.comparison_result import ComparedRun, Comparison, Pair

FAILED: Final = 1
"""The exit code if `--fail-on-regression` or `--require-within` fails."""
_UNNAMED: Final = "recorded"
"""The name of the answering model in older results of a single recording.

Newer results name the model after the recording's file.
"""
_OPTIONAL: Final = "--fail-on-regression"
app = typer.Typer()
EPILOG: Final = (
    "\b\nExit codes:\n"
    "  0    the runs were compared\n"
    "  1    the condition of --fail-on-regression or --require-within is not met\n"
    "  2    bad input: a file cannot be read, or the runs cannot be compared\n"
)


class FlipDirection(StrEnum):
    """The values of `--flips`."""

    worse = "worse"
    better = "better"


class CompareCommand(StrictCommand):
    """A command that accepts `--fail-on-regression` with or without a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, using 0 for `--fail-on-regression` if no number follows it."""
        words: list[str] = []
        for at, word in enumerate(args):
            bare = word == _OPTIONAL and not (at + 1 < len(args) and is_number(args[at + 1]))
            words.append(f"{word}=0" if bare else word)
        return super().parse_args(ctx, words)


@app.command(cls=CompareCommand, epilog=EPILOG)
@with_option_groups
def compare(
    ctx: typer.Context,
    *,
    files: Runs,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Compare each run with this run (a file or its letter) instead of comparing all pairs.",
            autocompletion=result_files,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Also compare groups of questions by this column: keyword, template_id, ...",
            autocompletion=columns,
        ),
    ] = None,
    shared: SharedOptions,
    table: TableOptions,
    any_judge: AnyJudge = False,
    any_template: AnyTemplate = False,
    changes: Annotated[int, typer.Option(min=0, help="The maximum number of flips and other changes to list.")] = 20,
    flips: Annotated[
        FlipDirection | None,
        typer.Option(
            help="List only questions that the second run of a pair answers worse, or better, than the first."
        ),
    ] = None,
    keyword: Annotated[
        list[str] | None, typer.Option(metavar="KEYWORD", help="List only changed questions with this keyword.")
    ] = None,
    fail_on_regression: Annotated[
        float | None,
        typer.Option(
            _OPTIONAL,
            metavar="[POINTS]",
            min=0,
            help="Exit with 1 if a run is shown to be more than POINTS worse than the first run (or the baseline), "
            "that is, if the upper limit of the difference is below -POINTS. Of 40 equally good runs, "
            "about one fails. The check is repeated with undecided results counted as wrong in the run and "
            "as right in the first run.",
        ),
    ] = None,
    require_within: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            min=0,
            help="Exit with 1 unless each run is shown to be at most POINTS worse than the first run (or the "
            "baseline), that is, unless the lower limit of the difference is above -POINTS. Of 40 runs "
            "that are POINTS worse, about one passes. The check is repeated with undecided results counted "
            "as wrong in the run and as right in the first run.",
        ),
    ] = None,
    as_json: JSONObject = False,
) -> None:
    """Compare runs question by question: the difference with its interval, and the questions that flipped.

    Differences are the first run minus the second, in percentage points. A file with several answering models counts
    as several runs. Questions that are in only one run, or whose template changed, are listed and left out.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_report.comparison.run_comparison import compare as compare_runs

        comparison = compare_runs(
            *files, baseline=baseline, **shared.parse(files, by, table), any_judge=any_judge, any_template=any_template
        )
        if flips is not None or keyword:
            comparison = comparison.select_changes(flips.value if flips is not None else None, keyword or ())
        failures = list(_failures(comparison, fail_on_regression, require_within))
        if as_json:
            screen.json({**comparison.model_dump(mode="json"), "failures": failures})
        else:
            from karenina_report.comparison.comparison_text import comparison_sections
            from karenina_terminal.text_layout import format_sections

            for line in format_sections(comparison_sections(comparison, changes), screen.out.width):
                typer.echo(line)
        if fail_on_regression is not None or require_within is not None:
            for note in _notes(comparison):
                screen.note(note)
        if failures:
            screen.fail("\n".join(failures), FAILED)


def _failures(comparison: Comparison, regression: float | None, within: float | None) -> Iterator[str]:
    """Yield a message for each difference that violates `regression` or `within`, which are the values of
    `--fail-on-regression` and `--require-within` in percentage points, or None. A difference without an interval fails
    only `within`. Raises `ConfigError` if a condition cannot be checked.
    """
    if regression is None and within is None:
        return
    from karenina_report.comparison.comparison_text import interval

    names = {run.label: run.name for run in comparison.runs}
    checked = False
    pairs = [(label, base) for label, base in comparison.bases().items() if base is not None]
    for label, base in pairs:
        for condition, limits in comparison.against(base, label):
            checked = True
            shown = "no interval" if limits is None else f"95% CI {interval(*limits)} points"
            what = f"{label} ({names[label]}) minus {base} ({names[base]}){condition}"
            if regression is not None and limits is not None and limits[1] < -regression / 100:
                yield f"{what} is below {-regression or 0.0:g} points, a regression: {shown}"
            if within is not None and (limits is None or limits[0] <= -within / 100):
                yield f"{what} is not shown to be above {-within or 0.0:g} points: {shown}"
    if not pairs:
        first, *others = (
            f"{in_file[0].source} has {', '.join(run.model for run in in_file)}" for in_file in _by_file(comparison)
        )
        raise config_error(
            f"no answering model is in both files, so the condition cannot be checked ({first}; "
            f"{'; '.join(others)}). Compare runs of the same models{_renamed(comparison)}"
        )
    if not checked:
        raise config_error(
            "no question has a verdict in both runs, so the condition cannot be checked; compare runs of the same "
            "questions"
        )


def _unchecked_note(pair: Pair, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a note with the number of questions that were not checked, and the reasons, if there are any. `names` maps
    run labels to run names.
    """
    left_out = {
        f"only in {names[pair.a]}": len(pair.only_a),
        f"only in {names[pair.b]}": len(pair.only_b),
        "with a different template, ground truth, text or attachments": len(pair.changed),
        "without a verdict in both": len(pair.unpaired),
    }
    if any(left_out.values()):
        main = pair.difference()
        total = sum(left_out.values())
        checked = quantity(main.questions if main is not None else 0, "question")
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        yield (
            f"{names[pair.a]} and {names[pair.b]} were compared on {checked}; {total:,} "
            f"{'was' if total == 1 else 'were'} not checked: {reasons}."
        )


def _by_file(comparison: Comparison) -> list[list[ComparedRun]]:
    """Return the runs in groups, one for each file, in the order of the files. A file with several models has several
    runs.
    """
    files: dict[str | None, list[ComparedRun]] = {}
    for run in comparison.runs:
        files.setdefault(run.source, []).append(run)
    return list(files.values())


def _renamed(comparison: Comparison) -> str:
    """Return a clause for the end of a message if a run's results use the old name of recordings, otherwise "". It
    advises to write these results again.
    """
    old = [run.source for run in comparison.runs if run.model == _UNNAMED]
    if not old:
        return ""
    return (
        f"; {old[0]} contains recordings under the name {_UNNAMED!r}, but recordings are now named after their "
        f"file, so write {old[0]} again with `karenina run`"
    )


def _notes(comparison: Comparison) -> Iterator[str]:
    """Yield a note for each pair with questions that were not checked, for runs that are compared with a different
    model because the first file has no results from theirs, and for each run without a counterpart.
    """
    bases = comparison.bases()
    names = {run.label: f"{run.label} ({run.name})" for run in comparison.runs}
    for pair in comparison.pairs:
        if bases.get(pair.b) == pair.a or bases.get(pair.a) == pair.b:
            yield from _unchecked_note(pair, names)
    first, *after = _by_file(comparison)
    base = first[0]
    for runs in after:
        others = [run for run in runs if run.model != base.model and bases.get(run.label) == base.label]
        if comparison.baseline is None and len(runs) > 1 and others:
            compared = ", ".join(names[run.label] for run in others)
            yield (
                f"The run compared with {compared} is {names[base.label]}, a different model, because {base.source} "
                f"has no results from the same model{'s' * (len(others) > 1)}{_renamed(comparison)}."
            )
    for run in comparison.runs:
        if run.label in bases and bases[run.label] is None:
            yield (
                f"{run.label} ({run.name}) was not checked because {comparison.runs[0].source} has no results from "
                "this model."
            )
        elif run.label not in {*bases, *bases.values()}:
            yield f"{run.label} ({run.name}) was not checked because the other files have no results from this model."
