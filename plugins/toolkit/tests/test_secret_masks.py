"""Texts of servers: no secret, and no part of one that is long enough to matter."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_toolkit.http.http_errors import redact_text, status_error
from karenina_toolkit.http.urls import mask_secrets

KEY = "sk-proj-4f7Qm2Zp9Lx0Wc8Rt6Yb1Nd3"
ECHOES = {
    "without its end": KEY[:-4],
    "without its beginning": KEY[3:],
    "with a starred end": f"{KEY[:12]}{'*' * 20}",
    "with a starred middle": f"{KEY[:11]}*****{KEY[-9:]}",
    "cut off with dots": f"{KEY[:16]}...",
    "twice": f"{KEY[:16]} or {KEY[-16:]}",
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_quoted_part_of_a_key_is_masked(echo: str) -> None:
    said = f"Incorrect API key provided: {echo}. Find yours in the settings."
    masked = mask_secrets(said, [KEY])
    parts = [KEY[at : at + 8] for at in range(1, len(KEY) - 7)]

    assert [part for part in parts if part in masked] == []
    assert masked.startswith("Incorrect API key provided: ***")
    assert masked.endswith("Find yours in the settings.")
    assert KEY[:10] not in str(status_error("m", 401, {}, said, [KEY], []))


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("production-token-4711", "the production server is down"),
        ("password1", "the password is wrong"),
        (f"Bearer {KEY}", "send Authorization: Bearer and a key that begins with sk-proj- in the header"),
        (f"https://api.example.org/v1/{KEY}", "https://api.example.org/ has no such model"),
        (f"/v1/chat/{KEY}", "POST /v1/chat/completions: no such model"),
    ],
)
def test_ordinary_words_are_shown(secret: str, said: str) -> None:
    assert mask_secrets(said, [secret]) == said


@pytest.mark.parametrize("echo", ["correct-horse-*******", "correct-horse-battery-staple"])
def test_words_of_a_passphrase_are_masked(echo: str) -> None:
    assert "horse" not in mask_secrets(f"the key {echo} is unknown", ["correct-horse-battery-staple-of-mine"])


@given(st.text(string.digits + "abcdefABCDEF", min_size=16, max_size=80), st.data())
def test_no_beginning_or_end_of_a_random_key_remains(letters: str, data: st.DataObject) -> None:
    key = f"7{letters}3"
    cut = data.draw(st.integers(8, len(key)))
    assert mask_secrets(f"<{key[:cut]}> <{key[-cut:]}>", [key]) == "<***> <***>"


def test_truncated_text_ends_with_no_part_of_a_key() -> None:
    for before in range(1980, 2001):
        assert KEY[:9] not in redact_text(f"{' ' * before}{KEY}", [KEY])
