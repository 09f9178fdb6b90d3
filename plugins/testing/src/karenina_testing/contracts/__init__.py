"""Plugin contracts as test classes. Subclass them, and pytest runs them against your plugin. Requires pytest.

A subclass sets a few attributes (such as the stage and samples), which are listed in each contract's docstring.
`entry_point` is the value of the plugin's entry point:

    class TestWordCount(StageContract):
        entry_point = "my_package:plugin"
        stage = WordCount

- `StageContract`: any stage.
- `CheckContract`: a check of the answer (`CheckStage`).
- `ParseStageContract`: a stage that fills templates.
- `PrimitiveContract`: a primitive, which compares a field with its ground truth or reads the response.
- `TraitContract`: a kind of rubric trait and its evaluator.
- `FormatContract`: a benchmark file format; `ImportFormatContract`: a file format used by another tool.
- `PriceSourceContract`: a price list.
- `SettingsContract`: settings models, trait kinds and primitives, which declare what a benchmark may set.

These run the installed `karenina` command, as a user does:

- `CommandContract`: a command.
- `ExporterContract`: an export format for results; `ReportSectionContract`: report sections. `sample_results`
  returns results for both of them.
- `ObserverContract`: run observers; `ExecutorContract`: an executor; `PanelContract`: a panel of judges.

There is one contract for an adapter's declaration and one for each kind of port. Define your provider's wire format
once, in a subclass of `WireFormat`, then mix it into the contracts for the adapter's ports:

    class Telegraph(WireFormat):
        entry_point = "telegraph:plugin"
        interface = "telegraph"

        def reply(self, said, usage, finish_reason): ...  # the JSON body of a successful reply
        def read(self, request): ...                      # the messages in a request

    class TestAdapter(Telegraph, AdapterContract): ...
    class TestLLM(Telegraph, LLMContract): ...

`ChatCompletions` and `MessagesAPI` are `WireFormat` classes for servers with OpenAI's and Anthropic's interfaces.

`LiveLLMContract`, `LiveParserContract` and `LiveAgentContract` need no `WireFormat`: they call a real model (returned
by `live`) and assert only what holds for any model.

In the other contracts, the server is scripted and runs on the loopback interface, in its own thread. None of the tests
needs a pytest plugin for asynchronous tests.
"""

import pytest

_MODULES = (
    "adapter",
    "agent",
    "calls",
    "command",
    "format",
    "live",
    "plugin",
    "price_source",
    "primitive",
    "reply_ports",
    "result_outputs",
    "runs",
    "stage",
    "trait",
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from karenina_testing.contracts.adapter import AdapterContract  # noqa: E402 - after the registration for assertion rewriting
from karenina_testing.contracts.agent import AgentContract  # noqa: E402
from karenina_testing.contracts.command import CommandContract  # noqa: E402
from karenina_testing.contracts.format import FormatContract, ImportFormatContract  # noqa: E402
from karenina_testing.contracts.live import LiveAgentContract, LiveContract, LiveLLMContract, LiveParserContract  # noqa: E402
from karenina_testing.contracts.plugin import PluginContract, SettingsContract  # noqa: E402
from karenina_testing.contracts.price_source import PriceSourceContract  # noqa: E402
from karenina_testing.contracts.primitive import PrimitiveContract  # noqa: E402
from karenina_testing.contracts.reply_ports import LLMContract, ParserContract  # noqa: E402
from karenina_testing.contracts.result_outputs import ExporterContract, ReportSectionContract, sample_results  # noqa: E402
from karenina_testing.contracts.runs import ExecutorContract, ObserverContract, PanelContract, RunContract, SampleRun  # noqa: E402
from karenina_testing.contracts.stage import CheckContract, ParseStageContract, StageContract  # noqa: E402
from karenina_testing.contracts.trait import TraitContract  # noqa: E402
from karenina_testing.contracts.wire_format import ChatCompletions, MessagesAPI, WireFormat  # noqa: E402
from karenina_testing.server import Reply, Request, ScriptedServer  # noqa: E402

__all__ = [
    "AdapterContract",
    "AgentContract",
    "ChatCompletions",
    "CheckContract",
    "CommandContract",
    "ExecutorContract",
    "ExporterContract",
    "FormatContract",
    "ImportFormatContract",
    "LLMContract",
    "LiveAgentContract",
    "LiveContract",
    "LiveLLMContract",
    "LiveParserContract",
    "MessagesAPI",
    "ObserverContract",
    "PanelContract",
    "ParseStageContract",
    "ParserContract",
    "PluginContract",
    "PriceSourceContract",
    "PrimitiveContract",
    "Reply",
    "ReportSectionContract",
    "Request",
    "RunContract",
    "SampleRun",
    "ScriptedServer",
    "SettingsContract",
    "StageContract",
    "TraitContract",
    "WireFormat",
    "sample_results",
]
