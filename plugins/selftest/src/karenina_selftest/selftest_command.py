"""`karenina selftest`, which tests a judge with answers whose verdicts are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karenina_benchmark import Benchmark
from karenina_benchmark.config.model_specs import recording_interface
from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.model_options import ModelsWithoutAnswering
from karenina_cli.input.options import ConfigOptions, TrustAll, benchmark_argument
from karenina_core.config import VerificationConfig
from karenina_core.errors import ConfigError
from karenina_terminal.completion import matching
from karenina_terminal.options import (
    JournalPath,
    JSONObject,
    NoProgress,
    TableOptions,
    output_option,
    with_option_groups,
)
from karenina_terminal.screen import get_screen
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.data.trust import Trust
    from karenina_engine.run.request import RunRequest
    from karenina_selftest.cases import Case
    from karenina_selftest.scores import JudgeScore
    from karenina_terminal.screen import Screen


RUN_NAME: Final = "selftest"
_FIXED: Final = ("answering_models", "replicate_count", "evaluation_mode")
"""Settings that a self-test sets itself."""


def make_benchmark(cases: Sequence[Case]) -> Benchmark:
    """Return a benchmark with one question for each case, under the case's ID, with its family as the only keyword, and
    without rubrics, few-shot examples and workspaces.
    """
    benchmark = Benchmark.create(name="Self-test of a judge")
    for case in cases:
        benchmark.add_question(
            case.question.changed(
                id=case.id,
                keywords=(case.family,),
                rubric=None,
                dynamic_rubric=None,
                few_shot_examples=(),
                workspace_path=None,
            )
        )
    return benchmark


def make_config(cases: Sequence[Case], settings: VerificationConfig) -> VerificationConfig:
    """Return the configuration of a self-test, in which the cases' answers are recordings. The settings
    `answering_models`, `replicate_count` and `evaluation_mode` are ignored. Raises `ConfigError` if `settings` has no
    judge.
    """
    chosen = {name: value for name, value in settings.given().items() if name not in _FIXED}
    if not chosen.get("parsing_models"):
        raise ConfigError(["a self-test needs a judge; add a judge, for example --judge openai:NAME"])
    recorded: Mapping[str, Any] = {"id": "recorded", "interface": recording_interface(), "model_name": "recorded"}
    return VerificationConfig(
        **{
            "run_name": RUN_NAME,
            **chosen,
            "evaluation_mode": "template_only",
            "answering_models": [{**recorded, "manual_traces": {case.id: case.response for case in cases}}],
        }
    )


OUTPUT: Final = Path("karenina-selftest.results.jsonl")
FAILED: Final = 1
"""The exit code if --min-specificity or --min-sensitivity is not reached."""
app = typer.Typer()
EPILOG: Final = (
    "\b\nExit codes:\n"
    "  0    the judge was tested\n"
    "  1    a lower limit is below --min-specificity or --min-sensitivity\n"
    "  2    bad input, such as too few cases to show a limit; no model was called\n"
    "  3    the budget is spent; run the same command with a larger budget to continue\n"
    "  4    no case was judged\n"
    "  70   an error in the program or a plugin, or the journal or output could not be written\n"
    "  124  run_timeout expired; run the same command to continue\n"
    "  130  stopped with Ctrl-C; run the same command to continue\n"
)
_MOST_LEFT_OUT: Final = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """The specificity and sensitivity that must be shown. None means that there is no minimum."""

    specificity: float | None
    sensitivity: float | None

    def check(self, cases: Sequence[Case]) -> None:
        """Raise `ConfigError` if there are too few right or wrong cases to show that the required sensitivity and
        specificity are reached.
        """
        from karenina_selftest.scores import require_enough_cases

        if self.specificity is not None:
            require_enough_cases(cases, self.specificity, passes=False)
        if self.sensitivity is not None:
            require_enough_cases(cases, self.sensitivity, passes=True)

    def unmet(self, score: JudgeScore) -> list[str]:
        """Return a message for each limit that is above the lower end of the score's 95% interval, or for which no case
        was judged.
        """
        checked = (
            ("specificity", score.specificity, self.specificity),
            ("sensitivity", score.sensitivity, self.sensitivity),
        )
        return [
            f"{in_one_line(score.name)}: the lower limit of the judge's {name} is {_limit(shown)}, but "
            f"--min-{name} is {least:g}"
            for name, shown, least in checked
            if least is not None and (shown is None or shown < least)
        ]


def _families(incomplete: str) -> list[str]:
    """Return the matching families of the shipped cases, for shell completion."""
    from karenina_selftest.cases import shipped_cases

    return matching((case.family for case in shipped_cases()), incomplete)


@app.command(epilog=EPILOG)
@with_option_groups
def selftest(
    ctx: typer.Context,
    *,
    file: Annotated[
        Path | None, benchmark_argument("A benchmark. More cases are made from its templates.", "[FILE]")
    ] = None,
    table: TableOptions,
    models: ModelsWithoutAnswering,
    setup: ConfigOptions,
    family: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Use only this family of cases.", autocompletion=_families),
    ] = None,
    own_only: Annotated[bool, typer.Option("--own-only", help="Use only the cases made from FILE.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many cases, evenly selected.")] = None,
    min_specificity: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.999,
            help="Exit with code 1 unless the judge is shown to fail at least this share of the answers that must "
            "fail, based on the lower limit of the 95% interval.",
        ),
    ] = None,
    min_sensitivity: Annotated[
        float | None, typer.Option(min=0, max=0.999, help="The same as --min-specificity, for answers that must pass.")
    ] = None,
    worst: Annotated[
        int, typer.Option(min=0, help="The maximum number of wrong verdicts to print for each judge.")
    ] = 10,
    output: Annotated[Path, output_option("The result file.")] = OUTPUT,
    journal: JournalPath = None,
    trust_all: TrustAll = False,
    as_json: JSONObject = False,
    quiet: NoProgress = False,
) -> None:
    """Test a judge with attacks and honest answers whose verdicts are known, and print how often it is wrong.

    The answers are recorded, and judged like those of a run: the same prompts, journal, budget and concurrency. The
    rates are stored for this user, and `karenina report` shows them next to the runs of the same judge.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.running.run_execution import run_for_results
        from karenina_engine.check.restricted_values import require_trust, resolve_trust
        from karenina_engine.results.result_file import check_output, default_journal
        from karenina_engine.run.request import RunRequest
        from karenina_selftest.scores import score_judges

        trust = resolve_trust("all" if trust_all else None)
        benchmark = _load(file, trust, table.parse())
        chosen = read_configuration(benchmark, setup.config, setup.settings, models=models)
        if benchmark is not None:
            _, chosen = require_trust(benchmark, chosen, trust)
        cases, every = _select_cases(screen, benchmark, trust, family, limit, own_only=own_only)
        limits = Limits(min_specificity, min_sensitivity)
        limits.check(cases)
        check_output(output)
        request = RunRequest(
            make_benchmark(cases),
            make_config(cases, chosen),
            trust=trust,
            output=output,
            journal=journal or default_journal(output),
            config_file=setup.config,
        )
        scores = score_judges(cases, run_for_results(screen, request, output, quiet=quiet))
        _store(scores, request, output, _name_cases(file, len(cases), every, own_only=own_only))
        unmet = [text for score in scores for text in limits.unmet(score)]
        if as_json:
            screen.json({"judges": [score.model_dump(mode="json") for score in scores], "unmet": unmet})
        else:
            _print(screen, scores, worst, output)
        _exit(screen, scores, unmet)


def _load(file: Path | None, trust: Trust, reading: Mapping[str, str] | None) -> Benchmark | None:
    """Load the benchmark in `file`, or return None if there is no file. Raises `ConfigError` if `reading` contains
    table options without a file, and `BenchmarkErrors` if the file cannot be loaded.
    """
    from karenina_cli.input.named_files import load_checked

    if file is None and reading:
        raise ConfigError(["--columns, --rows, --encoding, --sheet and --exact apply only to a table; specify FILE"])
    return load_checked(file, trust, columns=reading) if file is not None else None


def _select_cases(
    screen: Screen,
    benchmark: Benchmark | None,
    trust: Trust,
    families: Sequence[str] | None,
    limit: int | None,
    *,
    own_only: bool,
) -> tuple[list[Case], int]:
    """Return at most `limit` evenly spaced cases of the given families (by default all), and the number of all cases:
    the shipped ones, unless `own_only` is set, and those made from the benchmark. Prints the questions from which no
    cases are made. Raises `ConfigError` if no case remains, a family is unknown, or `own_only` is set without a
    benchmark.
    """
    from karenina_core.errors import ConfigError
    from karenina_selftest.cases import shipped_cases
    from karenina_selftest.own_cases import make_own_cases
    from karenina_template.templates.primitives import files_in

    if own_only and benchmark is None:
        raise ConfigError(["--own-only requires a benchmark; specify FILE"])
    cases = [] if own_only else list(shipped_cases())
    if benchmark is not None:
        with files_in(benchmark.path.absolute().parent if benchmark.path is not None else None):
            own = make_own_cases(benchmark, trust)
        cases += own.cases
        _note_left_out(screen, own.left_out, len(benchmark))
    chosen = [case for case in cases if not families or case.family in families]
    unknown = sorted(set(families or ()) - {case.family for case in cases})
    if unknown or not chosen:
        names = ", ".join(dict.fromkeys(case.family for case in cases)) or "none, because no template in FILE has cases"
        which = f"unknown family {unknown[0]!r}" if unknown else "no cases were selected"
        raise ConfigError([f"{which}; available families: {names}"])
    if limit is not None and limit < len(chosen):
        chosen = [chosen[number * len(chosen) // limit] for number in range(limit)]
    return chosen, len(cases)


def _note_left_out(screen: Screen, left_out: Mapping[str, str], questions: int) -> None:
    """Print the number of questions from which no cases are made, if any, and the first 5 of them with the reasons."""
    if not left_out:
        return
    lines = [f"  {id}: {why}" for id, why in list(left_out.items())[:_MOST_LEFT_OUT]]
    more = [f"  and {len(left_out) - _MOST_LEFT_OUT} more"] if len(left_out) > _MOST_LEFT_OUT else []
    head = f"No cases were made from {len(left_out)} of {quantity(questions, 'question')}:"
    screen.note("\n".join([head, *lines, *more]))


def _store(scores: Sequence[JudgeScore], request: RunRequest, output: Path, cases: str) -> None:
    """Store the scores in the user's state folder, except those of judges without a verdict. Raises `UserStateError` if
    this fails.
    """
    from karenina_selftest.store import settings_digest, store_scores

    tested = [score for score in scores if score.false_pass.out_of or score.false_fail.out_of]
    store_scores(tested, cases=cases, settings=settings_digest(request.config), results=output)


def _name_cases(file: Path | None, used: int, total: int, *, own_only: bool) -> str:
    """Return a description of the cases: the pack's digest (unless `own_only` is set), the file's name, the number of
    `used` cases and, if it is higher, the `total` number of cases.
    """
    from karenina_selftest.cases import pack_digest

    parts = [*([] if own_only else [f"pack {pack_digest()}"]), *([file.name] if file is not None else [])]
    return " and ".join(parts) + (f", {used} of {total} cases" if used < total else f", {used} cases")


def _print(screen: Screen, scores: Sequence[JudgeScore], worst: int, output: Path) -> None:
    """Print the scores with at most `worst` wrong verdicts each, and how to see every case."""
    from karenina_selftest.scores import score_sections
    from karenina_terminal.text_layout import format_sections

    for line in format_sections(score_sections(scores, worst), screen.out.width):
        typer.echo(line)
    screen.note(
        f"`karenina show {quote(str(output))}` prints each case; `karenina report` shows these rates alongside runs."
    )


def _exit(screen: Screen, scores: Sequence[JudgeScore], unmet: Sequence[str]) -> None:
    """Print `unmet`, and exit with `NOTHING_JUDGED` if no case was judged, or `FAILED` if a limit is not met."""
    from karenina_terminal.screen import ExitCode

    for text in unmet:
        screen.note(text)
    if not any(score.false_pass.out_of or score.false_fail.out_of for score in scores):
        screen.note("No case has a verdict: each one ended in an error or was undecided.")
        raise typer.Exit(ExitCode.NOTHING_JUDGED)
    if unmet:
        raise typer.Exit(FAILED)


def _limit(value: float | None) -> str:
    return "not shown by any case" if value is None else f"{value:.3f}"
