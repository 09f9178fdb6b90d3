"""`karenina demo`: evaluate a small local model with a small local judge."""

from __future__ import annotations

import json
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karenina_cli.hookspecs import Demo, karenina_demos
from karenina_cli.input import completion_values
from karenina_cli.input.options import ResultsJSON
from karenina_cli.output.progress_lines import call_every
from karenina_core.hooks import hookimpl
from karenina_terminal.options import output_option
from karenina_terminal.screen import get_screen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_engine.progress.observers import StageStarted
    from karenina_engine.results.result_set import VerificationResultSet
    from karenina_terminal.screen import Screen

OUTPUT: Final = Path("karenina-demo.results.jsonl")
SILENCE: Final = 4.0
"""Progress is printed after this many seconds without output."""


def demo(
    ctx: typer.Context,
    answering: Annotated[
        str | None,
        typer.Option(
            help="The model under test: a name from `karenina model list`.",
            show_default="smollm2-135m",
            autocompletion=completion_values.demo_models,
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="The judge model; qwen2.5-coder-1.5b is larger and slower.",
            show_default="qwen2.5-coder-0.5b",
            autocompletion=completion_values.demo_models,
        ),
    ] = None,
    output: Annotated[Path, output_option("The result file, one JSON object per line.")] = OUTPUT,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Show a recorded run of the default models, which needs no download.")
    ] = False,
    as_json: ResultsJSON = False,
) -> None:
    """Evaluate a small local model on fourteen questions. Needs no API key.

    The first run downloads the model and a small judge, and prints their sizes and licenses.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        if recorded and (answering or judge):
            screen.fail("--recorded shows a run of the default models; leave out --answering and --judge")
        offered = _offered(screen)
        answering, judge = answering or offered.answering, judge or offered.judge
        if recorded:
            screen.note(f"A recorded run: no model runs now. {answering} answered, and {judge} judged.\n")
            config = offered.recorded_config()
        else:
            offered.get(list(dict.fromkeys((answering, judge))), screen.note)
            screen.note(
                f"{answering} answers, and {judge} judges. Both run locally. First they are loaded, and the judge "
                "reads its instructions, which later runs need not repeat.\n"
            )
            config = offered.config(answering, judge)
        results = _run(screen, offered, config, output, show=not as_json)
        if as_json:
            screen.json(
                {
                    "results": [
                        {"question_id": result.question_id, **json.loads(result.model_dump_json())}
                        for result in results
                    ],
                    "summary": results.summary().model_dump(mode="json"),
                    "output": str(output),
                }
            )
            return
        _print_end(screen, results, offered.agreement(judge), output)


def _offered(screen: Screen) -> Demo:
    """Return the first demo provided by a plugin, or exit with an error if there is none."""
    from karenina_core.catalog import install_command
    from karenina_terminal.command_hook import command_plugins

    demos = command_plugins().call(karenina_demos, Demo)
    if not demos:
        screen.fail(
            "no installed plugin provides a demo; install karenina-local, which does: "
            f"{install_command('karenina-local')}"
        )
    return demos[0]


class _Progress:
    """Prints the progress of a run of `items` items when no result has been printed for some seconds."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = self._printed = time.monotonic()
        self._answered = self._judged = 0
        self.items = 0

    @hookimpl
    def karenina_stage_finished(self, event: StageStarted) -> None:
        """Count an answer."""
        self._answered += event.stage == "GenerateAnswer"

    @hookimpl
    def karenina_item_finished(self) -> None:
        """Count a result that is being printed."""
        self._judged += 1
        self._printed = time.monotonic()

    def print_line(self) -> None:
        """Print the counts, unless something was printed recently."""
        now = time.monotonic()
        if now - self._printed >= SILENCE:
            self._printed = now
            counts = f"{self._answered} of {self.items} answered, {self._judged} judged"
            self._screen.note(f"{now - self._began:.0f} s: {counts}")


def _run(screen: Screen, demo: Demo, config: Mapping[str, Any], output: Path, *, show: bool) -> VerificationResultSet:
    """Run the demo, print each result as it arrives, write all to `output`, and return them. Without `show`, only the
    outcome of each is printed, to standard error.
    """
    from karenina_benchmark import Benchmark
    from karenina_cli.output.result_output import print_result
    from karenina_core import VerificationConfig, VerificationResult
    from karenina_engine.run.execution import collect_results, run_blocking
    from karenina_engine.run.prepare import prepare_session
    from karenina_engine.run.request import RunRequest

    with demo.questions() as path:
        benchmark = Benchmark.load(path)
    progress = _Progress(screen)
    session = prepare_session(RunRequest(benchmark, VerificationConfig(**config), observers=[progress]))
    progress.items = len(session)
    done = 0

    def report(result: VerificationResult) -> None:
        """Print the result in full or, without `show`, only its outcome."""
        nonlocal done
        done += 1
        position = f"{done}/{len(session)}"
        if show:
            print_result(screen.out, result, position)
        else:
            screen.note(f"{position} {result.question_id}: {result.outcome.value}")

    with call_every(SILENCE / 8, progress.print_line):
        return run_blocking(lambda: collect_results(session, output=output, on_result=report))


def _print_end(screen: Screen, results: VerificationResultSet, agreement: str, output: Path) -> None:
    """Print the summary, the judge's agreement with people, and what to do next."""
    from karenina_cli.output.summary_output import print_summary

    print_summary(screen.out, results)
    screen.out.print(f"Results    {output}", soft_wrap=True, markup=False)
    if agreement:
        screen.note(f"\nSmall judges make mistakes. {agreement}")
    screen.note(
        f"\nNext: `karenina show {quote(str(output))}` prints every stage of every answer; `karenina run FILE "
        "--answering openai:MODEL@http://host/v1` evaluates your own model."
    )
