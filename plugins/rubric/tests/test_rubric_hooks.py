"""Plugins bring kinds of traits, and what scores them."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core import hookimpl
from karenina_core.data.rubrics import Rubric, RubricTrait, trait_from_json
from karenina_core.plugins import Plugins
from karenina_rubric.evaluation import trait_evaluators


class HaikuTrait(RubricTrait):
    """A kind of trait of a plugin."""

    type: str = "haiku"
    syllables: int = 17


class Evaluator:
    """An evaluator with a place in the order."""

    def __init__(self, name: str, precedence: int) -> None:
        self.name = name
        self.precedence = precedence

    def claims(self, trait: RubricTrait, context: object) -> bool:
        """Return False."""
        return False

    async def evaluate(self, traits: object, text: str, context: object) -> list[Any]:
        """Return no score."""
        return []


class Haikus:
    """A plugin with a kind of trait and three evaluators."""

    @hookimpl
    def karenina_trait_kinds(self) -> list[type[RubricTrait]]:
        """Return the kind."""
        return [HaikuTrait]

    @hookimpl
    def karenina_trait_evaluators(self) -> list[Any]:
        """Return the evaluators."""
        return [Evaluator("b", 0), Evaluator("c", 5), Evaluator("a", 0)]


def test_a_plugins_trait_kind_is_held_by_a_rubric() -> None:
    Plugins().register(Haikus())

    trait = trait_from_json({"type": "haiku", "name": "poem", "syllables": 19})

    assert isinstance(trait, HaikuTrait)
    assert trait.syllables == 19
    assert Rubric.of(trait).names == ("poem",)


def test_evaluators_are_sorted_by_precedence_then_name() -> None:
    plugins = Plugins()
    plugins.register(Haikus())

    assert [one.name for one in trait_evaluators(plugins)] == ["c", "a", "b"]
    assert trait_evaluators(plugins)[0] is trait_evaluators(plugins)[0], "one object serves all items"


class Offering:
    """A plugin with one evaluator."""

    def __init__(self, evaluator: object) -> None:
        self._evaluator = evaluator

    @hookimpl
    def karenina_trait_evaluators(self) -> list[Any]:
        """Return the evaluator."""
        return [self._evaluator]


class Awaited(Evaluator):
    """An evaluator whose claims are never awaited, and so always true."""

    async def claims(self, trait: RubricTrait, context: object) -> bool:  # type: ignore[override]
        """Return False."""
        return False


def without(attribute: str) -> object:
    """An evaluator with one attribute set to None."""
    found = Evaluator("mine", 0)
    setattr(found, attribute, None)
    return found


@pytest.mark.parametrize(
    ("evaluator", "cure"),
    [
        (without("name"), "set `name` to a string"),
        (without("precedence"), "set `precedence` to an integer"),
        (without("claims"), "has no method claims()"),
        (without("evaluate"), "has no method evaluate()"),
        (Awaited("mine", 0), "claims() of the trait evaluator Awaited is never awaited; write def claims(...)"),
        (Evaluator, "returned the class Evaluator instead of an instance of the class"),
    ],
)
def test_an_invalid_evaluator_is_listed_and_left_out(evaluator: object, cure: str) -> None:
    plugins = Plugins()
    plugins.register(Offering(evaluator), distribution="their-package")

    assert trait_evaluators(plugins) == []
    (info,) = [info for info in plugins.describe() if info.distribution == "their-package"]
    assert info.state == "failed"
    assert cure in (info.failure or "")
