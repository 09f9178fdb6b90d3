"""The hook that provides sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_sandbox.sandbox import SandboxProvider


@hookspec
@HookPolicy(stability="provisional")
def karenina_sandboxes() -> Sequence[SandboxProvider]:
    """Return providers of sandboxes. The setting `sandbox` selects one by its name."""
