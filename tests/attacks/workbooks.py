"""Malformed Excel files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PARTS = {
    "[Content_Types].xml": f"""<Types xmlns="{_PACKAGE}/content-types">
        <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
        <Default Extension="xml" ContentType="application/xml"/>
        <Override PartName="/xl/workbook.xml" ContentType="{_TYPES}.sheet.main+xml"/>
        <Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_TYPES}.worksheet+xml"/>
        <Override PartName="/xl/sharedStrings.xml" ContentType="{_TYPES}.sharedStrings+xml"/></Types>""",
    "_rels/.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships">
        <Relationship Id="rId1" Type="{_DOCUMENT}/officeDocument" Target="xl/workbook.xml"/></Relationships>""",
    "xl/workbook.xml": f"""<workbook xmlns="{_MAIN}" xmlns:r="{_DOCUMENT}">
        <sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>""",
    "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships">
        <Relationship Id="rId1" Type="{_DOCUMENT}/worksheet" Target="worksheets/sheet1.xml"/>
        <Relationship Id="rId2" Type="{_DOCUMENT}/sharedStrings" Target="sharedStrings.xml"/></Relationships>""",
}
LAUGHS = (
    '<!DOCTYPE s [<!ENTITY a "lollollollollollol">'
    + "".join(f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>"
)
"""Entities that are 18 GB of text when they are replaced."""
TAIL = "</sheetData></worksheet>"


def cell(text: str, place: str) -> str:
    """Return a cell with its text."""
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


HEAD = f'<worksheet xmlns="{_MAIN}"><sheetData><row r="1">{cell("question", "A1")}</row>'


def workbook(file: Path, *sheet: str, before: str = "", strings: str = "") -> Path:
    """Write an Excel file whose sheet consists of these pieces."""
    return _write_workbook(file, [before, *sheet], strings)


def _write_workbook(file: Path, sheet: Iterable[str], strings: str) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _PARTS.items():
            archive.writestr(name, text)
        archive.writestr("xl/sharedStrings.xml", strings or f'<sst xmlns="{_MAIN}"/>')
        with archive.open("xl/worksheets/sheet1.xml", "w") as part:
            for piece in sheet:
                part.write(piece.encode())
    return file


def shared_strings(text: str, before: str = "") -> str:
    """Return the part of the shared strings, with one of them."""
    return f'{before}<sst xmlns="{_MAIN}"><si><t>{text}</t></si></sst>'
