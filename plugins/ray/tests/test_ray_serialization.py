"""Tests of encoded calls: the journal, ledger and budget of the run treat them as the originals."""

from __future__ import annotations

import json

import pytest

from karenina_core.data.question import Question
from karenina_core.data.trust import Trust
from karenina_core.models.attachments import Attachment
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentReply, CallInfo, CallNotes, Message, Usage
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, CallOutcome, Endpoint
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger, PriceTable
from karenina_engine.cost.price_source import OwnPrice
from karenina_engine.run.executor import question_from_json, question_to_json
from karenina_ray import serialization

MODEL = ModelConfig(id="answering", interface="fake_plugin.fake", model_name="answering", max_tokens=8)
INFO = CallInfo("q1", replicate=2, task="judging", order=7, stage="Judge", shared=True, judge="judge-1")


@pytest.mark.parametrize(
    "call",
    [
        Call(Endpoint("llm", MODEL, "fake 1", {}), [Message.user("Which gene?" * 300)], INFO),
        Call(Endpoint("llm", MODEL, "fake 1", {}), [Message.user("哪个基因" * 300)], INFO),
        Call(Endpoint("parser", MODEL, "fake 1", {}), [Message.user("?")], INFO, request={"schema": "x" * 900}),
        Call(Endpoint("agent", MODEL, "fake 1", {}), [Message.user("?")], INFO, request={"max_turns": 9}),
    ],
    ids=["long", "signs", "schema", "agent"],
)
def test_budget_treats_a_decoded_call_as_the_original(call: Call) -> None:
    budget = Budget(10**12, Ledger(PriceTable(Plugins(), {"answering": OwnPrice(input=1, output=4)})))

    decoded = serialization.decode_call(json.loads(json.dumps(serialization.encode_call(call, 0, paid=True))), MODEL)

    assert decoded.key == call.key
    assert budget.max_cost(decoded) == budget.max_cost(call)
    assert budget.ledger.line(decoded) is budget.ledger.line(call)
    assert (decoded.info.order, decoded.info.shared, decoded.info.replicate) == (7, True, 2)
    small = Call(Endpoint("llm", MODEL, "fake 1", {}), [Message.user("?")], INFO)
    assert budget.max_cost(decoded) > budget.max_cost(small)


def test_decoded_outcome_has_the_notes_of_the_original() -> None:
    notes = CallNotes({"rate_limit": 1}, 1.5, 2.5, 0.5, ["0a"], answered=2.0, cost=7, uncounted=2)
    reply = AgentReply((Message.assistant("BCL2"),), Usage(10, 5, calls=3))
    encoded = json.loads(json.dumps(serialization.encode_outcome(CallOutcome(reply, None, notes))))

    assert serialization.decode_outcome(encoded, "agent").notes == notes


def test_decoded_question_has_the_attachments_of_the_original() -> None:
    file = Attachment("map.png", "image/png", "0a" * 32, 12, source="/maps/map.png")
    written = Question(question="Where is it?", attachments=("map.png",), extra={"turns": ["A text with attachments"]})
    turns = [*written.extra["turns"], {"say": "And this?", "attachments": (file,)}]
    question = written.model_copy(update={"attachments": (file,), "extra": {"turns": turns}})  # as a run resolves them

    encoded = json.loads(json.dumps(question_to_json(question, Trust())))
    decoded = question_from_json(encoded)

    assert decoded == question
    assert decoded.extra == question.extra
    assert decoded.attachments[0].source == file.source
