"""The version of this project, and the catalog of everything its packages provide, installed or not.

The catalog is used to tell the user which distribution to install for a name in a configuration. `python
scripts/catalog.py` generates `catalog.json` from the packages, and a test compares the two.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

__version__ = "0.1.0"
"""The version of all packages, which are released together. `scripts/release.py` updates it."""

CORE: Final = "karenina-core"
"""The name of the core distribution."""


class AdapterDetails(TypedDict):
    """The declarations of an adapter, known even if the adapter is not installed."""

    description: str
    tier: str
    ports: list[str]


class Catalog(TypedDict):
    """The distribution that provides each name, for every kind of name.

    `recorders` are the adapters that replay recordings. `variables` are the environment variables other than those for
    settings. `members` are all distributions of the project. Each is mapped to the extra of `karenina` that installs
    it, or to None if `karenina` always installs it. `known_values` also contains the type of each value.
    """

    stages: dict[str, str]
    stage_slots: dict[str, str | None]
    adapters: dict[str, str]
    adapter_details: dict[str, AdapterDetails]
    recorders: dict[str, str]
    hooks: dict[str, str]
    artifacts: dict[str, str]
    prompts: dict[str, str]
    tool_sources: dict[str, str]
    executors: dict[str, str]
    settings: dict[str, str]
    variables: dict[str, str]
    members: dict[str, str | None]
    trait_fields: dict[str, str]
    question_fields: dict[str, str]
    template_fields: dict[str, str]
    known_values: dict[str, tuple[str, str]]
    primitives: dict[str, str]
    field_types: dict[str, str]


@cache
def read_catalog() -> Catalog:
    """Return the contents of `catalog.json`. The file is read only once, so do not modify the returned object."""
    from importlib.resources import files  # imported here because it slows down the start of the command line

    catalog: Catalog = json.loads(files("karenina_core").joinpath("catalog.json").read_text("utf-8"))
    return catalog


def official_first(distribution: str) -> bool:
    """Return False for a distribution of this project and True for any other: a sort key that puts this project's
    first. If two distributions conflict, the one sorted last is blocked.
    """
    return distribution not in read_catalog()["members"]


def install_command(requirement: str) -> str:
    """Return the command that installs `requirement` (which may include an extra, such as `karenina-otel[otlp]`). For
    this project's distributions, it installs `karenina` or one of its extras. If the distribution is installed from a
    local folder, it installs that folder.

    A package index may not have a distribution that was installed from a local folder. Do not write a command with a
    folder's path to results.
    """
    from importlib.metadata import Distribution  # imported here because they slow down the start of the command line
    from shlex import quote
    from urllib.request import url2pathname

    whole = {name: f"karenina[{extra}]" if extra else "karenina" for name, extra in read_catalog()["members"].items()}
    name, bracket, extras = whole.get(requirement, requirement).partition("[")
    names = (name, CORE) if name == "karenina" else (name,)  # a checkout of `karenina` contains the folder of the core
    for installed in [match for name in names for match in Distribution.discover(name=name)][:1]:
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
        folder = Path(url2pathname(origin.get("url", "").removeprefix("file://")))
        folder = folder.parent if installed.name == CORE else folder
        if "dir_info" in origin and (folder / "pyproject.toml").is_file():
            option = "-e " if origin["dir_info"].get("editable") else ""
            return f"pip install {option}{quote(f'{folder}{bracket}{extras}')}"
    return f"pip install {quote(f'{name}{bracket}{extras}')}"
