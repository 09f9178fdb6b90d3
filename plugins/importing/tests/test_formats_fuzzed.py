"""Any JSON or YAML in the shape of a format becomes rows or an error, and rows become questions or problems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing import ImportFormat, convert
from karenina_importing.formats.deepeval import DEEPEVAL
from karenina_importing.formats.helm import HELM
from karenina_importing.formats.langfuse import LANGFUSE
from karenina_importing.formats.langsmith import LANGSMITH
from karenina_importing.formats.lm_eval_tasks import LM_EVAL_TASK
from karenina_importing.formats.openai_evals import EVALS_REGISTRY
from karenina_importing.formats.pydantic_evals import PYDANTIC_EVALS
from karenina_importing.source_files import FileHead

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 10**6)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "A", "correct", "[", "{}", "\ud800", "{{q}}", "ANNOTATION", "assistant", "data.jsonl"])
)


def values(*keys: str) -> st.SearchStrategy[Any]:
    """Return a strategy for any JSON with these keys in its objects."""
    names = st.sampled_from([*keys, "name", "other"])
    return st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5), max_leaves=12
    )


def objects(required: Mapping[str, Any], *optional: str) -> st.SearchStrategy[Any]:
    """Return a strategy for objects with required keys and some of the optional keys, with any values."""
    some = values(*required, *optional)
    return st.fixed_dictionaries(
        {key: some if strategy is None else strategy for key, strategy in required.items()},
        optional=dict.fromkeys(optional, some),
    )


TURN = objects({"role": st.sampled_from(["user", "assistant"]), "content": None}, "tool_calls", "type")
CASE = objects({"input": None}, "expected_output", "actualOutput", "toolsCalled", "metricsData", "tags", "context")
SAMPLE = objects({"user_input": st.lists(TURN, max_size=3) | SCALARS}, "reference", "response", "rubrics", "score")
TALK = objects({"turns": st.lists(TURN, max_size=3) | SCALARS, "scenario": None}, "expected_outcome")
EVALUATOR = st.sampled_from(["EqualsExpected", "Equals", "Contains", "LLMJudge", "IsInstance", "Own"])
EVALUATORS = st.lists(EVALUATOR | st.dictionaries(EVALUATOR, values("value", "rubric", "case_sensitive"), max_size=2))
INPUTS = values("question", "input", "messages", "role", "content")
HELM_STATE = objects(
    {"instance": objects({"input": values("text", "messages"), "references": values("output", "text", "tags")}, "id")},
    *("result", "request", "reference_index", "output_mapping"),
)
SHAPES: list[tuple[ImportFormat, st.SearchStrategy[Any]]] = [
    (DEEPEVAL, st.lists(CASE | SAMPLE | TALK, max_size=3)),
    (DEEPEVAL, objects({"testCases": st.lists(CASE, max_size=2)}, "conversationalTestCases", "hyperparameters")),
    (
        PYDANTIC_EVALS,
        st.fixed_dictionaries(
            {
                "cases": st.lists(
                    st.fixed_dictionaries(
                        {"inputs": INPUTS, "evaluators": EVALUATORS},
                        optional={"expected_output": values("metal"), "metadata": values("a"), "output": SCALARS},
                    ),
                    max_size=3,
                )
            },
            optional={"evaluators": EVALUATORS, "report_evaluators": SCALARS},
        ),
    ),
    (LANGSMITH, st.lists(objects({"inputs": INPUTS, "outputs": INPUTS}, "run_type", "feedback", "extra", "error"))),
    (LANGFUSE, st.lists(objects({"input": INPUTS}, "expectedOutput", "output", "scores", "traceId", "tags", "status"))),
    (HELM, objects({"adapter_spec": None, "request_states": st.lists(HELM_STATE, max_size=2)})),
    (HELM, st.lists(objects({"input": None, "references": None}, "id", "perturbation"), max_size=3)),
    (
        LM_EVAL_TASK,
        objects(
            {"task": SCALARS, "dataset_path": st.sampled_from(["json", "data.jsonl", "hub/x"])},
            *("dataset_kwargs", "doc_to_text", "doc_to_target", "doc_to_choice", "metric_list", "include"),
        ),
    ),
    (
        EVALS_REGISTRY,
        st.dictionaries(
            st.sampled_from(["m", "n"]),
            st.fixed_dictionaries(
                {"class": st.sampled_from(["evals.elsuite.basic:Includes", "evals.elsuite.x:Other", "y"])},
                optional={"args": objects({"samples_jsonl": st.just("data.jsonl") | SCALARS}, "modelgraded_spec")},
            ),
        ),
    ),
]
LINES = st.lists(objects({}, "input", "ideal", "q", "question", "answer", "choices"), max_size=3)


@pytest.mark.parametrize(
    ("format", "shape"), SHAPES, ids=[f"{import_format.key}-{at}" for at, (import_format, _) in enumerate(SHAPES)]
)
def test_any_file_of_the_shape_is_converted_or_refused(format: ImportFormat, shape: st.SearchStrategy[Any]) -> None:
    suffix = ".yaml" if format in (LM_EVAL_TASK, EVALS_REGISTRY) else ".json"

    @settings(max_examples=settings().max_examples // 2)  # for each of many shapes
    @given(shape, LINES)
    def check(document: Any, lines: list[Any]) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"any{suffix}"
            path.write_text(json.dumps(document), "utf-8")
            (path.parent / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
            try:
                format.detect(FileHead(path))
                done = convert(format.rows(path), format.mapping)
            except BenchmarkFileError:
                return
            assert done.rows == len(done.questions) + done.repeats + len(done.problems) or done.problems
            assert {record["id"] for record in [*done.recordings, *done.labels]} <= done.questions.keys()

    check()
