"""The drafts from a run, and the YAML file for reviewing them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from karenina_benchmark.yaml_files import dump
from karenina_core.errors import ConfigError
from karenina_drafting.brief import contains_words
from karenina_drafting.draft_stage import RESULT_FIELD
from karenina_toolkit.files import replace_file
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult

_DISTRIBUTION: Final = "karenina-drafting"
_CHECKED: Final = "it builds, its truth passes, changed truths fail, no name or description shows a truth"
_MARK: Final = "not in the answer: is it exactly the same thing?"
_MOST_REASON: Final = 600


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft for one question: its `answer` as in a YAML file, or the `reason` why there is none.

    `tries` is the number of times the model tried, and `failed` is True if no draft could be read. `others` contains
    the IDs of the questions whose answers the draft rejects. `unchecked` lists what could not be checked. `read_back`
    is True if the model filled in the draft from the answer and the result passed.
    """

    question: Question
    answer: Mapping[str, Any] | None = None
    reason: str | None = None
    tries: int = 0
    failed: bool = False
    others: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    read_back: bool = False


def collect_drafts(
    questions: Iterable[Question], results: Iterable[VerificationResult], others: Mapping[str, Sequence[str]]
) -> list[Draft]:
    """Return a draft for each question. Questions without a result had no answer to draft from. `others` maps each
    question's ID to the questions whose answers its draft must reject.
    """
    by_id = {result.question_id: result for result in results}
    return [_make_draft(question, by_id.get(question.id), tuple(others.get(question.id, ()))) for question in questions]


def _make_draft(question: Question, result: VerificationResult | None, others: tuple[str, ...]) -> Draft:
    """Return the draft in a result, or the reason why there is none: there is no result, the model failed, in which
    case `failed` is set, or no draft passed its checks.
    """
    if result is None:
        return Draft(question, reason="the question has no answer")
    recorded = result.extensions.get(_DISTRIBUTION, {}).get(RESULT_FIELD)
    if not result.outcome.judged or not isinstance(recorded, Mapping):
        return Draft(question, reason=f"the model failed: {result.why()}", failed=True)
    if recorded["answer"] is None:
        return Draft(question, reason="; ".join(recorded["problems"]), tries=recorded["tries"])
    return Draft(
        question,
        recorded["answer"],
        tries=recorded["tries"],
        others=others,
        unchecked=tuple(recorded["unchecked"]),
        read_back=recorded["read_back"],
    )


def write_drafts(path: Path, name: str, drafts: Sequence[Draft], model: str) -> None:
    """Write the drafts as a YAML benchmark called `name`, with a comment for each question. Raises `ConfigError` if the
    file exists, or cannot be written; then no part of it is left. The first line contains the name of the `model`.
    """

    def write(file: BinaryIO) -> None:
        """Write the lines. Raises `ConfigError` if `path` exists by now."""
        file.writelines(line.encode() for line in _lines(name, drafts, model))
        check_new(path)

    try:
        replace_file(path, write)
    except OSError as error:
        raise ConfigError([f"the drafts cannot be written to {path}: {error.strerror or error}"]) from error


def check_new(path: Path) -> None:
    """Raise `ConfigError` if the file exists, because drafts never overwrite an existing file."""
    if os.path.lexists(path):
        raise ConfigError(
            [
                f"{path} already exists and was not overwritten; choose another file with --output, or move the "
                "existing file"
            ]
        )


def _lines(name: str, drafts: Sequence[Draft], model: str) -> Iterator[str]:
    """Yield the lines of the YAML file for a benchmark called `name`, whose drafts were written by `model`. Synonyms
    that are not in the question's answer are marked with a comment.
    """
    passed = sum(draft.answer is not None for draft in drafts)
    yield f"# Drafted by {in_one_line(model)} with `karenina draft`; {passed} of {quantity(len(drafts), 'question')}.\n"
    yield "# Review every field before you use this file: does it ask for what matters, and is every rule right?\n"
    yield dump({"karenina": 1, "name": name})
    yield "questions:\n"
    for draft in drafts:
        yield f"  # {_comment(draft)}\n"
        marked = {dump({name: truth}).strip() for name, truth in foreign_synonyms(draft).items()}
        for line in dump([_entry(draft)]).splitlines(keepends=True):
            if line.strip() in marked:
                line = f"{line.rstrip()}  # {_MARK}\n"
            yield f"  {line}" if line.strip() else line


def foreign_synonyms(draft: Draft) -> dict[str, str]:
    """Return the synonyms that are not in the question's answer, each with the value it stands for."""
    synonyms: dict[str, str] = {}
    for declared in (draft.answer or {}).values():
        rule = declared.get("verify_with")
        for step in rule.get("normalize", ()) if isinstance(rule, Mapping) else ():
            if isinstance(step, Mapping):
                synonyms |= step.get("mapping", {})
    reference = draft.question.raw_answer or ""
    return {name: truth for name, truth in synonyms.items() if not contains_words(reference, name)}


def _comment(draft: Draft) -> str:
    """Return the comment on a question, which says how its draft was checked or why there is none. The reason is
    shortened to 600 characters.
    """
    if draft.answer is None:
        reason = in_one_line(draft.reason or "no reason is known")
        shown = reason if len(reason) <= _MOST_REASON else f"{reason[: _MOST_REASON - 3]}..."
        return f"not drafted{f' in {_tries(draft)}' if draft.tries else ''}: {shown}"
    read = ["what the model reads from the answer passes"] if draft.read_back else []
    parts = [_CHECKED, *read, *(f"the answer to {other} fails" for other in draft.others)]
    return in_one_line("; ".join([f"drafted in {_tries(draft)}: {', '.join(parts)}", *draft.unchecked]))


def _tries(draft: Draft) -> str:
    return "1 try" if draft.tries == 1 else f"{draft.tries} tries"


def _entry(draft: Draft) -> dict[str, Any]:
    """Return the YAML entry for a question: its ID, text, answer and keywords, and the draft, if any. Other fields are
    omitted.
    """
    question = draft.question
    entry: dict[str, Any] = {"id": question.id, "question": question.question}
    if question.raw_answer is not None:
        entry["raw_answer"] = question.raw_answer
    if question.keywords:
        entry["keywords"] = list(question.keywords)
    if draft.answer is not None:
        entry["answer"] = {name: dict(declared) for name, declared in draft.answer.items()}
    return entry
