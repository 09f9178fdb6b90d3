"""Every hook is documented by its owner, and called somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from karenina_core import Slot
from karenina_core.artifacts.artifact import STAGE_HOOKS
from karenina_core.plugins import Plugins
from karenina_toolkit.plugin_lookup import Hook, specified_hooks

ROOT = Path(__file__).parents[1]
HOOKS = specified_hooks(Plugins())
SOURCES = [
    path.read_text("utf-8")
    for folder in ("karenina_core", "plugins", "adapters")
    for path in (ROOT / folder).rglob("*.py")
    if "tests" not in path.parts
]


def test_each_distribution_specifies_what_it_opens() -> None:
    core = [hook.name for hook in HOOKS if hook.distribution == "karenina-core"][:17]
    assert core[:13] == [slot.hook for slot in Slot]
    assert core[13:] == [
        "karenina_extra_stages",
        "karenina_adapters",
        "karenina_prompt_instructions",
        "karenina_settings",
    ]
    others = {hook.name: hook.distribution for hook in HOOKS[17:]}
    assert others["karenina_primitives"] == "karenina-template"
    assert others["karenina_trait_kinds"] == others["karenina_trait_evaluators"] == "karenina-rubric"
    assert others["karenina_search_tools"] == "karenina-deep-judgment"


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.name)
def test_every_hook_is_documented(hook: Hook) -> None:
    assert hook.description.split()[0] in ("Provide", "Add", "Return", "Called")
    assert hook.description.endswith(".")


NAMED = {*STAGE_HOOKS, "karenina_adapters"}
"""Hooks that are named by entry points and called by `Plugins.named`."""


@pytest.mark.parametrize("name", [hook.name for hook in HOOKS if hook.name not in NAMED])
def test_every_hook_is_called(name: str) -> None:
    called = re.compile(rf'(\.(call|offers|each|implementations)\((\w+\.)?|\.hook\.|_notify\("){name}\b')

    assert any(called.search(text) for text in SOURCES), f"nothing calls {name}: remove it, or call it"
