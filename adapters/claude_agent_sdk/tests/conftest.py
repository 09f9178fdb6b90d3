"""What is shown of the Claude CLI outside of releases: each test is a run of it, half a second of a processor."""

from __future__ import annotations

from pathlib import Path

import pytest
from repeated_contracts import THROUGH_AGENTS_TOO, leave_to_release

# What all ports share stands in one module, so it is held through one port, and what differs by the agent too.
# A cancelled agent is in `test_a_cancelled_run_leaves_nothing_behind`, and one that ends while tools are under way in
# `test_a_time_out_keeps_the_trace_and_leaves_nothing_behind`.
CHOSEN = {
    "test_a_status_decides_the_category": {"401-permanent"},
    "test_a_failed_request_is_not_repeated_by_the_port": {"429"},
    "test_a_redirection_is_an_error_and_is_not_followed": {"307"},
    "test_a_reply_that_is_none_is_the_servers_fault": {"{}"},
    "test_a_connection_that_breaks_is_one_of_the_connection": {"cut"},
    "test_the_text_is_returned_unchanged": {" spaces stay "},
    "test_json_that_does_not_fit_is_returned": {'{"something": "else"}'},
    "test_a_failure_keeps_the_trace_and_the_usage": {"500-server"},
    "test_the_retry_after_header_is_returned": {"429"},
    "test_a_failed_call_leaves_the_port_usable": {"500"},
    "test_no_secret_is_in_an_error_or_a_log": {"401"},
    "test_the_turn_limit_is_exact_and_keeps_the_trace": {"2"},
}
"""One parameter of each kind. A failure of the server is that of `test_a_failure_keeps_the_trace_and_the_usage`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to releases what other tests show through the same code."""
    here = Path(__file__).parent
    leave_to_release(items, here, {"TestParser"}, chosen=CHOSEN)
    leave_to_release(items, here, {"TestAgent"}, but=THROUGH_AGENTS_TOO)
