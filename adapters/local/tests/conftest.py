from __future__ import annotations

from pathlib import Path

import pytest

from karenina_local.pulling import pull


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real small model, pulled into the user's cache folder where it is not there yet (93 MB)."""
    return pull("smollm2-135m")


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder of the test's own."""
    folder = tmp_path / "models"
    monkeypatch.setenv("KARENINA_MODELS", str(folder))
    return folder
