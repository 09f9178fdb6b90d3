"""`karenina init` writes a benchmark and a configuration that need no change to be checked and planned."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from karenina_cli.app import build_app

pytestmark = pytest.mark.alone


def karenina(*arguments: str | Path) -> Result:
    """Return the result of the command."""
    return CliRunner().invoke(build_app(), [str(argument) for argument in arguments])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder after `karenina init`."""
    done = karenina("init", tmp_path / "my project")
    assert done.exit_code == 0, done.output
    return tmp_path / "my project"


def test_the_files_pass_the_check_without_a_warning(project: Path) -> None:
    done = karenina("check", project / "benchmark.yaml", "--config", project / "karenina.toml", "--strict")

    assert (done.exit_code, done.stdout) == (0, "2 questions read: 0 errors, 0 warnings.\n"), done.output


def test_the_files_have_a_plan(project: Path) -> None:
    done = karenina("plan", project / "benchmark.yaml", "--config", project / "karenina.toml", "--json")

    assert done.exit_code == 0, done.output
    names = [stage["name"] for stage in json.loads(done.stdout)["stages"]]
    assert {"GenerateAnswer", "ParseTemplate", "RubricEvaluation"} <= set(names)


def test_the_benchmark_names_its_schema_and_fits_it(project: Path) -> None:
    text = (project / "benchmark.yaml").read_text("utf-8")
    schema = json.loads((project / "benchmark.schema.json").read_text("utf-8"))

    assert text.startswith("# yaml-language-server: $schema=benchmark.schema.json\n")
    jsonschema.validate(yaml.safe_load(text), schema)


def test_the_conversation_in_the_comments_can_be_uncommented(project: Path) -> None:
    file = project / "benchmark.yaml"
    before, comments = file.read_text("utf-8").split("  # - id: imatinib-pressure")
    text = f"{before}  - id: imatinib-pressure" + comments.replace("\n  # ", "\n  ")
    file.write_text(text, "utf-8")
    done = karenina("check", file, "--config", project / "karenina.toml", "--strict")

    assert (done.exit_code, done.stdout) == (0, "3 questions read: 0 errors, 0 warnings.\n"), done.output
    jsonschema.validate(yaml.safe_load(text), json.loads((project / "benchmark.schema.json").read_text("utf-8")))


def test_the_next_steps_can_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = karenina("init", "my project")

    assert "    karenina check 'my project/benchmark.yaml' --config 'my project/karenina.toml'\n" in done.stdout


@pytest.mark.parametrize("name", ["benchmark.yaml", "karenina.toml", "benchmark.schema.json"])
def test_an_existing_file_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")

    done = karenina("init", tmp_path)

    assert done.exit_code == 2
    assert f"{tmp_path / name} already exists; move the file" in done.stderr
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "mine")]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = karenina("init", tmp_path / "file")

    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
