"""The plugins of `examples`, installed from their own wheels: their tests, and runs that use them together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES, Environment, Wheels
from servers import recording_server

from karenina_testing.server import Reply

PLUGINS = sorted(folder.name for folder in (EXAMPLES / "plugins").iterdir() if folder.is_dir())
TESTED_ELSEWHERE = "own-server"
"""Its contract takes the longest, and `test_contract_kit` runs it."""

GENES = """
karenina: 1
name: Genes
config: {evaluation_mode: template_and_rubric}
rubric:
  - {type: reading_ease.flesch, name: easy}
questions:
  - id: target
    question: Which gene is the target of venetoclax?
    answer:
      gene: {description: The gene that is named, ground_truth: BCL2, verify_with: gene_symbol.GeneSymbol}
      words: {from: word_count.words, ground_truth: 5}
"""
GIFT = "::target:: Which gene is the target of venetoclax? {=BCL2}\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels) -> Environment:
    """Return an environment with all examples."""
    site = Environment(tmp_path_factory.mktemp("examples"))
    site.install(*map(wheels.example, PLUGINS))
    return site


@pytest.fixture
def server() -> Iterator[str]:
    """Provide the address of a server with the interface of the example `own-server`; it says that it is Bcl-2."""

    def reply(body: dict[str, Any]) -> Reply:
        text = "It is the gene Bcl-2."
        if "category" in str(body["messages"]):
            text = json.dumps({"reasoning": "It names a gene.", "category": "none"})
        elif len(body["messages"]) > 1:
            text = json.dumps({"gene": "Bcl-2"})
        message = {"role": "assistant", "content": text}
        return Reply({"message": message, "input_tokens": 3, "output_tokens": 2})

    with recording_server(reply) as running:
        yield running.url


def test_each_example_passes_its_own_tests(installed: Environment) -> None:
    tests = [EXAMPLES / "plugins" / name / "tests" for name in PLUGINS if name != TESTED_ELSEWHERE]

    options = ["-p", "hypothesispytest", "--rootdir", installed.folder]  # the configuration of this repository needs it
    done = installed.pytest(*options, *tests)

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_example_is_loaded(installed: Environment) -> None:
    listed = installed.printed("plugins")["plugins"]

    states = {one["distribution"]: one["state"] for one in listed if one["distribution"] in PLUGINS}
    assert states == dict.fromkeys(PLUGINS, "loaded")


def test_one_run_uses_the_examples_together(installed: Environment, server: str, tmp_path: Path) -> None:
    file = installed.write("genes.yaml", GENES.lstrip())
    models = ("--answering", f"own_server.chat:m@{server}", "--judge", f"own_server.chat:j@{server}")

    (result,) = installed.printed("run", file, *models, "--set", "toxicity_check.enabled=true")["results"]

    assert (result["outcome"], result["template"]["raw_llm_response"]) == ("correct", "It is the gene Bcl-2.")
    assert result["extensions"]["word-count"] == {"words": 5}
    assert result["template"]["known_values"]["word_count.words"]["value"] == 5
    assert result["extensions"]["toxicity-check"]["toxicity_category"] == "none"
    assert result["rubric"]["other_trait_scores"]["reading_ease_trait_scores"]["easy"] > 90


def test_the_last_word_fills_a_gift_question(installed: Environment, server: str) -> None:
    file = installed.write("genes.gift", GIFT)
    config = installed.write("last.toml", 'slots = { parse_template = "LastWordParse" }\n')

    (result,) = installed.printed("run", file, "--config", config, "--answering", f"own_server.chat:m@{server}")[
        "results"
    ]

    assert (result["outcome"], result["template"]["parsed_llm_response"]) == ("wrong", {"answer": "Bcl-2"})
