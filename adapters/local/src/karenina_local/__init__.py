"""Karenina adapter for small models on this machine, run with llama.cpp.

The interface is `local`, and `model_name` is a name from the catalogue (`karenina model list`) or the path of a GGUF
file. Importing this package loads neither llama.cpp nor an HTTP client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl
from karenina_toolkit.lazy_names import offer

if TYPE_CHECKING:
    from collections.abc import Callable

    from karenina_core.models.model import ModelConfig

__all__ = ["plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with the `local` adapter."""

    karenina_adapters = offer("karenina_local.adapter:SPEC")

    @staticmethod
    @hookimpl
    def karenina_small_judges() -> list[Callable[[ModelConfig], bool]]:
        """Return a function that declares all local models to be small judges."""
        return [lambda model: model.interface == "local"]
