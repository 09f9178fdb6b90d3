"""Regex and callable traits reproduce the recorded verdicts of another program, by instruction and on all rows."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ifeval_traits import PATTERNS, SOURCES, traits_for

from karenina import Benchmark, Outcome, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

FILE = Path(__file__).parents[2] / "shared" / "data" / "ifeval.jsonl"
RANDOM_LETTER = "the recording program takes a letter at random where the instruction names none of a to z"
LANGUAGE = "the case is right; the recording program also guesses the language, and takes so few words for another one"
EXPLAINED = {
    ("ifeval-1122-gpt-4o-2024-08-06", "keywords:letter_frequency"): RANDOM_LETTER,
    ("ifeval-1122-Qwen__Qwen2.5-1.5B-Instruct-GPTQ-Int4", "keywords:letter_frequency"): RANDOM_LETTER,
    ("ifeval-202-gpt-4o-2024-08-06", "change_case:english_lowercase"): LANGUAGE,
    ("ifeval-3456-gpt-4o-2024-08-06", "change_case:english_capital"): LANGUAGE,
}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    if not FILE.is_file():
        pytest.skip("the recorded data is not beside this checkout (ifeval.jsonl)")
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def named(row: dict[str, Any]) -> list[tuple[str, str, Any, bool]]:
    """Name, instruction, parameters and recorded verdict of each of a row's instructions."""
    found = zip(row["instruction_id_list"], row["kwargs"], row["strict_each"], strict=True)
    return [(f"{at} {kind}", kind, kwargs, verdict) for at, (kind, kwargs, verdict) in enumerate(found)]


def test_the_recorded_verdicts_are_re_created_on_all_rows(rows: list[dict[str, Any]]) -> None:
    benchmark = Benchmark.create(name="instructions")
    for row in rows:
        traits = [traits_for(name, kind, kwargs) for name, kind, kwargs, _ in named(row)]
        benchmark.add_question(row["question"], question_id=row["id"], rubric=[one for one in traits if one])
    said = {row["id"]: row["response"] for row in rows}
    models = ScriptedModels(say=lambda _messages, info: said[info.question_id])
    plugins = Plugins.discover()
    plugins.register(models)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(answering_models=[models.model("m")], evaluation_mode="rubric_only")
        results = {one.metadata.question_id: one for one in benchmark.run_verification(config, trust="all")}

    assert len(results) == len(rows)
    agreed, counted, differing = Counter[str](), Counter[str](), set()
    for row in rows:
        result = results[row["id"]]
        assert result.outcome is Outcome.SCORED
        for name, kind, _, verdict in named(row):
            if kind not in PATTERNS and kind not in SOURCES:
                continue
            assert result.rubric is not None
            given = result.rubric.get_trait_by_name(name)
            counted[kind] += 1
            agreed[kind] += given is not None and given[0] is verdict
            if given is None or given[0] is not verdict:
                differing.add((row["id"], kind))
    for kind in sorted(counted):
        sys.stdout.write(f"{kind:<48}{agreed[kind]:>4} of {counted[kind]}\n")
    assert differing == set(EXPLAINED)
    assert sum(agreed[kind] == counted[kind] for kind in counted) >= 19
