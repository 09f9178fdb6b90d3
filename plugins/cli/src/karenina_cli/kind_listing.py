"""Lists of what templates and rubrics can use: primitives and kinds of traits, with their fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Final

from rich.text import Text

from karenina_cli.field_listing import ListedField, print_fields
from karenina_cli.screen import Screen, print_wrapped
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_toolkit.printable import clean

_LINE_END: Final = re.compile(r"(?<!\n)\n(?=[^\s*-])")
"""The end of a line within a paragraph."""
_EMPTY_DEFAULTS: Final = (None, "null", "false", "[]", "{}")


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A primitive or a kind of trait: its name in files, distribution, meaning, fields, and use in a YAML file."""

    name: str
    owner: str
    meaning: str
    fields: Sequence[ListedField]
    usage: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "owner": self.owner,
            "meaning": self.meaning,
            "fields": [field.to_json() for field in self.fields],
            "usage": self.usage,
        }


def meaning_of(kind: type) -> str:
    """Return the docstring of a class without its indentation."""
    return inspect.getdoc(kind) or ""


def distribution_of(kind: type) -> str:
    """Return the distribution of a class of this project, from the name of its package."""
    return kind.__module__.partition(".")[0].replace("_", "-")


def print_kinds(screen: Screen, what: str, kinds: Sequence[ListedKind], name: str | None, *, as_json: bool) -> None:
    """Print all kinds, each in short, or the one called `name` in full. Raises `ConfigError` if there is none."""
    names = [kind.name for kind in kinds]
    chosen = [kind for kind in kinds if name in (None, kind.name)]
    if not chosen:
        raise ConfigError([f"there is no {what} {name!r}{did_you_mean(name or '', names)}{not_loaded()}"])
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
    summary = " ".join(kind.meaning.partition("\n\n")[0].split())
    if summary:
        print_wrapped(screen.out, Text(clean(f"    {summary}")))
    fields = ", ".join(
        one.name if one.default in _EMPTY_DEFAULTS else f"{one.name} = {one.default}" for one in kind.fields
    )
    if fields:
        print_wrapped(screen.out, Text(clean(f"    {fields}"), "dim"))


def _print_whole(screen: Screen, kind: ListedKind) -> None:
    print_wrapped(screen.out, Text(clean(indent(_LINE_END.sub(" ", kind.meaning), "    "))))
    if kind.fields:
        screen.out.print()
        print_fields(screen.out, kind.fields)
    screen.out.print()
    print_wrapped(screen.out, Text(clean(indent(kind.usage, "    "))))
