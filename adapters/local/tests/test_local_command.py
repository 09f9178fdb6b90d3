from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from karenina_local.catalogue import model_named
from karenina_local.commands import commands
from karenina_local.store import path_of


@pytest.fixture
def karenina() -> typer.Typer:
    """A command line with nothing but ours in it."""
    app = typer.Typer()
    commands.karenina_commands(app)
    app.command("other")(lambda: None)
    return app


def run(app: typer.Typer, *words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["model", *words])
    return result.exit_code, result.stdout, result.stderr


def test_list_shows_which_models_are_installed(karenina: typer.Typer, empty_folder: Path) -> None:
    code, said, _ = run(karenina, "list")
    assert code == 0
    assert "qwen2.5-coder-0.5b  491 MB  Apache-2.0  not installed" in said
    assert model_named("smollm2-135m").good_for in said


def test_list_as_json(karenina: typer.Typer, empty_folder: Path) -> None:
    code, said, _ = run(karenina, "list", "--json")
    found = json.loads(said)
    assert code == 0
    assert found["folder"] == str(empty_folder)
    assert [model["installed"] for model in found["models"]] == [False, False, False]
    assert found["models"][0]["sha256"] == model_named("smollm2-135m").sha256


def test_pull_from_a_file_then_remove(karenina: typer.Typer, smollm2: Path, empty_folder: Path) -> None:
    code, said, noted = run(karenina, "pull", "smollm2-135m", "--from", str(smollm2), "--json")
    assert (code, json.loads(said)["installed"], json.loads(said)["pulled"]) == (0, True, True)
    assert "98 MB, licence Apache-2.0" in noted
    assert json.loads(run(karenina, "pull", "smollm2-135m", "--json")[1])["pulled"] is False
    assert json.loads(run(karenina, "remove", "smollm2-135m", "--json")[1])["removed"] is True
    assert not path_of(model_named("smollm2-135m")).exists()
    assert run(karenina, "remove", "smollm2-135m")[:2] == (0, "smollm2-135m is not installed\n")


def test_bench_tells_tokens_a_second_of_any_gguf_file(karenina: typer.Typer, two_layers: Path) -> None:
    words = ("bench", str(two_layers), "--calls", "2", "--tokens", "8")
    code, said, _ = run(karenina, *words, "--json")
    found = json.loads(said)
    assert (code, found["calls"], found["written_tokens"]) == (0, 2, 16)
    assert found["read_tokens"] > 100
    assert found["read_per_second"] == pytest.approx(1000 * found["read_tokens"] / found["read_ms"])
    assert found["written_per_second"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pull", "smollm"), "no model is named 'smollm'"),
        (("remove", "gpt-5"), "no model is named 'gpt-5'. The catalogue contains smollm2-135m"),
        (("bench", "nowhere.gguf"), "the model file nowhere.gguf does not exist"),
        (("pull", "smollm2-135m", "--from", "nowhere.gguf"), "the file nowhere.gguf of smollm2-135m does not exist"),
        (("pull", "smollm2-135m", "--from", __file__), "not the official file: expected 98362432 bytes"),
    ],
)
def test_bad_input_is_exit_code_2_and_a_sentence(
    karenina: typer.Typer, empty_folder: Path, words: tuple[str, ...], message: str
) -> None:
    code, said, noted = run(karenina, *words)
    assert (code, said) == (2, "")
    assert message in noted


def test_entry_points_load_nothing_heavy() -> None:
    code = (
        "import sys; from karenina_local import plugin; from karenina_local.commands import commands;"
        "plugin.karenina_adapters();"
        "print([name for name in ('xllamacpp', 'pyreqwest', 'karenina_openai', 'typer', 'rich', 'numpy',"
        " 'platformdirs')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
