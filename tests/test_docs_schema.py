"""The benchmarks on the pages of the documentation are valid by the schema with which editors check them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_runs import run_karenina

from karenina_benchmark.yaml_files import read
from karenina_core.plugins import Plugins

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    f"{page.name} {number}": text
    for page in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
    for number, text in enumerate(
        re.findall(r"^```yaml[^\n]*\n((?:(?!^```).)*?^karenina: 1\n.*?)^```", page.read_text("utf-8"), re.S | re.M)
    )
    if "ExactMach" not in text  # the example of the page on `karenina check` has mistakes
    if not page.name.startswith("add-a-")  # the examples of these use what the page adds
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    benchmark_schema: dict[str, Any] = run_karenina("config", "--schema", "benchmark", plugins=Plugins.discover()).json
    return benchmark_schema


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_documentation_are_valid(schema: dict[str, Any], example: str) -> None:
    value = read(EXAMPLES[example], Path("genes.yaml")).value
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)] == []
