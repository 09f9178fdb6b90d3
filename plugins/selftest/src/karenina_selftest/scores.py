"""How often a judge passes what must fail and fails what must pass, as numbers and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_engine.results.rates import Z95, Rate, rate
from karenina_engine.results.summary_text import percent
from karenina_report.statistics.columns import make_judge_namer
from karenina_terminal.text_layout import Facts, Grid, Title
from karenina_toolkit.printable import in_one_line, quantity, shorten

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.rates import Rate
    from karenina_selftest.cases import Case
    from karenina_terminal.text_layout import Section


_UNREADABLE: Final = Outcome.PARSE_ERROR


class Miss(BaseModel, defer_build=True):
    """A case with a wrong verdict, with its answer and the values that the judge extracted."""

    model_config = ConfigDict(frozen=True)

    case: str
    family: str
    passed: bool
    response: str
    extracted: dict[str, object] | None
    truth: dict[str, object] | None


class FamilyScore(BaseModel, defer_build=True):
    """The number of `judged` cases in a family, and how many of them got a wrong verdict (`missed`)."""

    model_config = ConfigDict(frozen=True)

    family: str
    passes: bool
    judged: int
    missed: int
    not_judged: int


class JudgeScore(BaseModel, defer_build=True):
    """The score of one judge.

    `false_pass` is the share of passes among the cases that must fail, and `false_fail` is the share of failures among
    the cases that must pass. Neither includes cases that were not judged: those with a reply that could not be parsed
    (`unreadable`), with values that cannot be compared (`undecided`), or with another error (`failed`).
    """

    model_config = ConfigDict(frozen=True)

    judge: str
    name: str
    false_pass: Rate
    false_fail: Rate
    unreadable: int
    failed: int
    undecided: int = 0
    families: list[FamilyScore]
    misses: list[Miss]

    @property
    def specificity(self) -> float | None:
        """The lower limit for the share of must-fail cases that fail, or None if none was judged."""
        return None if self.false_pass.high is None else 1 - self.false_pass.high

    @property
    def sensitivity(self) -> float | None:
        """The lower limit for the share of must-pass cases that pass, or None if none was judged."""
        return None if self.false_fail.high is None else 1 - self.false_fail.high


def score_judges(cases: Sequence[Case], results: Iterable[VerificationResult]) -> list[JudgeScore]:
    """Return the score of each judge, in the order of the results. Results for questions that are not a case are
    ignored.
    """
    by_id = {case.id: case for case in cases}
    case_results = [result for result in results if result.question_id in by_id]
    name_of = make_judge_namer([case_results])
    by_judge: dict[str, list[VerificationResult]] = {}
    for result in case_results:
        by_judge.setdefault(result.metadata.parsing_id, []).append(result)
    return [_score(by_id, of_one, name_of(of_one[0])) for of_one in by_judge.values()]


def _score(cases: Mapping[str, Case], results: Sequence[VerificationResult], name: str) -> JudgeScore:
    """Return the score of one judge, called `name`, from all of its results, of which there must be at least one.
    `cases` is keyed by question ID.

    Among the misses, wrong passes come first.
    """
    judged = [(cases[result.question_id], result) for result in results if result.outcome.judged]
    return JudgeScore(
        judge=results[0].metadata.parsing_model,
        name=name,
        false_pass=rate((case.unit, _missed(case, result)) for case, result in judged if not case.passes),
        false_fail=rate((case.unit, _missed(case, result)) for case, result in judged if case.passes),
        unreadable=sum(result.outcome is _UNREADABLE for result in results),
        failed=sum(result.outcome.group == "not_judged" and result.outcome is not _UNREADABLE for result in results),
        undecided=sum(result.outcome is Outcome.UNDECIDED for result in results),
        families=_families(cases, results),
        misses=sorted(
            (_miss(case, result) for case, result in judged if _missed(case, result)), key=lambda miss: not miss.passed
        ),
    )


def _missed(case: Case, result: VerificationResult) -> bool:
    """Return whether the verdict is wrong. The result must have been judged."""
    return (result.outcome is Outcome.CORRECT) is not case.passes


def _miss(case: Case, result: VerificationResult) -> Miss:
    """Return the record of a case whose verdict is wrong. A correct outcome means that the judge passed it."""
    return Miss(
        case=case.id,
        family=case.family,
        passed=result.outcome is Outcome.CORRECT,
        response=case.response,
        extracted=result.template.parsed_llm_response,
        truth=result.template.parsed_gt_response,
    )


def _families(cases: Mapping[str, Case], results: Sequence[VerificationResult]) -> list[FamilyScore]:
    """Return how many cases of each family were judged, missed and not judged, separately for cases that must pass and
    cases that must fail. `cases` contains the cases by question ID.
    """
    groups: dict[tuple[str, bool], list[VerificationResult]] = {}
    for result in results:
        case = cases[result.question_id]
        groups.setdefault((case.family, case.passes), []).append(result)
    return [
        FamilyScore(
            family=family,
            passes=passes,
            judged=sum(result.outcome.judged for result in group),
            missed=sum(result.outcome.judged and _missed(cases[result.question_id], result) for result in group),
            not_judged=sum(not result.outcome.judged for result in group),
        )
        for (family, passes), group in groups.items()
    ]


def require_enough_cases(cases: Sequence[Case], least: float, *, passes: bool) -> None:
    """Raise `ConfigError` if there are too few cases to show a sensitivity of at least `least`, even if all were judged
    correctly. With `passes=False`, this is about the specificity.

    The sensitivity depends on the cases that must pass, and the specificity on those that must fail.
    """
    units = [case.unit for case in cases if case.passes is passes]
    best = rate((unit, True) for unit in units).low
    if best is not None and best >= least:
        return
    option = "--min-sensitivity" if passes else "--min-specificity"
    kind = "pass" if passes else "fail"
    shown = "undefined" if best is None else f"at most {best:.3f}"
    raise ConfigError(
        [
            f"{option} {least:g} cannot be shown with {len(units)} cases that must {kind}: even if all are judged "
            f"correctly, the lower limit is {shown}, and {needed_cases(least)} independent cases are needed. "
            "Lower the limit, or select more cases"
        ]
    )


def needed_cases(least: float) -> int:
    """Return how many independent cases are needed to show the lower limit `least`, which must be below 1, without
    mistakes.

    Wilson's interval for n out of n has the lower limit n / (n + z^2).
    """
    return ceil(least * Z95 * Z95 / (1 - least) - 1e-9)


_TEXT: Final = 100


def score_sections(scores: Sequence[JudgeScore], worst: int) -> Iterator[Section]:
    """Yield the sections for each judge, with rates, families, and at most `worst` wrong verdicts."""
    for score in scores:
        yield [Facts([*_facts(score)])]
        rows = [
            [
                family.family,
                "pass" if family.passes else "fail",
                f"{family.judged:,}",
                f"{family.missed:,}",
                f"{family.not_judged:,}",
            ]
            for family in score.families
        ]
        yield [Grid([["cases", "must", "judged", "wrong verdict", "not judged"], *rows], {0, 1})]
        if score.misses and worst:
            more = len(score.misses) - worst
            left = f", of {len(score.misses):,}" if more > 0 else ""
            lines = [fact for miss in score.misses[:worst] for fact in _miss_facts(miss)]
            yield [Title(f"Wrong verdicts, passes first{left}"), Facts(lines)]


def _facts(score: JudgeScore) -> Iterator[tuple[str, str]]:
    """Yield pairs of a label and a text: the judge's name, each of its rates, and how many cases are in none of them,
    if any.
    """
    yield "Judge", in_one_line(score.name)
    yield "False passes", _rate_text(score.false_pass, "that must fail")
    yield "False fails", _rate_text(score.false_fail, "that must pass")
    if score.unreadable:
        yield (
            "Unreadable",
            f"{score.unreadable:,} repl{'y' if score.unreadable == 1 else 'ies'} that could not be parsed (not in any "
            "rate)",
        )
    if score.undecided:
        yield (
            "Undecided",
            f"{quantity(score.undecided, 'case')} with values that cannot be compared (not in any rate)",
        )
    if score.failed:
        yield "Not judged", f"{quantity(score.failed, 'case')} that ended in another error (not in any rate)"


def _rate_text(rate: Rate, kind: str) -> str:
    """Return a rate with its interval and counts as text, or a text saying that no such case was judged. `kind`
    describes the cases, as in "that must fail".
    """
    if rate.value is None or rate.low is None or rate.high is None:
        return f"no case {kind} was judged"
    rough = "rough " if rate.is_rough else ""
    return (
        f"{percent(rate.value)}, {rough}95% CI [{percent(rate.low)}, {percent(rate.high)}]: {rate.hits:,} of "
        f"{rate.out_of:,} judged cases {kind}"
    )


def _miss_facts(miss: Miss) -> Iterator[tuple[str, str]]:
    """Yield the case, answer and extracted values of a wrong verdict, each shortened to 100 characters."""
    yield "", f"{'passed' if miss.passed else 'failed'}: {miss.case}"
    yield "  answer", shorten(miss.response, _TEXT) or "(empty)"
    yield "  extracted", shorten(str(miss.extracted), _TEXT)
