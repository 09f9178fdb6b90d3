"""The reference pages, generated from the code: settings, primitives, stages, hooks, commands and more."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import reference_commands
import reference_files
import reference_modules
import reference_plugins
from markdown_text import page, prose

_PUBLIC: Final = ("karenina", "karenina.templates", "karenina.rubrics", "karenina_core", "karenina_testing")
_FULL_NAME: Final = "    options:\n      show_root_full_path: true"


def reference() -> dict[str, str]:
    """Return the text of each reference file by path."""
    pages = {
        "settings.md": reference_plugins.settings(),
        "primitives.md": reference_plugins.primitives(),
        "traits.md": reference_plugins.traits(),
        "stages.md": reference_plugins.stages(),
        "artifacts.md": reference_plugins.artifacts(),
        "hooks.md": reference_plugins.hooks(),
        "adapters.md": reference_plugins.adapters(),
        "commands.md": reference_commands.commands(),
        "outcomes.md": reference_commands.outcomes(),
        "files.md": reference_files.files(),
        "modules.md": reference_modules.modules(),
        **reference_files.schemas(),
    }
    pages |= {f"api/{name.replace('.', '-')}.md": _public_names(name) for name in _PUBLIC}
    pages["api/karenina_testing-contracts.md"] = _modules("karenina_testing.contracts")
    pages["api/karenina_toolkit.md"] = _modules("karenina_toolkit")
    return pages


def _public_names(name: str) -> str:
    """Make the page on the names in a module's `__all__`."""
    module = import_module(name)
    names = [one for one in module.__all__ if not one.startswith("__")]
    return page(name, prose(module.__doc__ or ""), *(f"::: {_home(name, one)}" for one in names))


def _home(module: str, name: str) -> str:
    """Return where an object is defined, because lazily loaded names cannot be resolved."""
    value = getattr(import_module(module), name)
    home = getattr(value, "__module__", None)
    own = getattr(value, "__qualname__", None)
    return f"{home}.{own}" if isinstance(home, str) and own == name else f"{module}.{name}"


def _modules(package: str) -> str:
    """Return a page that lists all public modules of a package."""
    text = prose(import_module(package).__doc__ or "")
    return page(package, text, *(f"::: {name}\n{_FULL_NAME}" for name in _names(package)))


def _names(package: str) -> Iterator[str]:
    """Yield the names of all public modules of a package, at every depth."""
    for found in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        if not found.name.rpartition(".")[2].startswith("_"):
            yield found.name
            if found.ispkg:
                yield from _names(found.name)
