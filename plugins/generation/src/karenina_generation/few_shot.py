"""Few-shot examples: selected for a question, and sent as turns of a conversation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from hashlib import md5
from typing import TYPE_CHECKING

from karenina_core.models.ports import Message
from karenina_core.text import compose, did_you_mean
from karenina_generation.settings import Choice, FewShotConfig, QuestionFewShot

if TYPE_CHECKING:
    from karenina_core import Question
    from karenina_core.data.question import FewShotExample


def examples_for(question: Question, config: FewShotConfig) -> list[FewShotExample]:
    """Return the examples for `question`: its own by the mode, then its external ones, then those for all questions.

    An example that asks the question itself is never used, because its answer may be the truth. Duplicates are sent
    once. Raises `ValueError` for a selection that is not an example of the question.
    """
    configs = {compose(id): own for id, own in config.question_configs.items()}
    own = configs.get(compose(question.id), QuestionFewShot())
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
    """Return the positions of the examples of `question` that the mode selects."""
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
        draw = random.Random(f"{config.seed}:{question.id}")  # noqa: S311 - not used for security
        drawn = draw.sample(usable, min(count, len(usable)))
        return sorted(drawn)
    return usable


def to_turns(examples: Sequence[FewShotExample]) -> Iterator[Message]:
    """Yield the examples as questions of a user and answers of an assistant.

    Every chat model understands turns: no wording of ours separates examples from the question, and an answer in the
    form of the examples needs no markers removed.
    """
    for example in examples:
        yield Message.user(example.question)
        yield Message.assistant(example.answer)


def is_same_question(one: str, other: str) -> bool:
    """Return whether two questions are equal apart from case, spaces and punctuation."""
    return _normalize(one) == _normalize(other)


def _normalize(text: str) -> str:
    text = compose(text)
    return "".join(ch for ch in compose(text.casefold()) if ch.isalnum()) or text.strip()


def _find_example(question: Question, choice: Choice) -> int:
    """Return the position of an example of the question. Raises `ValueError` if it has no such example."""
    examples = question.few_shot_examples
    if isinstance(choice, int):
        if choice < len(examples):
            return choice
        have = f"its last one is {len(examples) - 1}" if examples else "it has none"
        raise ValueError(f"few_shot_config: question {question.id!r} has no example number {choice}; {have}")
    for at, example in enumerate(examples):
        digest = md5(example.question.encode("utf-8"), usedforsecurity=False).hexdigest()
        if choice == digest or compose(choice) == compose(example.question):
            return at
    near = did_you_mean(choice, [example.question for example in examples])
    raise ValueError(f"few_shot_config: question {question.id!r} has no example {choice!r}{near}")
