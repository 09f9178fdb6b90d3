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
CLIENTS: Final = "the adapters over SDKs share their HTTP client and what bounds its replies; each holds its contract"
JOURNALS: Final = "CI has each journal with two commands or three, and each command with several journals"
JOURNAL_FILES: Final = "tests/attacks/test_journal_files_are_data.py"
SIZE: Final = "the size is the subject"
OWN_HTTP: Final = "the CLI speaks HTTP, and our code reads what it prints"
CLI: Final = Left("the contract of the adapter holds it with a scripted server; the others show the shared one")
ONE_CLIENT: Final = r"(.*-)?openai(-.*)?"
CLAUDE_CLI: Final = "adapters/claude_agent_sdk/tests/test_claude_agent_sdk_contract.py::TestLLM"
CLAUDE_PARSER: Final = "adapters/claude_agent_sdk/tests/test_claude_agent_sdk_contract.py::TestParser"
CLAUDE_AGENT: Final = "adapters/claude_agent_sdk/tests/test_claude_agent_sdk_contract.py::TestAgent"
RAY: Final = "plugins/ray/tests/test_ray_runs.py"
SENT: Final = "what a run sends to its workers"
CHECKS: Final = "tests/test_check_runs.py"
OUTPUT: Final = "plugins/engine/tests/test_output_check.py"
CACHE: Final = "adapters/local/tests/test_local_prompt_cache.py"
OVERLOAD: Final = "plugins/engine/tests/test_overload_detection.py"
LEFT: Final[dict[str, Left]] = {
    "tests/attacks/test_files_cannot_exhaust.py::test_a_hostile_text_is_refused": Left(
        "CI has deep YAML of a benchmark, of 250 levels in a configuration, and ten million cells in a row",
        r"(?!deep YAML of a configuration|two million empty rows).*",
    ),
    "tests/attacks/test_files_cannot_exhaust.py::test_a_hostile_workbook_is_refused": Left(
        "CI has wide rows, rows beyond the bound, and entities in the strings",
        r"(?!rows of empty cells|.*in the sheet).*",
    ),
    "tests/attacks/test_hostile_agent_endpoints.py::test_a_call_beyond_measure_or_offer_is_not_carried_out": Left(
        "CI has a long text in place of the long list: both are counted as JSON", r"(?!call1).*"
    ),
    "tests/attacks/test_hostile_agent_endpoints.py::test_a_reply_beyond_measure_costs_the_item": Left(
        "CI has the number, the length and what is no JSON, on one agent each",
        r"10,000 calls-claude_tool|5 MB of braces-claude_agent_sdk|5 MB of arguments-claude_tool",
    ),
    f"{JOURNAL_FILES}::test_hostile_rows_with_fitting_digests_end_in_messages": Left(JOURNALS, "some commands"),
    f"{JOURNAL_FILES}::test_mutated_journals_give_messages_and_can_be_repaired": Left(JOURNALS, "some commands"),
    f"{JOURNAL_FILES}::test_links_pipes_and_devices_are_refused_and_nothing_waits": Left(
        "one function opens each of these files",
        "a (link( to nothing)?|pipe|device|link as write-ahead log|hard link as lock|link as repaired journal)",
    ),
    f"{JOURNAL_FILES}::test_foreign_schema_is_refused_by_every_command": Left(
        "one comparison of the schema; CI has a trigger, a table and two columns",
        "trigger|virtual table|generated column|check with a function",
    ),
    f"{JOURNAL_FILES}::test_odd_reply_costs_at_most_its_item": Left(
        "CI has one of each type", "not-a-number|text-for-a-count|half-a-pair|bytes"
    ),
    f"{JOURNAL_FILES}::test_full_disk_ends_the_run_with_a_message": Left(
        "the journal is written to by one function", "during the run"
    ),
    "tests/attacks/test_hostile_agent_endpoints.py::test_a_workspace_of_a_stranger_configures_no_agent": Left(
        "test_claude_agent_sdk_agent.py::test_a_workspace_cannot_configure_the_agent has the agent without a run"
    ),
    "tests/attacks/test_hostile_agent_endpoints.py::test_a_cli_that_hangs_or_floods_costs_the_item": Left(
        "CI has one that hangs, and a line without end", r"exec sleep 600|yes x.*"
    ),
    "tests/attacks/test_bad_input_is_an_error.py::test_a_broken_model_never_prints_its_key": Left(
        "one function describes what is wrong with a model", r".*(\"api_key\"|ud800|mcp_urls_dict|x\{|host/v1).*"
    ),
    "tests/attacks/test_bad_input_is_an_error.py::test_a_full_disk_behind_the_standard_output_is_named": Left(
        "one function prints", r"--help|plugins --json|run good.yaml --recordings good.jsonl --json"
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_an_agent_continues_after_an_oversized_tool_result": Left(
        f"{SIZE}; test_hostile_mcp_servers.py::test_a_result_of_50_megabytes_is_cut_off has the bound"
    ),
    "tests/attacks/test_named_files_are_those_of_the_run.py::test_a_run_goes_on_with_the_same_files": Left(
        "CI has each name, and one with both kinds of trust",
        "rows outside are moved-all|a link to recordings outside is turned-stored|a program changes-.*",
    ),
    "tests/attacks/test_hostile_mcp_servers.py::test_a_run_with_a_hostile_server_ends_with_its_results": Left(
        "the client refuses these servers in tests of its own; the others show the run", "silent"
    ),
    "tests/attacks/test_hostile_mcp_servers.py::test_a_server_that_sends_without_end_costs_the_item": Left(
        "one count bounds all messages, before they are read", r"endless (line|notifications)-.*"
    ),
    "tests/attacks/test_hostile_mcp_servers.py::test_a_server_with_an_impossible_list_is_an_error": Left(
        "test_a_list_of_too_many_tools_is_refused lists as many", r"(?!many tools).*"
    ),
    "tests/attacks/test_named_files_are_those_of_the_run.py::test_what_a_benchmark_names_is_not_exchanged": Left(
        "CI has each exchange with one command, and two exchanges with each command",
        r".*-resume-stored|rows become a link-.*-stored|a program changes-.*",
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_the_run_goes_on_within_its_bounds": Left(CLIENTS, ONE_CLIENT),
    "tests/attacks/test_replies_cost_one_item.py::test_an_attack_is_an_error_of_its_item": Left(CLIENTS, ONE_CLIENT),
    "tests/attacks/test_replies_cost_one_item.py::test_what_can_be_mended_costs_nothing": Left(CLIENTS, ONE_CLIENT),
    "tests/attacks/test_replies_cost_one_item.py::test_odd_types_cost_their_item_at_most": Left(CLIENTS, ONE_CLIENT),
    "tests/attacks/test_replies_cost_one_item.py::test_bytes_that_nobody_asked_for_are_no_answer": Left(
        CLIENTS, "openai-0"
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_an_agent_is_asked_for_a_bounded_number_of_calls": Left(
        ADAPTERS, "openai"
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_an_answer_of_fifty_megabytes_costs_its_item_at_most": Left(
        f"{SIZE}; test_an_attack_is_an_error_of_its_item has replies without end"
    ),
    "tests/attacks/test_replies_cost_one_item.py::test_arguments_in_tiny_pieces_are_put_together_in_linear_time": Left(
        "the size is the subject; test_streams_have_bounds_of_bytes_seconds_and_calls has the bounds of a stream"
    ),
    "tests/attacks/test_workspaces_stay_inside.py::test_a_link_swapped_in_during_a_call_is_not_read": Left(
        "all open folders with `open_folder`; copies and `write_file` are tried in CI"
    ),
    "tests/test_cli_process.py::test_listing_commands_import_no_sdk_http_client_or_numpy": Left(
        "test_light_imports starts the same commands, and looks at more of their modules", "arguments2"
    ),
    "tests/test_cli_process.py::test_calls_in_flight_are_kept_if_the_reader_of_the_progress_goes_away": Left(
        "test_calls_in_flight_at_ctrl_c_are_not_repeated has the calls, test_a_reader_that_goes_away the reader"
    ),
    "tests/test_cli_process.py::test_ctrl_c_keeps_finished_results_and_prints_the_next_command": Left(
        "CI has one of two commands", "more0"
    ),
    f"{CHECKS}::test_a_broken_environment_is_tried_again_by_the_next_run": Left(
        "the next run looks at the outcome, whatever the reason", "no report"
    ),
    f"{CHECKS}::test_the_patch_of_a_recording_is_checked": Left("CI has one of each outcome", "row[02]-.*"),
    f"{CHECKS}::test_without_any_report_the_environment_is_broken": Left(
        "CI has a report with and without the solution", "nor with the solution|no report with the answer"
    ),
    f"{CHECKS}::test_why_a_report_is_not_used_is_told": Left(
        "test_a_report_that_is_broken_or_hostile_is_none has each reason without a run", ".*(a link|XML).*"
    ),
    f"{CHECKS}::test_a_solution_shows_that_agents_create_a_command": Left(
        "CI has one outcome with a solution, and one without", r"True-solution2-.*|True-None-.*"
    ),
    f"{CHECKS}::test_a_link_in_place_of_hidden_tests_changes_no_verdict": Left("CI has the wrong answer", "-wrong"),
    f"{CHECKS}::test_a_program_that_ends_without_a_report_is_wrong": Left("CI has a crash and the time", "crash|time"),
    "tests/test_attachment_requests.py::test_chat_completions_carry_images_pdfs_and_sound": Left(ADAPTERS, "openai"),
    "tests/test_attachment_requests.py::test_the_messages_api_carries_images_and_pdfs": Left(ADAPTERS, "claude_tool.*"),
    "tests/test_attachment_runs.py::test_doctor_states_what_own_servers_say_of_their_models": Left(
        "CI has one of each server", r"/props-body0.*|/api/show.*"
    ),
    "tests/test_agentic_time_limits.py::test_concurrency_and_a_refusal_do_not_change_verdicts": Left(
        "CI has the middle of three numbers", "2"
    ),
    "tests/test_agent_token_counts.py::test_a_partial_sum_of_an_agents_tokens_is_undecided": Left(
        "CI has the undecided one", "counts1.*"
    ),
    "tests/test_cut_results.py::test_commands_for_journals_take_results_with_their_journal": Left(
        "the commands find the journal with one function", "export|resume"
    ),
    "tests/test_claude_agent_shared_server.py::test_the_command_has_questions_answered_in_a_workspace_and_judged": Left(
        "test_claude_shared_server.py has the command, and test_agentic_shared_server.py the workspace; the tests of "
        "karenina-claude-agent-sdk have the CLI"
    ),
    "tests/test_claude_shared_server.py::test_an_agentic_judge_judges_by_a_file": Left(
        "CI has the wrong answer", ".*-wrong"
    ),
    "tests/test_contract_kit.py::test_a_flaw_is_noticed": Left(
        "changes with the contracts only; CI has the flaws by which a secret, a truth, a message or work is lost",
        r"Test(Careless|Blind|Forgetful|Greedy|Judging|Losing)-.*|TestEager-.*secret",
    ),
    "tests/test_docs_pages.py::test_all_blocks_of_a_page_work": Left(
        "packages with their contract tests, of which test_new_packages_installed has some of each kind; and the tasks "
        "of test_example_coding",
        r"(?!docs/how-to/(add-(to-runs|an-export|a-command|a-file-format)|keep-files|replace-.*|evaluate-a-coding.*)\.md).*",
    ),
    "tests/fuzzing/test_fuzz_short.py::test_no_input_breaks_the_law": Left(
        "half a second of fuzzing for each kind of input; the members have laws of any input for their readers",
        "yaml|journal",
    ),
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_a_cancelled_call_ends_and_the_port_stays_usable": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_an_agent_that_takes_too_long_is_a_time_out": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_calls_side_by_side_are_both_answered": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_no_secret_is_in_a_log_or_a_repr": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_every_call_is_answered_and_the_turn_limit_is_exact": CLI,
    "tests/test_live_shared_servers.py::TestClaudeCLI::test_a_reply_that_takes_too_long_is_a_time_out": CLI,
    "tests/test_contract_kit.py::test_an_adapter_on_the_toolkit_passes_the_contract": Left(
        "docs/how-to/write-an-adapter.md has another, whose contract test_docs_pages runs; its agent has the loop of "
        "karenina-openai, which holds the contract in its own tests"
    ),
    "tests/test_faults.py::test_every_failed_call_is_retried_once": Left(ADAPTERS, "openai"),
    "tests/test_faults.py::test_without_retries_each_failure_is_an_item_error": Left(ADAPTERS, "openai"),
    "tests/test_faulty_replies.py::test_each_item_ends_as_the_replies_to_its_calls_say": Left(ADAPTERS, "openai"),
    "tests/test_mcp_conformance.py::test_a_client_scenario_passes": Left(
        "a suite of others, from npm, which changes with its version; the tests of karenina-mcp have the client"
    ),
    "tests/test_mcp_conformance.py::test_every_client_scenario_passes_or_has_a_stated_reason": Left(
        "a suite of others, from npm, which changes with its version; the tests of karenina-mcp have the client"
    ),
    "tests/test_mcp_runs.py::test_one_server_process_serves_the_run": Left(
        "the run has the servers, whichever adapter calls their tools", "openai"
    ),
    "tests/test_mcp_runs.py::test_stage_4_decides_on_an_empty_turn_after_results": Left(
        "the stage decides, whichever adapter made the trace", ".*-openai"
    ),
    "tests/test_new_packages_installed.py::test_an_installed_package_passes_tests_that_run_the_command": Left(
        "the contract of each kind runs on members in test_contracts_of_members", "command"
    ),
    "tests/test_new_packages_installed.py::test_generated_code_passes_mypy_in_strict_mode": Left(
        "changes with the templates of `karenina new` only; the environment `lint` checks the example plugins"
    ),
    "tests/test_printed_rates.py::test_rates_of_a_random_run_follow_from_its_results": Left(
        "two more draws of the same law", "0"
    ),
    "tests/test_recorded_answers.py::test_templates_without_a_judge_beat_string_matching_on_evouna": Left(
        "a measurement over 1,479 rows; test_checks_xstest and test_calibration_recorded run on recorded rows too"
    ),
    "tests/test_same_conversation.py::test_the_trace_is_kept_at_the_turn_limit": Left(
        "one limit shows the conversation in every adapter but the CLI's; the contract of each has several limits",
        r"2-(?!claude_agent_sdk).*",
    ),
    "tests/test_third_party_alone.py::test_an_adapter_makes_its_ports_with_what_it_requires": Left(
        "test_a_stage_is_planned_with_the_core_alone has a plugin alone, and `wheels` adapters of ours"
    ),
    "tests/test_third_party_fields.py::test_both_forms_of_yaml_reach_the_stage": Left(
        "test_a_restricted_setting_needs_trust_in_both_forms has the dots", "tables"
    ),
    "tests/test_third_party_fields.py::test_a_column_of_a_table_gives_a_field": Left("CI has one table", "columns0"),
    "tests/test_third_party_fields.py::test_a_wrong_name_or_value_is_found_by_check_and_run": Left(
        "one comparison of names and one of values; CI has each with a plugin, an option, a setting and a primitive",
        "a (value|name|plugin|primitive|setting)|an option's value",
    ),
    "tests/test_same_conversation.py::test_one_conversation_has_one_trace_in_every_adapter": Left(
        "the CLI is the slowest; CI has both calls at once with it", r"(?!one call after the other-claude_agent_sdk).*"
    ),
    "tests/test_rubric_runs.py::test_failure_of_one_trait_leaves_the_others": Left(
        "CI has the usual strategy, in which one reply has all traits", "batch"
    ),
    "tests/test_third_party_values.py::test_a_value_that_json_cannot_hold_costs_no_result": Left(
        "test_the_commands_print_what_json_cannot_hold has a run with each value",
        "deeper|object|half a character as key",
    ),
    "tests/test_typed_tables.py::test_the_benchmark_counts_right_answers_with_any_judge": Left(
        "a measurement with another judge; test_sixty_right_answers_of_sixty_are_right has the same rows"
    ),
    "tests/test_typed_tables.py::test_wrong_answers_of_each_kind_are_wrong": Left(
        "test_sixty_right_answers_of_sixty_are_right reads each format", ".*-csv"
    ),
    f"{CLAUDE_CLI}::test_an_odd_reply_comes_to_what_it_is": Left(
        "ten runs of the CLI; TestParser holds the same through the same reader of its stream"
    ),
    f"{CLAUDE_CLI}::test_a_port_may_be_closed_twice": Left(
        "each call has its own process: nothing of a port is open between calls"
    ),
    f"{CLAUDE_CLI}::test_a_closed_port_has_no_connection_open": Left(
        "each call has its own process: nothing of a port is open between calls"
    ),
    f"{CLAUDE_CLI}::test_a_failure_without_a_time_to_wait_has_none": Left(
        f"{OWN_HTTP}; test_the_retry_after_header_is_returned has the time"
    ),
    f"{CLAUDE_CLI}::test_a_refused_connection_is_one_of_the_connection": Left(
        f"{OWN_HTTP}; test_a_connection_that_breaks_is_one_of_the_connection has another"
    ),
    f"{CLAUDE_CLI}::test_cut_json_is_the_servers_fault": Left(
        f"{OWN_HTTP}; test_a_reply_that_is_none_is_the_servers_fault has another"
    ),
    f"{CLAUDE_CLI}::test_of_a_gigabyte_only_the_limit_is_read": Left(
        f"{OWN_HTTP}; test_a_reply_that_unpacks_beyond_the_limit_is_an_error has the limit"
    ),
    f"{CLAUDE_CLI}::test_the_log_of_a_successful_call_shows_no_secret": Left(
        "test_no_secret_is_in_an_error_or_a_log has the log too"
    ),
    f"{CLAUDE_CLI}::test_a_broken_connection_is_not_tried_again_by_the_port": Left(
        "one setting keeps the CLI from retries; test_a_failed_request_is_not_repeated_by_the_port shows it"
    ),
    f"{CLAUDE_CLI}::test_a_failed_call_leaves_the_port_usable": Left(
        "each call has its own process: nothing of a port is open between calls"
    ),
    f"{CLAUDE_CLI}::test_calls_are_under_way_side_by_side": Left(
        "each call has its own process: none waits for another"
    ),
    f"{CLAUDE_CLI}::test_a_call_that_is_cancelled_ends_and_leaves_nothing_behind": Left(
        "test_a_cancelled_run_leaves_nothing_behind has the process of an agent, which ends the same way"
    ),
    f"{CLAUDE_CLI}::test_the_finish_reason_is_returned": Left(
        "three runs of the CLI; test_claude_agent_sdk_replies.py reads each reason from its output"
    ),
    f"{CLAUDE_CLI}::test_a_reply_that_is_none_is_the_servers_fault": Left(
        f"{OWN_HTTP}; TestParser::test_an_odd_reply_comes_to_what_it_is has ten such replies"
    ),
    f"{CLAUDE_CLI}::test_usage_is_what_the_server_counted": Left(
        "TestAgent::test_usage_is_the_sum_of_all_turns counts with the same reader of its stream"
    ),
    f"{CLAUDE_AGENT}::test_the_tools_are_offered_to_the_model": Left(
        "test_the_tools_of_a_run_keep_their_names has what is offered; a call of a tool that is not fails in "
        "test_a_call_of_an_unknown_tool_is_in_the_trace, and one of Read does not in most others"
    ),
    f"{CLAUDE_AGENT}::test_an_answer_without_tools_is_a_trace_of_one_message": Left(
        "test_earlier_turns_are_sent_as_history has such an answer, with the same facts"
    ),
    f"{CLAUDE_AGENT}::test_a_tool_failure_is_in_the_trace_and_ends_nothing": Left(
        "test_the_tools_of_a_run_keep_their_names has calls that fail beside one that does not, and "
        "test_a_call_of_an_unknown_tool_is_in_the_trace a failure that the CLI reports"
    ),
    f"{CLAUDE_AGENT}::test_the_result_of_a_tool_goes_back_to_the_model": Left(
        "the CLI sends it; test_a_call_of_an_unknown_tool_is_in_the_trace has an answer after one"
    ),
    f"{CLAUDE_AGENT}::test_waiting_for_a_guarded_request_is_not_counted": Left(
        "test_a_guarded_request_is_repeated_alone has the guard, and test_openai_contract.py the time"
    ),
    f"{CLAUDE_AGENT}::test_an_answer_in_the_last_turn_is_within_the_limit": Left(
        "test_the_turn_limit_is_exact_and_keeps_the_trace has the limit"
    ),
    f"{CLAUDE_AGENT}::test_a_silent_server_is_a_timeout_without_leftovers": Left(
        "test_a_time_out_keeps_the_trace_and_leaves_nothing_behind has a server that is silent later, and TestLLM one "
        "that always is"
    ),
    f"{CLAUDE_PARSER}::test_json_that_does_not_fit_is_returned": Left(
        "test_prose_in_place_of_json_is_returned has a text that fits less, which takes the same way"
    ),
    f"{CLAUDE_PARSER}::test_the_reply_is_the_json_that_the_model_wrote": Left(
        "test_a_schema_reaches_the_server_as_it_is has the JSON and the mode"
    ),
    "adapters/claude_agent_sdk/tests/test_claude_agent_sdk_parser.py::test_a_schema_reaches_the_server_as_it_is": Left(
        "the CLI gets the same placeholder in place of each", "too long.*"
    ),
    "adapters/local/tests/test_local_download.py::test_an_unofficial_file_is_refused_and_deleted": Left(
        "one check for all sources: test_the_hub_alone_fails_with_its_reason has longer and shorter files of the hub; "
        "parts in another order have another checksum, which CI has",
        r"(?!change[123]-).*",
    ),
    "adapters/local/tests/test_local_hub.py::test_the_index_delivers_what_the_hub_does_not": Left(
        "each fault is an error with the same reason in test_the_hub_alone_fails_with_its_reason; here are both kinds "
        "of error",
        "another file|an error",
    ),
    "adapters/local/tests/test_local_live.py::TestAgent::test_every_call_is_answered_and_the_turn_limit_is_exact": Left(
        "the loop of all agents has the limit of turns; test_openai_contract.py::TestAgent holds it"
    ),
    "adapters/local/tests/test_local_live.py::TestAgent::test_an_agent_that_takes_too_long_is_a_time_out": Left(
        "the loop of all agents has the time limit; test_openai_contract.py::TestAgent holds it"
    ),
    "adapters/local/tests/test_local_live.py::TestLLM::test_a_cancelled_call_ends_and_the_port_stays_usable": Left(
        "test_a_cancelled_call_gives_its_slot_back_after_its_file_is_saved has such a call"
    ),
    "adapters/local/tests/test_local_ports.py::test_both_roles_share_one_process": Left(
        "test_users_of_one_model_share_its_server has the pool that both take it from"
    ),
    "adapters/local/tests/test_local_ports.py::test_slots_answer_side_by_side_and_alike": Left(
        "TestLLM::test_calls_side_by_side_are_both_answered"
    ),
    "adapters/local/tests/test_local_plain_text.py::test_a_model_answers_such_a_question": Left(
        "test_a_judge_fills_its_form_from_such_a_text has the same client"
    ),
    "adapters/local/tests/test_local_speed.py::test_the_speed_is_logged_when_the_port_is_closed": Left(
        "test_bench_tells_tokens_a_second_of_any_gguf_file has the speed"
    ),
    f"{CACHE}::test_files_used_least_recently_are_deleted": Left("a bound of disk space, which changes no reply"),
    f"{CACHE}::test_instructions_are_evaluated_once_for_all_runs": Left(
        "what the cache saves; test_replies_are_the_same_whatever_was_evaluated_before reads its files"
    ),
    f"{CACHE}::test_one_warning_says_that_nothing_can_be_kept": Left(
        "test_a_full_disk_costs_time_only has such a warning"
    ),
    f"{CACHE}::test_two_servers_can_save_the_same_prompt_at_once": Left(
        "each writes a file of its own, which takes the place of the other: test_replies_are_the_same has such files"
    ),
    "plugins/calibration/tests/test_calibration_estimators.py::test_ppi_is_that_of_ppi_python": Left(
        "changes with the estimator only; test_the_corrected_interval_holds_the_true_rate shows what it is for"
    ),
    "plugins/template/tests/test_punctuation.py::test_a_long_value_is_read_in_one_go": Left(
        "one pattern reads all of them", r"\(\(\(-|1\.1\.|5e-"
    ),
    "plugins/report/tests/test_page_browser.py::test_no_table_is_cut_by_long_names": Left(
        "a scheme of colors moves nothing, and a wide window cuts less", "light-390"
    ),
    "plugins/report/tests/test_page_browser.py::test_axe_finds_no_serious_fault": Left(
        "views share their parts, and that of an item has most of them", r"#item\?.*"
    ),
    "plugins/report/tests/test_page_browser.py::test_each_view_opens_without_a_request_or_an_error": Left(
        "CI has each view in one of two widths", r"320-#(summary|comparison)|1440-#item.*"
    ),
    "plugins/report/tests/test_page_browser.py::test_thousands_of_items_are_filtered_and_searched": Left(
        f"{SIZE}; test_items_are_filtered_by_outcome_and_text has few items"
    ),
    "plugins/report/tests/test_page_attachments.py::test_a_picture_fits_the_window": Left(
        "CI has a narrow window", "400"
    ),
    "plugins/calibration/tests/test_label_page.py::test_an_attached_picture_fits_the_window": Left(
        "test_page_attachments.py::test_a_picture_fits_the_window has the shared style"
    ),
    "plugins/calibration/tests/test_label_page.py::test_a_page_that_is_opened_again_shows_the_drafts": Left(
        "test_drafts_survive_a_reload_for_each_labeller has a page that is loaded again"
    ),
    "plugins/calibration/tests/test_calibration_recorded.py::test_xstest_agrees_in_three_classes": Left(
        "test_nq301_has_the_accuracy_and_kappa_of_scikit_learn has recorded rows and two classes"
    ),
    "plugins/benchmark/tests/test_large_tables.py::test_questions_of_a_large_table_equal_those_of_a_small_one": Left(
        SIZE
    ),
    "plugins/pytest/tests/test_pytest_plugin.py::test_files_of_pytest_give_no_option": Left(
        "one function reads the options", r"karenina_config.*|addopts = (--karenina-trust-all|@words).*"
    ),
    "plugins/scaffold/tests/test_new_packages.py::test_a_benchmark_uses_the_packages_together": Left(
        "test_new_packages_installed.py::test_installed_packages_pass_their_tests_and_are_planned installs them"
    ),
    "plugins/terms/tests/test_terms.py::test_a_large_ontology_is_read_in_another_process": Left(
        "CI has one that may keep what it read", "state"
    ),
    f"{OUTPUT}::test_a_file_that_ends_anywhere_is_in_the_journal": Left("CI has compact lines", "False"),
    "plugins/report/tests/test_page_assets.py::test_the_committed_script_is_built_from_its_sources": Left(
        "changes with the sources of the script only, and takes its tools from npm"
    ),
    "plugins/scaffold/tests/test_new_packages.py::test_a_generated_package_passes_its_contract_tests": Left(
        "test_new_packages_installed.py::test_installed_packages_pass_their_tests_and_are_planned installs them first"
    ),
    "plugins/toolkit/tests/test_files_records.py::test_few_bytes_of_excel_do_not_become_many_elements": Left(
        "each bound is shown once in CI", "rows|merged cells|parts of a text"
    ),
    "plugins/toolkit/tests/test_files_replacing.py::test_a_kill_at_any_step_leaves_the_old_or_the_new_file": Left(
        "calls of the system are lines too; CI has any line with each option, and any call, and no file, with one",
        r"an old file-.*-at any line|.*-\{\}-.*",
    ),
    "plugins/toolkit/tests/test_files_records.py::test_few_bytes_of_parquet_do_not_become_many_rows": Left(
        "the size is the subject; the bound of rows is that of the other formats"
    ),
    "plugins/toolkit/tests/test_files_records.py::test_many_rows_of_excel_are_read": Left(SIZE),
    "plugins/toolkit/tests/test_files_records.py::test_memory_does_not_grow_with_the_file": Left(
        "the other formats are read by the same reader of lines", r"t\.jsonl"
    ),
    f"{RAY}::test_recorded_answers_are_divided_among_all_workers": Left(
        "a measurement; test_killed_worker_changes_no_result has two workers that both answer"
    ),
    f"{RAY}::test_ledger_has_the_calls_of_all_workers": Left(
        "test_exhausted_budget_stops_all_workers_and_a_larger_continues compares it with the calls of two workers"
    ),
    f"{RAY}::test_stored_results_need_no_worker": Left(
        "the journal is read before workers are started; test_stopped_run_continues_in_one_process has no call twice"
    ),
    f"{RAY}::test_jury_votes_as_in_one_process": Left(
        "a worker runs the stages of one process; test_killed_worker_changes_no_result compares all their results"
    ),
    f"{RAY}::test_workers_compare_expressions_in_processes_of_their_own": Left(
        "a worker runs the stages of one process, which have a pool of processes of their own there too"
    ),
    f"{RAY}::test_workers_find_the_table_beside_the_benchmark": Left(
        f"{SENT}: test_workers_read_files_from_the_folder_of_the_run has a table"
    ),
    f"{RAY}::test_workers_get_the_attachments_of_questions": Left(
        f"{SENT}: test_decoded_question_has_the_attachments_of_the_original"
    ),
    f"{RAY}::test_error_that_ends_the_run_is_the_same_on_a_worker": Left("one of two errors", "This ends the run"),
    f"{RAY}::test_clock_of_a_worker_that_differs_is_warned_of": Left("a warning, which changes no result"),
    f"{RAY}::test_rescored_run_on_ray_may_ask_about_changed_truth": Left(
        "test_stopped_run_continues_in_one_process_without_repeated_calls reads a journal too"
    ),
    f"{RAY}::test_result_is_stale_if_its_folder_changed_meanwhile": Left(
        "the digests are those of one process, which CI has", "asyncio"
    ),
    "plugins/ray/tests/test_ray_budget.py::test_reservations_of_a_dead_worker_are_not_spent_again": Left(
        "test_death_forfeits_reservations_and_cancels_requests, without Ray; a killed worker is in test_ray_runs.py"
    ),
    "plugins/ray/tests/test_ray_command.py::test_ctrl_c_while_ray_starts_prevents_all_calls": Left(
        "another start of Ray; test_signal_ends_workers_and_run_continues_without_ray has a Ctrl-C later"
    ),
    f"{OVERLOAD}::test_a_constant_share_of_refusals_does_not_reduce_concurrency": Left(
        "two more draws of the same law", "0-.*"
    ),
    f"{OVERLOAD}::test_server_with_a_limit_is_used_in_full": Left("two more draws of the same law", "0-.*"),
    "plugins/engine/tests/test_precompute.py::test_only_missing_replies_are_requested": Left(
        "CI has nearly all in place of most of the replies", r"(?!most$).*"
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
