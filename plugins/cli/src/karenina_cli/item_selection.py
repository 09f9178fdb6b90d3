"""Items of a run by what a user types: a number, an id, the beginning of an id, or words of the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError
from karenina_core.text import compose, did_you_mean
from karenina_toolkit.printable import shorten

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

_MOST_NAMED: Final = 5
_LONGEST_NAMED: Final = 50


def select_items(results: Sequence[VerificationResult], wanted: Iterable[str]) -> set[int]:
    """Return the positions (from 0) of the items that each of `wanted` names.

    A word is the id of a question or a result, else the number of an item (from 1, also as `#3`), else the beginning of
    one question's id, else a part of one question's text. Raises `ConfigError`, with all problems, for a word that
    names none, or several questions.
    """
    questions = {one.question_id: one.metadata.question_text for one in results}
    found: set[int] = set()
    problems = []
    for word in wanted:
        named = _named(results, questions, word)
        if isinstance(named, str):
            problems.append(named)
        else:
            found |= named
    if problems:
        raise ConfigError(problems)
    return found


def _named(results: Sequence[VerificationResult], questions: Mapping[str, str], word: str) -> set[int] | str:
    """Return the positions that the word names, or why it names none."""
    word = compose(word)
    exact = {at for at, one in enumerate(results) if word in (compose(one.question_id), one.metadata.result_id)}
    if exact:
        return exact
    digits = word.removeprefix("#")
    if digits.isdecimal() and digits.isascii():
        number = int(digits)
        return {number - 1} if 0 < number <= len(results) else f"there is no item {number}: there are {len(results)}"
    text = word.casefold()
    ids = [id for id in questions if compose(id).casefold().startswith(text)]
    ids = ids or [id for id, question in questions.items() if text in compose(question).casefold()]
    if len(ids) == 1:
        return {at for at, one in enumerate(results) if one.question_id == ids[0]}
    if not ids:
        return f"there is no result for question {word!r}{did_you_mean(word, questions)}"
    shown = ", ".join(f"{id} ({shorten(questions[id], _LONGEST_NAMED)})" for id in ids[:_MOST_NAMED])
    more = f", and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return f"{word!r} names {len(ids)} questions: {shown}{more}; give more of it, or the number of an item"
