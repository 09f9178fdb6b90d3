"""Lookup of recordings by question id or text."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import CallInfo, FinishReason, Message
from karenina_core.text import compose, replace_surrogates, replace_surrogates_in
from karenina_toolkit.answers.answer_keys import NO_QUESTION
from karenina_toolkit.files import FileError
from karenina_toolkit.files.bounded_files import read_bytes
from karenina_toolkit.files.json_values import has_lone_surrogate
from karenina_toolkit.files.safe_paths import stays_below
from karenina_toolkit.traces import (
    TraceFormatError,
    add_end,
    convert_exchanges,
    convert_recording,
    find_conversation,
    find_end,
    find_patch,
    is_conversation,
    is_delimited,
    is_limit_reached,
    is_transcript,
    parse_json_conversation,
    read_delimited,
    read_transcript,
)
from karenina_toolkit.traces.reasoning import has_content

if TYPE_CHECKING:
    from karenina_manual.settings import ManualExtra

_EXCHANGES: Final = "exchanges"
_MESSAGES: Final = "messages"
_ERROR: Final = "error"
_CONVERSATIONS: Final = ("messages", "trace", "trace_messages")
_BESIDE_MESSAGES: Final = ("system", "attachments")
_OF_SAMPLES: Final = {"output": "choices", "limit": "type", "error": "traceback"}
"""The columns of an Inspect sample that state how it ended, each with a key of its object."""
_NAMED: Final = 3
_LETTERS: Final = re.compile(r"[^\W_]+")
_ESCAPES: Final = re.compile(r"\\[nrt]")
STOPPED: Final = ("length", "content_filter", "failed")
"""The finish reasons for which a recorded reply may be empty."""


@dataclass(slots=True)
class Answer:
    """A recorded answer: its text or messages, how the reply ended, and what else is known of its conversation.

    `patch` is the work of an agent in a workspace, in the format of `git diff`. `digests` are those of the files that
    the question attached, if they are known.
    """

    said: str | tuple[Message, ...]
    finish_reason: FinishReason = "stop"
    server_reason: str | None = None
    patch: str | None = None
    limit_reached: bool = False
    conversation: Mapping[str, Any] | None = None
    digests: tuple[str, ...] | None = None


@dataclass(slots=True)
class Recording:
    """A recording, with its location, replicate and model.

    If `replicate` is None, it is for all replicates. `patch` is the work of an agent in a workspace, and `digests`
    are those of the question's files. `error` is the error that the row states, and `asked` the text of its question,
    if any. If `line` is set, the recording is in that line of the file `source`. The location is not stored as one
    string, because that would take too much memory.
    """

    value: Any
    source: str
    replicate: int | None = None
    model: str | None = None
    line: int | None = None
    patch: str | None = None
    digests: tuple[str, ...] | None = None
    error: str | None = None
    asked: str | None = None

    @property
    def place(self) -> str:
        """The location of the recording, as shown in messages."""
        return self.source if self.line is None else f"{self.source}, line {self.line}"


class RecordingMissing(LookupError):
    """Raised if a question has no recording. The message states what was searched for and what exists."""


class EmptyRecording(RecordingMissing):
    """Raised if a question's recording contains neither text nor a tool call. `place` is its location."""

    def __init__(self, sought: str, place: str) -> None:
        super().__init__(f"the recorded answer for {sought} is empty ({place})")
        self.place = place


class OtherQuestion(RecordingMissing):
    """Raised if the recording with a question's id has the text of another one, and another recording has its text."""

    def __init__(self, sought: str, recording: Recording, fitting: Recording) -> None:
        super().__init__(
            f"the recording with the id of {sought} has the text of another question ({recording.place}), and the one "
            f"with its text has another id ({fitting.place}); correct the ids, or leave them out to find recordings by "
            "their text"
        )
        self.recording = recording


@dataclass(slots=True)
class Mismatches:
    """The differences between a run's questions and the recordings.

    `questions` is the number of questions. `missing` and `empty` are those whose recording is missing or empty, and
    `unused` are recordings without a question. `later` counts recordings of replicates beyond those of the run, and
    `last` is the highest of these replicates. `other` are conversations whose first message is not about the question.
    `renamed` are recordings with the question's id and another text of the question, of `stated` that state a text,
    `texts` are these texts, and `moved` are those for whose question there is a recording with its text and another id.
    """

    questions: int = 0
    missing: list[str] = field(default_factory=list)
    empty: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    later: int = 0
    last: int = 0
    other: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    stated: int = 0
    texts: set[str] = field(default_factory=set)
    moved: dict[str, None] = field(default_factory=dict)

    @property
    def are_of_others(self) -> bool:
        """Whether most of the texts are other ones, so that the ids are those of another benchmark."""
        return 1 < len(self.renamed) > self.stated / 2 and len(self.texts) > 1

    def messages(self) -> Iterator[str]:
        """Yield messages about questions without a recording, with an empty one or with that of another question, and
        about recordings without a question, but none about `later` and `other`, and about `renamed` only if most of the
        texts are others: then, the ids are those of another benchmark. A single text, such as a prompt, is no question.
        """
        have = "question has" if self.questions == 1 else "questions have"
        if self.missing:
            yield f"{len(self.missing)} of {self.questions} {have} no recorded answer: {list_some(self.missing)}"
        if self.empty:
            places = list_some([*self.empty.values()])
            yield f"{len(self.empty)} of {self.questions} {have} an empty recorded answer: {places}"
        if self.moved:
            lines = "recording has" if len(self.moved) == 1 else "recordings have"
            named = list_some([*self.moved])
            yield (
                f"{len(self.moved)} {lines} the id of one question and the text of another: {named}; "
                "correct the ids, or leave them out to find recordings by their text"
            )
        if self.are_of_others:
            yield (
                f"{len(self.renamed)} of {self.stated} recordings have the id of a question and the text of another: "
                f"{list_some(self.renamed)}; pass recordings of these questions, or, if only the wording is another, "
                "leave out the texts or name another column in extra.question_field"
            )
        if self.unused:
            lines = "recording matches" if len(self.unused) == 1 else "recordings match"
            yield f"{len(self.unused)} {lines} no question: {list_some(self.unused)}"


class RecordingIndex:
    """All recordings from one source. `name` is the source's name in messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.only_answers = True
        """Whether all recordings are plain texts, so that none is a conversation or has a patch."""
        self.models: set[str] = set()
        self._by_id: dict[str, list[Recording]] = {}
        self._by_text: dict[str, list[Recording]] = {}
        self._has_digests = False

    def add(self, question_id: str | None, text: str | None, recorded: Recording) -> None:
        """Add a recording by question id, question text, or both. Lone surrogates in its value are replaced. Raises
        `AdapterConfigError` if the format is unknown, if the id or text contains a lone surrogate, or if there is a
        different recording for the same id and replicate.

        Texts may be repeated, because a file may contain the answers of several systems.
        """
        self._has_digests = self._has_digests or (question_id is not None and is_digest(question_id))
        for name in (question_id, text):
            if name is not None and has_lone_surrogate(name):
                problem = f"the id or question {name[:60]!r} contains an unpaired surrogate"
                raise AdapterConfigError(f"recordings {recorded.place}: {problem}; correct the id or question")
        # Programs that cut text by UTF-16 code units leave lone surrogates, which are replaced in an answer.
        recorded.value = replace_surrogates_in(recorded.value)
        if not isinstance(recorded.value, str):
            _check_shape(recorded)
        self.only_answers = self.only_answers and isinstance(recorded.value, str) and recorded.patch is None
        if question_id is not None:
            same = self._by_id.setdefault(compose(question_id), [])
            for other in same:
                if other.replicate == recorded.replicate and (other.value, other.patch) != (
                    recorded.value,
                    recorded.patch,
                ):
                    cure = "add a 'replicate' to each row, or keep only one recording"
                    if other.model is not None and recorded.model is not None and other.model != recorded.model:
                        cure = (
                            "the answers come from several models; judge each model with its own option: "
                            f"{self._select(other.model)} {self._select(recorded.model)}"
                        )
                    raise AdapterConfigError(
                        f"recordings {recorded.place}: the id {question_id!r} already has a different recording at "
                        f"{other.place}; {cure}"
                    )
            same.append(recorded)
        if text is not None:
            self._by_text.setdefault(compose(text), []).append(recorded)
        self.count += 1

    def _select(self, model: str) -> str:
        """Return the command-line option that selects one model's answers in this file."""
        named = {"interface": "manual", "id": model, "model_name": model, "manual_traces": self.name}
        return f"--answering {quote(json.dumps({**named, 'extra': {'model': model}}, ensure_ascii=False))}"

    def add_row(self, source: str, row: Any, extra: ManualExtra, line: int | None = None) -> None:
        """Add a row, unless it names a model other than `extra.model`. `source` and `line` are its location. Raises
        `AdapterConfigError` if the row has no question or recording, if its replicate or patch is invalid, or if `add`
        rejects it.

        The models in all rows are added to `models`.
        """
        place = source if line is None else f"{source}, line {line}"
        if not isinstance(row, Mapping):
            raise AdapterConfigError(
                f"recordings {place}: the row must be an object with named columns, not {type(row).__name__}"
            )
        model = row.get("model") if isinstance(row.get("model"), str) else None
        if model is not None:
            self.models.add(model)
        if extra.model is not None and model is not None and model != extra.model:
            return
        question_id = next((str(row[name]) for name in extra.ids if row.get(name) is not None), None)
        text = next((str(row[name]) for name in extra.questions if row.get(name) is not None), None)
        if question_id is None and text is None:
            columns = ", ".join((*extra.ids, *extra.questions))
            raise AdapterConfigError(
                f"recordings {place}: the row does not identify a question. Add one of the columns {columns}, or "
                "choose other columns with extra.id_field and extra.question_field"
            )
        patch = _read_patch(row, place, source)
        has_column = not row.keys().isdisjoint(extra.responses) or "replicates" in row
        error = None if row.get(_ERROR) is None else str(row[_ERROR])
        if not has_column and patch is None and error is None and not is_conversation(row):
            raise AdapterConfigError(
                f"recordings {place}: the row contains no recording. Add one of the columns "
                f"{', '.join(extra.responses)}, choose another column with extra.response_field, or use a row that "
                "is itself a conversation"
            )
        replicate = row.get("replicate")
        if replicate is not None and (type(replicate) is not int or replicate < 1):
            raise AdapterConfigError(f"recordings {place}: replicate must be 1 or more, not {replicate!r}")
        column = next((name for name in extra.responses if row.get(name) is not None), None)
        value = row[column] if column is not None else None
        if column == _EXCHANGES:
            value = {_EXCHANGES: value}
        elif not has_column:
            value = row if is_conversation(row) else patch
        elif column == _MESSAGES and isinstance(value, list):
            value = {key: row[key] for key in (_MESSAGES, *_BESIDE_MESSAGES) if row.get(key) is not None}
            for key, own in _OF_SAMPLES.items():
                if isinstance(row.get(key), dict) and own in row[key]:
                    value[key] = row[key]
        if value is None and "replicates" in row:
            value = {"replicates": row["replicates"]}
        delimited = extra.delimited if value is not patch else False
        if delimited is None and column in _CONVERSATIONS and extra.response_field is None:
            delimited = True  # the column's name implies a conversation
        value = parse_text(value, delimited, place)
        value = value if value is row else add_end(value, row)
        digests = _read_digests(row)
        self.add(question_id, text, Recording(value, source, replicate, model, line, patch, digests, error, text))

    def compare(self, asked: Iterable[CallInfo], others: Iterable[CallInfo]) -> Mismatches:
        """Return which questions in `asked` lack a recording or have an empty one, or one that states or begins with
        another question, how many recordings are for later replicates, and which belong to no question in `asked` or
        `others`.

        A question's replicates are consecutive in `asked`. `others` are questions that are not part of the run.
        """
        found = Mismatches()
        used: tuple[set[str], set[str]] = set(), set()
        later: dict[tuple[int, int], int] = {}
        other: dict[str, None] = {}
        renamed: dict[str, None] = {}
        for (question_id, text), infos in groupby(asked, lambda info: (info.question_id, info.question)):
            found.questions += 1
            self._mark_used(question_id, text, used)
            last, recorded, stated = 0, True, False
            for info in infos:
                last = max(last, info.replicate)
                try:
                    recording, value = self._find_recording(question_id, text, info.replicate)
                    stated |= recording.asked is not None
                    if recording.asked is not None and _differ(recording.asked, text):
                        renamed[self._describe(question_id, recording)] = None
                        found.texts.add(recording.asked)
                    elif not isinstance(value, str) and _asks_another(value, text):
                        other[self._describe(question_id, recording)] = None
                except OtherQuestion as error:
                    found.moved[self._describe(question_id, error.recording)] = None
                except EmptyRecording as error:
                    found.empty.setdefault(repr(question_id), f"{question_id!r} ({error.place})")
                except RecordingMissing:
                    recorded = False
            found.stated += stated
            if not recorded:
                found.missing.append(repr(question_id))
            for recording in self._recordings_of(question_id, text)[0]:
                for replicate in _replicates_of(recording):
                    if replicate > last:
                        later[id(recording), replicate] = replicate
        found.later, found.last = len(later), max(later.values(), default=0)
        found.other, found.renamed = [*other], [*renamed]
        if self._list_unused(used):
            for info in others:
                self._mark_used(info.question_id, info.question, used)
            found.unused = self._list_unused(used)
        return found

    def _mark_used(self, question_id: str, text: str, used: tuple[set[str], set[str]]) -> None:
        """Add a question's id and text to `used`, which contains a set of ids and a set of texts. If there are
        recordings under digests, the digest of the text is added to the ids too.
        """
        ids, texts = used
        ids.add(compose(question_id))
        if self._has_digests:
            ids.add(digest_of(text))
        texts.add(compose(text))

    def _list_unused(self, used: tuple[set[str], set[str]]) -> list[str]:
        """Return descriptions of the recordings that neither their id nor their text identifies as used. `used`
        contains the ids and the texts that were used.
        """
        unused: dict[int, tuple[str, Recording]] = {}
        indexes = tuple(zip((self._by_id, self._by_text), used, strict=True))
        for index, names in indexes:
            for name, recordings in index.items():
                if name not in names:
                    for recording in recordings:
                        unused.setdefault(id(recording), (name, recording))
        if unused:
            for index, names in indexes:
                for recording in (recording for name in names for recording in index.get(name, ())):
                    unused.pop(id(recording), None)
        return [self._describe(*entry) for entry in unused.values()]

    def _describe(self, name: str, recorded: Recording) -> str:
        """Return a recording's name, cut to 80 characters, with its line or entry if it has one."""
        place = recorded.place.removeprefix(f"{self.name}, ")
        return f"{_shorten(name)} ({place})" if place.startswith(("line", "entry")) else _shorten(name)

    def find(self, question_id: str, text: str, replicate: int) -> Answer:
        """Return a question's recording, found by its id, its text or the text's digest; one for this replicate takes
        precedence over one for all replicates. Raises `RecordingMissing` if there is none, or if there are different
        ones for the same text. An empty or null recording counts as missing.
        """
        recording, value = self._find_recording(question_id, text, replicate)
        if isinstance(value, str):
            return Answer(value, patch=recording.patch, digests=recording.digests)
        return replace(_to_answer(value), patch=recording.patch, digests=recording.digests)

    def _recordings_of(self, question_id: str, text: str) -> tuple[Sequence[Recording], bool]:
        """Return a question's recordings, which may be none, and whether they were found by its text."""
        recordings = self._by_id.get(compose(question_id)) if question_id else None
        if recordings is not None:
            return recordings, False
        recordings = self._by_text.get(compose(text))
        if recordings is not None or not self._has_digests:
            return recordings or (), True
        return self._by_id.get(digest_of(text), ()), False

    def _find_recording(self, question_id: str, text: str, replicate: int) -> tuple[Recording, Any]:
        """Return a question's recording, and its value for the replicate. A recording for this replicate takes
        precedence over one for all replicates. Raises `RecordingMissing` if there is none, if it is null or empty, if
        the question's text has several different ones, or if another recording has this text and its own is another.
        """
        recordings, by_text = self._recordings_of(question_id, text)
        if not by_text and len(recordings) == 1 and recordings[0].replicate is None:
            value = recordings[0].value
            if isinstance(value, str) and has_content(value) and recordings[0].asked in (None, text):
                return recordings[0], value
        sought = f"question {question_id!r}" + (f" ({_shorten(text)})" if text else "")
        if not recordings:
            several = "recording" if self.count == 1 else "recordings"
            raise RecordingMissing(
                f"there is no recorded answer for {sought} in {self.name}, which contains {self.count} {several}; "
                "add a recording with this id or this question text"
            )
        chosen = [recording for recording in recordings if recording.replicate == replicate]
        chosen = chosen or [recording for recording in recordings if recording.replicate is None]
        if not chosen:
            there = ", ".join(str(recording.replicate) for recording in recordings)
            raise RecordingMissing(
                f"there is no recorded answer for replicate {replicate} of {sought} in {self.name}; only these "
                f"replicates are recorded: {there}"
            )
        first = chosen[0]
        if by_text and any(recording.value != first.value for recording in chosen):
            raise RecordingMissing(
                f"there are {len(chosen)} different recorded answers for the text of {sought} in {self.name} "
                f"({first.place} and others); give the questions the ids of the recordings"
                + (", or use one model with extra.model" if len({recording.model for recording in chosen}) > 1 else "")
            )
        others = () if by_text or first.asked in (None, text) else self._by_text.get(compose(text), ())
        fitting = [one for one in others if all(one is not recording for recording in recordings)]
        if fitting and first.asked is not None and _differ(first.asked, text):
            raise OtherQuestion(sought, first, fitting[0])
        value = _select_replicate(first, replicate, sought)
        if value is None:
            why = "" if first.error is None else f" because of the error {_shorten(first.error)}"
            raise RecordingMissing(
                f"the recorded answer for {sought} is null{why} ({first.place}); record the answer again"
            )
        if _is_empty(value) and first.patch is None:
            raise EmptyRecording(sought, first.place)
        return first, value


def _replicates_of(recorded: Recording) -> Iterable[int]:
    """Return a recording's replicates. The result is empty if the recording is for all replicates."""
    if isinstance(recorded.value, Mapping) and "replicates" in recorded.value:
        return range(1, len(recorded.value["replicates"]) + 1)
    return () if recorded.replicate is None else (recorded.replicate,)


def _select_replicate(recorded: Recording, replicate: int, sought: str) -> Any:
    """Return a recording's value for one replicate. A value without `replicates` is for all replicates. Raises
    `RecordingMissing`, which calls the question `sought`, if there are too few replicates.
    """
    value = recorded.value
    if isinstance(value, Mapping) and "replicates" in value:
        several = value["replicates"]
        if replicate > len(several):
            raise RecordingMissing(
                f"there is no recorded answer for replicate {replicate} of {sought}; the number of recorded "
                f"replicates at {recorded.place} is {len(several)}"
            )
        return several[replicate - 1]
    return value


def _check_shape(recorded: Recording) -> None:
    """Raise `AdapterConfigError` unless a recording, or each of its replicates, is None, text or a conversation."""
    value = recorded.value
    several = [value]
    if isinstance(value, Mapping) and "replicates" in value:
        several = value["replicates"]
        if not isinstance(several, list) or not several or set(value) != {"replicates"}:
            raise AdapterConfigError(
                f"recordings {recorded.place}: replicates must be a non-empty list, and the object must "
                "have no other keys"
            )
    for item in several:
        if item is None:
            continue
        try:
            _to_answer(item)
        except TraceFormatError as error:
            raise AdapterConfigError(
                f"recordings {recorded.place}: the recording is neither a string nor a list of messages: {error}"
            ) from None


def _to_answer(value: Any) -> Answer:
    """Convert recorded text or a recorded conversation to an `Answer`. Raises `TraceFormatError` if this fails."""
    if isinstance(value, str):
        return Answer(value)
    if isinstance(value, Mapping) and isinstance(value.get(_EXCHANGES), list):
        messages = convert_exchanges(value[_EXCHANGES])
    else:
        messages = convert_recording(value)
    finish_reason, server_reason = find_end(value)
    return Answer(
        tuple(messages),
        finish_reason,
        server_reason,
        limit_reached=is_limit_reached(value),
        conversation=find_conversation(value),
    )


def _is_empty(value: Any) -> bool:
    """Return whether a recording is blank text, or a conversation in which the assistant wrote and called nothing. A
    reply that was stopped early is not empty, and is treated like one from a live model.
    """
    if isinstance(value, str):
        return not has_content(value)
    answer = _to_answer(value)
    if answer.finish_reason in STOPPED:
        return False
    messages = [message for message in answer.said if isinstance(message, Message) and message.role == "assistant"]
    return bool(messages) and not any(has_content(message.content) or message.tool_calls for message in messages)


def _asks_another(value: Any, question: str) -> bool:
    """Return whether a recorded conversation begins with a user who does not say the question, for example because the
    row has the id of another one. A prompt may contain the question among other text, with other spaces and case. The
    question of an output without one is not looked for.
    """
    if question == NO_QUESTION:
        return False
    said = _to_answer(value).said
    begin = [*takewhile(lambda message: message.role in ("system", "user"), () if isinstance(said, str) else said)]
    if not any(message.role == "user" and message.content.strip() for message in begin):
        return False
    return _to_words(question) not in _to_words(" ".join(message.content for message in begin))


def _differ(asked: str, question: str) -> bool:
    """Return whether a recorded text of a question is another one. It is not if it contains the question, as a prompt
    does, or the beginning of the question up to an empty line, because options may be shown in other ways; nor if the
    question contains it. Spaces, case, marks and symbols do not count.
    """
    if asked == question:
        return False
    words, others, begin = map(_to_letters, (asked, question, question.strip().partition("\n\n")[0]))
    return begin not in words and words not in others


def _to_letters(text: str) -> str:
    """Return the letters and digits of text in lower case, without the escapes of line breaks in quoted text."""
    return "".join(_LETTERS.findall(normalize("NFKC", _ESCAPES.sub(" ", text)).casefold()))


def _to_words(text: str) -> str:
    """Return text in lower case with single spaces."""
    return " ".join(compose(text).casefold().split())


def digest_of(text: str) -> str:
    """Return the MD5 hex digest of a question's text, which the reference project uses as the key of recordings."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def is_digest(key: str) -> bool:
    """Return whether `key` looks like an MD5 hex digest."""
    return len(key) == 32 and not set(key) - set("0123456789abcdef")


def parse_text(value: Any, delimited: bool | None, place: str) -> Any:
    """Parse a string that contains a conversation (in JSON, or as text with headings or roles), unless `delimited` is
    False, and return any other value unchanged, but with parsed `replicates`. If `delimited` is None, a string that
    could be either a conversation or an answer raises `AdapterConfigError`, whose message contains `place`.
    """
    if isinstance(value, Mapping) and isinstance(value.get("replicates"), list):
        return {**value, "replicates": [parse_text(replicate, delimited, place) for replicate in value["replicates"]]}
    if not isinstance(value, str) or delimited is False:
        return value
    looks = "begins with a role followed by an answer" if is_transcript(value) else ""
    document = parse_json_conversation(value)
    if document is not None:
        looks = "is a conversation in JSON"
    elif is_delimited(value):
        looks = "begins with a conversation heading"
    if looks and delimited is None:
        raise AdapterConfigError(
            f"recordings {place}: the text {looks}. Set extra.delimited = true to read the text as a conversation, "
            "whose last answer is judged, or false to judge the text unchanged"
        )
    if not looks or document is not None:
        return value if document is None else document
    text = replace_surrogates(value)
    return read_delimited(text) if is_delimited(text) else read_transcript(text)


def parse_headings(value: Any) -> Any:
    """Parse a conversation with headings, the reference project's format. Other values are unchanged."""
    return read_delimited(replace_surrogates(value)) if isinstance(value, str) and is_delimited(value) else value


def _read_patch(row: Mapping[str, Any], place: str, source: str) -> str | None:
    """Return the patch in a row's `patch` or `model_patch` (as in SWE-bench), in the file that its `patch_file` names,
    below the folder of `source`, or in a trajectory of SWE-agent, or None. Raises `AdapterConfigError` if it is not
    text, or if the file cannot be read.
    """
    patch = next((row[name] for name in ("patch", "model_patch") if row.get(name) is not None), None)
    if patch is None and row.get("patch_file") is not None:
        folder = Path(source.partition(", entry ")[0]).parent
        name = row["patch_file"]
        if not isinstance(name, str) or not stays_below(folder, name):
            raise AdapterConfigError(f"recordings {place}: patch_file must name a file in the folder of the recordings")
        try:
            patch = _decode_patch(read_bytes(folder / name))
        except FileError as error:
            raise AdapterConfigError(f"recordings {place}: {error}") from None
    if patch is None:
        patch = next(filter(None, map(find_patch, (row, *row.values()))), None)
    if patch is not None and not isinstance(patch, str):
        raise AdapterConfigError(f"recordings {place}: the patch must be a string in the format of `git diff`")
    return patch


def _read_digests(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the digests of the files that a row's question attached, or None if the row does not state them."""
    files = row.get("attachments")
    if not isinstance(files, list) or not all(isinstance(file, Mapping) and "sha256" in file for file in files):
        return None
    return tuple(str(file["sha256"]) for file in files)


def _decode_patch(data: bytes) -> str:
    """Return a patch as text. Bytes that are not UTF-8, of files with another encoding, become surrogates."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # PowerShell writes `git diff > FILE` so
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def list_some(names: Sequence[str]) -> str:
    """Return the first three names, and the number of further ones."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _shorten(text: str) -> str:
    """Return text in quotation marks, cut to 80 characters."""
    return repr(text if len(text) <= 80 else text[:80] + "…")
