"""Normalizers: conversions of texts before they are compared.

- "lowercase" folds case with `str.casefold`, so that "Straße" equals "STRASSE";
- "strip" removes whitespace at both ends;
- "remove_punctuation" removes Unicode punctuation and the ASCII characters $ + < = > ^ ` | ~;
- "collapse_whitespace" replaces each run of whitespace by one space, and strips;
- `SynonymMap` replaces a known alias by its canonical form;
- plugins add more with `register_normalizer`.
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
    """A normalizer that replaces aliases by their canonical form: `SynonymMap(mapping={"asa": "aspirin"})`.

    The *whole* text is looked up after the normalizers before it in the list, and case matters: put "lowercase" and
    "strip" first, and write the aliases in lower case. A canonical form that is itself an alias is not replaced again.
    The mapping must not be empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["synonym_map"] = "synonym_map"
    mapping: dict[str, str] = Field(
        min_length=1, description="aliases with their canonical forms, such as {asa: aspirin}"
    )

    def __call__(self, text: str) -> str:
        """Return the canonical form of `text`, or `text` if it is not an alias."""
        return self.mapping.get(text, text)

    def __hash__(self) -> int:
        return hash(frozenset(self.mapping.items()))


def _check_name(name: str) -> str:
    if name in _functions:
        return name
    near = get_close_matches(name, _functions, n=1)
    raise ValueError(
        f"unknown normalizer {name!r}{f'; did you mean {near[0]!r}?' if near else ''} "
        f"(the normalizers are {', '.join(_functions)}, "
        "{type: synonym_map, mapping: {...}} or in Python SynonymMap, and those of plugins)"
    )


Normalizer = Annotated[str, AfterValidator(_check_name)] | SynonymMap
"""One normalizer: its name, or a `SynonymMap` (in JSON `{"type": "synonym_map", "mapping": {...}}`)."""

Normalizers = Annotated[Sequence[Normalizer], AfterValidator(tuple)]
"""A parameter with a list of normalizers, which are applied in order; unknown names are an error."""


def register_normalizer(name: str, function: Callable[[str], str]) -> None:
    """Register a normalizer. Raises `ValueError` for a name of another function, and for one with outer spaces."""
    if not name or name != name.strip():
        raise ValueError(f"a normalizer's name must be a word without surrounding spaces, not {name!r}")
    known = _functions.setdefault(name, function)
    if known is not function:
        one, other = (getattr(f, "__module__", None) or __name__ for f in (known, function))
        raise ValueError(f"two normalizers have the name {name!r}, in {one} and in {other}: rename one of them")


def known_normalizers() -> tuple[str, ...]:
    """Return the names of all normalizers."""
    return tuple(_functions)


def normalize(text: str, normalizers: Iterable[str | SynonymMap]) -> str:
    """Return `text` after all `normalizers`, in their order. Raises `ValueError` for an unknown name."""
    for normalizer in normalizers:
        if isinstance(normalizer, str):
            step = _functions.get(normalizer)
            text = step(text) if step is not None else _functions[_check_name(normalizer)](text)
        else:
            text = normalizer(text)
    return text
