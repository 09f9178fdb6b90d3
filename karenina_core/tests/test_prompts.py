"""The assembly of prompts."""

from __future__ import annotations

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import NO_INFO, NO_USAGE, LLMReply, Message, ModelRequest, Turn
from karenina_core.models.prompts import PromptTask, assemble

MODEL = ModelConfig(id="m", interface="scripted", model_name="m")
OWN = {"judging": "Judge in German.", "judging_tone": "Tone matters.", "other": "Not for you."}


@pytest.mark.parametrize(
    ("task", "system"),
    [
        (PromptTask("judging", "You judge."), "You judge.\n\nBy a plugin.\n\nJudge in German."),
        (
            PromptTask("judging_tone", "You judge tone.", family="judging"),
            "You judge tone.\n\nBy a plugin.\n\nJudge in German.\n\nTone matters.",
        ),
        (PromptTask("judging", "You judge.", family="judging"), "You judge.\n\nBy a plugin.\n\nJudge in German."),
    ],
    ids=["own key", "family first", "own family once"],
)
def test_user_instructions_apply_by_task_and_by_family(task: PromptTask, system: str) -> None:
    messages = assemble(task, "the item", added=["By a plugin."], user_instructions=OWN)
    assert [message.content for message in messages] == [system, "the item"]


def test_a_models_own_system_prompt_comes_first() -> None:
    (system, _) = assemble(PromptTask("judging", "You judge."), "the item", system_prompt="Be kind.", added=["More."])
    assert system.content == "Be kind.\n\nYou judge.\n\nMore."


def test_examples_are_turns_before_the_item() -> None:
    task = PromptTask("judging", "You judge.", examples=(("A poem.", "good"), ("A list.", "bad")))

    messages = assemble(task, "the item", added=["More."])

    assert [(message.role, message.content) for message in messages] == [
        ("system", "You judge.\n\nMore."),
        ("user", "A poem."),
        ("assistant", "good"),
        ("user", "A list."),
        ("assistant", "bad"),
        ("user", "the item"),
    ]


def test_only_the_items_part_of_a_prompt_is_not_constant() -> None:
    task = PromptTask("judging", "You judge.", examples=(("A poem.", "good"),))

    *constant, item = assemble(task, "the item")

    assert [message.is_constant for message in (*constant, item)] == [True, True, True, False]
    assert constant[0] == Message.system("You judge.")
    assert Message.from_dict(constant[0].to_dict()) == constant[0]


@pytest.mark.parametrize(
    ("shared", "name"),
    [
        (NO_USAGE, "calls"),
        (LLMReply("Oslo.").usage, "input_tokens"),
        (assemble(PromptTask("judging", "You judge."), "the item")[0], "content"),
        (Turn(Message("assistant", "Oslo.")), "message"),
        (ModelRequest(MODEL, [Message.user("Which?")], NO_INFO), "messages"),
    ],
    ids=["no usage", "the usage of a call", "a constant message", "a turn", "a request"],
)
def test_what_items_share_cannot_be_changed(shared: object, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(shared, name, None)
