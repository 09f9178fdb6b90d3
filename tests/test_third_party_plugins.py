"""Third-party plugins, as wheels that are built outside the repository and installed with pip."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from conftest import Environment, Wheels

from karenina_core import __version__

BENCHMARK = """karenina: 1
name: Capitals
questions:
  - id: france
    question: What is the capital of France?
    raw_answer: Paris
    template: |
      from karenina.templates import BaseAnswer, ExactMatch, VerifiedField

      class Answer(BaseAnswer):
          city: str = VerifiedField(description="The capital", ground_truth="Paris", verify_with=ExactMatch())
"""
MODELS = """
answering_models = [{ id = "answers", interface = "parrot.echo", model_name = "I think that it is Paris." }]
parsing_models = [{ id = "judge", interface = "parrot.echo", model_name = '{"city": "Paris"}' }]
"""
NO_JUDGE = MODELS.replace('{"city": "Paris"}', "not JSON at all")

STAGE = """
from karenina_core import Stage, hookimpl

class WordCount(Stage):
    name = "WordCount"
    def execute(self, context):
        context.set_result_field("words", "another way to count")

class plugin:
    @staticmethod
    @hookimpl
    def karenina_extra_stages():
        return [WordCount]
"""
ADAPTER = """
from karenina_core import AdapterSpec, hookimpl

class plugin:
    @staticmethod
    @hookimpl
    def karenina_adapters():
        return [AdapterSpec(interface="parrot.echo", description="Another bird.")]
"""
DECLARED = (
    STAGE.replace("import Stage", "import ArtifactKey, Stage")
    .replace("class WordCount", "KEY = ArtifactKey('my_package.words', int)\n\nclass WordCount")
    .replace("def execute", "LINE\n    def execute")
)
BROKEN = {
    "ImportError": ("import a_library_that_nobody_has", "No module named 'a_library_that_nobody_has'"),
    "SystemExit": ("raise SystemExit('I want everything to end')", "I want everything to end"),
    "AssertionError": ("assert False, 'the wrong machine'", "the wrong machine"),
    "SyntaxError": ("def", "invalid syntax"),
    "MissingObject": ("", "no attribute 'plugin'"),
    "NewerInterface": (
        STAGE.replace("WordCount", "NewerInterface") + "    karenina_api = 2\n",
        "requires version 2 of the",
    ),
    "UnknownHook": (
        STAGE.replace("karenina_extra_stages", "karenina_extra_stage"),
        "unknown hook 'karenina_extra_stage'",
    ),
    "UnknownArgument": (STAGE.replace("karenina_extra_stages()", "karenina_extra_stages(mood)"), "mood"),
    "OtherName": (STAGE, "offers WordCount"),
    "WrongHook": (
        STAGE.replace("karenina_extra_stages", "karenina_parse_template")
        .replace("WordCount", "WrongHook")
        .replace("def execute", "slot = None\n    def execute"),
        "use karenina_extra_stages",
    ),
    "RaisesWhenAsked": (STAGE.replace("return [WordCount]", "return 1 / 0"), "ZeroDivisionError"),
    "NoStage": (STAGE.replace("return [WordCount]", "return [int]"), "must be a class with a name"),
    "WrongScope": (
        STAGE.replace("WordCount", "WrongScope").replace("def execute", "scope = 'items'\n    def execute"),
        'write scope = "item"',
    ),
    "BareKey": (DECLARED.replace("WordCount", "BareKey").replace("LINE", "requires = KEY"), "write requires = {KEY}"),
    "BareName": (
        DECLARED.replace("WordCount", "BareName").replace("LINE", "after = 'GenerateAnswer'"),
        "write after = {'GenerateAnswer'}",
    ),
    "OtherWord": (
        DECLARED.replace("WordCount", "OtherWord").replace("LINE", "require = {KEY}"),
        "write requires = {KEY}",
    ),
    "NoExecute": (
        STAGE.replace("WordCount", "NoExecute").replace("def execute", "def run"),
        "write def execute(self, context)",
    ),
    "NoList": (STAGE.replace("return [WordCount]", "return WordCount"), "must return list[type[Stage]]"),
}
STAGES = "karenina.stages"
ADAPTERS = "karenina.adapters"


def plugin(site: Environment, name: str, distribution: str) -> dict[str, Any]:
    """Return the row of one entry point in `karenina plugins`."""
    found = site.printed("plugins")["plugins"]
    return next(one for one in found if (one["name"], one["distribution"]) == (name, distribution))


def planned(site: Environment, *arguments: str) -> list[str]:
    """Return the names of the stages that `karenina plan` prints."""
    return [stage["name"] for stage in site.printed("plan", *arguments)["stages"]]


def line_of(message: str) -> str:
    """Return the configuration line that an error names, as a file that holds nothing else."""
    found = re.search(r'(\[plugins\.pick\]) (\w+ = "[\w-]+")', message)
    assert found is not None, message
    return "\n".join(found.groups())


# ---- a stage


def test_a_stage_stands_where_its_artifacts_put_it(site: Environment, wheels: Wheels) -> None:
    site.install(wheels.example("word-count"))

    plan = site.printed("plan")["stages"]

    names = [stage["name"] for stage in plan]
    mine = plan[names.index("WordCount")]
    parse = plan[names.index("ParseTemplate")]
    assert names.index("GenerateAnswer") < names.index("WordCount") < names.index("ParseTemplate")
    assert (mine["distribution"], mine["version"], mine["slot"]) == ("word-count", "1.2.3", None)
    assert {"artifact": "raw_llm_response", "stage": "GenerateAnswer", "why": "requires"} in mine["waits_for"]
    assert {"artifact": None, "stage": "WordCount", "why": "WordCount declares before"} in parse["waits_for"]


def test_without_the_wheel_the_stage_is_not_there(site: Environment) -> None:
    assert "WordCount" not in planned(site)


def test_a_run_with_a_third_party_stage_and_adapter(site: Environment, wheels: Wheels) -> None:
    site.install(wheels.example("word-count"), wheels.example("parrot"))
    benchmark, config = site.write("capitals.yaml", BENCHMARK), site.write("run.toml", MODELS)

    (result,) = site.printed("run", benchmark, "--config", config)["results"]

    assert (result["question_id"], result["outcome"]) == ("france", "correct")
    assert result["template"]["raw_llm_response"] == "I think that it is Paris."
    assert result["extensions"]["word-count"]["words"] == 6


def test_the_same_run_from_python(site: Environment, wheels: Wheels) -> None:
    site.install(wheels.example("word-count"), wheels.example("parrot"))
    site.write("capitals.yaml", BENCHMARK)
    site.write("run.toml", MODELS)

    seen = site.python("""
import json, tomllib
from pathlib import Path
from karenina import Benchmark
results = Benchmark.load("capitals.yaml").run_verification(tomllib.loads(Path("run.toml").read_text()))
(result,) = results
record = next(record for record in result.stages if record.name == "WordCount")
print(json.dumps([result.outcome, result.extensions["word-count"]["words"], record.distribution, record.version]))
""")

    assert seen == ["correct", 6, "word-count", "1.2.3"]


FAILING = """
from karenina_core import ArtifactKeys, Stage, hookimpl

class Counting(Stage):
    name = "Counting"
    requires = {ArtifactKeys.RAW_LLM_RESPONSE}

    def execute(self, context):
        {}["missing"]

class plugin:
    @staticmethod
    @hookimpl
    def karenina_extra_stages():
        return [Counting]
"""


def test_a_failing_stage_of_others_is_shown_with_its_line(site: Environment, wheels: Wheels) -> None:
    """In the output of the run, in its log with one traceback, in the results, and by `karenina show`."""
    failing = wheels.package("my-count", "0.1", [("karenina.stages", "Counting")], FAILING)
    site.install(failing, wheels.example("parrot"))
    benchmark, config = site.write("capitals.yaml", BENCHMARK), site.write("run.toml", MODELS)
    error = "KeyError: 'missing' (my_count/__init__.py:9)"

    done = site.karenina("-vv", "run", benchmark, "--config", config)
    shown = site.karenina("show", "capitals.results.jsonl")
    (result,) = site.printed("show", "capitals.results.jsonl")["results"]

    assert f"Why       Counting: {error}" in done.stdout
    assert f"Counting of my-count 0.1 failed: {error}" in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert "During handling" not in done.stderr
    assert error in shown.stdout
    assert result["metadata"]["error"] == f"Counting: {error}"
    (record,) = (record for record in result["stages"] if record["name"] == "Counting")
    assert record["error"] == error


# ---- a second stage for a slot that takes one


def test_installing_a_second_parser_changes_nothing(site: Environment, wheels: Wheels) -> None:
    without = planned(site)
    site.install(wheels.example("last-word-parse"))

    assert planned(site) == without
    assert plugin(site, "LastWordParse", "last-word-parse")["state"] == "loaded"


def test_one_line_chooses_the_second_parser(site: Environment, wheels: Wheels) -> None:
    site.install(wheels.example("last-word-parse"), wheels.example("parrot"))
    benchmark = site.write("capitals.yaml", BENCHMARK)
    usual = site.write("usual.toml", NO_JUDGE)
    chosen = site.write("chosen.toml", 'slots = { parse_template = "LastWordParse" }\n' + NO_JUDGE)

    (before,) = site.printed("run", benchmark, "--config", usual, code=4)["results"]  # nothing could be judged
    (after,) = site.printed("run", benchmark, "--config", chosen)["results"]

    assert (before["outcome"], after["outcome"]) == ("parse_error", "correct")
    left_out = site.printed("plan", "--config", str(chosen))["left_out"]
    assert {"name": "ParseTemplate", "why": "[slots] parse_template selects other stages"} in left_out


# ---- what is broken


@pytest.fixture(scope="module")
def broken(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with every broken plugin at once: each has to leave the others alone."""
    site = Environment(tmp_path_factory.mktemp("broken"))
    site.install(
        *(wheels.package(distribution(case), "0.1", [(STAGES, case)], source) for case, (source, _) in BROKEN.items())
    )
    return site


@pytest.fixture(scope="module")
def listing(broken: Environment) -> list[dict[str, Any]]:
    """Return the rows of `karenina plugins`."""
    listed: list[dict[str, Any]] = broken.printed("plugins")["plugins"]
    return listed


def distribution(case: str) -> str:
    """Return the package that a case is in."""
    return f"broken-{case.lower()}"


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_listed_with_its_reason(listing: list[dict[str, Any]], case: str) -> None:
    (found,) = [one for one in listing if one["distribution"] == distribution(case)]

    assert (found["name"], found["version"], found["state"]) == (case, "0.1", "failed")
    assert BROKEN[case][1] in found["failure"]


@pytest.mark.parametrize("case", ["ImportError", "SystemExit", "NewerInterface"])
def test_a_broken_plugin_stops_who_needs_it(broken: Environment, case: str) -> None:
    needing = broken.karenina("plan", "--set", f"slots.trace_validation_auto_fail={case}")

    assert needing.returncode == 2
    assert case in needing.stderr
    assert BROKEN[case][1] in needing.stderr


def test_a_broken_plugin_stops_nobody_else(broken: Environment, site: Environment) -> None:
    assert planned(broken) == planned(site)


def test_every_run_and_plan_reports_broken_plugins(broken: Environment, wheels: Wheels) -> None:
    broken.install(wheels.example("parrot"))
    benchmark, config = broken.write("capitals.yaml", BENCHMARK), broken.write("run.toml", MODELS)

    run = broken.karenina("run", benchmark, "--config", config)
    again = broken.karenina("resume", "capitals.journal")
    estimated = broken.karenina("run", benchmark, "--config", config, "--dry-run")
    plan = broken.karenina("plan", "--json")

    assert [done.returncode for done in (run, again, estimated, plan)] == [0, 0, 0, 0]
    for done in (run, again, estimated, plan):
        reported = [line for line in done.stderr.splitlines() if "cannot be used" in line]
        assert [sum(f"WARNING  {case} of" in line for line in reported) for case in BROKEN] == [1] * len(BROKEN)
    left_out = {left["name"]: left["why"] for left in json.loads(plan.stdout)["left_out"]}
    assert all(reason in left_out[case] for case, (_, reason) in BROKEN.items())


def test_a_required_plugin_has_to_work(broken: Environment, wheels: Wheels) -> None:
    broken.install(wheels.example("parrot"))
    benchmark = broken.write("capitals.yaml", BENCHMARK)

    def stopped(*required: str) -> str:
        config = broken.write("run.toml", f"{MODELS}\n[plugins]\nrequire = {list(required)}")
        done = broken.karenina("run", benchmark, "--config", config)
        assert done.returncode == (2 if done.stderr.startswith("Error") else 0)
        return done.stderr if done.returncode else ""

    assert stopped("GenerateAnswer", "karenina-checks", "parrot") == ""
    assert BROKEN["ImportError"][1] in stopped("parrot", "ImportError")
    assert "'parrott', which is not installed; did you mean 'parrot'?" in stopped("parrott")
    assert "'karenina-nowhere', which is not installed" in stopped("karenina-nowhere")


def test_a_broken_plugin_of_ours_is_not_called_missing(site: Environment) -> None:
    package = site.folder / "site" / "karenina_checks"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('the wrong library')")

    done = site.karenina("plan", "--set", "abstention_enabled=true", script=True)

    assert done.returncode == 2
    assert "abstention_enabled: the plugin of this setting is not available; karenina-checks" in done.stderr
    assert "cannot be used: ImportError: the wrong library" in done.stderr
    assert "pip install" not in done.stderr


def test_members_of_another_release_are_named_with_the_cure(site: Environment) -> None:
    for name, points in {
        "karenina-prices": "[karenina.plugins]\nprices = karenina_prices:plugin\n",
        "karenina-odd": "",
    }.items():
        info = site.folder / "site" / f"{name.replace('-', '_')}-0.0.7.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.7\n")
        (info / "entry_points.txt").write_text(points or "[karenina.plugins]\nodd = karenina_prices:plugin\n")

    done = site.karenina("plan")

    (warning,) = [line for line in done.stderr.splitlines() if "another release" in line]
    assert (
        "some installed packages are from another release than karenina-core: karenina-prices 0.0.7 "
        f"(karenina-core is {__version__})" in warning
    )
    assert f"; run pip install karenina-prices=={__version__}" in warning
    assert "karenina-odd" not in warning


def test_a_broken_adapter_stops_only_the_runs_with_its_models(site: Environment, wheels: Wheels) -> None:
    site.install(
        wheels.package("broken-bird", "0.1", [(ADAPTERS, "broken_bird.budgie")], "import a_library_that_nobody_has"),
        wheels.example("parrot"),
    )
    benchmark, fine = site.write("capitals.yaml", BENCHMARK), site.write("fine.toml", MODELS)
    needing = site.write("needing.toml", MODELS.replace('"parrot.echo"', '"broken_bird.budgie"', 1))

    stopped = site.karenina("run", benchmark, "--config", needing)

    assert site.printed("run", benchmark, "--config", fine)["results"][0]["outcome"] == "correct"
    assert stopped.returncode == 2
    assert "budgie" in stopped.stderr
    assert "a_library_that_nobody_has" in stopped.stderr
    assert "broken-bird 0.1" in stopped.stderr


# ---- what a run was made with


def test_journal_and_results_name_the_distributions(site: Environment, wheels: Wheels) -> None:
    site.install(wheels.example("word-count"), wheels.example("parrot"))
    benchmark, config = site.write("capitals.yaml", BENCHMARK), site.write("run.toml", MODELS)

    printed = site.printed("run", benchmark, "--config", config, "--full")["distributions"]
    written = (site.folder / "capitals.results.jsonl").read_text("utf-8")
    exported = site.karenina("export", "capitals.journal").stdout
    shown = site.printed("show", "capitals.results.jsonl")

    assert (printed["word-count"], "karenina-core" in printed, "karenina-engine" in printed) == ("1.2.3", True, True)
    assert site.printed("status", "capitals.journal")["distributions"] == printed
    assert json.loads(written.splitlines()[0])["run"]["distributions"] == printed
    assert exported == written
    assert len(shown["results"]) == 1


# ---- two of one name


def test_two_stages_of_one_name_are_an_error_with_cure(site: Environment, wheels: Wheels) -> None:
    site.install(
        wheels.example("word-count"),
        wheels.example("parrot"),
        wheels.package("another-package", "9.9", [(STAGES, "WordCount")], STAGE),
    )
    benchmark = site.write("capitals.yaml", BENCHMARK)

    refused = site.karenina("plan")
    line = line_of(refused.stderr)
    config = site.write("run.toml", MODELS + line)
    (result,) = site.printed("run", benchmark, "--config", config)["results"]

    assert refused.returncode == 2
    assert "word-count 1.2.3" in refused.stderr
    assert "another-package 9.9" in refused.stderr
    assert plugin(site, "WordCount", "word-count")["state"] == "conflict"
    picked = tomllib.loads(line)["plugins"]["pick"]["WordCount"]
    assert [name for name in ("word-count", "another-package") if "words" in result["extensions"].get(name, {})] == [
        picked
    ]


def test_an_adapter_cannot_take_the_name_of_another_package(site: Environment, wheels: Wheels) -> None:
    site.install(wheels.example("parrot"), wheels.package("macaw", "0.9", [(ADAPTERS, "parrot.echo")], ADAPTER))
    benchmark, config = site.write("capitals.yaml", BENCHMARK), site.write("run.toml", MODELS)

    refused = plugin(site, "parrot.echo", "macaw")

    assert refused["state"] == "failed"
    assert refused["failure"] == "the name 'parrot.echo' must begin with 'macaw.', as in 'macaw.echo'"
    assert site.printed("run", benchmark, "--config", config)["results"][0]["outcome"] == "correct"


def test_a_package_cannot_disable_an_adapter_of_ours(site: Environment, wheels: Wheels) -> None:
    site.install(wheels.package("macaw", "1.0", [(ADAPTERS, "manual")], ADAPTER))

    assert plugin(site, "manual", "macaw")["state"] == "failed"
    assert plugin(site, "manual", "karenina-manual")["state"] == "loaded"


def test_settings_of_a_second_package_are_refused(site: Environment, wheels: Wheels) -> None:
    source = """
import sys, types
from pydantic import BaseModel
from karenina_core import Stage, hookimpl

class Settings(BaseModel):
    __module__ = "other_package"
    max_concurrent: int = 3

class Greedy(Stage):
    name = "Greedy"
    settings = Settings
    def execute(self, context): ...

class plugin:
    @staticmethod
    @hookimpl
    def karenina_extra_stages():
        return [Greedy]
"""
    site.install(wheels.package("greedy", "0.1", [(STAGES, "Greedy")], source))

    assert (
        "Settings is defined in other_package; define it in the plugin's own package, greedy"
        in (plugin(site, "Greedy", "greedy")["failure"])
    )
