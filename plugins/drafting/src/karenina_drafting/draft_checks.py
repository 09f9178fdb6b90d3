"""Checks a proposed template without calling a model.

The messages are sent to the model that drafted the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from karenina_benchmark import Benchmark
from karenina_benchmark.template_declarations import DeclarationError, make_template_source
from karenina_drafting.brief import boolean_in, contains_date, contains_words, date_of, numbers_in, plain_words
from karenina_drafting.proposal import Proposal, ProposalError, declare
from karenina_template.question_template import template_of
from karenina_template.templates.comparison import Comparison

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_drafting.brief import OtherAnswer
    from karenina_template.templates import BoundTemplate

_SEPARATORS: Final = re.compile(r"\s*(?:[,;\n]|\band\b)\s*")
_MIN_LETTERS: Final = 3


@dataclass(frozen=True, slots=True)
class CheckedDraft:
    """A draft and the results of its checks.

    `answer` is the declaration as in a YAML file, or None if it cannot be declared. `bound` is the template, or None if
    it cannot be built or an early check failed. `problems` lists what to correct, and `unchecked` lists what could not
    be checked.
    """

    answer: Mapping[str, Mapping[str, Any]] | None
    bound: BoundTemplate | None
    problems: tuple[str, ...]
    unchecked: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return not self.problems


def check_draft(question: Question, reference: str, proposal: Proposal, others: Sequence[OtherAnswer]) -> CheckedDraft:
    """Check a proposal for a question whose answer is `reference`, by rules alone, without calling a model. Problems
    are not raised, but listed in the result. If the template itself has any, it is not tried on the answers to
    `others`.

    The template must build, accept its ground truth and reject a changed one. Its names and descriptions must not
    reveal the ground truth (`karenina check`). If all this is the case, the ground truth must also be in the reference
    answer, and the answers to other questions must fail.
    """
    try:
        answer = declare(proposal)
        source = make_template_source(answer)
    except (ProposalError, DeclarationError) as error:
        return CheckedDraft(None, None, tuple(str(error).split("\n")))
    drafted = question.changed(answer_template=source)
    problems = [*_find_flaws(drafted), *_find_shown(answer, question.question, reference)]
    if problems:
        return CheckedDraft(answer, None, tuple(dict.fromkeys(problems)))
    template = template_of(drafted)
    assert template is not None  # it was just checked
    bound = template.for_question(question.id)
    problems += _find_foreign_truths(answer, reference)
    problems += [problem for other in others if (problem := reject_other(answer, bound, other)) is not None]
    unchecked = () if others else ("no other question has a different answer, so none was tried",)
    return CheckedDraft(answer, bound, tuple(problems), unchecked)


def reject_other(answer: Mapping[str, Mapping[str, Any]], bound: BoundTemplate, other: OtherAnswer) -> str | None:
    """Return a problem if the template accepts the answer to another question, or None. No model is called: the values
    of the fields declared in `answer` are read by simple rules. An answer whose values do not fit the fields is
    rejected.
    """
    values = {name: read_value(declared["type"], other.answer) for name, declared in answer.items()}
    try:
        accepted = Comparison(bound.bind(values)).passed() is True
    except ValidationError:
        return None
    if not accepted:
        return None
    return f"the draft accepts {_quote(other.answer)}, the answer to another question; make its rules stricter"


def read_value(kind: object, text: str) -> object:
    """Read the value for a field of type `kind` from the text of a short answer. Returns None if there is no such
    value. If there are several numbers, the first one is used. It must be whole for `int`. Choices must equal the text.
    Lists are split at commas, semicolons, line ends and "and", and may be empty. For any other type, the value is the
    stripped text.
    """
    match kind:
        case "int" | "float":
            numbers = numbers_in(text)
            number = numbers[0] if numbers else None
            if number is None or (kind == "int" and number != number.to_integral_value()):
                return None
            return int(number) if kind == "int" else float(number)
        case "bool":
            return boolean_in(text)
        case "date":
            day = date_of(text)
            return None if day is None else day.isoformat()
        case "list[str]":
            return [part for part in _SEPARATORS.split(text) if part]
        case {"literal": list(choices)}:
            return next((choice for choice in choices if plain_words(str(choice)) == plain_words(text)), None)
        case _:
            return text.strip()


def _find_flaws(drafted: Question) -> Iterator[str]:
    """Yield the findings of `karenina check` for a question, without its rubrics and workspace."""
    benchmark = Benchmark.create(name="Draft")
    benchmark.add_question(drafted.changed(rubric=None, dynamic_rubric=None, workspace_path=None))
    for finding in benchmark.check().findings:
        yield f"{finding.what}; {finding.cure}" if finding.cure else finding.what


def _find_shown(answer: Mapping[str, Mapping[str, Any]], question: str, reference: str) -> Iterator[str]:
    """Yield a problem for each field declared in `answer` whose name contains its ground truth, or whose description
    contains the reference answer, because a judge sees both. Ground truths in descriptions are found by
    `karenina check`. A value is not a problem if it is in the question, very short, or just "yes" or "no", or if the
    description also contains other choices.
    """
    for name, declared in answer.items():
        words = name.replace("_", " ")
        for truth in _texts(declared["ground_truth"]):
            if _is_telling(truth) and contains_words(words, truth) and not contains_words(question, truth):
                yield f"the name {name!r} contains the truth {truth!r}, which the judge would see; rename the field"
        shown, whole = str(declared["description"]), reference.strip()
        if _is_telling(whole) and contains_words(shown, whole) and not contains_words(question, whole):
            choices = declared["type"]["literal"] if isinstance(declared["type"], Mapping) else []
            others = [
                choice
                for choice in choices
                if plain_words(choice) != plain_words(whole) and contains_words(shown, choice)
            ]
            if not others:
                yield f"the description of {name!r} contains the answer, which the judge would see; remove it there"


def _find_foreign_truths(answer: Mapping[str, Mapping[str, Any]], reference: str) -> Iterator[str]:
    """Yield a problem for each ground truth that is not in the reference answer."""
    for name, declared in answer.items():
        for truth in _values(declared["ground_truth"]):
            if not _states(reference, truth, declared["type"]):
                shown = "true" if truth is True else "false" if truth is False else repr(truth)
                yield f"the truth {shown} of {name!r} is not in the answer {_quote(reference)}; copy it from there"


def _states(reference: str, truth: object, kind: object) -> bool:
    """Return whether the reference answer contains a ground truth of type `kind`. A boolean must be the first word (see
    `boolean_in`). Other values may be anywhere.
    """
    match truth:
        case bool():
            return boolean_in(reference) is truth
        case int() | float():
            return Decimal(repr(truth)) in numbers_in(reference)
        case str() if kind == "date":
            return contains_date(reference, date.fromisoformat(truth))
        case _:
            return contains_words(reference, str(truth))


def _values(truth: object) -> list[object]:
    """Return the values in a ground truth, which are the elements of a list or the single value."""
    return truth if isinstance(truth, list) else [truth]


def _texts(truth: object) -> list[str]:
    return [value for value in _values(truth) if isinstance(value, str)]


def _is_telling(text: str) -> bool:
    """Return whether a string gives the answer away: at least three letters or digits, and not "yes" or "no"."""
    letters = sum(map(str.isalnum, text))
    return letters >= _MIN_LETTERS and (boolean_in(text) is None or " " in text.strip())


def _quote(text: str) -> str:
    """Return the `repr` of a string on one line, shortened to 80 characters."""
    shown = " ".join(text.split())
    return repr(shown if len(shown) <= 80 else f"{shown[:77]}...")
