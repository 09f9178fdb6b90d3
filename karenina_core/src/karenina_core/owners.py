"""What the configuration needs of the plugins in force; `karenina_core/__init__` provides it, not an import."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.models.prompts import PromptTask


class Owners(Protocol):
    """Plugins that own names of the configuration."""

    def settings_models(self) -> Iterable[tuple[type[BaseModel], str]]:
        """Return the settings models, each with the distribution that has it."""

    def prompt_tasks(self) -> Iterable[PromptTask]:
        """Return what the stages ask of models."""

    def why_absent(self, distribution: str) -> str:
        """Return why what `distribution` offers is not there, with the cure."""


_providers: list[Callable[[], Owners]] = []


def provide(owners: Callable[[], Owners]) -> None:
    """Set how the plugins in force are found. Nothing is called or imported yet."""
    _providers[:] = [owners]


def owners() -> Owners:
    """Return the plugins in force, discovered on first need."""
    return _providers[0]()
