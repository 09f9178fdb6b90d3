"""The sources of a command's configuration, and the errors in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from command_runs import make_plugins, run_karenina, write_benchmark

from karenina_benchmark.config.model_specs import parse_model
from karenina_cli.input.configuration import read_configuration, with_settings
from karenina_cli.input.model_options import parse_models
from karenina_core import hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError
from karenina_core.models.adapters import AdapterSpec
from karenina_core.plugins import Plugins

pytestmark = pytest.mark.usefixtures("own_folder")
MODEL = '{"id": "m", "interface": "scripted", "model_name": "m"}'


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("openai:gpt-4o", {"interface": "openai", "model_name": "gpt-4o"}),
        ("openai:llama3:8b", {"interface": "openai", "model_name": "llama3:8b"}),
        (
            "openai:llama3:8b@http://127.0.0.1:9000/v1",
            {"interface": "openai", "model_name": "llama3:8b", "endpoint_base_url": "http://127.0.0.1:9000/v1"},
        ),
        (
            "openai:@cf/meta/llama@https://user@host/v1",
            {"interface": "openai", "model_name": "@cf/meta/llama", "endpoint_base_url": "https://user@host/v1"},
        ),
        ("openai:@cf/meta/llama", {"interface": "openai", "model_name": "@cf/meta/llama"}),
        (
            "openai:m@HTTP://127.0.0.1:9000/v1",
            {"interface": "openai", "model_name": "m", "endpoint_base_url": "HTTP://127.0.0.1:9000/v1"},
        ),
        ("local:/models/a.gguf", {"interface": "local", "model_name": "/models/a.gguf"}),
        ('{"interface": "openai", "temperature": 0}', {"interface": "openai", "temperature": 0}),
    ],
)
def test_a_model_is_written_in_one_word_or_as_json(spec: str, model: dict[str, Any]) -> None:
    assert parse_model(spec) == model


@pytest.mark.parametrize("spec", ["", "gpt-4o", ":gpt-4o", "openai:", "openai:@http://host/v1", "{", "[1]", "{} {}"])
def test_what_names_no_model_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError):
        parse_model(spec)


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("openai:m@localhost:8000/v1", "openai:m@http://localhost:8000/v1?"),
        ("openai:llama3:8b@gpu1:8000/v1", "openai:llama3:8b@http://gpu1:8000/v1?"),
        ("openai:m@api.example.com/v1", "openai:m@https://api.example.com/v1?"),
        ("openai:m@:8000/v1", "openai:m@http://localhost:8000/v1?"),
        ("openai:m@http:/localhost/v1", "openai:m@http://localhost/v1?"),
        ("openai:m@me:hidden@localhost:8000/hidden", "openai:NAME@http://localhost:8000/***?"),
    ],
)
def test_a_server_address_needs_its_scheme(spec: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_model(spec)
    assert f"did you mean {meant}" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_server_address_of_another_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="the base URL of openai:m starts with wss://; use one with http:// or"):
        parse_model("openai:m@wss://localhost:8000/v1")


@pytest.mark.parametrize(
    "spec", ["openai:small@", " openai:small@ ", "openai:llama3:8b@", "openai:@", "gguf:./m.gguf@"]
)
def test_an_empty_server_address_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"the address after the '@' of .* is empty"):
        parse_model(spec)


@pytest.mark.parametrize("name", ["claude-sonnet-4@20250514", "gemini@latest", "/models/me@host.org/a.gguf"])
def test_a_name_may_hold_an_at_sign(name: str) -> None:
    assert parse_model(f"x:{name}") == {"interface": "x", "model_name": name}


def test_ids_are_the_names_numbered_where_they_are_taken() -> None:
    own = '{"id": "b", "interface": "x", "model_name": "a"}'
    models = parse_models(["x:a", "y:a", own, "x:b", "x:a"], [Path("r.jsonl")])

    assert [model["id"] for model in models] == ["a", "a-2", "b", "b-2", "a-3", "r"]


def test_a_number_in_an_id_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    parse_models(["x:m@http://one.org/v1", "x:m@http://two.org/v1"], [Path("a.jsonl"), Path("o/a.jsonl")])
    of_names, of_files = caplog.messages
    assert "'m' is x:m@http://one.org/v1, and 'm-2' is x:m@http://two.org/v1" in of_names
    assert f"'a' is a.jsonl, and 'a-2' is {Path('o/a.jsonl')}" in of_files
    caplog.clear()
    parse_models(["x:m", "x:m", "x:n"])
    assert caplog.messages == [], "equal models need no explanation"


@pytest.mark.parametrize("again", ["a.jsonl", "o/../a.jsonl"])
def test_a_file_of_recordings_is_named_once(again: str) -> None:
    with pytest.raises(
        typer.BadParameter,
        match=r"a\.jsonl (was given more than once|is the same file as a\.jsonl); name each file only once",
    ):
        parse_models([], [Path("a.jsonl"), Path(again)])
    file = Path("a.jsonl")
    with pytest.raises(typer.BadParameter, match=r"the recordings file a\.jsonl was given more than once"):
        parse_models([], [file, file])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["replicate_count=1", "replicate_count=2"],
            "--set replicate_count was given more than once; the last value is used",
        ),
        (["prices.m.input=1", "prices={}"], "--set prices replaces the earlier --set prices.m.input"),
    ],
)
def test_a_setting_that_is_lost_is_named(caplog: pytest.LogCaptureFixture, settings: list[str], said: str) -> None:
    read_configuration(None, None, settings)
    with_settings(read_configuration(None, None, None), settings)

    assert [message.startswith(said) for message in caplog.messages] == [True, True]


def test_each_file_of_recordings_is_a_model(tmp_path: Path) -> None:
    def record(name: str, **more: str) -> Path:
        (tmp_path / name).write_text(json.dumps({"id": "a", "response": "yes", **more}), "utf-8")
        return tmp_path / name

    files = [record("one.jsonl"), record("two.jsonl"), record("r.jsonl", model="m"), record("s.jsonl", model="m")]
    models = parse_models([], files)
    assert [model["id"] for model in models] == ["one", "two", "m", "m-2"]
    assert [model["manual_traces"] for model in models] == list(map(str, files))
    assert [parse_models([], [file])[0]["id"] for file in files] == ["one", "two", "m", "m"]


@dataclass(frozen=True)
class Recorder:
    """A plugin with an adapter that replays recordings."""

    interface: str

    @hookimpl
    def karenina_adapters(self) -> list[AdapterSpec]:
        return [AdapterSpec(interface=self.interface, description="", recorded=True)]


def test_recordings_go_to_the_adapter_that_replays_them() -> None:
    plugins = Plugins()
    with plugin_room.use_plugins(plugins):
        assert parse_models([], [Path("r.jsonl")])[0]["interface"] == "manual", "the one to install"
        plugins.register(Recorder("tape"))
        assert parse_models([], [Path("r.jsonl")])[0]["interface"] == "tape"
        plugins.register(Recorder("disc"))
        with pytest.raises(typer.BadParameter, match="several adapters replay recordings \\(disc, tape\\); select one"):
            parse_models([], [Path("r.jsonl")])


def _run_name(file: Path, *arguments: str, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    done = run_karenina(
        *("run", file, "-a", "scripted:m", "--set", "evaluation_mode=rubric_only", "--json", *arguments),
        plugins=make_plugins(),
    )
    assert done.code == 0, done.err
    return done.json["results"][0]["metadata"]["run_name"]


def test_arguments_beat_the_environment_beats_the_file_beats_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = write_benchmark(tmp_path, "a")
    assert _run_name(plain, env={}, monkeypatch=monkeypatch) is None
    file = write_benchmark(tmp_path, "a", more="config: {run_name: benchmark}\n")
    assert _run_name(file, env={}, monkeypatch=monkeypatch) == "benchmark"
    Path("c.toml").write_text('run_name = "file"')
    assert _run_name(file, "--config", "c.toml", env={}, monkeypatch=monkeypatch) == "file"
    env = {"KARENINA_RUN_NAME": "environment"}
    assert _run_name(file, "--config", "c.toml", env=env, monkeypatch=monkeypatch) == "environment"
    arguments = ("--config", "c.toml", "--set", "run_name=argument")
    assert _run_name(file, *arguments, env=env, monkeypatch=monkeypatch) == "argument"


def test_models_of_the_command_line_replace_those_of_files(tmp_path: Path) -> None:
    file = write_benchmark(
        tmp_path, "a", more=f"config: {{answering_models: [{MODEL}], evaluation_mode: rubric_only}}\n"
    )

    ids = [
        [
            result["metadata"]["answering_id"]
            for result in run_karenina(*arguments, "--json", plugins=make_plugins()).json["results"]
        ]
        for arguments in (("run", file), ("run", file, "-a", "scripted:n"))
    ]

    assert ids == [["m"], ["n"]]


@pytest.mark.parametrize(
    "value",
    [
        '{generate_answer="Shout"}',
        '{generate_answer = ["Shout"]}',
        '{"generate_answer": "Shout"}',
        '{"generate_answer": ["Shout"]}',
    ],
)
def test_a_value_of_set_is_toml_or_json(value: str) -> None:
    with plugin_room.use_plugins(make_plugins()):
        assert read_configuration(None, None, [f"slots={value}"]).core.slots == {"generate_answer": ("Shout",)}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("run_name=[draft]", "[draft]"),
        ("run_name=true", "true"),
        ("replicate_count=1_0", 10),
        ("replicate_count=3 # as last week", 3),
        ("rubric_trait_names=['a', \"b\"]", ("a", "b")),
        ("rubric_trait_names=null", None),
    ],
)
def test_a_value_of_set_is_read_by_its_type(setting: str, value: Any) -> None:
    with plugin_room.use_plugins(make_plugins()):
        config = read_configuration(None, None, [setting])
    assert config.setting(setting.partition("=")[0]) == value


@pytest.mark.parametrize(
    "value", ["{generate_answer=Shout}", "[1, 2", "{a = 1}\nslots = {}", "[" * 5000, "{a = 0x" + "f" * 5000 + "}"]
)
def test_a_table_that_is_neither_is_refused(value: str) -> None:
    done = run_karenina("plan", "--set", f"slots={value}", plugins=make_plugins())
    assert done.code == 2
    assert "--set slots: the value is neither valid TOML nor valid JSON" in done.err
    assert "Shout" not in done.err


def test_one_key_of_a_table_can_be_set(tmp_path: Path) -> None:
    done = run_karenina("plan", "--set", "slots.generate_answer=Shout", plugins=make_plugins())

    assert done.code == 2
    assert "[slots] generate_answer selects Shout" in done.err


def test_a_problem_names_the_place_that_it_comes_from(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", more="config: {replicate_count: -1}\n")
    Path("c.toml").write_text("request_timeout = 0")

    done = run_karenina("run", file, "--config", "c.toml", "--set", "nonsense=1", plugins=make_plugins())

    assert done.code == 2
    problems = done.err.removeprefix("Error: ")
    assert "--set, nonsense: " in problems
    assert "c.toml, request_timeout: " in problems
    assert f"the config section of {file}, replicate_count: " in problems


def test_recordings_of_a_file_are_sought_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    traces = '{"id": "m", "interface": "scripted", "model_name": "m", "manual_traces": "answers.jsonl"}'
    from karenina_benchmark import Benchmark
    from karenina_cli.input.configuration import read_configuration

    file = write_benchmark(tmp_path / "sub", "a", more=f"config: {{answering_models: [{traces}]}}\n")
    (model,) = read_configuration(Benchmark.load(file), None, None).core.answering_models
    assert model.manual_traces == tmp_path / "sub" / "answers.jsonl"
    (model,) = read_configuration(
        Benchmark.load(file), None, None, recordings=[Path("answers.jsonl")]
    ).core.answering_models
    assert model.manual_traces == Path("answers.jsonl")


def test_config_lists_every_name_with_its_properties() -> None:
    settings = {setting["name"]: setting for setting in run_karenina("config", "--json").json["settings"]}

    assert settings["replicate_count"] == {
        "name": "replicate_count",
        "owner": "karenina-core",
        "type": "whole number, at least 1",
        "default": 1,
        "environment": ["KARENINA_REPLICATE_COUNT"],
        "allowed_in_files": "any",
        "meaning": "How many times each question is answered.",
        "fields": {},
    }
    printed = run_karenina("config").out
    assert all(f"{name} = " in printed and setting["meaning"] in printed for name, setting in settings.items())


def test_config_of_one_name_and_of_none() -> None:
    assert [setting["name"] for setting in run_karenina("config", "run_name", "--json").json["settings"]] == [
        "run_name"
    ]
    refused = run_karenina("config", "run_nam")
    assert (refused.code, "did you mean 'run_name'?" in refused.err) == (2, True)


def test_the_schema_has_exactly_the_names_with_types_and_bounds() -> None:
    schema = run_karenina("config", "--schema").json
    names = {setting["name"] for setting in run_karenina("config", "--json").json["settings"]}

    assert set(schema["properties"]) == names
    assert schema["additionalProperties"] is False
    assert schema["properties"]["replicate_count"]["minimum"] == 1
    assert schema["properties"]["answering_models"]["items"] == {"$ref": "#/$defs/ModelConfig"}
    assert schema["$defs"]["ModelConfig"]["required"] == ["id", "interface", "model_name"]


def test_plan_prints_its_stages_and_what_is_left_out() -> None:
    done = run_karenina("plan", "--set", "evaluation_mode=rubric_only", "--json", plugins=make_plugins())

    assert [
        (stage["name"], stage["slot"], stage["distribution"], stage["version"]) for stage in done.json["stages"]
    ] == [
        ("Say", "generate_answer", "karenina-test", "1.2"),
        ("FinalizeResult", "finalize_result", "karenina-test", "1.2"),
    ]
    assert done.json["left_out"] == []
    assert done.json["stages"][1]["waits_for"] == [{"artifact": None, "stage": "Say", "why": "reads everything"}]
    printed = run_karenina("plan", "--set", "evaluation_mode=rubric_only", plugins=make_plugins()).out
    assert printed.index("Say") < printed.index("FinalizeResult")


def test_an_impossible_plan_is_reported_with_the_cure() -> None:
    done = run_karenina("plan", plugins=make_plugins())

    assert done.code == 2
    assert "slot parse_template needs a stage, but none was selected" in done.err
    assert done.out == ""


class _Adds:
    """A plugin that adds a command with an argument of the given type."""

    def __init__(self, type: object) -> None:
        self.type = type

    @hookimpl
    def karenina_commands(self, app: typer.Typer) -> None:
        def greet(name: Any) -> None:
            typer.echo(f"hello {name}")

        greet.__annotations__["name"] = self.type
        app.command("greet")(greet)


class _AddsGroups:
    """A plugin that adds a group that works and one that cannot be built."""

    @hookimpl
    def karenina_commands(self, app: typer.Typer) -> None:
        broken, sound = typer.Typer(), typer.Typer()
        broken.command("say")(3)  # type: ignore[type-var]  # what a plugin does by mistake
        sound.command("hi")(lambda: typer.echo("hi"))
        sound.command("ho")(lambda: typer.echo("ho"))
        app.add_typer(broken, name="broken")
        app.add_typer(sound, name="sound")


class _AddsCallback:
    """A plugin that replaces the global options with some that cannot be built."""

    @hookimpl
    def karenina_commands(self, app: typer.Typer) -> None:
        @app.callback()
        def replace(word: int | dict[str, int]) -> None:
            """Replace the options."""


def test_a_plugins_callback_replaces_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    plugins = Plugins()
    plugins.register(_AddsCallback())

    assert run_karenina("--version", plugins=plugins).code == 0
    assert "Warning: the callback of this-program 0 was ignored because it would replace" in capsys.readouterr().err


def test_a_plugin_adds_a_command() -> None:
    plugins = Plugins()
    plugins.register(_Adds(str))

    assert run_karenina("greet", "you", plugins=plugins).out == "hello you\n"


def test_a_command_that_two_plugins_add_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    plugins = Plugins()
    plugins.register(_Adds(int), distribution="counts")
    plugins.register(_Adds(str), distribution="reads")

    assert run_karenina("greet", "you", plugins=plugins).out == "hello you\n"
    why = "reads 0 has one with that name; uninstall one of them"
    assert f"Warning: the command 'greet' of counts 0 was ignored because {why}." in capsys.readouterr().err


def test_a_broken_plugin_command_leaves_other_commands_usable(capsys: pytest.CaptureFixture[str]) -> None:
    plugins = Plugins()
    plugins.register(_Adds("Missing"))

    plugins.register(_AddsGroups(), distribution="sound-one")

    assert run_karenina("config", "--json", plugins=plugins).json["settings"]
    printed = capsys.readouterr().err
    assert "Warning: the command 'greet' of this-program 0 was ignored because it cannot be built: " in printed
    assert "Warning: the command 'broken' of sound-one 0 was ignored because it cannot be built: " in printed
    assert run_karenina("sound", "hi", plugins=plugins).out == "hi\n"
