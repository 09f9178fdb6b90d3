"""`karenina plugins`: what is installed, and whether it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from karenina_core.cli.screen import clean, screen_of

if TYPE_CHECKING:
    from karenina_core.plugins import PluginInfo

_STYLES = {"loaded": "green", "failed": "red", "conflict": "red", "blocked": "yellow"}


def list_plugins(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the installed stages, adapters and other plugins, and what is wrong with those that cannot be used."""
    screen = screen_of(ctx)
    with screen.telling_errors():
        found = described()
        if as_json:
            screen.json({"plugins": found})
            return
        table = Table()
        for name in ("Name", "Kind", "From", "State", "Details"):
            table.add_column(name, overflow="fold")
        for one in found:
            table.add_row(
                Text(one["name"]),
                one["kind"],
                f"{one['distribution']} {one['version']}",
                Text(one["state"], _STYLES.get(one["state"], "")),
                Text(clean(_details(one))),
            )
        screen.out.print(table)


def described() -> list[dict[str, Any]]:
    """Every plugin as JSON values: name, kind, distribution, version, state, failure; adapters also `description`,
    `tier`, `ports`, and `available` with the `reason` where it is not."""
    from karenina_core import plugins

    current = plugins.current()
    current.stages()
    adapters = {(one.spec.interface, one.distribution): one.spec for one in current.adapters()}
    found = []
    for info in current.describe():
        one = _described(info)
        spec = adapters.get((info.name, info.distribution)) if info.kind == "adapter" else None
        if spec is not None:
            reason = spec.unavailable() if spec.unavailable is not None else None
            one |= {
                "description": spec.description,
                "tier": spec.tier.value,
                "ports": list(spec.ports),
                "available": reason is None,
                "reason": reason,
            }
        found.append(one)
    return found


def _described(info: PluginInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "kind": info.kind,
        "distribution": info.distribution,
        "version": info.version,
        "state": info.state,
        "failure": info.failure,
    }


def _details(one: dict[str, Any]) -> str:
    if one["failure"]:
        return str(one["failure"])
    if "tier" not in one:
        return ""
    missing = "" if one["available"] else f"; not available: {one['reason']}"
    return f"{one['description']} ({', '.join(one['ports'])}; {one['tier']}{missing})"
