"""The tox environments of the members, made from their `pyproject.toml`: tox loads this file as a plugin.

There is one environment for each member. It installs the member with its extra `tests`, the other members that these
require, and the tools of the tests, and nothing else: a requirement that a member does not declare is missing there.
Members are installed with `-e`, because a plain path would be a copy, which goes stale and still passes. What one
environment needs beyond this, and the environments of no member, are in `tox.ini`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tox.config.loader.memory import MemoryLoader
from tox.config.sets import ConfigSet
from tox.config.types import Command, EnvList
from tox.plugin import impl
from tox.session.state import State

ROOT = Path(__file__).parent
NAMES = {"karenina_core": "core", "karenina": "api"}
LONGEST = (
    *("all", "local", "ray", "lint", "wheels", "engine", "toolkit", "report", "embedding", "calibration"),
    *("template", "importing", "benchmark"),
)
"""The environments that begin first, longest first, so that none of them is alone at the end."""
TOOLS = ("hypothesis", "pytest", "pytest-socket", "pytest-timeout", "pytest-xdist")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^]]*)\])?")


def projects() -> dict[str, dict[str, Any]]:
    """Return the table `[project]` of each member by its folder."""
    patterns = ("karenina_core", "karenina", "plugins/*", "adapters/*")
    files = [file for pattern in patterns for file in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))]
    return {
        file.parent.relative_to(ROOT).as_posix(): tomllib.loads(file.read_text("utf-8"))["project"] for file in files
    }


def editable(member: str) -> list[str]:
    """Return the lines that install a member for its tests, and the members that it then requires."""
    members = projects()
    folders = {project["name"]: folder for folder, project in members.items()}
    found: dict[str, set[str]] = {}
    waiting = [(member, ""), (member, "tests")]
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
    return f"-e {folder}[{','.join(sorted(extras))}]" if extras else f"-e {folder}"


def environment(member: str) -> str:
    """Return the name of a member's environment."""
    return NAMES.get(member, member.rpartition("/")[2])


@impl
def tox_extend_envs() -> Iterable[str]:
    """Name the environments of the members."""
    return [environment(member) for member in projects()]


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Configure the environments of the members, and say in which order all begin."""
    given = state.conf.pos_args(None) or ()
    members = {environment(member): (member, project) for member, project in projects().items()}
    for name, (member, project) in members.items():
        state.conf.memory_seed_loaders[name].append(
            MemoryLoader(
                description=project["description"],
                deps="\n".join([*editable(member), *TOOLS]),
                commands=[Command(["pytest", *given, f"{member}/tests"])],
            )
        )
    others = [*(name for name in members if name not in LONGEST), "docs"]
    core_conf.loaders.insert(0, MemoryLoader(env_list=EnvList([*LONGEST, *others])))
