"""Texts for addresses."""

import re


def slug(text: str) -> str:
    """Return the words of a text in lower case, joined by hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))
