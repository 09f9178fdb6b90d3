"""Labelling in the terminal, one answer at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from karenina_calibration.answers import readable, truth_text
from karenina_calibration.label_file import ExtractionLabel, Label
from karenina_terminal.text_layout import format_facts
from karenina_toolkit.printable import clean, clip, in_one_line, shorten

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer, AskedAnswer, Extraction

SKIP: Final = "s"
QUIT: Final = "q"
_REPLIES: Final[dict[str, bool | None]] = {"y": True, "yes": True, "n": False, "no": False, "u": None, "unclear": None}
_LONGEST: Final = 20_000


class Stop(Exception):
    """Raised when the labeller stops."""


def ask_answer(
    asked: AskedAnswer,
    ask: Callable[[str], str],
    *,
    labeller: str,
    now: Callable[[], str],
    asks_verdict: bool,
    blind: bool,
    earlier: Sequence[ExtractionLabel] = (),
) -> Label | None:
    """Ask about one answer, and return its label; None if it is skipped. Raises `Stop`.

    `earlier` has the labeller's extraction labels from before the truth changed, which are not asked again.
    """
    answer = asked.answer
    right: bool | None = None
    if asks_verdict:
        said = _ask(ask, "Is the answer right?")
        if said == SKIP:
            return None
        right = _REPLIES[said]
    found = list(earlier)
    for one in asked.extractions:
        said = _ask(ask, extraction_question(one))
        if said == SKIP:
            continue
        found.append(ExtractionLabel(kind=one.kind, name=one.name, value=one.value, right=_REPLIES[said]))
    return Label(
        item=answer.id,
        labeller=labeller,
        time=now(),
        right=right,
        extractions=tuple(found),
        blind=blind,
        truth=answer.truth_id,
    )


def extraction_question(one: Extraction, longest: int = 300) -> str:
    """Return the question about an extracted value, which is truncated to `longest` characters."""
    name, value = in_one_line(one.name), shorten(readable(one.value), longest)
    if one.kind == "trait":
        return f"Is {name} = {value} right?"
    if one.value == "null":
        return f"Does the answer say nothing that would be {name}?"
    return f"Does the answer say {name} = {value}?"


def _ask(ask: Callable[[str], str], question: str) -> str:
    while True:
        said = ask(f"{question} [y]es, [n]o, [u]nclear, [s]kip, [q]uit").strip().lower()
        if said in (QUIT, "quit"):
            raise Stop
        if said in (SKIP, "skip"):
            return SKIP
        if said in _REPLIES:
            return said


def answer_lines(asked: AskedAnswer, number: int, count: int, width: int, *, blind: bool) -> Iterator[str]:
    """Yield the lines that show an answer. They include the verdicts of judges unless `blind`."""
    answer = asked.answer
    text, more = clip(answer.text, _LONGEST, "; the page for labelling has all")
    rows = [("Question", clean(answer.question)), ("Answer", text + more), ("Truth", clean(truth_text(answer)))]
    rows.append(("Asked again", clean(asked.why)))
    if not blind:
        rows += [("Verdict", verdict) for verdict in verdict_lines(answer)]
    yield ""
    yield f"{number} of {count}"
    yield from format_facts([row for row in rows if row[1]], width)


def verdict_lines(answer: Answer) -> Sequence[str]:
    """Return the verdict of each judge with its reason."""
    return [in_one_line(f"{one.outcome.value} ({one.judge}): {one.reason}") for one in answer.judgements.values()]
