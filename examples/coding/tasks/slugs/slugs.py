"""Make the last part of a page's address from its title."""

import re


def slug(title):
    """Return the words of a title in lower case, joined by hyphens."""
    return re.sub(r"[^a-z0-9]", "-", title.lower())
