"""Write the documentation pages to a folder, from which MkDocs builds the site: `python scripts/stage_docs.py`.

They are the pages in docs/, the pages of the repository that they link to, and the reference, which is generated from
the code. Links between them are rewritten, because the repository's pages have different paths in the site.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from reference import reference

ROOT: Final = Path(__file__).parents[1]
REPOSITORY_PAGES: Final = {
    "README.md": "index.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "benchmarks/README.md": "project/measurements.md",
    "examples/README.md": "project/examples.md",
}
"""The pages outside of docs/, each with its path in the site."""
_LINK: Final = re.compile(r"(?<=\]\()(?P<target>[^)#:\s]+)(?=[)#])")
_CODE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def stage(folder: Path) -> None:
    """Write all pages and their assets to `folder`, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    docs = ROOT / "docs"
    for file in sorted(path for path in docs.rglob("*") if path.is_file() and path.name != "requirements.txt"):
        _write(file, folder, file.relative_to(docs).as_posix())
    for source, place in REPOSITORY_PAGES.items():
        _write(ROOT / source, folder, place)
    for place, text in reference().items():
        target = folder / "reference" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def _write(file: Path, folder: Path, place: str) -> None:
    """Write a file to its place in the site. Links in Markdown files are rewritten."""
    target = folder / place
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".md":
        target.write_text(with_site_links(file.read_text("utf-8"), file, place), "utf-8")
    else:
        shutil.copy(file, target)


def with_site_links(text: str, file: Path, place: str) -> str:
    """Rewrite the links of a page to other pages for the site. Code is not changed."""

    def rewritten(link: re.Match[str]) -> str:
        """Return the target of a link in the site, or the same target if it is not in the site."""
        there = Path(os.path.normpath(file.parent / link["target"]))
        site = _place(there)
        return link["target"] if site is None else Path(os.path.relpath(site, Path(place).parent)).as_posix()

    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(rewritten, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(rewritten, text[end:])])


def _place(file: Path) -> str | None:
    """Return the path of a file in the site, or None if it is not there."""
    if file.is_relative_to(ROOT / "docs"):
        return file.relative_to(ROOT / "docs").as_posix()
    return REPOSITORY_PAGES.get(file.relative_to(ROOT).as_posix()) if file.is_relative_to(ROOT) else None


if __name__ == "__main__":
    stage(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs")
