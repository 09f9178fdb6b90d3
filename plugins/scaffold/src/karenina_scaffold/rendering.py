"""Names a new package, and writes its files from templates without replacing any."""

from __future__ import annotations

import ast
import keyword
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from string import Template
from typing import TYPE_CHECKING, Final

from karenina_core.catalog import __version__
from karenina_core.errors import ConfigError
from karenina_toolkit.raising import raises

if TYPE_CHECKING:
    from karenina_scaffold.kinds import PluginKind


_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a package: `word-count`, `word_count`, `WordCount`, and the suffix `.wordcount`."""

    name: str
    module: str
    class_name: str
    suffix: str

    @classmethod
    def of(cls, given: str) -> Names:
        """Return the names for `word-count`, `word_count` or `WordCount`. Raises `ConfigError` for an invalid name."""
        if not _NAME.fullmatch(given):
            raise ConfigError(
                [f"{given!r} is not a valid package name; use letters, digits and hyphens, such as word-count"]
            )
        words = [word for part in re.split("[-_]", given) for word in _HUMP.split(part)]
        module = "_".join(words).lower()
        class_name = "".join(word[0].upper() + word[1:] for word in words)
        return cls("-".join(words).lower(), module, class_name, f".{''.join(words).lower()}")

    def to_dict(self) -> dict[str, str]:
        """Return the names keyed by field."""
        return asdict(self)

    def check_free(self) -> None:
        """Raise `ConfigError` if the name is a keyword, a standard module or an installed package."""
        reason = None
        if keyword.iskeyword(self.module) or keyword.issoftkeyword(self.module):
            reason = "is a Python keyword"
        elif self.module in sys.stdlib_module_names:
            reason = "is a module in Python's standard library"
        elif find_spec(self.module) is not None or not raises(PackageNotFoundError, distribution, self.name):
            reason = "is an installed package"
        if reason is not None:
            raise ConfigError([f"{self.module!r} {reason}; choose another name"])


def render_package(kind: PluginKind, names: Names) -> dict[PurePosixPath, str]:
    """Return the contents of a new package's files by path. Nothing is written. Raises `ConfigError` if the package
    would define a class with the same name as one it imports.
    """
    values = names.to_dict()
    values |= {
        "description": kind.description,
        "group": kind.group,
        "entry": fill(kind.entry, values),
        "command": fill(kind.command, values),
        "usage": fill(kind.usage, values),
    }
    values["dependencies"] = _listed(kind.requires)
    values["tests"] = _listed(("karenina-testing", "pytest>=8", *kind.tests))
    source = fill(read_template(kind.name, "plugin"), values)
    _check_own_names(source, names)
    return {
        PurePosixPath("pyproject.toml"): fill(read_template("common", "pyproject.toml"), values),
        PurePosixPath("README.md"): fill(read_template("common", "README.md"), values),
        PurePosixPath("src", names.module, "__init__.py"): source,
        **{
            PurePosixPath("src", names.module, f"{module}.py"): fill(read_template(kind.name, module), values)
            for module in kind.modules
        },
        PurePosixPath("src", names.module, "py.typed"): "",
        PurePosixPath("tests", f"test_{names.module}.py"): fill(read_template(kind.name, "test"), values),
    }


def version_bounds(version: str) -> str:
    """Return the bounds on Karenina's version for a new plugin, such as `>=0.1,<0.2`."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}"


def _listed(requirements: Iterable[str]) -> str:
    """Return requirements as lines of a TOML array. Karenina's own distributions get version bounds."""
    bounds = version_bounds(__version__)
    return "".join(
        f'  "{requirement}{bounds if requirement.startswith("karenina") else ""}",\n' for requirement in requirements
    )


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each `$name` in `text` with its value. Raises `KeyError` if there is none."""
    return Template(text).substitute(values)


def read_template(folder: str, name: str) -> str:
    """Read a template of this distribution. `name` is its file name without `.template`."""
    return files("karenina_scaffold").joinpath("templates", folder, f"{name}.template").read_text("utf-8")


def _check_own_names(source: str, names: Names) -> None:
    """Raise `ConfigError` if the package defines a class with the same name as one it imports."""
    tree = ast.parse(source)
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    if taken := sorted(imported & classes):
        raise ConfigError(
            [
                f"{names.name!r} would need a class named {taken[0]!r}, but Karenina already uses that name; choose "
                "another name"
            ]
        )


def write_new_folder(folder: Path, texts: Mapping[PurePosixPath, str]) -> None:
    """Create a folder with the given files. Raises `ConfigError` if the folder exists or a file cannot be written."""
    if os.path.lexists(folder):
        raise ConfigError([f"{folder} already exists; choose another name, or another folder with --into"])
    write_new_files(folder, texts)


def write_new_files(folder: Path, texts: Mapping[PurePosixPath, str]) -> None:
    """Write files to a folder, which is created if necessary. Raises `ConfigError` before anything is written if one of
    them exists, and also if one cannot be written.
    """
    existing = [str(folder / path) for path in texts if os.path.lexists(folder / path)]
    if existing:
        raise ConfigError([f"{file} already exists; move the file, or choose another folder" for file in existing])
    try:
        for path, text in texts.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8", newline="\n") as opened:
                opened.write(text)
    except OSError as error:
        where = error.filename or folder
        raise ConfigError([f"{where} cannot be written: {error.strerror}; choose another folder"]) from error
