"""`karenina primitives` and `karenina traits`: the building blocks of templates and rubrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from pydantic import BaseModel
from rich.text import Text

from karenina_cli.input import completion_values
from karenina_cli.input.options import name_argument
from karenina_cli.output.field_listing import ListedField, list_fields, print_fields
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_terminal.options import PrintJSON
from karenina_terminal.screen import Screen, get_screen, print_wrapped
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from karenina_core.data.rubrics import RubricTrait
    from karenina_toolkit.known_values import OfferedValue

Kind = TypeVar("Kind", bound=BaseModel)

_LINE_END: Final = re.compile(r"(?<!\n)\n(?=[^\s*-])")
"""A line break within a paragraph."""
_EMPTY_DEFAULTS: Final = (None, "null", "false", "[]", "{}")
_NOT_WRITTEN: Final = ("type", "unread", "extra")


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A primitive or trait kind: its name in files, distribution, meaning, fields, and usage in YAML."""

    name: str
    owner: str
    meaning: str
    fields: Sequence[ListedField]
    usage: str

    def to_json(self) -> dict[str, Any]:
        """Return the kind as a JSON-compatible dict."""
        return {
            "name": self.name,
            "owner": self.owner,
            "meaning": self.meaning,
            "fields": [field.to_json() for field in self.fields],
            "usage": self.usage,
        }


def meaning_of(kind: type) -> str:
    """Return the class's docstring without indentation. It may be empty."""
    return inspect.getdoc(kind) or ""


def _list_kinds(
    registered_kinds: Callable[[], Mapping[str, type[Kind]]],
    hook: Callable[[], Sequence[type[Kind]]],
    fields_of: Callable[[type[Kind]], list[ListedField]],
    usage_of: Callable[[str, Sequence[ListedField]], str],
) -> list[ListedKind]:
    """Return the kinds to print: those that `registered_kinds` returns by name, including those that plugins provide
    through `hook`. It is called after loading the plugins, because they register their own. `fields_of` returns a
    kind's fields, and `usage_of` an example.
    """
    from karenina_core import plugins

    offered = {offer.value: offer.distribution for offer in plugins.active_plugins().offers(hook)}
    listed = []
    for name, kind in registered_kinds().items():
        fields, meaning = fields_of(kind), meaning_of(kind)
        owner = offered.get(kind) or distribution_of(kind)
        listed.append(ListedKind(name, owner, meaning, fields, usage_of(name, fields)))
    return listed


def distribution_of(kind: type) -> str:
    """Return the distribution of one of this project's classes, based on its package."""
    return kind.__module__.partition(".")[0].replace("_", "-")


def print_kinds(screen: Screen, what: str, kinds: Sequence[ListedKind], name: str | None, *, as_json: bool) -> None:
    """Print all kinds in brief, or only the kind called `name` in full. Raises `ConfigError` if no kind has this name.
    `what` is the word for such a kind in messages, and its plural is the key in JSON output.
    """
    names = [kind.name for kind in kinds]
    chosen = [kind for kind in kinds if name in (None, kind.name)]
    if not chosen:
        raise ConfigError([f"unknown {what} {name!r}{did_you_mean(name or '', names)}{not_loaded()}"])
    if as_json:
        screen.json({f"{what.replace(' ', '_')}s": [kind.to_json() for kind in chosen]})
        return
    for kind in chosen:
        print_wrapped(screen.out, Text(clean(kind.name), "bold") + Text(f"  ({kind.owner})", "not bold dim"))
        if name is None:
            _print_short(screen, kind)
        else:
            _print_whole(screen, kind)


def _print_short(screen: Screen, kind: ListedKind) -> None:
    """Print the first paragraph of the kind's meaning, and its fields with their non-empty defaults."""
    summary = " ".join(kind.meaning.partition("\n\n")[0].split())
    if summary:
        print_wrapped(screen.out, Text(clean(f"    {summary}")))
    fields = ", ".join(
        field.name if field.default in _EMPTY_DEFAULTS else f"{field.name} = {field.default}" for field in kind.fields
    )
    if fields:
        print_wrapped(screen.out, Text(clean(f"    {fields}"), "dim"))


def _print_whole(screen: Screen, kind: ListedKind) -> None:
    """Print the kind's complete meaning, its fields and its usage in a file."""
    print_wrapped(screen.out, Text(clean(indent(_LINE_END.sub(" ", kind.meaning), "    "))))
    if kind.fields:
        screen.out.print()
        print_fields(screen.out, kind.fields)
    screen.out.print()
    print_wrapped(screen.out, Text(clean(indent(kind.usage, "    "))))


def traits(
    ctx: typer.Context,
    name: Annotated[str | None, name_argument("Print only this kind, in full.", completion_values.trait_kinds)] = None,
    as_json: PrintJSON = False,
) -> None:
    """Print the kinds of rubric traits, which score qualities that have no correct answer, and their fields.

    In a benchmark file, `type` names the kind of a trait. Plugins can add more kinds.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        print_kinds(screen, "trait kind", list_trait_kinds(), name, as_json=as_json)


def list_trait_kinds() -> Sequence[ListedKind]:
    """Return the trait kinds from the core and the active plugins."""
    from karenina_core.data.rubrics import trait_kinds
    from karenina_rubric.hookspecs import karenina_trait_kinds

    return _list_kinds(trait_kinds, karenina_trait_kinds, _fields_of, _usage_in_rubric)


def _fields_of(kind: type[RubricTrait]) -> list[ListedField]:
    """Return the trait kind's fields as written in files, including fields that plugins add to it."""
    from karenina_core.namespaces import namespace_of
    from karenina_core.plugins import active_plugins
    from karenina_core.stages.stage import registered_stages
    from karenina_engine.check.plugin_checks import kinds_with

    settings = dict.fromkeys(stage.stage.trait_settings for stage in registered_stages(active_plugins()))
    models = [
        model for model in settings if model is not None and kind.model_fields["type"].default in kinds_with(model)
    ]
    owned = [replace(field, name=namespace_of(model) + field.name) for model in models for field in list_fields(model)]
    return [*list_fields(kind, without=_NOT_WRITTEN), *owned]


def _usage_in_rubric(name: str, fields: Sequence[ListedField]) -> str:
    """Return an example of the trait kind in a YAML file, with `...` for required fields."""
    required = [f"{field.name}: ..." for field in fields if field.default is None]
    return f"rubric:\n  - {{{', '.join([f'type: {name}', *required])}}}"


def primitives(
    ctx: typer.Context,
    name: Annotated[
        str | None, name_argument("Print only this primitive, in full.", completion_values.primitives)
    ] = None,
    as_json: PrintJSON = False,
) -> None:
    """Print the primitives, which compare a template field with its ground truth, and their parameters.

    In a benchmark file, `verify_with` names the primitive. Plugins can add more primitives. Without a name, the known
    values are printed too. These are values found by programs, and `from` in a template names the one to use for a
    field.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_template.templates.primitives import missing_pack

        kinds = list_primitives()
        if name is not None and (cure := missing_pack(name)) is not None:
            raise ConfigError([f"unknown primitive {name!r}: {cure}"])
        known = list_known_values() if name is None else []
        if as_json and name is None:
            screen.json(
                {"primitives": [kind.to_json() for kind in kinds], "known_values": [value._asdict() for value in known]}
            )
            return
        print_kinds(screen, "primitive", kinds, name, as_json=as_json)
        if known:
            screen.out.print("\nKnown values, which programs find and templates select with `from`:")
        for value in known:
            facts = Text(f"  {value.kind if value.kind != 'object' else 'any type'}  ({value.distribution})", "dim")
            print_wrapped(screen.out, Text(clean(value.name), "bold") + facts)


def list_known_values() -> Sequence[OfferedValue]:
    """Return the known values that active plugins' stages offer."""
    from karenina_core.plugins import active_plugins
    from karenina_toolkit.known_values import offered_values

    return offered_values(active_plugins())


def list_primitives() -> Sequence[ListedKind]:
    """Return the primitives of the template package and the active plugins."""
    from karenina_template.hookspecs import karenina_primitives
    from karenina_template.templates import known_primitives

    return _list_kinds(known_primitives, karenina_primitives, list_fields, _usage_in_template)


def _usage_in_template(name: str, fields: Sequence[ListedField]) -> str:
    """Return an example of the primitive in a YAML file, with `...` for required fields."""
    required = [f"{field.name}: ..." for field in fields if field.default is None]
    return f"verify_with: {{{', '.join([f'type: {name}', *required])}}}" if required else f"verify_with: {name}"
