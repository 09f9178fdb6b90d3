"""Texts of servers and programs without the user's secrets, and without parts of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from karenina_toolkit.http.urls import MASK

_SHORTEST: Final = 8
"""The least number of characters in a row that count as a part of a secret."""
_LONGEST_WORDS: Final = 15
"""The length of words up to which a part may be shown, as in `sk-proj-`; several long words can be a passphrase."""
_WORDS: Final = re.compile(r"[-_ ./]*(?:(?:[A-Za-z]?[a-z]+|[A-Z]+|v\d+)(?:[-_ ./]+|$))+")
_URL: Final = "://"


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with `***` in the place of each secret, and of each part of one of at least 8 characters.

    Servers quote keys without their end, or with stars in their middle. Whole words that a secret shares with ordinary
    text, such as `production` in `production-4711`, are no part of it, unless stars follow or precede them.
    """
    known = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    for secret in known:
        text = text.replace(secret, MASK)
    for secret in known:
        if len(secret) > _SHORTEST and _URL not in secret:  # the parts of an address are secrets by themselves
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
    """Return whether characters follow with which programs replace a part of a secret."""
    return rest[:1] in ("*", "•", "…") or (rest[:2] in ("..", "xx", "XX", "##"))
