"""Answers built from recorded ones: texts that mention a correct and a wrong value, and commit to one or neither.

A recorded question provides a correct value and a wrong one, both in the words of recorded answers. Each kind of answer
inserts them into one of its wordings. Half of the questions are used to choose prompts, and the other half to report
results. Each half has its own wordings, so that no prompt is fitted to the sentences used for reporting.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

from agreement import ON_EXTRACTED, gold_pattern, says_gold

Part = Literal["choose", "report"]

WORDINGS: Final[Mapping[str, Mapping[Part, Sequence[str]]]] = json.loads(
    Path(__file__).with_name("answer_wordings.json").read_text("utf-8")
)
"""The wordings of each kind, for choosing and for reporting.

`{yes}` is the value that the answer commits to, and `{no}` the other one. The wordings for reporting were written by
someone who had seen neither the prompts nor the other wordings.
"""

NOTATIONS: Final[tuple[Sequence[str], Sequence[str]]] = (
    ("It was {yes}.", "Not {no} but {yes}.", "{yes}, I would say."),
    ("The answer is {yes}.", "I first had {no}, which was wrong; it is {yes}.", "That would be {yes}."),
)
"""The wordings of answers whose values are in other units and notations."""

DATES: Final = ("{0:%Y}-{0:%m}-{0:%d}", "the {day} day of {0:%B} in the year {0:%Y}", "{0:%Y}, {0:%B} {0.day}")
UNITS: Final[Mapping[str, tuple[float, str, str]]] = {
    "square miles": (2.58999, "square miles", "square kilometres"),
    "grams": (0.035274, "grams", "ounces"),
    "lifespan": (12, "years", "months"),
    "venom": (0.0338, "millilitres", "fluid ounces"),
}
"""For a word in the question: a factor, the unit of the truth, and the other unit that the answer also states."""

ON_DATE: Final = """
class Answer(BaseAnswer):
    answer: date = VerifiedField(
        description="The date that the response gives as its answer to the question",
        ground_truth={gold!r},
        verify_with=DateMatch(),
    )
"""
ON_NUMBER: Final = """
class Answer(BaseAnswer):
    answer: float = VerifiedField(
        description={description!r},
        ground_truth={gold!r},
        verify_with=NumericExact(),
    )
"""
_ONES: Final = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
)
_TENS: Final = re.findall(r"\w+", "_ _ twenty thirty forty fifty sixty seventy eighty ninety")


@dataclass(frozen=True, slots=True)
class BuiltAnswer:
    """A built answer: its question, kind and part, and whether the verdict on it should be "correct".

    `template` is the source of its template, and `plain` is the verdict of comparing the whole text with the ground
    truth.
    """

    id: str
    question: str
    kind: str
    part: Part
    text: str
    right: bool
    template: str
    plain: bool


@dataclass(frozen=True, slots=True)
class _Source:
    """A recorded question, with a correct and a wrong value in the words of recorded answers."""

    question: str
    gold: Sequence[str]
    truth: str
    other: str

    @property
    def part(self) -> Part:
        """The part to which the question belongs, determined by its digest."""
        return "choose" if _digest(self.question) % 2 else "report"


def build(rows: Iterable[Mapping[str, Any]]) -> list[BuiltAnswer]:
    """Return the answers built from recorded rows. The answers and their order are always the same."""
    by_question: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_question[" ".join(row["question"].split())].append(row)
    found: list[BuiltAnswer] = []
    for question, recorded in sorted(by_question.items()):
        source = _source(question, recorded)
        if source is not None:
            found += _in_words(source)
        found += _in_other_notations(question, recorded)
    return found


def _source(question: str, rows: Sequence[Mapping[str, Any]]) -> _Source | None:
    """Return the question with its values, or None if there is no short correct value or no short wrong value."""
    gold = list(dict.fromkeys(text.replace("\xa0", " ") for row in rows for text in row["gold"]))
    short = [(_tidy(row["response"]), bool(row["human_label"])) for row in rows]
    short = sorted({(text, label) for text, label in short if len(text) > 2 and len(text.split()) <= 6})
    right = [text for text, label in short if label and says_gold(text, gold)]
    wrong = [text for text, label in short if not label and not says_gold(text, gold)]
    pairs = [(one, other) for one in right for other in wrong if not _overlap(one, other)]
    if not pairs:
        return None
    truth, other = min(pairs, key=lambda pair: _digest(question, *pair))
    return _Source(question, gold, truth, other)


def _overlap(one: str, other: str) -> bool:
    """Return whether one string contains the other, ignoring case."""
    return one.casefold() in other.casefold() or other.casefold() in one.casefold()


def _in_words(source: _Source) -> Iterator[BuiltAnswer]:
    """Yield a correct and a wrong answer to the question in one wording of each kind."""
    template = ON_EXTRACTED.format(pattern=gold_pattern(source.gold), gold=" / ".join(source.gold))
    for kind, wordings in WORDINGS.items():
        of_part = wordings[source.part]
        first = _digest(kind, source.question)
        for turn, right in enumerate((True, False)):
            wording = of_part[(first + turn) % len(of_part)]
            right &= kind != "negated"
            yes, no = (source.truth, source.other) if right else (source.other, source.truth)
            if says_gold(wording.format(yes=source.other, no=source.other), source.gold):
                continue  # a word of the wording is a right answer
            text = wording.format(yes=yes, no=no)
            plain = says_gold(text, source.gold)
            name = f"{kind.replace(' ', '-')}-{turn}-{_digest(source.question):08x}"
            yield BuiltAnswer(name, source.question, kind, source.part, text, right, template, plain)


def _in_other_notations(question: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[BuiltAnswer]:
    """Yield answers whose date or number is in a different unit or notation from the ground truth."""
    gold = [text.replace("\xa0", " ").replace("â€“", "-") for row in rows for text in row["gold"]]
    for text in dict.fromkeys(gold):
        day = _date(text)
        number = re.fullmatch(r"\d{1,3}(?:,\d{3})*|\d+", text.strip())
        if day is None and number is None:
            continue
        for turn in range(2):
            part: Part = "choose" if _digest(question) % 2 else "report"
            right = (_digest("notation", question) + turn) % 2 == 0
            wording = NOTATIONS[part == "report"][_digest(question, str(turn)) % 3]
            if day is not None:
                other = day.replace(year=day.year - 1, day=1 + day.day % 28)
                write: Callable[[Any], str] = _date_writer(question, turn)
                truth: Any = day
                template = ON_DATE.format(gold=f"{day:%Y-%m-%d}")
            else:
                truth = int(text.replace(",", ""))
                other = truth + (3 if truth < 1000 else 12)
                write, description = _number_writer(question, truth)
                template = ON_NUMBER.format(gold=float(truth), description=description)
            yes, no = (truth, other) if right else (other, truth)
            said = wording.format(yes=write(yes), no=write(no))
            name = f"other-units-{turn}-{_digest(question):08x}"
            yield BuiltAnswer(name, question, "other units", part, said, right, template, says_gold(said, gold))
        return


def _date(text: str) -> datetime | None:
    """Return the date in a text such as "May 3, 1990" or "3 May 1990", or None for any other text."""
    for format in ("%B %d, %Y", "%d %B %Y"):
        try:
            return datetime.strptime(text.strip(), format)
        except ValueError:
            continue
    return None


def _date_writer(question: str, turn: int) -> Callable[[datetime], str]:
    """Return a function that writes dates in a notation chosen by the question and the turn."""
    format = DATES[(_digest(question) + turn) % len(DATES)]
    return lambda day: format.format(day, day=_ordinal(day.day))


def _number_writer(question: str, truth: int) -> tuple[Callable[[int], str], str]:
    """Return a function that writes a number as this question requires, and a description for the template field."""
    described = "The number that the response gives as its answer to the question"
    units = next((units for word, units in UNITS.items() if word in question), None)
    if units is not None:
        factor, unit, other = units
        return lambda number: f"{number * factor:.4g} {other} ({number:g} {unit})", f"{described}, in {unit}"
    if 1100 <= truth < 2100:
        return _year_in_words, described
    return (lambda number: f"{number / 1000:g} thousand") if truth >= 1000 else _in_number_words, described


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _in_number_words(number: int) -> str:
    """Return a number below 1000 in English words."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")
    rest = f" and {_in_number_words(number % 100)}" if number % 100 else ""
    return f"{_ONES[number // 100]} hundred{rest}"


def _year_in_words(year: int) -> str:
    """Return a year in English words, such as "nineteen oh five"."""
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return "two thousand" + (f" and {_ONES[rest]}" if rest else "")
    after = "hundred" if rest == 0 else f"oh {_ONES[rest]}" if rest < 10 else _in_number_words(rest)
    return f"{_in_number_words(century)} {after}"


def _tidy(text: str) -> str:
    """Return text with normalized spaces, and without spaces and full stops at its ends."""
    return re.sub(r"\s+([,.])", r"\1", " ".join(text.replace("\xa0", " ").split())).strip(" .")


def _digest(*parts: str) -> int:
    """Return a number derived from a digest of `parts`, used for choices that must be the same in each run."""
    return int(sha256("\n".join(parts).encode()).hexdigest()[:8], 16)
