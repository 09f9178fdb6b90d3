"""Hooks for adding verification primitives and for deciding which judges count as small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_template.templates import Primitive


@hookspec
def karenina_primitives() -> Sequence[type[Primitive]]:
    """Return verification primitives. Templates can use them by class name, like the built-in ones."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_small_judges() -> Sequence[Callable[[ModelConfig], bool]]:
    """Return functions that decide whether a judge model counts as small.

    By default, a small judge is asked to list rejected values first, and to check its values a second time.
    """


def offered(plugins: Plugins) -> None:
    """Register the primitives offered by plugins. A plugin whose primitive is invalid, or has a name that is taken, is
    marked as failed.
    """
    from karenina_core.namespaces import check_owner
    from karenina_template.templates import Primitive, register_primitive

    for offer in plugins.offers(karenina_primitives, type[Primitive]):
        try:
            check_owner(offer.value, offer.plugin)
            register_primitive(offer.value)
        except (TypeError, ValueError) as error:
            plugins.reject(offer, error)
