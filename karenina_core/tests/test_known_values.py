"""Known values: what a stage must declare to offer them, where it runs, and which plans are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest
from plugin_makers import offering
from test_plan import offer, plan, problems, skeleton, stage

from karenina_core import Question, Slot, Stage, VerificationContext
from karenina_core.catalog import install_command, read_catalog
from karenina_core.data.sections import KnownValue
from karenina_core.errors import PluginError
from karenina_core.plugins import Plugins
from karenina_testing import StageRun, run_stage


def comparing(*names: str) -> list[type[Stage]]:
    """Return the required stages. The one that verifies the template compares these known values."""
    compared = lambda _self, _config, _question: names  # noqa: E731 - a method of the class below
    verify = next(one for one in skeleton() if one.for_slot is Slot.VERIFY_TEMPLATE)
    others = [one for one in skeleton() if one.for_slot is not Slot.VERIFY_TEMPLATE]
    return [
        *others,
        stage("TheVerify", Slot.VERIFY_TEMPLATE, produces=verify.produces, fallback=True, known_values=compared),
    ]


def run(execute: Callable[[Any, VerificationContext], None], **offers: object) -> StageRun:
    offered = {name.replace("__", "."): kind for name, kind in offers.items()}
    return asyncio.run(run_stage(stage("Words", execute=execute, offers=offered), question=Question(question="?")))


def test_a_stage_that_offers_values_comes_before_verification() -> None:
    made = plan([*comparing("words.count"), stage("Zed", offers={"words.count": int})])

    assert made.names().index("Zed") < made.names().index("TheVerify")
    assert "known values" in str(made.stages)


def test_a_pattern_offers_every_value_that_it_matches() -> None:
    made = plan([*comparing("checks.tests.output"), stage("Zed", offers={"checks.*.output": str})])

    assert "Zed" in made.names()


def test_a_value_of_a_shipped_plugin_names_what_to_install() -> None:
    found = problems(comparing("trace.steps"))

    assert read_catalog()["known_values"]["trace.steps"][0] == "karenina-generation"
    assert found.endswith(
        "compares the known value 'trace.steps', which karenina-generation offers: "
        + install_command("karenina-generation")
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Paris", "'Paris', which no plugin offers"),
        ("word.count", "'word.count', which no plugin offers; did you mean 'words.count'?"),
        ("my_package.words", "which no installed plugin offers: pip install my-package (if this is its plugin)"),
    ],
)
def test_an_unknown_value_is_a_problem_of_the_plan(name: str, says: str) -> None:
    assert says in problems([*comparing(name), stage("Zed", offers={"words.count": int})])


def test_a_stage_that_is_left_out_is_named_with_the_reason() -> None:
    left_out = stage("Zed", offers={"words.count": int}, included=lambda _self, _config, _question: False)

    assert "but Zed, which offers it, is not in the plan: the stage is not included" in problems(
        [*comparing("words.count"), left_out]
    )


@pytest.mark.parametrize("other", ["words.count", "words.*"])
def test_two_stages_cannot_offer_one_value(other: str) -> None:
    stages = [*comparing(), stage("Abel", offers={"words.count": int}), stage("Zed", offers={other: int})]

    assert "'words.count' is offered by Abel and Zed, but only one stage may offer it" in problems(stages)
    assert '[plugins] block = ["' in problems(stages)


def test_a_stage_must_declare_what_it_offers() -> None:
    def execute(_stage: object, context: VerificationContext) -> None:
        context.offer_value("words.count", 3)

    found = run(execute, words__other=int)

    assert found.error is not None
    assert found.error.message == (
        "stage Words offers the known value 'words.count' without declaring it; add it to its offers"
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "the known value 'words.count' is None, but no reason was given; pass the reason as why=..."),
        ({1, 2}, "JSON"),
    ],
)
def test_a_value_is_json_or_has_a_reason(value: object, says: str) -> None:
    def execute(_stage: object, context: VerificationContext) -> None:
        context.offer_value("words.count", value)

    found = run(execute, words__count=object)

    assert found.error is not None
    assert says in found.error.message


@pytest.mark.parametrize(
    ("declared", "value", "says"),
    [
        (int, "three", "set 'words.count' to a str, but its type is int"),
        (int, True, "set 'words.count' to a bool, but its type is int"),
        (int, 3.5, "set 'words.count' to a float, but its type is int"),
        (float, "3", "set 'words.count' to a str, but its type is float"),
        (list[str], "three", "set 'words.count' to a str, but its type is list"),
    ],
)
def test_a_value_of_another_type_is_an_error_of_the_stage(declared: object, value: object, says: str) -> None:
    def execute(_stage: object, context: VerificationContext) -> None:
        context.offer_value("words.count", value)

    found = run(execute, words__count=declared)

    assert found.error is not None
    assert says in found.error.message
    assert not found.error.outcome.judged


@pytest.mark.parametrize(
    ("declared", "value"),
    [(float, 3), (list[str], ["a"]), (Literal["few", "many"], "few"), (int | str, "a"), (object, {"a": [1]})],
)
def test_a_value_of_the_declared_type_is_accepted(declared: object, value: object) -> None:
    def execute(_stage: object, context: VerificationContext) -> None:
        context.offer_value("words.count", value)

    assert run(execute, words__count=declared).error is None


def test_offered_values_can_be_read() -> None:
    seen: dict[str, KnownValue] = {}

    def execute(_stage: object, context: VerificationContext) -> None:
        context.offer_value("words.count", 3, why="there are no words")
        context.offer_value("words.lost", None, why="there are no words", counts="wrong")
        seen.update(context.known_values)

    assert run(execute, words__count=int, words__lost=int).error is None
    assert seen == {
        "words.count": KnownValue(value=3),
        "words.lost": KnownValue(why="there are no words", counts="wrong"),
    }


@pytest.mark.parametrize(
    ("offers", "says"),
    [({"words.count"}, "offers must be a dictionary of types by name"), ({3: int}, "offers must be a dictionary")],
)
def test_mistyped_offers_are_refused(offers: object, says: str) -> None:
    words = stage("Words", offers=offers, execute=lambda _self, _context: None)

    with pytest.raises(PluginError, match=says):
        Plugins().register(offering(karenina_extra_stages=[words]), distribution="word-tools")


def test_values_are_data_of_the_plan() -> None:
    made = plan([*comparing("words.count"), stage("Zed", offers={"words.count": int})])
    zed = next(one for one in made.stages if one.name == "Zed")

    assert list(zed.offers) == ["words.count"]
    assert offer(type(zed.stage)).stage.offers == {"words.count": int}
