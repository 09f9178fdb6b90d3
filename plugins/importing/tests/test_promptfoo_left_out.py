"""Parts of promptfoo configurations that are not read are listed: keys, columns, conversations and prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from imports import import_file, texts, write, write_json


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_keys_that_are_not_read_are_named() -> None:
    config = {
        "description": "x",
        "prompts": ["{{q}}"],
        "providers": [],
        "commandLineOptions": {"cache": True},
        "redteam": {"purpose": "x"},
        "extensions": ["file://own.py:hook"],
        "defaultTest": {"options": {"provider": "openai:m"}, "assert": [{"type": "is-json", "timeout": 5}]},
        "tests": [
            {"vars": {"q": "One?"}, "rubric": "says one"},
            {
                "vars": {"q": "Two?"},
                "rubric": "says two",
                "assert": [{"type": "llm-rubric", "value": "x", "threshold": 1}],
            },
        ],
    }
    write_json(Path("c.json"), config)

    done = import_file("c.json")

    assert done.code == 0, done.err
    assert "Not carried over from the configuration: redteam, extensions" in done.err
    assert "2 rubric of a test" in done.err
    assert "2 options.provider of a test" in done.err
    assert "2 timeout of is-json" in done.err
    assert "1 threshold of llm-rubric" in done.err
    assert "description" not in done.err


def test_columns_of_tests_that_are_not_read_are_named() -> None:
    write("tests.csv", "question,__expected,__own\nWhich city?,contains: Lima,x\n")

    done = import_file("tests.csv")

    assert "Not carried over: 1 __own of a test" in done.err


@pytest.mark.parametrize(
    "prompt",
    [
        {"prompt": "Which city?", "config": {"x": 1}},
        {"raw": "Which city?", "label": "short", "config": {"x": 1}},
        {"id": "file://city.txt", "config": {"x": 1}},
        {"raw": [{"role": "user", "content": "Which city?"}], "config": {"x": 1}},
    ],
)
def test_prompts_that_are_objects_are_read(prompt: dict[str, Any]) -> None:
    write("city.txt", "Which city?")
    tests = [{"assert": [{"type": "contains", "value": "Lima"}]}]
    write_json(Path("c.json"), {"prompts": [prompt], "providers": [], "tests": tests})

    done = import_file("c.json")

    assert done.code == 0, done.err
    assert texts() == ["Which city?"]
    assert "Not carried over from prompt 1: config" in done.err


def test_a_prompt_without_a_text_is_refused_with_the_keys_that_are_read() -> None:
    write_json(Path("c.json"), {"prompts": [{"text": "Which city?"}], "providers": [], "tests": [{}]})

    done = import_file("c.json")

    assert done.code == 2
    assert "prompt 1: the prompt has the keys text, but the text must be in one of raw, prompt" in done.err


TURNS = {"turns": ["Hello.", "My name is Ada.", "Book it."]}


@pytest.mark.parametrize(
    ("prompt", "variables", "says"),
    [
        ("{{message}}", {"conversation": TURNS}, "the test is a conversation (with the turns in conversation)"),
        ("{{message}}", {"userTurns": TURNS["turns"]}, "the test is a conversation (with the turns in userTurns)"),
        ("{% for one in _conversation %}{{one.input}}{% endfor %}{{q}}", {"q": "x"}, "(`_conversation`)"),
    ],
)
def test_conversations_are_named_as_such(prompt: str, variables: dict[str, Any], says: str) -> None:
    tests = [{"vars": variables, "assert": [{"type": "contains", "value": "booked"}]}]
    write_json(Path("c.json"), {"prompts": [prompt], "providers": [], "tests": tests})

    done = import_file("c.json")

    assert done.code == 2
    assert says in done.err
    assert "run `promptfoo eval" in done.err


def test_a_model_that_plays_the_user_is_named() -> None:
    played = {"provider": {"id": "promptfoo:simulated-user"}, "assert": [{"type": "contains", "value": "booked"}]}
    write_json(Path("c.json"), {"prompts": ["{{q}}"], "providers": [], "tests": [played]})

    assert "the test's `provider` is a model that plays the user" in import_file("c.json").err


def test_results_of_a_conversation_have_its_turns_as_the_question() -> None:
    test = {"vars": {"conversation": TURNS}, "assert": [{"type": "icontains", "value": "booked"}]}
    result = {
        "prompt": {"raw": ""},
        "success": True,
        "vars": test["vars"],
        "testCase": test,
        "response": {"output": "It is booked."},
    }
    write_json(Path("results.json"), {"results": {"results": [result]}})

    done = import_file("results.json")

    assert done.code == 0, done.err
    assert texts() == ["User: Hello.\n\nUser: My name is Ada.\n\nUser: Book it."]


def test_a_conversation_beside_a_question_is_not_carried_over() -> None:
    tests = [{"vars": {"q": "Which?", "history": ["a", "b"]}, "assert": [{"type": "contains", "value": "x"}]}]
    write_json(Path("c.json"), {"prompts": ["{{q}}"], "providers": [], "tests": tests})

    done = import_file("c.json")

    assert texts() == ["Which?"]
    assert "Not carried over: 1 the conversation in history" in done.err


def test_tests_that_assert_nothing_are_the_reason_of_no_template() -> None:
    tests = [{"vars": {"q": "One?"}}, {"vars": {"q": "Two?"}}]
    write_json(Path("c.json"), {"prompts": ["{{q}}"], "providers": [], "tests": tests})

    done = import_file("c.json")

    assert done.code == 0
    assert done.err.index("None of the 2 tests has any assertions; add `assert`") < done.err.index("neither a template")


def test_keys_in_capitals_are_the_reason_that_is_given() -> None:
    write("promptfooconfig.yaml", "Providers: [echo]\nPrompt: Which city?\nTests: [{pattern: Lima}]\n")

    done = import_file("promptfooconfig.yaml")

    assert done.code == 2
    for wrong, right in (("Providers", "providers"), ("Prompt", "prompts"), ("Tests", "tests")):
        assert f"{wrong!r} (did you mean `{right}`?)" in done.err


def test_keys_of_scenarios_that_are_not_read_are_named() -> None:
    scenario = {"config": [{"vars": {"q": "One?"}}], "tests": [{"assert": [{"type": "regex", "value": "."}]}], "own": 1}
    write_json(Path("c.json"), {"prompts": ["{{q}}"], "providers": [], "scenarios": [scenario]})

    done = import_file("c.json")

    assert "Not carried over from the scenario at scenario 1: own" in done.err


def test_long_metadata_is_named() -> None:
    tests = [{"metadata": {"source": "x" * 2000}, "assert": [{"type": "regex", "value": "."}]}]
    write_json(Path("c.json"), {"prompts": ["Which city?"], "providers": [], "tests": tests})

    assert "Not carried over: 1 metadata.source, which is long" in import_file("c.json").err


def test_a_configuration_without_a_question_says_so() -> None:
    write_json(Path("c.json"), {"providers": ["echo"], "defaultTest": {"assert": [{"type": "is-json"}]}})

    done = import_file("c.json")

    assert done.code == 2
    assert "the configuration has neither `prompts` nor `tests`" in done.err
    assert "--map" not in done.err


def test_tests_without_prompts_say_how_the_question_is_found() -> None:
    test = {"vars": {"city": "Lima?", "country": "Peru"}, "assert": [{"type": "contains", "value": "x"}]}
    write_json(Path("c.json"), {"providers": ["echo"], "tests": [test]})

    done = import_file("c.json")

    assert done.code == 2
    assert "There are no `prompts`, and any of the variables city, country could be the question" in done.err
    assert "--map question=vars.NAME" in done.err
    assert import_file("c.json", "--map", "question=vars.city").code == 0
    assert texts() == ["Lima?"]


def test_an_empty_list_of_tests_asks_the_prompts() -> None:
    write_json(Path("c.json"), {"prompts": ["Which city?"], "providers": ["echo"], "tests": []})

    assert import_file("c.json").code == 0
    assert texts() == ["Which city?"]


@pytest.mark.parametrize("results", [[], {"results": []}, {"version": 3, "results": [], "stats": {}}])
def test_results_without_a_row_are_empty(results: Any) -> None:
    write_json(Path("results.json"), {"results": results})

    done = import_file("results.json")

    assert done.code == 2
    assert "the results are empty" in done.err


@pytest.mark.parametrize("name", ["results.json", "results.jsonl", "promptfooconfig.yaml", "tests.csv"])
def test_a_file_of_no_bytes_is_empty(name: str) -> None:
    write(name, "")

    done = import_file(name)

    assert done.code == 2
    assert f"{name} is empty (0 bytes)" in done.err


@pytest.mark.parametrize(
    ("key", "meant"),
    [("asserts", "assert"), ("assertion", "assert"), ("assertions", "assert"), ("Assert", "assert"), ("var", "vars")],
)
def test_keys_like_those_of_a_test_say_what_is_meant(key: str, meant: str) -> None:
    tests = [{"vars": {"q": "One?"}, key: [{"type": "contains", "value": "x"}]}]
    write_json(Path("c.json"), {"prompts": ["{{q}}"], "providers": [], "tests": tests})

    done = import_file("c.json")

    assert f"1 {key} of a test (promptfoo does not read `{key}`; did you mean `{meant}`?)" in done.err


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        (("anthropic:messages:m", {"apiBaseUrl": "https://x.example/a"}), "claude_tool:m@https://x.example/a"),
        (("openai:chat:m", {"apiBaseUrl": "https://x.example/v1"}), "openai:m@https://x.example/v1"),
        (("openai:m", {"apiHost": "x.example"}), "openai:m@https://x.example/v1"),
        (("openai:m", {"baseUrl": "http://localhost:8000/v1"}), "openai:m@http://localhost:8000/v1"),
        (("openrouter:a/m", {"apiBaseUrl": "https://x.example/v1"}), "openai:a/m@https://x.example/v1"),
        (("groq:m", {"apiBaseUrl": "https://x.example/v1"}), "openai:m@https://x.example/v1"),
        (("openai:m", {"apiKey": "{{env.OWN}}"}), "openai:m"),
    ],
)
def test_a_providers_own_address_is_kept(provider: tuple[str, dict[str, Any]], model: str) -> None:
    name, settings = provider
    for given in ({"id": name, "config": settings}, {name: {"config": settings}}):
        write_json(Path("c.json"), {"prompts": ["Which city?"], "providers": [given], "tests": []})

        assert f"To answer with the models in the configuration, use -a {model}\n" in import_file("c.json").err


def test_the_environment_of_a_configuration_has_addresses() -> None:
    providers = [
        {"id": "openai:own", "env": {"OPENAI_BASE_URL": "https://own.example/v1"}},
        "openai:all",
        "ollama:chat:qwen",
        "anthropic:messages:m",
    ]
    environment = {"OPENAI_API_HOST": "all.example", "OLLAMA_BASE_URL": "http://gpu:11434", "OTHER": "1"}
    config = {"prompts": ["Which city?"], "providers": providers, "env": environment}
    write_json(Path("c.json"), config)

    done = import_file("c.json")

    for model in ("openai:all@https://all.example/v1", "openai:qwen@http://gpu:11434/v1", "claude_tool:m\n"):
        assert f"-a {model}" in done.err
    assert "-a openai:own@https://own.example/v1" in done.err


def test_addresses_and_settings_that_are_not_known_are_named() -> None:
    providers = [
        {"id": "openai:m", "config": {"apiBaseUrl": "{{env.OWN_URL}}", "temperature": 0, "apiKey": "sk-1"}},
        {"id": "anthropic:messages:m", "config": {"apiBaseUrl": "https://me:secret@x.example"}},
        {"id": "google:m", "config": {"apiHost": "x.example"}},
    ]
    write_json(Path("c.json"), {"prompts": ["Which city?"], "providers": providers, "tests": []})

    done = import_file("c.json")

    assert "-a openai:m@ADDRESS -a claude_tool:m@ADDRESS" in done.err
    why = "base URL, because these settings do not contain a plain URL"
    assert f"{why}: apiBaseUrl of openai:m, apiBaseUrl of anthropic:messages:m" in done.err
    assert "Not carried over from the providers: temperature; to set" in done.err
    assert "Providers without a corresponding interface: google:m." in done.err
    assert "secret" not in done.err
