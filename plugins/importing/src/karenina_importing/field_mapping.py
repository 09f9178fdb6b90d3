r"""The mapping from the values in a row to a question, and its file, which users can edit.

In a path such as `doc.question` or `output.choices.0.message.content`, a number selects an item of a list (negative
numbers count from the end). A name that is applied to a list selects that value in each item. Keys that contain dots
can be written as they are. In a path with braces, such as `{doc.passage} {doc.q}`, the values at other paths are filled
in, and `\n` is a newline. Paths separated by bars, `A|B|C`, are the options of a question in separate columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.document import Section
from karenina_benchmark.errors import BenchmarkFileError, Problems, read_text, suggest_key
from karenina_benchmark.tables.lettered_options import CHOICE_BY, parse_list
from karenina_benchmark.tables.message_texts import NotText, as_text, is_conversation
from karenina_benchmark.tables.question_rows import context_text
from karenina_benchmark.yaml_files import dump, parse
from karenina_core.errors import ConfigError
from karenina_core.plugins import active_plugins
from karenina_template.templates.primitives import missing_pack, primitives_by_field_type
from karenina_toolkit import traces

NAMES: Final = {
    "question": "the question's text, or the messages of its prompt",
    "raw_answer": "the correct answer; each item of a list is correct on its own",
    "id": "the id of the question; without an id, rows with the same question count as one question",
    "keywords": "a keyword, or a list of keywords",
    "choices": "the options of a multiple-choice question, which are added to its text",
    "response": "a model's answer, for --recordings; each item of a list is an answer",
    "model": "the model that answered",
    "replicate": "the number of the answer, from 1, if a model answered more than once",
    "finish_reason": "why the model's answer ended, such as length, as the server stated it",
    "error": "why there is no answer; a row with an error gets no recording",
    "label": "a person's verdict on the answer, such as correct or incorrect, for --labels",
    "labeller": "who gave the verdict",
}
"""The names that paths can be mapped to, with their meanings."""
AUTO: Final = "auto"
"""The answer type for which the kind is detected from all correct answers together."""
GRADED: Final = "graded"
"""The answer type for sentences and the like, which a judge compares with the response by means of a trait."""
_NONE: Final = "none"
ANSWER_TYPES: Final = (AUTO, "text", "number", "integer", "boolean", "date", "choice", GRADED)
_VERSION: Final = 1
_OPTIONS: Final = ("answer", "answer_pattern", "choice_by")
_HEAD: Final = "karenina_import"
_METADATA: Final = "metadata"
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")


def _is_read(answer_type: str) -> bool:
    """Return whether a primitive reads the answer type from text, as for quantity."""
    active_plugins()  # which may add primitives
    return answer_type in primitives_by_field_type()


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """Maps the values in a row to a question, and defines how the correct answer becomes a template.

    `paths` are keyed by the names in `NAMES`. If there are several, the first one that has a value is used. `metadata`
    maps keys of a question's metadata to paths. `answer` is one of `ANSWER_TYPES`, or declared fields as in a
    benchmark, in which `{column: NAME}` stands for a mapped value. If it is None, questions have no template.
    `answer_pattern` is a regular expression that finds the ground truth in a longer answer. The ground truth is its
    first group, or the whole match if there are no groups. `choice_by` says how the correct option is specified, if
    this is ambiguous. `given` contains the names that the user has mapped. Each of them must have a value in at least
    one row.
    """

    paths: Mapping[str, tuple[str, ...]]
    metadata: Mapping[str, str] = field(default_factory=dict)
    answer: str | Mapping[str, Any] | None = AUTO
    answer_pattern: str | None = None
    choice_by: str | None = None
    given: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raise `ConfigError` if `paths`, `answer`, `choice_by` or `answer_pattern` is invalid."""
        given: Mapping[str, object] = self.paths  # plugins may not be type-checked
        for name, paths in given.items():
            if name not in NAMES:
                cure = suggest_key(name, NAMES, f"choose one of {', '.join(NAMES)}")
                raise ConfigError([f"unknown name {name!r} in the paths of the mapping; {cure}"])
            if isinstance(paths, str):
                raise ConfigError([f"the paths of {name!r} must be a tuple, such as ({paths!r},), not {paths!r}"])
        if isinstance(self.answer, str) and self.answer not in ANSWER_TYPES and not _is_read(self.answer):
            types = (*ANSWER_TYPES, *primitives_by_field_type())
            missing = missing_pack(self.answer)
            cure = missing or suggest_key(self.answer, types, f"choose one of {', '.join(dict.fromkeys(types))}")
            raise ConfigError([f"unknown answer type {self.answer!r} in the mapping; {cure}"])
        if self.choice_by is not None and self.choice_by not in CHOICE_BY:
            raise ConfigError([f"choice_by must be one of {', '.join(CHOICE_BY)}, not {self.choice_by!r}"])
        if self.answer_pattern is not None:
            from karenina_toolkit.patterns import check_pattern

            try:
                check_pattern(self.answer_pattern)
            except ValueError as error:
                raise ConfigError([f"answer_pattern: {error}"]) from error

    def of(self, name: str) -> tuple[str, ...]:
        """Return the paths for `name`, or an empty tuple if it is not mapped."""
        return self.paths.get(name, ())

    @property
    def mixes_options(self) -> bool:
        """Whether one of the columns of options is that of the correct answer, so that their order gives it away."""
        truth, choices = self.of("raw_answer"), self.of("choices")
        return len(truth) == 1 and len(choices) == 1 and "|" in choices[0] and truth[0] in choices[0].split("|")

    def changed(self, changes: Iterable[str]) -> FieldMapping:
        """Return a copy with changes of the form `NAME=PATH`. An empty path removes the mapping for the name. For
        `answer` (`none` for no template), `answer_pattern` and `choice_by`, PATH is the value. Raises `ConfigError` if
        a change has another form, an unknown name or an invalid value, or if a name is changed twice.
        """
        mapping, seen = self, set[str]()
        for change in changes:
            name, sign, path = change.partition("=")
            if not sign:
                raise ConfigError(
                    [f"--map must have the form NAME=PATH, such as question=doc.question, not {change!r}"]
                )
            if name.strip() in seen:
                raise ConfigError([f"--map {name.strip()} was given more than once; keep only one"])
            seen.add(name.strip())
            mapping = mapping._changed_one(name.strip(), path.strip())
        return mapping

    def _changed_one(self, name: str, path: str) -> FieldMapping:
        """Return a copy of the mapping with `path` for `name`, or without the name if `path` is empty. Raises
        `ConfigError` if the name is unknown or the value is invalid.
        """
        if name == "answer":
            return replace(self, answer=None if path in ("", _NONE) else path)
        if name == "answer_pattern":
            return replace(self, answer_pattern=path or None)
        if name == "choice_by":
            return replace(self, choice_by=path or None)
        if name.startswith(f"{_METADATA}."):
            key = name.removeprefix(f"{_METADATA}.")
            others = {other: old for other, old in self.metadata.items() if other != key}
            return replace(self, metadata={**others, **({key: path} if path else {})}, given=self._given(name, path))
        if name not in NAMES:
            names = [*NAMES, *_OPTIONS, f"{_METADATA}.KEY"]
            cure = suggest_key(name, names, f"choose one of {', '.join(names)}")
            raise ConfigError([f"--map: unknown name {name!r}; {cure}"])
        paths = {**self.paths, name: (path,) if path else ()}
        return replace(self, paths=paths, given=self._given(name, path))

    def _given(self, name: str, path: str) -> frozenset[str]:
        """Return the names that the user has mapped after mapping `name` to `path`. An empty path removes `name`."""
        return self.given | {name} if path else self.given - {name}

    def to_yaml(self, format: str) -> str:
        """Return the mapping for a format as YAML with comments, which `read_mapping` can read."""
        lines = [
            "# The mapping of `karenina import`: paths to values of a row. Edit it, and import again with --map-file.\n"
            "# In a list of paths, the first with a value is used; {a} and {b.c} in a path are replaced by values.\n",
            dump({_HEAD: _VERSION, "format": format}),
        ]
        for name, meaning in NAMES.items():
            paths = list(self.of(name))
            value: Any = paths[0] if len(paths) == 1 else paths or None
            lines.append(f"# {meaning}\n{dump({name: value})}")
        lines.append(f"# key: path\n{dump({_METADATA: dict(self.metadata) or None})}")
        types = ", ".join((*ANSWER_TYPES, _NONE))
        lines.append(f"# {types}, or fields as in a benchmark, with {{column: raw_answer}} as the ground truth\n")
        answer = (self.answer or _NONE) if isinstance(self.answer, str | None) else dict(self.answer)
        lines.append(dump({"answer": answer}))
        pattern = dump({"answer_pattern": self.answer_pattern})
        lines.append(f"# a regular expression that finds the ground truth in a longer answer\n{pattern}")
        lines.append(
            f"# how the correct option is specified: {', '.join(CHOICE_BY)}\n{dump({'choice_by': self.choice_by})}"
        )
        return "".join(lines)


def read_mapping(path: Path) -> tuple[str, FieldMapping]:
    """Read the format and the mapping from a mapping file. Raises `BenchmarkFileError`, with the line, if the file is
    invalid.
    """
    problems = Problems()
    top = parse(read_text(path), path, problems)
    problems.attempt(top.check_keys, (_HEAD, "format", *NAMES, _METADATA, *_OPTIONS))
    problems.raise_all()
    if top.value.get(_HEAD) != _VERSION:
        raise top.error(
            f"the file is not a mapping because `{_HEAD}: {_VERSION}` is missing", "add it at the top", _HEAD
        )
    format = top.text("format")
    if not format:
        raise top.error("the mapping has no format", "add `format: ...`, such as `format: lm-eval`", "format")
    metadata = top.section(_METADATA)
    try:
        mapping = FieldMapping(
            paths={name: tuple(top.texts(name)) for name in NAMES},
            metadata={key: metadata.text(key) or key for key in metadata.value} if metadata is not None else {},
            answer=_read_answer(top),
            answer_pattern=top.text("answer_pattern"),
            choice_by=top.text("choice_by"),
        )
    except ConfigError as error:
        raise BenchmarkFileError(path, "", "; ".join(error.problems), "") from error
    return format, mapping


def _read_answer(top: Section) -> str | Mapping[str, Any] | None:
    """Return the answer type or the declared fields. The default is `auto`, and `none` gives None."""
    if isinstance(top.value.get("answer"), Mapping):
        section = top.section("answer")
        return dict(section.value) if section is not None else None
    if "answer" not in top.value:
        return AUTO
    kind = top.text("answer")
    return None if kind == _NONE else kind


class _Truncated:
    """The type of `TRUNCATED`, which marks a cell that the source has truncated."""

    def __repr__(self) -> str:
        return "a truncated value"


TRUNCATED: Final = _Truncated()


def as_response(value: Any) -> Any:
    """Convert a value to a recorded answer, which is a string or an unchanged conversation. A single message becomes
    its content, and any other object becomes JSON. Raises `NotText` for null, for media, and for conversations that
    cannot be recorded.
    """
    if is_conversation(value) or (
        isinstance(value, Mapping) and not {"content", "role"} <= value.keys() and traces.is_conversation(value)
    ):
        try:
            traces.convert_recording(value)
        except traces.TraceFormatError as error:
            raise NotText(f"the conversation cannot be recorded: {error}") from error
        return value
    if isinstance(value, Mapping):
        return as_text(
            value["content"] if {"content", "role"} <= value.keys() else json.dumps(value, ensure_ascii=False)
        )
    return as_text(value)


class _Missing:
    """The type of `MISSING`, which stands for a path that does not exist in a row."""


MISSING: Final = _Missing()


def find_first(values: Mapping[str, Any], paths: Iterable[str]) -> Any:
    """Return the first value at any of the paths, or None. Null and "" are skipped. Raises `NotText` if a placeholder's
    value is not text, or if the source has truncated a value.
    """
    for path in paths:
        value = _fill(values, path) if _PLACEHOLDER.search(path) else _find(values, path)
        if value is TRUNCATED:
            raise NotText(f"{path} was truncated by the server")
        if value is not MISSING and value is not None and value != "":
            return value
    return None


def _find(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path without placeholders, or `MISSING`. Paths separated by bars give a list of their
    values, the options, without empty ones at the end. Raises `NotText` if an option is empty but a later one is not.
    """
    if "|" not in path or path in values:
        return look_up(values, path)
    options = [look_up(values, option) for option in path.split("|")]
    texts = [None if option in (MISSING, "") else option for option in options]
    while texts and texts[-1] is None:
        texts.pop()
    if None in texts:
        raise NotText(f"the option {path.split('|')[texts.index(None)]} is empty, but a later option is not")
    return texts or MISSING


def look_up(values: Any, path: str) -> Any:
    """Return the value at a path without placeholders or bars, or `MISSING`."""
    return _descend(values, path.split("."))


def _descend(value: Any, parts: Sequence[str]) -> Any:
    """Return the value at the remaining `parts` of a path, or `MISSING`. In a list, a number selects an item, and any
    other name the value with that name from every item (`MISSING` if there are no items or one lacks it).
    """
    if not parts:
        return value
    if isinstance(value, Mapping):
        for end in range(1, len(parts) + 1):
            key = ".".join(parts[:end])
            if key in value:
                return _descend(value[key], parts[end:])
        return MISSING
    if isinstance(value, list):
        if not _INDEX.fullmatch(parts[0]):
            items = [_descend(item, parts) for item in value]
            return items if items and all(item is not MISSING for item in items) else MISSING
        index = int(parts[0])
        return _descend(value[index], parts[1:]) if -len(value) <= index < len(value) else MISSING
    return value if value is TRUNCATED else MISSING


def _fill(values: Mapping[str, Any], path: str) -> Any:
    """Fill in the placeholders of a path. Returns `MISSING` if the row lacks a value, and `TRUNCATED` if a value is
    truncated. If a value is empty, no blank lines remain at the beginning or end.
    """
    replacements = {name: look_up(values, name.strip()) for name in _PLACEHOLDER.findall(path)}
    if any(value is TRUNCATED for value in replacements.values()):
        return TRUNCATED
    if any(value is MISSING or value is None for value in replacements.values()):
        return MISSING
    texts = {name: _text(value) for name, value in replacements.items()}
    filled = _PLACEHOLDER.sub(lambda match: texts[match[1]], path.replace("\\n", "\n"))
    return filled if all(texts.values()) else filled.strip()


def _text(value: Any) -> str:
    """Return a value as a string to fill in. The items of a list of contexts are joined, even if the list is in a
    string.
    """
    if isinstance(value, list) and not is_conversation(value):
        text = context_text(value)
        if text:
            return text
    return context_text(value) if isinstance(value, str) and parse_list(value) else as_text(value)
