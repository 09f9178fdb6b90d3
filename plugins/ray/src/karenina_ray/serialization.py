"""The JSON messages between the run and its workers. Ray only pickles their bytes.

The configuration is sent with its secrets, because the workers make the calls. Secrets stay in memory and on Ray's
connections, and are never logged.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from karenina_core.config import VerificationConfig, all_settings
from karenina_core.data.sections import KeptFile
from karenina_core.data.trust import Trust
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, CallNotes, Usage
from karenina_core.plugins import Selection, installed_plugins
from karenina_engine.calls.call import CallCounts, CallOutcome, CallRecord, CallSize, Endpoint
from karenina_engine.calls.reply_json import dump_error, dump_json, dump_reply, load_error, load_reply
from karenina_engine.results.kept_files import FileStore
from karenina_engine.run.executor import question_to_json

if TYPE_CHECKING:
    from karenina_engine.run.session import RunSession

_NO_SIZE = CallSize(0, 0.0, 1)  # for a run without a budget

Payload = dict[str, Any]
"""A message or part of a message, as a JSON object."""


def encode(messages: list[Payload]) -> bytes:
    """Encode messages as JSON in UTF-8. Use `decode` to decode them."""
    return dump_json(messages).encode()


def decode(data: bytes) -> list[Payload]:
    """Decode messages encoded by `encode`."""
    messages: list[Payload] = json.loads(data)
    return messages


def to_plain(value: Any) -> Any:
    """Convert a value to JSON-compatible data. Secrets become plain text, and paths become absolute. Raises
    `ValueError` if the value cannot be converted.
    """
    if isinstance(value, (SecretStr, SecretBytes)):
        return to_plain(value.get_secret_value())
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return to_plain({**fields, **(value.model_extra or {})})
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value.absolute())
    return to_jsonable_python(value)


def encode_config(config: VerificationConfig) -> Payload:
    """Encode all settings whose owner is installed, with secrets in plain text, and including those from this process's
    environment. Raises `ValueError` with the setting's name if a setting cannot be encoded.
    """
    message: Payload = {}
    for name in all_settings():
        if config.has(name):
            try:
                message[name] = to_plain(config.setting(name))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
    return message


def encode_trust(trust: Trust) -> Payload:
    """Encode the user's trust, which determines the code that may be executed."""
    return {"digests": sorted(trust.digests), "everything": trust.everything}


def decode_trust(payload: Payload) -> Trust:
    """Decode the trust encoded by `encode_trust`."""
    return Trust(frozenset(payload["digests"]), payload["everything"])


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A call made by another process, with the fields of a `CallRecord` except its messages."""

    endpoint: Endpoint
    info: CallInfo
    key: bytes
    size: CallSize
    self_contained: bool
    composite: bool

    @property
    def is_model_call(self) -> bool:
        """Whether the call goes to a model rather than a service."""
        return self.endpoint.port != "service"

    def with_endpoint_digest(self, digest: bytes) -> RemoteCall:
        """Return the call unchanged, because its key cannot be recomputed without the messages."""
        return self


def encode_call(call: CallRecord, model: int, *, paid: bool) -> Payload:
    """Encode the facts about a call that a journal needs and, if `paid` is true, those that a budget needs. `model` is
    the number of the call's model.
    """
    info = call.info
    money = {"order": info.order, "shared": info.shared, "size": list(call.size)} if paid else {}
    return {
        **money,
        "key": call.key.hex(),
        "port": call.endpoint.port,
        "model": model,
        "question": info.question_id,
        "replicate": info.replicate,
        "stage": info.stage,
        "task": info.task,
        "judge": info.judge,
        "self_contained": call.self_contained,
        "composite": call.composite,
    }


def decode_call(payload: Payload, model: ModelConfig) -> RemoteCall:
    """Decode a call encoded by `encode_call`. `model` is the model that has the number in the payload."""
    info = CallInfo(
        question_id=payload["question"],
        replicate=payload["replicate"],
        stage=payload["stage"],
        task=payload["task"],
        judge=payload["judge"],
        order=payload.get("order", 0),
        shared=payload.get("shared", False),
    )
    endpoint = Endpoint(payload["port"], model, "", {})
    size = CallSize(*payload["size"]) if "size" in payload else _NO_SIZE
    key = bytes.fromhex(payload["key"])
    return RemoteCall(endpoint, info, key, size, payload["self_contained"], payload["composite"])


def encode_outcome(outcome: CallOutcome) -> Payload:
    """Encode the outcome of a call: its reply or error, its notes, and its files."""
    payload: Payload = {"error": dump_error(outcome.error)} if outcome.error is not None else {}
    if outcome.reply is not None:
        payload = {"reply": dump_reply(outcome.reply)}
    notes = outcome.notes
    if outcome.files:
        payload["files"] = [file.model_dump(mode="json") for file in outcome.files]
    times, spent = [notes.waited, notes.seconds, notes.queued], [notes.answered, notes.cost, notes.uncounted]
    return {**payload, "notes": [notes.retries, *times, notes.keys], "spent": spent}


def decode_outcome(payload: Payload, port: str) -> CallOutcome:
    """Decode an outcome encoded by `encode_outcome`. `port` is the kind of port that made the call."""
    notes = CallNotes(*payload["notes"])
    notes.answered, notes.cost, notes.uncounted = payload["spent"]
    if "error" in payload:
        return CallOutcome(None, load_error(payload["error"]), notes)
    files = tuple(map(KeptFile.model_validate, payload.get("files", ())))
    return CallOutcome(load_reply(port, payload["reply"]), None, notes, files)


def encode_files(store: FileStore) -> Payload:
    """Encode the location of the files that belong to items, with the name of this machine."""
    folder = str(store.folder.absolute()) if store.folder is not None else None
    return {"host": os.uname().nodename, "folder": folder, "most": store.most, "most_in_all": store.most_in_all}


def decode_files(payload: Payload) -> FileStore:
    """Decode a file store encoded by `encode_files`. On another machine, the store keeps no files and records why."""
    folder = Path(payload["folder"]) if payload["folder"] is not None else None
    store = FileStore(folder, payload["most"], payload["most_in_all"])
    if folder is not None and payload["host"] != os.uname().nodename:
        why = f"this worker runs on {os.uname().nodename}, but the files of the run are on {payload['host']}"
        return FileStore(None, store.most, store.most_in_all, why)
    return store


def encode_counts(counts: CallCounts) -> list[Any]:
    """Encode call counts as a list. Use `decode_counts` to decode them."""
    ends = [[*place, count] for place, count in counts.unknown_ends.items()]
    return [counts.made, counts.cached, counts.failed, astuple(counts.used), astuple(counts.saved), ends]


def decode_counts(values: list[Any]) -> CallCounts:
    """Decode call counts encoded by `encode_counts`."""
    made, cached, failed, used, saved, ends = values
    unknown_ends = Counter({(model, reason): count for model, reason, count in ends})
    return CallCounts(made, cached, failed, Usage(*used), Usage(*saved), unknown_ends)


_HERE = 'or run in this process (executor = "asyncio")'


def find_problems(session: RunSession) -> list[str]:
    """Return a message for each part of a run that cannot be sent to workers, with a fix."""
    return [*_plugin_problems(session), *_config_problems(session.config), *_question_problems(session)]


def _plugin_problems(session: RunSession) -> list[str]:
    """Return a message for each plugin that has no entry point, because workers would not find it."""
    chosen = session.config.core.plugins
    installed = installed_plugins(Selection.of(chosen.block, chosen.only, chosen.pick))
    if session.parts.plugins is installed:
        return []
    identities = {(info.kind, info.name, info.distribution) for info in installed.describe()}
    unknown = [
        info.name
        for info in session.parts.plugins.describe()
        if (info.kind, info.name, info.distribution) not in identities
    ]
    return [
        f"ray executor: the plugin {name!r} is registered only in this process, but workers find plugins by entry "
        f"points; install the plugin as a distribution with an entry point, {_HERE}"
        for name in unknown
    ]


def _config_problems(config: VerificationConfig) -> list[str]:
    """Return a message for each setting that is not the same after encoding, or one if a setting cannot be encoded."""
    try:
        message = encode_config(config)
        again = encode_config(VerificationConfig(**json.loads(json.dumps(message))))
    except ValueError as error:
        return [f"ray executor: a setting cannot be sent to workers as JSON: {error}; use plain values, {_HERE}"]
    return [
        f"ray executor: the setting {name} changes when it is written as JSON; use plain values, {_HERE}"
        for name in message
        if message[name] != again.get(name)
    ]


def _question_problems(session: RunSession) -> list[str]:
    """Return a message for each question whose template class cannot be rebuilt from its source code. Questions
    streamed from a file are not checked, because they are already JSON.
    """
    questions = session.matrix.questions
    if not isinstance(questions, (list, tuple)):
        return []
    problems: list[str] = []
    for question in questions:
        if question.answer_class is None:
            continue
        try:
            question_to_json(question, session.parts.trust)
        except ValueError as error:
            problems.append(
                f"ray executor: the template of question {question.id!r} is a class in this process and cannot be "
                f"rebuilt from its source alone: {error}; define the template as source code that needs nothing "
                f"else, {_HERE}"
            )
    return problems
