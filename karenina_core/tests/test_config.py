"""Configuration: settings with one owner each, four sources of values, and all problems in one error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

import pytest
from plugin_makers import offering
from pydantic import AfterValidator, BaseModel, Field, model_validator

from karenina_benchmark.config.config_files import read_config
from karenina_core import ModelConfig, Stage, VerificationConfig, VerificationContext
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command, read_catalog
from karenina_core.config import all_settings
from karenina_core.errors import ConfigError
from karenina_core.models.prompts import PromptTask
from karenina_core.plugins import Plugins


class TasteSettings(BaseModel):
    taste_threshold: float = Field(
        default=0.5, ge=0, le=1, description="How sweet.", json_schema_extra={"env": "TASTE_THRESHOLD"}
    )
    taste_words: tuple[str, ...] = Field(default=(), description="Which words.")


class Idle(Stage):
    def execute(self, context: VerificationContext) -> None:
        """Do nothing: these stages are only planned."""


class Taste(Idle):
    name = "Taste"
    settings = TasteSettings
    prompts = (PromptTask("taste_check", "Taste it.", family="senses"),)


@pytest.fixture(autouse=True)
def taste() -> Iterator[None]:
    plugins = Plugins()
    plugins.register(offering(karenina_extra_stages=[Taste]), distribution="karenina-taste", version="1")
    with plugin_room.use_plugins(plugins):
        yield


def test_a_plugins_names_are_flat_beside_the_cores() -> None:
    config = VerificationConfig(taste_threshold=0.9, replicate_count=3)
    assert (config.taste_threshold, config.replicate_count) == (0.9, 3)
    assert config.section(TasteSettings).taste_threshold == 0.9
    assert config.core.replicate_count == 3


def test_a_table_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_SLOTS", '{"parse_template": "MyParse"}')

    assert VerificationConfig().slots == {"parse_template": ("MyParse",)}


def test_argument_beats_environment_beats_file_beats_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.toml"
    file.write_text('replicate_count = 2\nrun_name = "file"\ntaste_threshold = 0.1\n')
    monkeypatch.setenv("KARENINA_RUN_NAME", "environment")
    monkeypatch.setenv("TASTE_THRESHOLD", "0.2")
    config = read_config(file, taste_threshold=0.3)
    assert (config.taste_threshold, config.run_name, config.replicate_count) == (0.3, "environment", 2)
    assert config.request_timeout == 120.0
    assert read_config(file).taste_threshold == 0.2


@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".json"])
def test_every_file_format_says_the_same(tmp_path: Path, suffix: str) -> None:
    text = {
        ".toml": 'replicate_count = 2\n[slots]\nparse_template = "Other"\n',
        ".yaml": "replicate_count: 2\nslots: {parse_template: Other}\n",
        ".json": json.dumps({"replicate_count": 2, "slots": {"parse_template": "Other"}}),
    }
    file = tmp_path / f"run{suffix}"
    file.write_text(text[suffix])
    config = read_config(file)
    assert (config.replicate_count, config.core.slots) == (2, {"parse_template": ("Other",)})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"replicate_cuont": 2},
            "replicate_cuont: unknown configuration name; did you mean 'replicate_count'?",
        ),
        ({"taste_threshold": 2}, "taste_threshold (of karenina-taste): must be less than or equal to 1, not 2"),
        ({"evaluation_mode": "fast"}, "evaluation_mode: must be 'template_only'"),
        ({"max_reply_bytes": 1.5}, "max_reply_bytes: must be an integer, not 1.5"),
        ({"request_timeout": float("inf")}, "request_timeout: must be a finite number, not inf"),
        (
            {"answering_models": [{"interface": "x", "model_name": "y", "request_timeout": "inf"}]},
            "answering_models.0.request_timeout: must be a finite number",
        ),
        ({"parsing_only": []}, "parsing_only: must be true or false"),
        ({"rubric_trait_names": "maybe"}, 'rubric_trait_names: must be a list, such as ["a", "b"]'),
        ({"prompt_config": "maybe"}, 'prompt_config: must be a mapping, such as {"name": "value"}'),
        ({"slots": {"parse": "X"}}, "slots: unknown slot 'parse'"),
        ({"answering_models": [{"id": "a"}]}, "answering_models.0.interface: this field is required; add it"),
        (
            {"parsing_models": [{"id": "a", "interface": "x", "model_name": "y"}] * 2},
            "parsing_models: two models have the id 'a'",
        ),
        (
            {"answering_models": [{"id": "a", "interface": "x", "model_name": "y", "temprature": 0}]},
            "answering_models.0.temprature: unknown name; did you mean 'temperature'?",
        ),
        ({"plugins": {"blok": []}}, "plugins.blok: unknown name; did you mean 'block'?"),
    ],
)
def test_bad_values_say_what_where_and_whose(values: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        VerificationConfig(**values)
    assert says in str(caught.value)


def test_settings_that_raise_are_named() -> None:
    def fail(value: int) -> int:
        raise KeyError("oops")

    class Broken(BaseModel):
        depth: Annotated[int, AfterValidator(fail)] = 1

    plugin_room.active_plugins().register(offering(karenina_settings=[Broken]))
    assert VerificationConfig().depth == 1
    with pytest.raises(ConfigError, match=r"the settings test_config\.Broken failed: KeyError: 'oops'"):
        VerificationConfig(depth=3)


def test_a_setting_with_an_alias_is_set_by_its_name() -> None:
    class Aliased(BaseModel):
        depth: int = Field(default=1, alias="how_deep")

    plugin_room.active_plugins().register(offering(karenina_settings=[Aliased]))
    config = VerificationConfig(depth=3)
    assert (config.depth, config.section(Aliased).depth) == (3, 3)


def test_a_name_that_is_pythons_own_is_unknown_too(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"self": 1}', "utf-8")
    with pytest.raises(ConfigError, match="self: unknown configuration name"):
        read_config(tmp_path / "config.json")


def test_all_problems_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        VerificationConfig(replicate_cuont=2, taste_threshold=2, replicate_count=0)
    assert len(caught.value.problems) == 3


def test_two_owners_of_one_setting_are_an_error() -> None:
    class Rival(BaseModel):
        taste_threshold: int = 3

    class RivalStage(Idle):
        name = "Rival"
        settings = Rival

    plugin_room.active_plugins().register(offering(karenina_extra_stages=[RivalStage]), distribution="karenina-rival")
    with pytest.raises(ConfigError, match=r"karenina-rival .*karenina-taste|karenina-taste .*karenina-rival"):
        all_settings()


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", "x = ["), ("a.yaml", "a: [1"), ("a.json", "[1, 2]"), ("a.ini", "")]
)
def test_a_file_that_is_no_table_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=name):
        read_config(tmp_path / name)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read"):
        read_config(tmp_path / "nowhere.toml")


def test_secrets_stand_in_no_text_of_a_configuration() -> None:
    model = ModelConfig(id="a", interface="x", model_name="y", endpoint_api_key="sk-hush")  # type: ignore[arg-type]
    config = VerificationConfig(answering_models=[model])
    for text in (repr(config), str(config), config.model_dump_json(), repr(model)):
        assert "sk-hush" not in text


def test_a_copy_with_other_values_is_validated() -> None:
    config = VerificationConfig(replicate_count=2)
    assert config.with_values(run_name="b").replicate_count == 2
    with pytest.raises(ConfigError):
        config.with_values(replicate_count=0)


def test_a_copy_leaves_to_the_owner_what_nobody_gave() -> None:
    class OvenSettings(BaseModel):
        oven_on: bool = Field(default=False, description="Whether it is on.")
        oven_mode: str = Field(default="off", description="How.")

        @model_validator(mode="after")
        def _on_is_full(self) -> Self:
            if self.oven_on and "oven_mode" in self.model_fields_set:
                raise ValueError("give one of the two")
            object.__setattr__(self, "oven_mode", "full" if self.oven_on else self.oven_mode)
            return self

    class Oven(Idle):
        name = "Oven"
        settings = OvenSettings

    plugins = Plugins()
    plugins.register(offering(karenina_extra_stages=[Oven]))
    with plugin_room.use_plugins(plugins):
        assert VerificationConfig().with_values(oven_on=True).oven_mode == "full"
        with pytest.raises(ConfigError, match="give one of the two"):
            VerificationConfig(oven_mode="off").with_values(oven_on=True)


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        (
            "KARENINA_TASTE_TRESHOLD",
            "correct or unset this environment variable; did you mean 'KARENINA_TASTE_THRESHOLD'?",
        ),
        (
            "KARENINA_DISABLE_UPDATE_CHECK",
            "there is no setting 'disable_update_check'; correct or unset this environment variable",
        ),
        ("KARENINA_DISABLE_UPDATE_CHECK", "`karenina config` lists all names"),
        ("KARENINA_", "correct or unset this environment variable"),
        ("KARENINA_ABSTENTION_ENABLED", "karenina-checks is not installed"),
    ],
)
def test_a_variable_that_sets_no_name_is_refused(variable: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ConfigError) as caught:
        VerificationConfig(run_name=1)
    (found,) = [one for one in caught.value.problems if one.startswith(f"{variable}: ")]
    assert problem in found
    assert len(caught.value.problems) == 2, "the problems of other values come with it"


@pytest.mark.parametrize("variable", ["KARENINA_STATE_HOME", "KARENINA_PLUGINS", "TASTE_THRESHOLD", "KARENINAS"])
def test_variables_that_set_something_else_are_no_names(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "0.1")
    VerificationConfig()


def test_every_setting_has_a_meaning_and_an_environment_variable() -> None:
    for setting in all_settings().values():
        assert setting.meaning, setting.name
        assert setting.environment[0] == f"KARENINA_{setting.name.upper()}"
    assert all_settings()["taste_threshold"].environment == ("KARENINA_TASTE_THRESHOLD", "TASTE_THRESHOLD")


@pytest.mark.parametrize("name", sorted(read_catalog()["settings"]))
def test_a_setting_of_a_missing_plugin_says_what_to_install(name: str) -> None:
    with plugin_room.use_plugins(Plugins()):
        with pytest.raises(ConfigError) as caught:
            VerificationConfig(**{name: None})
        with pytest.raises(ConfigError) as asked:
            VerificationConfig().setting(name)
    distribution = read_catalog()["settings"][name]
    assert caught.value.problems == asked.value.problems
    assert caught.value.problems == [
        f"{name}: the plugin of this setting is not available; {distribution} is not installed: "
        f"{install_command(distribution)}"
    ]


@pytest.mark.parametrize(
    ("task", "hint"), [("taste_checking", "did you mean 'taste_check'?"), ("sense", "did you mean 'senses'?")]
)
def test_instructions_for_a_task_that_nobody_has_are_refused(task: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"prompt_config\.{task}: .*{re.escape(hint)}"):
        VerificationConfig(prompt_config={task: "Be strict."})


@pytest.mark.parametrize("task", ["taste_check", "senses", "abstention_detection"])
def test_instructions_are_taken_for_tasks_and_families_installed_or_known(task: str) -> None:
    assert VerificationConfig(prompt_config={task: "Be strict."}).prompt_config == {task: "Be strict."}
