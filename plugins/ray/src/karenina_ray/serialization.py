"""What travels between the run and its workers: JSON, made and read here. Nothing is pickled but its bytes.

The configuration travels with its secrets, because workers make the calls: in memory and over Ray's own connections,
never into a log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from karenina_core.config import VerificationConfig, all_settings
from karenina_core.data.trust import Trust
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, CallNotes, Usage
from karenina_engine.calls.call import CallCounts, CallOutcome, CallRecord, Endpoint
from karenina_engine.calls.call_size import CallSize
from karenina_engine.calls.reply_json import dump_error, dump_json, dump_reply, load_error, load_reply
from karenina_engine.calls.retry import RetryPolicy

_NO_BULK = CallSize(0, 0.0, 1)  # where nobody pays

Payload = dict[str, Any]
"""One message: JSON values under names."""


def written(told: list[Payload]) -> bytes:
    """Messages as bytes."""
    return dump_json(told).encode()


def read(data: bytes) -> list[Payload]:
    """The messages that `written` wrote."""
    found: list[Payload] = json.loads(data)
    return found


def plain(value: Any) -> Any:
    """`value` as JSON values, secrets in clear and paths absolute. Raises `ValueError` for what is no data."""
    if isinstance(value, (SecretStr, SecretBytes)):
        return plain(value.get_secret_value())
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return plain({**fields, **(value.model_extra or {})})
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if isinstance(value, Path):
        return str(value.absolute())
    return to_jsonable_python(value)


def config_told(config: VerificationConfig) -> Payload:
    """A configuration, every value of it: workers have an environment of their own. Raises `ValueError`."""
    told: Payload = {}
    for name in all_settings():
        if config.has(name):
            try:
                told[name] = plain(config.setting(name))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
    return told


def trust_told(trust: Trust) -> Payload:
    """Which sources may be executed."""
    return {"digests": sorted(trust.digests), "everything": trust.everything}


def trust_of(told: Payload) -> Trust:
    """The trust that was told."""
    return Trust(frozenset(told["digests"]), told["everything"])


def policy_told(policy: RetryPolicy | None) -> Payload | None:
    """A policy that a program gave; None where the configuration says it."""
    return asdict(policy) if policy is not None else None


def policy_of(told: Payload | None) -> RetryPolicy | None:
    """The policy that was told."""
    return RetryPolicy(**told) if told is not None else None


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A `CallRecord` of a call that another process makes; that process keeps the messages to itself."""

    endpoint: Endpoint
    info: CallInfo
    key: bytes
    size: CallSize
    self_contained: bool
    composite: bool

    @property
    def is_model_call(self) -> bool:
        """Whether a model is called, and not a service."""
        return self.endpoint.port != "service"

    def with_endpoint_digest(self, digest: bytes) -> RemoteCall:
        """Return the call as it is: without the messages no other key can be computed."""
        return self


def call_told(call: CallRecord, model: int, *, paid: bool) -> Payload:
    """What a journal needs to know of a call, and where it is `paid` for, a budget. `model` is the number under which
    the model was told."""
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


def call_of(told: Payload, model: ModelConfig) -> RemoteCall:
    """The call that was told."""
    info = CallInfo(
        question_id=told["question"],
        replicate=told["replicate"],
        stage=told["stage"],
        task=told["task"],
        judge=told["judge"],
        order=told.get("order", 0),
        shared=told.get("shared", False),
    )
    target = Endpoint(told["port"], model, "", {})
    bulk = CallSize(*told["size"]) if "size" in told else _NO_BULK
    return RemoteCall(target, info, bytes.fromhex(told["key"]), bulk, told["self_contained"], told["composite"])


def made_told(made: CallOutcome) -> Payload:
    """What became of a call."""
    said = {"error": dump_error(made.error)} if made.error is not None else {}
    if made.reply is not None:
        said = {"reply": dump_reply(made.reply)}
    return {**said, "notes": [made.notes.retries, made.notes.waited, made.notes.seconds]}


def made_of(told: Payload, port: str) -> CallOutcome:
    """What became of a call through `port`, as it was told."""
    notes = CallNotes(*told["notes"])
    if "error" in told:
        return CallOutcome(None, load_error(told["error"]), notes)
    return CallOutcome(load_reply(port, told["reply"]), None, notes)


def tally_told(tally: CallCounts) -> list[Any]:
    """Counts of calls."""
    return [tally.made, tally.cached, tally.failed, astuple(tally.used), astuple(tally.saved)]


def tally_of(told: list[Any]) -> CallCounts:
    """The counts that were told."""
    made, kept, failed, used, spared = told
    return CallCounts(made, kept, failed, Usage(*used), Usage(*spared))
