"""Tests that only a release runs, and what shows the same in CI: each takes a second of a processor or more.

Repetitions of contracts are beside their members (`repeated_contracts`), single tests carry the mark themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import pytest


class Left(NamedTuple):
    """Why tests are left to a release; `kept` is a pattern of the parameters that run in CI too."""

    why: str
    kept: str = ""


ADAPTERS: Final = "each adapter holds its contract in its own tests; here one shows the run"
CLI: Final = Left("the contract of the adapter holds it with a scripted server; the others show the shared one")
CLAUDE_CLI: Final = "adapters/claude_agent_sdk/tests/test_claude_agent_sdk_contract.py::TestLLM"
LEFT: Final[dict[str, Left]] = {
    "tests/attacks/test_hostile_agent_endpoints.py::test_a_reply_beyond_measure_costs_the_item": Left(
        "CI has each attack on one agent; test_an_answer_of_fifty_megabytes_costs_its_item_at_most has the long text",
        r"10,000 calls-.*|5 MB of braces-.*|.*5 MB.*-claude_tool",
    ),
    "tests/attacks/test_hostile_mcp_servers.py::test_a_run_with_a_hostile_server_ends_with_its_results": Left(
        "the client refuses these servers in tests of its own; the others show the run", r"endless line|silent"
    ),
    "tests/attacks/test_hostile_mcp_servers.py::test_a_server_that_sends_without_end_costs_the_item": Left(
        "one count bounds all messages", r"(?!endless requests).*"
    ),
    "tests/attacks/test_hostile_mcp_servers.py::test_a_server_with_an_impossible_list_is_an_error": Left(
        "test_a_list_of_too_many_tools_is_refused lists as many", r"(?!many tools).*"
    ),
    "tests/attacks/test_named_files_are_those_of_the_run.py::test_what_a_benchmark_names_is_not_exchanged": Left(
        "CI has each exchange with one command, and two exchanges with each command",
        r".*-resume-stored|rows become a link-.*|a program changes-.*",
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_an_agent_is_asked_for_a_bounded_number_of_calls": Left(
        ADAPTERS, "openai"
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_an_answer_of_fifty_megabytes_costs_its_item_at_most": Left(
        ADAPTERS, "openai"
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_arguments_in_tiny_pieces_are_put_together_in_linear_time": Left(
        "the size is the subject; test_streams_have_bounds_of_bytes_seconds_and_calls has the bounds of a stream"
    ),
    "tests/attacks/test_workspaces_stay_inside.py::test_a_link_swapped_in_during_a_call_is_not_read": Left(
        "all three open folders with `open_folder`; copies and `write_file` are tried too", "read_file"
    ),
    "tests/fuzzing/test_fuzz_short.py::test_no_input_breaks_the_law": Left(
        "a second of fuzzing for each kind of input; the members have laws of any input for their readers",
        "yaml|jsonl|config|recordings|journal|judge_replies",
    ),
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_a_cancelled_call_ends_and_the_port_stays_usable": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_an_agent_that_takes_too_long_is_a_time_out": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_calls_side_by_side_are_both_answered": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_no_secret_is_in_a_log_or_a_repr": CLI,
    "tests/test_faults.py::test_every_failed_call_is_retried_once": Left(ADAPTERS, "openai"),
    "tests/test_faults.py::test_without_retries_each_failure_is_an_item_error": Left(ADAPTERS, "openai"),
    "tests/test_faulty_replies.py::test_each_item_ends_as_the_replies_to_its_calls_say": Left(ADAPTERS, "openai"),
    "tests/test_mcp_conformance.py::test_a_client_scenario_passes": Left(
        "a suite of others, from npm, which changes with its version; the tests of karenina-mcp have the client"
    ),
    "tests/test_mcp_conformance.py::test_every_client_scenario_passes_or_has_a_stated_reason": Left(
        "a suite of others, from npm, which changes with its version; the tests of karenina-mcp have the client"
    ),
    "tests/test_new_packages_installed.py::test_an_installed_package_passes_tests_that_run_the_command": Left(
        "the contract of each kind runs on members in test_contracts_of_members", "command"
    ),
    "tests/test_new_packages_installed.py::test_generated_code_passes_mypy_in_strict_mode": Left(
        "changes with the templates of `karenina new` only; the environment `lint` checks the example plugins"
    ),
    "tests/test_recorded_answers.py::test_templates_without_a_judge_beat_string_matching_on_evouna": Left(
        "a measurement over 1,479 rows; test_checks_xstest and test_calibration_recorded run on recorded rows too"
    ),
    "tests/test_third_party_alone.py::test_an_adapter_makes_its_ports_with_what_it_requires": Left(
        "the same function for each adapter", r"parrot.*"
    ),
    "tests/test_typed_tables.py::test_the_benchmark_counts_right_answers_with_any_judge": Left(
        "a measurement with another judge", "right"
    ),
    f"{CLAUDE_CLI}::test_an_odd_reply_comes_to_what_it_is": Left(
        "ten runs of the CLI; TestParser holds the same through the same reader of its stream"
    ),
    f"{CLAUDE_CLI}::test_a_port_may_be_closed_twice": Left(
        "each call has its own process: nothing of a port is open between calls"
    ),
    f"{CLAUDE_CLI}::test_a_broken_connection_is_not_tried_again_by_the_port": Left(
        "one setting keeps the CLI from retries; test_a_failed_request_is_not_repeated_by_the_port shows it"
    ),
    "plugins/report/tests/test_page_browser.py::test_no_table_is_cut_by_long_names": Left(
        "a scheme of colors moves nothing", "light-.*"
    ),
    "plugins/report/tests/test_page_browser.py::test_axe_finds_no_serious_fault": Left(
        "views share their parts; these have all of them", r"#summary|#item\?.*"
    ),
    "plugins/report/tests/test_page_assets.py::test_the_committed_script_is_built_from_its_sources": Left(
        "changes with the sources of the script only, and takes its tools from npm"
    ),
    "plugins/scaffold/tests/test_new_packages.py::test_a_generated_package_passes_its_contract_tests": Left(
        "test_new_packages_installed.py::test_installed_packages_pass_their_tests_and_are_planned installs them first"
    ),
    "plugins/toolkit/tests/test_files_records.py::test_few_bytes_of_excel_do_not_become_many_elements": Left(
        "each bound is shown once in CI", "rows|merged cells|parts of a text"
    ),
    "plugins/toolkit/tests/test_files_records.py::test_few_bytes_of_parquet_do_not_become_many_rows": Left(
        "the size is the subject; the bound of rows is that of the other formats"
    ),
    "plugins/toolkit/tests/test_files_records.py::test_many_rows_of_excel_are_read": Left("the size is the subject"),
    "plugins/toolkit/tests/test_files_records.py::test_memory_does_not_grow_with_the_file": Left(
        "the other formats are read by the same reader of lines", r"t\.jsonl"
    ),
    "plugins/engine/tests/test_progress_display.py::test_a_notebook_without_tqdm_has_lines": Left(
        "another kernel of Jupyter; test_a_terminal_without_libraries_has_lines has the lines"
    ),
}
"""The tests, each with the reason."""


def leave_to_release(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of `LEFT` as `release`, except those with a parameter that is kept."""
    for item in items:
        name, _, parameters = item.nodeid.partition("[")
        left = LEFT.get(name)
        if left is not None and not (left.kept and re.fullmatch(left.kept, parameters[:-1])):
            item.add_marker(pytest.mark.release)
