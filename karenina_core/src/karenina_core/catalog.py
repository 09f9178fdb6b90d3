"""The catalog of everything that the members of this project provide, whether they are installed or not.

It says which distribution to install for a name in a configuration. The file `catalog.json` is generated from the
members by `python scripts/catalog.py`; a test compares the two.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Final, TypedDict

CORE: Final = "karenina-core"
"""The name of the core's distribution."""


class AdapterDetails(TypedDict):
    """The declarations of an adapter, which need not be installed."""

    description: str
    tier: str
    ports: list[str]


class Catalog(TypedDict):
    """For each kind of name, the distribution that provides it.

    `recorders` are the adapters that replay recordings; `variables` are environment variables other than those of
    settings; `members` are all distributions of the project, each with the extra of `karenina` that installs it, or
    None if `karenina` always installs it.
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


@cache
def read_catalog() -> Catalog:
    """Return the content of `catalog.json`, which is read once."""
    from importlib.resources import files  # imported here because it slows down the start of the command line

    found: Catalog = json.loads(files("karenina_core").joinpath("catalog.json").read_text("utf-8"))
    return found


def official_first(distribution: str) -> bool:
    """Return a sort key that puts this project's distributions first. In a conflict, the last one is to be blocked."""
    return distribution not in read_catalog()["members"]


def install_command(distribution: str) -> str:
    """Return the command that installs `distribution`; members are installed through `karenina` or its extras."""
    members = read_catalog()["members"]
    if distribution not in members:
        return f"pip install {distribution}"
    extra = members[distribution]
    return f"pip install 'karenina[{extra}]'" if extra else "pip install karenina"
