"""The models of a third party's setting: given in every way, and treated like answering models and judges."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment, Wheels

from karenina_engine.results.result_set import read_results

QUESTIONS = """karenina: 1
name: Drugs
questions:
  - {id: gene, question: "Which gene?", answer: {gene: {description: The gene, ground_truth: BCL2}}}
"""
MODELS = ("-a", "parrot.echo:BCL2", "-j", 'parrot.echo:{"gene": "BCL2"}')
TEMPLATE = """
from karenina.templates import BaseAnswer, ExactMatch, VerifiedField

class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
"""
CRITIC = {"id": "c", "interface": "parrot.echo", "model_name": "nice"}


@pytest.fixture(scope="module")
def site(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the plugin, and an adapter to run it with."""
    found = Environment(tmp_path_factory.mktemp("site"))
    found.install(wheels.example("critics"), wheels.example("parrot"))
    found.write("drugs.yaml", QUESTIONS)
    return found


@pytest.fixture
def user_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder for the files of this user."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


def said(done: Any) -> list[str]:
    """Return what the critics said about the only answer of a run."""
    (result,) = done["results"]
    assert result["outcome"] == "correct"
    stored: list[str] = result["extensions"].get("critics", {}).get("criticism", [])
    return stored


@pytest.mark.parametrize("command", ["run", "resume", "plan", "prompts", "judge", "doctor", "config", "selftest"])
def test_every_command_with_models_has_the_option(site: Environment, command: str) -> None:
    shown = " ".join(site.karenina(command, "--help").stdout.split())

    assert re.search(r"-k, --critic SPEC The critic(: interface:model_name|, in the same form as --\w+)", shown)
    assert "--judge SPEC" in shown
    assert ("--answering" in shown) == (command not in ("judge", "selftest"))


def test_the_name_of_another_option_stays_with_it(site: Environment) -> None:
    done = site.karenina(
        "run", "drugs.yaml", *MODELS, "--other", "parrot.echo:fine", "-o", "named.jsonl", "--no-journal"
    )

    assert (site.folder / "named.jsonl").is_file()
    assert "others of critics does not have the option -o here because another option has that name" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--critic", "parrot.echo:nice"),
        ("-k", json.dumps(CRITIC)),
        ("--set", "critics.critic=parrot.echo:nice"),
        ("--set", f"critics.critic={json.dumps(CRITIC)}"),
        ("-c", "dotted.toml"),
        ("-c", "table.yaml"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_model_is_given_in_every_way(site: Environment, arguments: tuple[str, ...]) -> None:
    site.write("dotted.toml", '"critics.critic" = {id = "c", interface = "parrot.echo", model_name = "nice"}\n')
    site.write("table.yaml", f"critics: {{critic: {json.dumps(CRITIC)}}}\n")

    assert said(site.printed("run", "drugs.yaml", *MODELS, *arguments, "--no-journal")) == ["nice"]


def test_a_model_is_given_by_the_environment(site: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**os.environ, **site._environment, "KARENINA_CRITICS__CRITIC": json.dumps(CRITIC)}
    monkeypatch.setattr(Environment, "_environment", property(lambda _self: given))

    assert said(site.printed("run", "drugs.yaml", *MODELS, "--no-journal")) == ["nice"]


def test_only_settings_with_several_models_take_an_option_twice(site: Environment) -> None:
    several = site.printed(
        "run", "drugs.yaml", *MODELS, "--other", "parrot.echo:a", "--other", "parrot.echo:b", "--fresh"
    )
    one = site.karenina("run", "drugs.yaml", *MODELS, "--critic", "parrot.echo:a", "--critic", "parrot.echo:b")

    assert said(several) == ["a", "b"]
    assert (one.returncode, "this option takes only one value" in one.stderr) == (2, True)


def test_an_unusable_model_is_reported_under_its_role(site: Environment) -> None:
    spec = json.dumps({**CRITIC, "extra": {"loud": True}})
    critic = site.karenina("run", "drugs.yaml", *MODELS, "--critic", spec)
    other = site.karenina("run", "drugs.yaml", *MODELS, "--other", spec)
    doctor = site.printed("doctor", *MODELS, "--critic", json.dumps(CRITIC))

    assert "critic 'c': the adapter 'parrot.echo' has no extra settings" in critic.stderr
    assert "further critic 'c': the adapter 'parrot.echo' has no extra settings" in other.stderr
    assert "critic 'c': parrot.echo:nice can be used" in [finding["text"] for finding in doctor["findings"]]


@pytest.mark.parametrize("name", ["critic", "others"])
def test_a_file_may_not_choose_where_requests_go(site: Environment, name: str) -> None:
    """The setting `others` is marked as free, which its models are not."""
    model = {"id": "c", "interface": "openai", "model_name": "m", "endpoint_base_url": "http://127.0.0.1:9/v1"}
    value = json.dumps(model if name == "critic" else [model])
    file = site.write("restricted.yaml", QUESTIONS + f"config: {{critics: {{{name}: {value}}}}}\n")
    free = site.write("free.yaml", QUESTIONS + f"config: {{critics.critic: {json.dumps(CRITIC)}}}\n")

    done = site.karenina("run", file, *MODELS)

    assert done.returncode == 2
    assert f"config.critics.{name}, model 'c', endpoint_base_url = \"http://127.0.0.1:9/v1\"" in done.stderr
    assert said(site.printed("run", free, *MODELS, "--no-journal")) == ["nice"]


def test_a_dry_run_and_a_budget_count_the_model(site: Environment) -> None:
    run = ("run", "drugs.yaml", *MODELS, "--critic", "parrot.echo:nice")
    lines = site.printed(*run, "--dry-run")["estimate"]["lines"]
    refused = site.karenina(*run, "--budget", "1")

    assert [(line["model"], line["calls"]) for line in lines if line["stage"] == "Criticize"] == [("nice", [1, 1, 1])]
    assert "a budget needs the price of 'nice'" in refused.stderr


def test_the_prompts_of_the_model_are_printed(site: Environment) -> None:
    prompts = site.printed("prompts", "drugs.yaml", *MODELS, "--critic", "parrot.echo:nice", "--answer", "BCL2")

    assert [(one["stage"], one["model"]) for one in prompts["prompts"] if one["stage"] == "Criticize"] == [
        ("Criticize", "nice")
    ]


def test_a_concurrency_limit_may_name_the_model(site: Environment) -> None:
    run = ("run", "drugs.yaml", *MODELS, "--critic", "parrot.echo:nice", "--no-journal")

    assert said(site.printed(*run, "--set", "model_concurrency={nice = 1}")) == ["nice"]
    assert "no model has the id 'nicer'" in site.karenina(*run, "--set", "model_concurrency={nicer = 1}").stderr


def test_resume_uses_the_model_with_its_secret_or_another(site: Environment, user_files: Path) -> None:
    secret = "CANARY-4711"
    spec = json.dumps({**CRITIC, "endpoint_api_key": secret})
    config = site.write("keys.yaml", f"critics: {{critic: {spec}}}\n")
    run = ("run", "drugs.yaml", *MODELS, "-c", config, "-o", "kept.jsonl", "--fresh")
    assert said(site.printed(*run)) == ["nice"]

    same = site.printed("resume", "kept.journal")
    other = site.printed("resume", "kept.journal", "--critic", "parrot.echo:harsh")

    assert said(same) == ["nice"]
    assert said(other) == ["harsh"]
    stored = b"".join(
        path.read_bytes() for path in (*site.folder.glob("kept.*"), *user_files.rglob("*")) if path.is_file()
    )
    assert secret.encode() not in stored


def test_another_model_gives_another_result_and_a_key_does_not(site: Environment) -> None:
    def run(critic: dict[str, str]) -> list[str]:
        arguments = ("--critic", json.dumps(critic), "-o", "print.jsonl")
        return said(site.printed("run", "drugs.yaml", *MODELS, *arguments))

    first, keyed = run(CRITIC), run({**CRITIC, "endpoint_api_key": "k"})
    summary = site.printed("status", "print.journal")

    assert (first, keyed, run({**CRITIC, "model_name": "harsh"})) == (["nice"], ["nice"], ["harsh"])
    assert summary["done"] == 1


def test_rescoring_and_a_stranger_use_the_model_of_the_journal(site: Environment, user_files: Path) -> None:
    run = ("run", "drugs.yaml", *MODELS, "--critic", "parrot.echo:nice", "-o", "old.jsonl", "--fresh")
    site.printed(*run)
    site.write("new.yaml", QUESTIONS.replace("BCL2", "TP53"))
    rescored = site.karenina("rescore", "old.journal", "new.yaml", "-o", "new.jsonl")
    (result,) = read_results(site.folder / "new.jsonl")
    (site.folder / "old.journal").rename(site.folder / "moved.journal")
    printed = site.karenina("resume", "moved.journal").stderr

    assert rescored.returncode == 0, rescored.stderr
    assert (result.outcome, result.extensions["critics"]["criticism"]) == ("wrong", ["nice"])
    assert "-k parrot.echo:nice" in printed


def test_a_preset_keeps_the_model_without_its_key(site: Environment, user_files: Path) -> None:
    spec = json.dumps({**CRITIC, "endpoint_api_key": "CANARY-4711"})
    saved = site.karenina("config", "save", "kind", "--critic", spec)

    assert "critics.critic.c.endpoint_api_key" in saved.stderr
    (preset,) = [one for one in site.printed("config", "list")["presets"] if one["name"] == "kind"]
    assert preset["values"] == {"critics.critic": CRITIC}
    assert said(site.printed("run", "drugs.yaml", *MODELS, "-c", "kind", "--no-journal")) == ["nice"]


def test_config_lists_the_fields_of_the_model(site: Environment) -> None:
    (setting,) = site.printed("config", "critics.critic")["settings"]

    assert setting["allowed_in_files"] == "models"
    assert "endpoint_base_url" in [field["name"] for field in setting["fields"]["critics.critic"]]


def test_a_judged_output_is_criticized_too(site: Environment) -> None:
    site.write("out.jsonl", json.dumps({"response": "BCL2"}) + "\n")
    site.write("template.py", TEMPLATE)

    done = site.printed("judge", "out.jsonl", "--template", "template.py", *MODELS[2:], "-k", "parrot.echo:nice")

    assert said(done) == ["nice"]
