"""Examples before a question: which are shown, in which form, and never the question's own."""

from __future__ import annotations

import asyncio
from hashlib import md5
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core import Question, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.data.question import FewShotExample
from karenina_core.data.trust import NO_TRUST
from karenina_core.errors import ConfigError
from karenina_core.plugins import Plugins
from karenina_generation import plugin
from karenina_generation.generate_answer import GenerateAnswer
from karenina_testing import ScriptedModels, run_stage
from karenina_toolkit.answers.few_shot import FewShotConfig, examples_for

pytestmark = pytest.mark.alone

EXAMPLES = tuple(FewShotExample(question=f"What is {name}?", answer=f"It is {name.upper()}.") for name in "abcde")
QUESTION = Question(id="q", question="What is z?", raw_answer="It is Z.", few_shot_examples=EXAMPLES)
OTHER = {"question": "What is f?", "answer": "It is F."}


def shown(config: dict[str, Any] | None, question: Question = QUESTION) -> str:
    """The letters of the examples that the answering model sees, in their order."""
    models = ScriptedModels()
    asyncio.run(run_stage(GenerateAnswer, question=question, models=models, few_shot_config=config))
    *turns, asked = models.requests[0].messages
    assert (asked.role, asked.content) == ("user", question.question)
    assert [turn.role for turn in turns] == ["user", "assistant"] * (len(turns) // 2)
    letters = [turn.content[-2] for turn in turns]
    assert [letter.upper() for letter in letters[::2]] == letters[1::2]
    return "".join(letters[::2])


@pytest.mark.parametrize(
    ("config", "letters"),
    [
        (None, ""),
        ({}, "abcde"),
        ({"enabled": False}, ""),
        ({"mode": "none", "external_examples": [OTHER]}, ""),
        ({"global_mode": "all", "global_external_examples": [OTHER]}, "abcdef"),
        ({"mode": "k", "k": 9}, "abcde"),
        ({"mode": "k-shot", "k": 0}, ""),
        ({"mode": "custom"}, ""),
        ({"mode": "custom", "question_configs": {"q": {"selected_examples": [3, "What is b?"]}}}, "db"),
        ({"question_configs": {"q": {"mode": "custom", "selected_examples": [md5(b"What is c?").hexdigest()]}}}, "c"),
        ({"question_configs": {"q": {"excluded_examples": [0, "What is c?"]}}}, "bde"),
        ({"question_configs": {"q": {"mode": "none"}}}, ""),
        ({"mode": "none", "question_configs": {"q": {"mode": "k-shot", "k": 5}}}, "abcde"),
        ({"question_configs": {"q": {"external_examples": [OTHER, EXAMPLES[0]]}}}, "abcdef"),
        ({"source": "disabled", "global_examples": [OTHER]}, ""),
        ({"source": "question_pool", "pool_mode": "all", "global_examples": [OTHER]}, "abcde"),
        ({"source": "global", "pool_mode": "all", "global_examples": [OTHER]}, "f"),
        ({"source": "both", "pool_mode": "k-shot", "pool_k": 9, "global_examples": [OTHER]}, "abcdef"),
        ({"pool_mode": "custom", "question_configs": {"q": {"mode": "custom", "selected_examples": [3]}}}, "d"),
        ({"question_configs": {"another": {"mode": "none"}}}, "abcde"),
    ],
)
def test_the_configuration_chooses_the_examples(config: dict[str, Any] | None, letters: str) -> None:
    assert shown(config) == letters


def test_the_seed_selects_k_examples_in_order() -> None:
    drawn = {seed: shown({"mode": "k-shot", "k": 2, "seed": seed}) for seed in range(20)}
    assert drawn[0] == shown({"mode": "k-shot", "k": 2})
    assert {len(letters) for letters in drawn.values()} == {2}
    assert all(sorted(letters) == list(letters) for letters in drawn.values())
    assert len(set(drawn.values())) > 3


@pytest.mark.parametrize("text", ["What is z?", "  what is Z", "WHAT IS Z?!"])
@pytest.mark.parametrize("place", ["own", "external", "everywhere", "selected"])
def test_an_example_that_asks_the_question_itself_is_left_out(place: str, text: str) -> None:
    same = {"question": text, "answer": "It is Z."}
    question = QUESTION
    config: dict[str, Any] = {}
    if place in ("own", "selected"):
        question = QUESTION.changed(few_shot_examples=(EXAMPLES[0], same))
    if place == "selected":
        config = {"mode": "custom", "question_configs": {"q": {"selected_examples": [1, 0]}}}
    if place == "external":
        config = {"question_configs": {"q": {"external_examples": [same]}}}
    if place == "everywhere":
        config = {"external_examples": [same]}
    assert shown(config, question) == ("a" if place in ("own", "selected") else "abcde")


@given(st.text(min_size=1).filter(str.strip), st.sampled_from(["all", "k-shot"]))
def test_whatever_is_asked_its_own_example_is_never_shown(text: str, mode: str) -> None:
    own = FewShotExample(question=f" {text} ", answer="the truth")
    question = Question(question=text, few_shot_examples=(own,))
    assert examples_for(question, FewShotConfig.model_validate({"mode": mode, "external_examples": [own]})) == []


def test_system_prompt_and_own_instructions_stand_before_the_examples() -> None:
    models = ScriptedModels()
    asyncio.run(
        run_stage(
            GenerateAnswer,
            question=QUESTION,
            models=models,
            answering={"system_prompt": "Be brief."},
            few_shot_config={"mode": "custom", "external_examples": [OTHER]},
            prompt_config={"generation": "In English.", "few_shot_generation": "As in the examples."},
        )
    )
    assert [(message.role, message.content) for message in models.requests[0].messages] == [
        ("system", "Be brief.\n\nIn English.\n\nAs in the examples."),
        ("user", "What is f?"),
        ("assistant", "It is F."),
        ("user", "What is z?"),
    ]


def test_examples_are_a_declared_exception_to_the_rule_about_truth() -> None:
    assert [(task.name, task.shows_truth) for task in GenerateAnswer.prompts] == [
        ("generation", False),
        ("few_shot_generation", True),
    ]


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        (5, "no example number 5; the last example is number 4"),
        ("What is bb?", "no example 'What is bb?'; did you mean 'What is b?'?"),
    ],
)
@pytest.mark.parametrize("key", ["selected_examples", "excluded_examples"])
def test_an_unknown_example_is_refused_before_a_run(key: str, choice: object, problem: str) -> None:
    plugins = Plugins()
    plugins.register(plugin())
    with plugin_room.use_plugins(plugins):
        mode = {"mode": "custom", "question_configs": {"q": {key: [choice]}}}
        config = VerificationConfig(few_shot_config=mode)
        with pytest.raises(ConfigError) as caught:
            GenerateAnswer().before_run(config, [QUESTION], NO_TRUST)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["qq"], "contains question ids that are not in this run (1): 'qq'; did you mean 'q'?"),
        (["q", *"abcdef"], "contains question ids that are not in this run (6): 'a', 'b', 'c', 'd', 'e', ..."),
        (["q"], None),
    ],
)
def test_choices_for_questions_of_no_run_are_warned_of(
    ids: list[str], told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = Plugins()
    plugins.register(plugin())
    with plugin_room.use_plugins(plugins), caplog.at_level("WARNING", "karenina"):
        config = VerificationConfig(few_shot_config={"question_configs": {id: {"mode": "none"} for id in ids}})
        GenerateAnswer().before_run(config, [QUESTION], NO_TRUST)
    assert told is None or told in caplog.text
    assert len(caplog.records) == (told is not None)


@pytest.mark.parametrize("config", [{"mode": "some"}, {"k": -1}, {"kk": 1}, {"question_configs": {"q": {"k": -1}}}])
def test_a_configuration_that_makes_no_sense_is_refused(config: dict[str, Any]) -> None:
    plugins = Plugins()
    plugins.register(plugin())
    with plugin_room.use_plugins(plugins), pytest.raises(ConfigError, match="few_shot_config"):
        VerificationConfig(few_shot_config=config)
