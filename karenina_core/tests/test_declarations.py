"""Stages with invalid declarations: refused by name when they are offered, with the line that corrects them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugin_makers import offering
from pydantic import BaseModel

from karenina_core import (
    ArtifactKey,
    ArtifactKeys,
    CheckStage,
    Question,
    Slot,
    Stage,
    VerificationConfig,
    VerificationContext,
)
from karenina_core.data.outcome import Outcome
from karenina_core.errors import PluginError, RunError
from karenina_core.pipeline import Pipeline
from karenina_core.plan import order_stages
from karenina_core.plugins import Plugins
from karenina_core.stage_selection import SelectedStage
from karenina_core.stages.stage import AutoFailStage
from karenina_core.text import is_one_edit_away

KEY = ArtifactKey("words.count", int)


class Settings(BaseModel):
    words: int = 3


class Odd:
    """A descriptor that cannot be read from a class."""

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError("only from an object")


class Words(Stage):
    name = "Words"

    def execute(self, context: VerificationContext) -> None: ...


def refusal(stage: type[Stage]) -> str:
    """Return the error of a plugin that offers the stage."""
    with pytest.raises(PluginError) as caught:
        Plugins().register(offering(karenina_extra_stages=[stage]), distribution="word-tools")
    return str(caught.value)


def declared(**attributes: Any) -> type[Stage]:
    """Return a stage with more in its class body."""
    return type("Mine", (Words,), {"__module__": __name__, **attributes})


async def included(self: Stage, config: VerificationConfig, question: Question) -> bool:
    return True


def shoud_run(self: Stage, context: VerificationContext) -> bool:
    return True


def generate(self: Stage, context: VerificationContext) -> Iterator[int]:
    yield 1


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "an unknown scope": (
        {"scope": "items"},
        """scope must be "item" or "answer", not 'items' (write scope = "item")""",
    ),
    "a key without braces": (
        {"requires": KEY},
        "requires must be a set of artifact keys, not KEY (write requires = {KEY})",
    ),
    "a list of keys": (
        {"optional": [KEY]},
        "optional must be a set of artifact keys, not [KEY] (write optional = {KEY})",
    ),
    "empty braces": (
        {"produces": {}},
        "produces must be a set of artifact keys, not {} (write produces = frozenset())",
    ),
    "names of keys": ({"requires": {"a"}}, """write requires = {ArtifactKey("my_package.name", type)}"""),
    "a name without braces": ({"after": "Other"}, "write after = {'Other'}"),
    "a slot without braces": ({"before": Slot.PARSE_TEMPLATE}, "write before = {Slot.PARSE_TEMPLATE}"),
    "a key as a place": ({"after": {KEY}}, "after must be a set of slots or stage names, not {KEY}"),
    "a slot's name": ({"after": {"parse_template"}}, "write after = {Slot.PARSE_TEMPLATE}"),
    "a property": (
        {"requires": property(lambda self: {KEY})},
        "requires must be a set of artifact keys, not a property",
    ),
    "a set of settings": ({"reads": {"run_name"}}, 'write reads = {"setting": value_if_missing}'),
    "a text as slot": ({"slot": "parse_template"}, "slot must be a slot, not 'parse_template' (write slot = Slot."),
    "an object of settings": (
        {"settings": Settings()},
        "settings must be a pydantic model class, not Settings(words=3) (write settings = MySettings)",
    ),
    "a number as flag": ({"fallback": 1}, "fallback must be True or False, not 1 (write fallback = True)"),
    "a mistyped set": (
        {"require": {KEY}},
        "'require' is not a known declaration and has no effect (write requires = {KEY})",
    ),
    "a mistyped model": ({"setting": Settings}, "write settings = Settings"),
    "a mistyped slot": ({"slots": Slot.PARSE_TEMPLATE}, "write slot = Slot.PARSE_TEMPLATE"),
    "a mistyped scope": ({"scop": "answer"}, "write scope = 'answer'"),
    "an outcome of judged items": ({"error_outcome": Outcome.WRONG}, "write error_outcome = Outcome.STAGE_ERROR"),
    "an outcome's name": (
        {"error_outcome": "stage_error"},
        "error_outcome must be an outcome for items that are not judged, not 'stage_error'",
    ),
    "arguments": (
        {"__init__": lambda self, limit: None},
        "the stage is created without arguments, but its constructor requires limit",
    ),
    "a generator": (
        {"execute": generate},
        "execute() is a generator, so calling it does nothing (write it without yield)",
    ),
    "swapped letters": ({"efter": {"Other"}, "befroe": {"Other"}}, "write before = {'Other'}"),
    "a coroutine": ({"included": included}, "included() is never awaited (write def included(...), without async)"),
    "a mistyped method": (
        {"shoud_run": shoud_run},
        "shoud_run() is not a stage method and is never called (write def should_run(...))",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_declaration_is_refused_with_its_cure(case: str) -> None:
    attributes, cure = WRONG[case]

    said = refusal(declared(**attributes))

    assert f"the stage Words ({__name__}.Mine) has invalid declarations" in said
    assert cure in said


def test_a_missing_execute_names_the_mistyped_one() -> None:
    class Late(Stage):
        name = "Late"

        def exceute(self, context: VerificationContext) -> None: ...

    assert "the class has no execute(), and exceute() is never called (write def execute(self, context))" in refusal(
        Late
    )


def test_what_a_base_class_asks_for_is_required() -> None:
    class Tone(CheckStage):
        name = "Tone"

    class Short(AutoFailStage):
        name = "Short"

    assert "the class has no prefix (write prefix = ... in the class)" in refusal(Tone)
    assert "the class has no detect() (write async def detect(self, context))" in refusal(Tone)
    assert "the class has no reason() (write def reason(self, context))" in refusal(Short)


def test_all_mistakes_are_reported_at_once() -> None:
    said = refusal(declared(scope="items", requires=KEY, require={KEY}))

    assert all(line in said for line in ('scope = "item"', "not KEY", "'require' is not a known declaration"))


def test_a_check_with_a_wrong_declaration_can_be_defined() -> None:
    """Its class is made without an error, so that the refusal can name it."""

    class Tone(CheckStage):
        name = "Tone"
        prefix = "tone"
        produces = KEY  # type: ignore[assignment]

        async def detect(self, context: VerificationContext) -> Any: ...

    assert "write produces = {KEY}" in refusal(Tone)


def test_other_attributes_and_methods_are_free() -> None:
    def score(self: Stage, text: str) -> int:
        return len(text)

    own: dict[str, Any] = {"ready": {}, "read": {"a": 1}, "prompt": ("a", "b"), "score": score, "_requires": {KEY}}
    free = declared(words={"a", "b"}, limit=5, schema=Settings, heads="two", precedance=5, odd=Odd(), **own)
    good = declared(requires={ArtifactKeys.RAW_LLM_RESPONSE}, after={"Other", Slot.GENERATE_ANSWER}, settings=Settings)

    others = declared(after={"ParseTemplates", "GenerateAnswers"}, reads={"run_names": 1})
    for stage in (free, good, others, dataclass(declared())):
        plugins = Plugins()
        plugins.register(offering(karenina_extra_stages=[stage]))
        assert [one.value for one in plugins.of_kind("stage")] == [stage]


def test_a_refused_plugin_leaves_no_trace() -> None:
    plugins = Plugins()
    plugins.register(offering(karenina_extra_stages=[Words]), distribution="good")

    with pytest.raises(PluginError):
        plugins.register(offering(karenina_extra_stages=[declared(scope="items")]), distribution="bad")

    assert [one.distribution for one in plugins.of_kind("stage")] == ["good"]
    assert [info.distribution for info in plugins.describe() if info.state == "failed"] == []


def test_helpers_with_similar_names_are_free() -> None:
    class Short(AutoFailStage):
        name = "Short"

        def reason(self, context: VerificationContext) -> str | None:
            return None

        def reasons(self, context: VerificationContext) -> list[str]:
            return []

    Plugins().register(offering(karenina_extra_stages=[Short]))


def test_a_stage_that_cannot_be_hashed_is_planned_and_run() -> None:
    stage = dataclass(declared())
    plan = order_stages([SelectedStage(stage(), "good", "1")])

    assert Pipeline(plan, listener=None).plan is plan


def test_a_planned_stage_that_would_never_run_stops_the_run() -> None:
    """A stage that changes its scope after it was offered, or is planned without being offered."""
    plan = order_stages([SelectedStage(declared(scope="items")(), "bad", "1")])

    with pytest.raises(RunError, match="stage Words would never run because its scope is 'items'"):
        Pipeline(plan, listener=None)


@given(word=st.text("abc", min_size=1, max_size=6), data=st.data())
def test_one_edit_is_found_and_two_are_not(word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(word)))
    left_out, changed = word[:place] + word[place + 1 :], word[:place] + "x" + word[place + 1 :]
    added, swapped = word[:place] + "x" + word[place:], word[:place] + word[place : place + 2][::-1] + word[place + 2 :]

    for other in (left_out, changed, added, swapped):
        assert is_one_edit_away(word, other) == is_one_edit_away(other, word) == (word != other)
    assert not is_one_edit_away(word, "xx" + word)
    assert not is_one_edit_away(word, word)
