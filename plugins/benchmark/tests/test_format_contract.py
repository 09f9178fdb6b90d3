"""The contract of file formats, checked for the built-in ones."""

from __future__ import annotations

import pytest

from karenina_benchmark.formats.format_registry import FORMATS
from karenina_testing.contracts import FormatContract

pytestmark = pytest.mark.alone

BY_SUFFIX = {suffix: format for format in FORMATS for suffix in format.suffixes}
ANSWER = '"answer": {"gene": {"description": "The gene", "ground_truth": "BCL2"}}'


class Builtin:
    entry_point = "karenina_benchmark.plugin:plugin"
    questions = {"bcl2": "Which gene?", "q2-what-is-it": "What is it?"}


class TestYaml(Builtin, FormatContract):
    format = BY_SUFFIX[".yaml"]
    sample = f"""karenina: 1
name: Genes
questions:
  - {{id: bcl2, question: "Which gene?", {ANSWER}}}
  - question: What is it?
"""
    broken = ((sample + "  - text: Where?\n", "line 6"), ("karenina: 1\nname: [", "line 2"))


class TestJsonLines(Builtin, FormatContract):
    format = BY_SUFFIX[".jsonl"]
    sample = f"""{{"karenina": 1, "name": "Genes"}}
{{"id": "bcl2", "question": "Which gene?", {ANSWER}}}
{{"question": "What is it?"}}
"""
    broken = ((sample + '{"text": "Where?"}\n', "line 4"), (sample + "[]\n", "line 4"))


class TestCsv(Builtin, FormatContract):
    format = BY_SUFFIX[".csv"]
    sample = "id,question,answer\nbcl2,Which gene?,BCL2\nq2-what-is-it,What is it?,\n"
    broken = (("id,answer\nbcl2,BCL2\n", ""),)
    writes = False
