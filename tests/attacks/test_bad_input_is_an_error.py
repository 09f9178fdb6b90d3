"""Malformed input is an error with its place, never a traceback, and no error prints a key.

The files and arguments here ended in tracebacks (exit code 70), or printed what they held.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from limited_command import BENCHMARK, CompletedCommand, run_karenina, write_benchmark, write_file, write_recordings
from typer.testing import CliRunner

from karenina.templates import TemplateError, load_template
from karenina_cli.app import build_app
from karenina_engine.results.result_set import read_results

HALF = "\\ud800"
KEY = "sk-SECRET-4711"


@pytest.fixture(autouse=True)
def _a_home_of_its_own(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own_folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(own_folder / "state"))


def here(*arguments: str | Path) -> CompletedCommand:
    """Run the command in this process, where an exception that would be a traceback fails the test."""
    done = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1"}).invoke(
        build_app(), [str(argument) for argument in arguments], catch_exceptions=False
    )
    return CompletedCommand(done.exit_code, done.stdout, done.stderr)


def render_answer(file: Path) -> CompletedCommand:
    """Run a benchmark with recorded answers."""
    return here("run", file, "--recordings", write_recordings(Path()))


def with_template(source: str) -> str:
    return json.dumps({"karenina": 1, "name": "G", "questions": [{"question": "Which?", "template": source}]})


def field(truth: str, kind: str = "int", primitive: str = "NumericExact()", weight: str = "1") -> str:
    return (
        "from typing import Literal\nfrom karenina.templates import BaseAnswer, VerifiedField\n"
        f"class Answer(BaseAnswer):\n    x: {kind} = VerifiedField(description='x', ground_truth={truth},\n"
        f"        verify_with={primitive}, weight={weight})\n"
    )


NINES, FS = "9" * 5000, "0x" + "f" * 5000
GROUPS = "(" * 5000 + "a" + ")" * 5000
QUESTIONS: dict[str, tuple[str, str, str]] = {
    "nested groups in a trait": (
        "b.yaml",
        f"{BENCHMARK}rubric: [{{type: regex, name: r, description: d, pattern: '{GROUPS}'}}]\n",
        "line 8: rubric: trait 'r': pattern: ",
    ),
    "nested groups of a trait in JSON lines": (
        "b.jsonl",
        json.dumps(
            {"question": "a", "rubric": [{"type": "regex", "name": "r", "description": "d", "pattern": GROUPS}]}
        ),
        "nested too deeply",
    ),
    "a hexadecimal truth": ("b.yaml", BENCHMARK.replace("true,", f"0x{'f' * 3990},"), "line 7"),
    "a hexadecimal version": ("b.yaml", BENCHMARK.replace("karenina: 1", f"karenina: 0x{'f' * 3990}"), "line 1"),
    "a long number": ("b.yaml", BENCHMARK.replace("true,", f"{NINES},"), "line 7"),
    "a long number in JSON lines": (
        "b.jsonl",
        f'{{"question": "a", "metadata": {NINES}}}',
        "line 1: an integer in the JSON has more than 4300 digits",
    ),
    "half a character in a question": (
        "b.jsonl",
        f'{{"question": "{HALF}"}}',
        "line 1: question: a string contains an unpaired surrogate",
    ),
    "half a character in an id": ("b.jsonl", f'{{"question": "a", "id": "{HALF}"}}', "line 1: id: a string contains"),
    "half a character in a key": (
        "b.jsonl",
        f'{{"question": "a", "metadata": {{"{HALF}": 1}}}}',
        "line 1: metadata: a key contains an unpaired",
    ),
    "half a character in a truth": (
        "b.jsonl",
        f'{{"question": "a", "answer": {{"x": {{"description": "d", "ground_truth": "{HALF}"}}}}}}',
        "line 1: answer.x.ground_truth: a string contains an unpaired",
    ),
    "half a character in the head": (
        "b.jsonl",
        f'{{"karenina": 1, "name": "{HALF}"}}',
        "line 1: name: a string contains an unpaired",
    ),
    "half a character in a checkpoint": (
        "b.jsonld",
        f'{{"name": "{HALF}"}}',
        "b.jsonld: name: a string contains an unpaired",
    ),
    "half a character in YAML": (
        "b.yaml",
        BENCHMARK.replace("Which gene is it?", f'"{HALF}"'),
        "line 5: a string contains an unpaired surrogate",
    ),
    "no character in YAML": (
        "b.yaml",
        BENCHMARK.replace("Which gene is it?", '"\\UFFFFFFFF"'),
        "not a valid character",
    ),
    "half a character as bytes": ("b.yaml", "karenina: 1\nname: \ud800\n", "not UTF-8"),
}


@pytest.mark.parametrize("attack", QUESTIONS)
def test_a_bad_benchmark_is_an_error_of_its_place(attack: str) -> None:
    name, text, said = QUESTIONS[attack]

    render_answer(write_file(Path(name), text)).assert_refused(name, said)


@pytest.mark.parametrize(
    "source",
    [
        field(NINES),
        field(FS),
        field(f"-{FS}"),
        field(FS, f"Literal[{FS}]", "LiteralMatch()"),
        field("1", "float", f"NumericTolerance(tolerance={FS})"),
        field("1", weight=FS),
        field(f'"{HALF}"', "str", "ExactMatch()"),
        field('"a"', "str", f'RegexMatch(pattern="{GROUPS}")'),
    ],
    ids=["decimal", "hexadecimal", "negative", "literal", "tolerance", "weight", "half a character", "groups"],
)
def test_an_unusable_template_is_refused_on_load(source: str) -> None:
    """Before the run; they ended as tracebacks where a truth or a tolerance was written or compared."""
    with pytest.raises(TemplateError):
        load_template(source)
    ended = render_answer(write_file(Path("b.yaml"), with_template(source)))
    assert ended.code in (2, 4), ended.err  # it costs its item, and there is no other


CONFIGURATIONS: dict[str, tuple[str, str, str]] = {
    "a number as name": ("c.yaml", "1: 2\n", "1: unknown configuration name"),
    "a list as name": ("c.yaml", "? [a, b]\n: 2\n", "line 1: a key must be a string"),
    "a hexadecimal number in YAML": ("c.yaml", f"replicate_count: 0x{'f' * 50_000}\n", "line 1"),
    "a hexadecimal number in TOML": (
        "c.toml",
        f"replicate_count = 0x{'f' * 50_000}\n",
        "replicate_count: an integer has more than 4300 digits",
    ),
    "a long number in JSON": ("c.json", f'{{"replicate_count": {NINES}}}', "at most 4300 digits"),
    "half a character in YAML": ("c.yaml", f'run_name: "{HALF}"\n', "line 1: a string contains an unpaired surrogate"),
    "half a character in JSON": ("c.json", f'{{"run_name": "{HALF}"}}', "run_name: a string contains an unpaired"),
    "half a character in a name": ("c.json", f'{{"{HALF}": 1}}', "a key contains an unpaired surrogate"),
    "a tag": ("c.yaml", "a: !!python/object/apply:os.system [id]\n", "line 1: the tag"),
    "a date": ("c.yaml", "replicate_count: 2001-99-99\n", "replicate_count"),
}


@pytest.mark.parametrize("attack", CONFIGURATIONS)
def test_a_bad_configuration_is_an_error_of_its_place(attack: str) -> None:
    name, text, said = CONFIGURATIONS[attack]

    ended = here(
        "run", write_benchmark(Path()), "-c", write_file(Path(name), text), "--recordings", write_recordings(Path())
    )

    ended.assert_refused(name, said)


def make_message(**message: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": "BCL2", **message}]}


def make_exchange(response: Any) -> dict[str, Any]:
    return {"exchanges": [{"request": {"messages": [{"role": "user", "content": "x"}]}, "response": response}]}


RECORDINGS: dict[str, tuple[Any, str]] = {
    "tool_calls: true": (make_message(tool_calls=True), "the field 'tool_calls' must be a list, not bool"),
    "tool_calls: 5": (make_message(tool_calls=5), "the field 'tool_calls' must be a list, not int"),
    "a list as tool_call_id": (
        make_message(role="tool", tool_call_id=["a"]),
        "the field 'tool_call_id' must be a string, not list",
    ),
    "a list as name": (make_message(role="tool", name=["a"]), "the field 'name' must be a string, not list"),
    "parts: 5": ({"trace": {"contents": [{"role": "model", "parts": 5}]}}, "the field 'parts' must be a list, not int"),
    "parts: true": (
        {"trace": {"contents": [{"role": "model", "parts": True}]}},
        "the field 'parts' must be a list, not bool",
    ),
    "parts of instructions": (
        {"trace": {"contents": [], "systemInstruction": {"parts": 5}}},
        "the field 'parts' must be a list, not int",
    ),
    "parts of a result": (
        {"trace": {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "x", "parts": 5}}]}]}},
        "the field 'parts' must be a list, not int",
    ),
    "a number as arguments": (
        make_message(tool_calls=[{"id": "a", "name": "x", "arguments": 5}]),
        "the arguments of a call must be an object, not int",
    ),
    "choices: 5": (make_exchange({"choices": 5}), "the field 'choices' must be a list, not int"),
    "choices: [5]": (make_exchange({"choices": [5]}), "an entry in choices must be an object, not int"),
    "choices as an object": (make_exchange({"choices": {"a": 1}}), "the field 'choices' must be a list, not dict"),
}


@pytest.mark.parametrize("attack", RECORDINGS)
def test_a_bad_recording_is_an_error_of_its_line(attack: str) -> None:
    recorded, problem = RECORDINGS[attack]
    file = write_file(Path("r.jsonl"), json.dumps({"id": "q", **recorded}) + "\n")

    here("run", write_benchmark(Path()), "--recordings", file).assert_refused("r.jsonl, line 1: ", problem)


def test_half_a_character_in_a_recorded_id_is_refused() -> None:
    file = write_file(Path("r.jsonl"), f'{{"id": "{HALF}", "answer": "BCL2"}}\n')

    here("run", write_benchmark(Path()), "--recordings", file).assert_refused("r.jsonl, line 1", "unpaired surrogate")


@pytest.mark.parametrize(
    "recorded",
    [
        {"answer": "BCL2 \ud83d"},
        make_message(content="BCL2 \ud83d"),
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "a", "function": {"name": "f", "arguments": '{"text": "\\ud83d"}'}},
                        {"id": "b", "function": {"name": "f", "arguments": "[" * 100_000}},
                    ],
                },
                {"role": "assistant", "content": "BCL2"},
            ]
        },
    ],
    ids=["text", "message", "arguments"],
)
def test_half_a_character_in_a_recorded_answer_costs_that_character(recorded: dict[str, Any]) -> None:
    """Programs that count in UTF-16 cut emoji in the middle."""
    file = write_file(Path("r.jsonl"), json.dumps({"id": "q", **recorded}) + "\n")

    ended = here("run", write_benchmark(Path()), "--recordings", file, "--json")

    assert ended.code == 0, ended.err
    (result,) = json.loads(ended.out)["results"]
    assert "BCL2" in json.dumps(result)


def test_a_file_name_of_other_bytes_is_no_traceback(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.yaml")
    write_file(tmp_path / name, BENCHMARK)

    ended = run_karenina(tmp_path, "run", name, "--recordings", write_recordings(tmp_path))

    assert "Traceback" not in ended.err, ended.err
    assert ended.code in (0, 2)


BROKEN_MODELS = [
    f'{{"interface": "openai", "endpoint_api_key": "{KEY}"',
    f'{{"interface": "openai", "model_name": "m", "api_key": "{KEY}"}}',
    f'{{"interface": "openai", "model_name": "m", "endpoint_api_key": ["{KEY}"]}}',
    f'{{"interface": "openai", "model_name": "m", "endpoint_api_key": "{KEY}\\ud800"}}',
    f'{{"interface": "openai", "model_name": "m", "endpoint_base_url": {{"u": "{KEY}"}}}}',
    f'{{"interface": "openai", "model_name": "m", "mcp_urls_dict": "{KEY}"}}',
    f'{{"interface": "openai", "model_name": "m", "temperature": "{KEY}"}}',
    f'x{{"interface": "openai", "endpoint_api_key": "{KEY}"}}',
    f'["{KEY}"]',
    f'"{KEY}"',
    f"openai@http://user:{KEY}@host/v1",
    f"openai:@http://user:{KEY}@host/v1",
]


@pytest.mark.parametrize("model", BROKEN_MODELS)
def test_a_broken_model_never_prints_its_key(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    """On the command line, in the environment, in configurations and in benchmarks."""
    good = write_benchmark(Path())
    inside = write_file(Path("inside.yaml"), f"{BENCHMARK}config:\n  answering_models: [{model}]\n")
    commands: list[list[str | Path]] = [
        ["run", good, "-a", model],
        ["run", good, "--recordings", write_recordings(Path()), "-j", model],
        ["run", good, "--set", f"answering_models=[{model}]"],
        ["run", good, "--set", f"answering_models={model}"],
        ["run", good, "--set", model],
        ["run", good, "-c", write_file(Path("c.json"), f'{{"answering_models": [{model}]}}')],
        ["run", good, "-c", write_file(Path("c.yaml"), f"run_name: x\nanswering_models: [{model}]")],
        ["run", good, "-c", write_file(Path("c.toml"), f"answering_models = [{model}]")],
        ["run", inside, "--trust-all"],
    ]
    ends = [here(*command) for command in commands]
    monkeypatch.setenv("KARENINA_ANSWERING_MODELS", f"[{model}]")
    ends.append(here("run", good))

    for ended in ends:
        assert ended.code == 2, ended.err
        assert KEY not in ended.err + ended.out


COMMANDS: list[tuple[str, ...]] = [  # the first and the last in a new interpreter, which flushes when it ends
    ("--help",),
    ("--version",),
    ("plugins",),
    ("plugins", "--json"),
    ("config", "--json"),
    ("prompts", "good.yaml"),
    ("prompts", "good.yaml", "--json"),
    ("run", "good.yaml", "--recordings", "good.jsonl"),
    ("run", "good.yaml", "--recordings", "good.jsonl", "--json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_behind_the_standard_output_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    write_benchmark(tmp_path)
    write_recordings(tmp_path)

    script = command in (COMMANDS[0], COMMANDS[-1])
    ended = run_karenina(tmp_path, *command, shell=">/dev/full", script=script)

    ended.assert_refused("the standard output cannot be written: No space left on device", code=70)


def test_closed_streams_change_nothing_of_a_run(tmp_path: Path) -> None:
    """Their numbers go to no file of the run: what is printed would be written into the journal."""
    arguments = ("run", write_benchmark(tmp_path), "--recordings", write_recordings(tmp_path), "--json")

    ended = run_karenina(tmp_path, *arguments, shell="<&- >&- 2>&-", script=True)

    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert len(list(read_results(tmp_path / "good.results.jsonl"))) == 1
    assert run_karenina(tmp_path, "status", tmp_path / "good.journal").code == 0


def test_a_full_disk_behind_the_error_output_ends_no_run(tmp_path: Path) -> None:
    arguments = ("run", write_benchmark(tmp_path), "--recordings", write_recordings(tmp_path), "--json")

    ended = run_karenina(tmp_path, *arguments, shell="2>/dev/full", script=True)

    assert ended.code == 0
    assert json.loads(ended.out)["results"]


def test_an_output_that_is_a_device_is_refused(tmp_path: Path) -> None:
    full = tmp_path / "full.jsonl"
    full.symlink_to("/dev/full")
    good = (
        "run",
        write_benchmark(tmp_path),
        "--recordings",
        write_recordings(tmp_path),
        "--journal",
        tmp_path / "j.journal",
    )

    run_karenina(tmp_path, *good, "--output", full).assert_refused("is a device")
    assert run_karenina(tmp_path, *good, "--output", tmp_path / "results.jsonl").code == 0
    for command in ("export", "rescore"):
        ended = run_karenina(tmp_path, command, tmp_path / "j.journal", "--output", full)
        ended.assert_refused("is a device")
