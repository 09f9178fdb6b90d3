"""Runs whose models use real MCP servers: over stdio those of the package index, and one over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import preloaded
import pytest
from mcp_parts import Body, ServerProcesses, ToolCaller, benchmark, call, configuration
from servers import recording_server

from karenina import Outcome, VerificationConfig, VerificationResultSet
from karenina_benchmark.config.config_files import read_config
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.run.prepare import prepare_session
from karenina_engine.run.request import RunRequest
from karenina_engine.run.session import RunSession
from karenina_mcp.settings import read_servers

PAGE = Path(__file__).parents[1] / "docs/how-to/tools-and-agents.md"
TALKING = Path(__file__).parents[1] / "plugins/mcp/tests/talking_server.py"
TIME = "mcp-server-time --local-timezone UTC"
NOON = {"source_timezone": "UTC", "time": "12:00"}
TOKYO = ToolCaller(
    [
        call("convert_time", **NOON, target_timezone="Asia/Tokio"),
        call("convert_time", **NOON, target_timezone="Asia/Tokyo"),
    ],
    r"T(\d\d:\d\d):00\+09:00",
)


@pytest.fixture
def started(tmp_path: Path) -> ServerProcesses:
    return ServerProcesses(tmp_path)


@pytest.mark.parametrize("interface", ["openai", "openai_endpoint"])
def test_one_server_process_serves_the_run(interface: str, started: ServerProcesses) -> None:
    async def finished(config: VerificationConfig) -> VerificationResultSet:
        found = await benchmark("21:00", "q1", "q2").arun_verification(config)
        assert len(started.processes) == 1
        assert started.unending == []
        return found

    with recording_server(TOKYO) as server:
        models = configuration(server.url, interface, mcp_urls_dict={"time": started.noting(TIME)})
        results = asyncio.run(finished(VerificationConfig(**models, replicate_count=2)))
    assert [result.outcome for result in results] == [Outcome.CORRECT] * 4
    assert results[0].template.agent_metrics == {
        "iterations": 3,
        "tool_calls": 2,
        "tools_used": ["convert_time"],
        "tool_call_counts": {"convert_time": 2},
        "suspect_failed_tool_calls": 1,
        "suspect_failed_tools": ["convert_time"],
    }
    failed, brought = (one for one in results[0].template.trace_messages or [] if one["role"] == "tool")
    assert failed["is_error"]
    assert "Asia/Tokio" in failed["content"]
    assert "21:00:00+09:00" in brought["content"]
    assert results[0].template.answering_mcp_servers == ["time"]


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.example"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_each_workspace_has_its_own_server(tmp_path: Path, started: ServerProcesses) -> None:
    repository = tmp_path / "root" / "repo"
    repository.mkdir(parents=True)
    git(repository, "init", "-q")
    (repository / "gene.txt").write_text("unknown\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "The gene is BCL2")
    caller = ToolCaller([call("git_log", repo_path=".")], r"The gene is (\w+)")
    servers = {"mcp_urls_dict": {"git": started.noting("mcp-server-git")}, "mcp_tool_filter": ["git_log"]}
    questions = benchmark("BCL2", workspace_path="repo")
    questions.workspace_root = repository.parent
    at_once: list[int] = []

    def noting(body: Body) -> str | Body:
        at_once.append(len(started.left))
        return caller(body)

    with recording_server(noting) as server:
        models = configuration(server.url, **servers)
        models["parsing_models"][0] |= servers
        (result,) = questions.run_verification(VerificationConfig(**models, agentic_parsing=True))
    assert result.outcome is Outcome.CORRECT, result.metadata.error
    assert "The gene is BCL2" in (result.template.investigation_trace or "")
    offered = {one["function"]["name"] for body in map(asked, server.seen) for one in body.get("tools", ())}
    assert offered == {"read_file", "list_files", "search_files", "write_file", "git_log"}
    assert len(started.processes) == 2  # of the answer's copy, and of the judge's
    assert max(at_once) == 1  # the session of the answer ends before the judge's begins
    assert started.unending == []
    assert [path.name for path in repository.parent.iterdir()] == ["repo"]


def asked(seen: str) -> Body:
    body: Body = json.loads(seen.rpartition("\n")[2])
    return body


@contextmanager
def genes_over_http(key: str) -> Iterator[str]:
    """Provide the URL of a server that wants a key, made with the MCP library."""
    from mcp.server.mcpserver import MCPServer
    from served_apps import served
    from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response

    genes = MCPServer("genes")

    @genes.tool()
    def target(drug: str) -> dict[str, str]:
        """Return the target of a drug."""
        return {"drug": drug, "gene": "BCL2"}

    async def guard(request: Request, go_on: RequestResponseEndpoint) -> Response:
        known = request.headers.get("authorization") == f"Bearer {key}"
        return await go_on(request) if known else PlainTextResponse("who are you?", 401)

    app = genes.streamable_http_app()
    app.add_middleware(BaseHTTPMiddleware, dispatch=guard)
    with served(app) as url:
        yield f"{url}/mcp"


def test_streamable_http_uses_a_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENES_TOKEN", "s3cret-word")
    caller = ToolCaller([call("genes_target", drug="venetoclax")], r'"gene": ?"(\w+)"')
    options = {"headers": {"Authorization": "Bearer ${GENES_TOKEN}"}, "prefix": "genes_"}
    with genes_over_http("s3cret-word") as url, recording_server(caller) as server:
        models = configuration(server.url, mcp_urls_dict={"genes": url}, mcp_server_options={"genes": options})
        (result,) = benchmark("BCL2").run_verification(VerificationConfig(**models))
    assert result.outcome is Outcome.CORRECT
    assert "s3cret-word" not in result.model_dump_json()
    assert not [seen for seen in server.seen if "s3cret-word" in seen]


def test_a_run_that_is_cancelled_leaves_no_server(started: ServerProcesses) -> None:
    async def cancelled(run: RunSession) -> None:
        async def consume() -> None:
            async with aclosing(run.results()) as results:
                async for _ in results:
                    pass

        task = asyncio.create_task(consume())
        await asyncio.to_thread(started.wait)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert started.unending == []

    with recording_server(TOKYO) as server:
        models = configuration(server.url, mcp_urls_dict={"time": started.noting(TIME)})
        asyncio.run(cancelled(prepare_session(RunRequest(benchmark("21:00"), VerificationConfig(**models)))))
    assert len(started.processes) == 1


def test_a_command_that_is_interrupted_leaves_no_server(tmp_path: Path, started: ServerProcesses) -> None:
    asked, over = threading.Event(), threading.Event()

    def slow(body: Body) -> str | Body:
        asked.set()
        over.wait(200)
        return TOKYO(body)

    benchmark("21:00").save(tmp_path / "questions.jsonld")
    with recording_server(slow) as server:
        stubborn = started.noting(f"sh -c '{TIME}; sleep 600'")
        models = configuration(server.url, mcp_urls_dict={"time": stubborn})
        (tmp_path / "config.json").write_text(json.dumps(models))
        command = ["run", "questions.jsonld", "--config", "config.json"]
        with (tmp_path / "problems").open("wb") as errors:
            process = preloaded.start(command, folder=tmp_path, environment=os.environ, errors=errors)
        assert asked.wait(120)
        os.kill(process.pid, signal.SIGINT)
        code = process.wait(120)
        over.set()
    said = (tmp_path / "problems").read_text("utf-8")
    assert code != 0, said
    assert len(started.processes) == 1, said
    assert started.unending == []


def test_a_server_that_does_not_start_fails_its_items(started: ServerProcesses) -> None:
    """A server that does not start is started again for the next item."""
    with recording_server(TOKYO) as server:
        lost = started.noting("sh -c 'echo no map >&2; exit 1'")
        models = configuration(server.url, mcp_urls_dict={"hills": lost})
        run = prepare_session(
            RunRequest(benchmark("21:00"), VerificationConfig(**models), policy=RetryPolicy(base=0.0))
        )

        async def only() -> object:
            async with aclosing(run.results()) as results:
                return [result async for result in results]

        (result,) = asyncio.run(only())
    assert result.outcome is Outcome.MODEL_ERROR
    assert "the MCP server 'hills' (" in result.metadata.error
    assert "the server wrote: no map" in result.metadata.error
    assert len(started.processes) == 3
    assert server.seen == []


def test_a_server_that_ends_in_a_call_fails_one_item(started: ServerProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of all items are under way together, and the one of the first item ends each server."""
    monkeypatch.setenv("HILLS_LAST_SECONDS", "0.5")
    ids = [f"q{number}" for number in range(8)]
    waiting: list[Body] = []
    all_came = asyncio.Event()

    async def reply(body: Body) -> str | Body:
        if "tools" not in body or body["messages"][-1]["role"] == "tool":
            return ToolCaller([], r"(echo of \d)")(body)
        waiting.append(body)
        if len(waiting) == len(ids):
            all_came.set()
        await all_came.wait()
        return call("die" if "q0" in body["messages"][-1]["content"] else "echo", n=1)

    talking = shlex.join([sys.executable, str(TALKING), "echo", "die"])
    options = {"hills": {"environment": ["HILLS_LAST_SECONDS"]}}
    with recording_server(reply) as server:
        models = configuration(server.url, mcp_urls_dict={"hills": started.noting(talking)}, mcp_server_options=options)
        results = benchmark("echo of 1", *ids).run_verification(VerificationConfig(**models))
    assert [result.outcome for result in results] == [Outcome.MODEL_ERROR, *[Outcome.CORRECT] * 7]
    assert "the tool 'die' failed twice: the MCP server 'hills'" in results[0].metadata.error
    assert results[0].template.trace_messages[-1]["tool_calls"][0]["name"] == "die"
    assert not [one for result in results[1:] for one in result.template.trace_messages if one.get("is_error")]
    assert started.unending == []


@pytest.mark.parametrize("interface", ["openai", "openai_endpoint"])
@pytest.mark.parametrize(
    ("last", "outcome"), [(["", ""], Outcome.AUTO_FAILED), (["", "My tools say: echo of 1."], Outcome.CORRECT)]
)
def test_stage_4_decides_on_an_empty_turn_after_results(
    interface: str, last: list[str], outcome: Outcome, started: ServerProcesses
) -> None:
    turns, left = list[Body](), [call("echo", n=1), *last]

    def reply(body: Body) -> str | Body:
        if "tools" not in body:
            return ToolCaller([], "never")(body)
        turns.append(body)
        return left.pop(0)

    talking = shlex.join([sys.executable, str(TALKING), "echo"])
    with recording_server(reply) as server:
        models = configuration(server.url, interface, mcp_urls_dict={"hills": started.noting(talking)})
        (result,) = benchmark("echo of 1").run_verification(VerificationConfig(**models))
        judged = len(server.seen) - len(turns)
    assert [turn["messages"][-1]["role"] for turn in turns] == ["user", "tool", "tool"], "it was asked once more"
    assert result.outcome is outcome
    trace = [(one["role"], one["content"]) for one in result.template.trace_messages or []]
    assert trace == [("assistant", ""), ("tool", "echo of 1"), ("assistant", last[-1])]
    assert (result.template.usage_metadata or {})["answer_generation"]["calls"] == 3
    assert judged == (outcome is Outcome.CORRECT)
    if outcome is Outcome.AUTO_FAILED:
        (veto,) = result.vetoes
        assert (veto.stage, veto.reason.partition(":")[0]) == (
            "TraceValidationAutoFail",
            "the trace does not end in an answer",
        )


def test_the_example_of_the_docs_is_well_formed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[\[answering_models.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "config.toml"
    file.write_text(example)
    (model,) = read_config(file).core.answering_models
    monkeypatch.setenv("GENES_TOKEN", "s3cret-word")
    assert [one.name for one in read_servers(model)] == ["time", "genes"]


def test_the_source_is_listed_among_the_plugins(tmp_path: Path) -> None:
    listed = preloaded.run(["plugins", "--json"], folder=tmp_path, environment=os.environ, timeout=120)
    (found,) = [one for one in json.loads(listed.stdout)["plugins"] if one["distribution"] == "karenina-mcp"]
    assert (found["name"], found["state"]) == ("mcp", "loaded")
