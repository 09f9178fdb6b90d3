"""README and docs: the README is short, links lead to files, and a program that needs more than its page works."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_runs import make_result, write_results

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_section_for_reports_is_on_the_page_that_the_program_writes(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/report.md").read_text("utf-8")
    program, plugin = re.findall(r"^```python\n(.*?)^```$", page, re.S | re.M)
    write_results(tmp_path / "genes.results.jsonl", make_result(answer="BCL2"))
    (tmp_path / "program.py").write_text(
        f"{plugin}\n\nfrom karenina_core.plugins import active_plugins\n\n"
        f'active_plugins().register(plugin, distribution="lengths")\n{program}',
        "utf-8",
    )

    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, timeout=120, check=True)

    text = (tmp_path / "report.html").read_text("utf-8")
    (head,) = re.findall(r'id="karenina-head">([^<]*)<', text)
    sections = {one["id"]: one for one in json.loads(gzip.decompress(base64.b64decode(head)))["sections"]}
    assert sections["lengths"]["blocks"][0]["rows"] == [["m", len("BCL2")]]


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", [page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text("utf-8"))

    assert [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()] == []
