"""The errors of servers at the wrong address: one request for each item, and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_testing.server import Reply, ScriptedServer

if TYPE_CHECKING:
    from conftest import Environment

PAGE = "<!DOCTYPE html><html><head><title>Open WebUI</title></head><body>Welcome</body></html>"
INTERFACES = ["openai", "openai_endpoint", "claude_tool", "claude_agent_sdk"]


@pytest.fixture
def page() -> Iterator[ScriptedServer]:
    """Provide a server that shows a web page to every request."""
    reply = Reply(PAGE, headers={"Content-Type": "text/html"})
    with ScriptedServer(reply, is_call=lambda _: True) as server:
        yield server


def run(interface: str, url: str, **fields: Any) -> VerificationResult:
    pytest.importorskip(f"karenina_{interface.replace('openai_endpoint', 'langchain')}")
    benchmark = Benchmark.create("Genes")
    benchmark.add_question("Which gene?", "BCL2")
    model = {"interface": interface, "model_name": "m", "endpoint_base_url": url, "endpoint_api_key": "none", **fields}
    config = VerificationConfig(
        answering_models=[{"id": "a", **model}], evaluation_mode="rubric_only", retry_connection=0
    )
    (result,) = benchmark.run_verification(config)
    assert result.outcome is Outcome.MODEL_ERROR
    return result


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_web_page_is_requested_once_and_quoted(page: ScriptedServer, interface: str) -> None:
    error = run(interface, f"{page.url}/ui").metadata.error or ""
    assert "sent a web page instead of JSON (Open WebUI Welcome); check" in error
    assert len([one for one in page.requests if one.method == "POST"]) == 1


def test_a_streamed_web_page_is_quoted_too(page: ScriptedServer) -> None:
    assert "sent a web page instead of JSON" in str(run("openai", page.url, extra={"stream": True}).metadata.error)


def test_an_address_without_a_path_is_completed(page: ScriptedServer) -> None:
    assert f"endpoint_base_url has no path; did you mean {page.url}/v1?" in str(run("openai", page.url).metadata.error)


@pytest.mark.parametrize("interface", INTERFACES)
def test_https_to_an_http_port_is_told_to_be_http(page: ScriptedServer, interface: str) -> None:
    error = run(interface, page.url.replace("http:", "https:")).metadata.error or ""
    assert "the server does not use TLS on this port; write http:// instead of https://" in error


def test_equal_failures_are_printed_once_with_their_number(page: ScriptedServer, site: Environment) -> None:
    questions = "\n".join(
        f"  - {{question: 'Which gene {number}?', answer: {{gene: {{description: Gene, ground_truth: BCL2}}}}}}"
        for number in range(3)
    )
    file = site.write("genes.yaml", f"karenina: 1\nname: Genes\nquestions:\n{questions}\n")
    model = f"openai:m@{page.url}/v1"
    done = site.karenina("run", file, "-a", model, "-j", model)
    assert done.stdout.count("sent a web page") == 2, done.stdout  # of the first item, and in the summary
    assert (
        "Items 2-3 failed like item 1, for the same reason; `karenina show genes.results.jsonl -q '#2'`" in done.stdout
    )
    assert "3 x GenerateAnswer: openai:m at " in done.stdout
