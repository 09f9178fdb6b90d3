"""Which plugins are in force: those that a program chose for a block, else the installed ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from karenina_core.plugins.discovery import Selection
from karenina_core.plugins.registry import Plugins

_current: ContextVar[Plugins | None] = ContextVar("karenina_plugins", default=None)


def for_commands() -> Plugins:
    """The plugins that may add commands: those of the enclosing `using`, else those installed as no stage or adapter.

    None of the others is imported, so that the command line starts at once.
    """
    return _current.get() or Plugins.discover(kinds=["other"])


def current() -> Plugins:
    """The plugins in force: those of the enclosing `using`, else the installed ones, discovered on first need."""
    return _current.get() or selected(Selection.of())


@cache
def selected(selection: Selection) -> Plugins:
    """The installed plugins under a selection, discovered once a process."""
    return Plugins.discover(selection)


@contextmanager
def using(plugins: Plugins) -> Iterator[Plugins]:
    """Have `plugins` in force within the `with` block, instead of the installed ones."""
    token = _current.set(plugins)
    try:
        yield plugins
    finally:
        _current.reset(token)
