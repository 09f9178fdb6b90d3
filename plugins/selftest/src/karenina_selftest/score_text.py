"""The scores of judges as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from karenina_engine.results.summary_text import percent
from karenina_terminal.text_layout import Facts, Grid, Title
from karenina_toolkit.printable import in_one_line, shorten

if TYPE_CHECKING:
    from karenina_engine.results.rates import Rate
    from karenina_selftest.scores import JudgeScore, Miss
    from karenina_terminal.text_layout import Section

_TEXT: Final = 100


def score_sections(scores: Sequence[JudgeScore], worst: int) -> Iterator[Section]:
    """Yield what `karenina selftest` prints: for each judge its rates, its families, and its worst cases."""
    for score in scores:
        yield [Facts([*_facts(score)])]
        rows = [
            [
                one.family,
                "pass" if one.passes else "fail",
                f"{one.judged:,}",
                f"{one.missed:,}",
                f"{one.not_judged:,}",
            ]
            for one in score.families
        ]
        yield [Grid([["cases", "must", "judged", "wrong verdict", "not judged"], *rows], {0, 1})]
        if score.misses and worst:
            more = len(score.misses) - worst
            left = f", of {len(score.misses):,}" if more > 0 else ""
            lines = [fact for miss in score.misses[:worst] for fact in _miss_facts(miss)]
            yield [Title(f"Wrong verdicts, passes first{left}"), Facts(lines)]


def _facts(score: JudgeScore) -> Iterator[tuple[str, str]]:
    yield "Judge", in_one_line(score.name)
    yield "False passes", _rate_text(score.false_pass, "that must fail")
    yield "False fails", _rate_text(score.false_fail, "that must pass")
    if score.unreadable:
        yield "Unreadable", f"{score.unreadable:,} replies could not be parsed, and are in no rate"
    if score.undecided:
        yield "Undecided", f"{score.undecided:,} cases have values that cannot be compared, and are in no rate"
    if score.failed:
        yield "Not judged", f"{score.failed:,} cases ended in another error, and are in no rate"


def _rate_text(rate: Rate, kind: str) -> str:
    if rate.value is None or rate.low is None or rate.high is None:
        return f"no case {kind} was judged"
    rough = "rough " if rate.is_rough else ""
    return (
        f"{percent(rate.value)}, {rough}95% CI [{percent(rate.low)}, {percent(rate.high)}]: {rate.hits:,} of "
        f"{rate.out_of:,} judged cases {kind}"
    )


def _miss_facts(miss: Miss) -> Iterator[tuple[str, str]]:
    yield "", f"{'passed' if miss.passed else 'failed'}: {miss.case}"
    yield "  answer", shorten(miss.response, _TEXT) or "(empty)"
    yield "  extracted", shorten(str(miss.extracted), _TEXT)
