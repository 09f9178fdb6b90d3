"""Files that steer how tests run, and modules that take the place of those that tests import.

Checks take the former from the source, and leave the latter out.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from karenina_sandbox.patch import Patch, PatchEntry

STEERING: Final = (
    # Python at its start, and where it looks for plugins
    *("sitecustomize.*", "usercustomize.*", "*.pth", "*._pth", "pyvenv.cfg"),
    *("*.dist-info", "*.egg-info", "*.egg-link"),
    # pytest of any version, and its common plugins
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini"),
    *("setup.cfg", ".coveragerc", ".coveragerc.toml"),
    # other runners for Python
    *("tox.toml", "noxfile.py", "unittest.cfg", "nose2.cfg", "nose.cfg", ".noserc", ".stestr.conf", "behave.ini"),
    *(".behaverc", "robot.toml"),
    # JavaScript
    *("jest.config.*", "vitest.config.*", "vitest.workspace.*", ".mocharc*", "mocha.opts", "karma.conf.*"),
    *("playwright.config.*", "cypress.config.*", "cypress.json", "ava.config.*", "jasmine.json", "jasmine.mjs"),
    *("wdio.conf.*", "web-test-runner.config.*", ".taprc", ".nycrc*", ".c8rc*", "bunfig.toml", ".npmrc", ".yarnrc*"),
    # other languages
    *(".cargo", "nextest.toml", ".rspec", ".rspec-local", "phpunit.xml*", "phpunit.dist.xml", ".proverc"),
    *("testng.xml", "junit-platform.properties", "*.runsettings", "ctesttestfile.cmake"),
)
"""The names of files and folders that steer how tests run, in lower case. Checks always take them from the source."""

BUILDING: Final = (
    *("package.json", "tsconfig*.json", "vite.config.*", "babel.config.*", ".babelrc*", ".swcrc", "deno.json*"),
    *("makefile", "gnumakefile", "*.mk", "justfile", ".justfile", "taskfile.y*ml", "cmakelists.txt", "meson.build"),
    *("go.mod", "go.work", "cargo.toml", "build.rs", "pom.xml", "build.gradle*", "settings.gradle*", "build.sbt"),
    *("gradle.properties", "setup.py", "rakefile", "gemfile", "composer.json", "mix.exs", "package.swift"),
    *("*.csproj", "directory.build.*"),
)
"""The names of files that build programs, and may also steer tests, in lower case. Changes of them are reported."""

_OPTIONAL: Final = frozenset(
    {
        *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli"),
        *("argcomplete", "colorama", "mock", "nose", "attr", "twisted", "zope", "setproctitle", "psutil", "coverage"),
        *("pytest_cov", "xdist", "execnet", "hypothesis", "numpy", "setuptools", "pkg_resources"),
    }
)
"""Modules that runners of tests import if they are there."""

ALWAYS_IMPORTED: Final = sys.stdlib_module_names | _OPTIONAL
"""The names of modules that no new module may have, whatever is installed."""

OWN_NAMES: Final = frozenset({"test", "tests"})
"""The names of installed modules that a task may have, because many packages install their tests under them."""

LIST_MODULES: Final = (
    "import pkgutil, sys; print(*sys.builtin_module_names, *getattr(sys, 'stdlib_module_names', ()), "
    "*(module.name for module in pkgutil.iter_modules()), sep='\\n')"
)
"""A program that prints the names of the modules that are installed for an interpreter."""

_TESTS: Final = re.compile(r"(?<![a-z])(tests?|specs?|hidden)(?![a-z])")
"""Names of folders that contain nothing but tests."""

_SUFFIXES: Final = (".py", ".pyc", ".pyw", ".so", ".pyd")
_PATH_FILES: Final = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"),
    *("conftest.py", "setup.py"),
)
"""Files of the workspace that name folders in which Python looks for modules."""


def steers(path: str) -> bool:
    """Return whether a file, or a folder that contains it, steers how tests run."""
    return any(_matches(part, STEERING) for part in path.split("/"))


def may_steer(path: str) -> bool:
    """Return whether a file builds the program, and may also steer how tests run."""
    return _matches(path.rpartition("/")[2], BUILDING)


def test_folders(added: Patch, restore: Sequence[str]) -> frozenset[str]:
    """Return the folders of the files that a check adds and of the Python files that it restores, if their name shows
    that they contain only tests.

    Such a name is `tests` or `hidden`. Other folders may be packages of the program.
    """
    paths = [one.path for one in added.entries if one.kind == "file"]
    paths += [name for name in restore if name.endswith(".py")]
    folders = {path.rpartition("/")[0] for path in paths}
    return frozenset(folder for folder in folders if _TESTS.search(folder.casefold()))


def is_below(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is in one of some folders, or below."""
    return any(path.startswith(f"{folder}/") for folder in folders)


def initializes(path: str) -> bool:
    """Return whether Python runs a file when it imports what is in its folder."""
    name = path.rpartition("/")[2]
    return name.startswith("__init__.") and name.endswith(_SUFFIXES)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name.casefold(), pattern) for pattern in patterns)


class NewModule(NamedTuple):
    """A module that a patch adds: the `path` of its file or link, its `folder`, and its `name`."""

    path: str
    folder: str
    name: str

    def places(self) -> tuple[str, str]:
        """Return the paths of the files in which Python looks for the source of this module."""
        prefix = f"{self.folder}/" if self.folder else ""
        return f"{prefix}{self.name}.py", f"{prefix}{self.name}/__init__.py"


def new_modules(patch: Patch, source: Path) -> Iterator[NewModule]:
    """Yield the Python modules that a patch adds to folders in which the source has no module of the same name."""
    for entry in patch.entries:
        module = _module_of(entry)
        if module is not None and module.name not in _modules_in(source / module.folder):
            yield module


def _module_of(entry: PatchEntry) -> NewModule | None:
    """Return the Python module that a patched file or link is, or None for other entries.

    An `__init__` file is the package of its folder, and a link without a suffix may be one.
    """
    if entry.kind not in ("file", "link"):
        return None
    folder, _, last = entry.path.rpartition("/")
    stem, dot, _ = last.partition(".")
    if dot and not last.endswith(_SUFFIXES):
        return None
    if dot and stem == "__init__":
        above, _, name = folder.rpartition("/")
        return NewModule(entry.path, above, name) if name else None
    if dot or entry.kind == "link":  # a link without a suffix may lead to a package
        return NewModule(entry.path, folder, stem)
    return None


def _modules_in(folder: Path) -> set[str]:
    """Return the names of the modules and packages in a folder of the source, or nothing if it does not exist."""
    found: set[str] = set()
    if not folder.is_dir():
        return found
    for entry in os.scandir(folder):
        if entry.name.endswith(_SUFFIXES):
            found.add(entry.name.partition(".")[0])
        elif entry.is_dir() and any(Path(entry.path).glob("__init__.*")):
            found.add(entry.name)
    return found


def is_searched(folder: str, source: Path, patch: Patch, added: Patch, run: Sequence[str]) -> bool:
    """Return whether Python may look for modules in a folder of the workspace, changed by `patch` and then by `added`,
    while the command `run` runs tests.

    It does in the workspace itself, in folders of scripts that the command `run` names, in those that the settings of
    the source name, such as `src`, and in folders with tests, which pytest and unittest put first: Python files that
    `added` brings, or whose path contains "test". The latter two are no packages; an `__init__.py` that only `patch`
    adds does not make one.
    """
    if not folder or folder in {str(PurePosixPath(word).parent) for word in run if word.endswith(".py")}:
        return True
    package = f"{folder}/__init__.py"
    removed = any(one.path == package and one.kind == "deleted" for one in patch.entries)
    if any(one.path == package for one in added.entries) or ((source / package).exists() and not removed):
        return False
    own = {one.path for one in added.entries}
    paths = (path for path in _files_below(folder, source, patch, added) if path.endswith(".py"))
    return _is_named(folder, source) or any("test" in path.casefold() or path in own for path in paths)


def _is_named(folder: str, source: Path) -> bool:
    """Return whether settings of the source name a folder."""
    pattern = re.compile(rf"(?<![\w.]){re.escape(folder)}(?!\w)")
    files = (source / name for name in _PATH_FILES)
    return any(file.is_file() and pattern.search(file.read_text("utf-8", "replace")) for file in files)


def _files_below(folder: str, source: Path, patch: Patch, added: Patch) -> Iterator[str]:
    """Yield the relative paths of files at any depth below a folder: those in `added`, in `patch`, and in the source.

    A path may occur several times.
    """
    for entry in (*added.entries, *patch.entries):
        if entry.path.startswith(f"{folder}/") and entry.kind == "file":
            yield entry.path
    for above, _, names in os.walk(source / folder):
        yield from ((Path(above) / name).relative_to(source).as_posix() for name in names)


def shadowing(
    modules: Collection[NewModule],
    installed: Collection[str],
    *,
    source: Path,
    patch: Patch,
    added: Patch,
    run: Sequence[str],
) -> set[str]:
    """Return the paths of those `modules`, new ones, that Python would import while tests run instead of others of the
    same name: `installed` ones or, for a module next to tests, also those of the workspace.
    """
    found: set[str] = set()
    searched: dict[str, bool] = {}
    tested = _top_level(source, patch, run) if modules else set()
    for module in modules:
        beside = module.name in tested and _has_tests(module.folder, source, added)
        if module.name in installed or beside:
            if module.folder not in searched:
                searched[module.folder] = is_searched(module.folder, source, patch, added, run)
            if searched[module.folder]:
                found.add(module.path)
    return found


def _top_level(source: Path, patch: Patch, run: Sequence[str]) -> set[str]:
    """Return the names of the top-level folders of the workspace `source` and of `patch`, and of the modules in the
    places where the command `run` imports from.

    These places are the workspace itself, `src`, folders named in settings, and those of scripts in `run`.
    """
    tops = {entry.name for entry in os.scandir(source) if entry.is_dir()}
    tops |= {one.path for one in patch.entries if one.kind == "directory" and "/" not in one.path}
    named = {name for name in tops if name == "src" or _is_named(name, source)}
    folders = {"", *named, *(str(PurePosixPath(word).parent) for word in run if word.endswith(".py"))}
    found = {
        module.name for module in map(_module_of, patch.entries) if module is not None and module.folder in folders
    }
    return tops.union(found, *(_modules_in(source / folder) for folder in folders))


def _has_tests(folder: str, source: Path, added: Patch) -> bool:
    """Return whether a folder in the workspace directly contains tests: Python files of the source with `test` in their
    names, or any that a check adds. It is False for the workspace itself ("").
    """
    if not folder:
        return False
    if any(one.path.rpartition("/")[0] == folder and one.path.endswith(".py") for one in added.entries):
        return True
    place = source / folder
    return place.is_dir() and any(
        "test" in one.name.casefold() and one.name.endswith(".py") for one in os.scandir(place)
    )
