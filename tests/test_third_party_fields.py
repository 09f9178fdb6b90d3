"""Settings, fields and primitives of a third party, under the name of its package, in every format."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment, Wheels

TABLES = """karenina: 1
name: Drugs
config: {word_rules: {limit: 20}}
rubric:
  - {type: llm, name: clear, description: It is clear., word_rules: {strict: true}}
questions:
  - id: venetoclax
    question: Which kind of drug is venetoclax?
    word_rules: {level: 3}
    answer:
      kind:
        description: The kind
        ground_truth: BCL2 inhibitor
        verify_with: {type: word_rules.SameWords, ignore: [the]}
        word_rules: {words: 5, stop: [a, an]}
"""
FLAT = (
    TABLES.replace("{word_rules: {limit: 20}}", "{word_rules.limit: 20}")
    .replace("word_rules: {strict: true}", "word_rules.strict: true")
    .replace("word_rules: {level: 3}", "word_rules.level: 3")
    .replace("word_rules: {words: 5, stop: [a, an]}", "word_rules.words: 5\n        word_rules.stop: [a, an]")
)
RUN = """
answering_models = [{ id = "answers", interface = "parrot.echo", model_name = "It is the inhibitor of BCL2." }]
parsing_models = [{ id = "judge", interface = "parrot.echo", model_name = '{"kind": "the inhibitor BCL2"}' }]
"""
LOADED = """
import json
from karenina import Benchmark
from karenina_template.question_template import template_of
benchmark = Benchmark.load("{file}")
(question,) = benchmark
rule = template_of(question).key.rules["kind"]
print(json.dumps([
    question.extra, dict(rule.options), rule.primitive.to_json(), benchmark.run_config,
    [trait.extra for trait in benchmark.global_rubric.traits],
]))
"""
CLASSES = """
from karenina.templates import BaseAnswer, VerifiedField
from word_rules import SameWords

class Answer(BaseAnswer):
    kind: str = VerifiedField(
        description="The kind", ground_truth="BCL2 inhibitor", verify_with=SameWords(ignore=["the"]),
        word_rules={"words": 5, "stop": ["a", "an"]},
    )
"""
VALUES = [
    {"word_rules.level": 3},
    {"word_rules.words": 5, "word_rules.stop": ["a", "an"]},
    {"type": "word_rules.SameWords", "ignore": ["the"]},
    [{"word_rules.strict": True}],
]


@pytest.fixture(scope="module")
def site(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the plugin, and an adapter to run it with."""
    found = Environment(tmp_path_factory.mktemp("site"))
    found.install(wheels.example("word-rules"), wheels.example("parrot"))
    return found


def extension(done: Any) -> dict[str, Any]:
    """Return what the stage has stored in the only result of a run."""
    (result,) = done["results"]
    assert result["outcome"] == "correct"
    stored: dict[str, Any] = result["extensions"]["word-rules"]
    return stored


def loaded(site: Environment, file: str) -> list[Any]:
    """Return the values that a benchmark has after loading, without its configuration."""
    extra, options, primitive, config, traits = site.python(LOADED.replace("{file}", file))
    assert config in ({}, {"word_rules": {"limit": 20}}, {"word_rules.limit": 20})
    return [extra, options, primitive, traits]


@pytest.mark.parametrize("text", [TABLES, FLAT], ids=["tables", "dots"])
def test_both_forms_of_yaml_reach_the_stage(site: Environment, text: str) -> None:
    file, config = site.write("drugs.yaml", text), site.write("run.toml", RUN)

    assert loaded(site, "drugs.yaml") == VALUES
    assert site.printed("check", file)["errors"] == 0
    assert extension(site.printed("run", file, "--config", config)) == {"limit": 20, "level": 3, "words": {"kind": 5}}


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonld", ".yaml"])
def test_every_format_keeps_the_values(site: Environment, suffix: str) -> None:
    site.write("drugs.yaml", TABLES)
    site.python(f"""
import json
from karenina import Benchmark
Benchmark.load("drugs.yaml").save("saved{suffix}")
Benchmark.load("saved{suffix}").save("again.yaml")
print(json.dumps(Benchmark.load("again.yaml") == Benchmark.load("drugs.yaml")))
""")

    assert loaded(site, f"saved{suffix}") == VALUES
    assert loaded(site, "again.yaml") == VALUES
    assert "word_rules" in Path(site.folder, f"saved{suffix}").read_text("utf-8")


@pytest.mark.parametrize("columns", [[], ["--columns", "word_rules.level=Grade"]])
def test_a_column_of_a_table_gives_a_field(site: Environment, columns: list[str]) -> None:
    head = "word_rules.level" if not columns else "Grade"
    file = site.write("drugs.csv", f"id,question,answer,{head}\nd,Which kind?,BCL2 inhibitor,4\n")
    config = site.write("table-run.toml", RUN.replace('{"kind": "the inhibitor BCL2"}', '{"answer": "BCL2 inhibitor"}'))

    stored = extension(site.printed("run", file, "--config", config, *columns, "--fresh"))

    assert (stored["level"], site.karenina("check", file, *columns).returncode) == (4, 0)


def test_a_python_class_gives_the_values_and_keeps_them(site: Environment) -> None:
    site.write("classes.py", CLASSES)
    found = site.python("""
import json
from karenina import Benchmark
from karenina_core.data.rubrics import LLMRubricTrait, Rubric
from classes import Answer
benchmark = Benchmark.create(name="Drugs")
trait = LLMRubricTrait(name="clear", description="It is clear.", word_rules={"strict": True})
benchmark.add_question(
    "Which kind of drug is venetoclax?", answer_template=Answer, question_id="venetoclax", rubric=[trait],
    word_rules={"level": 3},
)
benchmark.save("python.yaml")
(question,) = Benchmark.load("python.yaml")
from karenina_template.question_template import template_of
rule = template_of(question).key.rules["kind"]
traits = [trait.extra for trait in question.rubric.traits]
print(json.dumps([question.extra, dict(rule.options), rule.primitive.to_json(), traits]))
""")

    assert found == VALUES


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (["--set", "word_rules.limit=7"], None),
        ([], "7"),
        (["--config", "table.toml"], None),
        (["--config", "dotted.toml"], None),
    ],
)
def test_a_setting_is_given_in_every_way(
    site: Environment, monkeypatch: pytest.MonkeyPatch, arguments: list[str], variable: str | None
) -> None:
    site.write("table.toml", RUN + "[word_rules]\nlimit = 7\n")
    site.write("dotted.toml", '"word_rules.limit" = 7\n' + RUN)
    run, file = site.write("run.toml", RUN), site.write("plain.yaml", TABLES.replace("config: ", "metadata: "))
    if variable is not None:
        monkeypatch.setenv("KARENINA_WORD_RULES__LIMIT", variable)
        monkeypatch.setattr(Environment, "_environment", property(lambda self: {**os.environ, **base(self)}))

    config = [] if "--config" in arguments else ["--config", str(run)]
    assert extension(site.printed("run", file, *config, *arguments, "--fresh"))["limit"] == 7


def base(site: Environment) -> dict[str, str]:
    """Return what the environment adds to that of the tests."""
    return {"PYTHONPATH": str(site.folder / "site"), "COLUMNS": "400", "NO_COLOR": "1"}


def test_a_setting_is_given_in_python(site: Environment) -> None:
    found = site.python("""
import json
from karenina import VerificationConfig
table, dotted = VerificationConfig(word_rules={"limit": 7}), VerificationConfig(**{"word_rules.limit": 7})
changed = table.with_values(word_rules={"limit": 8})
print(json.dumps([one.setting("word_rules.limit") for one in (table, dotted, changed)] + [changed.given()]))
""")

    assert found == [7, 7, 8, {"word_rules.limit": 8}]


WRONG = {
    "a value": (("level: 3", "level: 9"), "word_rules.level: Input should be less than or equal to 5"),
    "a name": (
        ("level: 3", "levle: 3"),
        "word_rules.levle: no plugin has a field with that name; did you mean 'word_rules.level'?",
    ),
    "a plugin": (("word_rules: {level", "wort_rules: {level"), "if wort_rules is a plugin package, install the plugin"),
    "a plugin with a dot": (
        ("word_rules: {level: 3}", "wort.level: 3"),
        "the plugin wort is not installed: pip install wort",
    ),
    "an option": (("words: 5", "wrods: 5"), "word_rules.wrods: no plugin has a field with that name; did you mean"),
    "an option's value": (("words: 5", "words: 0"), "word_rules.words: Input should be greater than or equal to 1"),
    "a primitive": (("word_rules.SameWords", "SameWords"), "did you mean 'word_rules.SameWords'?"),
    "a setting": (("limit: 20", "limmit: 20"), "word_rules.limmit: unknown configuration name"),
    "a hyphen": (("word_rules: {limit: 20}", "word-rules: {limit: 20}"), "did you mean 'word_rules'?"),
    "two forms": (
        ("word_rules: {level: 3}", "word_rules: {level: 3}\n    word_rules.level: 3"),
        "word_rules.level was given twice",
    ),
    "a trait's field": (("strict: true", "strickt: true"), "word_rules.strickt: no plugin has a field with that name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_name_or_value_is_found_by_check_and_run(site: Environment, case: str) -> None:
    (before, after), cure = WRONG[case]
    assert before in TABLES
    file, config = site.write("wrong.yaml", TABLES.replace(before, after)), site.write("run.toml", RUN)

    checked, run = site.karenina("check", file), site.karenina("run", file, "--config", config)

    assert (checked.returncode, run.returncode) == (2, 2)
    assert cure in checked.stdout + checked.stderr
    assert cure in run.stderr


def test_a_restricted_field_needs_trust(site: Environment) -> None:
    file = site.write("paths.yaml", TABLES.replace("level: 3", "level: 3, list: ../words.txt"))
    config = site.write("run.toml", RUN)

    refused = site.karenina("run", file, "--config", config)

    assert refused.returncode != 0
    assert 'word_rules.list = "../words.txt", in venetoclax' in refused.stderr
    assert extension(site.printed("run", file, "--config", config, "--trust-all"))["level"] == 3


SPELLINGS = {
    "a space": "word_rules = {'words': 5}",
    "a line": "word_rules\n= {'words': 5}",
    "wide letters": "\uff57ord_rules={'words': 5}",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_options_are_checked_however_a_source_writes_them(site: Environment, spelling: str) -> None:
    given = SPELLINGS[spelling].replace("words'", "wrods'")
    source = "class Answer(BaseAnswer):\n    kind: str = VerifiedField(description='d', ground_truth='x', "
    source += f"verify_with=ExactMatch(), {given})\n"
    line = json.dumps({"question": "Which?", "template": source})
    file, config = site.write("options.jsonl", line + "\n"), site.write("run.toml", RUN)

    run = site.karenina("run", file, "--config", config)

    assert run.returncode == 2
    assert "word_rules.wrods: no plugin has a field with that name" in run.stderr


@pytest.mark.parametrize("text", ["{word_rules: {words_file: /etc/hosts}}", "{word_rules.words_file: /etc/hosts}"])
def test_a_restricted_setting_needs_trust_in_both_forms(site: Environment, text: str) -> None:
    file = site.write("restricted.yaml", TABLES.replace("{word_rules: {limit: 20}}", text))
    config = site.write("run.toml", RUN)

    refused = site.karenina("run", file, "--config", config)

    assert refused.returncode != 0
    assert 'config.word_rules.words_file = "/etc/hosts"' in refused.stderr


def test_a_checkpoint_cannot_replace_fields_of_a_question(site: Environment) -> None:
    site.write("drugs.yaml", TABLES)
    site.python("""
import json
from karenina import Benchmark
Benchmark.load("drugs.yaml").save("whole.jsonld")
print(json.dumps(1))
""")
    text = Path(site.folder, "whole.jsonld").read_text("utf-8")
    file = site.write("evil.jsonld", text.replace("word_rules.level", "raw_answer"))

    done = site.karenina("check", file)

    assert done.returncode == 2
    assert "plugin_fields contains 'raw_answer', but plugin field names must start with" in done.stdout + done.stderr


def test_a_variable_is_suggested_as_it_must_be_written(site: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_WORD_RULES__LIMMIT", "7")
    monkeypatch.setattr(Environment, "_environment", property(lambda self: {**os.environ, **base(self)}))

    assert "did you mean 'KARENINA_WORD_RULES__LIMIT'?" in site.karenina("plan").stderr


def test_the_schema_of_editors_knows_both_forms(site: Environment) -> None:
    schema = json.loads(site.karenina("config", "benchmark", "--schema").stdout)
    question, field, config = (schema["$defs"][name]["properties"] for name in ("Question", "Field", "Config"))

    assert question["word_rules.level"]["description"] == "How hard it is."
    assert set(question["word_rules"]["properties"]) == {"level", "list"}
    assert set(field["word_rules"]["properties"]) == {"words", "stop"}
    assert set(config["word_rules"]["properties"]) == {"limit", "words_file"}


def test_the_command_lists_names_with_their_package(site: Environment) -> None:
    assert "word_rules.limit" in site.karenina("config").stdout
    assert "KARENINA_WORD_RULES__LIMIT" in site.karenina("config", "word_rules.limit").stdout
    assert "word_rules.SameWords" in site.karenina("primitives").stdout
    assert "word_rules.strict" in site.karenina("traits", "llm").stdout


def test_without_the_plugin_its_names_are_errors_with_a_cure(tmp_path: Path) -> None:
    bare = Environment(tmp_path)
    file = bare.write("flat.yaml", FLAT)

    checked = bare.karenina("check", file)

    assert checked.returncode == 2
    assert "the plugin word_rules is not installed: pip install word-rules" in checked.stdout + checked.stderr
