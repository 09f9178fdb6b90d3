"""`karenina primitives`, `karenina traits` and `karenina config NAME`: what files can contain."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

import pytest
from command_runs import run_karenina
from offers import offering

from karenina_core.data.rubrics import RubricTrait, trait_kinds
from karenina_core.plugins import Plugins
from karenina_template.templates import Primitive, known_primitives


class WithinPercent(Primitive):
    """Passes if the number is within `percent` of the truth."""

    percent: float

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is near the truth."""
        return extracted == expected


class TastingTrait(RubricTrait):
    """A quality that a taster scores."""

    type: Literal["tasting"] = "tasting"
    spoons: int = 1


@pytest.fixture
def plugins() -> Plugins:
    registered = Plugins()
    offer = offering(primitives=[WithinPercent], trait_kinds=[TastingTrait])
    registered.register(offer, distribution="kitchen-tools")
    return registered


def test_every_primitive_is_listed_with_its_meaning() -> None:
    primitives = {primitive["name"]: primitive for primitive in run_karenina("primitives", "--json").json["primitives"]}
    assert primitives.keys() >= {name for name, kind in known_primitives().items() if "karenina_" in kind.__module__}
    assert all(primitive["meaning"] for primitive in primitives.values())
    assert primitives["NumericTolerance"]["fields"] == [
        {"name": "tolerance", "type": "number, at least 0", "required": True, "default": None, "meaning": ""},
        {
            "name": "mode",
            "type": "one of relative, absolute",
            "required": False,
            "default": "relative",
            "meaning": "",
        },
    ]


def test_one_primitive_is_printed_as_a_file_contains_it() -> None:
    done = run_karenina("primitives", "NumericTolerance")
    assert done.code == 0
    assert "    tolerance  (required)  [number, at least 0]\n" in done.out
    assert "    verify_with: {type: NumericTolerance, tolerance: ...}\n" in done.out
    assert "BooleanMatch" not in done.out
    assert "verify_with: BooleanMatch\n" in run_karenina("primitives", "BooleanMatch").out


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        (
            "primitives",
            "NumericTolerence",
            "unknown primitive 'NumericTolerence'; did you mean 'NumericTolerance'?",
        ),
        ("traits", "regexp", "unknown trait kind 'regexp'; did you mean 'regex'?"),
        ("config", "answering_model", "did you mean 'answering_models'?"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(command: str, name: str, message: str) -> None:
    done = run_karenina(command, name)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_primitives_and_traits_of_plugins_name_their_distribution(plugins: Plugins) -> None:
    assert "WithinPercent  (kitchen-tools)" in run_karenina("primitives", plugins=plugins).out
    assert "tasting  (kitchen-tools)" in run_karenina("traits", plugins=plugins).out
    assert "    spoons = 1  [whole number]\n" in run_karenina("traits", "tasting", plugins=plugins).out


def test_every_trait_kind_is_listed_without_internal_fields() -> None:
    kinds = {entry["name"]: entry for entry in run_karenina("traits", "--json").json["trait_kinds"]}
    assert kinds.keys() >= {"agentic", "callable", "llm", "metric", "regex"}
    for kind in kinds.values():
        names = {field["name"] for field in kind["fields"]}
        assert "name" in names
        assert not names & {"type", "unread", "extra"}
    assert {field["name"] for field in kinds["regex"]["fields"]} == set(trait_kinds()["regex"].model_fields) - {
        "type",
        "unread",
        "extra",
    }


def test_the_fields_of_a_model_are_listed_with_their_meaning() -> None:
    done = run_karenina("config", "answering_models")
    assert "    temperature = null  [number, at least 0, at most 2]\n        Sampling temperature" in done.out
    (setting,) = run_karenina("config", "answering_models", "--json").json["settings"]
    assert {model["name"] for model in setting["fields"]["answering_models"]} >= {
        "id",
        "interface",
        "model_name",
        "extra",
    }
    assert all(model["meaning"] for model in setting["fields"]["answering_models"])


@pytest.mark.alone
@pytest.mark.skipif(find_spec("karenina_math") is not None, reason="karenina-math is installed")
@pytest.mark.parametrize("name", ["MathEqual", "expression"])
def test_a_primitive_of_a_missing_plugin_names_the_plugin(name: str) -> None:
    done = run_karenina("primitives", name)
    assert done.code == 2
    assert f"unknown primitive '{name}': it is in the plugin karenina-math; to install it, run: " in done.err
