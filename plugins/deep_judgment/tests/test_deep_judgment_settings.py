"""The names of this distribution, and what they mean together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karenina_benchmark import Benchmark
from karenina_core import Question, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command
from karenina_core.data.rubrics import LLMRubricTrait, Rubric
from karenina_core.data.trust import NO_TRUST
from karenina_core.errors import ConfigError
from karenina_core.plan import PlanError, make_plan
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import registered_stages
from karenina_deep_judgment import plugin
from karenina_deep_judgment.auto_fail import DeepJudgmentRubricAutoFail
from karenina_deep_judgment.parse_template import DeepJudgmentParseTemplate
from karenina_deep_judgment.search_tools import TavilySearch
from karenina_deep_judgment.settings import DeepJudgmentSettings, resolve_trait_settings
from karenina_engine.check.stage_checks import check_configuration
from karenina_testing import ScriptedModels

pytestmark = pytest.mark.alone


def configured(**values: Any) -> VerificationConfig:
    plugins = Plugins()
    plugins.register(plugin)
    with plugin_room.use_plugins(plugins):
        return VerificationConfig(**values)


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, "disabled"),
        ({"deep_judgment_enabled": False}, "disabled"),
        ({"deep_judgment_enabled": True}, "full"),
        ({"deep_judgment_enabled": True, "deep_judgment_mode": "full"}, "full"),
        ({"deep_judgment_enabled": True, "deep_judgment_mode": "reasoning_only"}, "reasoning_only"),
        ({"deep_judgment_mode": "reasoning_only"}, "reasoning_only"),
        ({"deep_judgment_enabled": False, "deep_judgment_mode": "full"}, "full"),
    ],
)
def test_enabled_means_full_and_the_mode_says_more(given: dict[str, Any], mode: str) -> None:
    assert configured(**given).deep_judgment_mode == mode


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"deep_judgment_enabled": True, "deep_judgment_mode": "disabled"}, "remove one of the two"),
        ({"deep_judgment_fuzzy_match_threshold": 80}, "less than or equal to 1"),
        ({"deep_judgment_rubric_mode": "custom"}, "list the traits and their settings"),
        ({"deep_judgment_rubric_config": {"global": {"a": {}}}}, "has an effect only if"),
        (
            {"deep_judgment_rubric_mode": "custom", "deep_judgment_rubric_config": {"global": {"a": {"most": 1}}}},
            "global.a.most",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        configured(**given)


def test_switching_on_in_a_copy_is_no_contradiction() -> None:
    plugins = Plugins()
    plugins.register(plugin)
    with plugin_room.use_plugins(plugins):
        assert VerificationConfig().with_values(deep_judgment_enabled=True).deep_judgment_mode == "full"


def test_a_configuration_with_a_search_function_can_be_written_out() -> None:
    def look_up(query: str) -> str:
        return query

    config = configured(deep_judgment_search_tool=look_up)
    assert config.deep_judgment_search_tool.function is look_up
    assert "look_up" in config.model_dump_json()


# ---- which traits, and how

PLAIN = LLMRubricTrait(name="clear", description="Is it clear?")
WISHING = LLMRubricTrait(
    name="clear",
    description="Is it clear?",
    deep_judgment_enabled=True,
    deep_judgment_excerpt_enabled=False,
    deep_judgment_max_excerpts=2,
    deep_judgment_fuzzy_match_threshold=0.5,
    deep_judgment_excerpt_retry_attempts=9,
    deep_judgment_search_enabled=True,
)
CUSTOM = {
    "deep_judgment_rubric_mode": "custom",
    "deep_judgment_rubric_config": {
        "global": {"clear": {"max_excerpts": 4, "search_enabled": True}, "off": {"enabled": False}},
        "question_specific": {"q2": {"clear": {"excerpt_enabled": False}}},
    },
}


def test_a_trait_with_invalid_settings_is_refused_before_a_run() -> None:
    wrong = LLMRubricTrait(name="clear", deep_judgment_fuzzy_match_threshold=80)
    question = Question(question="Why?", rubric=Rubric.of(wrong))
    config = configured(deep_judgment_rubric_mode="enable_all")

    with pytest.raises(ConfigError, match=r"trait 'clear', deep_judgment_fuzzy_match_threshold: .*less than or equal"):
        DeepJudgmentRubricAutoFail().included(config, question)


def how(trait: LLMRubricTrait, question: str = "q1", **settings: Any) -> tuple[Any, ...] | None:
    found = resolve_trait_settings(trait, question, DeepJudgmentSettings(**settings))
    if found is None:
        return None
    return found.excerpts, found.limits.most, found.limits.threshold, found.limits.retries, found.search


@pytest.mark.parametrize(
    ("trait", "question", "settings", "expected"),
    [
        (WISHING, "q1", {}, None),
        (PLAIN, "q1", {"deep_judgment_rubric_mode": "enable_all"}, (True, 7, 0.8, 2, False)),
        (
            WISHING,
            "q1",
            {"deep_judgment_rubric_mode": "enable_all", "deep_judgment_rubric_global_excerpts": False},
            (False, 7, 0.8, 2, False),
        ),
        (
            PLAIN,
            "q1",
            {
                "deep_judgment_rubric_mode": "enable_all",
                "deep_judgment_rubric_max_excerpts_default": 1,
                "deep_judgment_rubric_fuzzy_match_threshold_default": 0.6,
                "deep_judgment_rubric_excerpt_retry_attempts_default": 0,
                "deep_judgment_rubric_search_enabled": True,
            },
            (True, 1, 0.6, 0, True),
        ),
        (PLAIN, "q1", {"deep_judgment_rubric_mode": "use_checkpoint"}, None),
        (WISHING, "q1", {"deep_judgment_rubric_mode": "use_checkpoint"}, (False, 2, 0.5, 9, False)),
        (PLAIN, "q1", CUSTOM, (True, 4, 0.8, 2, True)),
        (PLAIN, "q2", CUSTOM, (False, 7, 0.8, 2, False)),
        (LLMRubricTrait(name="off", description="?"), "q1", CUSTOM, None),
        (LLMRubricTrait(name="unnamed", description="?"), "q1", CUSTOM, None),
        (
            LLMRubricTrait(name="form", kind="template", template_schema={"type": "object"}, higher_is_better=None),
            "q1",
            {"deep_judgment_rubric_mode": "enable_all"},
            None,
        ),
    ],
)
def test_the_four_modes(
    trait: LLMRubricTrait, question: str, settings: dict[str, Any], expected: tuple[Any, ...] | None
) -> None:
    assert how(trait, question, **settings) == expected


# ---- search tools, when the plan is made

ON = {"deep_judgment_mode": "full", "deep_judgment_search_enabled": True}
RUBRIC_ON = {
    "deep_judgment_rubric_mode": "enable_all",
    "deep_judgment_rubric_search_enabled": True,
    "evaluation_mode": "rubric_only",
}


def problems(**values: Any) -> str:
    """Return the problems of the plan of one question with the stages of this distribution."""
    plugins = Plugins()
    plugins.register(plugin)
    plugins.register(ScriptedModels())
    benchmark = Benchmark.create(name="b")
    question = benchmark.add_question("Which?", rubric=Rubric.of(PLAIN))
    with plugin_room.use_plugins(plugins), pytest.raises(PlanError) as caught:
        make_plan(registered_stages(plugins), VerificationConfig(**values), question)
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    ("given", "setting"), [(ON, "deep_judgment_search_tool"), (RUBRIC_ON, "deep_judgment_rubric_search_tool")]
)
def test_an_unknown_search_tool_is_a_problem_of_the_plan(given: dict[str, Any], setting: str) -> None:
    told = problems(**given, **{setting: "tavilly"})
    assert f"{setting}: unknown search tool 'tavilly'; did you mean 'tavily'?" in told
    assert "installed tools: tavily" in told


def test_tavily_without_its_client_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_deep_judgment.search_tools.find_spec", lambda _name: None)
    plugins = Plugins()
    plugins.register(plugin)
    with plugin_room.use_plugins(plugins):
        (need,) = DeepJudgmentParseTemplate().before_run(VerificationConfig(**ON), [], NO_TRUST)
    assert "deep_judgment_search_tool: the search tool 'tavily' cannot be used" in need.problem
    assert install_command("karenina-deep-judgment[tavily]") in need.problem


def test_tavily_without_a_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_deep_judgment.search_tools.find_spec", lambda _name: object())
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    assert "TAVILY_API_KEY" in (TavilySearch().unavailable() or "")
    monkeypatch.setenv("TAVILY_API_KEY", "k")
    assert TavilySearch().unavailable() is None


def test_no_tool_is_needed_where_nothing_is_searched() -> None:
    told = problems(deep_judgment_mode="disabled", deep_judgment_search_enabled=True)
    assert "search tool" not in told


def test_a_search_without_excerpts_is_refused() -> None:
    with pytest.raises(ConfigError, match="deep_judgment_mode is reasoning_only; set deep_judgment_mode to full"):
        problems(deep_judgment_mode="reasoning_only", deep_judgment_search_enabled=True)


def test_tavily_hands_on_what_its_client_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def __init__(self, key: str) -> None:
            assert key == "k"

        async def search(self, query: str, **_more: object) -> dict[str, Any]:
            return {"results": [{"title": "BCL2", "content": f"On {query}.", "url": "https://example.org"}]}

    module = type("Tavily", (), {"AsyncTavilyClient": Client})
    monkeypatch.setitem(__import__("sys").modules, "tavily", module)
    monkeypatch.setenv("TAVILY_API_KEY", "k")
    found = asyncio.run(TavilySearch().search("venetoclax"))
    assert found == "BCL2\nOn venetoclax.\nhttps://example.org"


# ---- settings of a search that does not take place


NO_EFFECT: dict[str, tuple[dict[str, Any], str | None]] = {
    "off": ({"deep_judgment_search_enabled": True}, "deep_judgment_search_enabled has no effect"),
    "a tool alone": ({"deep_judgment_search_tool": "library"}, "deep_judgment_search_tool has no effect"),
    "traits off": (
        {"deep_judgment_rubric_search_enabled": True},
        "deep_judgment_rubric_search_enabled has no effect because deep_judgment_rubric_mode is disabled",
    ),
    "traits by themselves": (
        {**RUBRIC_ON, "deep_judgment_rubric_mode": "use_checkpoint"},
        "each trait has its own search setting",
    ),
    "traits without excerpts": ({**RUBRIC_ON, "deep_judgment_rubric_global_excerpts": False}, "there are no excerpts"),
    "on": (ON, None),
    "traits on": (RUBRIC_ON, None),
    "nothing said": ({}, None),
}


@pytest.mark.parametrize("case", NO_EFFECT)
def test_unused_search_settings_are_warnings_before_the_run(case: str, caplog: pytest.LogCaptureFixture) -> None:
    given, said = NO_EFFECT[case]
    plugins = Plugins()
    plugins.register(plugin)
    with plugin_room.use_plugins(plugins):
        check_configuration(plugins, VerificationConfig(**given))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]


def test_deep_judgment_refuses_traits_that_show_the_truth() -> None:
    trait = LLMRubricTrait.model_validate({"name": "agrees", "include_ground_truth": True})
    question = Question(question="What?", raw_answer="BCL2", rubric=Rubric.of(trait))
    deep = VerificationConfig(deep_judgment_rubric_mode="enable_all")

    with pytest.raises(ConfigError, match=r"trait 'agrees' .* deep judgment never shows the ground truth"):
        DeepJudgmentRubricAutoFail().included(deep, question)
