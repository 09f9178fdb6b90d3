import pytest
from slugs import slug


def test_words_are_joined():
    assert slug("Tea time") == "tea-time"


@pytest.mark.parametrize(("title", "expected"), [("Tea, and cake!", "tea-and-cake"), ("  A -- b ", "a-b")])
def test_other_characters_separate_words_once(title, expected):
    assert slug(title) == expected
