"""Counts of the source files of all distributions, tests excluded."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from karenina_core.data.outcome import Outcome, OutcomeGroup

ROOT = Path(__file__).parents[2]
SMALL = 50
_OUTCOMES = re.compile(rf"""\bOutcome\s*\.|["'](?:{"|".join(Outcome)})["']""")
_PORT_METHODS = frozenset({"invoke", "parse", "run"})


def packages() -> dict[str, Path]:
    """Return the folder of each member's package, by the package's name."""
    files = [ROOT / name / "pyproject.toml" for name in ("karenina_core", "karenina")]
    files += [*ROOT.glob("plugins/*/pyproject.toml"), *ROOT.glob("adapters/*/pyproject.toml")]
    folders = [
        file.parent / source
        for file in files
        for source in tomllib.loads(file.read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ]
    return {folder.name: folder for folder in folders}


@cache
def source_files() -> Mapping[str, Path]:
    """Return the Python files of all packages by the names of their modules."""
    found = {}
    for folder in packages().values():
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def modules_by_folder() -> Counter[str]:
    """Count the Python files that are directly in each folder, `__init__.py` included."""
    return Counter(file.parent.relative_to(ROOT).as_posix() for file in source_files().values())


def port_classes() -> list[str]:
    """Return the classes outside of adapters and karenina-testing that wrap, replace or imitate an adapter's port.

    These are the classes with a method `invoke`, `parse` or `run` that takes `info` by keyword, and their base classes
    in the same file. The three protocols of ports are none of them.
    """
    found = []
    for module, file in source_files().items():
        if file.is_relative_to(ROOT / "adapters") or module.startswith("karenina_testing"):
            continue
        classes = {node.name: node for node in ast.walk(_tree(file)) if isinstance(node, ast.ClassDef)}
        ports = {name for name, node in classes.items() if any(map(_is_port_method, node.body))}
        ports = {name for name in ports if "Protocol" not in _bases(classes[name])}
        bases = {base for name in ports for base in _bases(classes[name]) if base in classes}
        found += [f"{module}:{name}" for name in sorted(ports | bases)]
    return found


def outcome_tables() -> list[str]:
    """Return where a collection lists outcomes: sets, lists, tuples, and keys of dicts, with two or more of them.

    Values as text count if one of them is no name of a group.
    """
    found = []
    for module, file in source_files().items():
        if len(_OUTCOMES.findall(file.read_text("utf-8"))) < 2:
            continue  # reading it as a tree takes longer than all else
        for node in ast.walk(_tree(file)):
            listed = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
            members = sum(_is_outcome(one) for one in listed)
            texts = {one.value for one in listed if isinstance(one, ast.Constant) and one.value in set(Outcome)}
            if members > 1 or (len(texts) > 1 and texts - set(get_args(OutcomeGroup))):
                found.append(f"{module}:{getattr(node, 'lineno', 0)}")
    return found


def small_files_with_one_importer() -> list[str]:
    """Return the modules of 50 lines or less that exactly one other source file imports, at any place in it.

    `__init__.py` and `__main__.py` are not counted. A name in a string (a lazy command, an entry point) is no import.
    """
    importers = Counter(name for module, file in source_files().items() for name in _imported(module, file) - {module})
    return [
        module
        for module, file in source_files().items()
        if importers[module] == 1
        and not file.name.startswith("__")
        and len(file.read_text("utf-8").splitlines()) <= SMALL
    ]


def lines_of_code(file: Path) -> int:
    """Count the lines of a file that are not blank, a comment or part of a docstring."""
    text = file.read_text("utf-8")
    documented = {line for node in ast.walk(ast.parse(text)) for line in _documentation(node)}
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for one in tokens if one.type not in layout for line in range(one.start[0], one.end[0] + 1)}
    return len(code - documented)


def _documentation(node: ast.AST) -> Iterable[int]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return ()


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _is_outcome(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Outcome"


def _is_port_method(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
        and node.name in _PORT_METHODS
        and "info" in {argument.arg for argument in node.args.kwonlyargs}
    )


def _bases(node: ast.ClassDef) -> set[str]:
    return {base.id for base in node.bases if isinstance(base, ast.Name)}


def _imported(module: str, file: Path) -> set[str]:
    """Return the modules of our packages that a file imports, each by its own name."""
    modules = source_files()
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]

    def names() -> Iterator[str]:
        for node in ast.walk(_tree(file)):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: -node.level + 1 or None] if node.level else []
                source = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    whole = f"{source}.{alias.name}"
                    yield whole if whole in modules else source

    return {name for name in names() if name in modules}
