"""Result lines, as `karenina show` reads them."""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fuzzing.benchmarks import SOURCE
from fuzzing.commands import command
from fuzzing.engine import Kind
from fuzzing.mutation import documents, dump_lines, parse_tree
from karenina import Benchmark
from karenina_core import plugins
from karenina_core.data.rubrics import LLMRubricTrait, RegexRubricTrait, Rubric
from karenina_core.errors import KareninaError
from karenina_core.models.ports import CallInfo, ErrorCategory, PortError
from karenina_core.plugins import Plugins
from karenina_engine.results.result_set import VerificationResultSet, read_results
from karenina_testing import ScriptedModels

_FILLED: Final = {
    "gene": "BCL2",
    "year": 2016,
    "kind": "b",
    "names": ["x"],
    "when": "2016-04-11",
    "parts": [],
    "reasoning": "because",
    "safe": {"reasoning": "because", "score": True},
}


def _results() -> list[Any]:
    """Results of a run: one with a verdict and scores, and one that is an error."""

    def say(_messages: object, info: CallInfo) -> str:
        if info.question_id == "q2":
            raise PortError("the server is away", category=ErrorCategory.PERMANENT)
        return "It is BCL2, see doi:10.1/x."

    models = ScriptedModels(say=say, fill=lambda *_: _FILLED)
    room = Plugins.discover()
    room.register(models)
    benchmark = Benchmark.create("results")
    traits = (LLMRubricTrait(name="safe", description="It warns."), RegexRubricTrait(name="doi", pattern="doi"))
    benchmark.global_rubric = Rubric.of(*traits)
    for id in ("q1", "q2"):
        benchmark.add_question(f"Which gene ({id})?", "BCL2", SOURCE, question_id=id)
    with tempfile.TemporaryDirectory() as name, plugins.use_plugins(room):
        output = Path(name) / "results.jsonl"
        pair = {"answering_models": [models.model("a")], "parsing_models": [models.model("j")]}
        benchmark.run_verification({**pair, "evaluation_mode": "template_and_rubric"}, output=output)
        return [json.loads(line) for line in output.read_text("utf-8").splitlines()]


_COMMANDS: Final = ([], ["--json"], ["--quiet"], ["--outcome", "correct"], ["--question", "q1"])


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    here = Path.cwd()
    os.chdir(folder)
    file = folder / "stranger.jsonl"

    def check(data: bytes) -> bool:
        file.write_bytes(data)
        command("show", file.name, *_COMMANDS[zlib.crc32(data) % len(_COMMANDS)])
        try:
            found = VerificationResultSet(read_results(file))
        except KareninaError as error:
            str(error).encode("utf-8")
            return False
        found.summary()
        for result in found:
            result.model_dump_json().encode("utf-8")
        return True

    try:
        yield check
    finally:
        os.chdir(here)


_USAGES: Final = ({"parsing": {"calls": 1}}, {"parsing": {"calls": [], "scope": "item"}})
_SEEDS = _results()
KIND: Final = Kind(
    "results",
    documents([_SEEDS, *([one] for one in _SEEDS)], dump_lines),
    _opened,
    valid=[dump_lines(parse_tree(_SEEDS)).encode()],
    regressions=[json.dumps({**_SEEDS[0], "template": {"usage_metadata": usage}}).encode() for usage in _USAGES],
)
