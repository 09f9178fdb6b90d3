"""The fence of `.importlinter` covers everything, and its lists of exceptions may only shrink.

`tox -e lint` checks the imports themselves.
"""

from __future__ import annotations

import pkgutil
import tomllib
from configparser import ConfigParser
from pathlib import Path

import karenina_core

ROOT = Path(__file__).parents[1]
EXCEPTIONS = 12
"""How many lines `ignore_imports` had in all contracts together: lower this number with every line that goes."""


def fence() -> ConfigParser:
    """Return the configuration of import-linter."""
    parser = ConfigParser()
    parser.read(ROOT / ".importlinter", "utf-8")
    return parser


def lines(value: str) -> list[str]:
    """Return the entries of a setting of several lines."""
    return [line.strip() for line in value.splitlines() if line.strip()]


def rooms() -> set[str]:
    """Return the modules that the contract of the floors lists."""
    floors = fence()["importlinter:contract:floors"]["layers"]
    return {f"karenina_core.{module.strip()}" for line in lines(floors) for module in line.split(":")}


def has_room(module: str, listed: set[str]) -> bool:
    """Return whether the module or a package that it is in is listed."""
    parts = module.split(".")
    return any(".".join(parts[:end]) in listed for end in range(2, len(parts) + 1))


def test_exceptions_only_become_fewer() -> None:
    found = [line for section in fence().values() for line in lines(section.get("ignore_imports", ""))]

    assert len(found) <= EXCEPTIONS, "an import crosses the fence: mend it; do not list it"
    assert len(found) == EXCEPTIONS, f"lower EXCEPTIONS to {len(found)}: one import fewer crosses the fence"


def test_every_module_of_the_core_has_a_room() -> None:
    listed = rooms()
    found = [
        module.name
        for module in pkgutil.walk_packages(karenina_core.__path__, "karenina_core.")
        if not module.ispkg and not has_room(module.name, listed)
    ]

    assert not found, "put these modules into a room of `.importlinter`"


def test_every_distribution_is_inside_the_fence() -> None:
    fenced = set(lines(fence()["importlinter"]["root_packages"]))
    projects = [ROOT / "karenina_core" / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    names = [tomllib.loads(file.read_text("utf-8"))["project"]["name"] for file in projects]
    names += [
        tomllib.loads(file.read_text("utf-8"))["project"]["name"] for file in ROOT.glob("adapters/*/pyproject.toml")
    ]

    assert {name.replace("-", "_") for name in names} == fenced
    for contract in ("plugins", "among_plugins"):
        section = fence()[f"importlinter:contract:{contract}"]
        listed = lines(section.get("forbidden_modules", "") or section.get("modules", ""))
        assert set(listed) == fenced - {"karenina_core"}, contract
