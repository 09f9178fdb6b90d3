"""What a call is in a worker, it is in the process of the run: for its journal, its ledger and its budget."""

from __future__ import annotations

import json

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plugins import Plugins
from karenina_engine.calls.calls import Call, Target
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger
from karenina_engine.cost.prices import OwnPrice
from karenina_engine.cost.pricing import Prices
from karenina_ray import wire

MODEL = ModelConfig(id="mayor", interface="town", model_name="mayor", max_tokens=8)
INFO = CallInfo("q1", replicate=2, task="judging", order=7, stage="Judge", shared=True, judge="baker")


@pytest.mark.parametrize(
    "call",
    [
        Call(Target("llm", MODEL, "town 1", {}), [Message.user("Which gene?" * 300)], INFO),
        Call(Target("llm", MODEL, "town 1", {}), [Message.user("哪个基因" * 300)], INFO),
        Call(Target("parser", MODEL, "town 1", {}), [Message.user("?")], INFO, asked={"schema": "x" * 900}),
        Call(Target("agent", MODEL, "town 1", {}), [Message.user("?")], INFO, asked={"max_turns": 9}),
    ],
    ids=["long", "signs", "schema", "agent"],
)
def test_a_budget_takes_a_workers_call_for_what_it_is(call: Call) -> None:
    budget = Budget(10**12, Ledger(Prices(Plugins(), {"mayor": OwnPrice(input=1, output=4)})))

    far = wire.call_of(json.loads(json.dumps(wire.call_told(call, 0, paid=True))), MODEL)

    assert far.key == call.key
    assert budget.most(far) == budget.most(call)
    assert budget.ledger.line(far) is budget.ledger.line(call)
    assert (far.info.order, far.info.shared, far.info.replicate) == (7, True, 2)
    small = Call(Target("llm", MODEL, "town 1", {}), [Message.user("?")], INFO)
    assert budget.most(far) > budget.most(small)
