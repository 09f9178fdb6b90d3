"""The most tokens that a picture costs: at least what users measured for large pictures, or unknown."""

from __future__ import annotations

import pytest

from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.attachments import MediaLimit
from karenina_core.models.model import ModelConfig
from karenina_toolkit.attachments.support import MediaExtra, find_support, usual_limits


def tokens_of(name: str, extra: MediaExtra | None = None) -> int | None:
    """Return the most tokens that a picture costs for a model."""
    model = ModelConfig(id="m", model_name=name, interface="openai")
    return usual_limits(model, ("image/png",), extra or MediaExtra())["image/png"].max_tokens


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("gpt-4o", 1445),
        ("gpt-4o-mini", 8500),
        ("gpt-4.1-mini", 2488),
        ("gpt-5-mini", 1843),
        ("gpt-5-nano", 2304),
        ("anthropic/claude-haiku-4-5", 1596),
        ("claude-opus-4-7", 3940),
        ("google/gemini-3-pro-preview", 1101),
    ],
)
def test_the_maximum_covers_what_was_measured(name: str, measured: int) -> None:
    tokens = tokens_of(name)

    assert tokens is not None
    assert tokens >= measured


@pytest.mark.parametrize("name", ["gpt-5.4", "gpt-5.4-mini", "gpt-6-astra", "gemini-2.5-flash", "llava", "mine"])
def test_the_price_of_other_models_is_unknown_unless_stated(name: str) -> None:
    assert tokens_of(name) is None
    assert tokens_of(name, MediaExtra(media_tokens=900)) == 900


def test_an_adapter_without_the_setting_states_what_its_models_understand() -> None:
    spec = AdapterSpec(interface="eyes.all", description="d", media=lambda _: {"image/png": MediaLimit(1000)})
    model = ModelConfig(id="m", model_name="m", interface="eyes.all")

    assert find_support(spec, model, "image/png").understands is True
    assert find_support(spec, model, "audio/wav").understands is False
