"""Every module that a member imports, inside of functions too, comes with what the member declares."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MEMBERS = sorted(
    file.parent.relative_to(ROOT).as_posix()
    for pattern in ("karenina_core", "karenina", "plugins/*", "adapters/*")
    for file in ROOT.glob(f"{pattern}/pyproject.toml")
)
NAMES = {"backports": "backports.tarfile", "karenina": "karenina-api", "tavily": "tavily-python"}
"""Distributions not named like their package, which are installed with `-e` or may be missing."""
OF_CALLERS = {("plugins/toolkit", "zstandard")}
"""Packages for which the caller names an extra of its own."""

PYTHONS: tuple[Mapping[str, str], ...] = ({}, {"python_version": "3.11", "python_full_version": "3.11.0"})
"""This version of Python, and the oldest."""


@cache
def distributions() -> Mapping[str, list[str]]:
    """Return the installed distributions that each package comes from."""
    return packages_distributions()


def imported(source: str) -> Iterator[str]:
    """Return the packages that a module imports, by statements or `import_module`, except those for types only."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        match waiting.pop():
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=others):
                waiting += others
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case node:
                match node:
                    case ast.Call(
                        func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                        args=[ast.Constant(value=str(module)), *_],
                    ):
                        yield module.partition(".")[0]
                waiting += ast.iter_child_nodes(node)


def installed_with(name: str, extras: set[str]) -> set[str]:
    """Return the distributions that are installed with one and these extras of it."""
    found: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        try:
            lines = requires(one[0]) or []
        except PackageNotFoundError:  # of another platform, or an extra that is not installed
            continue
        for requirement in map(Requirement, lines):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": one[1], **python}) for python in PYTHONS):
                waiting += [(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)]
    return {distribution for distribution, _ in found}


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_imports_only_what_comes_with_it(member: str) -> None:
    project = tomllib.loads((ROOT / member / "pyproject.toml").read_text("utf-8"))["project"]
    extras = set(project.get("optional-dependencies", {})) - {"tests"}
    available = installed_with(project["name"], extras)
    undeclared: dict[str, list[str]] = {}

    for file in (ROOT / member / "src").rglob("*.py"):
        for package in {*imported(file.read_text("utf-8"))} - sys.stdlib_module_names:
            origins = distributions().get(package) or [NAMES.get(package, package)]
            if available.isdisjoint(map(canonicalize_name, origins)) and (member, package) not in OF_CALLERS:
                undeclared[f"{file.relative_to(ROOT)} imports {package}"] = origins

    assert undeclared == {}


@pytest.mark.parametrize(
    "source",
    [
        "import rich.text",
        "def later():\n    from rich import text",
        "def later():\n    return importlib.import_module('rich.text')",
        "if TYPE_CHECKING:\n    import types\nelse:\n    import rich",
    ],
)
def test_imports_are_found_wherever_they_stand(source: str) -> None:
    assert [*imported(source)] == ["rich"]
