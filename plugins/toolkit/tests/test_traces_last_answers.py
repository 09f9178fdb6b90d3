"""The last entry of a conversation that is not its answer: thoughts, older messages, and words that end a chat."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message
from karenina_toolkit.traces import TraceFormatError, convert_recording, final_ai_message, parse_json_conversation

ASKED = {"role": "user", "content": "What is the capital of Peru?"}
HUMAN = {"type": "human", "content": ASKED["content"]}
SAID = {"type": "ai", "content": "It is Lima."}


def test_thoughts_on_a_channel_are_reasoning() -> None:
    analysis = {"role": "assistant", "channel": "analysis", "content": "Cusco?"}
    final = {"role": "assistant", "channel": "final", "content": "It is Lima."}
    assert convert_recording([ASKED, analysis, final])[1:] == [
        Message.assistant("", reasoning="Cusco?"),
        Message.assistant("It is Lima."),
    ]
    assert final_ai_message([ASKED, final, analysis]) is None


@pytest.mark.parametrize("times", [(3, 2, 1), ("2025-01-03", "2025-01-02", "2025-01-02")])
def test_a_list_that_begins_with_the_newest_message_is_refused(times: tuple[Any, ...]) -> None:
    turns = [{"role": "assistant", "content": "Lima."}, ASKED, {"role": "assistant", "content": "Hello."}]
    newest_first = [{**turn, "created_at": time} for turn, time in zip(turns, times, strict=True)]
    with pytest.raises(TraceFormatError, match="are sorted by created_at from newest to oldest; put the oldest"):
        convert_recording(newest_first)
    assert final_ai_message(newest_first[::-1]) == "Lima."


def test_roles_of_autogen_from_the_side_of_the_user_are_refused() -> None:
    history = [
        {"role": "assistant", "name": "user_proxy", "content": ASKED["content"]},
        {"role": "user", "name": "guide", "content": "It is Lima."},
        {"role": "assistant", "name": "user_proxy", "content": "exitcode: 0"},
    ]
    with pytest.raises(TraceFormatError, match=r"entry 1 .* 'user_proxy'\..* swap the roles"):
        convert_recording(history)


@pytest.mark.parametrize(
    "recording",
    [
        [ASKED, {"role": "assistant", "name": "guide", "content": "TERMINATE"}],
        [
            {"type": "TextMessage", "source": "user", "content": "Where?"},
            {"type": "TextMessage", "source": "guide", "content": "TERMINATE"},
        ],
    ],
)
def test_a_word_that_ends_a_chat_is_no_answer(recording: Any) -> None:
    with pytest.raises(TraceFormatError, match=r"contains only TERMINATE, which ends an? .*chat; remove that"):
        convert_recording(recording)


def test_the_speaker_of_several_agents_is_named() -> None:
    trace = convert_recording(
        [
            {"type": "TextMessage", "source": "user", "content": "Where?"},
            {"type": "TextMessage", "source": "writer", "content": "It is Lima."},
            {"type": "TextMessage", "source": "critic", "content": "APPROVE"},
        ]
    )
    assert trace[-1].notes == ("the answer is from 'critic', which spoke last, after writer",)


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"v": 4, "channel_values": {"messages": [HUMAN, SAID]}, "channel_versions": {}},
        {"config": {}, "checkpoint": {"v": 4, "channel_values": {"messages": [HUMAN, SAID]}}, "metadata": {}},
    ],
)
def test_a_checkpoint_of_langgraph_is_read(checkpoint: Any) -> None:
    assert final_ai_message(checkpoint) == "It is Lima."


@pytest.mark.parametrize(
    ("text", "is_conversation"),
    [
        ('[{"role": "user", "content": "?"}, {"role": "assistant", "content": "Lima"}]', True),
        ('[{"type": "ai", "tool_calls": [{}], "content": ""}]', True),
        ('{"type": "phone_call", "name": "Ann"}', False),
        ('[{"role": "CEO", "content": "Ann"}]', False),
        ('{"output": [{"city": "Lima"}]}', False),
        ('{"contents": [{"item": "apple"}]}', False),
        ('{"type": "result", "result": "42"}', False),
        ("[" * 100_000, False),
    ],
)
def test_json_is_a_conversation_if_a_model_speaks(text: str, is_conversation: bool) -> None:
    assert (parse_json_conversation(text) is not None) == is_conversation
