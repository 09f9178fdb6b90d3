"""The layout of styled text: the same lines, and codes on a terminal, as from rich's `Table`."""

from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from karenina_terminal.styled_text import LineWriter, StyledTable, StyledText, lay_out_grid, wrap_parts

NAMES = ["", "Why", "Question"]
TEXTS = st.lists(
    st.sampled_from(
        ["a", "word", "longer-words", "x" * 50, "日本語", "é", "e\u0301", "👩‍👩‍👧", " ", "   ", "\n", "한국어 문장"]
    )
).map(" ".join)
CELLS = st.tuples(TEXTS, st.sampled_from(["", "dim", "red"]))
TABLES = st.lists(st.tuples(st.sampled_from(["", "?", "✓"]), TEXTS, TEXTS), min_size=1, max_size=3)
ROWS = st.lists(st.tuples(st.sampled_from(NAMES), st.lists(CELLS, min_size=1, max_size=2), st.none() | TABLES))
WIDTHS = st.sampled_from([40, 60, 80, 200])
COLORS = st.sampled_from([None, "standard"])


def console(width: int, color: str | None) -> Console:
    return Console(file=StringIO(), width=width, force_terminal=True, color_system=color, highlight=False)  # type: ignore[arg-type]


def text_of(printed: Console) -> str:
    assert isinstance(printed.file, StringIO)
    return printed.file.getvalue()


def rich_table(rows: list[tuple[str, str, str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("field", "truth"):
        table.add_column(name, overflow="fold")
    for mark, *texts in rows:
        table.add_row(Text(mark, "green"), *map(Text, texts))
    return table


def own_table(rows: list[tuple[str, str, str]]) -> StyledTable:
    return StyledTable(
        ["", "field", "truth"],
        [
            [StyledText([(mark, "green")], "green"), *(StyledText([(text, "")]) for text in texts)]
            for mark, *texts in rows
        ],
    )


@given(ROWS, WIDTHS, COLORS)
def test_a_grid_is_laid_out_as_by_rich(rows, width: int, color: str | None) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("Item", Text("first"))
    own: list = [("Item", [StyledText([("first", "")])])]
    for name, cells, table in rows:
        grid.add_row(name, Group(*(Text(text, style) for text, style in cells)))
        own.append((name, [StyledText([(text, style)], style) for text, style in cells]))
        if table is not None:
            grid.add_row("Fields", rich_table(table))
            own.append(("Fields", [own_table(table)]))
    by_rich, by_us = console(width, color), console(width, color)

    by_rich.print(Padding(grid, (0, 0, 0, 2)))
    LineWriter(by_us).write(lay_out_grid(own, width))

    assert text_of(by_us) == text_of(by_rich)


@given(TEXTS, TEXTS, WIDTHS, COLORS)
def test_a_styled_text_is_wrapped_as_by_rich(first: str, second: str, width: int, color: str | None) -> None:
    by_rich, by_us = console(width, color), console(width, color)

    by_rich.print(Text(first) + Text(second, style="dim red"))
    LineWriter(by_us).write(wrap_parts([(first, ""), (second, "dim red")], width))

    assert text_of(by_us) == text_of(by_rich)
