"""Tests of values by a call that raises an exception for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


def raises(error: type[Exception], call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Return whether `call` raises `error` for these arguments. Its result is discarded; other exceptions propagate.

    For example, `not raises(ValueError, float, word)` tells whether `word` is a number.
    """
    try:
        call(*args, **kwargs)
    except error:
        return True
    return False
