"""Imports in this process, and runs of what they wrote with a scripted judge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from command_runs import CommandResult, run_karenina

from karenina_benchmark import Benchmark
from karenina_core.data.result import VerificationResult
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plugins import Plugins
from karenina_engine.offline.prompt_preview import example_for_schema
from karenina_engine.results.result_set import read_results
from karenina_testing import ScriptedModels

_ANSWER = re.compile(r"[Tt]he answer is (\w+)")


def _fill(messages: Sequence[Message], schema: Mapping[str, Any], _info: CallInfo) -> Mapping[str, Any]:
    """Return the text after "the answer is" in a response; for traits, return a form that fits the schema."""
    if "answer" not in schema["properties"]:
        return cast("Mapping[str, Any]", json.loads(example_for_schema(schema, "So it is.")))
    match = _ANSWER.search("\n".join(message.content for message in messages))
    value: Any = match[1] if match else None
    kind = schema["properties"]["answer"]
    if value is not None and "integer" in json.dumps(kind):
        value = int(value)
    return {"answer": value}


@cache
def _plugins() -> Plugins:
    plugins = Plugins.discover()
    plugins.register(ScriptedModels(fill=_fill))
    return plugins


def karenina(*arguments: str | Path) -> CommandResult:
    """Run the command with all installed plugins and a judge, `scripted:judge`."""
    return run_karenina(*arguments, plugins=_plugins())


def import_file(source: str | Path, *arguments: str | Path) -> CommandResult:
    """Import a source to `out.yaml` in the current folder."""
    return karenina("import", source, "-o", "out.yaml", *arguments)


def run_imported(folder: Path, *arguments: str | Path) -> dict[str, bool | None]:
    """Check `out.yaml`, judge the answers in `answers.jsonl`, and return the verdict of each question."""
    return {result.metadata.question_id: result.template.verify_result for result in judge_imported(folder, *arguments)}


def judge_imported(folder: Path, *arguments: str | Path) -> list[VerificationResult]:
    """Check `out.yaml`, judge the answers in `answers.jsonl`, and return the results."""
    checked = karenina("check", folder / "out.yaml")
    assert checked.code == 0, checked.out + checked.err
    assert "0 errors, 0 warnings" in checked.out, checked.out
    options = arguments or ("--recordings", folder / "answers.jsonl")
    done = karenina("run", folder / "out.yaml", *options, "--judge", "scripted:judge", "--quiet")
    assert done.code == 0, done.err
    return list(read_results(Path("out.results.jsonl")))


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write values as lines of JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_json(path: Path, value: Any) -> Path:
    """Write a value as JSON with indentation."""
    path.write_text(json.dumps(value, indent=2), "utf-8")
    return path


def write(name: str, text: str) -> Path:
    """Write a text file below the current folder."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def texts() -> list[str]:
    """Return the texts of the questions in `out.yaml`."""
    return [question.question for question in Benchmark.load("out.yaml")]
