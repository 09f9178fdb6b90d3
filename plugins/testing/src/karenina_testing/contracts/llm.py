"""The contract for every LLM port."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, LLMPort, LLMReply, Message, PortError
from karenina_testing.contracts.calls import CallContract
from karenina_testing.contracts.odd_replies import OddReply
from karenina_testing.server import Reply, Request
from karenina_toolkit.structured.reply_checks import receive

CONVERSATION = (
    Message.system("Answer in one word."),
    Message.user("Where is BRCA1? Zürich, Ωmega, 🧬 and “quotes”.\nA second line."),
    Message.assistant("On 17q21."),
    Message.user("And TP53?"),
)


class LLMContract(CallContract):
    """The contract for ports that return text: mix in a `WireFormat`."""

    def make(self, model: ModelConfig) -> LLMPort:
        """Return the port under test."""
        factory = self.spec.llm
        assert factory is not None, f"the interface {self.interface} has no LLM port"
        return factory(model)

    def call(self, port: LLMPort) -> Coroutine[Any, Any, LLMReply]:
        """Ask one question."""
        return self._ask(port)

    def good(self) -> Callable[[Request], Reply]:
        """Return a one-word reply."""
        return lambda _: self.saying("17p13.1")

    async def _ask(self, port: LLMPort) -> LLMReply:
        return await port.invoke(CONVERSATION, info=CallInfo("item-77-of-nobodys-business", "Hidden?", 3, "answering"))

    def test_the_server_gets_the_messages_in_order(self) -> None:
        with self.server(self.good()) as server:
            self.using(self._ask, server.url)
            assert [(said.role, said.content) for said in self.read(server.requests[0])] == [
                (said.role, said.content) for said in CONVERSATION
            ]

    def test_the_bookkeeping_of_a_call_is_not_sent(self) -> None:
        with self.server(self.good()) as server:
            self.using(self._ask, server.url)
            assert [word for word in ("item-77", "Hidden?") if word in server.requests[0].whole] == []

    def test_the_models_name_and_parameters_reach_the_server(self) -> None:
        with self.server(self.good()) as server:
            self.using(self._ask, server.url, **self.parameters)
            sent = flatten(server.requests[0].body)
        assert "contract-model" in sent
        assert [name for name, value in self.parameters.items() if value not in sent] == []

    @pytest.mark.parametrize("text", ["17p13.1", "Zürich, Ωmega, 🧬\n\n“quoted” {not: json}", " spaces stay "])
    def test_the_text_is_returned_unchanged(self, text: str) -> None:
        with self.server(self.saying(text)) as server:
            assert self.using(self._ask, server.url).text == text

    def test_the_finish_reason_is_returned(self) -> None:
        for reason in self.finish_reasons:
            with self.server(self.saying("17p", finish_reason=reason)) as server:
                assert self.using(self._ask, server.url).finish_reason == reason

    def test_an_odd_reply_comes_to_what_it_is(self) -> None:
        async def ask(port: LLMPort) -> LLMReply:
            return await receive("the server", "llm", lambda: self._ask(port))

        found = {name: self.come_to(odd, ask) for name, odd in self.odd_replies.items()}
        assert {name: describe(found[name], odd) for name, odd in self.odd_replies.items()} == {
            name: expected(odd) for name, odd in self.odd_replies.items()
        }


def describe(found: LLMReply | PortError, odd: OddReply) -> tuple[Any, ...]:
    """Return the outcome of an odd reply, limited to what `odd` specifies."""
    usage = found.usage if odd.tokens is not None else None
    if isinstance(found, PortError):
        return (found.category, odd.words if odd.words in str(found) else str(found), usage)
    notes = odd.notes if any(odd.notes in note for note in found.notes) else found.notes
    return (
        found.text,
        found.finish_reason,
        found.reasoning if odd.reasoning else None,
        notes if odd.notes else "",
        usage,
    )


def expected(odd: OddReply) -> tuple[Any, ...]:
    """Return the outcome that `odd` must have, in the form returned by `describe`."""
    if odd.error is not None:
        return (odd.error, odd.words, odd.usage)
    return (odd.text, odd.finish_reason, odd.reasoning, odd.notes, odd.usage)


def flatten(value: Any) -> list[Any]:
    """Return all leaf values of a JSON value: strings, numbers, booleans and nulls."""
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for inner in value for leaf in flatten(inner)] if isinstance(value, list) else [value]
