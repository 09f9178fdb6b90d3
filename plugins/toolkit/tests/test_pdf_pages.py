"""Pages of a PDF, which are cut in a child process."""

from __future__ import annotations

from pathlib import Path

import pypdfium2
import pytest

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import PortError
from karenina_toolkit.attachments.files import AttachmentProblem, examine, read_attachment


def make_pdf(path: Path, widths: list[int]) -> None:
    """Write a PDF with a page for each width."""
    document = pypdfium2.PdfDocument.new()
    for width in widths:
        document.new_page(width, 100)
    document.save(path)


def test_the_chosen_pages_are_sent_in_order(tmp_path: Path) -> None:
    make_pdf(tmp_path / "a.pdf", [100, 200, 300, 400])
    whole = examine(Attachment.of(tmp_path / "a.pdf"))
    some = examine(Attachment.of({"file": tmp_path / "a.pdf", "pages": "4, 1-2"}))

    cut = pypdfium2.PdfDocument(read_attachment(some))

    assert [page.get_width() for page in cut] == [400, 100, 200]
    assert some.sha256 == whole.sha256
    assert some.to_dict() == {**whole.to_dict(), "pages": "4,1-2"}


@pytest.mark.parametrize(("pages", "why"), [("3", "has 2 pages"), ("1,2-1", "smaller number first")])
def test_wrong_pages_are_found_before_a_run(tmp_path: Path, pages: str, why: str) -> None:
    make_pdf(tmp_path / "a.pdf", [100, 200])

    with pytest.raises(AttachmentProblem, match=why):
        examine(Attachment.of({"file": tmp_path / "a.pdf", "pages": pages}))


def test_pages_of_a_damaged_pdf_fail_the_call(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing")

    with pytest.raises(PortError, match="cannot be opened"):
        read_attachment(examine(Attachment.of({"file": tmp_path / "a.pdf", "pages": 1})))
