"""`karenina config`: configuration names with owner, type, default, environment variable and meaning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from karenina_cli import completion_values
from karenina_cli.field_listing import ListedField, list_fields, nested_model, print_fields, type_of
from karenina_cli.options import Answering, ConfigFile, Judges, PrintJSON, Settings
from karenina_cli.screen import get_screen, print_wrapped
from karenina_core.config import registered_adapters
from karenina_core.models.model import ModelConfig
from karenina_core.plugins import active_plugins
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from rich.console import Console

    from karenina_core.config import Setting

_BENCHMARK: Final = "benchmark"


def config(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Print only this name, and the fields of its values, if they have some; or `save`, `list` or "
            "`delete`, for presets.",
            show_default=False,
            autocompletion=completion_values.setting_names,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Argument(
            metavar="PRESET",
            help="The preset to save or delete.",
            show_default=False,
            autocompletion=completion_values.preset_names,
        ),
    ] = None,
    file: ConfigFile = None,
    settings: Settings = None,
    answering: Answering = None,
    judge: Judges = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            help="Print a JSON Schema for configuration files; with the name `benchmark`, for benchmarks in YAML.",
        ),
    ] = False,
    as_json: PrintJSON = False,
) -> None:
    """Print the configuration names of the core and the installed plugins, or save a configuration under a name.

    `karenina config answering_models` prints every field of a model, and the settings of each adapter.

    `karenina config save NAME` saves what --config, --set, --answering and --judge give, without keys, as a preset for
    `--config NAME`. `karenina config list` prints the presets, and `karenina config delete NAME` deletes one.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.preset_actions import ACTIONS, Given, check_action, run_action
        from karenina_core.config import VerificationConfig, all_settings

        if name in ACTIONS:
            given = Given(file, settings or (), answering or (), judge or ())
            run_action(screen, name, preset, given, as_json=as_json)
            return
        check_action(name)
        if preset is not None or file or settings or answering or judge:
            raise typer.BadParameter(
                "a preset and --config, --set, --answering and --judge belong to `config save NAME`"
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
    """Return a JSON Schema (draft 2020-12) for a configuration file with these names."""
    from pydantic import ConfigDict, create_model

    from karenina_benchmark.formats.file_schema import with_tables

    fields: dict[str, Any] = {name: (setting.info.annotation, setting.info) for name, setting in owned.items()}
    model = create_model("VerificationConfig", __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields)
    found = model.model_json_schema()
    found["properties"] = with_tables(found["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _json(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "owner": setting.owner,
        "type": type_of(setting.info),
        "default": _default(setting),
        "environment": list(setting.environment),
        "from_files": setting.from_files,
        "meaning": setting.meaning,
        "fields": {title: [field.to_json() for field in fields] for title, fields in nested_fields(setting).items()},
    }


def nested_fields(setting: Setting) -> dict[str, list[ListedField]]:
    """Return the fields of a setting's values by the place that they have in a file; for models also of `extra`."""
    model = nested_model(setting.info.annotation)
    if model is None:
        return {}
    found = {setting.name: list_fields(model)}
    if model is ModelConfig:
        for one in registered_adapters(active_plugins()):
            if one.spec.extra is not None:
                found[f"{setting.name}.extra, interface {one.spec.interface}"] = list_fields(one.spec.extra)
    return found


def _print_nested(console: Console, setting: Setting) -> None:
    for title, fields in nested_fields(setting).items():
        console.print()
        print_wrapped(console, Text(clean(f"Fields of {title}:")))
        print_fields(console, fields)


def _default(setting: Setting) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(setting.default, fallback=str)


def _print(console: Console, owned: dict[str, Setting]) -> None:
    for setting in owned.values():
        default = clean(json.dumps(_default(setting), ensure_ascii=False))
        head = Text(setting.name, "bold") + Text(f" = {default}", "not bold") + Text(f"  ({setting.owner})", "dim")
        print_wrapped(console, head)
        print_wrapped(console, Text(f"    {setting.meaning}"))
        print_wrapped(console, Text(f"    {type_of(setting.info)}; {' or '.join(setting.environment)}", "dim"))
