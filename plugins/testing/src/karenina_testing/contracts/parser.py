"""The contract for every parser port."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, Final, get_args

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message, ParserPort, ParserReply, PortError, StructuredMode
from karenina_testing.contracts.calls import CallContract
from karenina_testing.contracts.odd_replies import OddReply
from karenina_testing.server import Reply, Request
from karenina_toolkit.structured.reply_checks import receive

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


class ParserContract(CallContract):
    """The contract for ports that return JSON: mix in a `WireFormat`."""

    def make(self, model: ModelConfig) -> ParserPort:
        """Return the port under test."""
        factory = self.spec.parser
        assert factory is not None, f"the interface {self.interface} has no parser port"
        return factory(model)

    def call(self, port: ParserPort) -> Coroutine[Any, Any, ParserReply]:
        """Request one JSON object."""
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
        words = ["cytogenetic_band", "is_certain", "The band, as the answer names it.", *(said.content for said in ASK)]
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

        found = {name: self.come_to(odd, ask) for name, odd in self.odd_forms.items()}
        assert {name: _describe(found[name], odd) for name, odd in self.odd_forms.items()} == {
            name: _expected(odd) for name, odd in self.odd_forms.items()
        }


def _describe(found: ParserReply | PortError, odd: OddReply) -> tuple[Any, ...]:
    if isinstance(found, PortError):
        return (found.category, odd.words if odd.words in str(found) else str(found))
    end = found.finish_reason if found.finish_reason == "content_filter" else "stop"
    return (json.loads(found.text) if found.text else "", end)


def _expected(odd: OddReply) -> tuple[Any, ...]:
    if odd.error is not None:
        return (odd.error, odd.words)
    return (json.loads(odd.text) if odd.text else "", odd.finish_reason)
