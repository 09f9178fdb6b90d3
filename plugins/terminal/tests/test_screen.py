"""Commands of messages: what installs a distribution from where Karenina was installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karenina_terminal.screen import name_checkout


def install(site: Path, name: str, origin: str | None) -> None:
    """Add a distribution to a folder of packages, with the address that it was installed from."""
    info = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": origin, "dir_info": {}}))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of packages that comes before those of this environment."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "site"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "a checkout"
    for folder in ("karenina_core", "plugins/absent", "adapters/absent_tool", "."):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "pyproject.toml").write_text("")
    return root


@pytest.mark.parametrize(
    ("command", "from_a_checkout"),
    [
        ("pip install 'karenina[ray]'", "pip install './a checkout[ray]'"),
        ("pip install karenina, or unblock it", "pip install './a checkout', or unblock it"),
        ('pip install "karenina-absent[zstd]"', "pip install './a checkout/plugins/absent[zstd]'"),
        ("pip install karenina-absent-tool", "pip install './a checkout/adapters/absent_tool'"),
        ("pip install karenina-of-another", "pip install karenina-of-another"),
        ("pip install karenina-absent==0.1.0", "pip install karenina-absent==0.1.0"),
        ("pip install 'anthropic>=2.11,<3'", "pip install 'anthropic>=2.11,<3'"),
    ],
)
def test_cures_name_the_checkout_that_was_installed(
    site: Path, checkout: Path, command: str, from_a_checkout: str
) -> None:
    install(site, "karenina-core", (checkout / "karenina_core").as_uri())
    assert name_checkout(f"it is not installed: {command}") == f"it is not installed: {from_a_checkout}"


def test_in_the_checkout_the_cure_is_a_dot(site: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "karenina-core", (checkout / "karenina_core").as_uri())
    monkeypatch.chdir(checkout)
    assert name_checkout("pip install 'karenina[ray]'") == "pip install '.[ray]'"


@pytest.mark.parametrize("origin", [None, "https://example.org/karenina_core.whl", "file:///gone/karenina_core"])
def test_installed_from_an_index_the_cure_names_it(site: Path, origin: str | None) -> None:
    install(site, "karenina-core", origin)
    assert name_checkout("pip install 'karenina[ray]'") == "pip install 'karenina[ray]'"
