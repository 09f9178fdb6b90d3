"""`karenina primitives`: the verification primitives that templates can use, with their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from karenina_cli import completion_values
from karenina_cli.screen import get_screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_cli.field_listing import ListedField
    from karenina_cli.kind_listing import ListedKind


def primitives(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Print only this primitive, in full.",
            show_default=False,
            autocompletion=completion_values.primitives,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the primitives, which compare a field of a template with its truth, and their parameters.

    A benchmark file names them under `verify_with`. Plugins add more.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.kind_listing import print_kinds

        print_kinds(screen, "primitive", list_primitives(), name, as_json=as_json)


def list_primitives() -> Sequence[ListedKind]:
    """Return the primitives of the template package and of the active plugins."""
    from karenina_cli.field_listing import list_fields
    from karenina_cli.kind_listing import ListedKind, distribution_of, meaning_of
    from karenina_core import plugins
    from karenina_template.hookspecs import karenina_primitives
    from karenina_template.templates import known_primitives

    offered = {one.value: one.distribution for one in plugins.active_plugins().offers(karenina_primitives)}
    return [
        ListedKind(
            name, offered.get(kind) or distribution_of(kind), meaning_of(kind), fields, _example_usage(name, fields)
        )
        for name, kind in known_primitives().items()
        for fields in [list_fields(kind)]
    ]


def _example_usage(name: str, fields: Sequence[ListedField]) -> str:
    required = [f"{one.name}: ..." for one in fields if one.default is None]
    return f"verify_with: {{{', '.join([f'type: {name}', *required])}}}" if required else f"verify_with: {name}"
