"""Fingerprints that tell whether a stored result is still valid."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from anyio import to_thread
from pydantic_core import to_jsonable_python

from karenina_core.catalog import __version__
from karenina_core.config import all_settings
from karenina_core.models.attachments import Attachment
from karenina_core.text import compose
from karenina_engine.calls.call import PanelModel
from karenina_engine.calls.reply_json import dump_json_bytes
from karenina_engine.model_settings import map_models, model_settings
from karenina_toolkit.files.bounded_files import FileError, open_file, open_only_below, read_bytes
from karenina_toolkit.files.safe_paths import stays_below
from karenina_toolkit.files.source_digest import digest_folders, source_folders
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from io import BufferedReader

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.plan import Plan
    from karenina_core.plugins import Plugins

_OF_THE_MATRIX: Final = frozenset({"answering_models", "parsing_models", "replicate_count"})
"""Settings that determine which items a run has but do not change their results."""
_AT_ONCE: Final = 1024
"""The maximum number of questions in the cache. Fewer than that are in progress at any time."""
_OF_NO_RESULT: Final = {
    "endpoint_api_key",
    "request_timeout",
    "max_reply_bytes",
    "stream_timeout",
    "manual_traces",
    "extra",
}
_OF_NO_JUDGEMENT: Final = {"date_created", "date_modified"}
_RUBRICS: Final = ("rubric", "dynamic_rubric")
_MATCHED: Final = ("id", "question")
"""Fields whose text is normalized to NFC before it is compared."""
_PATCH_FILE: Final = b'"patch_file"'
_PATCH_FILES: Final = re.compile(rb'"patch_file"\s*:\s*("(?:[^"\\]|\\.)*")')


def digest_recordings(model: ModelConfig) -> str | None:
    """Return a digest of a model's recordings and of the readable files that they name as `patch_file`, or None if it
    has no recordings or they are unreadable.
    """
    recorded = model.manual_traces
    if recorded is None:
        return None
    if not isinstance(recorded, Path):
        return digest_json(recorded).hex()
    try:
        with open_only_below(model.files_within), open_file(recorded, any_size=True) as file:
            digest = hashlib.file_digest(cast("BufferedReader", file), "sha256")
            file.seek(0)
            names = [name for line in file if _PATCH_FILE in line for name in _PATCH_FILES.findall(line)]
            for name in dict.fromkeys(names):
                with suppress(OSError, FileError, ValueError):  # another value of that name, as in a call of a tool
                    if stays_below(recorded.parent, path := json.loads(name)):
                        digest.update(read_bytes(recorded.parent / path))
            return digest.hexdigest()
    except (OSError, FileError, ValueError):
        return None


def digest_json(value: Any) -> bytes:
    """Return a digest of `value` as JSON and of the core's version. Values that JSON does not support are represented
    by name.
    """
    plain = to_jsonable_python(value, fallback=_named)
    return hashlib.sha256(json.dumps([__version__, plain], sort_keys=True).encode()).digest()


def _named(value: object) -> str:
    """Return a name for a value that JSON does not support, such as a function. It is the same in all processes."""
    return getattr(value, "__qualname__", type(value).__qualname__)


class Fingerprints:
    """The fingerprints of a run's items.

    A fingerprint covers everything that determines a result except the replies: the question with its template, traits
    and folders, the trusted code, both models, the stages of the plan, the version of the core, and all settings that
    are not marked `changes_results: False`. Keys, timeouts and other items have no effect on it.
    """

    def __init__(self, config: VerificationConfig, plugins: Plugins, trust: Trust) -> None:
        self._plugins = plugins
        self._trust = trust
        self._settings_of = config
        self._models: dict[int, bytes] = {}
        self._config = digest_json(self._settings(config))
        self._common: dict[tuple[int, int, int], tuple[object, bytes]] = {}
        self._questions: dict[tuple[int, int], tuple[Question, bytes]] = {}

    async def read_folders(self, question: Question, plan: Plan) -> None:
        """Compute the digests of the question's folders in a thread, so that `compute` does not block."""
        folders = source_folders(plan, self._settings_of, question)
        if folders and (id(question), id(plan)) not in self._questions:
            self._note(question, plan, await to_thread.run_sync(digest_folders, folders))

    def compute(self, question: Question, plan: Plan, answering: ModelConfig, judge: ModelConfig | None) -> bytes:
        """Return the fingerprint of an item: a digest of everything that can change its result. This may read the
        question's folders; to avoid that, call `read_folders` first. `judge` is None if the item has no judge.
        """
        return hashlib.sha256(self._question(question, plan) + self._others(plan, answering, judge)).digest()

    def _others(self, plan: Plan, answering: ModelConfig, judge: ModelConfig | None) -> bytes:
        """Return the digests of everything that many items share: settings, plan and models. They are cached by the
        identity of the arguments.
        """
        at = id(plan), id(answering), id(judge)
        entry = self._common.get(at)
        if entry is None:
            models = self._model(answering) + (self._model(judge) if judge is not None else b"")
            stages = digest_json([[stage.name, stage.distribution, stage.version] for stage in plan.stages])
            entry = self._common[at] = (plan, answering, judge), self._config + stages + models
        return entry[1]

    def _question(self, question: Question, plan: Plan) -> bytes:
        """Return the digests of everything that depends on the question, reading its folders if necessary."""
        at = id(question), id(plan)
        entry = self._questions.get(at)
        if entry is not None:
            return entry[1]
        folders = source_folders(plan, self._settings_of, question)
        return self._note(question, plan, digest_folders(folders) if folders else "")

    def _note(self, question: Question, plan: Plan, files: str) -> bytes:
        """Compute the digest of a question, in which `files` is that of its folders, and return it. It is cached for
        the question and plan; if the cache is full, the oldest entry is dropped.
        """
        if len(self._questions) >= _AT_ONCE:
            del self._questions[next(iter(self._questions))]
        digest = digest_question(question) + self._trusted(question) + files.encode()
        self._questions[id(question), id(plan)] = question, digest
        return digest

    def _trusted(self, question: Question) -> bytes:
        """Return a byte for each of the question's sources that says whether it is trusted, or empty bytes if none are.
        A result must not remain valid when the trust that it needed is gone.
        """
        if not (self._trust.everything or self._trust.digests):
            return b""
        traits = [trait for rubric in (question.rubric, question.dynamic_rubric) if rubric for trait in rubric.traits]
        code = [getattr(trait, name, None) for trait in traits for name in ("source", "function")]
        written = (question.answer_template if question.answer_class is None else None, *code)
        covered = [self._trust.covers(source) for source in written if isinstance(source, str)]
        return bytes(covered) if any(covered) else b""

    def _settings(self, config: VerificationConfig) -> dict[str, Any]:
        """Return the settings that can change a result, with their models replaced by digests. Settings that only
        determine which items a run has are omitted.
        """
        values = {
            name: config.setting(name)
            for name, setting in all_settings().items()
            if name not in _OF_THE_MATRIX and setting.changes_results and config.has(name)
        }
        return {
            **values,
            **{
                name: map_models(values[name], lambda model: self._model(model).hex())
                for name in model_settings()
                if name in values
            },
        }

    def _model(self, model: ModelConfig) -> bytes:
        """Return a digest of a model's fields that can change a result, its adapter's version, and its recordings. For
        a panel, it covers all of its judges.
        """
        if isinstance(model, PanelModel):
            judges = [self._model(judge) for judge in (*model.members, *model.others)]
            return digest_json([model.id, [judge.hex() for judge in judges]])
        if id(model) not in self._models:
            offered = find_adapter(self._plugins, model.interface)
            identity = model.model_dump(mode="json", exclude=_OF_NO_RESULT, exclude_none=True)
            if offered.spec.extra is not None:
                identity["extra"] = offered.spec.extra.model_validate(model.extra).model_dump(mode="json")
            self._models[id(model)] = digest_json([identity, offered.version, digest_recordings(model)])
        return self._models[id(model)]


def _described(value: object) -> object:
    """Return turns, or a part of them, with attachments as dicts (see `Attachment.to_dict`) and tuples as lists."""
    if isinstance(value, Attachment):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _described(inner) for key, inner in value.items()}
    return list(map(_described, value)) if isinstance(value, list | tuple) else value


def digest_question(question: Question) -> bytes:
    """Return a digest of a question, without its dates, and of the core's version. The question's id and text are
    normalized to NFC. A template class is represented by its template id.
    """
    content = question.__dict__.copy()
    for name in _OF_NO_JUDGEMENT:
        del content[name]
    if not content["extra"]:  # so that journals from earlier versions can be continued
        del content["extra"]
    if question.attachments:
        content["attachments"] = [attachment.to_dict() for attachment in question.attachments]
    else:
        del content["attachments"]
    if "turns" in content.get("extra", ()):
        content["extra"] = {**content["extra"], "turns": _described(content["extra"]["turns"])}
    content |= {name: compose(content[name]) for name in _MATCHED}
    for name in _RUBRICS:
        if content[name] is not None:  # JSON would hold null for numbers such as infinity
            content[name] = content[name].model_dump()
    if question.answer_class is not None:
        from karenina_template.question_template import template_of

        template = template_of(question)
        content["answer_template"] = template.template_id if template is not None else None
    return hashlib.sha256(dump_json_bytes([__version__, content], str)).digest()
