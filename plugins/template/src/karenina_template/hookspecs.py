"""The hook for verification primitives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.plugins import Plugins
    from karenina_template.templates import Primitive


@hookspec
def karenina_primitives() -> Sequence[type[Primitive]]:
    """Offer verification primitives; templates then use them by class name like the built-in ones."""


def offered(plugins: Plugins) -> None:
    """Register the primitives of plugins."""
    from karenina_template.templates import register_primitive

    for offer in plugins.offers(karenina_primitives):
        try:
            register_primitive(offer.value)
        except ValueError as error:
            plugins.reject(offer, error)
