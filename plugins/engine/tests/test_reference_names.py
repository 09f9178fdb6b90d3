"""Names of the reference's configuration: what replaces them here, and the note that says so."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from karenina_core.config import VerificationConfig
from karenina_core.errors import ConfigError
from karenina_engine import settings

MODEL = {"id": "m", "interface": "openai_endpoint", "model_name": "x", "endpoint_base_url": "http://127.0.0.1:1/v1"}


@pytest.fixture(autouse=True)
def _notes_anew() -> None:
    settings._note.cache_clear()
    settings._note_model.cache_clear()


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ({"async_max_workers": 8}, {"max_concurrency": 8}),
        ({"async_enabled": False}, {"max_concurrency": 1}),
        ({"max_concurrent_requests": 5}, {"max_concurrency": 5}),
        ({"answerer_concurrency_limits": {"m": 2}}, {"model_concurrency": {"m": 2}}),
        ({"answerer_concurrency_limits": 2}, {"max_concurrency": 2}),
        ({"batch_timeout_seconds": 60.0}, {"run_timeout": 60.0}),
        ({"rubric_enabled": True}, {"evaluation_mode": "template_and_rubric"}),
        (
            {"retry_policy": {"rate_limit": {"max_attempts": 3}, "server_error": {"max_attempts": 1}}},
            {"retry_rate_limit": 3, "retry_server": 1},
        ),
        (
            {"prompt_config": {"parsing": "Be strict.", "generation": None}},
            {"prompt_config": {"parsing": "Be strict."}},
        ),
        ({"prompt_config": None, "rubric_trait_names": None}, {}),
        ({"async_max_workers": 2, "async_enabled": True, "task_ordering": "auto", "db_config": None}, {}),
        ({"async_max_workers": 8, "max_concurrency": 3}, {"max_concurrency": 3}),
    ],
)
def test_a_name_of_the_reference_sets_what_it_meant(given: dict[str, Any], here: dict[str, Any]) -> None:
    assert VerificationConfig(**given).given() == here


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (
            {"async_max_workers": 8},
            "the reference implementation's setting async_max_workers was translated to max_concurrency = 8",
        ),
        ({"async_max_workers": 8, "max_concurrency": 3}, "async_max_workers has no effect because the setting that"),
        (
            {"task_ordering": "random"},
            "the reference implementation's setting task_ordering has no counterpart and no effect",
        ),
        ({"few_shot_enabled": True}, "few_shot_enabled has no counterpart and no effect; set few_shot_config"),
    ],
)
def test_a_note_says_what_became_of_it(given: dict[str, Any], note: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        VerificationConfig(**given)
        VerificationConfig(**given)

    assert caplog.text.count(note) == 1


def test_defaults_of_the_reference_need_no_note(caplog: pytest.LogCaptureFixture) -> None:
    VerificationConfig(async_max_workers=2, scenario_turn_limit=20, max_requeue_count=5, retry_policy={})

    assert not caplog.records


def test_a_variable_of_the_reference_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_ASYNC_MAX_WORKERS", "6")
    monkeypatch.setenv("KARENINA_PRESETS_DIR", "presets")

    assert VerificationConfig().given() == {"max_concurrency": 6}


def test_models_have_the_names_of_this_implementation(caplog: pytest.LogCaptureFixture) -> None:
    router = {"interface": "openrouter", "model_name": "y", "max_retries": 5}
    agent = {**MODEL, "id": "a", "interface": "openai", "agent_middleware": {"limits": {"model_call_limit": 7}}}

    one, two, three = VerificationConfig(answering_models=[MODEL, router, agent]).core.answering_models

    assert (one.interface, one.endpoint_base_url) == ("openai_endpoint", MODEL["endpoint_base_url"])
    assert (two.id, two.interface) == ("y", "openrouter")
    assert three.agent_max_turns == 7
    assert "max_retries has no effect" in caplog.text


def test_other_wrong_names_stay_errors() -> None:
    with pytest.raises(ConfigError, match="async_workers: unknown configuration name"):
        VerificationConfig(async_workers=3)
