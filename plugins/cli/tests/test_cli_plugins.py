"""`karenina plugins`: adapters, their ports, and their missing requirements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from command_runs import run_karenina
from folders import write_files
from typer.testing import CliRunner

from karenina_cli.app import build_app
from karenina_core import hookimpl
from karenina_core.catalog import install_command, read_catalog
from karenina_core.errors import PluginError
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_core.plugins import Plugins, use_plugins
from karenina_toolkit.plugin_lookup import find_adapter

pytestmark = pytest.mark.alone

LINE = 'telegraph-keys is not installed: pip install "telegraph[keys]"'


@dataclass(eq=False)
class Telegraph:
    """An adapter with two ports, which may not be available."""

    unavailable: Callable[[], str | None] | None = None

    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        def port(_: Any) -> Any:
            raise NotImplementedError

        return [
            AdapterSpec(
                interface="telegraph",
                description="Speaks in dots.",
                tier=AgentTier.DEEP_AGENT,
                llm=port,
                agent=port,
                unavailable=self.unavailable,
            )
        ]


Installed = Callable[[Callable[[], str | None] | None], Plugins]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Install the telegraph as metadata in a folder. The returned value becomes its `unavailable`."""
    folder = tmp_path / "telegraph-2.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: telegraph\nVersion: 2.1\n")
    (folder / "entry_points.txt").write_text("[karenina.adapters]\ntelegraph = telegraph:plugin\n")

    def install(unavailable: Callable[[], str | None] | None) -> Plugins:
        module = ModuleType("telegraph")
        module.plugin = Telegraph(unavailable)  # type: ignore[attr-defined]  # made here
        monkeypatch.setitem(sys.modules, "telegraph", module)
        return Plugins.discover(found=[*distribution_in(tmp_path).entry_points])

    return install


def distribution_in(folder: Path) -> Distribution:
    (distribution,) = distributions(path=[str(folder)])
    return distribution


def fails() -> str:
    raise LookupError("no wire")


def adapters(plugins: Plugins | None = None) -> dict[str, dict[str, Any]]:
    listed = run_karenina("plugins", "--json", plugins=plugins).json["plugins"]
    return {plugin["name"]: plugin for plugin in listed if plugin["kind"] == "adapter"}


@pytest.mark.parametrize(
    ("unavailable", "reason"),
    [
        (None, None),
        (lambda: None, None),
        (lambda: LINE, LINE),
        (fails, "the availability check failed: LookupError: no wire"),
    ],
)
def test_an_adapter_is_listed_with_tier_ports_and_availability(
    unavailable: Callable[[], str | None] | None, reason: str | None, installed: Installed
) -> None:
    assert adapters(installed(unavailable))["telegraph"] == {
        "name": "telegraph",
        "kind": "adapter",
        "distribution": "telegraph",
        "version": "2.1",
        "state": "loaded",
        "failure": None,
        "description": "Speaks in dots.",
        "tier": "deep_agent",
        "ports": ["llm", "agent"],
        "available": reason is None,
        "reason": reason,
    }


def test_missing_adapters_are_listed_with_their_install_command() -> None:
    listed = adapters()
    assert listed.keys() == read_catalog()["adapters"].keys()
    assert listed["claude_agent_sdk"]["tier"] == "deep_agent"
    assert listed["claude_agent_sdk"]["reason"].endswith(install_command("karenina-claude-agent-sdk"))
    for name, adapter in listed.items():
        owner = read_catalog()["adapters"][name]
        assert (adapter["state"], adapter["version"], adapter["available"]) == ("not installed", None, False)
        assert adapter["reason"] == f"{owner} is not installed: {install_command(owner)}"
        assert adapter["ports"]


@pytest.mark.parametrize("width", [60, 400])
def test_the_line_to_copy_is_whole_whatever_the_width(width: int, installed: Installed) -> None:
    out = run_karenina("plugins", plugins=installed(lambda: LINE), width=width).out
    assert f"telegraph is not available: {LINE}\n" in out
    assert f"openai is not available: karenina-openai is not installed: {install_command('karenina-openai')}\n" in out


@pytest.mark.parametrize(("unavailable", "word"), [(None, "available"), (lambda: LINE, "not available")])
def test_the_table_tells_tier_ports_and_availability(
    unavailable: Callable[[], str | None] | None, word: str, installed: Installed
) -> None:
    out = run_karenina("plugins", plugins=installed(unavailable)).out
    assert f"Speaks in dots. (llm, agent; deep_agent; {word})" in out


def test_a_plugin_without_details_takes_one_line() -> None:
    lines = run_karenina("plugins", plugins=Plugins.discover()).out.splitlines()

    assert any(line.startswith("  ParseTemplate  loaded") for line in lines)
    assert "" not in [line.strip() for line in lines]


@pytest.fixture
def morse(tmp_path: Path) -> Plugins:
    """Installed plugins, one of which cannot be loaded."""
    points = "[karenina.plugins]\nmorse = morse_is_gone:plugin\n"
    files = {"METADATA": "Name: morse\nVersion: 2.1\n", "entry_points.txt": points}
    write_files(tmp_path / "morse-2.1.dist-info", files)
    return Plugins.discover(found=[*distribution_in(tmp_path).entry_points])


def test_a_plugin_without_a_library_names_what_pip_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module and its distribution can have different names, such as `yaml` and PyYAML."""
    folder = tmp_path / "morse-2.1.dist-info"
    folder.mkdir()
    requirements = ["py-telegraph-key>=2", "typer", 'py-wire; extra == "wire"']
    (folder / "METADATA").write_text(
        "Name: morse\nVersion: 2.1\n" + "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
    )
    (folder / "entry_points.txt").write_text("[karenina.plugins]\nmorse = morse_plugin:plugin\n")
    (tmp_path / "morse_plugin.py").write_text("import telegraph_key\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins = Plugins.discover(found=[*distribution_in(tmp_path).entry_points])
    done = run_karenina("plugins", plugins=plugins)

    assert "ModuleNotFoundError: No module named 'telegraph_key'" in done.out
    missing = "morse requires packages that are not installed (py-telegraph-key>=2)"
    assert f"{missing}: pip install 'py-telegraph-key>=2'" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--set", "speed=3"],
        ["plan", "--set", "replicate_cuont=3"],
        ["plan", "--set", 'slots={"parse_template": "ParseMorse"}'],
        ["primitives", "MorseMatch"],
        ["traits", "morse"],
        ["morse"],
    ],
)
def test_errors_about_unknown_names_name_what_was_not_loaded(arguments: list[str], morse: Plugins) -> None:
    refused = run_karenina(*arguments, plugins=morse)

    assert refused.code == 2
    said = " ".join(refused.err.split())
    assert " (plugins that could not be loaded: morse 2.1: ModuleNotFoundError: No module named 'morse_is_gone'" in said
    assert "?." not in said


def test_an_unknown_adapter_names_what_was_not_loaded(morse: Plugins) -> None:
    with pytest.raises(PluginError, match=r"there is no adapter 'dots'.*could not be loaded: morse 2\.1"):
        find_adapter(morse, "dots")


def test_an_error_in_the_command_of_a_plugin_names_it() -> None:
    class Adds:
        @hookimpl
        def karenina_commands(self, app: typer.Typer) -> None:
            @app.command("dots")
            def dots() -> None:
                raise ZeroDivisionError("no dots")

    plugins = Plugins()
    plugins.register(Adds(), distribution="morse", version="2.1")
    with use_plugins(plugins):
        done = CliRunner().invoke(build_app(), ["dots"])

    assert isinstance(done.exception, ZeroDivisionError)
    assert done.exception.__notes__ == ["This error occurred in the 'dots' command of morse 2.1."]


def test_the_cure_of_a_conflict_blocks_the_plugin_of_others() -> None:
    plugins = Plugins()
    for distribution in ("karenina-openai", "a-telegraph", "z-telegraph"):
        plugins.register(Telegraph(), distribution=distribution)
    with pytest.raises(PluginError, match=r"'telegraph' \(karenina-openai 0 and .*block = \[\"z-telegraph\"\]"):
        find_adapter(plugins, "telegraph")
