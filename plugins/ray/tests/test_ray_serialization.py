"""What a call is in a worker, it is in the process of the run: for its journal, its ledger and its budget."""

from __future__ import annotations

import json

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, Endpoint
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger
from karenina_engine.cost.price_source import OwnPrice
from karenina_engine.cost.price_table import PriceTable
from karenina_ray import serialization

MODEL = ModelConfig(id="mayor", interface="town", model_name="mayor", max_tokens=8)
INFO = CallInfo("q1", replicate=2, task="judging", order=7, stage="Judge", shared=True, judge="baker")


@pytest.mark.parametrize(
    "call",
    [
        Call(Endpoint("llm", MODEL, "town 1", {}), [Message.user("Which gene?" * 300)], INFO),
        Call(Endpoint("llm", MODEL, "town 1", {}), [Message.user("哪个基因" * 300)], INFO),
        Call(Endpoint("parser", MODEL, "town 1", {}), [Message.user("?")], INFO, request={"schema": "x" * 900}),
        Call(Endpoint("agent", MODEL, "town 1", {}), [Message.user("?")], INFO, request={"max_turns": 9}),
    ],
    ids=["long", "signs", "schema", "agent"],
)
def test_a_budget_takes_a_workers_call_for_what_it_is(call: Call) -> None:
    budget = Budget(10**12, Ledger(PriceTable(Plugins(), {"mayor": OwnPrice(input=1, output=4)})))

    far = serialization.call_of(json.loads(json.dumps(serialization.call_told(call, 0, paid=True))), MODEL)

    assert far.key == call.key
    assert budget.most(far) == budget.most(call)
    assert budget.ledger.line(far) is budget.ledger.line(call)
    assert (far.info.order, far.info.shared, far.info.replicate) == (7, True, 2)
    small = Call(Endpoint("llm", MODEL, "town 1", {}), [Message.user("?")], INFO)
    assert budget.most(far) > budget.most(small)
