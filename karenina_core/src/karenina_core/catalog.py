"""What the members of this project own, whether they are installed or not.

The file `catalog.json` beside this module is made from the members' own declarations (`python scripts/catalog.py`), and
a test holds it to them. It serves one purpose: to say which distribution
brings what a configuration names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Final, TypedDict

from karenina_core.text import did_you_mean

CORE: Final = "karenina-core"
"""The distribution of the core."""


class AdapterDetails(TypedDict):
    """What an adapter declares, for people who have not installed it."""

    description: str
    tier: str
    ports: list[str]


class Catalog(TypedDict):
    """Distribution by name, for each kind; adapters have what they say of themselves beside it. `recorders` are the
    adapters that replay what was recorded; `variables` are environment variables that set no configuration name,
    `members` all distributions of the project, with the extra of `karenina` that brings each if there is one."""

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


@cache
def read_catalog() -> Catalog:
    """The content of `catalog.json`."""
    from importlib.resources import files  # the command line starts without it

    found: Catalog = json.loads(files("karenina_core").joinpath("catalog.json").read_text("utf-8"))
    return found


def describe_missing_adapter(interface: str, installed: Iterable[str]) -> str:
    """Return why there is no adapter of that name, with the distribution that has it or the nearest name."""
    owner = read_catalog()["adapters"].get(interface)
    if owner is not None:
        return f"the adapter {interface!r} is not installed: {install_command(owner)}"
    return f"there is no adapter {interface!r}{did_you_mean(interface, installed)}"


def install_command(distribution: str) -> str:
    """Return the command that installs `distribution`: a member comes with `karenina`, or with one of its extras."""
    members = read_catalog()["members"]
    if distribution not in members:
        return f"pip install {distribution}"
    extra = members[distribution]
    return f"pip install 'karenina[{extra}]'" if extra else "pip install karenina"
