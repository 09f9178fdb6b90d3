"""The reference of the documentation: everything that is installed has its place in it."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from karenina_cli.app import COMMANDS
from karenina_core.catalog import read_catalog
from karenina_core.config import all_settings
from karenina_core.data.outcome import Outcome
from karenina_core.data.rubrics import trait_kinds
from karenina_core.plugins import active_plugins
from karenina_template.templates import known_primitives
from karenina_toolkit.plugin_lookup import specified_hooks

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """Return the files of the reference."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        made: dict[str, str] = import_module("reference").reference()
    finally:
        sys.path.remove(str(SCRIPTS))
    return made


def headings(page: str, level: int = 2) -> set[str]:
    """Return the headings of a page at one level."""
    return set(re.findall(rf"^{'#' * level} (\S.*)$", page, re.MULTILINE))


def test_every_setting_is_described(reference: dict[str, str]) -> None:
    page = reference["settings.md"]

    assert headings(page, 3) == set(all_settings()) >= set(read_catalog()["settings"])
    assert all(setting.meaning for setting in all_settings().values())


def test_every_primitive_is_described(reference: dict[str, str]) -> None:
    assert headings(reference["primitives.md"]) == set(known_primitives())


def test_every_kind_of_trait_is_described(reference: dict[str, str]) -> None:
    assert headings(reference["traits.md"]) == set(trait_kinds())


def test_every_stage_is_described(reference: dict[str, str]) -> None:
    assert headings(reference["stages.md"]) == {"Slots", *read_catalog()["stages"]}


def test_every_artifact_is_described(reference: dict[str, str]) -> None:
    assert headings(reference["artifacts.md"]) >= set(read_catalog()["artifacts"])


def test_every_hook_is_described(reference: dict[str, str]) -> None:
    hooks = specified_hooks(active_plugins())

    assert headings(reference["hooks.md"]) == {hook.name for hook in hooks}
    assert [hook.name for hook in hooks if hook.description.partition("\n")[0] not in reference["hooks.md"]] == []


def test_every_adapter_is_described(reference: dict[str, str]) -> None:
    assert headings(reference["adapters.md"]) == set(read_catalog()["adapters"])


@pytest.mark.parametrize("name", [*COMMANDS, "journal repair", "compare", "report", "model list"])
def test_commands_of_the_program_and_of_plugins_are_described(reference: dict[str, str], name: str) -> None:
    assert f"karenina {name}" in headings(reference["commands.md"])


def test_options_have_their_help(reference: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(.+)` \| (.*) \|$", reference["commands.md"], re.MULTILINE)

    assert [name for name, meaning in rows if not meaning] == []
    assert {"--no-journal", "--require-within POINTS"} <= {name for name, _ in rows}


def test_every_outcome_has_its_meaning(reference: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?:yes|no) \| (?:yes|no) \| (.+) \|$", reference["outcomes.md"], re.MULTILINE)

    assert [name for name, _ in rows] == [one.value for one in Outcome]


@pytest.mark.parametrize("name", ["benchmark", "configuration", "result"])
def test_schemas_are_published(reference: dict[str, str], name: str) -> None:
    assert json.loads(reference[f"{name}.schema.json"])["type"] == "object"
    assert f"({name}.schema.json)" in reference["files.md"]


@pytest.mark.parametrize("module", ["karenina", "karenina_core", "karenina_testing"])
def test_every_public_name_is_described(reference: dict[str, str], module: str) -> None:
    public = {name for name in import_module(module).__all__ if not name.startswith("__")}
    described = set(re.findall(r"^::: \S+\.(\w+)$", reference[f"api/{module}.md"], re.MULTILINE))

    assert described == public


def test_every_place_that_the_architecture_names_exists() -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs/explanation/architecture.md").read_text("utf-8")
    rooms = {"core": "karenina_core/src/karenina_core", "adapters/openai": "adapters/openai/src/karenina_openai"}
    rooms |= {name: f"plugins/{name}/src/karenina_{name}" for name in ("engine", "toolkit")}
    named = set(re.findall(r"`((?:plugins|adapters|karenina_core)/[^`\s]+)`", page))
    for room, folder in rooms.items():
        named |= {f"{folder}/{path}" for path in re.findall(rf"(?<![\w/]){room}/([\w/]+(?:\.py)?)", page)}

    assert len(named) > 30
    assert sorted(path for path in named if not (root / path).exists()) == []
