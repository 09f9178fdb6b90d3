"""promptfoo configurations, with the files that they name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from imports import import_file, texts, write, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing.formats.promptfoo.files import Folder, NotRead
from karenina_importing.formats.promptfoo.providers import describe_providers
from karenina_importing.formats.promptfoo.templates import NotFilled, fill, fill_variables

CONFIG = """
description: Capitals
prompts:
  - "Which city is the capital of {{country}}?"
  - file://prompts/long.txt
providers: [openai:gpt-5-mini, "anthropic:messages:claude-x", "python:own.py"]
defaultTest:
  vars: {tone: brief}
  assert:
    - {type: llm-rubric, value: "is {{tone}}"}
    - {type: latency, threshold: 500}
tests:
  - description: a neighbour
    vars: {country: Peru, area: west}
    assert: [{type: contains, value: Lima}]
    metadata: {level: 1}
  - file://tests/*.csv
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_tests_with_their_prompts_files_and_defaults() -> None:
    write("prompts/long.txt", "Be {{tone}}.\nThe capital of {{country}}?\n---\nCapital: {{country}}\n")
    write("tests/b.csv", "country,__expected,__description\nChile,Santiago,far\n,,\n")
    write("promptfooconfig.yaml", CONFIG)

    done = import_file("promptfooconfig.yaml")

    assert done.code == 0, done.err
    assert texts() == [
        "Which city is the capital of Peru?",
        "Be brief.\nThe capital of Peru?",
        "Capital: Peru",
        "Which city is the capital of Chile?",
        "Be brief.\nThe capital of Chile?",
        "Capital: Chile",
    ]
    assert "Not carried over: 6 latency" in done.err
    assert "-a openai:gpt-5-mini -a claude_tool:claude-x" in done.err
    assert "Providers without a corresponding interface: python:own.py" in done.err
    first, *_, last = Benchmark.load("out.yaml")
    assert first.metadata == {"area": "west", "level": 1, "description": "a neighbour"}
    assert first.rubric is not None
    assert [(trait.name, trait.description) for trait in first.rubric.traits] == [("is_brief", "is brief")]
    assert last.raw_answer == "Santiago"
    assert last.metadata["description"] == "far"
    assert Benchmark.load("out.yaml").run_config == {"evaluation_mode": "template_and_rubric"}


def test_scenarios_are_each_test_with_each_set_of_variables() -> None:
    scenario = {
        "config": [
            {"vars": {"language": "Spanish", "hello": "Hola"}},
            {"vars": {"language": "French", "hello": "Bonjour"}},
        ],
        "tests": [
            {"vars": {"input": "Hello"}, "assert": [{"type": "icontains", "value": "{{hello}}"}]},
            {"vars": {"input": "Bye"}, "assert": [{"type": "regex", "value": "."}]},
        ],
    }
    write_json(Path("c.json"), {"prompts": "Say {{input}} in {{language}}.", "providers": [], "scenarios": [scenario]})

    assert import_file("c.json").code == 0
    assert texts() == [f"Say {word} in {language}." for language in ("Spanish", "French") for word in ("Hello", "Bye")]
    assert next(iter(Benchmark.load("out.yaml"))).raw_answer == "Hola"


@pytest.mark.parametrize(
    ("of_config", "of_test", "own", "expected"),
    [
        (None, {}, None, ["default"]),
        (None, {"disableDefaultAsserts": True}, None, []),
        (None, {"disableDefaultAsserts": True}, "own", ["own"]),
        (None, {"disableDefaultAsserts": "true"}, "own", ["default", "own"]),
        ({}, {}, "own", ["default", "config", "own"]),
        ({}, {"disableDefaultAsserts": True}, "own", ["config", "own"]),
        ({}, {"disableDefaultAsserts": True}, None, ["config"]),
        ({"disableDefaultAsserts": True}, {}, "own", ["default", "config", "own"]),
    ],
)
def test_only_a_tests_own_option_leaves_out_the_default_assertions(
    of_config: dict[str, Any] | None, of_test: dict[str, Any], own: str | None, expected: list[str]
) -> None:
    def asserted(value: str | None) -> dict[str, Any]:
        return {"assert": [{"type": "llm-rubric", "value": value}]} if value is not None else {}

    tests = [{"vars": {"q": "Which?"}, "options": of_test, **asserted(own)}]
    scenario = {"config": [{"options": of_config, **asserted("config")}], "tests": tests}
    what = {"tests": tests} if of_config is None else {"scenarios": [scenario]}
    write_json(Path("c.json"), {"prompts": ["{{q}}"], "providers": [], "defaultTest": asserted("default"), **what})

    done = import_file("c.json")

    assert done.code == 0, done.err
    (question,) = Benchmark.load("out.yaml")
    assert [trait.description for trait in (question.rubric.traits if question.rubric else ())] == expected


def test_lists_of_variables_are_combined() -> None:
    test = {"vars": {"a": ["x", "y"], "b": ["1", "2"]}, "assert": [{"type": "contains", "value": "{{a}}{{b}}"}]}
    whole = {**test, "options": {"disableVarExpansion": True, "prefix": "All: "}}
    write_json(Path("c.json"), {"prompts": ["{{a}} {{b}}"], "providers": [], "tests": [test, whole]})

    assert import_file("c.json").code == 0
    assert texts() == ["x 1", "x 2", "y 1", "y 2", 'All: ["x", "y"] ["1", "2"]']


def test_prompts_of_messages_and_values_of_files() -> None:
    chat = [{"role": "system", "content": "Be {{tone}}."}, {"role": "user", "content": "{{q}}"}]
    write_json(Path("chat.json"), chat)
    write("q.txt", "The capital of Peru?\n")
    write("truth.txt", "Lima\n")
    tests = [
        {"vars": {"q": "file://q.txt", "tone": "brief"}, "assert": [{"type": "contains", "value": "file://truth.txt"}]}
    ]
    write_json(Path("c.json"), {"prompts": ["file://chat.json"], "providers": [], "tests": tests})

    assert import_file("c.json").code == 0
    assert texts() == ["System: Be brief.\n\nUser: The capital of Peru?"]
    (question,) = Benchmark.load("out.yaml")
    assert "substring='Lima'" in str(question.answer_template)


@pytest.mark.parametrize("kind", ["csv", "yaml", "json", "jsonl"])
def test_files_of_tests_alone(kind: str) -> None:
    test = {"vars": {"question": "Which city?", "region": "south"}, "assert": [{"type": "contains", "value": "Lima"}]}
    if kind == "csv":
        write("tests.csv", "question,region,__expected\nWhich city?,south,contains: Lima\n")
    elif kind == "jsonl":
        write_lines(Path("tests.jsonl"), [test, {**test, "vars": {"question": "Which other?"}}])
    else:
        write(
            f"tests.{kind}",
            json.dumps([test], indent=2)
            if kind == "json"
            else f"- {json.dumps(test)[1:-1]}".replace(', "assert"', '\n  "assert"')
            .replace('"vars"', "vars")
            .replace('"assert"', "assert"),
        )

    done = import_file(f"tests.{kind}")

    assert done.code == 0, done.err
    assert "of promptfoo" in done.out
    question = next(iter(Benchmark.load("out.yaml")))
    assert question.question == "Which city?"
    assert "TraceContains" in str(question.answer_template)


def test_a_table_of_tests_without_a_clear_question_takes_a_mapping() -> None:
    write("tests.csv", "city_of,hint,__expected\nPeru,west,contains: Lima\n")

    refused = import_file("tests.csv")
    done = import_file("tests.csv", "--map", "question=Capital of {vars.city_of}?")

    assert refused.code == 2
    assert "vars.city_of" in refused.err
    assert done.code == 0, done.err
    assert texts() == ["Capital of Peru?"]


def test_assertion_templates_are_looked_up() -> None:
    config = {
        "prompts": ["Which city?"],
        "providers": [],
        "assertionTemplates": {"lima": {"type": "contains", "value": "Lima"}},
        "tests": [{"assert": [{"$ref": "#/assertionTemplates/lima"}]}],
    }
    write_json(Path("c.json"), config)

    assert import_file("c.json").code == 0
    assert "substring='Lima'" in str(next(iter(Benchmark.load("out.yaml"))).answer_template)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"tests": "file://make.js"}, "the tests are generated by a program"),
        ({"tests": [{"path": "file://make.py:tests", "config": {}}]}, "the tests are generated by a program"),
        ({"tests": "huggingface://datasets/x/y"}, "import it as hf:"),
        ({"tests": "file://none.csv"}, "no file 'file://none.csv' was found"),
        ({"tests": "file://../outside.yaml"}, "is outside the configuration folder"),
        ({"tests": "file:///etc/passwd"}, "is outside the configuration folder"),
        ({"tests": "file://link.csv"}, "is outside the configuration folder"),
        ({"tests": [{"vars": {"q": "file://../outside.yaml"}}]}, "is outside the configuration folder"),
        ({"tests": [{"vars": {"q": "file://q.py"}}]}, "the variable 'q' is generated by a program"),
        ({"prompts": ["file://make.py:prompt"]}, "the prompt is generated by a program"),
        ({"prompts": ["langfuse://own"]}, "copy its text into the configuration"),
        ({"prompts": ["{% if q %}{{q}}{% endif %}"]}, "the template contains a statement, which is not supported"),
        ({"prompts": ["{{ q | reverse }}"]}, "the template uses the filter 'reverse', which is not supported"),
        ({"prompts": ["{{ env.HOME }}"]}, "reads an environment variable, which is not supported"),
        ({"tests": [{"vars": {name: ["1"] * 99 for name in "abcd"}}]}, "combinations, but at most"),
        (
            {"tests": [{"vars": {"q": "{{a}}" * 999, "a": "{{b}}" * 999, "b": "x" * 999}}]},
            "more than 1,000,000 characters",
        ),
        ({"prompts": ["{{q}}"] * 200, "tests": [{"vars": {"q": ["x"] * 200}}]}, "more than 25,000 questions"),
        ({"tests": [{"vars": {"q": ["x" * 900_000] * 30}}]}, "more than 20,000,000 characters"),
        ({"tests": [7]}, "the test is not an object"),
        ({"tests": [], "redteam": {"purpose": "x"}}, "promptfoo itself generates the `redteam` tests"),
    ],
)
def test_what_only_promptfoo_can_make_is_refused_with_the_way_on(
    tmp_path: Path, part: dict[str, Any], says: str
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "outside.yaml").write_text("- vars: {q: secret}\n", "utf-8")
    (inner / "link.csv").symlink_to(tmp_path / "outside.yaml")
    config = {"prompts": ["{{q}}"], "providers": ["echo"], "tests": [{"vars": {"q": "Which city?"}}], **part}
    write_json(inner / "promptfooconfig.json", config)

    done = import_file("inner/promptfooconfig.json")

    assert done.code == 2
    assert says in done.err
    assert "secret" not in done.err


def test_a_configuration_that_is_a_program_is_not_run() -> None:
    write("promptfooconfig.js", "module.exports = {}")

    done = import_file("promptfooconfig.js")

    assert done.code == 2
    assert "run `promptfoo eval -o results.json`" in done.err


def test_tests_without_assertions_are_counted() -> None:
    tests = [{"vars": {"q": "One?"}}, {"vars": {"q": "Two?"}, "assert": [{"type": "contains", "value": "two"}]}]
    write_json(Path("c.json"), {"prompts": ["{{q}}"], "providers": [], "tests": tests})

    done = import_file("c.json")

    assert "1 question with neither a template nor traits" in done.err


def test_keys_of_the_environment_stay_out() -> None:
    config = {
        "env": {"API_KEY": "sk-secret"},
        "prompts": ["{{q}}"],
        "providers": [{"id": "openai:m", "config": {"apiKey": "sk-secret"}}],
        "tests": [{"vars": {"q": "One?"}, "assert": [{"type": "contains", "value": "one"}]}],
    }
    write_json(Path("c.json"), config)

    done = import_file("c.json")

    assert done.code == 0
    written = "".join(path.read_text("utf-8") for path in Path().glob("out*"))
    assert "sk-secret" not in written + done.out + done.err


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{a}} and {{ a }}", "x and x"),
        ("{{- b.c -}}|{{b['c']}}|{{d[1]}}", "y|y|2"),
        ("{{missing}}!", "!"),
        ("{{ missing | default('none') }}", "none"),
        ("{{ a | upper }}{# not shown #}", "X"),
        ("{{b}} {{n}} {{t}}", '{"c": "y"} 1.5 true'),
        ("{% raw %}{{a}}{% endraw %}", "{{a}}"),
        ("{% raw %}{{a}}{# b #}{% endraw %}{{z}}{# {{z}} #}", "{{a}}{# b #}\0" + "7\0"),
        ("{{ d | join(', ') }}", "1, 2"),
        ("{{ d | dump }}", "[1, 2]"),
        ("{ a } {{}", "{ a } {{}"),
    ],
)
def test_plain_variables_are_filled(template: str, filled: str) -> None:
    variables = {"a": "x", "b": {"c": "y"}, "d": [1, 2], "n": 1.5, "t": True, "z": "\0" + "7\0"}

    assert fill(template, variables) == filled


@pytest.mark.parametrize(
    "template", ["{{ a + 1 }}", "{{ f(a) }}", "{{ a if b }}", "{{ a | safe | sort }}", "{% set a %}"]
)
def test_other_templates_are_refused(template: str) -> None:
    with pytest.raises(NotFilled):
        fill(template, {"a": "x"})


def test_variables_may_name_variables() -> None:
    assert fill_variables({"a": "{{b}}!", "b": "{{c}}", "c": "x", "d": "{{d}}"}) == {
        "a": "x!",
        "b": "x",
        "c": "x",
        "d": "",
    }


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai:chat:gpt-x", "-a openai:gpt-x"),
        ("ollama:chat:llama3:8b", "-a openai:llama3:8b@http://localhost:11434/v1"),
        ("openrouter:openai/gpt-x", "-a openrouter:openai/gpt-x"),
        (
            {"id": "openai:gpt-x", "config": {"apiBaseUrl": "http://localhost:8000/v1"}},
            "-a openai:gpt-x@http://localhost:8000/v1",
        ),
        ({"openai:gpt-x": {"config": {}}}, "-a openai:gpt-x"),
    ],
)
def test_providers_are_models_of_a_run(provider: Any, model: str) -> None:
    assert describe_providers({"providers": [provider]}) == [
        f"To answer with the models in the configuration, use {model}"
    ]


def test_empty_keys_of_a_test_inherit_those_of_the_default() -> None:
    default = "defaultTest:\n  vars: {tone: brief}\n  assert: [{type: contains, value: Lima}]\n"
    write("promptfooconfig.yaml", f"prompts: ['Be {{{{tone}}}}.']\n{default}tests:\n- vars:\n  assert:\n")

    assert import_file("promptfooconfig.yaml").code == 0
    (question,) = Benchmark.load("out.yaml")
    assert question.question == "Be brief."
    assert "TraceContains(substring='Lima')" in (question.answer_template or "")


def test_the_values_of_a_scenario_can_be_in_files() -> None:
    write("values.yaml", "- vars: {country: Peru}\n- vars: {country: Chile}\n")
    tests = "tests: [{assert: [{type: contains, value: a}]}]"
    write(
        "promptfooconfig.yaml", f"prompts: ['{{{{country}}}}?']\nscenarios:\n- config: file://values.yaml\n  {tests}\n"
    )

    assert import_file("promptfooconfig.yaml").code == 0
    assert texts() == ["Peru?", "Chile?"]

    write("promptfooconfig.yaml", f"prompts: ['{{{{country}}}}?']\nscenarios:\n- config: [file://no.yaml]\n  {tests}\n")
    assert "config: no file 'file://no.yaml' was found" in import_file("promptfooconfig.yaml").err


@pytest.mark.timeout(20)
def test_many_variables_that_name_others_are_filled_at_once() -> None:
    many = {f"v{number}": f"{{{{v{number + 1}}}}}" for number in range(20_000)}

    assert len(fill_variables(many)) == 20_000


def test_values_that_may_be_secrets_are_not_copied() -> None:
    values = "{q: 'Which city?', apiKey: sk-1, tokens: 3, level: 2}"
    write(
        "promptfooconfig.yaml", f"prompts: ['{{{{q}}}}']\ntests:\n- vars: {values}\n  metadata: {{auth_token: sk-1}}\n"
    )

    done = import_file("promptfooconfig.yaml")

    assert "1 the value apiKey, which may be a secret, 1 the value auth_token, which may be a secret" in done.err
    assert "sk-1" not in Path("out.yaml").read_text("utf-8") + Path("out.mapping.yaml").read_text("utf-8")
    (question,) = Benchmark.load("out.yaml")
    assert question.metadata == {"tokens": 3, "level": 2}


@pytest.mark.parametrize("read", [Folder.text, Folder.document, lambda folder, path: list(folder.rows(path))])
def test_a_file_exchanged_for_a_link_after_it_was_found_is_not_read(
    tmp_path: Path, read: Callable[[Folder, Path], object]
) -> None:
    (tmp_path / "secret.csv").write_text("a,b\nSECRET,1\n")
    (tmp_path / "given").mkdir()
    folder = Folder(tmp_path / "given")
    (folder.path / "a.csv").write_text("a,b\n1,2\n")
    (path,) = folder.find("a.csv")
    path.unlink()
    path.symlink_to("../secret.csv")

    with pytest.raises((NotRead, BenchmarkFileError), match="the path is outside"):
        read(folder, path)


def test_prompts_in_a_file_keep_their_line_ends_and_are_never_none() -> None:
    write("prompts/a.csv", 'prompt,label\n"Name a city.\n\nIn one word.",short\n')
    write("prompts/b.jsonl", '[{"role": "user", "content": "One\u2028more: {{q}}"}]\r\n')
    write("prompts/old/c.txt", "Not this one.\n")
    write_json(Path("promptfooconfig.json"), {"prompts": ["file://prompts/*"], "tests": [{"vars": {"q": "Lima?"}}]})
    assert import_file("promptfooconfig.json").code == 0
    assert [question.question for question in Benchmark.load("out.yaml")] == [
        "Name a city.\n\nIn one word.",
        "One\u2028more: Lima?",
    ]

    write("prompts/a.csv", "text,label\nName a city.,short\n")
    write_json(Path("promptfooconfig.json"), {"prompts": ["file://prompts/a.csv"], "tests": [{"vars": {"q": "Lima?"}}]})
    refused = import_file("promptfooconfig.json")
    assert refused.code == 2
    assert "'a.csv' contains no prompts" in refused.err

    write_json(Path("promptfooconfig.json"), {"prompts": ["file://prompts/*"], "tests": [{"vars": {"q": "Lima?"}}]})
    refused = import_file("promptfooconfig.json")
    assert refused.code == 2
    assert "'a.csv' contains no prompts" in refused.err
