"""Running totals of results: outcomes, pass rates, trait scores, failures and usage.

Equal failures are counted together, so that the cause of a thousand failed items is printed only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import repeat
from operator import add
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import REPORTED_COUNTS, Usage
from karenina_core.stages.finalize import NO_TEMPLATE
from karenina_engine.results.question_units import unit_of_result
from karenina_engine.results.rates import Clusters, Rate, TraitSummary, TraitTally, is_number
from karenina_toolkit.conversations import OWNER

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

MAX_KINDS: Final = 1000
"""The maximum number of different failures that are counted separately."""
OTHERS: Final = "other failures, each of a different kind"

_RETRIES: Final = re.compile(r"; \d+ attempts, with [\d.]+ s of waiting in all")
_NUMBER: Final = re.compile(r"(?<!HTTP )(?<![\w.])\d+([.,]\d+)*(?![\w])")
_ESCAPE: Final = re.compile(r"\\(.)")
_COMPARED_LENGTH: Final = 500
_STORED_LENGTH: Final = 2000
_MIN_ID_LENGTH: Final = 4
_MIN_PART_LENGTH: Final = 12
"""The minimum length of a quotation from part of an item's text. A shorter quotation must be a whole text."""
_QUOTATION: Final = re.compile(
    r"""(?<!\w)(?:'((?:[^'\\\n]|\\.){1,1000})'|"((?:[^"\\\n]|\\.){1,1000})"|\u201c([^\u201d\n]{1,1000})\u201d)(?!\w)"""
)
_USAGE_FIELDS: Final = tuple(field.name for field in fields(Usage) if field.name in REPORTED_COUNTS)
GroupKey = tuple[str, str]
"""The ids of an answering model and a judge. A jury counts as one judge."""


_PERFORMED: Final = "_check_performed"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure shared by several items.

    `error` is the first item's error, without the parts that differ between items.
    """

    items: int
    error: str


class FailureCounts:
    """Counts of a run's failures by kind. At most `MAX_KINDS` kinds are counted separately."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def add(self, error: str, question_id: str, texts: Sequence[str] = ()) -> None:
        """Count the failure of an item. `texts` contains the item's texts, from `item_texts`. Kinds of errors after the
        first `MAX_KINDS` are counted together. Errors are stored with at most `_STORED_LENGTH` characters.
        """
        error = _without_item(error, question_id, texts)
        kind = _without_numbers(error)
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind, error = OTHERS, OTHERS
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._first.setdefault(kind, error[:_STORED_LENGTH])

    def ranked(self) -> list[Failure]:
        """Return all failures, most frequent first."""
        failures = [Failure(count, self._first[kind]) for kind, count in self._counts.items()]
        return sorted(failures, key=lambda failure: (-failure.items, failure.error))


def failure_kind(error: str, question_id: str, texts: Sequence[str] = ()) -> str:
    """Return the key under which a failure is counted: the error without the question's id, numbers (except HTTP
    statuses) and quotations from the item's `texts`. Equal failures have the same key.
    """
    return _without_numbers(_without_item(error, question_id, texts))


def item_texts(result: VerificationResult) -> list[str]:
    """Return the texts of an item that an error may quote: the question, the answers, and all values of fields. This
    includes extracted values, known values and the ground truth.
    """
    meta, template = result.metadata, result.template
    texts = [meta.question_text, meta.raw_answer or "", template.raw_llm_response]
    known = [value.value for value in (template.known_values or {}).values()]
    values: list[object] = [template.parsed_llm_response, template.parsed_gt_response, known]
    while values:
        value = values.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, Mapping):
            values += value.values()
        elif isinstance(value, list):
            values += value
    return [text for text in texts if text]


def _without_numbers(error: str) -> str:
    """Return the beginning of an error, with its numbers replaced."""
    return _NUMBER.sub("#", error[:_COMPARED_LENGTH])


def _without_item(error: str, question_id: str, texts: Sequence[str]) -> str:
    """Return the start of an error without the number of attempts, and with an ellipsis instead of the question's ID,
    the item's `texts` and long quotations from them. Very short IDs and texts are only replaced if they are in
    quotation marks.
    """
    error = error.replace(f"{question_id}, line ", "line ")
    error = error.replace(question_id, "...") if len(question_id) >= _MIN_ID_LENGTH else error
    for text in texts:
        error = error.replace(text, "...") if len(text) >= _MIN_PART_LENGTH else error
    error = _RETRIES.sub("", error)
    compared: list[str] = []

    def fold(quotation: re.Match[str]) -> str:
        """Return an ellipsis for a quotation that is a text of the item, or a long enough part of one, otherwise the
        quotation.
        """
        if not compared:
            compared.extend(" ".join(text.split()) for text in (question_id, *texts))
        part = next(filter(None, quotation.groups()))
        if "\\" in part:
            part = _ESCAPE.sub(lambda escape: " " if escape[1] in "nrt" else escape[1], part)
        part = " ".join(part.removesuffix("...").removesuffix("\u2026").split())
        known = part in compared or (len(part) >= _MIN_PART_LENGTH and any(part in text for text in compared))
        return "'...'" if known else quotation[0]

    return _QUOTATION.sub(fold, error[: 2 * _STORED_LENGTH])


def is_unjudged(result: VerificationResult) -> bool:
    """Return whether a result should have a verdict but is undecided or failed, like `lacks_verdict`."""
    return lacks_verdict(result.outcome, result.metadata.template_id)


def lacks_verdict(outcome: Outcome, template_id: str) -> bool:
    """Return whether a result with this outcome and template should have a verdict but is undecided or failed.

    Results without a template are only scored, so they have no verdict even if all traits are scored.
    """
    without = outcome is Outcome.RUBRIC_ERROR or (template_id == NO_TEMPLATE and outcome is not Outcome.TEMPLATE_ERROR)
    return not outcome.judged and not without


def has_verdict(result: VerificationResult) -> bool:
    """Return whether a result counts towards a pass rate, like `is_rated`."""
    return is_rated(result.outcome, result.metadata.template_id)


def is_rated(outcome: Outcome, template_id: str) -> bool:
    """Return whether a result with this outcome and template counts towards a pass rate.

    Without a template, no result can be correct, so one that a rule failed has no part in a rate.
    """
    return outcome.has_verdict and not (outcome.group == "failed" and template_id == NO_TEMPLATE)


class UserFaults(BaseModel):
    """How many of the items with a simulated user were not judged because the user was at fault.

    `worst` and `best` are the shares of correct items if all of these were wrong or right, respectively.
    """

    model_config = ConfigDict(frozen=True)

    items: int
    faulty: int
    worst: float
    best: float


class Counts(BaseModel):
    """Counts of outcomes.

    `items` is the total number of items. `judged` items have a verdict, `not_judged` items ended in an error or are
    undecided, and `scored` items only have trait scores. `worst` and `best` are the shares of correct items if every
    unjudged item were wrong or right, respectively. They do not include items that only lack a trait score or that have
    no template, because such items would have no verdict anyway. `mean_granular` is the mean granular result of
    `granular_out_of` items, and `traits` contains a summary of each trait by name. `users` is None unless a simulated
    user was at fault.
    """

    model_config = ConfigDict(frozen=True)

    items: int
    judged: int
    not_judged: int
    scored: int
    outcomes: dict[str, int]
    worst: float | None
    best: float | None
    mean_granular: float | None = None
    granular_out_of: int = 0
    traits: dict[str, TraitSummary] = {}
    users: UserFaults | None = None


class GroupSummary(Counts):
    """The counts and pass rate of a group: an answering model and a judge.

    `pass_rate` is the share of judged items that are correct. It also gives the number of undecided items, and the rate
    if all of them were wrong. `name` is short but unique in the run. It is the answering model's id, with the judge's
    id added if the model has several judges.
    """

    answering: str = ""
    judge: str = ""
    name: str = ""
    pass_rate: Rate


class Summary(Counts):
    """The counts of a run, and the summary of each of its groups.

    Groups are never pooled. If there are several, `pass_rate`, `worst`, `best` and `mean_granular` are None, and
    `traits` is empty. Use `groups` instead.
    """

    pass_rate: Rate | None
    groups: list[GroupSummary] = []

    @property
    def undecided(self) -> int:
        """The number of undecided items."""
        return self.outcomes.get(Outcome.UNDECIDED.value, 0)


class OutcomeTally:
    """Running counts of outcomes.

    `per_question` is the number of items for each question, if known. `repeated` contains those for the questions with
    another number. If they are given, a question takes no more memory once all of its items have been counted.
    """

    def __init__(self, per_question: int | None = None, repeated: Mapping[Hashable, int] | None = None) -> None:
        self._per_question = per_question
        self._repeated = repeated or {}
        self._counts: Counter[Outcome] = Counter()
        self._verdicts = Clusters()
        self._seen: dict[Hashable, int] = {}
        self._grades = Fraction(0)  # exact, so that the order does not matter; it is slow
        self._whole_grades = 0
        self._graded = 0
        self._unjudged = 0

    def __len__(self) -> int:
        """Return the number of items counted so far."""
        return self._counts.total()

    def add(self, outcome: Outcome, question: Hashable, granular: object = None, *, template_id: str = "") -> None:
        """Count an item. `question` identifies its question, since items of one question are not independent.
        `granular` is the item's granular result, which is only used if it is a number and the item has a verdict.
        `template_id` is the id of its template, which decides whether a verdict is missing.
        """
        self._counts[outcome] += 1
        self._unjudged += lacks_verdict(outcome, template_id)
        if is_rated(outcome, template_id) or not outcome.has_verdict:
            self._verdicts.add_outcome(question, outcome)
        if outcome.has_verdict and is_number(granular):
            if granular == int(granular):
                self._whole_grades += int(granular)
            else:
                self._grades += Fraction(granular)
            self._graded += 1
        if self._per_question is not None:
            seen = self._seen.get(question, 0) + 1
            if seen < self._repeated.get(question, self._per_question):
                self._seen[question] = seen
            else:
                self._seen.pop(question, None)
                self._verdicts.fold(question)

    def summary(self) -> GroupSummary:
        """Return a summary of the items counted so far. It has no names and no traits."""
        counts = self._counts
        correct = counts[Outcome.CORRECT]
        not_judged = sum(count for outcome, count in counts.items() if not outcome.judged)
        asked = self._verdicts.items + self._unjudged
        return GroupSummary(
            items=len(self),
            judged=self._verdicts.items,
            not_judged=not_judged,
            scored=counts[Outcome.SCORED],
            outcomes={outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]},
            pass_rate=self._verdicts.rate(),
            worst=correct / asked if asked else None,
            best=(correct + self._unjudged) / asked if asked else None,
            mean_granular=float((self._grades + self._whole_grades) / self._graded) if self._graded else None,
            granular_out_of=self._graded,
        )


class RunTally:
    """Running counts of outcomes for each group.

    `per_question` is the number of items for each question in a group, if known, and `repeated` contains those for the
    questions with another number. See `OutcomeTally`.
    """

    def __init__(self, per_question: int | None = None, repeated: Mapping[Hashable, int] | None = None) -> None:
        self._per_question = per_question
        self._repeated = repeated or {}
        self._groups: dict[GroupKey, OutcomeTally] = {}

    def __len__(self) -> int:
        """Return the number of items counted so far, in all groups."""
        return sum(map(len, self._groups.values()))

    def add(
        self,
        group: GroupKey,
        outcome: Outcome,
        question: Hashable,
        granular: object = None,
        *,
        template_id: str = "",
    ) -> None:
        """Count an item in a group, like `OutcomeTally.add`."""
        tally = self._groups.get(group)
        if tally is None:
            tally = self._groups[group] = OutcomeTally(self._per_question, self._repeated)
        tally.add(outcome, question, granular, template_id=template_id)

    def groups(self) -> dict[GroupKey, GroupSummary]:
        """Return the summary of each group by the ids of its answering model and judge, sorted by these."""
        answering = Counter(model for model, _ in self._groups)
        return {
            (model, judge): self._groups[model, judge]
            .summary()
            .model_copy(
                update={
                    "answering": model,
                    "judge": judge,
                    "name": model if answering[model] == 1 else f"{model} judged by {judge}",
                }
            )
            for model, judge in sorted(self._groups)
        }

    def summary(self) -> Summary:
        """Return the summary of the items counted so far."""
        return summarize_groups(list(self.groups().values()))


def summarize_groups(groups: list[GroupSummary]) -> Summary:
    """Summarize a run that consists of the given groups. Rates, bounds, means and traits are only included if there is
    at most one group.
    """
    if len(groups) < 2:
        only = groups[0] if groups else OutcomeTally().summary()
        return Summary(
            **{name: getattr(only, name) for name in Counts.model_fields}, pass_rate=only.pass_rate, groups=groups
        )
    counts: Counter[str] = Counter()
    for group in groups:
        counts.update(group.outcomes)
    return Summary(
        items=sum(group.items for group in groups),
        judged=sum(group.judged for group in groups),
        not_judged=sum(group.not_judged for group in groups),
        scored=sum(group.scored for group in groups),
        outcomes={outcome.value: counts[outcome.value] for outcome in Outcome if counts[outcome.value]},
        worst=None,
        best=None,
        pass_rate=None,
        groups=groups,
    )


def _user_faults(summary: GroupSummary, items: int, faulty: int) -> UserFaults | None:
    """Return the counts `items` and `faulty`, and the bounds of the pass rate, for simulated users at fault, or None if
    there are none.
    """
    if not faulty:
        return None
    hits, asked = summary.pass_rate.hits, summary.pass_rate.out_of + faulty
    return UserFaults(items=items, faulty=faulty, worst=hits / asked, best=(hits + faulty) / asked)


class Totals:
    """Running totals of results: the summary, the groups, the failures and the usage.

    The results themselves are not kept in memory. `len()` returns their number. Equal questions under several ids are
    one question. `per_question` is the number of results for each question in a group, if known, and `repeated`
    contains those for the questions with several ids. See `OutcomeTally`.
    """

    def __init__(self, *, per_question: int | None = None, repeated: Mapping[Hashable, int] | None = None) -> None:
        self.outcomes: Final = RunTally(per_question, repeated)
        """The counts of outcomes."""
        self._traits: dict[GroupKey, TraitTally] = {}
        self._users: dict[GroupKey, list[int]] = {}
        self._answers: set[int] = set()
        self._used = [0] * len(_USAGE_FIELDS)
        self._failures = FailureCounts()
        self._failed_checks = FailureCounts()

    def __len__(self) -> int:
        """Return the number of results counted so far."""
        return len(self.outcomes)

    def add(self, result: VerificationResult) -> None:
        """Add a result with its traits, failed checks, calls and tokens. If it was not judged, its failure is added
        too. The calls and tokens of an answer shared by several judges are only counted once.
        """
        meta, template = result.metadata, result.template
        group = (meta.answering_id, meta.parsing_id)
        unit, grade = unit_of_result(result), template.verify_granular_result
        self.outcomes.add(group, result.outcome, unit, grade, template_id=meta.template_id)
        if not result.outcome.judged:
            self._failures.add(result.why(), result.question_id, item_texts(result))
        if result.rubric is not None:
            self._traits.setdefault(group, TraitTally()).add(result.rubric)
        for failed in _failed_checks(result):
            self._failed_checks.add(failed, result.question_id, item_texts(result))
        owned = result.extensions.get(OWNER, {})
        if "user_fault" in owned or "user_checked" in owned:
            users = self._users.setdefault(group, [0, 0])
            users[0] += 1
            users[1] += "user_fault" in owned
        answer = hash((meta.question_id, meta.answering_id, meta.replicate or 1))
        for name, part in (template.usage_metadata or {}).items():
            if name != "total" and (part.get("scope") != "answer" or answer not in self._answers):
                self._used = [*map(add, self._used, map(part.get, _USAGE_FIELDS, repeat(0)))]
        self._answers.add(answer)

    def summary(self) -> Summary:
        """Return the counts and, for each group, the pass rate with its interval and bounds, and the traits."""
        return summarize_groups(list(self.by_models().values()))

    def by_models(self) -> dict[GroupKey, GroupSummary]:
        """Return the summary of each group, by the ids of its answering model and judge."""
        return {
            group: summary.model_copy(
                update={
                    "traits": self._traits[group].summaries() if group in self._traits else {},
                    "users": _user_faults(summary, *self._users.get(group, (0, 0))),
                }
            )
            for group, summary in self.outcomes.groups().items()
        }

    def failures(self) -> list[Failure]:
        """Return the reasons why items were not judged, most frequent first."""
        return self._failures.ranked()

    def failed_checks(self) -> list[Failure]:
        """Return the reasons why checks of answers were not performed although they were planned, most frequent first.
        The items went on without the check.
        """
        return self._failed_checks.ranked()

    def usage(self) -> Usage:
        """Return the total number of calls and tokens of all results."""
        return Usage(*self._used)


def _failed_checks(result: VerificationResult) -> Iterator[str]:
    """Yield a text for each check of the answer that was tried but not performed: its name, followed by the reason."""
    template = result.template
    if template.abstention_reasoning is not None and not template.abstention_check_performed:
        yield f"abstention check {template.abstention_reasoning}"
    if template.sufficiency_reasoning is not None and not template.sufficiency_check_performed:
        yield f"sufficiency check {template.sufficiency_reasoning}"
    for owned in result.extensions.values():
        for name, performed in owned.items():
            if performed is False and name.endswith(_PERFORMED):
                check = name.removesuffix(_PERFORMED)
                if (why := owned.get(f"{check}_reasoning")) is not None:
                    yield f"{check} check {why}"
