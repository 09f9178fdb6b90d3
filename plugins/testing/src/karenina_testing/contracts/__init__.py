"""The contract of adapters as test classes: subclass them, and pytest runs them against your adapter.

Needs pytest. Define the format of your provider's server once, in a subclass of `Wire`; then mix it into the
contracts of the ports that the adapter has:

    class Telegraph(Wire):
        entry_point = "telegraph:plugin"
        interface = "telegraph"

        def reply(self, said, usage, finish_reason): ...  # the JSON body of a good reply
        def read(self, request): ...                      # the messages that a request holds

    class TestAdapter(Telegraph, AdapterContract): ...
    class TestLLM(Telegraph, LLMContract): ...

`ChatCompletions` and `MessagesAPI` are `Wire` classes for servers with OpenAI's and Anthropic's interfaces.

`SettingsContract` requires that settings models, kinds of traits and primitives declare what a benchmark may set.

`LiveLLMContract`, `LiveParserContract` and `LiveAgentContract` need no `Wire`: they test with a real model
(`live` returns it) what is true of any model.

In the other contracts the server is scripted, on loopback, and in a thread of its own. No test needs a pytest
plugin for asynchronous tests.
"""

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("adapter", "agent", "calls", "live", "llm", "parser", "settings"))
)

from karenina_testing.contracts.adapter import AdapterContract  # noqa: E402 - after the registration for assertion rewriting
from karenina_testing.contracts.agent import AgentContract  # noqa: E402
from karenina_testing.contracts.chat_completions import ChatCompletions  # noqa: E402
from karenina_testing.contracts.live import LiveAgentContract, LiveContract, LiveLLMContract, LiveParserContract  # noqa: E402
from karenina_testing.contracts.llm import LLMContract  # noqa: E402
from karenina_testing.contracts.messages_api import MessagesAPI  # noqa: E402
from karenina_testing.contracts.parser import ParserContract  # noqa: E402
from karenina_testing.contracts.scripted_server import Reply, Request, ScriptedServer  # noqa: E402
from karenina_testing.contracts.settings import SettingsContract  # noqa: E402
from karenina_testing.contracts.wire_format import Wire  # noqa: E402

__all__ = [
    "AdapterContract",
    "AgentContract",
    "ChatCompletions",
    "LLMContract",
    "LiveAgentContract",
    "LiveContract",
    "LiveLLMContract",
    "LiveParserContract",
    "MessagesAPI",
    "ParserContract",
    "Reply",
    "Request",
    "ScriptedServer",
    "SettingsContract",
    "Wire",
]
