"""Tables and facts fit the width of a terminal."""

from __future__ import annotations

import pytest

from karenina_terminal.text_layout import format_facts, format_table, wrap_text
from karenina_toolkit.printable import cell_width

ROWS = [
    ["Model", "Stage", "Judge", "Calls", "Tokens in", "from cache", "out", "Cost"],
    ["instruct-q4_k_m-2027-01-with-a-name-that-is-longer-than-others", "Generate", "all", "1,234,567",
     "12,345,678,901", "1,234,567,890", "123,456,789", "$1,234.5678"],
    ["模型名称很长很长很长🧬", "Parse", "gpt", "1", "2", "3", "4", "unknown"],
]  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_without_cutting_a_number(width: int) -> None:
    lines = list(format_table(ROWS, width, (0, 1, 2)))

    assert max(map(cell_width, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    words = " ".join(lines).split()
    assert {*ROWS[1][3:], *ROWS[2][3:], "Calls", "Cost", "Judge"} <= set(words)


def test_parts_of_a_split_table_repeat_the_texts() -> None:
    lines = [line.split() for line in format_table(ROWS, 60, (0, 1, 2))]

    heads = [line for line in lines if line[:3] == ["Model", "Stage", "Judge"]]
    assert len(heads) > 1
    assert sum(len(head) - 3 for head in heads) == 7


def test_a_table_of_the_terminal_width_is_not_split() -> None:
    assert list(format_table([["a", "bc"], ["long", "1"]], 40)) == ["a     bc", "long   1"]


def test_wide_characters_are_wrapped_by_their_width() -> None:
    assert wrap_text("漢字漢字 ok", 6) == ["漢字漢", "字 ok"]
    assert [cell_width(text) for text in ("漢字", "e\u0301", "🧬", "abc")] == [4, 1, 2, 3]


def test_facts_are_aligned_by_the_width_of_names() -> None:
    assert list(format_facts([("答え", "x"), ("gene", "y")], 60)) == ["答え  x", "gene  y"]
