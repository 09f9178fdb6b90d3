"""Which examples a model is shown before a question, and how: as turns of a conversation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from hashlib import md5
from typing import TYPE_CHECKING

from karenina_core.models.ports import Message
from karenina_core.text import did_you_mean
from karenina_generation.settings import Choice, FewShotConfig, QuestionFewShot

if TYPE_CHECKING:
    from karenina_core import Question
    from karenina_core.data.question import FewShotExample


def examples_for(question: Question, config: FewShotConfig) -> list[FewShotExample]:
    """The examples of `question`: its own as the mode says, then its external ones, then those for all questions.

    What asks the question itself is left out, whatever selects it: its answer may be the truth. An example that comes
    twice is shown once. Raises `ValueError` for a selection that names no example of the question.
    """
    own = config.question_configs.get(question.id, QuestionFewShot())
    mode = config.global_mode if own.mode == "inherit" else own.mode
    if mode == "none":
        return []
    found: list[FewShotExample] = []
    if config.source != "global":
        found += [question.few_shot_examples[at] for at in _select_examples(question, config, own, mode)]
        found += own.external_examples
    if config.source != "question_pool":
        found += config.global_external_examples
    return [one for one in dict.fromkeys(found) if not is_same_question(one.question, question.question)]


def _select_examples(question: Question, config: FewShotConfig, own: QuestionFewShot, mode: str) -> list[int]:
    """Return the places of the examples of `question` that the mode chooses."""
    excluded = {_find_example(question, choice) for choice in own.excluded_examples}
    usable = [
        at
        for at, example in enumerate(question.few_shot_examples)
        if at not in excluded and not is_same_question(example.question, question.question)
    ]
    if mode == "custom":
        selected = [_find_example(question, choice) for choice in own.selected_examples]
        return [at for at in selected if at in usable]
    if mode == "k-shot":
        count = config.global_k if own.k is None else own.k
        draw = random.Random(f"{config.seed}:{question.id}")  # noqa: S311 - it guards nothing
        drawn = draw.sample(usable, min(count, len(usable)))
        return sorted(drawn)
    return usable


def to_turns(examples: Sequence[FewShotExample]) -> Iterator[Message]:
    """The examples as a user's questions and an assistant's answers.

    Turns, because every chat model knows what they mean: no wording of ours stands between example and question, and an
    answer in the form of the examples needs no mark taken off.
    """
    for example in examples:
        yield Message.user(example.question)
        yield Message.assistant(example.answer)


def is_same_question(one: str, other: str) -> bool:
    """Whether two questions are one, apart from letter case, spaces and punctuation."""
    return _normalize(one) == _normalize(other)


def _normalize(text: str) -> str:
    return "".join(ch for ch in text.casefold() if ch.isalnum()) or text.strip()


def _find_example(question: Question, choice: Choice) -> int:
    """Where the chosen example stands among those of the question."""
    examples = question.few_shot_examples
    if isinstance(choice, int):
        if choice < len(examples):
            return choice
        have = f"its last one is {len(examples) - 1}" if examples else "it has none"
        raise ValueError(f"few_shot_config: question {question.id!r} has no example number {choice}; {have}")
    for at, example in enumerate(examples):
        if choice in (example.question, md5(example.question.encode("utf-8"), usedforsecurity=False).hexdigest()):
            return at
    near = did_you_mean(choice, [example.question for example in examples])
    raise ValueError(f"few_shot_config: question {question.id!r} has no example {choice!r}{near}")
