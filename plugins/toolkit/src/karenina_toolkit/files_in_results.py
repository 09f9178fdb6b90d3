"""The files that results state, and those of a question, by the message that they were sent with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from karenina_core.models.attachments import Attachment, read_attachments
from karenina_toolkit.conversations import entries_with_files

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult

Files = Mapping[str, tuple[tuple[str, str], ...]]
"""The digest and the chosen pages of each file, by the text of the message. The text of the question is left out."""


def files_in_result(result: VerificationResult) -> Files:
    """Return the digest and pages of each file that was sent for a result, keyed by the user's message (empty for the
    question). The dictionary is empty if there is no answer, if the result was imported from the reference
    implementation, or if it does not state its files.
    """
    template = result.template
    trace = template.trace_messages or ()
    if not (trace or template.raw_llm_response) or "reference" in result.extensions:
        return {}
    asked = [described for held in result.extensions.values() for described in _described(held.get("attachments"))]
    said = {
        str(message.get("content")): _facts(_described(message.get("attachments")))
        for message in trace
        if message.get("role") == "user"
    }
    return {**said, "": _facts(asked)}


def files_of_question(question: Question) -> Files:
    """Return the digest and pages of each of a question's files, keyed by the user's message (empty for the question).
    The question must have been resolved. Messages with a file that is missing or invalid are left out.
    """
    sent: list[tuple[str, tuple[Attachment, ...]]] = [("", question.attachments)]
    for entry in entries_with_files(question):
        try:
            sent.append((str(entry.get("say")), read_attachments(entry["attachments"])))
        except (TypeError, ValueError):  # refused by the plugin
            continue
    return {
        said: tuple((file.sha256, file.pages or "") for file in files)
        for said, files in sent
        if all(file.sha256 for file in files)
    }


def differ(one: Files, other: Files) -> bool:
    """Return whether other files were sent with a message that both sides have."""
    return any(one[said] != other[said] for said in one.keys() & other.keys())


def _described(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the descriptions of attachments in a list. Anything else is ignored."""
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict):
            yield entry


def _facts(described: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(entry.get("sha256", "")), str(entry.get("pages") or "")) for entry in described)
