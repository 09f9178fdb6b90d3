"""`AnswerKey`: the truths of a template's fields, their comparison, and their combination to one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from karenina_template.templates.compose import (
    AllOf,
    AnyOf,
    AtLeastN,
    FieldCheck,
    Tree,
    describe,
    granular,
    passes,
    validate,
)
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import FieldRule


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """The rules of the verified fields by name, and the strategy that combines them; None means that all must pass."""

    rules: Mapping[str, FieldRule] = field(default_factory=dict)
    strategy: Tree | None = None

    @property
    def composition(self) -> str | None:
        """The name of the strategy, such as "all_of"; None if no field is verified."""
        return describe(self.strategy) if self.rules else None

    def truths(self) -> dict[str, object] | None:
        """Return the truths by field; None if no field is verified."""
        return {name: rule.truth for name, rule in self.rules.items()} or None

    def results(self, values: Mapping[str, object], response: str) -> dict[str, bool]:
        """Return whether each field passes."""
        return {name: rule.passes(values.get(name), response) for name, rule in self.rules.items()}

    def scores(self, values: Mapping[str, object], response: str) -> dict[str, float]:
        """Return the credit of each field, 0 to 1."""
        return {name: rule.score(values.get(name), response) for name, rule in self.rules.items()}

    def credits(self, results: Mapping[str, bool], values: Mapping[str, object], response: str) -> dict[str, float]:
        """Return the same as `scores`, given the results; only primitives with partial credit compare again."""
        return {
            name: rule.score(values.get(name), response) if rule.grades else (1.0 if results[name] else 0.0)
            for name, rule in self.rules.items()
        }

    def verdict(self, results: Mapping[str, bool]) -> bool:
        """Return the verdict of the strategy on the fields' results."""
        return passes(self.strategy, results)

    def grade(self, scores: Mapping[str, float]) -> float:
        """Return the granular score of the strategy, 0 to 1."""
        return granular(self.strategy, {name: rule.weight for name, rule in self.rules.items()}, scores)


def check_strategy(strategy: object, fields: Mapping[str, FieldRule]) -> Tree:
    """Return `strategy` as a tree over the verified `fields`. Raises `TemplateError` if it is invalid."""
    if isinstance(strategy, str):
        strategy = FieldCheck(strategy)
    if not isinstance(strategy, AllOf | AnyOf | AtLeastN | FieldCheck):
        raise TemplateError(
            f"verify_strategy must be a tree of AllOf, AnyOf, AtLeastN and FieldCheck, not {strategy!r:.200}"
        )
    try:
        validate(strategy, fields)
    except ValueError as error:
        raise TemplateError(str(error)) from error
    return strategy
