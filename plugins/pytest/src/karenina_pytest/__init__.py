"""A pytest plugin that collects `*.karenina.yaml` files, with one test for each question.

The rest of Karenina is only imported if there is such a file.

Options decide where requests and keys are sent, and which code is run. They are only accepted on the command line and
in PYTEST_ADDOPTS, because pytest reads its configuration file from the test folder, which may be someone else's.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Final

import pytest

GROUPS = pytest.StashKey[list[tuple[str, list[list[str]]]]]()
"""The tables to print for files with several answering models or judges, each with the file's name."""
SUFFIXES = (".karenina.yaml", ".karenina.yml")
FROM_FILES: Final = pytest.StashKey[str]()
"""The error about options in pytest's configuration file, or an empty string."""
_OF_WORKERS: Final = "karenina_from_files"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options that correspond to those of `karenina run`, and the ini option `karenina_config`, which has no
    effect.
    """
    group = parser.getgroup("karenina")
    group.addoption("--karenina-config", metavar="FILE", help="a configuration file: TOML, YAML or JSON")
    group.addoption(
        "--karenina-answering", metavar="SPEC", action="append", help="a model under test: interface:model_name"
    )
    group.addoption("--karenina-judge", metavar="SPEC", action="append", help="a judge: interface:model_name")
    group.addoption(
        "--karenina-recordings",
        metavar="FILE",
        action="append",
        help="judge the answers in this file; each file counts as a model",
    )
    group.addoption("--karenina-set", metavar="NAME=VALUE", action="append", help="set a configuration value")
    group.addoption(
        "--karenina-journal",
        metavar="FOLDER",
        help="store replies and results in this folder, so that calls are not repeated",
    )
    group.addoption(
        "--karenina-trust-all",
        action="store_true",
        help="trust these files: run their code and use their restricted values (only for your own files)",
    )
    parser.addini("karenina_config", help="has no effect; use --karenina-config on the command line", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Store the error about options in pytest's configuration file. It is raised with the first benchmark."""
    worker = getattr(config, "workerinput", None)  # a pytest-xdist worker does not have the user's command line
    config.stash[FROM_FILES] = _find_error(config) if worker is None else worker[_OF_WORKERS]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the error about pytest's configuration file to a pytest-xdist worker."""
    node.workerinput[_OF_WORKERS] = node.config.stash[FROM_FILES]


def _find_error(config: pytest.Config) -> str:
    """Return an error message if a pytest configuration file sets options of this plugin, otherwise an empty string."""
    words = [*map(str, config.invocation_params.args), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    names = ", ".join(_options_of_files(config, words))
    if not names:
        return ""
    return (
        f"{config.inipath or 'the pytest configuration'} sets {names}, which decides where requests and keys are "
        "sent, or which code runs. The file may have been written by someone else, so the setting has no effect. "
        "Remove the setting from the file, and specify it on the command line (or in PYTEST_ADDOPTS)"
    )


def _options_of_files(config: pytest.Config, words: Sequence[str]) -> Iterator[str]:
    """Yield the options that are set but not in `words`, which are the user's own arguments."""
    if config.getini("karenina_config") and not config.getoption("karenina_config"):
        yield f"karenina_config (--karenina-config {config.getini('karenina_config')})"
    for name, value in vars(config.option).items():
        if not name.startswith("karenina_") or not value:
            continue
        option = f"--{name.replace('_', '-')}"
        count = sum(word == option or word.startswith(f"{option}=") for word in words)
        if count < (len(value) if isinstance(value, list) else 1):
            yield option


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file whose name ends with one of `SUFFIXES`. Returns None for other files."""
    if not file_path.name.endswith(SUFFIXES):
        return None
    from karenina_pytest.items import BenchmarkFile

    collected: pytest.Collector = BenchmarkFile.from_parent(parent, path=file_path)
    return collected


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the pass rates of files with several answering models or judges."""
    for name, table in config.stash.get(GROUPS, ()):
        from karenina_engine.results.summary_text import GROUP_TEXTS
        from karenina_terminal.text_layout import format_table

        terminalreporter.section(name)
        for line in format_table(table, get_terminal_size().columns, GROUP_TEXTS):
            terminalreporter.write_line(line)
