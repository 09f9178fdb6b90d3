"""Questions of `*.karenina.yaml` files as tests, in a pytest of their own."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

QUESTION = """
  - id: {id}
    question: Which gene is {id}?
    answer:
      named: {{description: It is named, ground_truth: true, verify_with: {{type: TraceContains, substring: BCL2}}}}"""
FILE = "karenina: 1\nname: Genes\nquestions:" + QUESTION.format(id="right") + QUESTION.format(id="other")


@pytest.fixture(autouse=True)
def _without_langsmith(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing LangSmith's plugin, which an adapter brings with it, takes each pytest half a second."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:langsmith_plugin")  # after `pytester`, which removes it


@pytest.fixture
def answers(pytester: pytest.Pytester) -> str:
    lines = [{"id": "right", "response": "It is BCL2."}, {"id": "other", "response": "It is TP53."}]
    pytester.makefile(".jsonl", answers="\n".join(map(json.dumps, lines)))
    return "answers.jsonl"


@pytest.mark.alone
def test_each_question_is_a_test(pytester: pytest.Pytester, answers: str) -> None:
    pytester.makefile(".karenina.yaml", genes=FILE)
    done = pytester.runpytest("-v", "--karenina-recordings", answers)

    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*genes.karenina.yaml::right PASSED*", "*genes.karenina.yaml::other FAILED*"])
    done.stdout.fnmatch_lines(["wrong: named differs from the ground truth", "Answer: It is TP53."])
    done.stdout.no_fnmatch_line("*Traceback*")


def test_only_selected_questions_run(pytester: pytest.Pytester, answers: str) -> None:
    pytester.makefile(".karenina.yaml", genes=FILE)
    done = pytester.runpytest("-k", "other", "--karenina-recordings", answers)

    done.assert_outcomes(failed=1, deselected=1)


def test_an_answer_that_is_not_judged_is_an_error(pytester: pytest.Pytester, answers: str) -> None:
    pytester.makefile(".karenina.yaml", genes=FILE)
    pytester.makefile(".jsonl", answers=json.dumps({"id": "right", "response": "BCL2"}))
    done = pytester.runpytest(
        "--karenina-recordings",
        answers,
        "--karenina-set",
        "partial_recordings=true",
    )

    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["model_error: *"])


def test_bad_configuration_is_an_error_with_its_message(pytester: pytest.Pytester) -> None:
    pytester.makefile(".karenina.yaml", genes=FILE)
    done = pytester.runpytest("--karenina-answering", "gpt-5")

    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(["*'gpt-5' does not name the interface of the model*"])
    done.stdout.no_fnmatch_line("*Traceback*")


def test_a_missing_model_names_the_options_of_pytest_once(pytester: pytest.Pytester) -> None:
    pytester.makefile(".karenina.yaml", genes=FILE)
    done = pytester.runpytest("-k", "right")

    done.assert_outcomes(errors=1, deselected=1)
    text = done.stdout.str().partition("short test summary info")[0]
    assert text.count("for example with --karenina-answering openai:NAME") == 1
    assert "--karenina-recordings FILE" in text
    assert "another exception occurred" not in text


def test_each_file_of_recordings_is_a_model(pytester: pytest.Pytester, answers: str) -> None:
    pytester.makefile(".karenina.yaml", genes=FILE)
    lines = [{"id": id, "response": "It is BCL2."} for id in ("right", "other")]
    pytester.makefile(".jsonl", second="\n".join(map(json.dumps, lines)))
    done = pytester.runpytest("--karenina-recordings", answers, "--karenina-recordings", "second.jsonl")

    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["answers*50.0%*", "second*100.0%*"])


def test_a_broken_file_is_a_collection_error(pytester: pytest.Pytester) -> None:
    pytester.makefile(".karenina.yaml", genes="karenina: 1\nname: x\nquestons: []\n")
    done = pytester.runpytest()

    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*questons*"])


@pytest.fixture
def configuration(pytester: pytest.Pytester, answers: str) -> str:
    """Write a file of questions, and a configuration with the recorded answers."""
    pytester.makefile(".karenina.yaml", genes=FILE)
    model = f'id = "m"\ninterface = "manual"\nmodel_name = "m"\nmanual_traces = "{answers}"\n'
    pytester.makefile(".toml", karenina=f"[[answering_models]]\n{model}")
    return "karenina.toml"


def test_the_user_gives_the_configuration_file(pytester: pytest.Pytester, configuration: str) -> None:
    pytester.runpytest("--karenina-config", configuration).assert_outcomes(passed=1, failed=1)
    pytester.runpytest(f"--karenina-config={configuration}").assert_outcomes(passed=1, failed=1)


def test_the_environment_gives_the_configuration_file(
    pytester: pytest.Pytester, configuration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p no:langsmith_plugin --karenina-config {configuration}")

    pytester.runpytest().assert_outcomes(passed=1, failed=1)


def test_paths_are_relative_to_the_folder_of_the_user(pytester: pytest.Pytester, configuration: str) -> None:
    """Attack: the folder of somebody else is the root of pytest, and has files with the names of the user's."""
    theirs = pytester.mkdir("theirs")
    (theirs / "pytest.ini").write_text("[pytest]\n")
    (theirs / "genes.karenina.yaml").write_text(FILE)
    (theirs / configuration).write_text("refused = true")
    (theirs / "answers.jsonl").write_text("refused")
    mine = ("theirs", "--karenina-journal", "journals")

    pytester.runpytest(*mine, "--karenina-config", configuration).assert_outcomes(passed=1, failed=1)
    pytester.runpytest(*mine, "--karenina-recordings", "answers.jsonl").assert_outcomes(passed=1, failed=1)
    assert list(pytester.path.glob("journals/*.journal"))
    assert not (theirs / "journals").exists()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("karenina_config = karenina.toml", "karenina_config"),
        ("addopts = --karenina-config karenina.toml", "--karenina-config"),
        ("addopts = --karenina-trust-all", "--karenina-trust-all"),
        ("addopts = --karenina-set embedding_check_model=/etc", "--karenina-set"),
        ("addopts = --karenina-answering openai:m@http://192.0.2.1/v1", "--karenina-answering"),
        ("addopts = --karenina-judge=openai:m@http://192.0.2.1/v1", "--karenina-judge"),
        ("addopts = --karenina-recordings answers.jsonl", "--karenina-recordings"),
        ("addopts = --karenina-journal /tmp", "--karenina-journal"),
        ("addopts = @words.txt", "--karenina-trust-all"),
    ],
)
def test_files_of_pytest_give_no_option(pytester: pytest.Pytester, configuration: str, line: str, named: str) -> None:
    """Attack: the folder of somebody else has a pytest.ini that chooses models, trusts all code, or sets values."""
    pytester.makefile(".txt", words="--karenina-trust-all")
    pytester.makeini(f"[pytest]\n{line}\n")
    more = () if named == "--karenina-config" or named == "karenina_config" else ("--karenina-config", configuration)
    done = pytester.runpytest(*more)

    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([f"*sets {named}*Remove the setting from the file, and specify it on the command line*"])


def test_an_option_of_a_file_is_not_added_to_those_of_the_user(pytester: pytest.Pytester, configuration: str) -> None:
    pytester.makeini("[pytest]\naddopts = --karenina-set embedding_check_model=/etc\n")
    done = pytester.runpytest("--karenina-set", "partial_recordings=true", "--karenina-config", configuration)

    done.assert_outcomes(errors=1)


def test_other_tests_run_with_options_of_files(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkarenina_config = karenina.toml\n")
    pytester.makepyfile("def test_one(): pass")

    pytester.runpytest().assert_outcomes(passed=1)


def test_rates_of_several_models_are_printed(
    pytester: pytest.Pytester, answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    pytester.makefile(".karenina.yaml", genes=FILE)
    pytester.makefile(
        ".jsonl", right="\n".join(json.dumps({"id": id, "response": "BCL2"}) for id in ("right", "other"))
    )
    models = [
        {"id": id, "interface": "manual", "model_name": id, "manual_traces": file}
        for id, file in (("good", "right.jsonl"), ("poor", answers))
    ]
    pytester.makefile(".json", models=json.dumps({"answering_models": models}))
    done = pytester.runpytest("--karenina-config", "models.json")

    done.assert_outcomes(passed=1, failed=1)
    done.stdout.re_match_lines([r"=+ genes.karenina.yaml =+", r"Model +Judge +Pass rate.*", r"good .* 100\.0% .*",
                                r"poor .* 50\.0% .*"])  # fmt: skip


def test_other_files_are_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makefile(".yaml", genes=FILE)

    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED
