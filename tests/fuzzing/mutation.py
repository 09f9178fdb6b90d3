"""Nearly valid inputs: valid documents, and strategies that break them in a few places."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from hypothesis import strategies as st

from fuzzing.law import CODE

T = TypeVar("T")
OUTSIDE: Final = "@OUTSIDE@"
"""A placeholder for the folder that no input may reach; `placed` replaces it by the path."""


@dataclass(frozen=True)
class Raw:
    """A token that is written unchanged."""

    text: str


class Pairs(list[tuple[Any, Any]]):
    """An object whose keys may repeat."""


Tree: TypeAlias = Any  # JSON values, with `Pairs` for objects and `Raw` for tokens
_TEMPLATE = "class Answer(BaseAnswer):\n    gene: str = VerifiedField(description='d', ground_truth={}, verify_with={})"

NUMBERS: Final[tuple[Tree, ...]] = (
    *(0, -1, 1, 2, 0.1, -0.0, 1e308, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400),
    *(Raw("1" + "0" * 4999), Raw("-" + "9" * 5000), Raw("0x" + "f" * 5000), Raw("1e999"), Raw("1e-999")),
    *(Raw("1e99999999999999999999"), Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw(".nan"), Raw("-.inf")),
    *(Raw("01"), Raw("1_000"), Raw("+1"), Raw("0o17"), Raw("12:30:45"), Raw("2024-02-30"), Raw("true"), Raw("NO")),
)
TEXTS: Final[tuple[Tree, ...]] = (
    *("", " ", "\n", "\x00", "a\x00b", "\ud800", "x\udfff", Raw('"\\ud800"'), Raw('"\\ud83d\\u0041"'), "\ufeffx"),
    *(
        "\u202etxt",
        "é" * 300,
        "x" * 70_000,
        "\r\n",
        "\x85\u2028",
        "\x1b[2J",
        "٣",
        "½",
        "1e5",
        "NaN",
        "None",
        "9" * 5000,
    ),
    *("../secret.csv", f"{OUTSIDE}/secret.csv", f"{OUTSIDE}/secret.jsonl", f"{OUTSIDE}/new.txt", "file:///etc/passwd"),
    *(
        "/dev/full",
        "/dev/stdin",
        ".",
        "..",
        "~",
        "a/" * 2000,
        "x" * 300,
        "con\x00.yaml",
        "C:\\x",
        "http://127.0.0.1:9/",
    ),
    *("${HOME}", "${PATH", "$HOME", "{column}", "{0.__class__}", "%s%n", "<script>", "<!--", "&lt;", "=1+1", "'", '"'),
    *(
        "(a+)+$",
        "(" * 1500 + ")" * 1500,
        "a{60000}{60000}",
        "(?i",
        "[",
        "\\",
        "(?P<a>x)(?P<a>y)",
        "(?<=a+)b",
        "\\p{Nope}",
    ),
    *(
        CODE,
        f"touch {OUTSIDE}/started",
        f"lambda text: {CODE}",
        f"!!python/object/apply:os.system ['touch {OUTSIDE}/s']",
    ),
    *(f"def f(text):\n    return {CODE}", _TEMPLATE.format(CODE, "ExactMatch()"), _TEMPLATE.format("'x'", CODE)),
    *(_TEMPLATE.format("1" + "0" * 5000, "ExactMatch()"), _TEMPLATE.format("[" * 150 + "]" * 150, "ExactMatch()")),
    *(
        _TEMPLATE.format("'x'", "RegexMatch(pattern='" + "(" * 900 + "')"),
        "class Answer(BaseAnswer):\n    x: int = 10**99",
    ),
    *(f"{CODE}\nclass Answer(BaseAnswer):\n    x: int", "-" * 4000 + "1", "x: " * 3000, "gASVIAAAAAAAAACMBXBvc2l4"),
    *(
        "9999-12-31T23:59:60Z",
        "0000-00-00",
        "2024-02-30",
        "-1-1-1",
        "12:30",
        "1" * 40,
        "q1",
        "BCL2",
        "answer",
        "question",
    ),
)
SHAPES: Final[tuple[Tree, ...]] = (
    *(None, True, False, [], Pairs(), [[]], [None], [""], Pairs([("", "")]), [Pairs()], Pairs([("a", [])])),
    *(Raw("[" * 200 + "]" * 200), Raw("[" * 20_000 + "]" * 20_000), Raw('{"a":' * 3000 + "1" + "}" * 3000)),
    *(Raw("[" * 900 + "]" * 900), Raw('{"a":' * 450 + "1" + "}" * 450), Raw("{"), Raw("]"), Raw("")),
    *([1] * 3000, Pairs([(f"k{n}", n) for n in range(2000)]), Pairs([("a", 1), ("a", 2)]), Pairs([("column", "gold")])),
    *(Pairs([("type", "callable"), ("name", "n"), ("source", CODE)]), Pairs([("$ref", "#")]), Pairs([("type", "x")])),
)
HOSTILE: Final[tuple[Tree, ...]] = (*SHAPES, *TEXTS, *NUMBERS)
KEYS: Final = (
    *(
        "",
        "karenina",
        "id",
        "type",
        "name",
        "__class__",
        "__dict__",
        "__init__",
        "model_config",
        "verify",
        "self",
        "class",
    ),
    *("$ref", "@type", "@context", "\ud800", "a.b", "a b", "x" * 500, "None", "0", "-", "<<", "ground_truth", "unread"),
)
FRAGMENTS: Final = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"'",
        b":",
        b",",
        b"\n",
        b"\r",
        b"\t",
        b" ",
        b"\\",
        b"#",
        b"-",
        b"- ",
        b"? ",
        b"| ",
    ),
    *(
        b"&a ",
        b"*a",
        b"<<: *a\n",
        b"<<",
        b"!!python/name:os.system ",
        b"!!binary ",
        b"!!set ",
        b"!!float ",
        b"!x ",
        b"%",
    ),
    *(
        b"---\n",
        b"...\n",
        b"%YAML 9.9\n",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\x1a",
        b"\x7f",
        b"\xc0",
    ),
    *(
        b'"""',
        b"'''",
        b"[[",
        b"]]",
        b"=",
        b";",
        b"\\ud800",
        b"\\u0000",
        b"1e999",
        b"0x",
        b"NaN",
        b"null",
        b"true",
        b"{}",
    ),
    *(b"\xe2\x80\xa8", b"\xf4\x90\x80\x80", b"\x1b[31m", b"[" * 3000, b"{'a':" * 500, b"9" * 4500, b"&a [*a, *a]\n"),
)
What = Literal["replace", "splice", "delete", "repeat", "rename", "wrap", "insert", "append", "swap"]
_WHAT: Final[tuple[What, ...]] = ("replace", "splice", "delete", "repeat", "rename", "wrap", "insert", "append", "swap")
Op: TypeAlias = tuple[What, int, int]
TextOp: TypeAlias = tuple[int, int, int]

_FAR = st.integers(0, 1_000_000)


def choose_weighted(*choices: tuple[int, st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """Return one of several strategies, each as often as its weight says; `one_of` knows no weights."""
    places = [place for place, (weight, _) in enumerate(choices) for _ in range(weight)]
    return st.sampled_from(places).flatmap(lambda place: choices[place][1])


_OP: Final = st.tuples(st.sampled_from((*_WHAT[:1] * 4, *_WHAT)), _FAR, _FAR)
OPS: Final = choose_weighted((3, st.lists(_OP, min_size=1, max_size=1)), (1, st.lists(_OP, max_size=5)))
TEXT_OPS: Final = st.lists(st.tuples(st.integers(0, 5), _FAR, _FAR), min_size=1, max_size=3)


def parse_tree(value: Any) -> Tree:
    """Plain JSON values as a tree."""
    if isinstance(value, dict):
        return Pairs((key, parse_tree(entry)) for key, entry in value.items())
    return [parse_tree(entry) for entry in value] if isinstance(value, list | tuple) else value


def apply_changes(tree: Tree, ops: Sequence[Op], donors: Sequence[Tree] = ()) -> Tree:
    """Return `tree` after `ops`, which find their places by number, wherever it has become."""
    whole = [_copy(tree)]
    for op in ops:
        _change(whole, op, donors)
    return whole[0]


def shift_bytes(ops: Sequence[Op], number: int) -> list[Op]:
    """Other changes of the same kind, so that one input can stand for several where each costs some time."""
    return [(what, where + 977 * number, which + 131 * number) for what, where, which in ops]


def parts(tree: Tree) -> Iterator[Tree]:
    """Yield all subtrees."""
    yield tree
    if isinstance(tree, Pairs):
        for _, value in tree:
            yield from parts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from parts(value)


def _change(whole: list[Tree], op: Op, donors: Sequence[Tree]) -> None:
    what, where, which = op
    places = list(_places(whole))
    holder, index = places[where % len(places)]
    found = _get(holder, index)
    donor = donors[which % len(donors)] if donors else None
    hostile = HOSTILE[which % len(HOSTILE)]
    if what == "replace":
        _set(holder, index, hostile)
    elif what == "splice":
        _set(holder, index, _copy(donor))
    elif what == "delete" and holder is not whole:
        del holder[index]
    elif what == "repeat" and holder is not whole:
        holder.insert(which % (len(holder) + 1), _copy(holder[index]))
    elif what == "rename" and isinstance(holder, Pairs):
        names = [*KEYS, *(key for other, place in places if isinstance(other, Pairs) for key in [other[place][0]])]
        holder[index] = (names[which % len(names)], found)
    elif what == "wrap":
        _set(holder, index, [found] if which % 2 else Pairs([(KEYS[which % len(KEYS)], found)]))
    elif what == "insert" and isinstance(found, Pairs):
        found.insert(which % (len(found) + 1), (KEYS[which % len(KEYS)], _copy(donor)))
    elif what == "append" and isinstance(found, list) and not isinstance(found, Pairs):
        found.append(_copy(hostile if which % 2 else donor))
    elif what == "append" and isinstance(found, str):
        end = TEXTS[which % len(TEXTS)]
        _set(holder, index, found + end if isinstance(end, str) else end)
    elif what == "swap":
        other, place = places[which % len(places)]
        if other is not whole and holder is not whole:
            mine, theirs = _copy(_get(holder, index)), _copy(_get(other, place))
            _set(other, place, mine)
            _set(holder, index, theirs)


def _places(whole: Tree) -> Iterator[tuple[Tree, int]]:
    for index in range(len(whole)):
        yield whole, index
        value = _get(whole, index)
        if isinstance(value, list):
            yield from _places(value)


def _get(holder: Tree, index: int) -> Tree:
    return holder[index][1] if isinstance(holder, Pairs) else holder[index]


def _set(holder: Tree, index: int, value: Tree) -> None:
    value = _copy(value)
    if index < len(holder):
        holder[index] = (holder[index][0], value) if isinstance(holder, Pairs) else value


def _copy(tree: Tree) -> Tree:
    if isinstance(tree, Pairs):
        return Pairs((key, _copy(value)) for key, value in tree)
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree


def dump_json(tree: Tree) -> str:
    """Return the tree as JSON text; a lone surrogate is written as its escape."""
    if isinstance(tree, Raw):
        return tree.text
    if isinstance(tree, Pairs):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {dump_json(value)}" for key, value in tree) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(dump_json(value) for value in tree) + "]"
    if isinstance(tree, str):
        text = json.dumps(tree, ensure_ascii=False)
        return text if text.isascii() or not any("\ud800" <= ch <= "\udfff" for ch in text) else json.dumps(tree)
    return str(tree) if isinstance(tree, int) and not isinstance(tree, bool) else json.dumps(tree)


def dump_lines(tree: Tree) -> str:
    """Return the entries of a list as lines of JSON."""
    if isinstance(tree, list) and not isinstance(tree, Pairs):
        return "".join(dump_json(value) + "\n" for value in tree)
    return dump_json(tree)


def dump_toml(tree: Tree) -> str:
    """Return the tree as TOML, its top level as lines; None has no word there and is written as an empty text."""
    if isinstance(tree, Pairs):
        return "".join(f"{_toml_key(key)} = {_toml(value)}\n" for key, value in tree)
    return _toml(tree)


def _toml(tree: Tree) -> str:
    if isinstance(tree, Pairs):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml(value)}" for key, value in tree) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(_toml(value) for value in tree) + "]"
    return '""' if tree is None else dump_json(tree)


def _toml_key(key: object) -> str:
    text = str(key)
    return text if text.isascii() and text.isidentifier() else json.dumps(text)


def dump_yaml(tree: Tree, depth: int = 0) -> str:
    """Return the tree as YAML in block style, as people write it; texts are quoted as in JSON."""
    indent = "  " * depth
    if depth < 40 and isinstance(tree, Pairs) and tree:
        return "".join(f"\n{indent}{_yaml_key(key)}: {dump_yaml(value, depth + 1)}" for key, value in tree)
    if depth < 40 and isinstance(tree, list) and tree and not isinstance(tree, Pairs):
        return "".join(f"\n{indent}- {dump_yaml(value, depth + 1).lstrip()}" for value in tree)
    if isinstance(tree, str) and "\n" in tree and not tree[0].isspace() and _is_block(tree):
        return "|\n" + "\n".join(indent + "  " + line for line in tree.split("\n"))
    return dump_json(tree)


def _is_block(text: str) -> bool:
    return all(ch == "\n" or ch.isprintable() for ch in text)


def _yaml_key(key: object) -> str:
    text = str(key)
    return text if text.isascii() and text.isidentifier() else json.dumps(text)


def broken(data: bytes, ops: Sequence[TextOp]) -> bytes:
    """Return `data` after changes of single bytes, pieces and fragments."""
    for kind, where, which in ops:
        place = where % (len(data) + 1)
        length = which % 40 + 1
        if kind == 0:
            data = data[:place] + FRAGMENTS[which % len(FRAGMENTS)] + data[place:]
        elif kind == 1:
            data = data[:place] + data[place + length :]
        elif kind == 2:
            data = data[:place] + bytes([which % 256]) + data[place + 1 :]
        elif kind == 3:
            data = data[:place] + data[place : place + length * 10] + data[place:]
        elif kind == 4:
            data = data[:place]
        else:
            other = which % (len(data) + 1)
            data = data[:place] + data[other : other + length] + data[place + length :]
    return data


def documents(
    seeds: Sequence[Any], write: Callable[[Tree], str | bytes], *, texts: Sequence[bytes] = ()
) -> st.SearchStrategy[bytes]:
    """Documents: `seeds` changed as trees and then written, `texts` (and written seeds) changed as bytes, and both."""
    trees = [parse_tree(seed) for seed in seeds]
    donors = [part for tree in trees for part in parts(tree)]

    def written(tree: Tree) -> bytes:
        found = write(tree)
        return found if isinstance(found, bytes) else found.encode("utf-8", "surrogatepass")

    plain = [*texts, *(written(tree) for tree in trees)]
    by_tree = st.builds(lambda tree, ops: written(apply_changes(tree, ops, donors)), st.sampled_from(trees), OPS)
    by_bytes = st.builds(broken, st.sampled_from(plain), TEXT_OPS)
    both = st.builds(broken, by_tree, TEXT_OPS)
    return choose_weighted((6, by_tree), (2, by_bytes), (1, both))


def insert_path(data: bytes, outside: str) -> bytes:
    """Return `data` with the path of the folder that no input may reach."""
    return data.replace(OUTSIDE.encode(), outside.encode())
