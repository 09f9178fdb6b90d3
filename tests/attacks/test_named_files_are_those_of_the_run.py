"""What a benchmark names is, when its run goes on, what it was when the user ran it.

Whoever can write a benchmark's folder can move a name to another file, put a link in the place of a file, or change a
program, after its user has trusted it. Each is tried against a run that is resumed, rescored and repeated: nothing
outside of the folder is read, and no program starts that the user has not trusted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from servers import RecordingServer, recording_server
from users import User

from karenina_benchmark import Benchmark
from karenina_benchmark.config.config_files import read_config_section
from karenina_core import VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.plugins import active_plugins
from karenina_engine.check.restricted_values import check_restricted_values, find_restricted_values, names_and_values
from karenina_engine.user_files import digest_of_values
from karenina_toolkit.files.workspace_copy import WorkspaceError, resolve_root
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from conftest import Environment, Wheels

SECRET = "SECRET-4711-OF-THE-USER"
ANSWER = {"gene": {"description": "The gene", "ground_truth": "BCL2"}}
QUESTION = {"id": "one", "question": "Which gene?", "answer": ANSWER}
ROWS = {"file": "rows.jsonl", "columns": {"id": "id", "question": "question"}, "answer": ANSWER}


def reply(body: Mapping[str, Any]) -> Any:
    """Return a model that says BCL2, and a judge that reads the file of its workspace first, if it has one."""
    if "response_format" in body:
        return json.dumps({"gene": "BCL2"})
    if "tools" in body and body["messages"][-1]["role"] != "tool":
        function = {"name": "read_file", "arguments": json.dumps({"path": "code.txt"})}
        return {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    return "It is BCL2."


@pytest.fixture(scope="module")
def shared_server() -> Iterator[RecordingServer]:
    with recording_server(reply) as found:
        yield found


@pytest.fixture
def server(shared_server: RecordingServer) -> RecordingServer:
    shared_server.seen.clear()
    return shared_server


@dataclass(frozen=True)
class Attack:
    """A benchmark in a folder, and a later change by whoever can write there.

    `settings` are those of the command line; without `answers` the command line names the answering model.
    """

    benchmark: Callable[[str], dict[str, Any]]
    change: Callable[[Path], None]
    settings: tuple[str, ...] = ()
    answers: bool = False
    plain: bool = False
    """Whether no program of the benchmark is started."""
    fails: bool = False
    """Whether no item of the run is judged, because its program is absent."""


def rows(folder: Path, name: str, text: str = "Which gene is it?") -> Path:
    file = folder / name
    file.write_text(json.dumps({"id": "row", "question": text, "response": text}) + "\n")
    return file


def link(place: Path, target: str) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(target)


def edit(folder: Path, old: str, new: str) -> None:
    file = folder / "genes.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def with_rows(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda _url: {"questions_from": {**ROWS, "file": name}}


def with_recordings(name: str) -> Callable[[str], dict[str, Any]]:
    model = {"id": "r", "interface": "manual", "model_name": "r", "manual_traces": name}
    return lambda _url: {"config": {"answering_models": [model]}, "questions": [{**QUESTION, "id": "row"}]}


def with_workspace(root: str) -> Callable[[str], dict[str, Any]]:
    question = {**QUESTION, "workspace_path": "task"}
    return lambda _url: {"workspace_root": root, "questions": [question]}


def with_program(command: str, **more: Any) -> Callable[[str], dict[str, Any]]:
    def made(url: str) -> dict[str, Any]:
        model = {"id": "p", "interface": "openai", "model_name": "p", "endpoint_base_url": url, **more}
        return {"config": {"answering_models": [{**model, "mcp_urls_dict": {"t": command}}]}, "questions": [QUESTION]}

    return made


def with_root_setting(_url: str) -> dict[str, Any]:
    return {"config": {"workspace_root": "root"}, "questions": [{**QUESTION, "workspace_path": "task"}]}


def program(folder: Path, name: str, marker: str) -> None:
    """Write a program that leaves a file behind, and is no MCP server."""
    (folder / name).write_text(f"import pathlib\npathlib.Path({str(folder.parent / marker)!r}).touch()\n")


def tool(folder: Path, marker: str) -> None:
    (folder / "tool").write_text(f"#!/bin/sh\ntouch '{folder.parent / marker}'\n")
    (folder / "tool").chmod(0o755)


AGENTIC = ("--set", "agentic_parsing=true")
ATTACKS = {
    "rows are moved": Attack(with_rows("rows.jsonl"), lambda folder: edit(folder, "rows.jsonl", "../secret.jsonl")),
    "rows become a link": Attack(
        with_rows("rows.jsonl"), lambda folder: link(folder / "rows.jsonl", "../secret.jsonl")
    ),
    "a folder of rows becomes a link": Attack(
        with_rows("more/rows.jsonl"), lambda folder: link(folder / "more", "../secrets")
    ),
    "rows outside are moved": Attack(
        with_rows("../rows.jsonl"), lambda folder: edit(folder, "../rows.jsonl", "../secret.jsonl")
    ),
    "rows outside become a link": Attack(
        with_rows("../rows.jsonl"), lambda folder: link(folder.parent / "rows.jsonl", "secret.jsonl")
    ),
    "a link to rows outside is turned": Attack(
        with_rows("link.jsonl"), lambda folder: link(folder / "link.jsonl", "../secret.jsonl")
    ),
    "recordings are moved": Attack(
        with_recordings("rows.jsonl"), lambda folder: edit(folder, "rows.jsonl", "../secret.jsonl"), answers=True
    ),
    "recordings become a link": Attack(
        with_recordings("rows.jsonl"), lambda folder: link(folder / "rows.jsonl", "../secret.jsonl"), answers=True
    ),
    "a link to recordings outside is turned": Attack(
        with_recordings("link.jsonl"),
        lambda folder: link(folder / "link.jsonl", "../secret.jsonl"),
        answers=True,
    ),
    "the root of workspaces is moved": Attack(
        with_workspace("root"), lambda folder: edit(folder, '"root"', '"../secrets"'), AGENTIC
    ),
    "the root of workspaces becomes a link": Attack(
        with_workspace("root"), lambda folder: link(folder / "root", "../secrets"), AGENTIC
    ),
    "a workspace becomes a link": Attack(
        with_workspace("root"), lambda folder: link(folder / "root/task", "../../secrets/task"), AGENTIC
    ),
    "a link to a root outside is turned": Attack(
        with_workspace("link"), lambda folder: link(folder / "link", "../secrets"), AGENTIC
    ),
    "the benchmark becomes a link": Attack(
        with_rows("rows.jsonl"), lambda folder: link(folder / "genes.yaml", "../secret.yaml")
    ),
    "the setting of a root becomes a link": Attack(
        with_root_setting, lambda folder: link(folder / "root", "../secrets"), AGENTIC
    ),
    "a program changes": Attack(with_program("./tool"), lambda folder: tool(folder, "started"), answers=True),
    "the script of an interpreter changes": Attack(
        with_program(f"{sys.executable} -I given/server.py"),
        lambda folder: program(folder, "server.py", "started"),
        answers=True,
    ),
    "the folder that an interpreter runs changes": Attack(
        with_program(f"{sys.executable} -I given/package"),
        lambda folder: program(folder, "package/__main__.py", "started"),
        answers=True,
    ),
    "the program of a nested command changes": Attack(
        with_program("sh -c 'exec given/tool; true'"), lambda folder: tool(folder, "started"), answers=True
    ),
    "the program of a command in code changes": Attack(
        with_program('sh -c "echo it\\\'s; given/tool"'), lambda folder: tool(folder, "started"), answers=True
    ),
    "an absent script appears": Attack(
        with_program(f"{sys.executable} -I given/later/late.py"),
        lambda folder: ((folder / "later").mkdir(), program(folder, "later/late.py", "started"))[1],
        answers=True,
        plain=True,
        fails=True,
    ),
    "a program becomes a link": Attack(
        with_program("./tool"),
        lambda folder: (tool(folder.parent, "../started"), link(folder / "tool", "../tool"))[1],
        answers=True,
    ),
}
PAIRS = [
    (name, command, trusted)
    for name in ATTACKS
    for command in ("resume", "rescore", "run")
    for trusted in ("all", "stored")
    if (command, trusted) != ("run", "all")  # --trust-all is given again, for what is there now
    if (command, name) != ("run", "the benchmark becomes a link")  # the user names it again
]


def started(user: User, server: RecordingServer, attack: Attack, trusted: str) -> tuple[Path, list[str | Path]]:
    """Run the benchmark before it is changed; return its folder and the command."""
    work, folder = user.folder, user.folder / "given"
    (folder / "root/task").mkdir(parents=True)
    (folder / "more").mkdir()
    for place, text in ((folder / "root/task", "BCL2"), (work / "secrets/task", SECRET), (work / "own/task", "BCL2")):
        place.mkdir(parents=True, exist_ok=True)
        (place / "code.txt").write_text(text)
    for place in (folder, folder / "more", work):
        rows(place, "rows.jsonl")
    rows(work, "secret.jsonl", SECRET)
    rows(work / "secrets", "rows.jsonl", SECRET)
    (folder / "link.jsonl").symlink_to("../rows.jsonl")
    (folder / "link").symlink_to("../own")
    tool(folder, "harmless")
    program(folder, "server.py", "harmless")
    (folder / "package").mkdir()
    program(folder, "package/__main__.py", "harmless")
    secret = {"karenina": 1, "name": "S", "questions": [{**QUESTION, "question": SECRET}]}
    (work / "secret.yaml").write_text(json.dumps(secret))
    (folder / "genes.yaml").write_text(json.dumps({"karenina": 1, "name": "G", **attack.benchmark(server.url)}))
    model = f"openai:m@{server.url}"
    command: list[str | Path] = ["run", "given/genes.yaml", "-j", model, "-o", "genes.jsonl", "--quiet"]
    command += [*([] if attack.answers else ["-a", model]), *attack.settings, "--set", "retry_server=0"]
    if trusted == "stored":
        while user.karenina(*command, "--dry-run").returncode == 2:
            assert user.karenina("trust", "given/genes.yaml", "--yes").returncode == 0
    done = user.karenina(*command, *(["--trust-all"] if trusted == "all" else []))
    if "mcp_urls_dict" in (folder / "genes.yaml").read_text() and not attack.plain:
        assert (work / "harmless").exists(), done.stderr
    else:
        assert done.returncode == (4 if attack.fails else 0), done.stderr
    if attack.settings == AGENTIC:
        assert "code.txt" in "".join(server.seen)
        assert "1 | BCL2" in "".join(server.seen) or "BCL2" in server.seen[-1]
    server.seen.clear()
    return folder, command


Started: TypeAlias = tuple[User, Path, list[str | Path]]
Start: TypeAlias = Callable[[str, str], Started]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, shared_server: RecordingServer) -> Start:
    """Return a function for the state after the run of an attack: each runs once, and its files are put back later."""
    known: dict[tuple[str, str], Started] = {}

    def given(name: str, trusted: str) -> Started:
        if (name, trusted) not in known:
            user = User.at(tmp_path_factory.mktemp("user"))
            known[name, trusted] = (user, *started(user, shared_server, ATTACKS[name], trusted))
            for place in (user.home, user.folder):
                shutil.copytree(place, place.with_name(f"{place.name} of then"), symlinks=True)
        else:
            user = known[name, trusted][0]
            for place in (user.home, user.folder):
                shutil.rmtree(place)
                shutil.copytree(place.with_name(f"{place.name} of then"), place, symlinks=True)
        return known[name, trusted]

    return given


def forget(journal: Path) -> None:
    """Take the results and replies out of a journal, so that everything is asked again."""
    database = sqlite3.connect(journal, isolation_level=None)
    database.execute("DELETE FROM results")
    database.execute("DELETE FROM replies")
    database.close()


@pytest.mark.parametrize(("name", "command", "trusted"), PAIRS)
def test_what_a_benchmark_names_is_not_exchanged(
    start: Start, server: RecordingServer, name: str, command: str, trusted: str
) -> None:
    attack = ATTACKS[name]
    user, folder, run = start(name, trusted)
    journal = user.folder / "genes.journal"
    if command != "rescore":
        forget(journal)
    (user.folder / "genes.jsonl").unlink(missing_ok=True)
    attack.change(folder)
    words = run if command == "run" else [command, journal]
    done = user.karenina(*words, *(["-o", "again.jsonl"] if command == "rescore" else []))

    outputs = [file for file in user.folder.glob("*.jsonl") if not file.name.startswith(("secret", "rows"))]
    written = "".join(file.read_text() for file in outputs)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode != 70, done.stderr
    assert SECRET not in "\n".join(server.seen), done.stderr
    assert SECRET not in written, done.stderr
    assert SECRET.encode() not in journal.read_bytes(), done.stderr
    assert not (user.folder / "started").exists(), done.stderr
    assert not list((user.folder / "secrets").glob("task_*"))


def exchange_folder(folder: Path) -> None:
    """Put a link in the place of the benchmark's folder, to one with another benchmark."""
    shutil.copytree(folder, folder.parent / "other", symlinks=True)
    link(folder, "other")
    edit(folder, "The gene", "A gene")


CHANGES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "the benchmark": (lambda folder: edit(folder, "The gene", "A gene"), ["the content of {0}/genes.yaml has changed"]),
    "a link to recordings": (
        lambda folder: link(folder / "link.jsonl", "../secret.jsonl"),
        ["link.jsonl was {1}/rows.jsonl and now points to {1}/secret.jsonl"],
    ),
    "the folder": (
        exchange_folder,
        ["{0} was {0} and now points to {1}/other", "the content of {0}/genes.yaml has changed"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_resume_says_what_has_changed(tmp_path: Path, server: RecordingServer, name: str) -> None:
    user = User.at(tmp_path / "user")
    folder, _ = started(user, server, ATTACKS["a link to recordings outside is turned"], "all")
    change, expected = CHANGES[name]
    change(folder)
    done = user.karenina("resume", user.folder / "genes.journal")

    assert [text.format(folder, folder.parent) in done.stderr for text in expected] == [True] * len(expected)


@pytest.mark.parametrize("trusted", ["all", "stored"])
@pytest.mark.parametrize(
    "name", ["rows outside are moved", "a link to recordings outside is turned", "a program changes"]
)
def test_a_run_goes_on_with_the_same_files(start: Start, server: RecordingServer, name: str, trusted: str) -> None:
    """No attack: nothing has changed, so resume, rescore and the same command work as before."""
    start(name, trusted)
    user, _, run = start(name, trusted)  # the files that were put back are those of the run, too
    forget(user.folder / "genes.journal")
    (user.folder / "harmless").unlink(missing_ok=True)
    resumed = user.karenina("resume", user.folder / "genes.journal")
    started_again = (user.folder / "harmless").exists()

    assert "trust" not in resumed.stderr
    assert resumed.returncode == (4 if name == "a program changes" else 0), resumed.stderr
    assert started_again == (name == "a program changes")
    if trusted == "stored":
        assert "trust" not in user.karenina(*run).stderr


def test_a_resumed_run_remembers_its_files(tmp_path: Path, server: RecordingServer) -> None:
    """Attack: change a program after a run was resumed, which stores the command anew."""
    user = User.at(tmp_path / "user")
    folder, _ = started(user, server, ATTACKS["a program changes"], "all")
    journal = user.folder / "genes.journal"
    user.karenina("resume", journal)
    forget(journal)
    tool(folder, "started")
    done = user.karenina("resume", journal)

    assert done.returncode == 2
    assert "the content of" in done.stderr
    assert not (user.folder / "started").exists()


def test_a_program_that_the_user_replaced_may_change(tmp_path: Path, server: RecordingServer) -> None:
    """No attack: the command line names another model, so that the program of the benchmark has no effect."""
    user = User.at(tmp_path / "user")
    attack = dataclasses.replace(ATTACKS["a program changes"], answers=False, plain=True)
    folder, _ = started(user, server, attack, "stored")
    tool(folder, "started")
    done = user.karenina("resume", user.folder / "genes.journal")

    assert done.returncode == 0, done.stderr
    assert not (user.folder / "started").exists()


def test_data_of_the_author_may_change_before_a_resume(tmp_path: Path, server: RecordingServer) -> None:
    """No attack: rows and recordings inside of the folder are the author's, as the questions are."""
    user = User.at(tmp_path / "user")
    folder, _ = started(user, server, ATTACKS["rows are moved"], "stored")
    rows(folder, "other.jsonl", "Which gene is it now?")
    link(folder / "rows.jsonl", "other.jsonl")
    done = user.karenina("resume", user.folder / "genes.journal")

    assert done.returncode == 0, done.stderr
    assert "Which gene is it now?" in "".join(server.seen)


def test_trust_shows_the_programs_and_links_that_it_covers(tmp_path: Path, server: RecordingServer) -> None:
    user = User.at(tmp_path / "user")
    folder, _ = started(user, server, ATTACKS["a program changes"], "stored")
    digest = hashlib.sha256((folder / "tool").read_bytes()).hexdigest()

    assert f"./tool has SHA-256 {digest}" in user.karenina("trust", "given/genes.yaml").stdout
    tool(folder, "started")
    done = user.karenina("run", "given/genes.yaml", "-j", f"openai:m@{server.url}")
    assert done.returncode == 2
    assert "again if a link or a program that they name has changed" in done.stderr


FIGURES = """
from pathlib import Path

from pydantic import BaseModel, Field

from karenina_core import Stage, hookimpl


class Questions(BaseModel):
    image: Path | None = Field(default=None, json_schema_extra={"allowed_in_files": "below"})


class ReadImage(Stage):
    name = "ReadImage"
    scope = "item"
    after = frozenset()
    question_settings = Questions

    async def execute(self, context):
        pass


class plugin:
    @staticmethod
    @hookimpl
    def karenina_extra_stages():
        return [ReadImage]
"""


def test_a_file_in_a_field_of_a_plugin_is_not_exchanged(
    site: Environment, wheels: Wheels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a path that a plugin reads, such as that of a figure, becomes a link out of the folder."""
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    site.install(wheels.package("figures", "1.0", [("karenina.plugins", "figures")], FIGURES))
    given = site.folder / "given"
    given.mkdir()
    (given / "one.png").touch()
    question = {**QUESTION, "id": "row", "figures": {"image": "one.png"}}
    rule = {"type": "TraceContains", "substring": "gene"}
    question["answer"] = {"it": {"description": "d", "ground_truth": True, "verify_with": rule}}
    (given / "genes.yaml").write_text(json.dumps({"karenina": 1, "name": "G", "questions": [question]}))
    recorded = rows(site.folder, "rows.jsonl")
    done = site.karenina("run", given / "genes.yaml", "--recordings", recorded, "-o", "genes.jsonl")
    assert done.returncode == 0, done.stderr
    (site.folder / "secret.png").write_text(SECRET)
    assert site.karenina("resume", "genes.journal").returncode == 0
    link(given / "one.png", "../secret.png")
    for command in ("resume", "rescore"):
        done = site.karenina(command, "genes.journal")
        assert done.returncode == 2
        assert "points to" in done.stderr


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Return a benchmark's folder with links that lead to the user's own files; secrets are beside it."""
    folder = tmp_path / "given"
    for place, text in ((folder / "root/task", "own"), (tmp_path / "own/task", "own"), (tmp_path / "secrets/task", "")):
        place.mkdir(parents=True)
        (place / "code.txt").write_text(text or SECRET)
    rows(folder, "rows.jsonl")
    (tmp_path / "shared").mkdir()
    rows(tmp_path / "shared", "rows.jsonl")
    rows(tmp_path / "secrets", "rows.jsonl", SECRET)
    (folder / "link.jsonl").symlink_to("../shared/rows.jsonl")
    (folder / "link").symlink_to("../own")
    return folder


def checked(folder: Path, made: dict[str, Any]) -> VerificationConfig:
    """Return the configuration of a run of a benchmark that its user trusts, after the check of what it names."""
    file = folder / "genes.yaml"
    file.write_text(json.dumps({"karenina": 1, "name": "G", **made}))
    benchmark = Benchmark.load(file)
    config = VerificationConfig(**read_config_section(benchmark)).with_benchmark_names(benchmark.run_config)
    values = names_and_values(find_restricted_values(benchmark))
    return check_restricted_values(benchmark, config, Trust(frozenset({digest_of_values(file, values)})))


@pytest.mark.parametrize("name", ["rows.jsonl", "link.jsonl"])
def test_recordings_exchanged_after_the_check_are_not_read(given: Path, name: str) -> None:
    """Attack: the race between the check and the reading, which begins when the first item does."""
    (model,) = checked(given, with_recordings(name)("")).core.answering_models
    spec = find_adapter(active_plugins(), "manual").spec
    assert spec.check is not None
    spec.check(model)  # no attack yet
    link(given / name, "../secrets/rows.jsonl")
    with pytest.raises(AdapterConfigError, match="the path is outside"):
        spec.check(pickle.loads(pickle.dumps(model)))  # as a worker process gets it


@pytest.mark.parametrize("name", ["root", "link"])
@pytest.mark.parametrize(
    "made", [with_workspace, lambda root: lambda _: {**with_root_setting(""), "config": {"workspace_root": root}}]
)
def test_a_root_exchanged_after_the_check_is_not_copied(given: Path, name: str, made: Any) -> None:
    root = checked(given, made(name)("")).workspace_root
    target = given / name if name == "root" else given.parent / "own"
    assert resolve_root(root) == root == target
    link(target, "../secrets" if name == "root" else "secrets")
    with pytest.raises(WorkspaceError, match="resolves to"):
        resolve_root(root)
