"""Tests that settings, traits and primitives declare which of their values a benchmark may set."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel

from karenina_core.models.settings_models import mark_of


class SettingsContract:
    """The contract for `allowed_in_files` marks: list settings models, trait kinds and primitives in `models`.

    A field without a mark is restricted, that is, a benchmark that sets it needs the user's trust; the contract asks
    the author to decide for each field. See `karenina_core.models.settings_models`.
    """

    models: ClassVar[Sequence[type[BaseModel]]]

    def test_each_field_says_whether_a_benchmark_may_set_it(self) -> None:
        assert [name for model in self.models for name in find_unmarked_fields(model)] == []


def find_unmarked_fields(model: type[BaseModel]) -> list[str]:
    """Return the fields that do not declare whether a benchmark may set them. Mark restricted fields `never`."""
    return [f"{model.__name__}.{name}" for name in model.model_fields if mark_of(model, name) is None]
