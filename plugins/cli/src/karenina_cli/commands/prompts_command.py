"""`karenina prompts`: print a question's prompts without calling a model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from karenina_cli.input import completion_values
from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.model_options import ModelOptions
from karenina_cli.input.options import ConfigOptions, TrustAll, benchmark_argument, question_option
from karenina_terminal.lazy_commands import StrictCommand
from karenina_terminal.options import PrintJSON, TableOptions, with_option_groups
from karenina_terminal.screen import Screen, get_screen
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.config import VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_core.models.prompts import PromptTask
    from karenina_core.plugins import Plugins
    from karenina_engine.offline.prompt_preview import OwnedTask, Prompt, PromptPreview

TRUTH = "contains the ground truth, by design"


class PromptsCommand(StrictCommand):
    """A command that accepts `--task` with or without a name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, using an empty value for `--task` without a name."""
        words: list[str] = []
        for at, word in enumerate(args):
            bare = word in ("--task", "-t") and (at + 1 == len(args) or args[at + 1].startswith("-"))
            words.append("--task=" if bare else word)
        return super().parse_args(ctx, words)


app = typer.Typer()


@app.command(cls=PromptsCommand)
@with_option_groups
def prompts(
    ctx: typer.Context,
    *,
    file: Annotated[
        Path | None, benchmark_argument("A benchmark. Without one, only the prompt tasks are listed.")
    ] = None,
    setup: ConfigOptions,
    tables: TableOptions,
    models: ModelOptions,
    question: Annotated[
        str | None, question_option("Print the prompts of this question. Default: the first question in the file.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            "-t",
            metavar="[NAME]",
            help="Print only this task, or the tasks of this family; without a name, list the tasks.",
            autocompletion=completion_values.prompt_tasks,
        ),
    ] = None,
    answer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The text used as the answer of the model under test.")
    ] = None,
    trust_all: TrustAll = False,
    as_json: PrintJSON = False,
) -> None:
    """Print every prompt of a question as a run sends it, with placeholders for replies, without calling a model.

    Without FILE, list the prompt tasks. Stages execute as in a run. The configuration need not name any models; if it
    names several for the same role, the first one is used.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_benchmark import Benchmark
        from karenina_core.data.trust import Trust
        from karenina_core.errors import ConfigError
        from karenina_engine.check.restricted_values import check_restricted_values
        from karenina_engine.user_files import load_trust
        from karenina_toolkit.plugin_lookup import plugins_of

        trust = Trust.all() if trust_all else load_trust()
        benchmark = Benchmark.load(file, trust, columns=tables.parse()) if file is not None else None
        chosen = read_configuration(benchmark, setup.config, setup.settings, models=models)
        if benchmark is not None:
            chosen = check_restricted_values(benchmark, chosen, trust)
        plugins = plugins_of(chosen)
        if task and "" in task:
            _list_tasks(screen, plugins, as_json=as_json)
            return
        names = _check_task_names(task, plugins)
        if benchmark is not None:
            preview = _preview(benchmark, chosen, plugins, question, answer, trust)
            if as_json:
                screen.json(_preview_json(preview, names))
            else:
                _print_preview(screen, preview, names, of=len(benchmark))
            return
        for option, value in (("--question", question), ("--answer", answer)):
            if value is not None:
                raise ConfigError([f"{option} applies to a question; specify the benchmark file as well"])
        _print_tasks(screen, plugins, names, as_json=as_json)


def _check_task_names(names: list[str] | None, plugins: Plugins) -> set[str] | None:
    """Return the names of the tasks to print, or None for all tasks. Raises `ConfigError` for an unknown name."""
    from karenina_core.errors import ConfigError
    from karenina_core.text import did_you_mean
    from karenina_engine.offline.prompt_preview import declared_tasks

    declared = [task.task for task in declared_tasks(plugins)]
    declared_names = {name for task in declared for name in (task.name, task.family) if name is not None}
    unknown = [name for name in names or () if name not in declared_names]
    if unknown:
        raise ConfigError(
            [
                f"--task: no stage has a prompt task named {name!r}{did_you_mean(name, declared_names)}"
                for name in unknown
            ]
        )
    return set(names) if names else None


def _preview(
    benchmark: Benchmark,
    config: VerificationConfig,
    plugins: Plugins,
    id: str | None,
    answer: str | None,
    trust: Trust,
) -> PromptPreview:
    """Return the prompts of the question with this `id`, or of the first question, without calling a model. Without
    `answer`, a placeholder is used as the model's answer. Raises `ConfigError` if there is no such question.

    With the placeholder, conversations have all their turns.
    """
    from karenina_core.errors import ConfigError
    from karenina_engine.check.questions import select_questions
    from karenina_engine.offline.prompt_preview import PLACEHOLDER, preview_prompts

    if not len(benchmark):
        raise ConfigError([f"{benchmark.path} contains no questions; add one"])
    (question,) = select_questions(benchmark, config, [id if id is not None else benchmark.ids[0]])
    text = answer if answer is not None else PLACEHOLDER
    longest = True if answer is None else None
    return asyncio.run(preview_prompts(question, config, plugins, trust=trust, answer=text, longest=longest))


def _is_wanted(task: PromptTask | None, names: set[str] | None) -> bool:
    """Return whether `names` is None, or contains the task's name or family. Without a task, `names` must be None."""
    return names is None or (task is not None and not names.isdisjoint({task.name, task.family}))


def _preview_json(preview: PromptPreview, names: set[str] | None) -> dict[str, Any]:
    """Convert the selected tasks of a preview, and the stages that failed, to a JSON-compatible dict. If `names` is
    None, all tasks are selected.
    """
    return {
        "question": preview.question.id,
        "prompts": [_prompt_json(prompt) for prompt in preview.prompts if _is_wanted(prompt.task, names)],
        "unsaid": [
            {
                "task": unused.task.name,
                "stage": unused.stage,
                "why": unused.why,
                "instructions": unused.task.instructions,
            }
            for unused in preview.unused
            if _is_wanted(unused.task, names)
        ],
        "failed": [{"stage": stage, "error": error} for stage, error in preview.failed.items()],
    }


def _prompt_json(prompt: Prompt) -> dict[str, Any]:
    """Convert a prompt to a JSON-compatible dict. Only agents' prompts have `options`."""
    data: dict[str, Any] = {
        "stage": prompt.stage,
        "task": prompt.task.name if prompt.task is not None else None,
        "distribution": prompt.distribution,
        "model": prompt.model,
        "port": prompt.port,
        "shows_truth": prompt.task is not None and prompt.task.shows_truth,
        "messages": [message.to_dict() for message in prompt.messages],
        "schema": dict(prompt.schema) if prompt.schema is not None else None,
    }
    if prompt.options is not None:
        data["options"] = {
            "max_turns": prompt.options.max_turns,
            "timeout": prompt.options.timeout,
            "workspace": prompt.options.workspace is not None,
        }
    return data


def _print_preview(screen: Screen, preview: PromptPreview, names: set[str] | None, *, of: int) -> None:
    """Print the selected prompts. Reasons for missing prompts go to standard error. `of` is the number of questions in
    the benchmark.
    """
    screen.note(f"Question {preview.question.id}" + (f", one of {of}" if of > 1 else "") + ". No model is called.")
    for prompt in preview.prompts:
        if _is_wanted(prompt.task, names):
            _print_prompt(screen, prompt)
    for stage, error in preview.failed.items():
        screen.note(f"Warning: {stage} failed, so the prompts after this stage are not shown: {error}")
    for unused in preview.unused:
        if _is_wanted(unused.task, names):
            screen.note(f"Not shown: {unused.task.name} of {unused.stage}: {unused.why}")


def _print_prompt(screen: Screen, prompt: Prompt) -> None:
    """Print a prompt's heading, messages, schema and limits."""
    from karenina_toolkit.attachments.wire import describe

    task = prompt.task.name if prompt.task is not None else "(no declared task)"
    truth = f"; {TRUTH}" if prompt.task is not None and prompt.task.shows_truth else ""
    head = f"== {prompt.stage}: {task} ({prompt.distribution}) to {prompt.model}, {prompt.port} port{truth}"
    _line(screen, head, "bold")
    for message in prompt.messages:
        _line(screen, f"-- {message.role}", "dim")
        for attachment in message.attachments:
            _line(screen, describe(attachment), "dim")
        _line(screen, message.content)
    if prompt.schema is not None:
        _line(screen, "-- schema", "dim")
        _line(screen, json.dumps(prompt.schema, indent=2, ensure_ascii=False))
    if prompt.options is not None:
        place = "a workspace" if prompt.options.workspace is not None else "no workspace"
        _line(screen, f"-- at most {prompt.options.max_turns} turns, in {place}", "dim")
    _line(screen, "")


def _list_tasks(screen: Screen, plugins: Plugins, *, as_json: bool) -> None:
    """Print the tasks and their stages, one task per line, or as a JSON object."""
    from karenina_engine.offline.prompt_preview import declared_tasks

    tasks = list(declared_tasks(plugins))
    if as_json:
        screen.json({"tasks": [_task_json(task) for task in tasks]})
        return
    for task in sorted(tasks, key=lambda owned: owned.task.name):
        _line(screen, _task_head(task).removeprefix("== "))


def _print_tasks(screen: Screen, plugins: Plugins, names: set[str] | None, *, as_json: bool) -> None:
    """Print the tasks that `names` selects, or all of them if it is None, with their instructions."""
    from karenina_engine.offline.prompt_preview import declared_tasks

    tasks = [task for task in declared_tasks(plugins) if _is_wanted(task.task, names)]
    if as_json:
        screen.json({"tasks": [_task_json(task) for task in tasks]})
        return
    for task in tasks:
        _line(screen, _task_head(task), "bold")
        _line(screen, task.task.instructions or "(no instructions of its own)")
        _line(screen, "")


def _task_head(owned: OwnedTask) -> str:
    """Describe a task in one line: name, family, distribution, stages, and whether it shows the ground truth."""
    family = f", family {owned.task.family}" if owned.task.family is not None else ""
    truth = f"; {TRUTH}" if owned.task.shows_truth else ""
    return f"== {owned.task.name}{family} ({owned.distribution}: {', '.join(owned.stages)}){truth}"


def _task_json(owned: OwnedTask) -> dict[str, Any]:
    """Return a task as a JSON-compatible dict."""
    return {
        "task": owned.task.name,
        "family": owned.task.family,
        "stages": list(owned.stages),
        "distribution": owned.distribution,
        "shows_truth": owned.task.shows_truth,
        "instructions": owned.task.instructions,
    }


def _line(screen: Screen, text: str, style: str = "") -> None:
    """Print text to standard output without wrapping, making control characters visible."""
    screen.out.print(Text(clean(text), style), soft_wrap=True)
