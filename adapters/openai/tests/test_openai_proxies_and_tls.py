"""Certificates, and proxies that the environment names."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from openai_servers import model
from wire import ASK, Caller, Wire, always, context, each, reply, served, silence, tunnel, uses_its_connections_again
from wire import either_loop as anyio_backend  # noqa: F401 - a fixture

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_openai.parser import OpenAILLM

pytestmark = pytest.mark.anyio
C = ErrorCategory
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """Return the only authority that the environment trusts."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return authority


async def ask(url: str, **fields: Any) -> str:
    port = OpenAILLM(model(url, request_timeout=60, **fields))
    try:
        return (await port.invoke(ASK)).text
    finally:
        await port.aclose()


async def fails(url: str, **fields: Any) -> PortError:
    with pytest.raises(PortError) as caught:
        await ask(url, **fields)
    return caught.value


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_authority_of_the_environment_is_trusted(host: str, trusted: trustme.CA) -> None:
    async with served(always(), tls=context(trusted, "localhost", "127.0.0.1")) as wire:
        port = OpenAILLM(model(wire.url.replace("127.0.0.1", host)))
        assert await uses_its_connections_again(port, wire)
        await port.aclose()


async def test_a_certificate_of_an_unknown_authority_is_refused_for_good(authority: trustme.CA) -> None:
    async with served(always(), tls=context(authority, "127.0.0.1")) as wire:
        error = await fails(wire.url)
    assert error.category is C.PERMANENT
    assert f"cannot connect to 127.0.0.1:{wire.port} (" in str(error)
    assert "invalid peer certificate" in str(error)
    assert wire.heads == []


async def test_a_certificate_for_another_name_is_refused_for_good(trusted: trustme.CA) -> None:
    async with served(always(), tls=context(trusted, "elsewhere.example")) as wire:
        error = await fails(wire.url)
    assert error.category is C.PERMANENT
    assert "127.0.0.1" in str(error)


@pytest.mark.parametrize("authority", [False, True])
async def test_a_server_whose_own_certificate_is_trusted_needs_no_authority(
    authority: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is self-signed; one that is also a CA certificate, as `openssl req -x509` writes it, is
    refused.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown, secret = tmp_path / "shown.pem", tmp_path / "secret.pem"
    shown.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, plain))
    monkeypatch.setenv("SSL_CERT_FILE", str(shown))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(shown, secret)
    async with served(always(), tls=tls) as wire:
        url = wire.url.replace("127.0.0.1", "localhost")
        if authority:
            assert "create the certificate with CA:FALSE" in str(await fails(url))
        else:
            assert await ask(url) == "Paris."


async def test_a_server_without_tls_cannot_be_asked_over_it() -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.reader.read(1)
        await caller.says(reply(b"", status="400 Bad Request"))

    async with served(script) as wire:
        assert (await fails(wire.url.replace("http:", "https:"))).category is C.PERMANENT


async def test_a_cancelled_call_frees_its_connection_under_tls_too(trusted: trustme.CA) -> None:
    async with served(
        silence(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), tls=context(trusted, "127.0.0.1")
    ) as wire:
        call = asyncio.create_task(ask(wire.url))
        await wire.asked.wait()
        await asyncio.sleep(1)  # the reply has arrived
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(wire.callers[0].gone.wait(), 60)


CREDENTIALS = f"Proxy-Authorization: Basic {base64.b64encode(b'me:p@ss').decode()}"


async def test_a_proxy_gets_the_full_url(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(always()) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        assert await ask("http://model.example:8080/v1", extra={"query": {"a": "b"}}) == "Paris."
    head = proxy.heads[0]
    assert head[0] == "POST http://model.example:8080/v1/chat/completions?a=b HTTP/1.1"
    assert {"Host: model.example:8080", CREDENTIALS} <= set(head)


@pytest.mark.parametrize("secure_proxy", [False, True])
async def test_a_proxy_tunnels_tls_without_seeing_the_content(
    secure_proxy: bool, trusted: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = context(trusted, "127.0.0.1") if secure_proxy else None
    async with (
        served(always(), tls=context(trusted, "model.example")) as wire,
        served(tunnel(wire.port), tls=own) as proxy,
    ):
        scheme = "https" if secure_proxy else "http"
        monkeypatch.setenv("https_proxy", f"{scheme}://me:p%40ss@127.0.0.1:{proxy.port}")
        port = OpenAILLM(model("https://model.example/v1", endpoint_api_key="sk-mine", request_timeout=60))
        assert await uses_its_connections_again(port, proxy)
        await port.aclose()
    asked = proxy.heads[0]
    assert asked[0] == "CONNECT model.example:443 HTTP/1.1"
    assert {"host: model.example:443", CREDENTIALS.lower()} <= {line.lower() for line in asked}
    assert not [line for line in asked if "sk-mine" in line]
    assert {head[0] for head in wire.heads} == {"POST /v1/chat/completions HTTP/1.1"}
    assert CREDENTIALS not in wire.heads[0]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply(b"", status="407 Who are you"), "proxy authorization required"),
        (b"", ""),
        (b"HTTP/1.1 200 OK\r\n\r\nno TLS at all, but some text of a kind", ""),
    ],
)
async def test_an_unreachable_proxy_is_named_without_its_password(
    answer: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(each(answer)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        error = await fails("https://model.example/v1")
    assert why in str(error)
    assert "model.example:443" in str(error)
    assert not [secret for secret in ("p%40ss", "p@ss") if secret in f"{error} {error!r}"]


async def test_a_proxy_of_another_kind_is_refused_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    error = await fails("http://model.example/v1")
    assert error.category is C.PERMANENT
    assert "socks5://" in str(error)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_this_machine_is_reached_without_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with served(always()) as wire:
        assert await ask(wire.url.replace("127.0.0.1", host)) == "Paris."


async def test_hosts_that_need_no_proxy_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "nowhere.invalid")
    assert "could not connect to nowhere.invalid:80" in str(await fails("http://nowhere.invalid/v1"))
