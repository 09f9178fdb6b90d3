"""Contracts that a member holds more than once over the same code: the repetitions are left to releases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

from karenina_testing.contracts.calls import CallContract

CALLS: Final = frozenset(name for name in vars(CallContract) if name.startswith("test_"))
"""The tests of what all ports of a wire format share: errors, connections, limits and secrets."""
THROUGH_AGENTS_TOO: Final = frozenset({"test_a_silent_server_is_a_timeout_without_leftovers"})
"""Those in which the ports of agents differ: they have a time limit of their own, and a trace to keep."""


def leave_to_release(
    items: Iterable[pytest.Item],
    folder: Path,
    classes: Collection[str],
    *,
    but: Collection[str] = (),
    chosen: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Mark as `release` the tests of `CALLS` in some classes of a folder, except those named in `but`.

    `chosen` are the parameters with which a test runs outside of releases too, in any class.
    """
    for item in items:
        if not isinstance(item, pytest.Function) or not item.path.is_relative_to(folder) or item.cls is None:
            continue
        name, parameters = item.originalname, item.callspec.id if hasattr(item, "callspec") else ""
        repeats = item.cls.__name__ in classes and name in CALLS and name not in but
        if repeats or (chosen and name in chosen and parameters not in chosen[name]):
            item.add_marker(pytest.mark.release)
