"""The random draw of answers to label."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from karenina_calibration.answers import SCORED, WRONG
from karenina_calibration.estimators import allocate, merge_small
from karenina_core.errors import ConfigError

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer, Answers

FORMAT: Final = 1
_MOST: Final = 10**9
ANY: Final = "any"
"""The verdict used for all answers in a simple random draw, which ignores verdicts."""


class Stratum(BaseModel, defer_build=True):
    """All answers of a model with certain verdicts, with their number and the number of drawn answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    verdicts: tuple[str, ...] = Field(min_length=1)
    size: int = Field(ge=1, le=_MOST)
    drawn: int = Field(ge=0, le=_MOST)


class DrawnAnswer(BaseModel, defer_build=True):
    """The id of a drawn answer and the index of its stratum."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    stratum: int = Field(ge=0, le=_MOST)


class Draw(BaseModel, defer_build=True):
    """A random draw of answers, in the order in which they are to be labelled.

    `digest` identifies the answers and verdicts from which the draw was made. `simple` is True if the draw is not
    stratified by verdict.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    results: str = Field(description="The name of the result file.")
    digest: str
    seed: int
    simple: bool = False
    made: str = Field(description="The time of the draw, in ISO 8601 format and UTC.")
    strata: tuple[Stratum, ...]
    items: tuple[DrawnAnswer, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Return the draw. Raises `ValueError` if the strata and items contradict each other: for example, if an answer
        was drawn twice, or the numbers of a stratum are wrong.
        """
        kinds = Counter((stratum.model, verdict) for stratum in self.strata for verdict in set(stratum.verdicts))
        any_of = {model for model, verdict in kinds if verdict == ANY}
        if twice := [kind for kind, count in kinds.items() if count > 1 or (kind[0] in any_of and kind[1] != ANY)]:
            raise ValueError(
                f"two strata contain the answers of {twice[0][0]!r:.80} with the verdict {twice[0][1]!r:.80}"
            )
        if any((ANY in stratum.verdicts) != self.simple for stratum in self.strata):
            raise ValueError(
                "every stratum of a simple draw must have the verdict 'any'"
                if self.simple
                else "only the strata of a simple draw may have the verdict 'any'"
            )
        items = Counter(item.item for item in self.items)
        if repeated := [item for item, count in items.items() if count > 1]:
            raise ValueError(f"the answer {repeated[0]!r:.80} was drawn more than once")
        counts = Counter(item.stratum for item in self.items)
        if outside := [number for number in counts if number >= len(self.strata)]:
            raise ValueError(
                f"unknown stratum {outside[0]}; the number of strata is {len(self.strata)}, counted from 0"
            )
        for number, stratum in enumerate(self.strata):
            if not counts[number] == stratum.drawn <= stratum.size:
                what = f"of which {stratum.drawn} were drawn, but {counts[number]} are listed"
                raise ValueError(f"stratum {number} has {stratum.size} answers, {what}")
        return self

    def find_problem(self, answers: Answers) -> str | None:
        """Return why this draw does not follow from its seed and the given answers, or None if it does. The strata and
        their sizes determine the weight of each label, so they must not be made up.
        """
        members: list[list[Answer]] = [[] for _ in self.strata]
        for answer in answers.by_id.values():
            number = self._find_stratum(answer)
            if number is None:
                return f"it has {_no_stratum(answer)}"
            members[number].append(answer)
        drawn: list[set[str]] = [set() for _ in self.strata]
        for item in self.items:
            if item.item not in answers.by_id:
                return f"the results do not contain the answer {item.item!r:.80}, which the draw lists"
            drawn[item.stratum].add(item.item)
        for number, stratum in enumerate(self.strata):
            if len(members[number]) != stratum.size:
                return (
                    f"stratum {number} has {len(members[number])} answers in the results, but the draw states "
                    f"{stratum.size}"
                )
            if drawn[number] != {answer.id for answer in _first(members[number], stratum.drawn, self.seed)}:
                return f"the answers in stratum {number} are not those drawn with seed {self.seed}"
        return None

    def stratum_of(self, answer: Answer) -> int:
        """Return the index of an answer's stratum. Raises `ConfigError` if the answer has no stratum."""
        number = self._find_stratum(answer)
        if number is None:
            raise ConfigError([f"the draw has {_no_stratum(answer)}; draw again with `karenina label`"])
        return number

    def _find_stratum(self, answer: Answer) -> int | None:
        """Return the index of an answer's stratum, or None if the answer has no stratum."""
        for number, stratum in enumerate(self.strata):
            if stratum.model == answer.model and (
                (answer.drawn_as or answer.verdicts) in stratum.verdicts or ANY in stratum.verdicts
            ):
                return number
        return None


def _no_stratum(answer: Answer) -> str:
    """Return part of a message about an answer that has no stratum."""
    return f"no stratum for the answer {answer.id} of {answer.model!r:.80}"


def describe_verdicts(verdicts: Sequence[str], *, alone: bool) -> str:
    """Format a stratum's verdicts. Set `alone` if the stratum contains all answers of its model."""
    if ANY in verdicts or (alone and len(verdicts) > 1):
        return "all answers"
    return " or ".join(verdicts)


def draw_answers(
    answers: Answers,
    count: int,
    seed: int,
    *,
    results: str,
    made: str,
    simple: bool = False,
    before: Draw | None = None,
) -> Draw:
    """Draw `count` answers at random, stratified by model and, unless `simple` is set, by verdicts. At least five
    answers are drawn from each stratum, or all of them if it has fewer, so the total may exceed `count`. The same seed
    draws the same answers. To extend an earlier draw, pass it as `before`. Nothing is written. Raises `ConfigError` if
    there are no answers.

    A stratum with fewer than five answers is merged with another stratum of the same model. `results` is the name of
    the result file, and `made` is the current time.
    """
    if not answers.by_id:
        raise ConfigError(["the results contain no answers that could be labelled; pass results with answers"])
    strata = _strata(answers, simple=simple)
    members: list[list[Answer]] = [[] for _ in strata]
    of = {(model, verdict): number for number, (model, verdicts) in enumerate(strata) for verdict in verdicts}
    for answer in answers.by_id.values():
        number = of.get((answer.model, answer.verdicts), of.get((answer.model, ANY)))
        assert number is not None
        members[number].append(answer)
    sizes = allocate({number: len(ones) for number, ones in enumerate(members)}, count)
    if before is not None:
        sizes = {number: max(size, before.strata[number].drawn) for number, size in sizes.items()}
    drawn = [_first(ones, sizes[number], seed) for number, ones in enumerate(members)]
    items = [DrawnAnswer(item=answer.id, stratum=number) for number, ones in enumerate(drawn) for answer in ones]
    return Draw(
        results=results,
        digest=answers.digest(),
        seed=seed,
        simple=simple,
        made=made,
        strata=tuple(
            Stratum(model=model, verdicts=verdicts, size=len(members[number]), drawn=len(drawn[number]))
            for number, (model, verdicts) in enumerate(strata)
        ),
        items=tuple(sorted(items, key=lambda item: _random(seed, "order", item.item))),
    )


def _strata(answers: Answers, *, simple: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Return the model and the verdicts of each stratum for a draw from `answers`, whatever the order of the results.
    If `simple` is set, there is one stratum for each model; otherwise, those with fewer than five answers are merged,
    but not with answers that only have scores.
    """
    strata: list[tuple[str, tuple[str, ...]]] = []
    for model in sorted({answer.model for answer in answers.by_id.values()}):
        if simple:
            strata.append((model, (ANY,)))
            continue
        sizes = Counter(answer.verdicts for answer in answers.by_id.values() if answer.model == model)
        scored = sizes.pop(SCORED, 0)
        groups = merge_small(dict(sorted(sizes.items())), into=WRONG)
        strata += [(model, tuple(sorted(verdicts))) for verdicts in groups.values()]
        strata += [(model, (SCORED,))] if scored else []
    return strata


def _first(answers: Iterable[Answer], count: int, seed: int) -> Sequence[Answer]:
    """Return the first `count` answers in random order. A larger `count` yields the same answers and more."""
    return sorted(answers, key=lambda answer: _random(seed, "draw", answer.id))[:count]


def _random(seed: int, purpose: str, item: str) -> bytes:
    """Compute an item's sort key. Each seed and purpose has its own random order."""
    return hashlib.sha256(f"{seed}/{purpose}/{item}".encode()).digest()
