"""The tox environments of the members, generated from their `pyproject.toml`: tox loads this file as a plugin.

There is one environment for each member. It installs the member with its extra `tests`, the other members that these
require, and the test tools, and nothing else: a requirement that a member does not declare is missing there. CI runs
the tests of most members in three environments instead (`PARTS`), which with some others are one installation
(`SHARED`), because installing and compiling the same packages 33 times takes longer than the tests;
`tests/test_packaging_imports.py` shows that each member declares what it imports,
`wheels` that members with extras work without them, and a release runs all tests this way. Members are installed with
`-e`, because a plain path would install a copy, which becomes outdated and still passes. Additional settings of single
environments, and environments without a member, are in `tox.ini`.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from tox.config.loader.memory import MemoryLoader
from tox.config.sets import ConfigSet
from tox.config.types import Command, EnvList
from tox.plugin import impl
from tox.session.state import State
from tox.tox_env.python.api import Python
from tox.tox_env.register import ToxEnvRegister

ROOT = Path(__file__).parent
NAMES = {"karenina_core": "core", "karenina": "api"}
ADAPTERS = ("claude_agent_sdk", "claude_tool", "langchain", "manual", "openai", "sandbox")
FILES = ("benchmark", "calibration", "drafting", "importing", "jury", "report", "scaffold")
PARTS = {
    "members-adapters": (*ADAPTERS, "template"),
    "members-files": (*FILES, "cli", "pytest", "selftest", "terminal"),
    "members-stages": (),
}
"""The members that CI tests together, in one process each that takes as long as the others; the last has all others."""
CI = ("all", *PARTS, "local", "wheels", "ray", "py313", "lint", "docs", "embedding", "py312")
"""The environments of CI, the slowest first, so that none of them runs alone at the end."""
OWN = ("embedding", "local", "ray")
"""The members whose tests have an environment of their own in CI: a model, a model server, and a cluster."""
QUICK = {"3.12": ("core",), "3.13": ("core", "engine", "template")}
"""The members that CI tests with other versions of Python too; a release tests all but `OWN` with each version."""
DIFFERING = {
    "engine": (
        *("attachment_memory", "concurrency_limits", "event_loops", "executors", "garbage_collection"),
        *("journal_file", "journal_laws", "journal_writer", "process_pool", "run_engine"),
        *("services", "source_folders", "tool_sessions", "worker_pool"),
    ),
    "template": (
        *("normalize", "primitives_dates", "primitives_laws", "template_binding", "template_laws", "template_loading"),
        *("template_source_cache", "template_stages", "template_trust", "template_verification"),
        "templates_comparison",
    ),
}
"""The test files of these members that CI runs with other versions: event loops, forks, SQLite, classes, Unicode.

The others compute with plain values, which no version of Python reads differently, in processes like those of
`process_pool`, or show progress with libraries that have tests of their own.
"""
SHARED = ("all", *PARTS, "docs", "lint")
"""The environments with every member: they are one installation, in which each module is compiled once."""
TOOLS = ("hypothesis", "pytest", "pytest-socket", "pytest-timeout", "pytest-xdist")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^]]*)\])?")


@cache  # each environment looks for the members that it requires
def projects() -> dict[str, dict[str, Any]]:
    """Return the `[project]` table of each member, keyed by its folder."""
    patterns = ("karenina_core", "karenina", "plugins/*", "adapters/*")
    files = [file for pattern in patterns for file in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))]
    return {
        file.parent.relative_to(ROOT).as_posix(): tomllib.loads(file.read_text("utf-8"))["project"] for file in files
    }


def editable(*chosen: str) -> list[str]:
    """Return the `-e` lines that install the given members for their tests, and the members that these require."""
    members = projects()
    folders = {project["name"]: folder for folder, project in members.items()}
    found: dict[str, set[str]] = {}
    waiting = [(member, extra) for member in chosen for extra in ("", "tests")]
    while waiting:
        folder, extra = waiting.pop()
        if extra in found.setdefault(folder, set()):
            continue
        found[folder].add(extra)
        declared = members[folder].get("optional-dependencies", {})
        for line in declared.get(extra, []) if extra else members[folder]["dependencies"]:
            need = REQUIREMENT.match(line)
            if need is not None and need["name"] in folders:
                extras = [one.strip() for one in (need["extras"] or "").split(",")]
                waiting += [(folders[need["name"]], one) for one in {"", *extras}]
    return [
        _line(folder, extras & set(members[folder].get("optional-dependencies", {})))
        for folder, extras in sorted(found.items())
    ]


def _line(folder: str, extras: set[str]) -> str:
    """Return the requirement line of a member with these extras."""
    return f"-e {folder}[{','.join(sorted(extras))}]" if extras else f"-e {folder}"


def requirements(folder: Path, name: str, *members: str) -> str:
    """Write what the tests of the members need to a file of this name in the folder; return the line that installs it.

    uv builds a member again that is named on its command line, for each environment; one that a file names, only once.
    """
    file = folder / f"{name}.txt"
    text = "\n".join([*editable(*members), *TOOLS, ""])
    if not file.is_file() or file.read_text("utf-8") != text:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as new:
            new.write(text)
        Path(new.name).replace(file)  # environments that run at once read it
    return f"-r {file}"


def environment(member: str) -> str:
    """Return the name of a member's environment."""
    return NAMES.get(member, member.rpartition("/")[2])


def together(
    text: str, deps: str, members: Iterable[str], given: Sequence[str], version: str = "", *, release: bool = False
) -> MemoryLoader:
    """Return an environment with the given description and requirements that runs the tests of several members.

    `version` is a Python version if it differs from tox's own; property tests then have few examples, because they
    have many with the usual version. With `release`, tests marked `release` and more examples are run too.
    """
    chosen = DIFFERING if version and not release else {}
    paths = [path for member in members for path in _paths(member, chosen.get(environment(member), ()))]
    files = [
        file for path in paths for file in sorted(ROOT.glob(path if path.endswith(".py") else f"{path}/test_*.py"))
    ]
    forking = [file.relative_to(ROOT).as_posix() for file in files if "mark.forks" in file.read_text("utf-8")]
    profile, without = ("thorough", "") if release else ("few" if version else "", " and not release")
    options = [f"--hypothesis-profile={profile}"] if profile else []
    beside = ["-m", f"not forks{without}", *paths]
    apart = ["-m", f"forks{without}", *forking]  # libraries that other tests import start threads
    commands = [["pytest", *options, *some] for some in ([beside, apart] if forking else [beside])]
    settings: dict[str, Any] = {
        "description": text,
        "deps": deps,
        "commands": [Command(line) for line in ([["pytest", *given, *paths]] if given else commands)],
    }
    if version:
        # The shims of pyenv fail for versions that are not its global one, and uv then looks no further.
        pyenv = [str(folder) for folder in Path.home().glob(f".pyenv/versions/{version}.*/bin")]
        settings["set_env"] = f"PATH={os.pathsep.join([*pyenv, os.environ['PATH']])}"
    return MemoryLoader(**settings)


def _paths(member: str, chosen: Sequence[str]) -> list[str]:
    """Return the paths of a member's tests: the chosen files, or the folder with all."""
    return [f"{member}/tests/test_{name}.py" for name in chosen] or [f"{member}/tests"]


@impl(trylast=True)  # that of tox-uv runs first
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    """Offer the runner of `SHARED`: that of tox-uv, with one place for all its environments."""

    class Shared(register.runner("uv-venv-runner")):  # type: ignore[misc] # known when tox-uv has registered it
        @staticmethod
        def id() -> str:
            return "shared"

        @property
        def venv_dir(self) -> Path:
            return Path(self.core["work_dir"], "shared")

        def python_cache(self) -> dict[str, Any]:
            return Python.python_cache(self)  # tox-uv's has the place, relative to a folder of the environment's own

        def create_python_env(self) -> None:
            self.core["work_dir"].mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.venv_dir}.lock"):  # environments that run at once; uv has a lock for installing
                if not self.env_python().exists():
                    super().create_python_env()

    register.add_run_env(Shared)


@impl
def tox_extend_envs() -> Iterable[str]:
    """Return the names of the members' environments: those of single members, and those of several."""
    versions = [version.replace(".", "") for version in QUICK]
    several = [*PARTS, *(f"{name}py{version}" for version in versions for name in ("", "members-"))]
    return [*(environment(member) for member in projects()), *several]


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Configure the members' environments, and set which of them CI and a release run, and in which order."""
    given = state.conf.pos_args(None) or ()
    folder = core_conf["work_dir"] / "requirements"
    members = {environment(member): (member, project) for member, project in projects().items()}
    shared = [member for name, (member, _) in members.items() if name not in OWN]
    seeds = state.conf.memory_seed_loaders
    for name, (member, project) in members.items():
        without = ["-m", "not release"] if name in OWN else []
        seeds[name].append(
            MemoryLoader(
                description=project["description"],
                deps=requirements(folder, name, member),
                commands=[Command(["pytest", *without, *given, f"{member}/tests"])],
            )
        )
    everything = f"-r requirements-dev.txt\n{requirements(folder, 'shared', *shared)}"
    others = {environment(member) for member in shared}.difference(*PARTS.values())
    for part, names in PARTS.items():
        chosen = [member for member in shared if environment(member) in (names or others)]
        text = "the tests of a third of the members, with every member installed"
        seeds[part].append(together(text, everything, chosen, given))
    for name in SHARED:
        seeds[name].append(MemoryLoader(runner="shared", deps=everything))
    for version, names in QUICK.items():
        name, quick = f"py{version.replace('.', '')}", [members[member][0] for member in names]
        deps = requirements(folder, name, *quick)
        seeds[name].append(together(f"the tests of some members with Python {version}", deps, quick, given, version))
        deps = requirements(folder, f"members-{name}", *shared)
        every = together(f"all tests of most members with Python {version}", deps, shared, given, version, release=True)
        seeds[f"members-{name}"].append(every)
    release = ["release", "ocr", *(f"members-py{version.replace('.', '')}" for version in QUICK)]
    separate = [name for name in members if name not in OWN]
    labels = {"release": EnvList([*release, *separate]), "separate": EnvList(separate)}
    core_conf.loaders.insert(0, MemoryLoader(env_list=EnvList(CI), labels=labels))
