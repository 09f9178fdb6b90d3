"""What the members of this project own, whether they are installed or not.

The file `known.json` beside this module is made from the members' own declarations (`python scripts/catalog.py`), and
a test holds it to them. It serves one purpose: to say which distribution
brings what a configuration names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Final, TypedDict

from karenina_core.wording import nearest

CORE: Final = "karenina-core"
"""The distribution of the core."""


class AdapterDetails(TypedDict):
    """What an adapter declares, for people who have not installed it."""

    description: str
    tier: str
    ports: list[str]


class Known(TypedDict):
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
def known() -> Known:
    """The content of `known.json`."""
    from importlib.resources import files  # the command line starts without it

    found: Known = json.loads(files("karenina_core").joinpath("known.json").read_text("utf-8"))
    return found


def missing_adapter(interface: str, installed: Iterable[str]) -> str:
    """Return why there is no adapter of that name, with the distribution that has it or the nearest name."""
    owner = known()["adapters"].get(interface)
    if owner is not None:
        return f"the adapter {interface!r} is not installed: {install_line(owner)}"
    return f"there is no adapter {interface!r}{nearest(interface, installed)}"


def install_line(distribution: str) -> str:
    """Return the command that installs `distribution`: a member comes with `karenina`, or with one of its extras."""
    members = known()["members"]
    if distribution not in members:
        return f"pip install {distribution}"
    extra = members[distribution]
    return f"pip install 'karenina[{extra}]'" if extra else "pip install karenina"
