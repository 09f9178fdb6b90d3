"""Tests that settings, traits and primitives declare which of their values a benchmark may set."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel

from karenina_core.models.settings_models import mark_of


class SettingsContract:
    """The `allowed_in_files` marks of a plugin's settings models, kinds of traits and primitives: list them in
    `models`.

    A field without a mark is restricted: a benchmark that sets it needs the user's trust. The author decides; see
    `karenina_core.models.settings_models`.
    """

    models: ClassVar[Sequence[type[BaseModel]]]

    def test_each_field_says_whether_a_benchmark_may_set_it(self) -> None:
        assert [name for model in self.models for name in find_unmarked_fields(model)] == []


def find_unmarked_fields(model: type[BaseModel]) -> list[str]:
    """Return the fields of a model that do not declare what a benchmark may set. Write `never` to restrict one."""
    return [f"{model.__name__}.{name}" for name in model.model_fields if mark_of(model, name) is None]
