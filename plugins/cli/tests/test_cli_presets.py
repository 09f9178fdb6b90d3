"""`karenina config save`, `list` and `delete`, and `--config NAME`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_runs import make_plugins, run_karenina, write_benchmark

SECRET = "sk-very-secret"
MODEL = {"id": "m", "interface": "scripted", "model_name": "m", "endpoint_api_key": SECRET}


@pytest.fixture(autouse=True)
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the presets folder of a user without presets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "presets"


def save(name: str = "nightly") -> None:
    options = ("-a", json.dumps(MODEL), "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")
    assert run_karenina("config", "save", name, *options, plugins=make_plugins()).code == 0


def test_a_saved_preset_configures_a_run_which_names_it(tmp_path: Path, presets: Path) -> None:
    save()
    done = run_karenina("run", write_benchmark(tmp_path, "q1"), "-c", "nightly", "--json", plugins=make_plugins())

    assert f"Using the preset 'nightly' as the configuration ({presets / 'nightly.json'})." in done.err
    assert (done.code, done.json["results"][0]["metadata"]["answering_id"]) == (0, "m")


def test_a_preset_has_what_the_options_give_without_keys(
    presets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KARENINA_RUN_NAME", "of the environment")
    (tmp_path / "base.toml").write_text("replicate_count = 2\nevaluation_mode = 'rubric_only'\n", "utf-8")
    options = ("-c", "base.toml", "--set", "replicate_count=3", "-a", json.dumps(MODEL))
    done = run_karenina("config", "save", "nightly", *options, plugins=make_plugins())

    text = (presets / "nightly.json").read_text("utf-8")
    stored = {name: value for name, value in MODEL.items() if value != SECRET}
    expected = {"replicate_count": 3, "evaluation_mode": "rubric_only", "answering_models": [stored]}
    assert json.loads(text) == expected
    assert "some settings were not saved because they may be secret: answering_models.m.endpoint_api_key" in done.err
    assert SECRET not in done.err
    assert (presets / "nightly.json").stat().st_mode & 0o077 == 0


def test_presets_are_listed_and_deleted(presets: Path) -> None:
    save()
    save("weekly")
    listed = run_karenina("config", "list")
    deleted = run_karenina("config", "delete", "nightly")

    assert "nightly" in listed.out
    assert "answering_models, evaluation_mode, parsing_models" in listed.out
    assert deleted.err == f"Deleted the preset 'nightly' ({presets / 'nightly.json'}).\n"
    assert [preset["name"] for preset in run_karenina("config", "list", "--json").json["presets"]] == ["weekly"]


def test_a_file_is_used_before_a_preset_of_its_name(tmp_path: Path) -> None:
    save()
    (tmp_path / "nightly").write_text("x = 1", "utf-8")
    done = run_karenina("plan", "-c", "nightly", plugins=make_plugins())

    assert "Using the file 'nightly' in this folder as the configuration, not the preset" in done.err
    assert "the file extension '' is not supported" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "-c", "nightli"), "no file or preset is named 'nightli'; did you mean 'nightly'?"),
        (("config", "delete", "nightli"), "the preset 'nightli' does not exist; did you mean 'nightly'?"),
        (("config", "sav", "x"), "unknown configuration name 'sav'; did you mean 'save'?"),
        (("config", "save"), "requires the name of a preset"),
        (("config", "save", "x"), "there is nothing to save"),
        (("config", "save", "../x", "--set", "replicate_count=2"), "'../x' is not a valid preset name"),
        (("config", "list", "--set", "replicate_count=2"), "have no effect on `config list`"),
        (("config", "save", "x", "--set", "replicate_cuont=2"), "did you mean 'replicate_count'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_use_of_presets_is_an_error(arguments: tuple[str, ...], message: str) -> None:
    save()
    done = run_karenina(*arguments, plugins=make_plugins())
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_preset_that_others_could_write_is_refused(presets: Path) -> None:
    save()
    presets.joinpath("nightly.json").chmod(0o666)
    done = run_karenina("plan", "-c", "nightly", plugins=make_plugins())
    assert (done.code, "is writable by every user" in done.err) == (2, True)
