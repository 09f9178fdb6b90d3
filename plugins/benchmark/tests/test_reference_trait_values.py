"""A checkpoint loads and is saved with any JSON values in its traits."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karenina_benchmark import Benchmark

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-10, 10)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "[", "1"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "name", "type", "schema"]), inner)
    ),
    max_leaves=4,
)
WORDS = ("RubricTrait", "LLMRubricTrait", "RegexTrait", "CallableTrait", "MetricRubricTrait", "AgenticRubricTrait")
KINDS = ("llm", "regex", "callable", "metric", "agentic", "other", 7)
NAMES = [
    "kind",
    "classes",
    "pattern",
    "case_sensitive",
    "callable_code",
    "source",
    "function",
    "pickled",
    "min_score",
    "max_score",
    "metrics",
    "tp_instructions",
    "tn_instructions",
    "evaluation_mode",
    "repeated_extraction",
    "max_turns",
    "model_override",
    "template_schema",
    "higher_is_better",
    "summary",
    "extra",
    "unread",
    "unscorable",
    "type",
    "deep_judgment_enabled",
    "dynamic_trait_type",
]
KNOWN = st.sampled_from(["boolean", "score", "literal", "template", "tp_only", "full_matrix"])
RATINGS = st.fixed_dictionaries(
    {"additionalType": st.sampled_from([f"karenina:Global{word}" for word in (*WORDS, "DynamicRubricTrait")])},
    optional={
        "description": JSON,
        "bestRating": JSON,
        "worstRating": JSON,
        "ratingExplanation": JSON,
        "additionalProperty": st.dictionaries(st.sampled_from(NAMES), JSON | KNOWN, max_size=6).map(
            lambda given: [{"@type": "PropertyValue", "name": name, "value": value} for name, value in given.items()]
        ),
    },
)


@given(st.lists(RATINGS, max_size=3))
def test_traits_with_any_values_load_and_save(ratings: list[dict[str, Any]]) -> None:
    named = [{"@type": "Rating", "name": f"t{number}", **rating} for number, rating in enumerate(ratings)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "b.jsonld"
        file.write_text(json.dumps({"@type": "DataFeed", "name": "b", "rating": named}), "utf-8")
        first = Benchmark.load(file)
        assert sorted(first.trait_names()) == [trait["name"] for trait in named]
        first.save(Path(folder) / "c.jsonld")
        assert sorted(Benchmark.load(Path(folder) / "c.jsonld").trait_names()) == [trait["name"] for trait in named]
