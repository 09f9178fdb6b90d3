"""`karenina doctor`: problems of the installation, configuration, servers and journals, with their cures."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest
from command_runs import make_plugins, run_karenina, write_benchmark

from karenina_cli.commands.doctor_command import check_versions
from karenina_core.plugins import Plugins


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server() -> Iterator[str]:
    """Yield the address of a server that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def findings(*arguments: str | Path, plugins: Plugins | None = None) -> list[tuple[str, str, str]]:
    listed = run_karenina("doctor", *arguments, "--json", plugins=plugins or make_plugins()).json["findings"]
    return [(finding["area"], finding["state"], finding["text"]) for finding in listed]


def with_model(folder: Path, address: str) -> Path:
    file = folder / "models.json"
    file.write_text(
        f'{{"answering_models": [{{"id": "m", "interface": "scripted", "model_name": "m",'
        f' "endpoint_base_url": "{address}"}}]}}'
    )
    return file


def test_an_installation_without_problems_exits_with_0() -> None:
    done = run_karenina("doctor", plugins=make_plugins())
    assert done.code == 0
    assert done.out.endswith("No problems found.\n")


def test_a_model_and_its_server_are_checked(tmp_path: Path, server: str) -> None:
    listed = findings("--config", with_model(tmp_path, server))
    assert ("Models", "ok", "answering model 'm': scripted:m can be used") in listed
    assert ("Servers", "ok", f"{server} accepts connections") in listed


def test_a_server_that_does_not_answer_is_a_problem(tmp_path: Path, server: str) -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        file = with_model(tmp_path, f"http://127.0.0.1:{port}/v1")
        done = run_karenina("doctor", "--config", file, plugins=make_plugins())
    assert done.code == 2
    assert (
        f"could not connect to http://127.0.0.1:{port}/v1 (Connection refused); check that the server is running"
        in done.out
    )
    assert done.err == "1 problem found.\n"


def test_every_problem_of_the_configuration_is_printed() -> None:
    done = run_karenina("doctor", "--set", "evaluation_mod=x", "--set", "replicate_count=0", plugins=make_plugins())
    assert done.code == 2
    assert "did you mean 'evaluation_mode'?" in done.out
    assert "replicate_count" in done.out


def test_a_missing_adapter_is_named_with_its_package(tmp_path: Path) -> None:
    listed = findings("--answering", "claude_tool:m")
    assert any(area == "Models" and state == "problem" and "pip install" in text for area, state, text in listed)


def test_journals_of_the_folder_are_checked(tmp_path: Path) -> None:
    benchmark = write_benchmark(tmp_path, "a", "b", more="config: {evaluation_mode: rubric_only}\n")
    model = '{"id": "m", "interface": "scripted", "model_name": "m"}'
    assert run_karenina("run", benchmark, "-a", model, "-j", model, "-o", "r.jsonl", plugins=make_plugins()).code == 0
    (tmp_path / "broken.journal").write_text("this is not a journal")
    journals = [(state, text) for area, state, text in findings() if area == "Journals"]
    assert ("ok", "r.journal: 2 of 2 items done, not in use") in journals
    assert [text for state, text in journals if state == "problem" and "broken.journal" in text]


def distribution(folder: Path, name: str, version: str, *requires: str, plugin: bool = False) -> Distribution:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Name: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    )
    if plugin:
        (info / "entry_points.txt").write_text("[karenina.stages]\none = one:plugin\n")
    return PathDistribution(info)


def test_requirements_that_do_not_fit_are_problems(tmp_path: Path) -> None:
    installed = [
        distribution(tmp_path, "karenina-core", "0.1.0"),
        distribution(tmp_path, "sommelier", "2.0", "karenina-core>=0.3", "karenina-wine", "requests", plugin=True),
        distribution(tmp_path, "unrelated", "1.0", "karenina-core>=9"),
    ]
    assert [(finding.state, finding.text) for finding in check_versions(installed)] == [
        (
            "problem",
            "sommelier 2.0 requires karenina-core>=0.3, but 0.1.0 is installed; "
            "run `pip install --upgrade sommelier karenina-core`",
        ),
        ("problem", "sommelier 2.0 requires karenina-wine, which is not installed; run `pip install 'karenina-wine'`"),
    ]


def test_a_distribution_that_hides_another_is_a_problem(tmp_path: Path) -> None:
    installed = [
        distribution(tmp_path / "new", "karenina-core", "0.1.0"),
        distribution(tmp_path / "old", "karenina_core", "0.0.9"),
    ]
    (problem, _) = check_versions(installed)
    assert problem.text == (
        f"karenina-core 0.1.0 in {tmp_path / 'new'} hides 0.0.9 in {tmp_path / 'old'}; uninstall one of the two"
    )


def test_a_plugin_that_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    info = distribution(tmp_path, "aviary", "1.0", plugin=True)
    plugins = Plugins.discover(found=list(info.entry_points))
    (problem, *_) = [text for area, state, text in findings(plugins=plugins) if (area, state) == ("Plugins", "problem")]
    assert problem.startswith("one of aviary 1.0 cannot be used: ")
    assert "No module named 'one'" in problem
    assert problem.endswith("or block its plugins with [plugins] block = ['one']")
