"""A check of a template's code on sample answers, before any model is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.comparison import Comparison
from karenina_template.templates.errors import InvalidAnswer, TemplateError
from karenina_template.templates.sample_values import is_open, make_samples

if TYPE_CHECKING:
    from karenina_template.templates.template import BoundTemplate


_VERIFY: Final = "verify()"


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error of the template's code for one sample, and the answer, if it could be made."""

    step: str
    error: Exception
    answer: BaseAnswer | None

    def likeness(self) -> tuple[str, type[Exception], str]:
        return self.step, type(self.error), str(self.error)


def check_samples(bound: BoundTemplate) -> str | None:
    """Return what is wrong with `verify()` if it raises the same error for every answer; None otherwise.

    Raises `TemplateError` if other code of the template does, so that there can be no answer, or if no answer has a
    result that is a verdict. The samples have the
    types that the judge fills in; the truth is one of them if `self.correct` has a value for each field. Errors that
    depend on the values are ignored, and so are those that a correct answer of another form might not cause.
    """
    failures: list[_Failure] = []
    truth: dict[str, Any] | None = None
    for values in make_samples(bound.judge_schema()):
        answer, failure = _try_values(bound, values)
        if answer is not None:
            truth = truth or _truth_of(bound, answer)
        if failure is not None:
            failures.append(failure)
        elif answer is not None:
            return None
    if truth is not None:
        answer, failure = _try_values(bound, truth)
        if failure is None:
            return None
        failures.append(failure)
    if len({failure.likeness() for failure in failures}) != 1:
        return None
    failure = failures[-1]
    if not _is_mistake(failure, bound, knows_truth=truth is not None):
        return None
    shown = str(failure.error) if isinstance(failure.error, TemplateError) else _described(failure.error)
    what = f"{failure.step} fails for every answer{', also for the truth' * bool(truth)}: {shown}"
    if failure.step != _VERIFY or isinstance(failure.error, InvalidAnswer):
        raise TemplateError(what)
    return what


def _try_values(bound: BoundTemplate, values: Mapping[str, Any]) -> tuple[BaseAnswer | None, _Failure | None]:
    """Return the answer for these values, and the failure of its code; neither if the values are invalid."""
    try:
        answer = bound.bind(values)
    except ValidationError:
        return None, None
    except Exception as error:
        return None, _Failure("the code that makes an answer", error, None)
    try:
        answer.verify_regex("")
    except Exception as error:
        return answer, _Failure("self.regex", error, answer)
    try:
        Comparison(answer).passed()
    except Exception as error:
        return answer, _Failure(_VERIFY, error, answer)
    return answer, None


def _truth_of(bound: BoundTemplate, answer: BaseAnswer) -> dict[str, Any] | None:
    """Return the values of a correct answer, if `correct` has one for every field of the judge."""
    correct = answer.correct
    if not isinstance(correct, Mapping) or not correct.keys() >= set(bound.judge_fields):
        return None
    return {name: correct[name] for name in bound.judge_fields}


def _is_mistake(failure: _Failure, bound: BoundTemplate, *, knows_truth: bool) -> bool:
    """Return whether the error is a mistake in the template, and not caused by the samples."""
    error, answer = failure.error, failure.answer
    if _is_of_none(error):
        return answer is not None and answer.correct is None and "correct" in set(_names_used(type(answer)))
    if knows_truth or failure.step == "self.regex":
        return True
    if is_open(bound.judge_schema()):
        return False
    if isinstance(error, KeyError):
        correct = {} if answer is None else answer.correct
        return isinstance(correct, Mapping) and not any(key in correct for key in error.args)
    if isinstance(error, NameError):
        return not isinstance(error, UnboundLocalError)
    return isinstance(error, AttributeError | TypeError | ImportError | NotImplementedError | TemplateError)


def _is_of_none(error: Exception) -> bool:
    """Return whether a value was None by mistake: a search without result in a sample, or a missing truth."""
    if isinstance(error, AttributeError):
        return error.obj is None
    return isinstance(error, TypeError) and "NoneType" in str(error)


def _names_used(answer: type[BaseAnswer]) -> Iterator[str]:
    for cls in answer.__mro__:
        if cls is BaseAnswer:
            return
        for value in vars(cls).values():
            yield from getattr(getattr(value, "__code__", None), "co_names", ())


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
