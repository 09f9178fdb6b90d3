"""Searching with a user's pattern: flags, bad patterns, and the time limit."""

from __future__ import annotations

import re

import pytest

from karenina_toolkit.patterns import BadPattern, PatternTimeout, compile_pattern, find_all, flag_names, search

ENDLESS = (r"^(a|aa)+$", "a" * 60 + "b")


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ((), ()),
        (["MULTILINE", "IGNORECASE"], ("IGNORECASE", "MULTILINE")),
        (["I", "S", "I"], ("DOTALL", "IGNORECASE")),
        (re.IGNORECASE | re.ASCII, ("ASCII", "IGNORECASE")),
        (0, ()),
    ],
)
def test_flags_are_names_or_constants_of_re(flags, names):
    assert flag_names(flags) == names


@pytest.mark.parametrize(
    "flags", [["ignorecase"], "IGNORECASE", ["LOCALE"], re.DEBUG, -1, 1 << 20, True, None, 1.5, [3], [[]]]
)
def test_an_unknown_flag_is_refused(flags):
    with pytest.raises(ValueError, match="flag"):
        flag_names(flags)


@pytest.mark.parametrize(
    ("pattern", "text", "flags", "found"),
    [
        ("B", "abc", (), None),
        ("B", "abc", ["IGNORECASE"], "b"),
        ("^c", "ab\nc", (), None),
        ("^c", "ab\nc", ["MULTILINE"], "c"),
        ("b.c", "ab\nc", (), None),
        ("b.c", "ab\nc", re.DOTALL, "b\nc"),
        (r"\w", "é", (), "é"),
        (r"\w", "é", re.ASCII, None),
        ("b  # the second", "abc", ["VERBOSE"], "b"),
    ],
)
def test_search_finds_the_first_match(pattern, text, flags, found):
    match = search(pattern, text, flags)
    assert (match and match.group()) == found


@pytest.mark.parametrize("pattern", ["", "(", "[a", "(?P<n>a)(?P=m)", "*", "(" * 3000 + ")" * 3000])
def test_a_pattern_that_cannot_be_used_is_refused_when_compiled(pattern):
    with pytest.raises(BadPattern) as caught:
        compile_pattern(pattern)
    assert caught.value.pattern == pattern


def test_a_search_that_does_not_end_is_stopped():
    with pytest.raises(PatternTimeout, match="backtracks") as caught:
        search(*ENDLESS, seconds=0.05)
    assert caught.value.seconds == 0.05


def test_finding_all_is_stopped_too():
    with pytest.raises(PatternTimeout):
        find_all(*ENDLESS, seconds=0.05)


def test_find_all_gives_matches_in_order_up_to_a_limit():
    assert [m.group() for m in find_all(r"\d", "1a2b3")] == ["1", "2", "3"]
    assert [m.group() for m in find_all(r"\d", "1a2b3", limit=2)] == ["1", "2"]
