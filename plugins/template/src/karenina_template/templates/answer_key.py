"""`AnswerKey`: what is right for one question, how it is compared, and how the fields make one verdict."""

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
    """The rules of the verified fields by name, and the strategy that combines them (None: all must pass)."""

    rules: Mapping[str, FieldRule] = field(default_factory=dict)
    strategy: Tree | None = None

    @property
    def composition(self) -> str | None:
        """The strategy in a word, such as "all_of"; None where no field is verified."""
        return describe(self.strategy) if self.rules else None

    def truths(self) -> dict[str, object] | None:
        """Return the truths by field; None where no field is verified."""
        return {name: rule.truth for name, rule in self.rules.items()} or None

    def results(self, values: Mapping[str, object], response: str) -> dict[str, bool]:
        """Whether each field passes."""
        return {name: rule.passes(values.get(name), response) for name, rule in self.rules.items()}

    def scores(self, values: Mapping[str, object], response: str) -> dict[str, float]:
        """The credit of each field, 0 to 1."""
        return {name: rule.score(values.get(name), response) for name, rule in self.rules.items()}

    def credits(self, results: Mapping[str, bool], values: Mapping[str, object], response: str) -> dict[str, float]:
        """`scores`, where it is known which fields pass: only primitives that grade compare once more."""
        return {
            name: rule.score(values.get(name), response) if rule.grades else (1.0 if results[name] else 0.0)
            for name, rule in self.rules.items()
        }

    def verdict(self, results: Mapping[str, bool]) -> bool:
        """What the strategy makes of the fields' results."""
        return passes(self.strategy, results)

    def grade(self, scores: Mapping[str, float]) -> float:
        """What was reached of what the strategy can reach at most, 0 to 1."""
        return granular(self.strategy, {name: rule.weight for name, rule in self.rules.items()}, scores)


def check_strategy(strategy: object, fields: Mapping[str, FieldRule]) -> Tree:
    """`strategy` as a tree over the verified `fields`. Raises `TemplateError` for anything else."""
    if isinstance(strategy, str):
        strategy = FieldCheck(strategy)
    if not isinstance(strategy, AllOf | AnyOf | AtLeastN | FieldCheck):
        raise TemplateError(
            f"verify_strategy is a tree of AllOf, AnyOf, AtLeastN and FieldCheck, not {strategy!r:.200}"
        )
    try:
        validate(strategy, fields)
    except ValueError as error:
        raise TemplateError(str(error)) from error
    return strategy
