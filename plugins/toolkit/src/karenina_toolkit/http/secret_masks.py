"""Masking of the user's secrets, and of parts of them, in texts from servers and programs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from karenina_toolkit.http.urls import MASK

_SHORTEST: Final = 8
"""Minimum number of consecutive characters that count as a part of a secret."""
_LONGEST_WORDS: Final = 15
"""Maximum length of whole words of a secret that are shown, as in `sk-proj-`; longer ones can be a passphrase."""
_WORDS: Final = re.compile(r"[-_ ./]*(?:(?:[A-Za-z]?[a-z]+|[A-Z]+|v\d+)(?:[-_ ./]+|$))+")
_URL: Final = "://"


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with `***` in place of each secret, and of each part of a secret with at least 8 characters.

    Servers quote keys truncated, or with stars in the middle. Whole words that a secret shares with ordinary text, such
    as `production` in `production-4711`, are not masked, unless stars follow or precede them.
    """
    known = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    for secret in known:
        text = text.replace(secret, MASK)
    for secret in known:
        if len(secret) > _SHORTEST and _URL not in secret:  # the secret parts of a URL are in the list themselves
            text = _mask_parts(text, secret)
    return text


def _mask_parts(text: str, secret: str) -> str:
    starts = {secret[at : at + _SHORTEST] for at in range(len(secret) - _SHORTEST + 1)}
    kept: list[str] = []
    shown = at = 0
    while at <= len(text) - _SHORTEST:
        end = at + _SHORTEST
        if text[at:end] not in starts:
            at += 1
            continue
        while end < len(text) and text[at : end + 1] in secret:
            end += 1
        if not _is_ordinary(text, at, end, secret):
            kept += [text[shown:at], MASK]
            shown = end
        at = end
    return "".join([*kept, text[shown:]])


def _is_ordinary(text: str, at: int, end: int, secret: str) -> bool:
    """Return whether the part of `secret` in `text` consists of a few whole words of it."""
    part = text[at:end]
    if len(part) > _LONGEST_WORDS or not _WORDS.fullmatch(part):
        return False
    if (end < len(text) and _is_starred(text[end:])) or _is_starred(text[:at][::-1]):
        return False
    before, _, after = secret.partition(part)
    return not ((before[-1:].isalpha() and part[0].isalpha()) or (after[:1].isalpha() and part[-1].isalpha()))


def _is_starred(rest: str) -> bool:
    """Return whether `rest` starts with characters that programs put in place of a part of a secret."""
    return rest[:1] in ("*", "•", "…") or (rest[:2] in ("..", "xx", "XX", "##"))
