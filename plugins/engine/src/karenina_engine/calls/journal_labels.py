"""Labels that describe a journal's run: its models, settings and files.

Labels are only displayed. Nothing is ever started because of a label.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from pydantic import Field, ValidationError

from karenina_core.errors import ConfigError
from karenina_core.models.model import ModelConfig
from karenina_engine.model_settings import model_settings, models_in

_OF_A_LABEL: Final = (
    *("id", "interface", "model_name", "model_provider", "temperature", "max_tokens", "system_prompt"),
    "agent_max_turns",
)
"""The model fields that are read from a journal."""
_OF_A_LINE: Final = (*_OF_A_LABEL, "endpoint_base_url", "request_timeout", "agent_timeout")
_SIMPLE: Final = frozenset({"id", "interface", "model_name", "endpoint_base_url"})
_LONGEST: Final = 2000
"""The maximum length of an argument in a displayed command."""
_MOST_QUESTIONS: Final = 20


class ModelLabel(ModelConfig):
    """A model named in a journal.

    It is used to look up stored replies, never to make calls. Its adapter, URL, tools and files are not used.
    `conversations` lists the question and replicate of each answer that the model gave as an agent.
    """

    conversations: set[tuple[str, int]] = Field(default_factory=set, exclude=True, repr=False)


@dataclass(frozen=True, slots=True)
class JournalLabels:
    """The labels of a journal's last run.

    They are not trusted, because the journal may come from someone else. `questions` is None if the run included all of
    the benchmark's questions. `model_entries` contains the models in each setting.
    """

    benchmark: str | None = None
    output: str | None = None
    questions: Sequence[str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    model_entries: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, command: Mapping[str, Any]) -> JournalLabels:
        """Read the names of the benchmark and output files, without their folders, and the questions, settings, models
        and columns from a stored command. Values of the wrong type are ignored.
        """
        config = command.get("config")
        values = config if isinstance(config, dict) else {}
        questions = command.get("questions")
        holding = model_settings()
        return cls(
            _name(command.get("benchmark")),
            _name(command.get("output")),
            [question for question in questions if isinstance(question, str)] if isinstance(questions, list) else None,
            {name: value for name, value in values.items() if name not in holding},
            {name: _entries(values.get(name)) for name in holding},
            _string_entries(command.get("columns")),
        )

    def free_settings(self) -> tuple[dict[str, Any], list[str]]:
        """Return those of `settings` that any file may set, and the names of the others."""
        from karenina_core.config import all_settings

        owned = all_settings()
        free = {
            name: self.settings[name]
            for name in self.settings
            if name in owned and owned[name].allowed_in_files == "any"
        }
        return free, [name for name in self.settings if name not in free]

    @property
    def judges(self) -> Sequence[Mapping[str, Any]]:
        """The entries of the judges."""
        return self.model_entries.get("parsing_models", ())

    def models(self) -> dict[str, list[ModelLabel] | ModelLabel]:
        """Return labels of the models in each setting, without URLs, keys or files: a list for a setting that takes
        several models. A setting for one model is left out if it has none. Raises `ConfigError` if a model cannot be
        read.
        """
        labels = {name: [_label(entry) for entry in entries] for name, entries in self.model_entries.items()}
        several = {name for name, setting in model_settings().items() if setting.several}
        return {
            name: models if name in several else models[0]
            for name, models in labels.items()
            if models or name in several
        }


def make_run_line(labels: JournalLabels, journal: Path) -> str:
    """Return the `karenina run` command for a journal, for display: on one line, with a second line that lists what
    does not fit into the command.

    If the benchmark's name is unknown, BENCHMARK is used instead. Long selections of questions are among what does not
    fit. The second line has at most 500 characters. Arguments longer than `_LONGEST` are shown as "...".
    """
    words = ["karenina", "run", plain_name(labels.benchmark) or "BENCHMARK"]
    left_out: list[str] = []
    for name, setting in model_settings().items():
        option = setting.shortest_option
        entries = labels.model_entries.get(name, ())
        if option is None and entries:
            left_out.append(name)
            continue
        for entry in entries:
            words += [str(option), _model_argument(entry)]
            left_out += [f"{field} of {entry.get('id')}" for field in entry if field not in _OF_A_LINE]
    for name, column in labels.columns.items():
        words += ["--columns", f"{name}={column}"]
    free, others = labels.free_settings()
    for name, value in free.items():
        words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    questions = labels.questions or ()
    if len(questions) <= _MOST_QUESTIONS:
        words += [word for id in questions for word in ("-q", id)]
    else:
        left_out.append(f"the selection of {len(questions)} questions (-q)")
    if labels.output is not None:
        words += ["-o", plain_name(labels.output)]
    words += ["--journal", str(journal)]
    long = [word for word in words if len(word) > _LONGEST]
    line = " ".join(shlex.quote(_on_one_line(word)) if word not in long else "..." for word in words)
    left_out += others
    note = f"\n(left out; add these if you need them: {', '.join(map(_on_one_line, left_out))[:500]})"
    return line + (note if left_out else "")


def _model_argument(entry: Mapping[str, Any]) -> str:
    """Return a model as an argument for `-a` or `-j`: in the short form (`INTERFACE:NAME@URL`) if possible, otherwise
    as JSON with only the fields in `_OF_A_LINE`.
    """
    shown = {name: entry[name] for name in _OF_A_LINE if name in entry}
    interface, name, url = (str(shown.get(part, "")) for part in ("interface", "model_name", "endpoint_base_url"))
    if shown.get("id") == name and not set(shown) - _SIMPLE:
        return f"{interface}:{name}{f'@{url}' if url else ''}"
    return json.dumps(shown)


def _label(entry: Mapping[str, Any]) -> ModelLabel:
    """Build the label for a model in a journal, without its URL, keys or files. Only the names of its MCP servers are
    kept. Raises `ConfigError` if the entry is not a valid model.
    """
    values = {name: entry[name] for name in _OF_A_LABEL if name in entry}
    servers = entry.get("mcp_urls_dict")
    if isinstance(servers, dict):
        values["mcp_urls_dict"] = {str(name): "(not taken from a journal)" for name in servers}
    try:
        return ModelLabel(**values)
    except ValidationError as error:
        raise ConfigError(
            [
                "cannot read the models of the run from the journal, which is damaged or was not written by Karenina; "
                "use a journal that `karenina run` wrote"
            ]
        ) from error


def _entries(value: Any) -> list[Mapping[str, Any]]:
    """Return the tables in `value`, which may be a list or a single table. Anything else in the list is ignored, and
    any other value yields an empty list.
    """
    return [entry for entry in models_in(value) if isinstance(entry, dict)]


def _string_entries(value: Any) -> dict[str, str]:
    """Return the string values of a table. Returns an empty dict if `value` is not a table."""
    columns = value if isinstance(value, dict) else {}
    return {str(name): column for name, column in columns.items() if isinstance(column, str)}


def _name(path: Any) -> str | None:
    """Return the last part of a path, or None if it does not name a file."""
    if not isinstance(path, str) or not path:
        return None
    return PureWindowsPath(PurePosixPath(path).name).name or None


def plain_name(name: str | None) -> str:
    """Return a file name in a form that no command mistakes for an option."""
    return f"./{name}" if name is not None and name.startswith("-") else name or ""


def _on_one_line(text: str) -> str:
    return "".join(ch if ch.isprintable() else " " for ch in text)
