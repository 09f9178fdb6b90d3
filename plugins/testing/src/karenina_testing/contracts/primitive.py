"""The contract for primitives, which compare a field with its ground truth or read the response."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import pytest
from pydantic import BaseModel, ValidationError

from karenina_testing.contracts.plugin import PluginContract, find_unmarked_fields

STRANGE: Final[Sequence[object]] = (None, "", "  ", 0, -1, 2.5, float("nan"), True, [], [None], {}, {"a": 1}, object())
"""Values of an unexpected type that a judge might extract."""


class AnyPrimitive(Protocol):
    """The part of `karenina_template.templates.Primitive` that the contract uses."""

    reads_trace: ClassVar[bool]

    @classmethod
    def full_name(cls) -> str:
        """Return the primitive's name in benchmark files."""

    def check(self, extracted: object, expected: object) -> object:
        """Return whether the extracted value passes: True, False or `Undecided`."""

    def check_extracted(self, extracted: object, expected: object, response: str) -> object:
        """Return the result of `check` for a value extracted from the response."""

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit, from 0 to 1."""

    def check_trace(self, text: str) -> object:
        """Return whether the response passes."""

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` if `expected` cannot be a ground truth."""

    def accept(self, expected: object) -> object:
        """Return a value that passes."""

    def mutate(self, expected: object) -> object:
        """Return a value that fails, or None if no value fails."""

    def to_json(self) -> dict[str, Any]:
        """Return the primitive as a JSON object."""


class PrimitiveContract(PluginContract):
    """The contract for a primitive, with samples.

    - `primitive`: an instance whose parameters differ from the defaults.
    - `truths`: valid ground truths; `bad_truths`: values that cannot be ground truths.
    - `passes`, `fails`, `undecided`: pairs of an extracted value and a ground truth that pass, fail or return
      `Undecided`.
    - `unreadable`: pairs of an extracted value and a ground truth, for a primitive with the parameter `unreadable`. The
      value occurs literally in a response but cannot be read.
    - `has_wrong_values`: set this to False if `mutate` returns None because no value fails.
    - `responses`: for a primitive that reads the response, a mapping from responses to whether they pass. The other
      samples are not needed in this case.
    """

    primitive: ClassVar[AnyPrimitive]
    truths: ClassVar[Sequence[object]] = ()
    bad_truths: ClassVar[Sequence[object]] = ()
    passes: ClassVar[Sequence[tuple[object, object]]] = ()
    fails: ClassVar[Sequence[tuple[object, object]]] = ()
    undecided: ClassVar[Sequence[tuple[object, object]]] = ()
    unreadable: ClassVar[Sequence[tuple[object, object]]] = ()
    has_wrong_values: ClassVar[bool] = True
    responses: ClassVar[Mapping[str, bool]] = {}

    def test_the_samples_are_complete(self) -> None:
        if self.primitive.reads_trace:
            assert set(self.responses.values()) == {True, False}, "define responses that pass and responses that fail"
        else:
            assert self.truths, "define valid ground truths for the contract"
            assert self.fails, "define some failing pairs for the contract"

    def test_json_gives_the_same_primitive(self) -> None:
        model = self._model()
        written = json.loads(json.dumps(self.primitive.to_json(), allow_nan=False))
        assert written.pop("type") == self.primitive.full_name()
        again: object = model.model_validate(written)
        assert again == self.primitive

    def test_an_unknown_parameter_is_refused(self) -> None:
        written = {**self.primitive.to_json(), "no_such_parameter": 1}
        written.pop("type")
        with pytest.raises(ValidationError, match="no_such_parameter"):
            self._model().model_validate(written)

    def test_each_parameter_says_whether_a_benchmark_may_set_it(self) -> None:
        assert find_unmarked_fields(self._model()) == []

    def test_a_truth_passes_for_itself(self) -> None:
        for truth in self.truths:
            self.primitive.check_expected(truth)
            right = self.primitive.accept(truth)
            assert self.primitive.check(right, truth) is True, f"{right!r} does not pass for the ground truth {truth!r}"
            assert self.primitive.score(right, truth) == 1.0

    def test_a_changed_truth_does_not_pass(self) -> None:
        for truth in self.truths:
            wrong = self.primitive.mutate(truth)
            assert (wrong is not None) is self.has_wrong_values, f"mutate({truth!r}) returned {wrong!r}"
            assert wrong is None or self.primitive.check(wrong, truth) is False, (
                f"{wrong!r} passes for the ground truth {truth!r}"
            )

    def test_the_samples_pass_and_fail(self) -> None:
        assert [pair for pair in self.passes if self.primitive.check(*pair) is not True] == []
        assert [pair for pair in self.fails if self.primitive.check(*pair) is not False] == []
        assert [pair for pair in self.undecided if not _is_undecided(self.primitive.check(*pair))] == []

    def test_only_an_unreadable_value_of_the_response_can_be_wrong(self) -> None:
        model = self._model()
        assert bool(self.unreadable) is ("unreadable" in model.model_fields), (
            "define pairs with an unreadable value if, and only if, the primitive has the parameter `unreadable`"
        )
        parameters = {name: value for name, value in self.primitive.to_json().items() if name != "type"}
        for value, truth in self.unreadable:
            for unreadable in ("not_judged", "wrong"):
                primitive: Any = model.model_validate({**parameters, "unreadable": unreadable})
                made_up = primitive.check_extracted(value, truth, "The response says something else.")
                copied = primitive.check_extracted(value, truth, f"The answer is {value}.")
                assert _is_undecided(primitive.check(value, truth)), f"{value!r} can be read"
                assert _is_undecided(made_up), f"{value!r} counts against a response that does not contain it"
                assert (copied is False) if unreadable == "wrong" else _is_undecided(copied), (value, unreadable)

    def test_credit_is_between_none_and_all(self) -> None:
        for extracted, truth in (*self.passes, *self.fails):
            assert 0.0 <= self.primitive.score(extracted, truth) <= 1.0, (extracted, truth)

    def test_an_extracted_value_of_any_type_is_no_error(self) -> None:
        for truth in self.truths:
            for value in STRANGE:
                answer = self.primitive.check(value, truth)
                assert isinstance(answer, bool) or _is_undecided(answer), (
                    f"check{value, truth} returned {answer!r}, which is neither a bool nor undecided"
                )
                assert 0.0 <= self.primitive.score(value, truth) <= 1.0, (value, truth)
            assert self.primitive.check(None, truth) is False, "an empty extraction must never pass"

    def test_a_bad_truth_is_an_error_that_shows_it(self) -> None:
        for truth in self.bad_truths:
            with pytest.raises(ValueError, match=type(self.primitive).__name__):
                self.primitive.check_expected(truth)

    def test_the_responses_pass_and_fail(self) -> None:
        wrong = [text for text, passes in self.responses.items() if self.primitive.check_trace(text) is not passes]
        assert wrong == []

    def _model(self) -> type[BaseModel]:
        """Return the primitive's class. Fails if it is not a pydantic model."""
        kind = type(self.primitive)
        assert issubclass(kind, BaseModel), "derive the primitive from karenina_template.templates.Primitive"
        return kind


def _is_undecided(answer: object) -> bool:
    """Return whether `answer` is an `Undecided` with a reason.

    The class is recognized by its name to avoid importing it here.
    """
    names = {kind.__name__ for kind in type(answer).__mro__}
    return "Undecided" in names and bool(getattr(answer, "why", ""))
