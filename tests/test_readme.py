"""README and docs: the README is short, links lead to files, and a program that needs more than its page works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", [page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text("utf-8"))

    assert [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()] == []
