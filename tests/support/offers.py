"""Plugins that offer what a test lists, without a class with a method for each hook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from karenina_core import hookimpl


def offering(**offers: Sequence[Any]) -> object:
    """Return a plugin whose hooks return these lists, such as `offering(extra_stages=[Count])`."""
    return type("Offer", (), {f"karenina_{name}": _returning(offered) for name, offered in offers.items()})()


def _returning(offered: Sequence[Any]) -> Callable[[object], Sequence[Any]]:
    @hookimpl
    def hook(_self: object) -> Sequence[Any]:
        return offered

    return hook
