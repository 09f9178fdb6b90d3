"""`karenina demo`: a real model answers, a real judge extracts, a program decides, all on this machine."""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karenina_core.cli.screen import screen_of
from karenina_local.catalogue import CatalogueModel
from karenina_local.model_command import fail, known, progress_bar
from karenina_local.store import state_of

if TYPE_CHECKING:
    from karenina_core import Benchmark, VerificationResultSet
    from karenina_core.cli.screen import Screen

ANSWERING: Final = "smollm2-135m"
JUDGE: Final = "qwen2.5-coder-0.5b"
OUTPUT: Final = Path("karenina-demo.results.jsonl")
SYSTEM_PROMPT: Final = "Answer the question in one short sentence."
MOST_ANSWER_TOKENS: Final = 96


def demo(
    ctx: typer.Context,
    answering: Annotated[str, typer.Option(help="The model under test: a name of `karenina model list`.")] = ANSWERING,
    judge: Annotated[str, typer.Option(help="The judge: qwen2.5-coder-1.5b is larger and slower.")] = JUDGE,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the results go, one JSON object a line.")
    ] = OUTPUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print results and summary as one JSON object.")] = False,
) -> None:
    """Have a small model answer fourteen questions and a small judge read the answers. Needs no API key.

    The first time it gets the two models, says what they are, how large and under which licence, and keeps them.
    """
    screen = screen_of(ctx)
    with screen.telling_errors():
        models = [known(name) for name in dict.fromkeys((answering, judge))]
        for model in models:
            _get(screen, model)
        screen.note(f"{answering} answers, {judge} judges. Both run on this machine.\n")
        results = _run(screen, answering, judge, output, show=not as_json)
        if as_json:
            screen.json(
                {
                    "results": [
                        {"question_id": one.question_id, **json.loads(one.model_dump_json())} for one in results
                    ],
                    "summary": results.summary().model_dump(mode="json"),
                    "output": str(output),
                }
            )
            return
        _close(screen, results, known(judge), output)


def demo_benchmark() -> Benchmark:
    """The fourteen questions of the demo."""
    from karenina_core import Benchmark

    with as_file(files("karenina_local").joinpath("demo.yaml")) as path:
        return Benchmark.load(path)


def demo_config(answering: str = ANSWERING, judge: str = JUDGE) -> dict[str, Any]:
    """The configuration of the demo: the names of the two models in the catalogue, or paths of GGUF files."""
    return {
        "answering_models": [
            {
                "id": answering,
                "interface": "local",
                "model_name": answering,
                "system_prompt": SYSTEM_PROMPT,
                "max_tokens": MOST_ANSWER_TOKENS,
                "temperature": 0,
            }
        ],
        "parsing_models": [{"id": judge, "interface": "local", "model_name": judge}],
        "run_name": "demo",
    }


def _get(screen: Screen, model: CatalogueModel) -> None:
    """Pull the model where it is not here, after saying what comes."""
    from karenina_local.errors import PullError
    from karenina_local.pulling import pull

    if state_of(model).installed:
        return
    screen.note(
        f"Getting {model.title}: {model.megabytes} MB, licence {model.licence}, "
        f"SHA-256 {model.sha256[:12]}..., kept in {state_of(model).path.parent}"
    )
    try:
        with progress_bar(model) as report:
            pull(model, progress=report)
    except PullError as error:
        fail(str(error))


def _run(screen: Screen, answering: str, judge: str, output: Path, *, show: bool) -> VerificationResultSet:
    from karenina_core import VerificationConfig, VerificationResult
    from karenina_core.cli.printing import print_result
    from karenina_core.run.execution import collect
    from karenina_core.run.request import RunRequest
    from karenina_core.run.running import prepare, run_blocking

    benchmark = demo_benchmark()
    run = prepare(RunRequest(benchmark, VerificationConfig(**demo_config(answering, judge))))
    done = 0

    def tell(result: VerificationResult) -> None:
        nonlocal done
        done += 1
        position = f"{done}/{len(run)}"
        if show:
            print_result(screen.out, result, position)
        else:
            screen.note(f"{position} {result.question_id}: {result.outcome.value}")

    return run_blocking(lambda: collect(run, output=output, on_result=tell))


def _close(screen: Screen, results: VerificationResultSet, judge: CatalogueModel, output: Path) -> None:
    """The summary, how far to believe it, and where to go from here."""
    from karenina_core.cli.printing import print_summary

    print_summary(screen.out, results)
    screen.out.print(f"Results     {output}", soft_wrap=True, markup=False)
    if judge.agreement:
        screen.note(f"\nSmall judges err. {judge.agreement}")
    screen.note(
        f"\nNext: `karenina show {output}` prints every stage of every answer; `karenina run FILE --answering "
        "openai:MODEL@http://host/v1` evaluates your own model."
    )
