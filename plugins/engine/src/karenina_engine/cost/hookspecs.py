"""The hook that provides price lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_engine.cost.price_source import PriceSource


@hookspec
@HookPolicy(stability="provisional")
def karenina_prices() -> Sequence[PriceSource]:
    """Return price lists. If several contain a model, the alphabetically first list is used."""
