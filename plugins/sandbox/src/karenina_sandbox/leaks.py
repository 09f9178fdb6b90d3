"""What an agent must not see, but can read in its workspace: hidden tests, the solution and ground truths.

Nothing is run. Files above `LARGEST`, those after the first `MOST_FILES` of a folder, and what `LEFT_OUT` names are not
read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from karenina_core.namespaces import read_owned
from karenina_sandbox.capture.folders import LEFT_OUT
from karenina_sandbox.diffs.applying import applied_changes
from karenina_sandbox.diffs.reading import DiffError
from karenina_sandbox.fields import CheckFields, is_diff
from karenina_sandbox.task_files import TaskFiles
from karenina_template.question_template import template_of
from karenina_template.templates.errors import TemplateError
from karenina_toolkit.files.safe_paths import open_file, resolve_links
from karenina_toolkit.files.workspace_copy import WorkspaceError, is_created_name

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig
    from karenina_core.data.trust import Trust

Message = tuple[Literal["error", "warning", "note"], str]

LARGEST: Final = 1_000_000
"""The maximum size of a file that is read."""
MOST_FILES: Final = 5_000
"""The maximum number of files that are read in a folder."""
_SHORTEST: Final = 4
"""The minimum length of a ground truth that is looked for."""
_SHOWN: Final = 3
_OUTPUTS: Final = ("output", "error_output")
_EVERYWHERE: Final = "__init__.py"
"""A name of files that are often the same."""


@dataclass(slots=True)
class LeakSearch:
    """A search in the workspaces of questions with checks.

    `unread` are the files that were not read, and `missing` the reasons why workspaces were not.
    """

    config: VerificationConfig
    trust: Trust
    unread: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def messages(self, questions: Collection[Question]) -> Iterator[tuple[Message, str]]:
        """Yield a warning for each hidden thing that agents can see in a workspace, and an error if a workspace cannot
        be read, each with the question's id. The reasons why questions have no workspace are added to `missing`. A
        workspace is read once for all its questions, and questions with invalid fields are skipped.
        """
        tasks: dict[Path, list[_Task]] = {}
        for question in questions:
            try:
                files = TaskFiles.find(self.config, question)
                task = _Task(question.id, files, read_owned(CheckFields, question.extra))
            except WorkspaceError as error:
                self.missing.append(str(error))
                continue
            except ValueError:  # reported by the check of the fields
                continue
            task.truths = _truths(question, self.trust)
            tasks.setdefault(files.source, []).append(task)
        for same in tasks.values():
            try:
                with same[0].files.opened() as files:
                    yield from self._look(files, same)
            except WorkspaceError as error:
                yield from ((("error", str(error)), task.id) for task in same)

    def _look(self, files: TaskFiles, tasks: list[_Task]) -> Iterator[tuple[Message, str]]:
        """Search the workspace that all `tasks` share, and yield messages with the question's id."""
        for task in tasks:
            task.files = files
            yield from ((message, task.id) for message in self._hide(task))
        for path, content in self._read(files, files.source):
            for task in tasks:
                task.look_at(path, content)
        for task in tasks:
            yield from ((message, task.id) for message in task.messages())

    def _hide(self, task: _Task) -> Iterator[Message]:
        """Record in the task what its question hides from agents. Yield an error for what is inside the workspace. The
        generator must be consumed, or nothing is recorded.
        """
        for name, check in task.fields.checks.items():
            if check.add is not None:
                yield from self._hide_path(task, check.add, f"the check {name!r} adds")
        if task.fields.solution is not None:
            yield from self._hide_path(task, task.fields.solution, "belongs to the solution")

    def _hide_path(self, task: _Task, path: str, why: str) -> Iterator[Message]:
        """Record in the task that agents must not see the files at a path, or the changes in a diff, for the reason
        `why`. Yields an error if a path in the workspace cannot be read; an invalid diff is left to the run to report.
        See `_hide`.
        """
        try:
            if not is_diff(path) and (found := task.files.beside(path)).is_dir():
                for inner, content in self._read(task.files, found):
                    task.hide(Path(inner).name, content, why)
                return
            diff = task.files.diff(path)
            if not is_diff(path):
                task.hide(Path(path).name, diff, why)
            for changed in applied_changes(diff, task.files.source):
                task.seen.setdefault(why, []).append(changed)
        except DiffError:
            return  # the run reports it
        except (WorkspaceError, OSError) as error:
            if not is_diff(path) and task.contains(path):
                yield "error", str(error)

    def _read(self, files: TaskFiles, folder: Path) -> Iterator[tuple[str, bytes]]:
        """Yield the relative path and the content of each file that a copy of the folder would contain. Links are
        followed within the workspace root. Files that cannot be read or are too large are added to `unread`.
        """
        waiting, visited, count = [(folder, "")], {folder}, 0
        while waiting:
            here, prefix = waiting.pop()
            for entry in _entries(here):
                path, real = prefix + entry.name, Path(entry.path)
                if entry.name in LEFT_OUT or is_created_name(entry.name):
                    continue
                try:
                    if entry.is_symlink() and not (real := resolve_links(real)).is_relative_to(files.root):
                        continue
                    if real.is_dir():
                        if real not in visited:
                            visited.add(real)
                            waiting.append((real, f"{path}/"))
                        continue
                    if not real.is_file():
                        continue
                    count += 1
                    if count > MOST_FILES or real.stat().st_size > LARGEST:
                        self.unread.append(f"{folder.name}/{path}")
                        continue
                    with open_file(files.root, real) as file:
                        content = file.read(LARGEST)
                except OSError:
                    self.unread.append(f"{folder.name}/{path}")
                    continue
                yield path, content


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name, or an empty list if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


@dataclass(slots=True)
class _Task:
    """What a question hides from agents, and what of it they can see.

    `hidden` maps the names of files to the reasons why they are hidden, by the digest of the content, and `truths` maps
    fields to texts. `seen` contains the paths of what agents see, by the reason why they should not.
    """

    id: str
    files: TaskFiles
    fields: CheckFields
    hidden: dict[str, dict[bytes, str]] = field(default_factory=dict)
    truths: dict[str, str] = field(default_factory=dict)
    seen: dict[str, list[str]] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)

    def contains(self, path: str) -> bool:
        """Return whether a path, relative to the workspace root, is inside the workspace after resolving its links."""
        try:
            return resolve_links(self.files.root / path).is_relative_to(self.files.source)
        except OSError:
            return False

    def hide(self, name: str, content: bytes, why: str) -> None:
        """Note that a file is hidden, unless it is one of those that are often the same."""
        if name != _EVERYWHERE and content.strip():
            self.hidden.setdefault(name, {}).setdefault(hashlib.sha256(content).digest(), why)

    def look_at(self, path: str, content: bytes) -> None:
        """Record a file of the workspace in `seen` if it should be hidden, in `told` if it contains a ground truth."""
        hidden = self.hidden.get(Path(path).name)
        why = hidden.get(hashlib.sha256(content).digest()) if hidden is not None else None
        if why is not None:
            self.seen.setdefault(why, []).append(path)
        if self.truths and b"\0" not in content:
            text = _plain(content.decode("utf-8", "replace"))
            for field_name, truth in self.truths.items():
                if _contains(text, _plain(truth)):
                    self.told.setdefault(field_name, []).append(path)

    def messages(self) -> Iterator[Message]:
        """Yield warnings about files and ground truths that agents see in the workspace but should not, with how to
        remove them.
        """
        for why, paths in self.seen.items():
            names = _name_some(list(dict.fromkeys(paths)))
            yield "warning", f"the agent sees {names} in the workspace, which {why}; remove it from the workspace"
        for name, paths in self.told.items():
            truth = f"the ground truth of field {name!r}, {self.truths[name]!r:.80},"
            yield "warning", f"the agent sees {truth} in {_name_some(paths)} of the workspace; remove it there"


def _truths(question: Question, trust: Trust) -> dict[str, str]:
    """Return the ground truths to look for in files, by field: outputs of checks, and texts that a judge looks for,
    except for truths that are short, are single words without digits, or occur in the question. A program may have to
    contain a single word. If the template cannot be loaded, there are none.
    """
    try:
        template = template_of(question, trust)
    except TemplateError:  # reported by the check of the template
        return {}
    asked, found = _plain(question.question), {}
    for name, rule in template.key.rules.items() if template is not None else ():
        truth, source = rule.truth, rule.source or ""
        if not (rule.is_judged or (source.startswith("checks.") and source.rpartition(".")[2] in _OUTPUTS)):
            continue
        text = truth.strip() if isinstance(truth, str) else ""
        if len(text) >= _SHORTEST and re.search(r"[\s\d]", text) and not _contains(asked, _plain(text)):
            found[name] = text
    return found


def _plain(text: str) -> str:
    """Return a text in a form in which truths are found: with plain line ends and in lower case."""
    return text.replace("\r\n", "\n").casefold()


def _contains(text: str, truth: str) -> bool:
    """Return whether a truth is in a text, and not only as a part of words."""
    return truth in text and re.search(rf"(?<!\w){re.escape(truth)}(?!\w)", text) is not None


def _name_some(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(ascii(path)[1:-1] for path in paths[:_SHOWN])}{more}"
