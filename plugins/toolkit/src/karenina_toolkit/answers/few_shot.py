"""Few-shot examples: their configuration, and the selection of examples for a question."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterator, Sequence
from hashlib import md5
from typing import Annotated, Final, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from karenina_core.config import VerificationConfig
from karenina_core.data.question import FewShotExample, Question
from karenina_core.errors import ConfigError
from karenina_core.models.ports import Message
from karenina_core.models.settings_models import StrictSettings
from karenina_core.text import compose, did_you_mean

_MOST_NAMED: Final = 5

logger = logging.getLogger("karenina")


def _expand_short_form(mode: object) -> object:
    """Expand the short form `k` to `k-shot`. Any other value is returned unchanged."""
    return "k-shot" if mode == "k" else mode


Mode = Annotated[Literal["none", "all", "k-shot", "custom"], BeforeValidator(_expand_short_form)]
Choice = Annotated[int, Field(ge=0)] | str
"""A reference to one of a question's examples: its index, its question, or the MD5 digest of its question."""


class QuestionFewShot(StrictSettings):
    """The few-shot settings that apply to a single question and override the general ones."""

    mode: Mode | Literal["inherit"] = Field(
        default="inherit", description="The mode for this question; inherit uses the mode for all questions."
    )
    k: int | None = Field(
        default=None, ge=0, description="With k-shot: the number of examples, if different for this question."
    )
    selected_examples: tuple[Choice, ...] = Field(default=(), description="With custom: the examples, in this order.")
    excluded_examples: tuple[Choice, ...] = Field(default=(), description="Examples that are never used.")
    external_examples: tuple[FewShotExample, ...] = Field(default=(), description="Further examples, always used.")


class FewShotConfig(StrictSettings):
    """The value of `few_shot_config`: the examples shown to a model before a question.

    Both the old and the new names of the reference implementation are accepted (`pool_mode` is an alias of
    `global_mode`, and so on), and `mode`, `k` and `external_examples` are short forms. The `custom` mode uses the
    examples selected in `question_configs`, and none for all other questions.
    """

    enabled: bool = Field(default=True, description="Use examples.")
    source: Literal["disabled", "question_pool", "global", "both"] = Field(
        default="both",
        description="The source of examples: question_pool (each question's own), global (for all questions), both, or "
        "disabled (none).",
    )
    global_mode: Mode = Field(
        default="all",
        validation_alias=AliasChoices("global_mode", "pool_mode", "mode"),
        description="Which of a question's examples are used: none, all, k of them, or those selected.",
    )
    global_k: int = Field(
        default=3,
        ge=0,
        validation_alias=AliasChoices("global_k", "pool_k", "k"),
        description="With k-shot: the number of examples.",
    )
    seed: int = Field(default=0, description="With k-shot: the seed of the random selection.")
    question_configs: dict[str, QuestionFewShot] = Field(default={}, description="Examples by question id.")
    global_external_examples: tuple[FewShotExample, ...] = Field(
        default=(),
        validation_alias=AliasChoices("global_external_examples", "global_examples", "external_examples"),
        description="Examples for all questions, sent after their own, in every mode except none.",
    )


def few_shot_settings(config: VerificationConfig) -> FewShotConfig | None:
    """Return the few-shot configuration, or None if no examples are used."""
    few_shot = config.setting("few_shot_config") if config.has("few_shot_config") else None
    return (
        few_shot if isinstance(few_shot, FewShotConfig) and few_shot.enabled and few_shot.source != "disabled" else None
    )


def examples_for(question: Question, config: FewShotConfig) -> list[FewShotExample]:
    """Return the examples for `question`: those of its own that the mode selects, its external ones, and global ones,
    as far as `source` does not exclude them, without duplicates and examples with the same question, whose answer may
    be the correct one. In the mode "none", there are none. Raises `ValueError` if the configuration selects an example
    that the question does not have.
    """
    configs = {compose(id): own for id, own in config.question_configs.items()}
    own = configs.get(compose(question.id), QuestionFewShot())
    mode = config.global_mode if own.mode == "inherit" else own.mode
    if mode == "none":
        return []
    examples: list[FewShotExample] = []
    if config.source != "global":
        examples += [question.few_shot_examples[at] for at in _select_examples(question, config, own, mode)]
        examples += own.external_examples
    if config.source != "question_pool":
        examples += config.global_external_examples
    return [example for example in dict.fromkeys(examples) if not is_same_question(example.question, question.question)]


def _select_examples(question: Question, config: FewShotConfig, own: QuestionFewShot, mode: str) -> list[int]:
    """Return the indexes of the question's own examples that the mode selects: those chosen ("custom"), a random sample
    in their original order ("k-shot"), or all. Excluded examples, and those with the same question, are omitted. Raises
    `ValueError` if `own` names an example that the question does not have.

    The sample depends only on the seed and the question's id.
    """
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
    """Yield each example as a user message with the question and an assistant message with the answer.

    All chat models understand such turns, so no special wording is needed to separate the examples from the question.
    Answers that imitate the examples contain no markers that would have to be removed.
    """
    for example in examples:
        yield Message.user(example.question)
        yield Message.assistant(example.answer)


def is_same_question(one: str, other: str) -> bool:
    """Return whether two questions are equal, ignoring case, spaces and punctuation."""
    return _normalize(one) == _normalize(other)


def _normalize(text: str) -> str:
    """Return only the letters and digits of `text`, ignoring case. A string without any is only stripped."""
    text = compose(text)
    return "".join(ch for ch in compose(text.casefold()) if ch.isalnum()) or text.strip()


def _find_example(question: Question, choice: Choice) -> int:
    """Return the index of the example that `choice` refers to by its index, its question or the question's MD5 digest.
    Raises `ValueError` if the question has no such example.
    """
    examples = question.few_shot_examples
    if isinstance(choice, int):
        if choice < len(examples):
            return choice
        have = f"the last example is number {len(examples) - 1}" if examples else "the question has no examples"
        raise ValueError(f"few_shot_config: question {question.id!r} has no example number {choice}; {have}")
    for at, example in enumerate(examples):
        digest = md5(example.question.encode("utf-8"), usedforsecurity=False).hexdigest()
        if choice == digest or compose(choice) == compose(example.question):
            return at
    near = did_you_mean(choice, [example.question for example in examples])
    raise ValueError(f"few_shot_config: question {question.id!r} has no example {choice!r}{near}")


def check_examples(config: VerificationConfig, questions: Sequence[Question]) -> None:
    """Raise `ConfigError` if the configuration selects an example that a question does not have. Logs a warning for
    unknown questions.
    """
    few_shot = few_shot_settings(config)
    if few_shot is None:
        return
    problems, ids = [], set()
    for question in questions:
        ids.add(question.id)
        try:
            examples_for(question, few_shot)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(problems)
    _warn_about_unknown_questions([id for id in few_shot.question_configs if id not in ids], ids)


def _warn_about_unknown_questions(unknown: Sequence[str], ids: Collection[str]) -> None:
    """Log a warning about question ids in `few_shot_config` that are not in this run. Only the first few are named."""
    if unknown:
        shown = ", ".join(f"{id!r}{did_you_mean(id, ids) if len(unknown) == 1 else ''}" for id in unknown[:_MOST_NAMED])
        logger.warning(
            "few_shot_config.question_configs contains question ids that are not in this run (%d): %s%s",
            len(unknown),
            shown,
            ", ..." if len(unknown) > _MOST_NAMED else "",
        )
