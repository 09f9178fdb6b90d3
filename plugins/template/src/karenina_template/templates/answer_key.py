"""`AnswerKey`: the truths of a template's fields, their comparison, and their combination to one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from karenina_template.templates.compose import (
    AllOf,
    AnyOf,
    AtLeastN,
    FieldCheck,
    Result,
    Tree,
    describe,
    fields_of,
    granular,
    passes,
    validate,
)
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import FieldRule
from karenina_template.templates.primitives import Undecided


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

    def results(self, values: Mapping[str, object], response: str) -> dict[str, bool | Undecided]:
        """Return whether each field passes. Raises `InvalidAnswer`."""
        return {name: rule.passes(values.get(name), response) for name, rule in self.rules.items()}

    def credits(self, results: Mapping[str, Result], values: Mapping[str, object]) -> dict[str, float | None]:
        """Return the credit of each field, 0 to 1, given the results; None for those that are undecided."""
        return {name: rule.credit(results[name], values.get(name)) for name, rule in self.rules.items()}

    def verdict(self, results: Mapping[str, Result]) -> bool | None:
        """Return the verdict of the strategy on the fields' results; None if it is undecided."""
        return passes(self.strategy, results)

    def why_undecided(self, results: Mapping[str, Result]) -> str | None:
        """Return why fields of the strategy are undecided, as "field year: 01/02/2024 can be two dates", or None."""
        counted = results if self.strategy is None else fields_of(self.strategy)
        reasons = [
            f"field {name}: {result.why if isinstance(result, Undecided) else 'it cannot be decided'}"
            for name, result in results.items()
            if name in counted and (result is None or isinstance(result, Undecided))
        ]
        return "; ".join(reasons) or None

    def grade(self, scores: Mapping[str, float | None]) -> float:
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
