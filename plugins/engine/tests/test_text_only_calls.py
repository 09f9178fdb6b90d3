"""Questions and calls without attachments have the keys that they had before there were attachments.

The keys were computed by commit 078c754f, the last one without attachments.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from result_metadata import metadata

from karenina_core import VerificationResult
from karenina_core.catalog import __version__
from karenina_core.data.question import Question
from karenina_core.data.rubrics import LLMRubricTrait, Rubric
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message, ToolCall
from karenina_engine.calls.call import Call, CallInfo, Endpoint
from karenina_engine.calls.reply_json import dump_json_bytes
from karenina_engine.journal.fingerprint import digest_question
from karenina_engine.results.result_lines import dump_result

MESSAGES = (
    Message("system", "Be short."),
    Message("user", "Which dose?"),
    Message("assistant", "", tool_calls=(ToolCall("1", "look", {"at": "label"}),)),
    Message("tool", "42 mg", tool_call_id="1", tool_name="look"),
    Message("assistant", "It is 42."),
)
KEYS = {
    1: "65aa264cc9078789534c8a898b5f3fb8a42097f303ed9f8ff972a97134bc9377",
    2: "7e3e8fbdd08f8fe9d669d99e2d7d8c5399275676e0ff83d150d8b0227fb81e22",
    4: "d95853e572850354889130306e060d8e886a6c9e6ce438848b00b2363901c440",
    5: "b3931ed4d53792fa58f0309d6721873c812370664fc7cc0d6a840c6cfc2f145c",
}
CONTENT: dict[str, Any] = {
    "id": "q",
    "question": "Which?",
    "raw_answer": None,
    "answer_template": None,
    "keywords": (),
    "few_shot_examples": (),
    "rubric": None,
    "dynamic_rubric": None,
    "workspace_path": None,
    "author": None,
    "sources": None,
    "metadata": {},
}


@pytest.mark.parametrize("count", KEYS)
def test_keys_of_calls_without_attachments_are_unchanged(count: int) -> None:
    model = ModelConfig(id="m", model_name="m", interface="openai")
    endpoint = Endpoint("llm", model, "openai 1", {"model": "m"}, stored_digest=bytes(32))
    info = CallInfo(question_id="label", question="Which dose?", stage="GenerateAnswer", replicate=1)

    assert Call(endpoint, MESSAGES[:count], info).key.hex() == KEYS[count]


@pytest.mark.parametrize("more", [{}, {"extra": {"turns": ["Sure?", {"say": "And?"}]}}])
def test_digests_of_questions_without_attachments_are_unchanged(more: dict[str, Any]) -> None:
    before = hashlib.sha256(dump_json_bytes([__version__, {**CONTENT, **more, "unread": {}}], str)).digest()

    assert digest_question(Question(id="q", question="Which?", **more)) == before


def test_nothing_without_attachments_mentions_them() -> None:
    result = VerificationResult(metadata=metadata("q"), outcome="correct", evaluation_input="It is 42.")
    trait = LLMRubricTrait(name="f", kind="boolean", description="F")
    question = Question(id="q", question="Which?", rubric=Rubric(llm_traits=[trait]))
    written = [*(str(message.to_dict()) for message in MESSAGES), dump_result(result), str(question.rubric)]

    assert not [text for text in written if "attach" in text or "media" in text]
