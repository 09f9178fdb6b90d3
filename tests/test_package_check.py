"""`karenina plugins --check`: packages with one flaw each, as wheels that are installed with pip, and some without."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest
from conftest import Environment, Wheels

from karenina_core.errors import PluginError
from karenina_toolkit.package_check.check import check_package

STAGES, ADAPTERS, PLUGINS = "karenina.stages", "karenina.adapters", "karenina.plugins"
CORE = 'dependencies = ["karenina-core>=0.1,<0.2"]'
CORE_AND_PYDANTIC = 'dependencies = ["karenina-core>=0.1,<0.2", "pydantic>=2"]'
STAGE = """
from karenina_core import ArtifactKey, ArtifactKeys, Slot, Stage, hookimpl

class NAME(Stage):
    name = "NAME"
    LINE

    def execute(self, context):
        pass
"""
SETTINGS = """
from pydantic import BaseModel, Field
from karenina_core import Stage, hookimpl

class Settings(BaseModel):
    FIELD

class NAME(Stage):
    name = "NAME"
    settings = Settings

    def execute(self, context):
        pass
"""
ADAPTER = """
from functools import wraps

from karenina_core import AdapterSpec, hookimpl
from karenina_core.models.adapters import AgentTier

def retried(function):
    @wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call

class Port:
    def __init__(self, model):
        pass

    @retried
    async def invoke(self, messages, *, info=None):
        return None

    async def aclose(self):
        pass
"""
PLUGIN = """
class plugin:
    @staticmethod
    @hookimpl
    def karenina_{}:
        {}
"""
STAGE += PLUGIN.format("extra_stages()", "return [NAME]")
SETTINGS += PLUGIN.format("extra_stages()", "return [NAME]")
ADAPTER += PLUGIN.format("adapters()", 'return [AdapterSpec(interface="MODULE.line", description="A line.", DECLARED)]')
FAILING = STAGE.replace("karenina_extra_stages():", "karenina_extra_stages(mood):")
TRACED = """karenina: 1
name: Genes
questions:
  - question: Which gene?
    answer:
      gene: {ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}
"""
Flaw: TypeAlias = tuple[str, str, str, str]
"""The group of the entry point, the source, the metadata, and what the check says."""


def flawed_stage(line: str, finding: str) -> Flaw:
    """Return a package with a stage that has this line, and what the check says of it."""
    return STAGES, STAGE.replace("LINE", line), CORE, finding


def flawed_adapter(declared: str, finding: str) -> Flaw:
    """Return a package with an adapter that declares this, and what the check says of it."""
    return ADAPTERS, ADAPTER.replace("DECLARED", declared), CORE, finding


def flawed_hook(head: str, body: str, finding: str) -> Flaw:
    """Return a package with a hook of this head and body, and what the check says of it."""
    return PLUGINS, "from karenina_core import hookimpl\n" + PLUGIN.format(head, body), CORE, finding


FLAWS: dict[str, Flaw] = {
    "cannot-load": (STAGES, "raise RuntimeError('the wrong machine')", CORE, "RuntimeError: the wrong machine"),
    "other-version": (STAGES, STAGE + "    karenina_api = 2\n", CORE, "requires version 2 of the plugin interface"),
    "wrong-group": (
        "karenina.stage",
        STAGE,
        CORE,
        "is in the unknown group 'karenina.stage'; did you mean 'karenina.stages'?",
    ),
    "wrong-signature": (
        STAGES,
        FAILING,
        CORE,
        "the hook karenina_extra_stages has no argument 'mood'; write def karenina_extra_stages()",
    ),
    "text-as-type": flawed_stage("offers = {'MODULE.words': 'int'}", '(write offers = {"my_package.words": int})'),
    "type-with-items": flawed_stage(
        "produces = {ArtifactKey('MODULE.words', list[str])}",
        "the artifact 'type_with_items.words' must be a class, such as int or list, not list[str]",
    ),
    "never-given": flawed_hook(
        "prompt_instructions(task, interface='openai')",
        "return None",
        "interface has a default value, so no argument is ever passed; remove the default value",
    ),
    "never-awaited": (
        PLUGINS,
        "from karenina_core import hookimpl\n" + PLUGIN.format("settings()", "return []").replace("def ", "async def "),
        CORE,
        "karenina_settings is never awaited; write def karenina_settings(...), without async",
    ),
    "no-hooks": (
        PLUGINS,
        "class plugin:\n    pass\n",
        CORE,
        "implements no hook; name an object with functions marked",
    ),
    "no-form": flawed_hook(
        "settings()", "return []", "'no_form.plugin()' does not have the form 'package.module:object'"
    ),
    "returns-others": flawed_hook("exporters()", "return [3]", "exporters must return list[Exporter], not [3]"),
    "returns-parts": flawed_hook("prices()", "return [range(3)]", "list[PriceSource], not [range(0, 3)], which has no"),
    "returns-nothing": flawed_hook("exporters()", "pass", "exporters must return list[Exporter], not None"),
    "mistyped-declaration": flawed_stage("require = {ArtifactKeys.PARSED_ANSWER}", "requires"),
    "mistyped-artifact": flawed_stage(
        "requires = {ArtifactKey('raw_llm_respons', str)}",
        "which no installed stage produces; did you mean 'raw_llm_response'?",
    ),
    "other-type": flawed_stage(
        "requires = {ArtifactKey('raw_llm_response', int)}",
        "with the type int, but its type is str; import the existing key",
    ),
    "mistyped-place": flawed_stage("after = {'GenerateAnswers'}", "mean 'GenerateAnswer'?"),
    "no-context": (
        STAGES,
        STAGE.replace("LINE", "").replace("execute(self, context)", "execute(self)"),
        CORE,
        "NoContext: execute(self) cannot be called with the context; write def execute(self, context)",
    ),
    "mistyped-port": flawed_stage("judge_ports = {'parsre'}", "did you mean 'parser'?"),
    "no-place": flawed_stage(
        "requires = {ArtifactKeys.RAW_LLM_RESPONSE}; before = {'GenerateAnswer'}",
        "cannot place NoPlace in the plan: GenerateAnswer",
    ),
    "bad-default": (
        STAGES,
        SETTINGS.replace("FIELD", "words: int = Field(default='many', description='How many words.')"),
        CORE_AND_PYDANTIC,
        "Settings.words: the default 'many' is not valid",
    ),
    "undocumented": (
        STAGES,
        SETTINGS.replace("FIELD", "words: int = 3"),
        CORE_AND_PYDANTIC,
        "Settings.words has no description",
    ),
    "false-port": flawed_adapter("parser=Port, allowed_in_files=False", "has no parse() method"),
    "wrong-port": (
        ADAPTERS,
        ADAPTER.replace("DECLARED", "llm=Port, allowed_in_files=False").replace("messages, *, info=None", "messages"),
        CORE,
        "which cannot be called with the expected arguments; write async def invoke(self, messages, *, info)",
    ),
    "not-async": (
        ADAPTERS,
        ADAPTER.replace("DECLARED", "llm=Port, allowed_in_files=False").replace("async def invoke", "def invoke"),
        CORE,
        "invoke() of the llm port is not async; write async def invoke(self, messages, *, info)",
    ),
    "false-tier": flawed_adapter(
        "llm=Port, allowed_in_files=False, tier=AgentTier.DEEP_AGENT",
        "the tier is DEEP_AGENT, but the adapter has no agent port",
    ),
    "mistyped-use": flawed_adapter(
        "llm=Port, allowed_in_files=False, uses=['temprature']", "did you mean 'temperature'?"
    ),
    "says-nothing": flawed_adapter("llm=Port", "whether a benchmark may choose it"),
    "undeclared-import": (STAGES, "import yaml\n" + STAGE, CORE, 'add "pyyaml" to dependencies in pyproject.toml'),
    "import-for-tests": (
        STAGES,
        "import yaml\n" + STAGE,
        CORE + '\n[project.optional-dependencies]\ntests = ["pyyaml"]',
        'add "pyyaml" to dependencies in pyproject.toml',
    ),
    "absent-import": (
        STAGES,
        STAGE + "\ndef load():\n    import a_library_that_nobody_has\n",
        CORE,
        "a_library_that_nobody_has, which is not installed",
    ),
    "newer-core": (STAGES, STAGE, 'dependencies = ["karenina-core>=7"]', "requires karenina-core>=7, but"),
    "newer-python": (STAGES, STAGE, CORE, "the package requires Python >=4"),
    "untyped": (STAGES, STAGE, CORE, "has no py.typed"),
}
PROGRAM = """
import json, sys
from karenina_toolkit.package_check.check import check_package
names = json.loads({!r})
print(json.dumps({{name: [one.to_json() for one in check_package(name)[1]] for name in names}}))
"""


def class_name(package: str) -> str:
    """Return the name of the stage of a package."""
    return "".join(map(str.capitalize, package.split("-")))


@pytest.fixture(scope="module")
def flawed(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with every package."""
    site = Environment(tmp_path_factory.mktemp("flawed"))
    found = []
    for package, (group, source, metadata, _) in FLAWS.items():
        module, name = package.replace("-", "_"), class_name(package)
        text = source.replace("NAME", name).replace("MODULE", module).replace("    LINE\n", "")
        point = f"{module}.line" if group == ADAPTERS else name if group != PLUGINS else package
        typed = package != "untyped"
        found.append(wheels.package(package, "0.1", [(group, point)], text, metadata=metadata, typed=typed))
    site.install(*found, wheels.example("word-count"), wheels.example("parrot"), wheels.example("word-rules"))
    points = site.folder / "site" / "no_form-0.1.dist-info" / "entry_points.txt"  # pip would not install it either
    points.write_text(points.read_text("utf-8").replace(":plugin", ".plugin()"), "utf-8")
    newer = site.folder / "site" / "newer_python-0.1.dist-info" / "METADATA"  # pip would not install it
    newer.write_text(f"Requires-Python: >=4\n{newer.read_text('utf-8')}", "utf-8")
    return site


@pytest.fixture(scope="module")
def findings(flawed: Environment) -> dict[str, list[dict[str, str]]]:
    """Return what the checks of every package found."""
    names = [*FLAWS, "word-count", "parrot", "word-rules"]
    found: dict[str, list[dict[str, str]]] = flawed.python(PROGRAM.format(json.dumps(names)))
    return found


@pytest.mark.parametrize("package", FLAWS)
def test_the_flaw_is_the_one_failed_check(findings: dict[str, Any], package: str) -> None:
    failed = [one["text"] for one in findings[package] if one["state"] == "problem"]

    assert len(failed) == 1, failed
    assert FLAWS[package][3] in failed[0]


@pytest.mark.parametrize("package", ["word-count", "parrot", "word-rules"])
def test_a_sound_package_passes_every_check(findings: dict[str, Any], package: str) -> None:
    assert [one for one in findings[package] if one["state"] == "problem"] == []
    assert {"Entry points", "Hooks", "Versions", "Imports", "Types"} <= {one["area"] for one in findings[package]}


def test_the_place_in_the_plan_has_its_reasons(findings: dict[str, Any]) -> None:
    (plan,) = [one["text"] for one in findings["word-count"] if one["area"] == "Plan"]

    assert "after GenerateAnswer (raw_llm_response)" in plan
    assert "before ParseTemplate (WordCount declares before)" in plan


@pytest.mark.parametrize("name", ["word-count", "word_count", "WordCount"])
def test_a_package_has_three_kinds_of_names(flawed: Environment, name: str) -> None:
    done = flawed.karenina("plugins", "--check", name)

    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "word-count 1.2.3"
    assert "ok      Entry points: karenina.stages: WordCount = word_count" in done.stdout
    assert done.stdout.splitlines()[-1] == "No checks failed."


def test_a_failed_check_is_printed_with_its_cure(flawed: Environment) -> None:
    done = flawed.karenina("plugins", "--check", "mistyped-artifact")
    printed = flawed.printed("plugins", "--check", "mistyped-artifact", code=2)

    assert done.returncode == 2
    assert "failed  Stages: MistypedArtifact: `requires` lists the artifact 'raw_llm_respons'" in done.stdout
    assert (printed["distribution"], printed["version"], printed["problems"]) == ("mistyped-artifact", "0.1", 1)


@pytest.mark.parametrize("command", ["doctor", "plugins"])
def test_flaws_that_only_some_commands_would_find_are_printed(flawed: Environment, command: str) -> None:
    printed = " ".join(flawed.karenina(command).stdout.split())

    assert "the entry point 'WrongGroup' of wrong-group is not used" in printed
    assert "unknown group 'karenina.stage'; did you mean 'karenina.stages'?" in printed
    assert "TypeError: karenina_exporters must return list[Exporter], not [3]" in printed
    assert "TypeError: karenina_exporters must return list[Exporter], not None" in printed


def test_commands_that_cannot_be_called_fail_the_check(site: Environment, wheels: Wheels) -> None:
    lazy = "from karenina_terminal.lazy_commands import add_lazy_command\n"
    add = "add_lazy_command(app, {!r}, {!r}, 'Words.')"
    sources = {
        "failing-hook": PLUGIN.format("commands(app)", "raise RuntimeError('no words')"),
        "absent-module": lazy + PLUGIN.format("commands(app)", add.format("words", "absent_module.words:run")),
        "no-function": lazy + PLUGIN.format("commands(app)", add.format("letters", "typer:main")),
        "name-of-ours": lazy + PLUGIN.format("commands(app)", add.format("show", "typer:run")),
    }
    metadata = 'dependencies = ["karenina-core>=0.1,<0.2", "karenina-terminal[commands]"]'
    site.install(
        *(
            wheels.package(
                name,
                "0.1",
                [(PLUGINS, name)],
                f"from karenina_core import hookimpl\n{source}",
                metadata=metadata,
                typed=True,
            )
            for name, source in sources.items()
        )
    )
    failed = {
        name: [
            f"{one['area']}: {one['text']}"
            for one in site.printed("plugins", "--check", name, code=2)["findings"]
            if one["state"] == "problem"
        ]
        for name in sources
    }

    assert {name: len(found) for name, found in failed.items()} == dict.fromkeys(sources, 1)
    assert "Commands: karenina_commands failed: RuntimeError: no words" in failed["failing-hook"][0]
    assert "'words' cannot be imported from absent_module.words:run: ModuleNotFound" in failed["absent-module"][0]
    assert "is neither a function nor a typer.Typer" in failed["no-function"][0]
    assert "the command 'show' was ignored because Karenina already has" in failed["name-of-ours"][0]
    for command in ("plugins", "doctor"):
        assert "RuntimeError: no words" in site.karenina(command).stdout
    assert "neither a function nor a typer.Typer" in site.karenina("letters").stderr


def test_what_a_plugin_prints_is_not_in_the_output_for_programs(site: Environment, wheels: Wheels) -> None:
    stage = STAGE.replace("NAME", "Loud").replace("LINE", "").replace("        pass", "        print('at work')")
    text = f"print('at import'){stage}".replace(
        "        return [Loud]", "        print('in the hook')\n        return [Loud]"
    )
    hook = f"print('first')\nfrom karenina_core import hookimpl\n{PLUGIN.format('exporters()', 'print(2); return []')}"
    site.install(
        wheels.package("loud", "0.1", [(STAGES, "Loud")], text),
        wheels.package("louder", "0.1", [(PLUGINS, "louder")], hook),
    )
    site.write("q.yaml", TRACED)
    site.write("answers.jsonl", '{"question": "Which gene?", "response": "BCL2"}\n')

    assert site.printed("plugins")["plugins"]
    assert site.printed("plan")["stages"]
    assert site.printed("run", "q.yaml", "--recordings", "answers.jsonl")["results"]
    done = site.karenina("export", "q.results.jsonl", "--format", "csv")
    assert done.stdout.startswith("result_id,")
    assert "2\n" in done.stderr


def test_a_primitive_that_fails_makes_no_answer_wrong(site: Environment, wheels: Wheels) -> None:
    primitive = "from karenina_template.templates import Primitive\n\nclass Broken(Primitive):\n    "
    check = "def check(self, extracted):\n        return True\n"
    source = f"{primitive}{check}{PLUGIN.format('primitives()', 'return [Broken]')}"
    broken = wheels.package("broken", "0.1", [(PLUGINS, "broken")], f"from karenina_core import hookimpl\n{source}")
    site.install(broken)
    field = "words: {from: answer.words, ground_truth: 1, verify_with: broken.Broken}"
    site.write("q.yaml", TRACED.replace(TRACED.splitlines()[-1].strip(), field))
    site.write("answers.jsonl", '{"question": "Which gene?", "response": "BCL2"}\n')
    (result,) = site.printed("run", "q.yaml", "--recordings", "answers.jsonl", code=4)["results"]

    assert result["outcome"] == "stage_error"
    assert "the primitive Broken in broken failed: TypeError: Broken.check() takes 2" in result["metadata"]["error"]


@pytest.mark.parametrize("command", ["doctor", "plan"])
def test_a_misspelt_place_of_a_stage_is_warned_about(flawed: Environment, command: str) -> None:
    done = flawed.karenina(command)

    told = " ".join((done.stdout + done.stderr).split())
    assert "the stage MistypedPlace of mistyped-place 0.1: `after` lists the stage 'GenerateAnswers'" in told
    assert "so the entry has no effect; did you mean 'GenerateAnswer'?" in told


def test_an_unknown_name_is_an_error_with_the_nearest(flawed: Environment) -> None:
    done = flawed.karenina("plugins", "--check", "word-cuont")

    assert done.returncode == 2
    assert "did you mean 'word-count'?" in done.stderr


def test_a_distribution_without_entry_points_is_told_so() -> None:
    _, found = check_package("packaging")

    (problem,) = [one.text for one in found if one.state == "problem" and one.area == "Entry points"]
    assert "has no Karenina entry point" in problem


def test_names_that_nothing_has_raise() -> None:
    with pytest.raises(PluginError, match="no installed distribution, package or plugin"):
        check_package("a-package-that-nobody-has")


def test_settings_with_two_owners_are_a_failed_check(site: Environment, wheels: Wheels) -> None:
    """Installed alone: the names of settings are the same for all packages."""
    field = "words: int = Field(1, description='How many.', json_schema_extra={'allowed_in_files': 'any'})"
    other = f'class More(Settings):\n    {field}\n\nclass Other(TwoOwners):\n    name = "Other"\n    settings = More\n'
    source = SETTINGS.replace("FIELD", field).replace("[NAME]", "[NAME, Other]").replace("NAME", "TwoOwners")
    source = source.replace("class plugin:", f"{other}\nclass plugin:")
    point = [(PLUGINS, "two-owners")]
    site.install(wheels.package("two-owners", "0.1", point, source, metadata=CORE_AND_PYDANTIC, typed=True))

    found = site.printed("plugins", "--check", "two-owners", code=2)["findings"]
    others = site.printed("plugins", "--check", "karenina-rubric")["findings"]

    (problem,) = [one for one in found if one["state"] == "problem"]
    assert problem["area"] == "Settings"
    assert "the configuration name 'two_owners.words' has two owners" in problem["text"]
    assert "the settings were not checked" in next(one["text"] for one in others if one["area"] == "Settings")


def test_a_setting_without_a_default_is_named(site: Environment, wheels: Wheels) -> None:
    """Installed alone: no run can begin where it is installed."""
    field = "words: int = Field(description='How many words.')"
    source = SETTINGS.replace("FIELD", field).replace("NAME", "NoDefault")
    point = [(STAGES, "NoDefault")]
    site.install(wheels.package("no-default", "0.1", point, source, metadata=CORE_AND_PYDANTIC, typed=True))

    found = site.printed("plugins", "--check", "no-default", code=2)["findings"]

    (failed,) = [one["text"] for one in found if one["state"] == "problem"]
    assert "Settings.words has no default" in failed


@pytest.mark.parametrize("package", ["untyped", "undeclared-import"])
def test_the_contract_of_a_stage_checks_its_package(flawed: Environment, package: str) -> None:
    name, module = class_name(package), package.replace("-", "_")
    test = flawed.write(
        f"test_{module}.py",
        "from karenina_testing.contracts import StageContract\n"
        f"from {module} import {name}\n\n"
        f'class TestOne(StageContract):\n    entry_point = "{module}:plugin"\n    stage = {name}\n',
    )

    done = flawed.pytest(test, "-k", "passes_its_check")

    assert done.returncode == 1, done.stdout
    assert FLAWS[package][3] in done.stdout
