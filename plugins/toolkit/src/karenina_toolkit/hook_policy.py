"""The stability of hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class HookPolicy:
    """A decorator for hook specifications that states their stability. Undecorated hooks have been stable since 0.1.

    Before a stable hook is changed or removed, it is `deprecated` in one minor release, with a message such as "use X
    instead, until 0.3".
    """

    since: str = "0.1"
    stability: Literal["stable", "provisional"] = "stable"
    deprecated: str | None = None

    def __call__(self, spec: F) -> F:
        """Attach this policy to a hook specification, and return the specification."""
        spec.__dict__["karenina_policy"] = self
        return spec


def policy_of(spec: Callable[..., Any]) -> HookPolicy:
    """Return the policy of a hook specification, or the default policy if none is attached."""
    policy: HookPolicy = spec.__dict__.get("karenina_policy", HookPolicy())
    return policy
