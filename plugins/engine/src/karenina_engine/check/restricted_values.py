"""The trust check for restricted values in a benchmark.

A benchmark is untrusted data (see `karenina_core.models.settings_models`). Its restricted values only take effect if
the user has trusted them for this file, or trusts everything for one run. Values that the user's own configuration
replaces need no trust.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import to_jsonable_python

from karenina_core import plugins as plugin_room
from karenina_core.catalog import read_catalog
from karenina_core.config import all_settings, flatten_settings
from karenina_core.data.rubrics import Rubric, trait_kinds
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError, PluginError
from karenina_core.models.model import SECRECY, ModelConfig
from karenina_core.models.settings_models import AllowedInFiles, declared, mark_of
from karenina_core.namespaces import third_parties
from karenina_engine.check.plugin_checks import Kind, OwnedFields, given_fields
from karenina_engine.check.questions import with_workspace_root
from karenina_engine.journal.named_files import NamedFile, find_data, find_programs
from karenina_engine.model_settings import allowed_in_files, map_models, model_settings, models_in
from karenina_engine.user_files import digest_of_values, load_trust, trusts_values
from karenina_template.question_template import primitive_kinds, primitives_in
from karenina_toolkit.conversations import files_by_message
from karenina_toolkit.files.safe_paths import is_plain_name, stays_below
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.models.adapters import AdapterSpec
    from karenina_engine.question_source import QuestionSource

_HIDDEN: Final = "***"
_SHOWN: Final = 300  # characters of a value in an error; `karenina trust` shows the whole value


class RestrictedValue(NamedTuple):
    """A restricted value in a benchmark.

    `name` identifies what is set, and `meaning` describes it. `value` is the value as JSON, and `shown` is the same
    JSON without secrets. `setting` is the setting through which the value takes effect, if any. If `yields` is set, the
    value only takes effect while that setting has no value of its own. `places` lists the ids of the questions that
    contain the value. `files` lists the files that the value names. Trusting the value includes trusting these files.
    `unread` describes files of which no digest could be made.
    """

    name: str
    value: str
    shown: str
    meaning: str = ""
    setting: str | None = None
    yields: bool = False
    places: tuple[str, ...] = ()
    files: tuple[NamedFile, ...] = ()
    unread: tuple[str, ...] = ()

    def in_words(self, most: int | None = None) -> str:
        """Describe the value on one line, with its name, its meaning and up to three of its questions. The value is cut
        off after `most` characters, unless `most` is None.
        """
        cut = most is not None and len(self.shown) > most
        value = f"{self.shown[:most]}... ({len(self.shown):,} characters)" if cut else self.shown
        where = f", in {', '.join(self.places[:3])}" if self.places else ""
        more = f" and {len(self.places) - 3} more" if len(self.places) > 3 else ""
        meaning = f"  ({self.meaning.rstrip('.')})" if self.meaning else ""
        return f"{self.name} = {value}{where}{more}{meaning}"


class RestrictedValues(ConfigError):
    """Raised if a benchmark contains values that the user has to trust first.

    When this is raised, nothing has been opened, started or sent yet. `file` is the benchmark's file, if it has one.
    """

    def __init__(self, file: Path | None, values: Sequence[RestrictedValue]) -> None:
        cure = (
            f"use `karenina trust {quote(str(file))}`, which stores your trust in exactly these values, or "
            "--trust-all, which trusts the whole file, including its code, for this run"
            if file is not None
            else 'pass trust="all" in Python, which trusts the whole benchmark, including its code'
        )
        source = str(file) if file is not None else "the benchmark"
        lines = "\n".join(f"  {value.in_words(_SHOWN)}" for value in values)
        super().__init__(
            [
                f"{source} sets values that can start programs, choose where requests and keys are sent, name files, "
                "choose plugins, or change prices. They need your trust, and need it again if a link or a program "
                f"that they name has changed:\n{lines}\nNothing was started, opened or sent. To accept these values, "
                f"{cure}; or set the values yourself (-a, -j, -c, --set)."
            ]
        )
        self.file = file
        self.values = tuple(values)


def check_restricted_values(benchmark: QuestionSource, config: VerificationConfig, trust: Trust) -> VerificationConfig:
    """Raise `RestrictedValues` if a benchmark sets values that need the user's trust and would take effect without it.
    Otherwise, return the configuration with `workspace_root` set and paths from the benchmark resolved. If any
    restricted value takes effect, the user must trust all restricted values in the file. A benchmark without a file
    passes only if the user trusts everything.
    """
    if trust.everything:
        return with_workspace_root(benchmark, config)
    finder = _search(benchmark)
    values = list(finder.found.values())
    acting = [value for value in values if _takes_effect(value, config)]
    if acting and not (benchmark.path is not None and trusts_values(trust, benchmark.path, names_and_values(values))):
        raise RestrictedValues(benchmark.path, acting)
    if benchmark.path is None:
        return with_workspace_root(benchmark, config)
    config = _confine_recordings(benchmark.path, config, {file for value in acting for file in value.files})
    leads = {str(Path(file.base, file.name)): file.resolved for file in finder.data}
    return with_workspace_root(benchmark, config, leads)


def _confine_recordings(path: Path, config: VerificationConfig, trusted: Iterable[NamedFile]) -> VerificationConfig:
    """Return the configuration with the benchmark's recordings confined to its folder, or to that of a file in
    `trusted`. The folders are stored in `files_within`, so that links created later cannot lead out of them.
    """
    outside = {str(Path(file.base, file.name)): Path(file.resolved).parent for file in trusted}
    changed: dict[str, Any] = {}

    def confine(model: ModelConfig) -> ModelConfig:
        """Return the model with its recordings, if it has any, restricted to their folder."""
        if not isinstance(traces := model.manual_traces, Path):
            return model
        return model.model_copy(update={"files_within": outside.get(str(traces.absolute()), path.absolute().parent)})

    for name in config.benchmark_names & model_settings().keys():
        changed[name] = map_models(config.setting(name), confine)
    return config.with_values(**changed).with_benchmark_names(config.benchmark_names) if changed else config


def require_trust(
    benchmark: QuestionSource, config: VerificationConfig, trust: Trust | Literal["all"] | None
) -> tuple[Trust, VerificationConfig]:
    """Return what the user trusts, and the configuration to use. Raises `RestrictedValues` if the benchmark contains
    restricted values that the user does not trust. See `resolve_trust` and `check_restricted_values`.
    """
    resolved = resolve_trust(trust)
    return resolved, check_restricted_values(benchmark, config, resolved)


def resolve_trust(trust: Trust | Literal["all"] | None) -> Trust:
    """Return the trust for the `trust` argument of a run: everything for "all", and the user's stored trust for
    None.
    """
    if trust is None:
        return load_trust()
    return Trust.all() if trust == "all" else trust


def _takes_effect(value: RestrictedValue, config: VerificationConfig) -> bool:
    """Return whether the value takes effect, because the user's own configuration does not replace it."""
    if value.setting is None:
        return True
    return value.setting in config.benchmark_names or (value.yields and config.setting(value.setting) is None)


def check_paths(file: Path, names: Sequence[str], trust: Trust | None) -> bool | None:
    """Return True if the user trusts all files in `names` that are outside the folder of `file`, or None if there are
    none, in which case the caller must not open any file outside the folder. Raises `RestrictedValues` if one of them
    is not trusted. `trust` defaults to the stored trust.
    """
    values = paths_outside(file, names)
    if not values:
        return None
    chosen = trust if trust is not None else load_trust()
    if not (trusts_values(chosen, file, names_and_values(values))):
        raise RestrictedValues(file, values)
    return True


def paths_outside(file: Path, names: Iterable[str]) -> list[RestrictedValue]:
    """Return the question files in `names` that are outside the folder of `file`, as restricted values. Links are
    resolved, and duplicates are removed.
    """
    meaning = "The file is read, and its content becomes questions"
    return [
        RestrictedValue(
            "questions_from.file", _json(name), _json(name), meaning, files=tuple(find_data(file.parent, name))
        )
        for name in dict.fromkeys(names)
        if not stays_below(file.parent, name)
    ]


def names_and_values(values: Iterable[RestrictedValue]) -> list[tuple[str, str]]:
    """Return the names and values that need to be trusted, including the identities of the files that values name."""
    restricted = list(values)
    of_files = [pair for value in restricted for file in value.files for pair in file.identity()]
    return [*((value.name, value.value) for value in restricted), *of_files]


def find_restricted_values(benchmark: QuestionSource) -> list[RestrictedValue]:
    """Return all restricted values in the benchmark, without duplicates, in the order in which they were found. This
    includes values that would have no effect.
    """
    return list(_search(benchmark).found.values())


def describe_named_files(benchmark: QuestionSource, config: VerificationConfig) -> dict[str, Any]:
    """Return the files and settings named in a benchmark, as JSON-compatible data, so that `karenina resume` can
    compare them with the earlier run. Without a file, the result is empty.

    `files` contains the benchmark, its data files, and the programs named by values that take effect. `paths` is a
    digest of the trusted question files outside the benchmark's folder, or None. `benchmark_names` contains the
    settings from the benchmark's `config` section.
    """
    path = benchmark.path
    if path is None:
        return {}
    finder = _search(benchmark)
    outside = paths_outside(path, benchmark.named_files)
    files = [*find_data(path.parent, path.name), *finder.data]
    files += [file for name in benchmark.named_files for file in find_data(path.parent, name)]
    files = [file if file.inside else file.with_digest() for file in files]
    acting = [value for value in finder.found.values() if _takes_effect(value, config)]
    files += [file for value in acting for file in value.files if file.program]
    return {
        "files": [file.to_json() for file in dict.fromkeys(files)],
        "paths": digest_of_values(path, names_and_values(outside)) if outside else None,
        "benchmark_names": sorted(config.benchmark_names),
    }


def _search(benchmark: QuestionSource) -> _Finder:
    """Examine the whole benchmark, and return the finder with the results. Without a file, the values come from the
    program itself, so only templates are examined.
    """
    finder = _Finder(benchmark.path.parent if benchmark.path is not None else Path())
    if benchmark.path is not None:
        finder.config(benchmark.run_config)
        finder.rubric(benchmark.global_rubric, ())
        finder.rubric(benchmark.dynamic_rubric, ())
        if benchmark.workspace_root is not None and benchmark.workspace_root == benchmark.workspace_root_in_file:
            finder.root(str(benchmark.workspace_root))
    for question in _questions_to_check(benchmark):
        if benchmark.path is not None:
            finder.rubric(question.rubric, (question.id,))
            finder.rubric(question.dynamic_rubric, (question.id,))
            finder.owned(question)
            finder.attached(question)
        finder.template(question)
    return finder


class _Finder:
    """Collects restricted values, and the data files that they name.

    Equal values from several questions are merged. `found` contains the restricted values by name and value.
    """

    def __init__(self, folder: Path) -> None:
        self.found: dict[tuple[str, str], RestrictedValue] = {}
        self.data: list[NamedFile] = []
        self._folder = folder
        self._root: str | None = None
        self._plugins = plugin_room.active_plugins()
        self._slots = all_settings()
        self._owned_fields = OwnedFields(self._plugins)
        self._primitives = _restricting_primitives()

    def config(self, values: Mapping[str, Any]) -> None:
        """Add the restricted values in the `config` section of a file. Unknown settings are ignored because they are
        reported elsewhere.
        """
        for name, value in flatten_settings(values).items():
            setting = self._slots.get(name)
            if setting is None:
                continue
            if allowed_in_files(setting) == "models":
                for fields in models_in(value):
                    if isinstance(fields, Mapping):
                        self._model(fields, f"config.{name}, model {str(fields.get('id'))!r}", name, ())
            elif not self._is_free(setting.allowed_in_files, value, setting.default):
                self._add(setting.allowed_in_files, f"config.{name}", value, setting.meaning, name, ())

    def root(self, root: str) -> None:
        """Add a file's workspace root as a restricted value if it points outside the file's folder and a setting
        follows it.
        """
        self._root = str(self._folder.absolute() / root)
        following = [setting for setting in self._slots.values() if setting.follows == "workspace_root"]
        files = tuple(find_data(self._folder, root))
        self.data += files
        if following and not (files and files[0].inside):
            meaning, name = following[0].meaning, following[0].name
            restricted = RestrictedValue(
                "workspace_root", _json(root), _json(root), meaning, name, yields=True, files=files
            )
            self.found[(restricted.name, restricted.value)] = restricted

    def rubric(self, rubric: Rubric | None, places: tuple[str, ...]) -> None:
        """Add the restricted values among the parameters of a rubric's traits. `places` contains the id of the question
        with the rubric, if any.
        """
        for trait in rubric.traits if rubric is not None else ():
            self._fields(trait, f"trait {trait.name!r}", places)
            self._owned("trait_fields", trait.extra, f"trait {trait.name!r}, ", places)

    def owned(self, question: Question) -> None:
        """Examine the plugin values of a question and its template."""
        for kind, place, values in given_fields(question):
            if kind != "trait_fields":
                self._owned(kind, values, f"field {place!r}, " if place else "", (question.id,))

    def attached(self, question: Question) -> None:
        """Add the paths of a question's attachments that lead out of the benchmark's folder as restricted values, and
        the others to `data`.
        """
        for attachment in (attachment for attachments in files_by_message(question) for attachment in attachments):
            if not self._is_free("below", attachment.source, None):
                meaning = "A file that is sent to the model under test"
                self._add("below", "attachments", attachment.source, meaning, None, (question.id,))

    def _owned(self, kind: Kind, values: Mapping[str, object], where: str, places: tuple[str, ...]) -> None:
        """Add the restricted values among the plugin values of one kind, except those that no installed plugin owns and
        whose names contain a dot. Messages call a value `where` followed by its name. `places` contains the question's
        id, if any.
        """
        models = self._owned_fields.models[kind]
        for name, value in values.items():
            if name in models or "." not in name:  # the name of a missing plugin is refused before the run
                self._owned_value(models.get(name), name, value, where + name, places)

    def _owned_value(
        self, kind: type[BaseModel] | None, name: str, value: object, where: str, places: tuple[str, ...]
    ) -> None:
        """Add a plugin value if it is restricted, as it is if no installed plugin owns the field (`kind` is None).
        `where` is what messages call the value, and `places` contains the question's id, if any.

        `kind` is the model that declares the field.
        """
        field = name.rpartition(".")[2]
        mark = (mark_of(kind, field) if kind is not None else None) or "never"
        info = kind.model_fields[field] if kind is not None else None
        if not self._is_free(mark, value, _default_of(info)):
            meaning = (info.description if info is not None else None) or ""
            self._add(mark, where, value, meaning, None, places, in_root=_paths_in_root(kind, field, value))

    def template(self, question: Question) -> None:
        """Add the restricted parameters of the primitives in a template. The template's code is trusted separately."""
        source = question.answer_template
        if question.answer_class is not None or source is None or not self._primitives:
            return
        text = source if source.isascii() else unicodedata.normalize("NFKC", source)
        if not any(name in text for name in self._primitives):
            return
        for primitive in primitives_in(source):  # malformed sources and code are refused elsewhere
            self._fields(primitive, primitive.full_name(), (question.id,))

    def _fields(self, data: BaseModel, where: str, places: tuple[str, ...]) -> None:
        """Add the restricted values among the fields of a trait or primitive, including any models in these fields.
        `where` is what messages call the trait or primitive. `places` contains the question's id, if any.
        """
        kind = type(data)
        for name in _restricted_fields(kind):
            value = getattr(data, name)
            info = kind.model_fields[name]
            mark = mark_of(kind, name) or "never"
            if mark == "models" and isinstance(value, Mapping):
                self._model({"id": where, **value}, f"{where}, {name}", None, places)
            elif not self._is_free(mark, value, _default_of(info)):
                self._add(mark, f"{where}, {name}", value, info.description or "", None, places)

    def _model(self, fields: Mapping[str, Any], where: str, setting: str | None, places: tuple[str, ...]) -> None:
        """Add the restricted values among the fields of a model, including its interface unless its adapter is allowed
        in files or not installed. `where` is what messages call the model. `setting` is the setting that contains it,
        if any, and `places` contains the question's id, if any.
        """
        spec = self._adapter(fields.get("interface"))
        more = _restricted_by(spec, fields)
        for name, value in fields.items():
            info = ModelConfig.model_fields.get(name)
            if info is None or (name == "interface" and (spec is None or spec.allowed_in_files)):
                continue
            if name == "extra" and isinstance(value, Mapping):
                self._extra(spec, value, f"{where}, extra", setting, places)
                continue
            mark = "never" if name in more else mark_of(ModelConfig, name) or "never"
            if not self._is_free(mark, value, _default_of(info)):
                secret = SECRECY.get(name) == "key"
                self._add(mark, f"{where}, {name}", value, info.description or "", setting, places, secret=secret)

    def _extra(
        self,
        spec: AdapterSpec | None,
        values: Mapping[str, Any],
        where: str,
        setting: str | None,
        places: tuple[str, ...],
    ) -> None:
        """Add the restricted values among the settings for a model's adapter (`extra`), ignoring unknown names. If the
        adapter is not installed or does not declare its settings, all of them are restricted. `where` precedes their
        names, and `setting` and the questions in `places` contain the model.
        """
        kind = spec.extra if spec is not None else None
        for name, value in values.items():
            info = kind.model_fields.get(name) if kind is not None else None
            if kind is not None and info is None:
                continue  # the adapter refuses unknown names
            mark = (mark_of(kind, name) if kind is not None else None) or "never"
            if not self._is_free(mark, value, _default_of(info)):
                meaning = (info.description if info is not None else None) or "An adapter setting"
                secret = name in ("headers", "query")
                self._add(mark, f"{where}.{name}", {name: value} if secret else value, meaning, setting, places)

    def _adapter(self, interface: object) -> AdapterSpec | None:
        """Return the specification of the adapter for an interface, or None if there is no such adapter."""
        try:
            return find_adapter(self._plugins, str(interface)).spec
        except PluginError:
            return None

    def _is_free(self, mark: AllowedInFiles, value: object, default: object) -> bool:
        """Return whether a file may set `value` without the user's trust. The default, None, `[]` and `{}` are always
        allowed. Other values are allowed if `mark` is `any`, one plain name if it is `name`, and files in the
        benchmark's folder if it is `below`; those found are added to `data` even if others are not allowed.
        """
        if mark == "any" or value is None or value == {} or value == [] or _json(value) == _json(default):
            return True
        if mark == "below":
            self.data += self._data_in(value)
            texts = list(_strings_in(value))
            files = [file for text in texts for file in find_data(self._folder, text)]
            return len(files) == len(texts) and all(file.inside for file in files)
        return mark == "name" and isinstance(value, str) and is_plain_name(value)

    def _data_in(self, value: object) -> list[NamedFile]:
        """Return the data files that a value names. Missing files in lists and tables are ignored."""
        names = [name for name in _strings_in(value) if isinstance(value, str | Path) or _exists(self._folder, name)]
        return [file for name in names for file in find_data(self._folder, name)]

    def _add(
        self,
        mark: AllowedInFiles,
        name: str,
        value: object,
        meaning: str,
        setting: str | None,
        places: tuple[str, ...],
        *,
        secret: bool = False,
        in_root: Sequence[str] = (),
    ) -> None:
        """Add a restricted value to `found`. If the same value is already there under the same `name`, only add the
        question in `places` to it. Secrets are not shown. If `secret` is set, the whole value is hidden. `in_root`
        contains the paths in the value that are relative to the workspace root and may contain programs.
        """
        text = _json(value.get_secret_value() if isinstance(value, SecretStr) else value)
        shown = _HIDDEN if secret else _json(_without_secrets(value))
        files = self._data_in(value) if mark == "below" else [*find_programs(self._folder, _strings_in(value))]
        unread = []
        for path in in_root:
            if self._root is None:
                unread.append(f"{path} was not read, because the file sets no workspace_root")
                continue
            file = NamedFile.at(path, self._root, self._root, program=True)
            files.append(file.with_digest() if file.inside else file)
            if files[-1].digest is None:
                unread.append(f"{path} was not read: there is no such file or folder in {self._root}")
        restricted = RestrictedValue(
            name,
            text,
            shown,
            meaning,
            setting,
            places=places,
            files=tuple(dict.fromkeys(files)),
            unread=tuple(unread),
        )
        earlier = self.found.get((restricted.name, restricted.value))
        if earlier is None:
            self.found[(restricted.name, restricted.value)] = restricted
        elif places and places[0] not in earlier.places:
            self.found[(restricted.name, restricted.value)] = earlier._replace(places=(*earlier.places, *places))


def _default_of(info: FieldInfo | None) -> object:
    """Return the default of a field, or None if the field is required or unknown."""
    return None if info is None or info.is_required() else info.get_default(call_default_factory=True)


def _paths_in_root(kind: type[BaseModel] | None, name: str, value: object) -> list[str]:
    """Return the paths in a field's value that its model, `kind`, declares as relative to the workspace root. An
    invalid value, which is refused elsewhere, and a field without a model have none.

    Declare them with `json_schema_extra={"relative_to": "workspace_root"}`. Other texts than paths, such as patches,
    are left out.
    """
    try:
        return list(dict.fromkeys(_relative_to_root(kind.model_validate({name: value})))) if kind is not None else []
    except ValidationError:
        return []


def _relative_to_root(value: object) -> Iterator[str]:
    """Yield the paths in a value that are relative to the workspace root. Texts of several lines are no paths."""
    if isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            inner = getattr(value, name)
            if declared(info, "relative_to") != "workspace_root":
                yield from _relative_to_root(inner)
            elif isinstance(inner, str) and "\n" not in inner:
                yield inner
    elif isinstance(value, Mapping):
        yield from (path for inner in value.values() for path in _relative_to_root(inner))
    elif isinstance(value, list | tuple):
        yield from (path for inner in value for path in _relative_to_root(inner))


def _exists(folder: Path, name: str) -> bool:
    """Return whether the folder contains a file or link named `name`."""
    return "\0" not in name and os.path.lexists(folder / name)


def _strings_in(value: object) -> Iterator[str]:
    """Yield all strings and paths in a value as strings, including nested ones and keys of mappings."""
    if isinstance(value, str | Path):
        yield str(value)
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for part in pair for text in _strings_in(part))
    elif isinstance(value, Iterable):
        yield from (text for part in value for text in _strings_in(part))


def _restricted_by(spec: AdapterSpec | None, fields: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the fields that the adapter restricts for this model. Without an adapter, or if the model is
    invalid, there are none.
    """
    if spec is None or spec.restricts is None:
        return frozenset()
    try:
        return frozenset(spec.restricts(ModelConfig.model_validate({**fields, "extra": {}})))
    except ValidationError:
        return frozenset()


@cache
def _restricted_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of all fields that are not marked as `any`, in order. Fields without a mark are included."""
    return tuple(name for name in model.model_fields if mark_of(model, name) != "any")


def _restricting_primitives() -> frozenset[str]:
    """Return the class names of primitives with restricted parameters."""
    return frozenset(kind.__name__ for kind in primitive_kinds().values() if _restricted_fields(kind))


def _questions_to_check(benchmark: QuestionSource) -> Iterator[Question]:
    """Return the questions that may contain a restricted value. In a streamed file, only questions whose text mentions
    a restricted name are parsed.
    """
    owned = OwnedFields(plugin_room.active_plugins()).models
    fields = {
        "extra",
        "attachments",
        *third_parties(),
        *read_catalog()["trait_fields"].keys() - owned["trait_fields"].keys(),
    }
    kinds = {*trait_kinds().values(), *(model for models in owned.values() for model in models.values())}
    fields.update(name for kind in kinds for name in _restricted_fields(kind))
    return benchmark.questions_mentioning({*_restricting_primitives(), *fields})


def _json(value: object) -> str:
    """Return `value` as JSON with sorted keys. Values that JSON does not support are converted with `str`."""
    return json.dumps(to_jsonable_python(value, fallback=str), sort_keys=True)


def _without_secrets(value: object) -> object:
    """Return `value` with every value of its tables `headers` and `query`, at any depth, replaced by a placeholder,
    because any of them may be a secret. A string that refers to a variable with `${` remains.
    """
    if not isinstance(value, Mapping):
        return value
    return {
        key: _hide_values(inner) if key in ("headers", "query") else _without_secrets(inner)
        for key, inner in value.items()
    }


def _hide_values(values: object) -> object:
    """Return a table with its values hidden, except for strings that contain `${`. A value that is not a table is
    hidden entirely.
    """
    if not isinstance(values, Mapping):
        return _HIDDEN
    return {name: text if isinstance(text, str) and "${" in text else _HIDDEN for name, text in values.items()}
