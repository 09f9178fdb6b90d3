"""Trajectories of SWE-agent and mini-swe-agent: chat messages with actions, which end with a submission."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import get_entries, in_entry
from karenina_toolkit.traces.formats import openai_responses
from karenina_toolkit.traces.formats.openai_chat import read_message

Entry = Mapping[str, Any]
_EXIT: Final = "exit"
_SHELL: Final = "bash"
_OF_MINI: Final = "mini-swe-agent"
_ABOUT_RUNS: Final = frozenset({"exit_status", "submission", "model_stats"})
_ABOUT_STEPS: Final = frozenset({"actions", "returncode", "exit_status"})
_ENDED: Final = ("submitted", "exit_forfeit", "exit_command")
_LIMITS: Final = (
    *("exit_cost", "exit_context", "exit_format", "exit_total_execution_time", "exit_command_timeout"),
    *("limitsexceeded", "timeexceeded", "repeatedformaterror"),
)
_PATCH: Final = "diff --git "


def claims(entry: Entry) -> bool:
    """Return whether `entry` has an action or its outcome, as only these agents record them."""
    extra = entry.get("extra")
    if entry["role"] == _EXIT or (isinstance(extra, Mapping) and extra.keys() & _ABOUT_STEPS):
        return True
    return entry.keys() >= {"thought", "action"} or "tool_call_ids" in entry


def is_run(document: Entry) -> bool:
    """Return whether `document` is a trajectory."""
    info, version = document.get("info"), document.get("trajectory_format")
    if not isinstance(info, Mapping):
        return False
    if isinstance(version, str) and version.startswith(_OF_MINI):
        return isinstance(document.get("messages"), list)
    return isinstance(document.get("history"), list) and isinstance(document.get("trajectory"), list)


def find_entries(document: Entry) -> Sequence[object]:
    """Return the messages of a trajectory, for which `is_run` must be true, and its submission in place of the last
    ones, which only state the end. Demonstrations in which other agents act are left out. Raises `TraceFormatError` if
    a response cannot be read.
    """
    held = document["messages"] if isinstance(document.get("messages"), list) else document["history"]
    entries = [message for entry in held if not _is_demonstrated(entry) for message in _to_chat(entry)]
    submission = document["info"].get("submission")
    text = submission.strip() if isinstance(submission, str) else ""
    while entries and isinstance(entries[-1], Mapping) and _states_end(entries[-1], text):
        entries.pop()
    return [*entries, {"role": _EXIT, "extra": {"submission": submission}}]


def find_patch(document: object) -> str | None:
    """Return the submission of a trajectory if it is a patch, in the format of `git diff`, and otherwise None."""
    submission = document["info"].get("submission") if isinstance(document, Mapping) and is_run(document) else None
    if not isinstance(submission, str) or not submission.lstrip().startswith(_PATCH):
        return None
    return submission.lstrip().rstrip("\r\n") + "\n"


def find_stop(document: Entry) -> str | None:
    """Return the reason why a run ended early, if `document` is the trajectory of one that reached a limit, failed or
    has no end, and otherwise None. A run that submitted what it had when it ended states the reason in brackets.
    """
    if not is_run(document):
        return None
    status = str(document["info"].get("exit_status") or "the run has no end")
    reason = status.partition("(")[2].removesuffix(")") or status
    if reason.lower() in _ENDED:
        return None
    return "limit" if reason.lower() in _LIMITS else f"error: {status}"


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert the messages of a trajectory. An action in a text becomes a call of a shell, and the message after it its
    result. The submission is the answer. Raises `TraceFormatError` if a message cannot be read.
    """
    names: dict[str, str] = {}
    waiting = deque[ToolCall]()
    count = 0
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            extra = entry.get("extra")
            about: Entry = extra if isinstance(extra, Mapping) else {}
            if entry["role"] == _EXIT or "exit_status" in about:
                submission = about.get("submission")
                if isinstance(submission, str) and submission.strip():
                    yield Message.assistant(submission.strip())
                continue
            ids = get_entries(entry, "tool_call_ids")
            message = read_message({"tool_call_id": ids[0], **entry} if ids else entry, names)
            failed = about.get("returncode") not in (None, 0)
            if message.role == "assistant" and not message.tool_calls:
                commands = _find_commands(entry, about)
                waiting = deque(
                    ToolCall(f"call_{count + place}", _SHELL, {"command": command})
                    for place, command in enumerate(commands, 1)
                )
                count += len(commands)
                message = replace(message, tool_calls=tuple(waiting))
            elif message.role == "assistant":
                waiting.clear()
            elif message.role == "user" and waiting:
                message = Message.tool(message.content, waiting.popleft(), is_error=failed)
            elif message.role == "tool" and failed:
                message = replace(message, is_error=True)
        names.update((call.id, call.name) for call in message.tool_calls)
        yield message


def _to_chat(entry: object) -> list[object]:
    """Return an entry as chat messages. With models of OpenAI's Responses API, mini-swe-agent stores responses, and
    their calls' outputs, among the messages.
    """
    if not isinstance(entry, Mapping) or "role" in entry:
        return [entry]
    if entry.get("type") == "function_call_output":
        return [{"role": "tool", "tool_call_id": entry.get("call_id"), "content": entry.get("output"), **entry}]
    output = entry.get("output")
    if not isinstance(output, list) or not all(isinstance(item, Mapping) for item in output):
        return [entry]
    messages: list[object] = []
    for message in openai_responses.read(output):
        calls = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in message.tool_calls
        ]
        said = {"content": message.content, "reasoning_content": message.reasoning, "tool_calls": calls}
        messages.append({"role": message.role, **said})
    return messages or [{"role": "assistant", "content": ""}]


def _find_commands(entry: Entry, about: Entry) -> list[str]:
    """Return the commands in the actions of an assistant's message."""
    if isinstance(entry.get("action"), str):
        return [entry["action"]] if entry["action"].strip() else []
    actions = [action for action in get_entries(about, "actions") if isinstance(action, Mapping)]
    return [action["command"] for action in actions if isinstance(action.get("command"), str)]


def _is_demonstrated(entry: object) -> bool:
    """Return whether an entry is part of a demonstration and not from the user, who shows one as a single text."""
    return isinstance(entry, Mapping) and bool(entry.get("is_demo")) and entry.get("role") != "user"


def _states_end(entry: Entry, submission: str) -> bool:
    """Return whether an entry only states the end of a run, or repeats the submission, as one of the user's."""
    extra = entry.get("extra")
    if entry.get("role") == _EXIT or (isinstance(extra, Mapping) and "exit_status" in extra):
        return True
    content = entry.get("content")
    return entry.get("role") == "user" and isinstance(content, str) and content.strip() == submission
