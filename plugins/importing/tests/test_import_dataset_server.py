"""`karenina import hf:NAME`, with a dataset server on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from command_runs import CommandResult
from imports import import_file

from karenina_benchmark import Benchmark

ROWS = [{"question": f"{number} + 1?", "answer": str(number + 1)} for number in range(250)]
SPLITS = [("main", "test"), ("main", "train"), ("hard", "test")]


class _Handler(BaseHTTPRequestHandler):
    """The endpoints `/splits` and `/rows` of a dataset with `ROWS`; a dataset called `moved` is redirected."""

    asked: list[tuple[str, str | None]]
    total = len(ROWS)
    sends = 0
    """The number of rows of a reply; by default as many as were requested."""

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if query["dataset"] == "o/moved":
            self._reply(302, {}, location="http://127.0.0.1:9/")
        elif query["dataset"] != "o/sums":
            self._reply(404, {"error": "The dataset does not exist."})
        elif url.path == "/splits":
            self._reply(
                200, {"splits": [{"dataset": "o/sums", "config": config, "split": split} for config, split in SPLITS]}
            )
        else:
            first = int(query["offset"])
            rows = [
                {"row_idx": first + number, "row": row, "truncated_cells": []}
                for number, row in enumerate(ROWS[first : first + (self.sends or int(query["length"]))])
            ]
            self._reply(200, {"features": [], "rows": rows, "num_rows_total": self.total})

    def _reply(self, code: int, value: Any, location: str = "") -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def handler() -> type[_Handler]:
    return type("Handler", (_Handler,), {"asked": []})


@pytest.fixture
def address(handler: type[_Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "secret")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def import_sums(address: str, *arguments: str, name: str = "o/sums") -> CommandResult:
    return import_file(f"hf:{name}", "--server", address, *arguments)


def test_a_split_is_read_in_pages(address: str, handler: type[_Handler]) -> None:
    done = import_sums(address, "--subset", "main", "--split", "test", "--map", "answer=integer")

    assert done.code == 0, done.err
    assert "250 questions from 250 rows of a table, or a Hugging Face dataset" in done.out
    assert len(handler.asked) == 4
    benchmark = Benchmark.load("out.yaml")
    assert benchmark.name == "sums"
    assert [question.raw_answer for question in benchmark][-1] == "250"


def test_a_limit_bounds_the_requests(address: str, handler: type[_Handler]) -> None:
    handler.total = 1_000_000
    split = ("--subset", "hard", "--split", "test")

    too_many = import_sums(address, *split)
    done = import_sums(address, *split, "--limit", "120")

    assert too_many.code == 2
    assert "has 1,000,000 rows, more than 10,000; set --limit" in too_many.err
    assert "120 questions" in done.out
    assert [path.rpartition("&")[2] for path, _ in handler.asked[-2:]] == ["length=100", "length=20"]
    handler.sends = 250
    assert "120 questions" in import_sums(address, *split, "--limit", "120").out


def test_a_dataset_with_several_splits_lists_them(address: str) -> None:
    done = import_sums(address, "--split", "test")

    assert done.code == 2
    assert (
        "has more than one matching split. Choose one with --subset and --split; the splits are main/test, hard/test"
        in done.err
    )


def test_an_unknown_dataset_is_an_error_with_a_cure(address: str) -> None:
    done = import_sums(address, name="o/none")

    assert done.code == 2
    assert "returned status 404 for hf:o/none: The dataset does not exist.; check the name" in done.err


def test_a_proxy_for_all_schemes_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")

    assert "cannot reach https://hub.invalid: [Errno 111]" in import_sums("https://hub.invalid").err


def test_redirections_are_not_followed(address: str) -> None:
    done = import_sums(address, name="o/moved")

    assert done.code == 2
    assert "returned status 302" in done.err


def test_the_token_is_not_sent_to_another_server(address: str, handler: type[_Handler]) -> None:
    import_sums(address, "--subset", "main", "--split", "test", "--limit", "1")

    assert {token for _, token in handler.asked} == {None}


def test_a_server_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = import_sums("http://127.0.0.1:9")
    plain = import_sums("http://example.org")

    assert (done.code, plain.code) == (2, 2)
    assert "cannot reach http://127.0.0.1:9: " in done.err
    assert "import its file (parquet, JSONL or CSV)" in done.err
    assert "must be an https:// URL" in plain.err


@pytest.mark.parametrize("option", ["--subset", "--split", "--server"])
def test_options_of_datasets_are_refused_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sums.csv").write_text("question,answer\nWhat is 2 + 2?,4\n", "utf-8")
    done = import_file("sums.csv", option, "http://localhost:1")

    assert done.code == 2
    assert "apply only to hf:NAME, not to files; remove these options" in done.err
    assert not Path("out.yaml").exists()
