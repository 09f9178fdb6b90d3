"""The stability of hooks, and the version of the plugin interface that a plugin was made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from karenina_core.hooks import API_VERSION

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class HookPolicy:
    """A decorator for hook specifications that declares their stability.

    Without it, a hook has been stable since 0.1. A stable hook is changed or removed only after one minor release in
    which it is `deprecated`, with a message such as "use X instead, until 0.3".
    """

    since: str = "0.1"
    stability: Literal["stable", "provisional"] = "stable"
    deprecated: str | None = None

    def __call__(self, spec: F) -> F:
        """Attach this policy to a hook specification."""
        spec.__dict__["karenina_policy"] = self
        return spec


def policy_of(spec: Callable[..., Any]) -> HookPolicy:
    """Return the policy of a hook specification."""
    policy: HookPolicy = spec.__dict__.get("karenina_policy", HookPolicy())
    return policy


def version_mismatch(thing: object) -> str | None:
    """Return an error message if something was made for another version of the plugin interface.

    The version is its attribute `karenina_api`. Without one, there is no error.
    """
    version = getattr(thing, "karenina_api", API_VERSION)
    differs = f"it requires version {version} of the plugin interface, but this core has version {API_VERSION}"
    return None if version == API_VERSION else differs
