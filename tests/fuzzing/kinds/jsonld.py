"""Benchmarks as JSON-LD checkpoints: our own, and as the reference project writes them."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

from fuzzing.benchmarks import READABLE, TRAITS, read_operations
from fuzzing.engine import Kind
from fuzzing.mutation import documents, dump_json, dump_yaml, parse_tree
from karenina import Benchmark


def _save_checkpoints() -> list[Any]:
    """Return the benchmarks in YAML as checkpoints."""
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "rows.csv").write_text("text,gold,page\nWhich gene?,BCL2,3\n", "utf-8")
        for one in READABLE:
            file = Path(name) / "one.yaml"
            file.write_text(dump_yaml(parse_tree(one)), "utf-8")
            Benchmark.load(file).save(file.with_suffix(".jsonld"))
            found.append(json.loads(file.with_suffix(".jsonld").read_text("utf-8")))
    return found


REFERENCE: Final[dict[str, Any]] = {
    "@context": {"@vocab": "http://schema.org/"},
    "@type": "DataFeed",
    "name": "Reference",
    "creator": {"@type": "Person", "name": "somebody"},
    "additionalProperty": [{"@type": "PropertyValue", "name": "benchmark_format_version", "value": "3.0.0"}],
    "globalRubric": {"llm_traits": TRAITS[:1], "regex_traits": TRAITS[2:3]},
    "rating": [
        {
            "@type": "Rating",
            "name": "brief",
            "bestRating": 5,
            "worstRating": 1,
            "additionalType": "karenina:GlobalRubricTrait",
            "additionalProperty": [{"@type": "PropertyValue", "name": "kind", "value": "score"}],
        },
        {
            "@type": "Rating",
            "name": "call",
            "additionalType": "karenina:GlobalCallableTrait",
            "additionalProperty": [{"@type": "PropertyValue", "name": "callable_code", "value": "gASVIAAAAAAAAACM"}],
        },
    ],
    "dataFeedElement": [
        {
            "@type": "DataFeedItem",
            "@id": "urn:uuid:question-1",
            "dateCreated": "2024-01-01T00:00:00Z",
            "keywords": ["a"],
            "item": {
                "@type": "Question",
                "text": "Which gene?",
                "acceptedAnswer": {"@type": "Answer", "text": "BCL2"},
                "hasPart": {
                    "@type": "SoftwareSourceCode",
                    "name": "t",
                    "text": "class Answer(BaseAnswer):\n    gene: str = Field(description='x')\n",
                    "programmingLanguage": "Python",
                },
                "rating": [
                    {
                        "@type": "Rating",
                        "name": "r",
                        "additionalType": "QuestionSpecificRubricTrait",
                        "description": "It is.",
                    }
                ],
                "additionalProperty": [
                    {"@type": "PropertyValue", "name": "finished", "value": True},
                    {
                        "@type": "PropertyValue",
                        "name": "few_shot_examples",
                        "value": '[{"question": "a", "answer": "b"}]',
                    },
                    {"@type": "PropertyValue", "name": "sources", "value": '["x"]'},
                    {"@type": "PropertyValue", "name": "custom_page", "value": 3},
                ],
            },
        }
    ],
}
_NO_LANGUAGE: Final = json.dumps(
    {
        "name": "x",
        "dataFeedElement": [{"item": {"text": "Which?", "hasPart": {"text": "x", "programmingLanguage": None}}}],
    }
).encode()
_SEEDS = [*_save_checkpoints(), REFERENCE]
KIND: Final = Kind(
    "jsonld",
    documents(_SEEDS, dump_json),
    partial(read_operations, ending=".jsonld"),
    valid=[dump_json(parse_tree(one)).encode() for one in _SEEDS],
    regressions=[
        b"{" + b", ".join(b'"k%d": 1' % number for number in range(80_000)) + b', "k79999": 2}',
        b'{"name": "x", "@context": null}',
        _NO_LANGUAGE,
    ],
    servers=True,
    seconds=4.0,
)
