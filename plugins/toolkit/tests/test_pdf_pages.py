"""Pages of a PDF, which are cut in a child process."""

from __future__ import annotations

from pathlib import Path

import pypdfium2
import pytest

from karenina_core.models.attachments import Attachment
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


FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
LAYER = "/OCProperties << /OCGs [6 0 R] /D << /OFF [6 0 R] /Order [6 0 R] >> >>"
FORM = "/AcroForm << /Fields [6 0 R] /NeedAppearances true /DR << /Font << /F 5 0 R >> >> >>"
FIELD = (
    "<< /Type /Annot /Subtype /Widget /FT /Tx /T (k) /V (5.9) /DA (/F 12 Tf 0 g) /Rect [50 10 200 30] /P 3 0 R /F 4 >>"
)


def write_page(path: Path, catalog: str, last: str) -> Path:
    """Write a PDF whose catalog has these entries. `last` is its sixth object, a layer or a field of a form."""
    text = "BT /F 20 Tf 20 70 Td (Potassium) Tj ET /OC /M BDC BT /F 20 Tf 20 50 Td (KEY) Tj ET EMC"
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 300 100] >>",
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Annots [6 0 R] /Resources << /Font << /F 5 0 R >> "
        "/Properties << /M 6 0 R >> >> >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
        FONT,
        last,
    ]
    body = "%PDF-1.5\n" + "".join(f"{number} 0 obj\n{item}\nendobj\n" for number, item in enumerate(objects, 1))
    path.write_text(body + "trailer << /Size 7 /Root 1 0 R >>\n%%EOF\n")
    return path


def test_pages_with_hidden_layers_are_refused(tmp_path: Path) -> None:
    path = write_page(tmp_path / "a.pdf", LAYER, "<< /Type /OCG /Name (Solutions) >>")

    with pytest.raises(AttachmentProblem, match="page 1 looks different without the rest of the PDF"):
        examine(Attachment.of({"file": path, "pages": 1}))


def test_visible_layers_stay_visible(tmp_path: Path) -> None:
    path = write_page(tmp_path / "a.pdf", LAYER.replace("/OFF [6 0 R]", ""), "<< /Type /OCG /Name (Labels) >>")

    cut = pypdfium2.PdfDocument(read_attachment(examine(Attachment.of({"file": path, "pages": 1}))))

    assert "KEY" in cut[0].get_textpage().get_text_range()


def test_contents_of_form_fields_are_sent(tmp_path: Path) -> None:
    path = write_page(tmp_path / "a.pdf", FORM, FIELD)

    cut = pypdfium2.PdfDocument(read_attachment(examine(Attachment.of({"file": path, "pages": "1,1"}))))

    assert ["5.9" in page.get_textpage().get_text_range() for page in cut] == [True, True]


def test_pages_of_a_damaged_pdf_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing")

    with pytest.raises(AttachmentProblem, match="cannot be opened"):
        examine(Attachment.of({"file": tmp_path / "a.pdf", "pages": 1}))
