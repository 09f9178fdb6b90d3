"""Normalizers: what is done to a text before it is compared.

- "lowercase" folds case (as `str.casefold`: "Straße" and "STRASSE" become one);
- "strip" removes white space at both ends;
- "remove_punctuation" removes what Unicode calls punctuation, and the ASCII signs $ + < = > ^ ` | ~;
- "collapse_whitespace" makes each run of white space one space, and strips;
- `SynonymMap` replaces a known alias by its canonical form;
- plugins add more (`register_normalizer`).
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _remove_punctuation(text: str) -> str:
    return "".join(c for c in text if c not in string.punctuation and not unicodedata.category(c).startswith("P"))


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


_functions: Final[dict[str, Callable[[str], str]]] = {
    "lowercase": str.casefold,
    "strip": str.strip,
    "remove_punctuation": _remove_punctuation,
    "collapse_whitespace": _collapse_whitespace,
}


class SynonymMap(BaseModel):
    """Replaces a text that is a known alias by its canonical form: `SynonymMap(mapping={"asa": "aspirin"})`.

    The *whole* text is looked up, as the normalizers before it in the list left it, and case counts: put "lowercase"
    and "strip" first, and write the aliases in lower case. It is looked up once: a canonical form that is itself an
    alias is not followed further. An empty mapping is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["synonym_map"] = "synonym_map"
    mapping: dict[str, str] = Field(min_length=1)

    def __call__(self, text: str) -> str:
        """`text`, or the canonical form of which it is an alias."""
        return self.mapping.get(text, text)

    def __hash__(self) -> int:
        return hash(frozenset(self.mapping.items()))


def _known_name(name: str) -> str:
    if name in _functions:
        return name
    near = get_close_matches(name, _functions, n=1)
    raise ValueError(
        f"unknown normalizer {name!r}{f'; did you mean {near[0]!r}?' if near else ''} "
        f"The normalizers are {', '.join(_functions)} and SynonymMap; plugins add more"
    )


Normalizer = Annotated[str, AfterValidator(_known_name)] | SynonymMap
"""One normalizer: its name, or a `SynonymMap` (in JSON `{"type": "synonym_map", "mapping": {...}}`)."""

Normalizers = Annotated[Sequence[Normalizer], AfterValidator(tuple)]
"""A list of normalizers as a parameter, applied in its order; names are checked when it is built."""


def register_normalizer(name: str, function: Callable[[str], str]) -> None:
    """Add a normalizer for `name`. ValueError where the name is taken by another function, or is no plain word."""
    if not name or name != name.strip():
        raise ValueError(f"a normalizer's name is a word without surrounding space, not {name!r}")
    known = _functions.setdefault(name, function)
    if known is not function:
        one, other = (getattr(f, "__module__", None) or __name__ for f in (known, function))
        raise ValueError(f"two normalizers are named {name!r}: one of {one}, one of {other}; rename one")


def known_normalizers() -> tuple[str, ...]:
    """The names that a list of normalizers may hold."""
    return tuple(_functions)


def normalize(text: str, normalizers: Iterable[str | SynonymMap]) -> str:
    """`text` after all `normalizers`, in their order. ValueError for an unknown name."""
    for normalizer in normalizers:
        if isinstance(normalizer, str):
            step = _functions.get(normalizer)
            text = step(text) if step is not None else _functions[_known_name(normalizer)](text)
        else:
            text = normalizer(text)
    return text
