"""Tables as Excel workbooks: cells, the XML of each part, and the archive around them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import openpyxl
from hypothesis import strategies as st
from openpyxl.utils.exceptions import IllegalCharacterError

from fuzzing.engine import Kind
from fuzzing.mutation import OPS, TEXT_OPS, Pairs, Tree, apply_changes, broken, parse_tree, parts
from fuzzing.tables import ROWS, import_options

_ENTITIES: Final = (
    b'<!DOCTYPE x [<!ENTITY a "'
    + b"x" * 50
    + b'">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 20) for n in range(8))
    + b"]>"
)
_XML: Final = (
    *(
        b"<",
        b">",
        b"/",
        b'"',
        b"&",
        b"&amp;",
        b"&i;",
        b"&#0;",
        b"&#xD800;",
        b"<!--",
        b"]]>",
        b"<?x",
        b"\x00",
        _ENTITIES,
    ),
    *(b'<!DOCTYPE x SYSTEM "file:///etc/passwd">', b'<!DOCTYPE x [<!ENTITY i SYSTEM "file:///etc/passwd">]>'),
    *(b'r="XFD1048576"', b'r="A99999999999"', b'r="ZZZZZZ1"', b'r=""', b'r="1A"', b' s="99999"', b' t="s"', b' t="b"'),
    *(
        b' t="d"',
        b' t="e"',
        b' t="n"',
        b' t="inlineStr"',
        b"<v>99999999999</v>",
        b"<v>-1</v>",
        b"<v>1e999</v>",
        b"<v>NaN</v>",
    ),
    *(b"<v>x</v>", b"<v></v>", b"<v>" + b"9" * 5000 + b"</v>", b"<f>1+1</f>", b'<dimension ref="A1:XFD1048576"/>'),
    *(
        b'<row r="1048576">',
        b'<row r="999999999999">',
        b'<row r="x">',
        b'<c r="XFD1" t="n"><v>1</v></c>',
        b"<c><v>1</v></c>",
    ),
    *(
        b'<dimension ref="x"/>',
        b'count="999999999"',
        b'uniqueCount="x"',
        b'Target="../../../etc/passwd"',
        b'Target="/x.xml"',
    ),
    *(b'TargetMode="External"', b'sheetId="x"', b'r:id="rId99"', b"<mergeCell/>", b"<a>" * 5000, b'encoding="utf-7"'),
)


def _book(rows: Tree) -> bytes:
    """Rows as a workbook; what Excel has no cell for is written as text."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for number, row in enumerate(rows if isinstance(rows, list) and not isinstance(rows, Pairs) else [[rows]], 1):
        for place, cell in enumerate(row if isinstance(row, list) else [row], 1):
            if number <= 200 and place <= 200:
                _put(sheet, number, place, cell)
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def _put(sheet: Any, row: int, column: int, value: Tree) -> None:
    if isinstance(value, int) and abs(value) > 10**300:
        value = str(value)
    try:
        sheet.cell(row, column).value = value
    except (ValueError, IllegalCharacterError):
        sheet.cell(row, column).value = ascii(value)[:30_000]


def _parts(book: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _archive(parts: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


_TREE = parse_tree(ROWS)
_DONORS = list(parts(_TREE))
_BOOK = _book([*_TREE, ["q4", datetime(2024, 2, 29, tzinfo=UTC).replace(tzinfo=None), 1.5, True, 7.0, None]])
_PARTS = _parts(_BOOK)
_NAMES = sorted(_PARTS, key=lambda name: "sheet1" not in name)
_XML_OP = st.tuples(st.integers(0, 3), st.integers(0, 1_000_000), st.integers(0, 1_000_000))


def _part_broken(name: str, ops: list[tuple[int, int, int]], filling: int) -> bytes:
    """Return the book with one changed part: fragments in or instead of tags, missing pieces, and many repetitions."""
    content = _PARTS[name]
    for kind, where, which in ops:
        tags = [place for place in range(len(content)) if content[place : place + 1] in (b"<", b" ", b">")]
        place = tags[where % len(tags)] if tags else 0
        fragment = _XML[which % len(_XML)]
        if kind == 0:
            content = content[:place] + fragment + content[place:]
        elif kind == 1:
            end = content.find(b">", place) + 1
            content = content[:place] + fragment + content[end:]
        elif kind == 2:
            content = content[:place] + content[place + which % 60 :]
        else:
            content = content[:place] + _ENTITIES + content[place:]
    more = {} if filling < 98 else {"xl/media/x.bin": b"\0" * 50_000_000}
    return _archive({**_PARTS, name: content, **more})


def _part_lost(name: str, other: str) -> bytes:
    return _archive({kept: (_PARTS[other] if kept == name else content) for kept, content in _PARTS.items() if kept})


_NAME = st.sampled_from([*_NAMES[:1] * 6, *_NAMES])
KIND: Final = Kind(
    "excel",
    st.one_of(
        st.builds(lambda ops: _book(apply_changes(_TREE, ops, _DONORS)), OPS),
        st.builds(_part_broken, _NAME, st.lists(_XML_OP, min_size=1, max_size=4), st.integers(0, 99)),
        st.builds(_part_lost, _NAME, _NAME),
        st.builds(broken, st.just(_BOOK), TEXT_OPS),
    ),
    partial(import_options, ending=".xlsx"),
    valid=[_BOOK],
    seconds=10.0,  # three imports, each of which may read as many cells as are allowed
)
