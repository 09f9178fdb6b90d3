"""The metadata of installed packages: names, requirements and imports."""

from __future__ import annotations

import ast
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from importlib.util import find_spec
from inspect import getmodulename
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from karenina_core.errors import PluginError
from karenina_core.plugins.discovery import GROUPS, canonical, installed
from karenina_core.plugins.specifications import GROUP as SPECIFICATIONS
from karenina_core.text import did_you_mean

State = Literal["ok", "warning", "problem"]
KNOWN_GROUPS = (*GROUPS, SPECIFICATIONS)
_FOR_TESTS = re.compile(r"""\bextra\s*==\s*["'](?:tests?|testing|dev|docs?|lint)["']""")
"""Markers of requirements that are only used in tests."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `area` is the thing that was checked. `text` describes the result and a fix, if needed."""

    area: str
    state: State
    text: str

    def to_json(self) -> dict[str, str]:
        """Return the finding as a dict of strings."""
        return asdict(self)


@dataclass(frozen=True)
class InstalledPackage:
    """An installed distribution, with its Karenina entry points."""

    distribution: Distribution
    points: tuple[EntryPoint, ...]

    @property
    def name(self) -> str:
        """The distribution's normalized name."""
        return canonical(self.distribution.name)

    @property
    def roots(self) -> Mapping[str, list[Path]]:
        """The packages and modules of the entry points, with their folders or files. Packages and modules that cannot
        be found are omitted.
        """
        roots: dict[str, list[Path]] = {}
        for module in (point.value.partition(":")[0] for point in self.points):
            name, places = _root_of(module)
            if places:
                roots.setdefault(name, places)
        return roots

    def sources(self) -> Iterator[Path]:
        """Yield the source files of the packages, except those in folders named `tests`."""
        for place in (root for places in self.roots.values() for root in places):
            if place.is_file():
                yield place
                continue
            for file in sorted(place.rglob("*.py")):
                if not {"tests", "__pycache__"} & set(file.relative_to(place).parts):
                    yield file


def find_package(name: str) -> InstalledPackage:
    """Return the installed distribution with the given name, otherwise the one with an import package of this name or,
    finally, a plugin. Raises `PluginError` if there is none, or more than one. Distributions without Karenina plugins
    are only found by their own name.
    """
    owners: dict[str, tuple[Distribution, list[EntryPoint]]] = {}
    for group in installed().groups:
        for point in installed().select(group=group) if group.startswith("karenina") else ():
            if point.dist is not None:
                points = owners.setdefault(canonical(point.dist.name), (point.dist, []))[1]
                points += [point] if point not in points else []
    ways: list[Callable[[str, EntryPoint], bool]] = [
        lambda owner, _: owner == canonical(name),
        lambda _, point: name in (module := point.value.partition(":")[0], module.partition(".")[0]),
        lambda _, point: point.name == name,
    ]
    for fits in ways:
        matching = [owner for owner, (_, points) in owners.items() if any(fits(owner, point) for point in points)]
        if len(matching) > 1:
            raise PluginError(f"{name!r} matches several distributions; specify one of {', '.join(sorted(matching))}")
        if matching:
            distribution, points = owners[matching[0]]
            return InstalledPackage(distribution, tuple(points))
    for without in Distribution.discover(name=name):
        return InstalledPackage(without, ())
    names = {*owners, *(point.name for _, points in owners.values() for point in points)}
    raise PluginError(f"no installed distribution, package or plugin is named {name!r}{did_you_mean(name, names)}")


def unmet_requirements(
    distribution: Distribution, found: Mapping[str, Distribution], concerns: Callable[[str], bool] = lambda _: True
) -> Iterator[str]:
    """Yield a message for each of a distribution's requirements that is not met by the distributions in `found`. Only
    requirements for whose name `concerns` returns True are checked, and none of extras or for other environments.
    """
    for required in requirements(distribution):
        name = canonical(required.name)
        if not concerns(name) or (required.marker is not None and not required.marker.evaluate({"extra": ""})):
            continue
        other = found.get(name)
        who = f"{distribution.name} {distribution.version} requires {name}{required.specifier}"
        if other is None:
            yield f"{who}, which is not installed; run `pip install '{name}{required.specifier}'`"
        elif not required.specifier.contains(other.version, prereleases=True):
            yield f"{who}, but {other.version} is installed; run `pip install --upgrade {distribution.name} {name}`"


def requirements(distribution: Distribution) -> Iterator[Requirement]:
    """Yield the requirements of a distribution, including its extras. Invalid ones are omitted."""
    for text in distribution.requires or ():
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue


def check_metadata(package: InstalledPackage) -> Iterator[Finding]:
    """Check that the package works with this installation, declares its imports and is typed."""
    yield from _check_versions(package)
    yield from _check_imports(package)
    yield from _check_types(package)


def _check_versions(package: InstalledPackage) -> Iterator[Finding]:
    """Yield findings about the requirements, the Python version, and whether the requirement of the core has an upper
    bound.
    """
    here = package.distribution
    named = {canonical(required.name) for required in requirements(here)}
    found = {name: distribution for name in named for distribution in [*Distribution.discover(name=name)][:1]}
    problems = list(unmet_requirements(here, found))
    python = here.metadata.json.get("requires_python")
    try:
        if python is not None and not SpecifierSet(python).contains(platform.python_version(), prereleases=True):
            problems.append(
                f"the package requires Python {python}, but this is Python {platform.python_version()}; use a "
                "different "
                "Python version, or change requires-python"
            )
    except InvalidSpecifier:
        problems.append(
            f'requires-python is not a valid version range: {python!r}; write, for example, requires-python = ">=3.11"'
        )
    core = next(
        (requirement for requirement in requirements(here) if canonical(requirement.name) == "karenina-core"), None
    )
    if core is not None and not any(specifier.operator in ("<", "<=", "~=", "==") for specifier in core.specifier):
        yield Finding(
            "Versions",
            "warning",
            f"{core} has no upper bound, but a later release may change hooks that are not stable; write, for "
            'example, "karenina-core>=0.1,<0.2"',
        )
    yield from (Finding("Versions", "problem", problem) for problem in problems)
    if not problems:
        yield Finding("Versions", "ok", f"all requirements are met{f'; {core}' if core is not None else ''}")


def _check_imports(package: InstalledPackage) -> Iterator[Finding]:
    """Yield a finding for each imported package that the distribution does not require, or requires only indirectly, or
    that cannot be found. If none of them is a problem, the last finding is `ok`.
    """
    needed = [
        requirement
        for requirement in requirements(package.distribution)
        if not _FOR_TESTS.search(str(requirement.marker))
    ]
    declared = {canonical(requirement.name) for requirement in needed} | {package.name}
    with_ours = declared | {
        canonical(need.name) for name in declared if name.startswith("karenina") for need in _needs_of(name)
    }
    absent = sorted(name for name in declared if not any(True for _ in Distribution.discover(name=name)))
    sound = True
    for name, place in sorted(_imported(package).items()):
        owners = _owners(name)
        if owners & with_ours or canonical(name) in declared:
            continue
        cure = f'add "{min(owners, default=canonical(name))}" to dependencies in pyproject.toml'
        if owners & required_by(declared):
            text = f"{place} imports {name}, which {package.name} requires only indirectly; {cure}"
            yield Finding("Imports", "warning", text)
        elif owners:
            sound = False
            text = f"{place} imports {name}, but {package.name} does not require it; {cure}"
            yield Finding("Imports", "problem", text)
        elif _is_found(name):
            text = f"{place} imports {name}, which no installed distribution claims to contain; check the dependencies"
            yield Finding("Imports", "warning", text)
        elif absent:
            text = (
                f"{place} imports {name}, which is not installed and may belong to a missing requirement "
                f"({', '.join(absent)}); install what is missing"
            )
            yield Finding("Imports", "warning", f"{text} to check this import")
        else:
            sound = False
            text = f"{place} imports {name}, which is not installed; {cure}, or catch ImportError"
            yield Finding("Imports", "problem", text)
    if sound:
        yield Finding("Imports", "ok", "all imported distributions are declared")


def _check_types(package: InstalledPackage) -> Iterator[Finding]:
    """Yield a problem for each package without a `py.typed` file, or that none is missing."""
    folders = {name: places for name, places in package.roots.items() if any(place.is_dir() for place in places)}
    missing = [name for name, places in folders.items() if not any((place / "py.typed").is_file() for place in places)]
    for name in missing:
        text = (
            f"{name} has no py.typed file, so type checkers ignore its types; add an empty py.typed file next to "
            "__init__.py"
        )
        yield Finding("Types", "problem", text)
    if not missing:
        summary = "py.typed is present" if folders else "a py.typed file is only for packages, not for a single module"
        yield Finding("Types", "ok", summary)


def _imported(package: InstalledPackage) -> dict[str, str]:
    """Return the top-level packages outside the standard library and the package itself that its source imports, each
    with the location of the first import. Files that cannot be parsed are omitted.
    """
    own = {name.partition(".")[0] for name in package.roots}
    places: dict[str, str] = {}
    for file in package.sources():
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue  # loading the entry point reports it
        for name, line in _needed_imports(tree):
            if name not in own and name not in sys.stdlib_module_names:
                places.setdefault(name, f"{file.parent.name}/{file.name}:{line}")
    return places


def _needed_imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the top-level names that the code has to import, with their lines. Imports under TYPE_CHECKING, and imports
    whose failure is caught, are not included.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name.partition(".")[0], node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module.partition(".")[0], node.lineno
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from _needed_imports(ast.Module([other], []))
        elif isinstance(node, ast.Try) and any(map(_catches_imports, node.handlers)):
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                yield from _needed_imports(part)
        else:
            yield from _needed_imports(node)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    caught = "Exception" if handler.type is None else ast.unparse(handler.type)
    return any(name in caught for name in ("ImportError", "ModuleNotFoundError", "Exception"))


def _needs_of(name: str) -> Iterator[Requirement]:
    """Yield the requirements of an installed distribution, without its extras and those for other environments. If it
    is not installed, nothing is yielded.
    """
    for distribution in Distribution.discover(name=name):
        for need in requirements(distribution):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                yield need
        return


def required_by(names: Iterable[str]) -> set[str]:
    """Return the distributions in `names` and everything they require, directly or indirectly."""
    required, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in required:
            required.add(name)
            waiting += [canonical(need.name) for need in _needs_of(name)]
    return required


def _is_found(name: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@cache
def _packages() -> Mapping[str, list[Distribution]]:
    """Return the distributions that contain each top-level package, as `packages_distributions` does in ten times the
    time. Cached, so packages that are installed later are missing.
    """
    found: dict[str, list[Distribution]] = {}
    for distribution in distributions():
        stated = (distribution.read_text("top_level.txt") or "").split()
        files = (line.partition(",")[0] for line in (distribution.read_text("RECORD") or "").splitlines())
        tops = {file.partition("/")[0] if "/" in file else getmodulename(file) for file in files}
        for name in stated or tops:
            if name and "." not in name:
                found.setdefault(name, []).append(distribution)
    return found


def _owners(name: str) -> set[str]:
    """Return the distributions that contain a top-level package. Editable installs are found by name."""
    return {canonical(owner.name) for owner in _packages().get(name) or Distribution.discover(name=name)}


def _root_of(module: str) -> tuple[str, list[Path]]:
    """Return the outermost package of a module, and its folders or file. If it cannot be found, there are none. The
    search imports its parents, and skips namespace packages.
    """
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        try:
            spec = find_spec(name)
        except (Exception, SystemExit):
            return name, []
        if spec is None:
            return name, []
        if spec.origin is not None:
            folders = [Path(location) for location in spec.submodule_search_locations or ()]
            return name, folders or [Path(spec.origin)]
    return module, []


def group_problems(points: Iterable[EntryPoint]) -> Iterator[str]:
    """Yield a message for each entry point whose group does not exist."""
    for point in points:
        if point.group not in KNOWN_GROUPS:
            near = did_you_mean(point.group, KNOWN_GROUPS)
            yield f"the entry point {point.name!r} is in the unknown group {point.group!r}{near}"
