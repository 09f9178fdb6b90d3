"""Titles, facts and tables at the Python prompt and in notebooks."""

from __future__ import annotations

import pytest
from shown_html import HOSTILE, ShownHTML

from karenina_terminal.notebook_html import (
    MAX_TEXT,
    Part,
    SectionsView,
    make_facts,
    make_heading,
    make_table,
    render_html,
    sections_html,
    sections_of,
)
from karenina_terminal.text_layout import Facts, Grid, Title, format_sections


class Temperatures(SectionsView):
    """An object with registered sections."""


@sections_of.register(Temperatures)
def _sections(_value: Temperatures) -> list[list[Title | Facts | Grid]]:
    return [
        [Title("Temperatures"), Facts([("Station", HOSTILE)])],
        [Grid([["day", "low", "high"], ["Monday", "1", "20"]])],
    ]


@pytest.mark.parametrize(
    "part", [make_heading(HOSTILE), make_facts([("a", HOSTILE)]), make_table([HOSTILE], [[HOSTILE]])]
)
def test_hostile_texts_are_shown_and_not_run(part: Part) -> None:
    seen = ShownHTML(render_html(part))

    assert "<script>alert(1)</script>" in seen.text
    assert "\\x1b[31m\\x202e\\xd800" in seen.text


def test_notebooks_do_not_typeset_formulas_in_texts() -> None:
    assert 'class="karenina tex2jax_ignore mathjax_ignore"' in render_html(make_heading("$x$"))


def test_a_long_text_is_cut_with_the_number_of_missing_characters() -> None:
    html = render_html(make_facts([("Answer", "&" * (MAX_TEXT + 1234))]))

    assert " ... (1,234 more characters)" in html
    assert len(html) < 6 * MAX_TEXT


def test_a_long_table_ends_with_the_number_of_omitted_rows() -> None:
    html = render_html(*sections_html([[Grid([["day", "low"], *[[str(day), "1"] for day in range(1103)]])]]))

    assert "... 1,003 more rows" in html
    assert html.count("<tr>") == 102


def test_registered_sections_are_the_text_and_the_html_of_an_object() -> None:
    temperatures = Temperatures()

    assert repr(temperatures) == str(temperatures)
    assert repr(temperatures).splitlines()[0] == "Temperatures"
    assert "day     low  high\nMonday    1    20" in repr(temperatures)
    assert "\x1b" not in repr(temperatures)
    assert {"table", "th", "td"} <= set(ShownHTML(temperatures._repr_html_()).tags)


def test_an_object_without_sections_has_the_ordinary_text() -> None:
    class Plain(SectionsView):
        pass

    assert "Plain object" in repr(Plain())
    assert Plain()._repr_html_() is None


def test_a_huge_object_has_a_short_text() -> None:
    class Huge(SectionsView):
        pass

    sections_of.register(Huge, lambda _value: [[Grid([["row", "value"], *([str(n), "x" * 500] for n in range(5000))])]])

    assert len(repr(Huge())) < 20_000
    assert len(Huge()._repr_html_() or "") < 200_000


def test_sections_are_separated_by_empty_lines_and_indented() -> None:
    lines = list(format_sections([[Title("one", indent=2)], [Facts([("name", "text")], indent=2)]], 80))

    assert lines == ["  one", "", "  name  text"]
