"""Any JSON, YAML or table as a promptfoo or Inspect file: the result is a benchmark or an error, never a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karenina_benchmark import Benchmark
from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing import ImportFormat, convert
from karenina_importing.imported_files import write_files
from karenina_importing.plugin import plugin
from karenina_importing.source_files import FileHead

BY_KEY: dict[str, ImportFormat] = {unloaded.key: unloaded.load() for unloaded in plugin.karenina_formats()}
TEXTS = st.sampled_from(
    [
        "",
        "x",
        "{{x}}",
        "{{ x | join }}",
        "{% if x %}",
        "file://a.txt",
        "file://../a",
        "exec:ls",
        "Lima",
        "contains: Lima",
    ]
) | st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
TYPES = st.sampled_from(
    [
        "equals",
        "contains",
        "icontains",
        "contains-any",
        "contains-all",
        "regex",
        "starts-with",
        "is-json",
        "contains-json",
        "levenshtein",
        "similar",
        "llm-rubric",
        "factuality",
        "g-eval",
        "javascript",
        "latency",
        "assert-set",
        "word-count",
        "not-contains",
        "not-llm-rubric",
        "x",
    ]
)
KEYS = st.sampled_from(
    [
        "prompts",
        "providers",
        "tests",
        "scenarios",
        "defaultTest",
        "vars",
        "assert",
        "type",
        "value",
        "threshold",
        "weight",
        "metric",
        "transform",
        "config",
        "options",
        "metadata",
        "description",
        "path",
        "label",
        "raw",
        "id",
        "prompt",
        "results",
        "response",
        "output",
        "testCase",
        "gradingResult",
        "componentResults",
        "assertion",
        "provider",
        "success",
        "testIdx",
        "promptIdx",
        "eval",
        "samples",
        "input",
        "target",
        "choices",
        "messages",
        "role",
        "content",
        "tool_calls",
        "function",
        "completion",
        "scores",
        "scorers",
        "name",
        "message_refs",
        "attachments",
        "redteam",
        "$ref",
        "prefix",
    ]
)
VALUES = st.recursive(
    SCALARS | TYPES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | TEXTS, inner, max_size=5),
    max_leaves=25,
)
ASSERTIONS = st.lists(
    st.fixed_dictionaries({"type": TYPES}, optional={"value": VALUES, "threshold": SCALARS, "weight": SCALARS}),
    max_size=4,
)
TESTS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"vars": VALUES, "assert": ASSERTIONS | VALUES, "options": VALUES, "threshold": SCALARS}
    )
    | VALUES,
    max_size=3,
)
CONFIGS = st.fixed_dictionaries(
    {"prompts": st.lists(TEXTS | VALUES, max_size=2), "tests": TESTS},
    optional={"defaultTest": VALUES, "scenarios": VALUES, "providers": VALUES},
)
RESULTS = st.fixed_dictionaries(
    {"prompt": VALUES, "success": SCALARS},
    optional={
        "vars": VALUES,
        "response": VALUES | st.fixed_dictionaries({"output": VALUES}),
        "testCase": VALUES | st.fixed_dictionaries({"assert": ASSERTIONS}),
        "gradingResult": VALUES,
    },
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system"]) | SCALARS, "content": VALUES},
        optional={"tool_calls": VALUES, "function": SCALARS},
    )
    | VALUES,
    max_size=4,
)
SAMPLES = st.fixed_dictionaries(
    {"input": VALUES | MESSAGES},
    optional={
        "id": SCALARS,
        "target": VALUES,
        "choices": VALUES,
        "messages": MESSAGES,
        "output": VALUES,
        "scores": VALUES,
    },
)
FUZZED = settings(suppress_health_check=list(HealthCheck))


def read(key: str, path: Path, folder: Path) -> None:
    """Convert a file, write the result, and read it again."""
    format = BY_KEY[key]
    try:
        format.detect(FileHead(path))
        done = convert(format.rows(path), format.mapping)
    except BenchmarkFileError:
        return
    assert all(problem.place and problem.what for problem in done.problems)
    if done.questions:
        output = folder / "out.yaml"
        write_files(done, format.mapping, key, "fuzzed", output, folder / "out.mapping.yaml", None)
        benchmark = Benchmark.load(output)
        assert [question.id for question in benchmark] == list(done.questions)
        benchmark.save(folder / "again.jsonld")
        assert list(Benchmark.load(folder / "again.jsonld")) == list(benchmark)


def write(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(value), "utf-8", errors="surrogatepass")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzzed")
    (folder / "a.txt").write_text("a {{x}}", "utf-8")
    return folder


@FUZZED
@given(config=CONFIGS, ending=st.sampled_from(["json", "yaml"]))
def test_configurations(place: Path, config: Any, ending: str) -> None:
    read("promptfoo", write(place, f"config.{ending}", config), place)


@FUZZED
@given(results=st.lists(RESULTS, max_size=3))
def test_results(place: Path, results: Any) -> None:
    read("promptfoo", write(place, "results.json", {"results": {"results": results}}), place)


@FUZZED
@given(
    header=st.lists(
        st.sampled_from(["q", "__expected", "__expected2", "__metadata:a[]", "__config:__expected:x"]),
        max_size=4,
        unique=True,
    ),
    rows=st.lists(st.lists(TEXTS, max_size=4), max_size=3),
)
def test_tables(place: Path, header: list[str], rows: list[list[str]]) -> None:
    lines = [",".join(header), *(",".join(json.dumps(cell).replace("\\", "") for cell in row) for row in rows)]
    path = place / "tests.csv"
    path.write_text("\n".join(lines), "utf-8", errors="replace")
    read("promptfoo", path, place)


@FUZZED
@given(samples=st.lists(SAMPLES | VALUES, max_size=3), about=VALUES)
def test_logs(place: Path, samples: Any, about: Any) -> None:
    read("inspect", write(place, "log.json", {"eval": about, "samples": samples}), place)


@FUZZED
@given(samples=st.lists(SAMPLES | VALUES, max_size=3))
def test_datasets(place: Path, samples: Any) -> None:
    read("inspect", write(place, "data.json", samples), place)


@FUZZED
@given(
    key=st.sampled_from(["promptfoo", "inspect"]),
    data=st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()),
    ending=st.sampled_from([".json", ".yaml", ".jsonl", ".csv", ".eval", ""]),
)
def test_any_bytes(place: Path, key: str, data: bytes, ending: str) -> None:
    path = place / f"any{ending}"
    path.write_bytes(data)
    read(key, path, place)
