"""Each hook is stable or provisional as its page says, is used, and is deprecated before it ends."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import indent
from typing import Any, get_type_hints

import pytest
from command_runs import run_karenina

from karenina_cli.commands.doctor_command import check_plugins
from karenina_core import hookimpl
from karenina_core.plugins import Plugins
from karenina_engine.check.plugin_checks import warn_about_plugins
from karenina_toolkit.hook_policy import policy_of
from karenina_toolkit.package_check.offers import reject_wrong_offers

ROOT = Path(__file__).parents[1]
OWNERS = Plugins().specifications.owners
HOOKS = [(name, owner) for owner in OWNERS for name in owner.hooks]
TEXTS = [
    path.read_text("utf-8")
    for folder in ("karenina_core", "plugins", "adapters", "tests/third_party", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md") and path.name not in ("hookspecs.py", "hook-policy.md")
]
ADVICE = "use karenina_new instead, until 0.3"


def test_the_page_lists_every_hook_with_its_state() -> None:
    page = (ROOT / "docs" / "explanation" / "hook-policy.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \| ([\w-]+) \| (\w+) \| ([\d.]+) \|$", page, re.MULTILINE)
    policies = [(name, owner.info.distribution, policy_of(getattr(owner.module, name))) for name, owner in HOOKS]

    assert sorted(listed) == sorted((name, owner, one.stability, one.since) for name, owner, one in policies)


@pytest.mark.parametrize("name", [name for name, _ in HOOKS])
def test_every_hook_is_implemented_by_a_member_or_an_example(name: str) -> None:
    method = rf"@hookimpl[^\n]*\n(?:[ \t]*@[^\n]*\n)*[ \t]*def {name}\("
    implemented = re.compile(rf"{method}|^[ \t]+{name} = (?:offer|lazy_commands)\(", re.MULTILINE)
    assert any(implemented.search(text) for text in TEXTS), f"nothing implements {name}: add an example, or remove it"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    """Return a plugin that implements a deprecated hook of another distribution."""
    (tmp_path / "old_hooks.py").write_text(
        "from karenina_core.hooks import hookspec\nfrom karenina_toolkit.hook_policy import HookPolicy\n\n\n@hookspec\n"
        f'@HookPolicy(since="0.2", deprecated="{ADVICE}")\ndef karenina_old():\n    """Offer something."""\n',
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = Plugins.discover(found=[EntryPoint("old", "old_hooks", "karenina.hookspecs")])

    class Late:
        @hookimpl
        def karenina_old(self) -> list[str]:
            return ["still works"]

    found.register(Late(), distribution="late-package", version="1.0")
    return found


def test_a_deprecated_hook_works_and_warns_with_its_replacement(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    import old_hooks  # type: ignore[import-not-found]

    warning = f"late-package 1.0 implements the hook karenina_old, which is deprecated: {ADVICE}"
    with caplog.at_level("WARNING", logger="karenina"):
        warn_about_plugins(plugins)

    assert plugins.call(old_hooks.karenina_old) == ["still works"]
    assert caplog.messages == [warning]
    assert [one.text for one in check_plugins(plugins) if one.state == "warning"] == [warning]


def test_a_hook_that_a_third_party_specifies_is_not_called_by_plugins_and_doctor(plugins: Plugins) -> None:
    class Called:
        @hookimpl
        def karenina_old(self) -> None:
            raise AssertionError("it may do anything")

    plugins.register(Called(), distribution="late-package", version="1.0")
    reject_wrong_offers(plugins)

    assert [one.text for one in check_plugins(plugins) if one.state == "problem"] == []


def test_a_hook_that_exits_is_a_flaw_of_its_plugin(plugins: Plugins) -> None:
    class Exiting:
        @hookimpl
        def karenina_executors(self) -> list[object]:
            raise SystemExit(3)

    plugins.register(Exiting(), distribution="exiting", version="1.0")
    problems = [one.text for one in check_plugins(plugins) if one.state == "problem"]

    assert [text.partition("; ")[0] for text in problems] == ["Exiting of exiting 1.0 cannot be used: SystemExit: 3"]


def test_the_list_of_hooks_shows_policies(plugins: Plugins) -> None:
    text = run_karenina("plugins", "--hooks", plugins=plugins).out
    as_json = {one["name"]: one for one in run_karenina("plugins", "--hooks", "--json", plugins=plugins).json["hooks"]}

    assert "karenina_extra_stages  (karenina-core 0.1.0)  stable since 0.1\n" in text
    assert f"karenina_old  (unknown 0)  stable since 0.2\n    Offer something.\n    Deprecated: {ADVICE}\n" in text
    assert as_json["karenina_executors"]["stability"] == "provisional"
    assert as_json["karenina_old"]["deprecated"] == ADVICE


def test_each_hook_is_listed_with_an_implementation_to_begin_with(plugins: Plugins) -> None:
    text = run_karenina("plugins", "--hooks", plugins=plugins).out
    listed = run_karenina("plugins", "--hooks", "--json", plugins=plugins).json["hooks"]

    for one in listed:
        module: dict[str, Any] = {}
        exec(one["example"], module)
        assert hasattr(module[one["name"]], "karenina_impl")
        assert get_type_hints(module[one["name"]]) is not None, "its types are imported"
        assert indent(one["example"], "        ") in text
    assert any("import Stage\n" in one["example"] and "return [MyStage]" in one["example"] for one in listed)
