"""The contract of all adapters, with the real CLI talking HTTP to a scripted server.

Each test is a run of the CLI, half a second of a processor. What all ports share stands in one module, so it is held
through one port; TESTS_WHOLE_CONTRACT=1 holds it through all three.
"""

from __future__ import annotations

import os

from claude_cli_wire import Claude

from karenina_testing.contracts import AdapterContract, AgentContract, LLMContract, ParserContract
from karenina_testing.contracts.calls import CallContract

_THROUGH_THE_AGENT_TOO = {
    "test_a_call_that_is_cancelled_ends_and_leaves_nothing_behind",
    "test_calls_are_under_way_side_by_side",
    "test_a_silent_server_is_a_timeout_without_leftovers",
    "test_the_retry_after_header_is_returned",
    "test_a_failed_call_leaves_the_port_usable",
}


class TestAdapter(Claude, AdapterContract):
    pass


class TestLLM(Claude, LLMContract):
    pass


class TestParser(Claude, ParserContract):
    pass


class TestAgent(Claude, AgentContract):
    pass


if not os.environ.get("TESTS_WHOLE_CONTRACT"):
    for _name in [name for name in vars(CallContract) if name.startswith("test_")]:
        setattr(TestParser, _name, None)
        if _name not in _THROUGH_THE_AGENT_TOO:
            setattr(TestAgent, _name, None)
