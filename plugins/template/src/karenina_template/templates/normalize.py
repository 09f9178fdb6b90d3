"""Normalizers, which convert strings before they are compared.

Strings are always folded first, so that strings that look the same are equal (`fold` in `karenina_toolkit.folding`).
This affects composed and combining accents, hyphens, spaces, quotes and invisible characters.

- "lowercase" folds case with `str.casefold`, so that "Straße" equals "STRASSE";
- "strip" removes whitespace at both ends;
- "remove_punctuation" removes Unicode punctuation and the ASCII characters $ + < = > ^ ` | ~, except where they
  distinguish values, such as signs and decimal points (see `remove_punctuation`): "COX-2" equals "COX2", but "CD4+"
  does not equal "CD4-", and "1:5" does not equal "15";
- "collapse_whitespace" replaces each run of whitespace with one space, and strips;
- "compatibility" replaces characters with their compatible forms in Unicode (NFKC): ligatures, circled numbers,
  fractions, superscripts. It keeps characters if replacing them would change a number: 10⁵ does not become 105, and
  1½ does not become 11/2;
- "exact", which must be the only normalizer, compares code points: nothing is folded;
- `SynonymMap` replaces a known alias with its canonical form;
- plugins can add more with `register_normalizer`.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import groupby
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern

EXACT: Final = "exact"
"""The normalizer that compares code points without folding."""

_RAISED: Final = ("<super>", "<sub>")
_CHARGES: Final = ("+", "\u2212")
_SAME_DIGITS: Final = ("<font>", "<wide>", "<narrow>", "<noBreak>")
"""Unicode decomposition tags for superscripts, subscripts and other forms of a character."""

_Kind = Literal["", "letter", "number", "symbol"]

_PERCENT: Final = "%\u2030\u2031\u066a\u0609\u060a"
_SIGNS: Final = frozenset(f"-+<>={_PERCENT}")
_OPERATORS: Final = _SIGNS | frozenset("/*^~")
_SPACE: Final = lazy_pattern(r"(\s+)")
_POINT: Final = lazy_pattern("(?<![.,])[.,\u00b7\u066b]\\Z")
"""A decimal point at the start of a number, as in ".5"."""
_EXPONENT: Final = lazy_pattern(r"(?<![^\W_])\d(?:[\d.,_]{0,40}\d)?[.,]?[eE]-(?=\d)")
_SIGN: Final = r"([-+]|\+{2,3}|\+/?-|-/?\+)"
_ALONE: Final = lazy_pattern(rf"[(\[{{]{_SIGN}[)\]}}]|(?<![-+]){_SIGN}(?=[,;:.!?)\]}}]|\Z)")
"""A sign on its own in brackets, or at the end of a clause."""
_QUOTE: Final = lazy_pattern(r"[\"'`]")
_PLURAL: Final = lazy_pattern(r"[sS](?![^\W_])")


def remove_punctuation(text: str) -> str:
    """Return `text` without punctuation and the ASCII characters $ + < = > ^ ` | ~, except where they carry meaning, as
    signs and marks in numbers do. "U.S." becomes "US", and "COX-2" "COX2".

    A mark is removed if the text means the same without it: "Dr. No" and "Dr No", quotes and brackets around words. It
    is kept if removing it would change a number, or if it is a sign. These are kept:

    - between two numbers: any mark without spaces (`1.5`, `1;5`, `5~6`), and operators and dashes with spaces
      (`5 - 6`);
    - before a number: its sign, also in front of a currency (`-$5`), and its decimal point (`.5`); the sign of an
      exponent (`2e-5`);
    - signs that touch a letter or digit, or are alone in brackets or at the end (`CD4+`, `HER2(-)`, `Rh +`), but not a
      hyphen between letters, or between a letter and a digit;
    - percent signs and primes after a number (`5%`, `5'`), comparisons (`a > b`), and the sharp in `C#`.

    So it does not suit formulas: `f'` and `f`, `5!` and `5`, `[0,1)` and `(0,1]`, `x-1` and `x1`, `a/b` and `ab`, `~A`
    and `A`, and `|x|` and `x` are equal. Space at the ends is removed with a mark that stood there.
    """
    is_stripped = text == text.strip()
    while not text.isalnum() and (shorter := _remove_once(text)) != text:
        text = shorter  # the remaining marks may have other neighbours now
    return text.strip() if is_stripped else text


def _remove_once(text: str) -> str:
    """Return the text after removing punctuation once. Removing some marks may make others removable."""
    fixed = {*_find_primes(text), *(match.end() - 1 for match in _EXPONENT.finditer(text))}
    parts: list[str] = []
    place = 0
    for is_gap, run in groupby(range(len(text)), lambda at: at not in fixed and _is_removable(text[at])):
        end = place + sum(1 for _ in run)
        part = text[place:end]
        parts.append(_reduce(text[place - 1 : place], part, text[end : end + 1]) if is_gap else part)
        place = end
    return "".join(parts)


def _is_removable(character: str) -> bool:
    is_known = character in string.punctuation or character.isspace()
    return is_known or unicodedata.category(character).startswith("P")


def _find_primes(text: str) -> Iterator[int]:
    """Yield the positions of primes, which are quotes after a number that do not close a quotation."""
    opened = dict.fromkeys("\"'", 0)
    last = -2
    for match in _QUOTE.finditer(text):
        place, after = match.start(), text[match.end() : match.end() + 1]
        mark = "'" if match[0] == "`" else match[0]
        before = _kind(text[place - 1 : place])
        if text[place - 1 : place] in ("'", '"') and last != place - 1:
            before = "symbol"  # a quote that is removed
        if before not in ("letter", "number") and last != place - 1 and after and not after.isspace():
            opened[mark] += 1
        elif opened[mark]:
            opened[mark] -= 1
        elif match[0] != "`" and (
            last == place - 1 or (before == "number" and _PLURAL.match(text, match.end()) is None)
        ):
            last = place
            yield place


def _kind(character: str) -> _Kind:
    """Return *number*, *letter* or *symbol* for a character next to punctuation, or "" for an empty string. A quote
    that is kept is a prime, so it counts as part of a number.
    """
    if not character:
        return ""
    first = unicodedata.category(character)[0]
    if first == "N" or character in "\"'":
        return "number"
    return "letter" if first in "LM" else "symbol"


def _reduce(before: str, gap: str, after: str) -> str:
    """Return the punctuation and spaces in `gap` that can change the meaning, such as signs and decimal points. `gap`
    is what stands between the characters `before` and `after`. Marks that only structure the text are removed.

    At the start or end of the text, `before` or `after` is "".
    """
    left, right = _kind(before), _kind(after)
    tokens = _SPACE.split(gap)
    if len(tokens) == 1 and left and right:
        return _reduce_inside(left, gap, right)
    numbers = left == right == "number"
    last = len(tokens) - 1
    parts: list[str] = []
    joins_number = False
    for place in range(0, len(tokens), 2):
        token = tokens[place]
        space = tokens[place - 1] if place and not joins_number else ""
        signs = _only(token, _OPERATORS if numbers else _SIGNS)
        alone = _ALONE.search(token)
        is_percent = bool(token) and token[0] in _PERCENT and left == "number" and not "".join(parts).strip()
        if place == 0 and left:
            rest = alone[1] if alone and alone[1] else signs
            if not rest and left == "letter" and token[:1] == "#":
                rest = "#"
        elif place == last and right:
            rest = alone[1] if alone and alone[1] else signs
            if right == "number" and _POINT.search(token):
                rest += token[-1]
        elif right == "number" and signs and (_only(signs, "<>=") or not left):
            rest, joins_number = signs, True
        elif is_percent:
            rest, space = signs, ""
        elif numbers:
            rest = signs + _only(token, ":\u2014\u2015") * (token[-1:] not in ("", *",;"))
        elif alone and (alone[2] is None or place == last or not right or alone.end(2) < len(token)):
            rest = alone[1] or alone[2]
            space = "" if left else space
        else:
            rest = signs if left and right and _only(signs, "<>") else ""
        parts += [space, rest]
    return "".join(parts)


def _reduce_inside(left: _Kind, marks: str, right: _Kind) -> str:
    """Return which of the `marks` to keep between two characters of the kinds `left` and `right` that have no space
    between them.
    """
    core = "".join(mark for mark in marks if not _encloses(mark))
    if left == right == "number":
        return core or marks
    signs = _only(core, _SIGNS)
    if "symbol" in (left, right):
        return signs + (core[-1] if right == "number" and left == "symbol" and _POINT.search(core) else "")
    point = core[-1] if right == "number" and len(core) > 1 and _POINT.search(core) else ""
    if "^" in core:
        return _only(core, _SIGNS | {"^"}) + point
    if signs.strip("-"):
        return signs + point
    if right == "number" and len(core) > 1 and (signs or point):
        return core
    alone = _ALONE.search(marks)
    return f"({alone[1]})" if alone and alone[1] else ""


def _only(text: str, characters: frozenset[str] | str) -> str:
    return "".join(character for character in text if character in characters)


def _encloses(mark: str) -> bool:
    return mark in "\"'`" or unicodedata.category(mark) in ("Ps", "Pe", "Pi", "Pf")


def _make_compatible(text: str) -> str:
    """Return the text in NFKC, with `/` for fraction slashes, but leave characters unchanged where this would change a
    number.
    """
    if text.isascii():
        return text
    parts: list[str] = []
    start = 0
    for place, character in enumerate(text):
        if character > "\x7f" and _makes_other_number(text, place, after_kept=0 < place == start):
            parts += [unicodedata.normalize("NFKC", text[start:place]), character]
            start = place + 1
    return "".join([*parts, unicodedata.normalize("NFKC", text[start:])]).replace("\u2044", "/")


def _makes_other_number(text: str, place: int, *, after_kept: bool) -> bool:
    """Return whether the compatible form of the character at `place` would become part of an adjacent number.
    `after_kept` states whether the previous character was kept for this reason.
    """
    tag = unicodedata.decomposition(text[place]).partition(" ")[0]
    if not tag.startswith("<") or tag in _SAME_DIGITS:
        return False
    compatible = unicodedata.normalize("NFKC", text[place])
    if after_kept or text[place - 1 : place].isdigit():
        is_charge = compatible in _CHARGES and not after_kept and not text[place - 1].isdecimal()
        return (tag in _RAISED and not is_charge) or compatible[0].isdigit()
    return compatible[-1].isdigit() and text[place + 1 : place + 2].isdigit()


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


_functions: Final[dict[str, Callable[[str], str]]] = {
    "lowercase": str.casefold,
    "strip": str.strip,
    "remove_punctuation": remove_punctuation,
    "collapse_whitespace": _collapse_whitespace,
    "compatibility": _make_compatible,
    EXACT: str,
}


class SynonymMap(BaseModel, defer_build=True):
    """Replaces aliases with their canonical form: `SynonymMap(mapping={"asa": "aspirin"})`.

    The *whole* text is looked up after earlier normalizers, and case matters. Put "lowercase" and "strip" first, and
    write aliases in lower case. A canonical form is not replaced again, even if it is an alias as well. The mapping
    must not be empty, and aliases that look the same must have the same canonical form.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["synonym_map"] = "synonym_map"
    mapping: dict[str, str] = Field(
        min_length=1, description="aliases with their canonical forms, such as {asa: aspirin}"
    )

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        """Return the map. Raises `ValueError` if aliases that are equal when folded have different canonical forms."""
        for alias, canonical in self.mapping.items():
            if self._folded[fold(alias)] != fold(canonical):
                raise ValueError(
                    f"the alias {alias!r} occurs more than once with different canonical forms; keep only one"
                )
        return self

    @cached_property
    def _folded(self) -> dict[str, str]:
        """The mapping with all aliases and canonical forms folded."""
        return {fold(alias): fold(canonical) for alias, canonical in self.mapping.items()}

    def __call__(self, text: str) -> str:
        """Return the canonical form of `text`, or `text` itself if it is not an alias."""
        return self._folded.get(fold(text), text)

    def __hash__(self) -> int:
        return hash(frozenset(self.mapping.items()))


def _check_name(name: str) -> str:
    """Return `name`, or raise `ValueError` with the most similar name if there is no normalizer called that."""
    if name in _functions:
        return name
    near = get_close_matches(name, _functions, n=1)
    raise ValueError(
        f"unknown normalizer {name!r}{f'; did you mean {near[0]!r}?' if near else ''} (the "
        f"normalizers are {', '.join(_functions)}, and a mapping of synonyms, which is written as "
        "{type: synonym_map, mapping: {...}}, or in Python as SynonymMap)"
    )


Normalizer = Annotated[str, AfterValidator(_check_name)] | SynonymMap
"""A normalizer, given by name or as a `SynonymMap` (in JSON `{"type": "synonym_map", "mapping": {...}}`)."""


def _check_list(normalizers: Sequence[str | SynonymMap]) -> tuple[str | SynonymMap, ...]:
    """Return the normalizers as a tuple. Raises `ValueError` if "exact" is combined with others."""
    if EXACT in normalizers and len(normalizers) > 1:
        raise ValueError(
            f"{EXACT!r} compares code points, so it cannot be combined with other normalizers; "
            f"remove {EXACT!r} or the others"
        )
    return tuple(normalizers)


Normalizers = Annotated[Sequence[Normalizer], AfterValidator(_check_list)]
"""A list of normalizers that are applied in order. Unknown names are an error."""


def register_normalizer(name: str, function: Callable[[str], str]) -> None:
    """Register a normalizer. Registering the same function again has no effect. Raises `ValueError` if the name is
    taken, is empty or has surrounding spaces.
    """
    if not name or name != name.strip():
        raise ValueError(f"the normalizer name {name!r} is empty or has surrounding spaces")
    registered = _functions.setdefault(name, function)
    if registered is not function:
        one, other = (getattr(f, "__module__", None) or __name__ for f in (registered, function))
        raise ValueError(f"two normalizers are named {name!r}, one in {one} and one in {other}; rename one of them")


def known_normalizers() -> tuple[str, ...]:
    """Return the names of all normalizers."""
    return tuple(_functions)


def normalize(text: str, normalizers: Iterable[str | SynonymMap]) -> str:
    """Return `text` folded (see `fold`) and changed by all `normalizers` in order, or unchanged if the only one is
    "exact". Raises `ValueError` if a normalizer is unknown.
    """
    normalizers = tuple(normalizers)
    if normalizers == (EXACT,):
        return text
    text = fold(text)
    for normalizer in normalizers:
        if isinstance(normalizer, str):
            step = _functions.get(normalizer)
            text = step(text) if step is not None else _functions[_check_name(normalizer)](text)
            if normalizer == "compatibility" and "lowercase" in normalizers:
                text = text.casefold()  # compatible forms such as that of the numero sign have capitals
        else:
            text = normalizer(text)
    return fold(text)  # a normalizer may decompose a letter, as casefold does
