"""`karenina prompts`, with stages defined by the tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from command_runs import make_plugins, run_karenina, write_benchmark

from karenina_core import ArtifactKeys, CheckStage, Stage, VerificationContext, hookimpl
from karenina_core.models.ports import AgentOptions, Message
from karenina_core.models.prompts import PromptTask
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import Detection
from karenina_toolkit.structured import ask

MOOD = PromptTask("mood", "Is the response cheerful?")
TOUR = PromptTask("tour", "Look around.", shows_truth=True, family="travel")
NEVER = PromptTask("never", "Nobody says this.")
SHORT = PromptTask("mood", "Is the response", shows_truth=True)
"""Never sent: another task of the same name has longer instructions."""
SCHEMA = {"type": "object", "properties": {"cheerful": {"type": "boolean"}}, "required": ["cheerful"]}


class Mood(CheckStage):
    """A stage that fails cheerful answers."""

    name = "Mood"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    prefix = "mood"
    prompts = (SHORT, MOOD, NEVER)

    async def detect(self, context: VerificationContext) -> Detection:
        response = context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)
        reply = await ask(context, MOOD, response, SCHEMA, lambda data: bool(data["cheerful"]))
        return Detection(reply.value)


class Tour(Stage):
    """A stage that starts an agent if no stage has vetoed the answer."""

    name = "Tour"
    after = frozenset({"Mood"})
    prompts = (TOUR,)

    async def execute(self, context: VerificationContext) -> None:
        if not context.vetoes:
            await context.agent().run(context.prompt(TOUR, "Go.\x1b[31m"), AgentOptions(max_turns=3))
        await context.llm().invoke([Message.user("undeclared")])
        raise RuntimeError("lost")


def plugins() -> Plugins:
    class Offer:
        @hookimpl
        def karenina_extra_stages(self) -> Sequence[type[Stage]]:
            return [Mood, Tour]

        @hookimpl
        def karenina_prompt_instructions(self, task: str) -> str | None:
            return "Smiles count." if task == "mood" else None

    registered = make_plugins()
    registered.register(Offer(), distribution="karenina-moods", version="1")
    return registered


ONLY = ("--set", "evaluation_mode=rubric_only")


def test_stages_are_rehearsed_with_a_judge_whose_answers_fail_nothing(tmp_path: Path) -> None:
    done = run_karenina(
        "prompts", write_benchmark(tmp_path, "a"), *ONLY, "--answer", "Hello.", "--json", plugins=plugins()
    )
    assert [
        (prompt["stage"], prompt["task"], prompt["port"], prompt["shows_truth"]) for prompt in done.json["prompts"]
    ] == [
        ("Say", None, "llm", False),
        ("Mood", "mood", "parser", False),
        ("Tour", "tour", "agent", True),
        ("Tour", None, "llm", False),
    ]
    mood, tour = done.json["prompts"][1:3]
    assert (mood["schema"], mood["distribution"]) == (SCHEMA, "karenina-moods")
    assert [message["content"] for message in mood["messages"]] == [
        "Is the response cheerful?\n\nSmiles count.",
        "Hello.",
    ]
    assert tour["options"] == {"max_turns": 3, "timeout": None, "workspace": False}
    assert [(entry["task"], entry["stage"], entry["instructions"]) for entry in done.json["unsaid"]] == [
        ("mood", "Mood", SHORT.instructions),
        ("never", "Mood", NEVER.instructions),
    ]
    assert {entry["why"] for entry in done.json["unsaid"]} == {"the placeholder answer does not trigger this stage"}
    (failure,) = done.json["failed"]
    assert failure["stage"] == "Tour"
    assert failure["error"].startswith("RuntimeError: lost (test_cli_prompts.py:")


def test_printed_prompts_are_complete_without_control_characters(tmp_path: Path) -> None:
    done = run_karenina("prompts", write_benchmark(tmp_path, "a", "b"), *ONLY, plugins=plugins())
    assert done.code == 0
    assert "Is the response cheerful?" in done.out
    assert "[placeholder: what the answering model says]" in done.out
    assert "tour (karenina-moods) to judge, agent port; contains the ground truth" in done.out
    assert "\x1b" not in done.out
    assert "Tour failed" in done.err
    assert "one of 2" in done.err


@pytest.mark.parametrize(("task", "expected"), [("mood", ["mood"]), ("travel", ["tour"]), ("tour", ["tour"])])
def test_one_task_or_family_can_be_chosen(tmp_path: Path, task: str, expected: list[str]) -> None:
    file = write_benchmark(tmp_path, "a")
    data = run_karenina("prompts", file, *ONLY, "--task", task, "--json", plugins=plugins()).json
    assert [prompt["task"] for prompt in data["prompts"]] == expected
    listed = run_karenina("prompts", "--task", task, "--json", plugins=plugins()).json
    assert {entry["task"] for entry in listed["tasks"]} == set(expected)


@pytest.mark.parametrize("arguments", [("--task",), ("-t",), ("--task", "--json")])
def test_without_a_name_the_tasks_are_listed(arguments: tuple[str, ...]) -> None:
    done = run_karenina("prompts", *arguments, plugins=plugins())
    assert done.code == 0, done.err
    assert "mood" in done.out
    assert "tour" in done.out


def test_the_question_can_be_chosen(tmp_path: Path) -> None:
    file = write_benchmark(tmp_path, "a", "b")
    assert run_karenina("prompts", file, *ONLY, "-q", "b", "--json", plugins=plugins()).json["question"] == "b"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--task", "mod"], "no stage has a prompt task named 'mod'"),
        (["--task", "mod"], "did you mean 'mood'?"),
        (["--answer", "x"], "specify the benchmark file as well"),
        (["--question", "x"], "specify the benchmark file as well"),
    ],
)
def test_invalid_arguments_of_prompts_are_refused(arguments: list[str], problem: str) -> None:
    done = run_karenina("prompts", *arguments, plugins=plugins())
    assert done.code == 2
    assert problem in done.err
