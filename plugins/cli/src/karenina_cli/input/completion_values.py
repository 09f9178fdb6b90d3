"""Values for shell completion: question ids, models, settings, executors and files.

Each function takes the word to complete. Some also take the command's context, which contains the earlier arguments.
Imports are local to keep completion fast. Errors are hidden by `karenina_cli.shell_completion`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import Distribution, distributions, entry_points
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin

import typer

from karenina_terminal.completion import CONFIGURATIONS, complete_files, matching, named_files

if TYPE_CHECKING:
    from karenina_core.config import Setting

_MAX_BYTES: Final = 2_000_000


def config_files(incomplete: str) -> list[str]:
    """Return the presets and configuration files that start with `incomplete`."""
    return [*preset_names(incomplete), *complete_files(incomplete, CONFIGURATIONS)]


def preset_names(incomplete: str) -> list[str]:
    """Return the presets that start with `incomplete`."""
    from karenina_benchmark.config.presets import list_presets

    return matching(list_presets(), incomplete)


def question_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the matching question ids from the benchmark on the command line."""
    from karenina_benchmark.question_ids import read_question_ids

    (file,) = named_files(ctx, "file")[:1]
    return matching(read_question_ids(file), incomplete)


def result_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the matching question ids from the result files on the command line, reading up to 2 MB of each."""
    return matching((id for path in named_files(ctx, "files") for id in _read_result_ids(path)), incomplete)


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the matching interfaces, each with a colon, and the matching configured models in short form."""
    interfaces = sorted(f"{point.name}:" for point in entry_points(group="karenina.adapters"))
    return matching([*interfaces, *sorted(_configured_models(ctx))], incomplete)


def settings(incomplete: str) -> list[str]:
    """Complete a setting: return `NAME=` for each match. If only one setting matches, `NAME=VALUE` is returned for each
    of its known values. For input that starts with `slots.`, the completions have the form `slots.SLOT=STAGE`.
    """
    from karenina_core.config import all_settings

    owned = all_settings()
    name, equals, _ = incomplete.partition("=")
    if name.startswith("slots."):
        return matching(_slots(), incomplete)
    names = [setting for setting in owned if setting == name or (not equals and setting.startswith(name))]
    if len(names) > 1 and name not in names:
        return [f"{setting}=" for setting in names]
    values = [f"{setting}={value}" for setting in names for value in _values_of(owned[setting])]
    starts = [f"{setting}=" for setting in names] if not equals else []
    return matching([*starts, *values], incomplete)


def setting_names(incomplete: str) -> list[str]:
    """Return the matching settings and actions of `karenina config`."""
    from karenina_core.config import all_settings

    return matching([*all_settings(), "save", "list", "delete"], incomplete)


def executors(incomplete: str) -> list[str]:
    """Return this project's matching executors that are installed."""
    from karenina_core.catalog import read_catalog

    owners = read_catalog()["executors"].items()
    return matching((name for name, owner in owners if any(Distribution.discover(name=owner))), incomplete)


def demo_models(incomplete: str) -> list[str]:
    """Return the matching default models of the demo."""
    from karenina_cli.hookspecs import Demo, karenina_demos
    from karenina_terminal.command_hook import command_plugins

    demos = command_plugins().call(karenina_demos, Demo)
    return matching((name for demo in demos[:1] for name in (demo.answering, demo.judge)), incomplete)


def plugin_packages(incomplete: str) -> list[str]:
    """Return the matching distributions that have plugins."""
    having = [it.name for it in distributions() if any(at.group.startswith("karenina.") for at in it.entry_points)]
    return matching(sorted(having), incomplete)


def prompt_tasks(incomplete: str) -> list[str]:
    """Return the matching prompt tasks of this project's stages, whether installed or not."""
    from karenina_core.catalog import read_catalog

    return matching(read_catalog()["prompts"], incomplete)


def primitives(incomplete: str) -> list[str]:
    """Return the names of primitives that start with `incomplete`, including those of plugins."""
    from karenina_core.plugins import active_plugins
    from karenina_template.templates import known_primitives

    active_plugins()
    return matching(known_primitives(), incomplete)


def trait_kinds(incomplete: str) -> list[str]:
    """Return the kinds of rubric traits that start with `incomplete`, including those of plugins."""
    from karenina_core.data.rubrics import trait_kinds as known_kinds
    from karenina_core.plugins import active_plugins

    active_plugins()
    return matching(known_kinds(), incomplete)


def _configured_models(ctx: typer.Context) -> Iterator[str]:
    """Yield the models configured in the environment, the `--config` file and the benchmark, in their short form."""
    from karenina_core.config import flatten_settings
    from karenina_engine.model_settings import model_settings, models_in

    for table in _configurations(ctx):
        values = flatten_settings(table)
        for name in model_settings():
            yield from filter(None, map(_short_form, models_in(values.get(name))))


def _configurations(ctx: typer.Context) -> Iterator[Mapping[str, Any]]:
    """Yield the values from the environment, the `--config` file and the `config` section of a benchmark in YAML, in
    this order. What cannot be read is left out, and reported later, when the command runs.
    """
    from karenina_benchmark.config.config_files import read_config_values
    from karenina_core.config import read_environment
    from karenina_core.errors import ConfigError

    yield dict(read_environment())
    with suppress(ConfigError):
        if ctx.params.get("config"):
            yield read_config_values(ctx.params["config"], max_bytes=_MAX_BYTES)
    with suppress(ConfigError):
        for file in named_files(ctx, "file")[:1]:
            if file.suffix.lower() in (".yaml", ".yml"):
                yield read_config_values(file, max_bytes=_MAX_BYTES).get("config") or {}


def _short_form(model: object) -> str | None:
    """Return a model as `interface:model_name` or `interface:model_name@base_url`, or None if it is no mapping with
    both of these names.
    """
    if not isinstance(model, Mapping) or not model.get("interface") or not model.get("model_name"):
        return None
    address = model.get("endpoint_base_url")
    return f"{model['interface']}:{model['model_name']}" + (f"@{address}" if address else "")


def _values_of(setting: Setting) -> Iterable[str]:
    """Return a setting's possible values. If they cannot be listed, return its default if it is a string or number."""
    if setting.name == "executor":
        return executors("")
    choices = list(_choices(setting.info.annotation))
    return choices or ([str(setting.default)] if isinstance(setting.default, (str, int, float)) else [])


def _choices(annotation: Any) -> Iterator[str]:
    """Yield the values of a type that has only a few: literals, booleans, and unions of these."""
    kind = get_origin(annotation)
    if kind is Literal:
        yield from map(str, get_args(annotation))
    elif annotation is bool:
        yield from ("true", "false")
    elif kind in (Union, UnionType):
        for part in get_args(annotation):
            yield from _choices(part)


def _slots() -> Iterator[str]:
    """Yield `slots.SLOT=STAGE` for each of this project's stages that can fill a slot."""
    from karenina_core.catalog import read_catalog

    for stage, slot in read_catalog()["stage_slots"].items():
        yield f"slots.{slot}={stage}"


def _read_result_ids(path: Path) -> Iterator[str]:
    """Yield the question ids in the first 2 MB of a result file."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        lines = file.read(_MAX_BYTES).splitlines()
    for line in lines:
        with suppress(ValueError):  # the last line may be truncated
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("metadata"), dict):
                yield str(row["metadata"].get("question_id", ""))
