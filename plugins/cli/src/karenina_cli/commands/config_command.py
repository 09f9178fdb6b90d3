"""`karenina config`: print the settings with their types, defaults and meanings, and manage presets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from karenina_cli.input import completion_values
from karenina_cli.input.model_options import ModelOptions, option_names
from karenina_cli.input.options import ConfigFile, Settings, name_argument
from karenina_cli.output.field_listing import ListedField, list_fields, nested_model, print_fields, type_of
from karenina_core.models.model import ModelConfig
from karenina_core.plugins import active_plugins
from karenina_core.text import did_you_mean
from karenina_engine.model_settings import allowed_in_files
from karenina_terminal.options import PrintJSON, with_option_groups
from karenina_terminal.screen import get_screen, print_rows, print_wrapped
from karenina_toolkit.plugin_lookup import registered_adapters
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from rich.console import Console

    from karenina_core.config import Setting
    from karenina_terminal.screen import Screen

_BENCHMARK: Final = "benchmark"
ACTIONS: Final = ("save", "list", "delete")


@with_option_groups
def config(
    ctx: typer.Context,
    *,
    name: Annotated[
        str | None,
        name_argument(
            "Print only this setting and the fields of its values, if any; or use `save`, `list` or `delete` to "
            "manage presets.",
            completion_values.setting_names,
        ),
    ] = None,
    preset: Annotated[
        str | None, name_argument("The preset to save or delete.", completion_values.preset_names, "PRESET")
    ] = None,
    file: ConfigFile = None,
    settings: Settings = None,
    models: ModelOptions,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            help="Print a JSON Schema for configuration files; with the name `benchmark`, for benchmarks in YAML.",
        ),
    ] = False,
    as_json: PrintJSON = False,
) -> None:
    """Print the configuration names of the core and the installed plugins, or save, list or delete presets.

    `karenina config answering_models` prints every field of a model and the settings of each adapter.

    `karenina config save NAME` saves the configuration from --config, --set and the model options as a preset for
    `--config NAME`. Keys are not saved. `karenina config list` prints the presets, and `karenina config delete NAME`
    deletes one.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_core.config import VerificationConfig, all_settings

        if name in ACTIONS:
            given = Given(file, settings or (), models)
            run_action(screen, name, preset, given, as_json=as_json)
            return
        check_action(name)
        if preset is not None or file or settings or models:
            raise typer.BadParameter(
                f"a preset, --config, --set, {option_names()} can only be used with `config save NAME`"
            )
        owned = all_settings()
        if schema and name == _BENCHMARK and name not in owned:
            from karenina_benchmark.formats.file_schema import benchmark_schema

            screen.json(benchmark_schema(schema_of(owned)))
            return
        if name is not None:
            if name not in owned:
                VerificationConfig(**{name: None})
            owned = {name: owned[name]}
        if schema:
            screen.json(schema_of(owned))
        elif as_json:
            screen.json({"settings": [_json(setting) for setting in owned.values()]})
        else:
            _print(screen.out, owned)
            if name is not None:
                _print_nested(screen.out, owned[name])


def schema_of(owned: dict[str, Setting]) -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) for configuration files with the given settings."""
    from pydantic import ConfigDict, create_model

    from karenina_benchmark.formats.file_schema import with_tables

    fields: dict[str, Any] = {name: (setting.info.annotation, setting.info) for name, setting in owned.items()}
    model = create_model("VerificationConfig", __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields)
    schema = model.model_json_schema()
    schema["properties"] = with_tables(schema["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _json(setting: Setting) -> dict[str, Any]:
    """Convert a setting and its fields to a JSON-compatible dict."""
    return {
        "name": setting.name,
        "owner": setting.owner,
        "type": type_of(setting.info),
        "default": _default(setting),
        "environment": list(setting.environment),
        "allowed_in_files": allowed_in_files(setting),
        "meaning": setting.meaning,
        "fields": {title: [field.to_json() for field in fields] for title, fields in nested_fields(setting).items()},
    }


def nested_fields(setting: Setting) -> dict[str, list[ListedField]]:
    """Return a dict with a list of the fields of a setting's values, under the setting's name. For model settings,
    there is another list for each adapter's `extra` fields. The dict is empty if the values have no fields.
    """
    model = nested_model(setting.info.annotation)
    if model is None:
        return {}
    fields = {setting.name: list_fields(model)}
    if model is ModelConfig:
        for adapter in registered_adapters(active_plugins()):
            if adapter.spec.extra is not None:
                fields[f"{setting.name}.extra, interface {adapter.spec.interface}"] = list_fields(adapter.spec.extra)
    return fields


def _print_nested(console: Console, setting: Setting) -> None:
    for title, fields in nested_fields(setting).items():
        console.print()
        print_wrapped(console, Text(clean(f"Fields of {title}:")))
        print_fields(console, fields)


def _default(setting: Setting) -> Any:
    """Return a setting's default as JSON, using strings for values that JSON does not support."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(setting.default, fallback=str)


def _print(console: Console, owned: dict[str, Setting]) -> None:
    """Print each setting with its default, owner, meaning, type and environment variables."""
    for setting in owned.values():
        default = clean(json.dumps(_default(setting), ensure_ascii=False))
        head = Text(setting.name, "bold") + Text(f" = {default}", "not bold") + Text(f"  ({setting.owner})", "dim")
        print_wrapped(console, head)
        print_wrapped(console, Text(f"    {setting.meaning}"))
        print_wrapped(console, Text(f"    {type_of(setting.info)}; {' or '.join(setting.environment)}", "dim"))


@dataclass(frozen=True, slots=True)
class Given:
    """The command-line options that make up a configuration."""

    file: Path | None
    settings: Sequence[str]
    models: ModelOptions

    def __bool__(self) -> bool:
        """Return whether any option is set."""
        return bool(self.file or self.settings or self.models)

    def names(self) -> set[str]:
        """Read the configuration file, and return the names of the settings that it and the options set. Raises
        `ConfigError` if it cannot be read.
        """
        from karenina_benchmark.config.config_files import read_config_values
        from karenina_core.config import all_settings, flatten_settings

        owned = all_settings()
        names = set(flatten_settings(read_config_values(self.file))) if self.file is not None else set()
        given = [setting.partition("=")[0].strip() for setting in self.settings]
        names |= {name if name in owned else name.partition(".")[0] for name in given}
        return names | self.models.specs.keys()


def check_action(name: str | None) -> None:
    """Raise `ConfigError` if `name` looks like a misspelling of `save`, `list` or `delete`."""
    from karenina_core.errors import ConfigError

    if name is not None and get_close_matches(name, ACTIONS, n=1, cutoff=0.7):
        raise ConfigError([f"unknown configuration name {name!r}{did_you_mean(name, ACTIONS)}"])


def run_action(screen: Screen, action: str, name: str | None, given: Given, *, as_json: bool) -> None:
    """Save, list or delete presets on disk, and print the result. `action` must be one of `ACTIONS`. Raises
    `typer.BadParameter` for invalid arguments, and `ConfigError` if the action fails.
    """
    if given and action != "save":
        raise typer.BadParameter(f"--config, --set, {option_names()} have no effect on `config {action}`")
    if action == "list":
        if name is not None:
            raise typer.BadParameter(f"`config list` lists all presets; leave out {name!r}")
        _list(screen, as_json)
        return
    if name is None:
        raise typer.BadParameter(f"`config {action}` requires the name of a preset")
    path = _save(name, given) if action == "save" else _delete(name)
    if as_json:
        screen.json({"preset": name, "action": action, "file": str(path)})
    elif action == "save":
        screen.note(f"Saved the preset {name!r} in {path}. Use it with --config {name}")
    else:
        screen.note(f"Deleted the preset {name!r} ({path}).")


def _save(name: str, given: Given) -> Path:
    """Save the options as a preset, and return the path of its file. Raises `typer.BadParameter` if there are no
    options or one is invalid, and `ConfigError` if a setting is invalid or the preset cannot be saved.
    """
    from karenina_benchmark.config.presets import save_preset
    from karenina_cli.input.configuration import read_configuration

    if not given:
        raise typer.BadParameter(f"there is nothing to save; specify --config, --set, {option_names('or')}")
    chosen = read_configuration(None, given.file, given.settings, models=given.models)
    return save_preset(name, chosen, given.names())


def _delete(name: str) -> Path:
    """Delete a preset, and return the path of its file. Raises `ConfigError` if there is no such preset."""
    from karenina_benchmark.config.presets import delete_preset

    return delete_preset(name)


def _list(screen: Screen, as_json: bool) -> None:
    """Print each preset with the names of its settings (in JSON, also their values), or with the reason why it cannot
    be read.
    """
    from karenina_benchmark.config.config_files import read_config_values
    from karenina_benchmark.config.presets import list_presets, presets_folder
    from karenina_core.errors import ConfigError

    listed: list[dict[str, Any]] = []
    for name, path in list_presets().items():
        try:
            listed.append({"name": name, "file": str(path), "values": read_config_values(path), "problem": None})
        except ConfigError as error:
            listed.append({"name": name, "file": str(path), "values": None, "problem": str(error)})
    if as_json:
        screen.json({"presets": listed})
    elif listed:
        rows = [[preset["name"], preset["problem"] or ", ".join(preset["values"]), preset["file"]] for preset in listed]
        print_rows(screen.out, [["preset", "sets", "file"], *rows], texts=(0, 1, 2))
    else:
        screen.note(f"There are no presets in {presets_folder()}. Use `karenina config save NAME` to save one.")
