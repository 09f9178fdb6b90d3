"""The promises that come with hooks: how long one stays, and that a plugin is made for this version of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from karenina_core.hooks import API_VERSION

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class HookPolicy:
    """A decorator of hook specifications. Hooks without one are stable since 0.1.

    A stable hook changes or ends only after one minor release in which it is `deprecated`: "use X instead, until 0.3".
    """

    since: str = "0.1"
    stability: Literal["stable", "provisional"] = "stable"
    deprecated: str | None = None

    def __call__(self, spec: F) -> F:
        """Attach this policy to the specification, and return that."""
        spec.__dict__["karenina_policy"] = self
        return spec


def policy_of(spec: Callable[..., Any]) -> HookPolicy:
    """Return the policy of a hook specification."""
    policy: HookPolicy = spec.__dict__.get("karenina_policy", HookPolicy())
    return policy


def version_mismatch(thing: object) -> str | None:
    """Return why a plugin or module is made for another version of the plugin interface; None if it is not."""
    wanted = getattr(thing, "karenina_api", API_VERSION)
    differs = f"it is made for version {wanted} of the plugin interface, but this core has version {API_VERSION}"
    return None if wanted == API_VERSION else differs
