"""No SDK, HTTP client, numpy or torch is imported before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import preloaded
import pytest
import typer

from karenina_cli.app import build_app

HEAVY = [
    "aiohttp",
    "anthropic",
    "pyreqwest",
    "httpx",
    "huggingface_hub",
    "langchain_core",
    "mcp",
    "numpy",
    "openai",
    "openpyxl",
    "pandas",
    "requests",
    "sentence_transformers",
    "sklearn",
    "torch",
    "transformers",
    "urllib3",
    "xllamacpp",
]
NOT_FOR_SHORT_COMMANDS = [
    "asyncio",
    "karenina_conversation.conversing",
    "karenina_core.pipeline",
    "karenina_importing.conversion",
    "karenina_importing.formats",
    "karenina_engine.calls.concurrency_limits",
    "karenina_engine.run.session",
    "karenina_local.store",
    "karenina_sandbox.task_files",
    "karenina_toolkit.traces.recording",
    "multiprocessing",
    "regex",
]
"""What `check`, `plan` and `show` do not use, though they list formats and stages that do."""
THREE = """karenina: 1
name: Genes
questions:
  - question: Which gene does venetoclax target?
    answer: {gene: {description: The gene, ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}}
  - question: Which gene is mutated most often?
    answer: {gene: {description: The gene, ground_truth: true, verify_with: {type: TraceContains, substring: TP53}}}
  - question: Which gene does ibrutinib target?
    answer: {gene: {description: The gene, ground_truth: true, verify_with: {type: TraceContains, substring: BTK}}}
"""
CLI_ONLY = ["typer", "rich", "click", "yaml", "pluggy", "stevedore"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a benchmark of three questions, and a run of it."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "b.yaml").write_text(THREE, "utf-8")
    texts = [line.removeprefix("  - question: ") for line in THREE.splitlines() if "question: " in line]
    answers = "".join(json.dumps({"question": text, "answer": "BCL2"}) + "\n" for text in texts)
    (folder / "answers.jsonl").write_text(answers, "utf-8")
    imported(short("run", "b.yaml", "--recordings", "answers.jsonl", "-o", "out.jsonl", folder=folder))
    return folder


def short(*arguments: str, folder: Path) -> str:
    return f"import os\nos.chdir({str(folder)!r})\n{command(*arguments)}"


def imported(program: str) -> set[str]:
    """Return the top-level modules that are there after `program`, run in a process of its own."""
    return {name.partition(".")[0] for name in imported_modules(program)}


@cache
def imported_modules(program: str) -> set[str]:
    """Return all modules that are there after `program`, run once in a process of its own."""
    code = f"{program}\nimport sys\nprint('MODULES', *sys.modules)"
    return set(printed_words(code)["MODULES"])


def printed_words(program: str) -> dict[str, list[str]]:
    """Return the words of each line that a program prints by its first, run in a process of its own."""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {line.partition(" ")[0]: line.split()[1:] for line in found.stdout.splitlines()}


class Seen(NamedTuple):
    """What is there after a short command: modules, built models of ours, and the counts of its garbage collections."""

    modules: set[str]
    built: set[str]
    looks: int
    frozen: int


@pytest.fixture(scope="module")
def seen(folder: Path) -> Callable[[str], Seen]:
    """Return a function that runs a command once for all tests."""

    @cache
    def look(line: str) -> Seen:
        words = printed_words(_LOOKS + short(*line.split(), folder=folder) + _MODELS)
        return Seen(set(words["MODULES"]), set(words["BUILT"]), *map(int, words["FROZEN"]))

    return look


_LOOKS = """
import atexit, gc
looks = []
atexit.register(lambda: print('FROZEN', len(looks), gc.get_freeze_count()))
import karenina_cli.garbage_collection
gc.callbacks.append(lambda *_: looks.append(1))
"""
_MODELS = """
import sys
print('MODULES', *sys.modules)
from pydantic import BaseModel
found = [BaseModel]
for one in found:
    found += one.__subclasses__()
print('BUILT', *(one.__name__ for one in found if one.__module__.startswith('karenina') and one.__pydantic_complete__))
"""


def command(*arguments: str) -> str:
    return (
        f"import sys\nsys.argv = ['karenina', *{list(arguments)!r}]\nfrom karenina_cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
    )


def test_importing_the_core_imports_no_plugin_or_cli_library() -> None:
    modules = imported("import karenina_core")
    assert modules & {*HEAVY, *CLI_ONLY} == set()
    assert {name for name in modules if name.startswith("karenina")} == {"karenina_core"}


def test_using_the_public_names_imports_nothing_heavy() -> None:
    program = "import karenina_core\nfor name in karenina_core.__all__:\n    getattr(karenina_core, name)\n"
    assert imported(program) & {*HEAVY, "typer", "rich"} == set()


def test_looking_around_on_the_command_line_imports_nothing_heavy() -> None:
    lines = ("--help", "plugins", "plan", "config", "model list")
    assert imported("".join(command(*line.split()) for line in lines)) & set(HEAVY) == set()


@pytest.mark.parametrize("line", ["check b.yaml", "plan", "plan b.yaml", "show out.jsonl"])
def test_short_commands_import_only_what_they_use(line: str, seen: Callable[[str], Seen]) -> None:
    modules = seen(line).modules

    assert {name.partition(".")[0] for name in modules} & set(HEAVY) == set()
    assert modules & set(NOT_FOR_SHORT_COMMANDS) == set()


@pytest.mark.parametrize("line", ["check b.yaml", "plan b.yaml", "show out.jsonl"])
def test_short_commands_build_only_the_models_that_they_use(line: str, seen: Callable[[str], Seen]) -> None:
    built = seen(line).built

    assert "VerificationConfig" in built
    for name in ("CoreSettings", "Question"):
        assert (name in built) != line.startswith("show")  # which prints the rules that the run stored
    assert not built & {"VerificationResultTemplate", "LLMRubricTrait", "NumericTolerance", "DateMatch", "OpenAIExtra"}
    assert ("VerificationResult" in built) == line.startswith("show")
    assert len(built) <= 40


@pytest.mark.parametrize("line", ["check b.yaml", "plan", "show out.jsonl"])
def test_short_commands_do_not_look_for_garbage(line: str, seen: Callable[[str], Seen]) -> None:
    assert seen(line).looks <= 10  # before the command begins
    assert seen(line).frozen > 10_000


def test_completion_in_a_shell_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("questions:\n  - question: Which\n", "utf-8")
    program = f"import os\nos.chdir({str(tmp_path)!r})\n"
    for line in ("run b.yaml -q ", "run b.yaml --set evaluation_mode=", "run b.yaml -a open"):
        words = ["karenina", *line.split(" ")]
        variables = {
            "_KARENINA_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        program += f"os.environ.update({variables!r})\n{command()}"
    assert imported(program) & set(HEAVY) == set()


def test_the_list_of_commands_imports_no_stage_or_rich() -> None:
    modules = imported(command("--help"))
    assert modules & {"pydantic", "rich", "karenina_generation", "karenina_openai"} == set()
    assert "karenina_local" in modules, "the plugins that add commands are asked"


def test_the_list_of_commands_imports_no_command() -> None:
    modules = imported_modules(command("--help"))
    whole = typer.main.get_command(build_app())
    commands = {
        name: listed.make_context(name, [], resilient_parsing=True).command for name, listed in whole.commands.items()
    }
    first = {name: next(iter(getattr(one, "commands", {"": one}).values())) for name, one in commands.items()}

    assert {"run", "report", "selftest", "model"} <= first.keys()
    assert {name for name, one in first.items() if one.callback.__module__ in modules} == set()
    assert {name for name, one in commands.items() if not one.help.startswith(whole.commands[name].help)} == set()


MISTAKEN = """from typing import Literal
from pydantic import field_validator
from karenina_core.data.rubrics import LLMRubricTrait, register_trait_kind
from karenina_template.templates import ExactMatch, register_primitive

@{register}
class Mine({base}):{type}
    @field_validator("no_such_field")
    @classmethod
    def _check(cls, value): return value

plugin = None
"""


@pytest.mark.parametrize(
    ("command_name", "register", "base", "type"),
    [
        ("primitives", "register_primitive", "ExactMatch", ""),
        ("traits", "register_trait_kind", "LLMRubricTrait", "\n    type: Literal['mistaken.t'] = 'mistaken.t'"),
    ],
)
def test_a_mistake_in_a_subclass_of_ours_is_an_error_of_its_plugin(
    command_name: str, register: str, base: str, type: str, tmp_path: Path
) -> None:
    facts = tmp_path / "mistaken-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mistaken\nVersion: 1.0\n", "utf-8")
    (facts / "entry_points.txt").write_text("[karenina.plugins]\nmistaken = mistaken:plugin\n", "utf-8")
    (tmp_path / "mistaken.py").write_text(MISTAKEN.format(register=register, base=base, type=type), "utf-8")

    def printed(name: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return preloaded.run([name], folder=tmp_path, environment=environment, timeout=120).stdout

    assert "PydanticUserError: Decorators defined with incorrect fields: mistaken.Mine" in printed("plugins")
    assert "mistaken." not in printed(command_name)


def test_the_probe_would_notice() -> None:
    assert "pyreqwest" in imported("import pyreqwest")
