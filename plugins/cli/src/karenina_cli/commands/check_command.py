"""`karenina check`: print all problems in a benchmark before the first call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.text import Text

from karenina_cli.hookspecs import Level, Rehearsal, karenina_rehearsals
from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.options import ConfigOptions, benchmark_argument
from karenina_cli.output.progress_lines import call_every
from karenina_terminal.command_hook import command_plugins
from karenina_terminal.options import PrintJSON, TableOptions, with_option_groups
from karenina_terminal.screen import ExitCode, Screen, get_screen
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_benchmark import BenchmarkContent
    from karenina_benchmark.checking import CheckReport, Finding
    from karenina_core.config import VerificationConfig
    from karenina_core.errors import KareninaError

_MARKS: Final = {"error": ("✗", "red"), "warning": ("!", "yellow"), "unchecked": ("?", "dim")}
_EVERY: Final = 5.0
"""The number of seconds between progress lines."""
_MANY: Final = 4
"""A finding that occurs more than this many times is printed only once."""


@with_option_groups
def check(
    ctx: typer.Context,
    *,
    file: Annotated[
        Path, benchmark_argument("A benchmark: .yaml, .jsonld, .json, .jsonl, .csv, .tsv, .xlsx or .parquet.")
    ],
    setup: ConfigOptions,
    tables: TableOptions,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 2 if there are only warnings.")] = False,
    trust_all: Annotated[
        bool,
        typer.Option(
            "--trust-all", help="Run the benchmark's code during the check. Use this only for your own files."
        ),
    ] = False,
    run_checks: Annotated[
        bool,
        typer.Option(
            "--run-checks",
            help="Also run the checks of the questions in a sandbox, on the untouched workspace and with the solution, "
            "if there is one. They must be trusted.",
        ),
    ] = False,
    sandbox: Annotated[
        str | None, typer.Option("--sandbox", metavar="TEXT", help="The sandbox for --run-checks, such as bwrap.")
    ] = None,
    as_json: PrintJSON = False,
) -> None:
    """Check a benchmark before the first call, and print all problems in the file with their lines.

    No model is called, and code in the file is run only if it is trusted. Exits with 2 if there is an error. Warnings
    point out probable mistakes and do not prevent a run.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_benchmark.checking import check_file

        if sandbox is not None and not run_checks:
            raise typer.BadParameter(
                "--sandbox has no effect without --run-checks; add --run-checks, or remove --sandbox"
            )
        has_settings = setup.config is not None or bool(setup.settings)

        def configure(benchmark: BenchmarkContent) -> VerificationConfig:
            options = {"--sandbox": {"sandbox": sandbox}} if sandbox is not None else {}
            return read_configuration(benchmark, setup.config, setup.settings, options=options)

        columns = tables.parse()
        progress = _Progress(screen, file)
        with call_every(_EVERY, progress.print_line):
            content, report = check_file(
                file,
                "all" if trust_all else None,
                columns,
                configure if has_settings else None,
                partial(progress.update, "checked"),
            )
            notes = content.load_notes if content is not None else []
            if content is not None and not report.errors:
                planned = partial(progress.update, "planned")
                report = report._replace(findings=(*report.findings, *_try_plans(content, configure, planned)))
            if content is not None and not report.errors:
                messages = _inspect(content, configure, "all" if trust_all else None)
                if run_checks:
                    import asyncio

                    rehearsed = partial(progress.update, "rehearsed")
                    messages += asyncio.run(
                        _rehearse(content, configure(content), "all" if trust_all else None, rehearsed)
                    )
                notes = [*notes, *(text for level, _, text in messages if level == "note")]
                found = [_make_finding(content, level, id, text) for level, id, text in messages if level != "note"]
                report = report._replace(findings=(*report.findings, *found))
        if as_json:
            screen.json({**report.to_json(), "notes": notes})
        else:
            for note in notes:
                screen.note(note)
            _print(screen, report)
        if report.errors or (strict and report.warnings):
            raise typer.Exit(ExitCode.BAD_INPUT)


def _inspect(
    content: BenchmarkContent, configure: Callable[[BenchmarkContent], VerificationConfig], trust: Literal["all"] | None
) -> list[tuple[Level, str, str]]:
    """Return what the rehearsals of plugins find without running anything: messages, as tuples of level, question's id
    and text. If the user does not trust a workspace root outside the benchmark's folder, a note says so instead.
    """
    from karenina_engine.check.questions import with_workspace_root
    from karenina_engine.check.restricted_values import RestrictedValues, require_trust, resolve_trust

    found: list[tuple[Level, str, str]] = []
    for one in command_plugins().call(karenina_rehearsals, Rehearsal):
        questions = [question for question in content if one.applies_to(question)]
        if not questions:
            continue
        config = configure(content)
        try:
            resolved, config = require_trust(content, config, trust)
        except RestrictedValues as error:
            roots = [value for value in error.values if value.setting == "workspace_root"]
            if roots:
                found.append(("note", "", f"{roots[0].in_words()}: the workspaces were not read, as it is not trusted"))
                continue
            resolved, config = resolve_trust(trust), with_workspace_root(content, config)
        found += [(level, id, text) for (level, text), id in one.inspect(config, questions, resolved)]
    return found


def _make_finding(content: BenchmarkContent, level: Literal["error", "warning"], id: str, text: str) -> Finding:
    """Return a finding about the question `id` or, if that is empty, about no particular question."""
    from karenina_benchmark.checking import Finding

    place = content.place_of(id) if id else None
    file, where = (place.document.file, place.where()) if place is not None else (None, "")
    return Finding(level, file, where, text, "", id or None)


async def _rehearse(
    content: BenchmarkContent,
    config: VerificationConfig,
    trust: Literal["all"] | None,
    rehearsed: Callable[[int, int], None],
) -> list[tuple[Level, str, str]]:
    """Run the rehearsals of all questions, which execute their checks in a sandbox, and return the messages, as tuples
    of level, question's id and text. Raises `RestrictedValues` if the commands are not trusted, and `ConfigError` if no
    question has checks or the sandbox is unavailable.

    `rehearsed` is called before each of them with the number of those that have ended, and the total.
    """
    from karenina_core.errors import ConfigError
    from karenina_engine.check.restricted_values import require_trust

    resolved, chosen = require_trust(content, config, trust)
    rehearsals = command_plugins().call(karenina_rehearsals, Rehearsal)
    asked = [(one, question) for question in content for one in rehearsals if one.applies_to(question)]
    if not asked:
        raise ConfigError(["--run-checks has nothing to run because no question has checks; remove --run-checks"])
    if problem := next((why for one in rehearsals if (why := one.unavailable(chosen)) is not None), None):
        raise ConfigError([problem])
    found = []
    for number, (one, question) in enumerate(asked):
        rehearsed(number, len(asked))
        found += [(level, question.id, text) for level, text in await one.run(chosen, question, resolved)]
    return found


class _Progress:
    """Progress on standard error, as one line every few seconds, even without a terminal."""

    def __init__(self, screen: Screen, file: Path) -> None:
        self._screen = screen
        self._file = file
        self._step = ""
        self._done, self._total = 0, 0
        self._printed = ""

    def update(self, step: str, done: int, total: int) -> None:
        """Record how many questions are finished in a step, and how many there are in total."""
        self._step, self._done, self._total = step, done, total

    def print_line(self) -> None:
        """Print the current progress, unless it is the same as before."""
        counts = f": {self._done:,} of {quantity(self._total, 'question')} {self._step}" if self._step else ""
        line = f"{'Checking' if counts else 'Reading'} {self._file}{counts}"
        if line != self._printed:
            self._screen.note(line)
        self._printed = line


def _try_plans(
    benchmark: BenchmarkContent,
    configure: Callable[[BenchmarkContent], VerificationConfig],
    planned: Callable[[int, int], None],
) -> Iterator[Finding]:
    """Yield an error for each reason why questions cannot be planned, which may be the configuration. The same reason
    is yielded only once, for the first question. Without any stages, nothing is planned. `planned` is called after each
    question with the number of questions planned so far and the total.
    """
    from karenina_benchmark.checking import Finding
    from karenina_core.errors import KareninaError
    from karenina_engine.check.planner import Planner
    from karenina_toolkit.plugin_lookup import plugins_of

    try:
        chosen = configure(benchmark)
        plugins = plugins_of(chosen)
        if not plugins.of_kind("stage"):
            return
        planner = Planner(chosen, plugins)
    except KareninaError as error:
        yield Finding("error", None, "", _describe_plan_error(error))
        return
    seen: set[str] = set()
    for number, question in enumerate(benchmark, 1):
        try:
            planner.plan(question)
        except KareninaError as error:
            if str(error) not in seen:
                seen.add(str(error))
                yield Finding("error", None, "", _describe_plan_error(error), "", question.id)
        planned(number, len(benchmark))


def _describe_plan_error(error: KareninaError) -> str:
    """Return an error message saying that no plan can be made, and why."""
    from karenina_core.plan import PlanError

    return str(error) if isinstance(error, PlanError) else f"cannot make a plan: {error}"


def _print(screen: Screen, report: CheckReport) -> None:
    """Print the findings and their counts. A finding that occurs more than `_MANY` times is printed once, with some of
    its locations.
    """
    same: dict[tuple[object, ...], list[Finding]] = {}
    for finding in report.findings:
        same.setdefault((finding.level, finding.file, finding.what), []).append(finding)
    for finding in report.findings:
        alike = same[finding.level, finding.file, finding.what]
        repeated = len(alike) > _MANY
        if repeated and finding is not alike[0]:
            continue
        others = quantity(len(alike) - 4, "more place")
        more = f" (also in {', '.join(other.where for other in alike[1:4])} and {others})"
        mark, style = _MARKS[finding.level]
        text = Text(clean(f"{finding}{more if repeated else ''}"), "")
        screen.out.print(Text(f"{mark} ", style) + text, soft_wrap=True)
    counts = [
        quantity(len(findings), word) for findings, word in ((report.errors, "error"), (report.warnings, "warning"))
    ]
    rest = f", {quantity(len(report.unchecked), 'field')} could not be checked" if report.unchecked else ""
    screen.out.print(f"{quantity(report.questions, 'question')} read: {', '.join(counts)}{rest}.", soft_wrap=True)
