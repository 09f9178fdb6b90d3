"""Commands in messages: what installs a distribution from where it was installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karenina_core.catalog import install_command

FOLDER: dict[str, object] = {"dir_info": {}}
EDITABLE: dict[str, object] = {"dir_info": {"editable": True}}
ARCHIVE: dict[str, object] = {"archive_info": {}}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of packages that comes before those of this environment."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the core and two members."""
    root = tmp_path / "a checkout"
    for folder in ("karenina_core", "plugins/otel", "adapters/langchain", "."):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "pyproject.toml").write_text("")
    return root


def install(site: Path, name: str, origin: str | None = None, how: dict[str, object] = FOLDER) -> None:
    """Add a distribution to a folder of packages, with the address that it was installed from."""
    info = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": origin, **how}))


@pytest.mark.parametrize(("how", "option"), [(FOLDER, ""), (EDITABLE, "-e ")])
@pytest.mark.parametrize(
    ("name", "folder", "extra"),
    [
        ("karenina-otel", "plugins/otel", "otlp"),
        ("karenina-langchain", "adapters/langchain", "openai"),
        ("mine", "", "x"),
    ],
)
def test_an_extra_is_installed_from_the_folder_of_its_distribution(
    site: Path, checkout: Path, name: str, folder: str, extra: str, how: dict[str, object], option: str
) -> None:
    install(site, name, (checkout / folder).as_uri(), how)
    assert install_command(f"{name}[{extra}]") == f"pip install {option}'{checkout / folder}[{extra}]'"


@pytest.mark.parametrize("working", [".", "a checkout", "a checkout/plugins"])
def test_the_working_directory_does_not_matter(
    site: Path, checkout: Path, working: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "karenina", checkout.as_uri())
    monkeypatch.chdir(checkout.parent / working)
    assert install_command("karenina-ray") == f"pip install '{checkout}[ray]'"
    assert install_command("karenina-rubric") == f"pip install '{checkout}'"


@pytest.mark.parametrize(("how", "option"), [(FOLDER, ""), (EDITABLE, "-e ")])
def test_members_without_karenina_are_installed_from_the_checkout_of_the_core(
    site: Path, checkout: Path, how: dict[str, object], option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "karenina-core", (checkout / "karenina_core").as_uri(), how)
    monkeypatch.setattr("sys.path", [str(site)])  # where `karenina` itself is not installed
    assert install_command("karenina-ray") == f"pip install {option}'{checkout}[ray]'"


@pytest.mark.parametrize(
    ("origin", "how"),
    [
        (None, FOLDER),
        ("https://example.org/karenina.whl", ARCHIVE),
        ("file:///wheels/karenina.whl", ARCHIVE),
        ("file:///gone/karenina", FOLDER),
    ],
)
def test_what_is_not_from_a_folder_is_installed_by_name(
    site: Path, checkout: Path, origin: str | None, how: dict[str, object]
) -> None:
    install(site, "karenina", origin, how)
    install(site, "karenina-otel", origin, how)
    install(site, "karenina-core", (checkout / "karenina_core").as_uri())
    assert install_command("karenina-ray") == "pip install 'karenina[ray]'"
    assert install_command("karenina-rubric") == "pip install karenina"
    assert install_command("karenina-otel[otlp]") == "pip install 'karenina-otel[otlp]'"


def test_packages_that_are_not_installed_are_installed_by_name() -> None:
    assert install_command("a-plugin-of-nobody") == "pip install a-plugin-of-nobody"
    assert install_command("a-plugin-of-nobody[excel]") == "pip install 'a-plugin-of-nobody[excel]'"
