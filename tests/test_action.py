"""The GitHub action and the page on CI: the scripts of the action do what its inputs ask, and inputs are never code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import preloaded
import pytest
import yaml
from conftest import SCRIPTS

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
PAGE = (ROOT / "docs/how-to/ci.md").read_text("utf-8")
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
SHELL_STEPS = {name: step for name, step in STEPS.items() if "run" in step}
INSTALL, RUN, COMPARE = SHELL_STEPS
EXPRESSION = re.compile(r"\$\{\{ (\S+) \}\}")
BENCHMARK = """karenina: 1
name: Genes
questions:
  - id: first
    question: Which gene does venetoclax target?
    answer: &answer
      gene: {description: The gene, ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}
  - {id: second, question: "Which gene does navitoclax target?", answer: *answer}
"""


class Step:
    """A shell step of the action, run by bash with the environment that a runner of GitHub gives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self, name: str, inputs: dict[str, str], results: str = "", path: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the step; `path` is searched for programs first."""
        assert set(inputs) <= set(ACTION["inputs"])
        values = {f"inputs.{input}": str(one.get("default", "")) for input, one in ACTION["inputs"].items()}
        values |= {f"inputs.{input}": value for input, value in inputs.items()}
        values |= {"steps.run.outputs.results": results, "github.action_path": "/action"}
        given = {key: EXPRESSION.sub(lambda found: values[found[1]], text) for key, text in STEPS[name]["env"].items()}
        script = self.folder / "step.sh"
        script.write_text(STEPS[name]["run"], "utf-8")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("KARENINA_", "GITHUB_"))}
        programs = [*([path] if path else []), preloaded.scripts(), SCRIPTS]
        environment = kept | given | {
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "GITHUB_OUTPUT": str(self.folder / "output.txt"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
        }  # fmt: skip
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs that the steps have set."""
        lines = (self.folder / "output.txt").read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    @property
    def summary(self) -> str:
        """The summary of the job."""
        return (self.folder / "summary.md").read_text("utf-8")

    def write(self, second: str = "TP53") -> dict[str, str]:
        """Write a benchmark and its answers, the first one right. Return the inputs that name them."""
        (self.folder / "my genes.yaml").write_text(BENCHMARK, "utf-8")
        answers = {"first": "It is BCL2.", "second": f"It is {second}."}
        lines = [json.dumps({"id": id, "response": response}) + "\n" for id, response in answers.items()]
        (self.folder / "the answers.jsonl").write_text("".join(lines), "utf-8")
        (self.folder / "one.jsonl").write_text(lines[0], "utf-8")
        return {"benchmark": "my genes.yaml", "arguments": "--recordings=the answers.jsonl\n--no-journal\n"}


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


def test_every_input_and_output_is_described_and_used() -> None:
    text = json.dumps(ACTION["runs"])

    assert [name for name, one in ACTION["inputs"].items() if not one["description"].endswith(".")] == []
    assert [name for name in ACTION["inputs"] if f"inputs.{name} " not in text] == []
    for name, one in ACTION["outputs"].items():
        assert one["value"] == f"${{{{ steps.run.outputs.{name} }}}}"
        assert f"{name}=" in STEPS[RUN]["run"]


def test_the_page_lists_every_input_and_output() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", PAGE, re.M))

    assert list(rows) == [*ACTION["inputs"], *ACTION["outputs"]]
    for name, one in (ACTION["inputs"] | ACTION["outputs"]).items():
        assert rows[name].startswith(one["description"])


@pytest.mark.parametrize("name", SHELL_STEPS)
def test_scripts_are_valid_and_contain_no_expression(name: str) -> None:
    script = SHELL_STEPS[name]["run"]

    assert "${{" not in script
    assert SHELL_STEPS[name]["shell"] == "bash"
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_run_sets_outputs_and_writes_junit_and_summary(step: Step) -> None:
    done = step.run(RUN, step.write())

    assert done.returncode == 0, done.stderr
    assert step.outputs == {
        "exit-code": "0",
        "results": "karenina.results.jsonl",
        "junit": "karenina.junit.xml",
        "pass-rate": "0.5",
        "pass-rates": '{"the answers": 0.5}',
        "pass-rate-if-undecided-wrong": "0.5",
        "undecided": "0",
        "items": "2",
        "not-judged": "0",
    }
    assert len(list(ET.parse(step.folder / "karenina.junit.xml").iter("testcase"))) == 2
    assert step.summary.startswith("## Karenina")


def test_the_lowest_rate_of_several_models_counts(step: Step) -> None:
    inputs = step.write()
    (step.folder / "right.jsonl").write_text(
        "".join(json.dumps({"id": id, "response": "BCL2"}) + "\n" for id in ("first", "second")), "utf-8"
    )
    models = [
        {"id": id, "interface": "manual", "model_name": id, "manual_traces": file}
        for id, file in (("good", "right.jsonl"), ("poor", "the answers.jsonl"))
    ]
    (step.folder / "models.json").write_text(json.dumps({"answering_models": models}), "utf-8")
    inputs |= {"arguments": "--config=models.json\n--no-journal\n"}
    failed = step.run(RUN, inputs | {"fail-under": "0.7"})

    assert (failed.returncode, step.outputs["pass-rate"]) == (1, "0.5")
    assert json.loads(step.outputs["pass-rates"]) == {"good": 1.0, "poor": 0.5}
    assert "The pass rate of poor, 0.5, is below --fail-under 0.7." in failed.stdout
    assert step.run(RUN, inputs | {"fail-under": "0.7\npoor=0.5"}).returncode == 0


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ({"fail-under": "0.4"}, 0, ""),
        ({"fail-under": "0.6"}, 1, "is below --fail-under 0.6"),
        ({"max-unjudged": "0"}, 0, ""),
        (
            {"max-unjudged": "0", "arguments": "--recordings=one.jsonl\n--partial\n"},
            1,
            "1 item was not judged, which is more than",
        ),
        ({"benchmark": "missing.yaml"}, 2, "missing.yaml"),
    ],
)
def test_a_run_fails_as_the_command_does(step: Step, more: dict[str, str], code: int, message: str) -> None:
    done = step.run(RUN, step.write() | more)

    assert done.returncode == code, done.stderr
    assert step.outputs["exit-code"] == str(code)
    assert message in done.stdout
    assert ("pass-rate" in step.outputs) == (code != 2)


def test_an_earlier_result_file_is_not_reported_as_new(step: Step) -> None:
    step.run(RUN, step.write())
    (step.folder / "output.txt").unlink()
    done = step.run(RUN, {"benchmark": "missing.yaml"})

    assert done.returncode == 2
    assert step.outputs == {"exit-code": "2"}
    assert (step.folder / "karenina.results.jsonl").exists()


def test_values_of_inputs_are_not_executed(step: Step) -> None:
    attack = "$(touch hacked)`touch hacked`\"; touch hacked; '; touch hacked #"
    inputs = step.write() | {"answering": attack, "judge": attack, "output": f"{attack}.jsonl", "fail-under": attack}
    for name in SHELL_STEPS:
        step.run(name, inputs | {"compare-with": attack, "version": attack, "extras": attack}, results=attack,
                 path=recording_python(step.folder))  # fmt: skip

    assert not (step.folder / "hacked").exists()


def obeyed_commands(output: str) -> list[str]:
    """Return the commands of the runner that it would obey: `::NAME::` at the start of a line, `##[NAME]` anywhere."""
    found, stopped = [], ""
    for line in output.splitlines():
        command = re.match(r"\s*::([^:\s]+)[^:]*::(.*)", line) or re.search(r"##\[([^\]]+)\](.*)", line)
        if command is None:
            continue
        if stopped:
            stopped = "" if command[1] == stopped else stopped
        elif command[1] == "stop-commands":
            stopped = command[2]
        else:
            found.append(line)
    assert not stopped
    return found


ATTACKS = ("::add-mask::BCL2", "see ##[error]lost", "::x::", "::error::y", "::stop-commands::x")
"""Commands of the runner; the one that would hide all that follow it is last."""


@pytest.mark.parametrize("step_name", [RUN, COMPARE])
def test_the_runner_obeys_no_command_in_an_answer(step: Step, step_name: str) -> None:
    inputs = step.write("TP53\n" + "\n".join(ATTACKS) + "\n")
    done = step.run(RUN, inputs | {"output": "old.results.jsonl", "fail-under": "0.9"})
    assert [attack for attack in ATTACKS if attack not in done.stdout] == []
    if step_name == COMPARE:
        step.run(RUN, step.write("BCL2"))
        done = step.run(COMPARE, {"compare-with": "old.results.jsonl"}, results="karenina.results.jsonl")

    assert obeyed_commands(done.stdout) == []
    assert done.stderr == ""


def test_the_reader_of_commands_notices_each() -> None:
    assert [attack for attack in ATTACKS[:-1] if obeyed_commands(attack) != [attack]] == []
    with pytest.raises(AssertionError):
        obeyed_commands(ATTACKS[-1])


def test_the_token_that_ends_the_guard_cannot_be_guessed(step: Step) -> None:
    outputs = [step.run(RUN, step.write()).stdout for _ in range(2)]
    tokens = {re.match(r"::stop-commands::([0-9a-f]{64})\n", output)[1] for output in outputs}  # type: ignore[index]

    assert len(tokens) == 2


def test_models_of_several_lines_are_all_used(step: Step) -> None:
    model = "openai:{}@http://127.0.0.1:9/v1"
    models = "\n".join(map(model.format, "ab"))
    inputs = step.write() | {"answering": models, "judge": models, "arguments": "--dry-run\n--no-journal\n"}
    inputs |= {"judge": models.replace(":a@", ":c@").replace(":b@", ":d@")}
    done = step.run(RUN, inputs)

    assert done.returncode == 0, done.stderr
    assert {line.partition(" ")[0] for line in done.stdout.splitlines()} >= {"a", "b"}
    assert step.outputs == {"exit-code": "0"}


@pytest.mark.parametrize(
    ("inputs", "requirements"),
    [
        ({}, ["/action"]),
        ({"extras": "mcp,langchain"}, ["/action[mcp,langchain]"]),
        ({"version": "0.1.0", "extras": "mcp"}, ["karenina[mcp]==0.1.0"]),
        ({"packages": "my-plugin>=1\n\nother @ file:///a b\n"}, ["/action", "my-plugin>=1", "other @ file:///a b"]),
    ],
)
def test_the_requirements_are_what_the_inputs_ask(step: Step, inputs: dict[str, str], requirements: list[str]) -> None:
    done = step.run(INSTALL, inputs, path=recording_python(step.folder))

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["-m", "pip", "install", "--disable-pip-version-check", "--", *requirements]


def recording_python(folder: Path) -> Path:
    """Return a folder with a `python` that prints its arguments instead of installing packages."""
    program = folder / "bin/python"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n", "utf-8")
    program.chmod(0o755)
    return program.parent


def test_a_comparison_is_printed_and_in_the_summary(step: Step) -> None:
    step.run(RUN, step.write("BCL2") | {"output": "old.results.jsonl"})
    step.run(RUN, step.write())
    done = step.run(COMPARE, {"compare-with": "old.results.jsonl"}, results="karenina.results.jsonl")

    assert done.returncode == 0, done.stderr
    assert "Pass rate   A 100.0%, B 50.0% on 2 questions" in done.stdout
    assert "    Pass rate   A 100.0%, B 50.0%" in step.summary


def test_the_summary_names_a_model_that_is_not_compared(step: Step) -> None:
    inputs = step.write("BCL2")
    step.run(RUN, inputs | {"output": "old.results.jsonl"})
    (step.folder / "added.jsonl").write_text((step.folder / "the answers.jsonl").read_text("utf-8"), "utf-8")
    step.run(RUN, inputs | {"arguments": inputs["arguments"] + "--recordings=added.jsonl\n"})
    done = step.run(COMPARE, {"compare-with": "old.results.jsonl"}, results="karenina.results.jsonl")

    assert done.returncode == 0, done.stdout
    shown = step.summary.partition("<details>")[0]
    assert "C (added (karenina)) was not checked because old.results.jsonl has" in shown


def test_the_summary_has_the_reason_of_a_failure(step: Step) -> None:
    step.run(RUN, step.write() | {"fail-under": "0.9"})
    assert "**Failed:** The pass rate, 0.5, is below --fail-under 0.9." in step.summary

    step.run(RUN, step.write() | {"arguments": "--recordings=none.jsonl\n--no-journal\n"})
    assert "**Failed:** no item has a result (exit code 2); the log of this step has the reason." in step.summary


def test_a_regression_fails_the_comparison(step: Step) -> None:
    def write(right: bool) -> dict[str, str]:
        questions = "".join(
            f"  - id: q{number}\n    question: Question {number}?\n    answer:\n      gene: {{description: The gene, "
            "ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}\n"
            for number in range(20)
        )
        (step.folder / "many.yaml").write_text(f"karenina: 1\nname: Many\nquestions:\n{questions}", "utf-8")
        lines = [json.dumps({"id": f"q{n}", "response": "BCL2" if right else "TP53"}) + "\n" for n in range(20)]
        (step.folder / "answers.jsonl").write_text("".join(lines), "utf-8")
        return {"benchmark": "many.yaml", "arguments": "--recordings=answers.jsonl\n--no-journal"}

    step.run(RUN, write(True) | {"output": "old.results.jsonl"})
    step.run(RUN, write(False))
    done = step.run(COMPARE, {"compare-with": "old.results.jsonl"}, results="karenina.results.jsonl")

    assert done.returncode == 1
    assert "**Failed:** the comparison with the earlier run:" in step.summary
    assert "minus A (old) is below 0 points, a regression" in step.summary
    assert "a regression" in done.stdout
    assert "Difference" in step.summary


def test_the_workflow_of_the_page_uses_known_inputs() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.S | re.M)
    steps = yaml.safe_load(example)["jobs"]["evaluate"]["steps"]

    assert set(steps[-1]["with"]) <= set(ACTION["inputs"])


def test_pytest_knows_the_options_of_the_page() -> None:
    options = re.findall(r"--karenina-\w+", PAGE)
    shown = preloaded.pytest(["--help"], folder=ROOT, environment=os.environ, timeout=120)

    assert shown.returncode == 0, shown.stderr
    assert options
    assert [option for option in options if option not in shown.stdout] == []
