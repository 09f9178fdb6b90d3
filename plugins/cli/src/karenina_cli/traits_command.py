"""`karenina traits`: the kinds of rubric traits that benchmarks can use, with their fields."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from karenina_cli import completion_values
from karenina_cli.screen import get_screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_cli.field_listing import ListedField
    from karenina_cli.kind_listing import ListedKind
    from karenina_core.data.rubrics import RubricTrait

_NOT_WRITTEN: Final = ("type", "unread")


def traits(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Print only this kind, in full.",
            show_default=False,
            autocompletion=completion_values.trait_kinds,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the kinds of rubric traits, which score qualities without a right answer, and their fields.

    A benchmark file names the kind of a trait under `type`. Plugins add more.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.kind_listing import print_kinds

        print_kinds(screen, "trait kind", list_trait_kinds(), name, as_json=as_json)


def list_trait_kinds() -> Sequence[ListedKind]:
    """Return the kinds of traits of the core and of the active plugins."""
    from karenina_cli.kind_listing import ListedKind, distribution_of, meaning_of
    from karenina_core import plugins
    from karenina_core.data.rubrics import trait_kinds
    from karenina_rubric.hookspecs import karenina_trait_kinds

    offered = {one.value: one.distribution for one in plugins.active_plugins().offers(karenina_trait_kinds)}
    return [
        ListedKind(
            name, offered.get(kind) or distribution_of(kind), meaning_of(kind), fields, _example_usage(name, fields)
        )
        for name, kind in trait_kinds().items()
        for fields in [_fields_of(kind)]
    ]


def _fields_of(kind: type[RubricTrait]) -> list[ListedField]:
    """Return the fields as files have them: those that plugins own in place of `extra`."""
    from karenina_cli.field_listing import list_fields
    from karenina_core import plugins
    from karenina_core.namespaces import namespace_of
    from karenina_core.stages.stage import registered_stages

    fields = list_fields(kind, without=_NOT_WRITTEN)
    if not any(one.name == "extra" for one in fields):
        return fields
    stages = registered_stages(plugins.active_plugins())
    models = dict.fromkeys(one.stage.trait_settings for one in stages if one.stage.trait_settings is not None)
    owned = [replace(field, name=namespace_of(model) + field.name) for model in models for field in list_fields(model)]
    return [*(one for one in fields if one.name != "extra"), *owned]


def _example_usage(name: str, fields: Sequence[ListedField]) -> str:
    required = [f"{one.name}: ..." for one in fields if one.default is None]
    return f"rubric:\n  - {{{', '.join([f'type: {name}', *required])}}}"
