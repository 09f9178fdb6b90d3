"""`karenina config`: configuration names with owner, type, default, environment variable and meaning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from karenina_cli.screen import clean, get_screen

if TYPE_CHECKING:
    from rich.console import Console

    from karenina_core.config import Setting


def config(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print only this name.", show_default=False)
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print a JSON Schema for configuration files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the configuration names of the core and the installed plugins."""
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_core.config import VerificationConfig, all_settings

        owned = all_settings()
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


def schema_of(owned: dict[str, Setting]) -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) for a configuration file with these names."""
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {name: (setting.info.annotation, setting.info) for name, setting in owned.items()}
    model = create_model("VerificationConfig", __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def _json(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "owner": setting.owner,
        "type": setting.type_name,
        "default": _default(setting),
        "environment": list(setting.environment),
        "from_files": setting.from_files,
        "meaning": setting.meaning,
    }


def _default(setting: Setting) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(setting.default, fallback=str)


def _print(console: Console, owned: dict[str, Setting]) -> None:
    for setting in owned.values():
        default = clean(json.dumps(_default(setting), ensure_ascii=False))
        head = Text(setting.name, "bold") + Text(f" = {default}", "not bold") + Text(f"  ({setting.owner})", "dim")
        console.print(head, soft_wrap=True)
        console.print(Text(f"    {setting.meaning}"), soft_wrap=True)
        console.print(Text(f"    {setting.type_name}; {' or '.join(setting.environment)}", "dim"), soft_wrap=True)
