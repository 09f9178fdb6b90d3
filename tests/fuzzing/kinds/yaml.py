"""Benchmarks as YAML."""

from __future__ import annotations

from functools import partial
from typing import Final

from fuzzing.benchmarks import READABLE, read_operations
from fuzzing.engine import Kind
from fuzzing.mutation import documents, dump_yaml, parse_tree

WRITTEN: Final = b"""# as people write it
karenina: 1
name: Genes & more
config: &config
  replicate_count: 2
  answering_models: [{id: a, interface: manual, model_name: x}]
metadata: {again: *config, norway: NO, time: 12:30, octal: 010, float: 1.5e3, none: ~, date: 2024-02-29}
questions:
  - question: >-
      Which gene
      is it?
    raw_answer: 'BCL2'
    answer:
      gene: {description: "The gene \\u00e9", ground_truth: BCL2}
      year: {<<: {description: The year}, ground_truth: 2016, verify_with: NumericExact}
  - {question: Is it so, answer: {so: {description: It is so, ground_truth: true}}}
  - question: By source?
    template: |
      class Answer(BaseAnswer):
          gene: str = VerifiedField(description="d", ground_truth="x", verify_with=ExactMatch())
"""
KIND: Final = Kind(
    "yaml",
    documents(READABLE, dump_yaml, texts=[WRITTEN]),
    partial(read_operations, ending=".yaml"),
    valid=[WRITTEN, *(dump_yaml(parse_tree(one)).encode() for one in READABLE)],
    servers=True,
    seconds=4.0,
)
