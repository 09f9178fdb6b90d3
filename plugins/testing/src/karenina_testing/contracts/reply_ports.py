"""The contracts for ports with a single reply: LLM ports return text, and parser ports return JSON."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

from karenina_core.models.ports import CallInfo, Message, PortError, StructuredMode
from karenina_testing.contracts.calls import CallContract
from karenina_testing.contracts.odd_replies import OddReply
from karenina_testing.server import Reply, Request
from karenina_toolkit.structured.reply_checks import receive

if TYPE_CHECKING:
    from karenina_core.models.ports import LLMPort, LLMReply, ParserPort, ParserReply

CONVERSATION = (
    Message.system("Answer in one word."),
    Message.user("Where is BRCA1? Zürich, Ωmega, 🧬 and “quotes”.\nA second line."),
    Message.assistant("On 17q21."),
    Message.user("And TP53?"),
)
ASK: Final = (Message.system("Fill the form."), Message.user("The gene BRCA1 lies on 17q21 🧬."))
SCHEMA: Final = {
    "type": "object",
    "title": "Locus",
    "properties": {
        "cytogenetic_band": {"type": "string", "description": "The band, as the answer names it."},
        "is_certain": {"type": "boolean"},
    },
    "required": ["cytogenetic_band", "is_certain"],
    "additionalProperties": False,
}
FILLED: Final = '{"cytogenetic_band": "17q21", "is_certain": true}'


class LLMContract(CallContract):
    """The contract for ports that return text. Mix in a `WireFormat`."""

    port_name = "llm"

    def call(self, port: LLMPort) -> Coroutine[Any, Any, LLMReply]:
        """Ask a question."""
        return self._ask(port)

    def good(self) -> Callable[[Request], Reply]:
        """Return a one-word reply."""
        return lambda _: self.saying("17p13.1")

    async def _ask(self, port: LLMPort) -> LLMReply:
        """Ask a question, with call information that must not be sent."""
        return await port.invoke(CONVERSATION, info=CallInfo("item-77-of-nobodys-business", "Hidden?", 3, "answering"))

    def test_the_server_gets_the_messages_in_order(self) -> None:
        with self.server(self.good()) as server:
            self.using(self._ask, server.url)
            assert [(message.role, message.content) for message in self.read(server.requests[0])] == [
                (message.role, message.content) for message in CONVERSATION
            ], "if the server takes one text, write the role of each message into it, and let `read` take it apart"

    def test_the_bookkeeping_of_a_call_is_not_sent(self) -> None:
        with self.server(self.good()) as server:
            self.using(self._ask, server.url)
            assert [word for word in ("item-77", "Hidden?") if word in server.requests[0].whole] == []

    def test_the_models_name_and_parameters_reach_the_server(self) -> None:
        with self.server(self.good()) as server:
            self.using(self._ask, server.url, **self.parameters)
            sent = _flatten(server.requests[0].body)
        named = not self.sends_model_name or "contract-model" in sent
        assert named, "the request does not name the model; if the server has only one, set sends_model_name = False"
        missing = [name for name, value in self.parameters.items() if value not in sent]
        assert not missing, f"the server does not get {missing}; set `parameters` to those that it has"

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

        outcomes = {name: _describe_text(self.come_to(odd, ask), odd) for name, odd in self.odd_replies.items()}
        assert outcomes == {name: _expected_text(odd) for name, odd in self.odd_replies.items()}


def _describe_text(outcome: LLMReply | PortError, odd: OddReply) -> tuple[Any, ...]:
    """Return an error's category and message, or the parts of a reply that `odd` specifies, for comparison with `odd`:
    a message or note that contains its words is replaced by these words. The usage is added if `odd` specifies it.
    """
    usage = outcome.usage if odd.tokens is not None else None
    if isinstance(outcome, PortError):
        return (outcome.category, odd.words if odd.words in str(outcome) else str(outcome), usage)
    notes = odd.notes if any(odd.notes in note for note in outcome.notes) else outcome.notes
    return (
        outcome.text,
        outcome.finish_reason,
        outcome.reasoning if odd.reasoning else None,
        notes if odd.notes else "",
        usage,
    )


def _expected_text(odd: OddReply) -> tuple[Any, ...]:
    """Return the outcome that `odd` expects, in the format of `_describe_text`."""
    if odd.error is not None:
        return (odd.error, odd.words, odd.usage)
    return (odd.text, odd.finish_reason, odd.reasoning, odd.notes, odd.usage)


def _flatten(value: Any) -> list[Any]:
    """Return all strings, numbers, booleans and nulls in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for inner in value for leaf in _flatten(inner)] if isinstance(value, list) else [value]


class ParserContract(CallContract):
    """The contract for ports that return JSON. Mix in a `WireFormat`."""

    port_name = "parser"

    def call(self, port: ParserPort) -> Coroutine[Any, Any, ParserReply]:
        """Request a JSON object."""
        return self._fill(port)

    def good(self) -> Callable[[Request], Reply]:
        """Return a reply with the JSON object."""
        return self.filling(FILLED)

    async def _fill(self, port: ParserPort) -> ParserReply:
        return await port.parse(ASK, SCHEMA)

    def test_the_reply_is_the_json_that_the_model_wrote(self) -> None:
        with self.server(self.good()) as server:
            reply = self.using(self._fill, server.url)
        assert json.loads(reply.text) == json.loads(FILLED)
        assert reply.mode in get_args(StructuredMode)

    def test_the_schema_and_the_messages_reach_the_server(self) -> None:
        with self.server(self.good()) as server:
            self.using(self._fill, server.url)
            sent = json.dumps(server.requests[0].body, ensure_ascii=False)
        words = [
            "cytogenetic_band",
            "is_certain",
            "The band, as the answer names it.",
            *(message.content for message in ASK),
        ]
        assert [word for word in words if word not in sent] == []

    @pytest.mark.parametrize(
        "text", ['{"cytogenetic_band": 17}', '{"something": "else"}', '{"cytogenetic_band": null, "is_certain": "?"}']
    )
    def test_json_that_does_not_fit_is_returned(self, text: str) -> None:
        with self.server(self.filling(text)) as server:
            assert json.loads(self.using(self._fill, server.url).text) == json.loads(text)

    def test_prose_in_place_of_json_is_returned(self) -> None:
        prose = "I am not able to tell."
        with self.server(self.saying(prose)) as server:
            assert self.using(self._fill, server.url).text == prose
            assert len(server.requests) == 1

    def test_an_odd_reply_comes_to_what_it_is(self) -> None:
        async def ask(port: ParserPort) -> ParserReply:
            return await receive("the server", "parser", lambda: self._fill(port))

        outcomes = {name: _describe_form(self.come_to(odd, ask), odd) for name, odd in self.odd_forms.items()}
        assert outcomes == {name: _expected_form(odd) for name, odd in self.odd_forms.items()}


def _describe_form(outcome: ParserReply | PortError, odd: OddReply) -> tuple[Any, ...]:
    """Return an error's category and message, or a reply's JSON and finish reason, for comparison with `odd`: a message
    that contains its words is replaced by these words, and any finish reason except `content_filter` by `stop`.
    """
    if isinstance(outcome, PortError):
        return (outcome.category, odd.words if odd.words in str(outcome) else str(outcome))
    end = outcome.finish_reason if outcome.finish_reason == "content_filter" else "stop"
    return (json.loads(outcome.text) if outcome.text else "", end)


def _expected_form(odd: OddReply) -> tuple[Any, ...]:
    """Return the outcome that `odd` expects, in the format of `_describe_form`."""
    if odd.error is not None:
        return (odd.error, odd.words)
    return (json.loads(odd.text) if odd.text else "", odd.finish_reason)
