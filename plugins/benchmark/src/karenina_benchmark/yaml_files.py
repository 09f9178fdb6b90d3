"""Reads YAML 1.2 with line numbers, and writes YAML that every parser reads back unchanged.

Only plain values are built, and fewer types than with `safe_load`. The only booleans are `true` and `false`, so `no`,
`on` and `NO` (Norway) are strings. `010` is ten, `12:30` is a string, and dates are strings as written. A duplicate key
is an error, and all keys are strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.document import Document, Place, Section
from karenina_benchmark.errors import BenchmarkFileError, Problems
from karenina_benchmark.yaml_nodes import (
    BOOL,
    CORE,
    FLOAT,
    INT,
    MERGE,
    NULL,
    TEXT,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    TooDeep,
    TooManyValues,
    compose,
)
from karenina_toolkit.files import bounded_files
from karenina_toolkit.files.json_values import MAX_DEPTH, find_problem

if TYPE_CHECKING:
    import yaml


_MAX_DIGITS = (4000, 3500)
"""The maximum length of decimal and hexadecimal numbers. Python converts at most 4,300 decimal digits."""
_MAX_REPEATS = 100_000
_MIN_NODE_LIMIT = 10_000
_BYTES_PER_NODE = 400
"""The limit on bytes is divided by this to get the limit on values, which is 250,000 by default."""
_YAML_CURE = "correct the YAML; a string that contains one of : ? # , [ ] { } may need quotes"


_Pairs = dict[str, tuple[ScalarNode, Node]]


def parse(text: str, file: Path, problems: Problems | None = None) -> Section:
    """Parse a YAML document that must be a mapping. See `read`. Raises `BenchmarkFileError`, with the line, if the
    document is invalid or not a mapping.
    """
    document = read(text, file, problems)
    if not isinstance(document.value, Mapping):
        what = "the file must be a mapping of keys to values"
        raise BenchmarkFileError(file, "", what, "begin the file with `karenina: 1`")
    return Section(document, (), document.value)


def read(text: str, file: Path, problems: Problems | None = None) -> Document:
    """Parse a YAML document. The value of an empty document is None. Raises `BenchmarkFileError`, with the line, if the
    document is invalid or too large. If `problems` is given, duplicate keys and values that cannot be read are added to
    it instead, and the first value of a duplicate key is used.
    """
    import yaml

    collected = Problems() if problems is None else problems

    try:
        root = compose(text, max(_MIN_NODE_LIMIT, bounded_files.max_file_bytes() // _BYTES_PER_NODE))
        reader = _Reader(file, collected)
        value = reader.build(root, ()) if root is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = error.problem or error.context or ""
        if "<stream end>" in problem or "end of stream" in problem:
            what = "the YAML is not valid: the file ends while a value is still open"
            raise BenchmarkFileError(file, where, what, "look above for an unclosed [, { or quote") from error
        if "'\\t'" in problem:
            what = "the YAML is not valid: the line starts with a tab"
            raise BenchmarkFileError(file, where, what, "indent with spaces") from error
        what = f"the YAML is not valid: {problem}"
        raise BenchmarkFileError(file, where, what, _YAML_CURE) from error
    except yaml.YAMLError as error:
        raise BenchmarkFileError(file, "", f"the YAML is not valid: {error}", "remove the invalid character") from error
    except TooDeep as error:
        what = f"the value is nested more than {MAX_DEPTH} levels deep"
        raise BenchmarkFileError(file, f"line {error.line}", what, "reduce the nesting") from error
    except RecursionError as error:
        what = "aliases nest the values of the YAML too deeply"
        raise BenchmarkFileError(file, "", what, "write the values out") from error
    except TooManyValues as error:
        what, cure = f"the file has more than {error.limit:,} values", "convert it to JSON lines (.jsonl)"
        raise BenchmarkFileError(
            file,
            f"line {error.line}",
            what,
            f"{cure}, or {bounded_files.size_limit_cure(bounded_files.max_file_bytes())}",
        ) from error
    except (ValueError, OverflowError) as error:  # PyYAML accepts any number in an escape such as \U
        if isinstance(error, BenchmarkFileError):
            raise
        what = "a \\U escape in the YAML is not a valid character"
        raise BenchmarkFileError(file, "", what, "correct the escape") from error
    if problems is None:
        collected.raise_all()
    document = Document(file, value, reader.lines, reader.written, reader.text_lines)
    trouble = find_problem(value) if "\\u" in text or "\\U" in text or reader.deep else None
    if trouble is not None:
        line = document.line(trouble.path)
        raise BenchmarkFileError(file, f"line {line}" if line else "", trouble.what, trouble.cure)
    return document


class _Reader:
    """Builds plain values from YAML nodes, and records the line and source text of each place."""

    def __init__(self, file: Path, problems: Problems) -> None:
        self.text_lines: dict[Place, int] = {}
        self._problems = problems
        self.lines: dict[Place, int] = {}
        self.written: dict[Place, str] = {}
        self.deep = False
        self._file = file
        self._built: set[Node] = set()
        self._open: set[Node] = set()
        self._merging: set[Node] = set()
        self._merged: dict[Node, _Pairs] = {}
        self._repeats = 0

    def build(self, node: Node, path: Place) -> Any:
        """Return the plain value of a node at `path`. A scalar with an error becomes None, and its error is collected.
        Raises `BenchmarkFileError` for a cycle, an unsupported tag, and too many repetitions through aliases.
        """
        if node in self._built:
            if node in self._open:
                raise self._error(node, "an alias refers to a value that contains it", "write out the value instead")
            self._count_repeat(node)
        self._built.add(node)
        if len(path) > MAX_DEPTH:
            self.deep = True
        self.lines.setdefault(path, node.line + 1)
        if isinstance(node, ScalarNode):
            self.written[path] = node.value
            if node.block:
                self.text_lines[path] = node.line + 2
            return node.value if node.tag == TEXT else self._problems.attempt(self._scalar, node)
        self._open.add(node)
        value = self._mapping(node, path) if isinstance(node, MappingNode) else self._sequence(node, path)
        self._open.remove(node)
        return value

    def _sequence(self, node: SequenceNode, path: Place) -> list[Any]:
        self._check_tag(node, "seq")
        return [self.build(entry, (*path, place)) for place, entry in enumerate(node.value)]

    def _mapping(self, node: MappingNode, path: Place) -> dict[str, Any]:
        """Return the plain values of a mapping, including merged keys, and record the line of each key."""
        mapping: dict[str, Any] = {}
        for name, (key, value) in self._pairs(node).items():
            place = (*path, name)
            self.lines[place] = key.line + 1
            mapping[name] = self.build(value, place)
        return mapping

    def _pairs(self, node: MappingNode) -> _Pairs:
        """Return the key and value nodes of a mapping by name, with values merged by `<<` first. The mapping's own
        values override merged ones. Raises `BenchmarkFileError` for a mapping that is merged into itself.
        """
        known = self._merged.get(node)
        if known is not None:
            return known
        if node in self._merging:
            raise self._error(node, "an alias refers to a value that contains it", "write out the value instead")
        pairs = self._own_pairs(node)
        if MERGE in [key.tag for key, _ in node.value]:
            self._merging.add(node)
            merged: _Pairs = {}
            for key, value in node.value:
                if key.tag == MERGE:
                    self._merge_keys(value, merged)
            pairs = merged | {name: pair for name, pair in pairs.items() if pair[0].tag != MERGE}
        self._merged[node] = pairs
        return pairs

    def _own_pairs(self, node: MappingNode) -> _Pairs:
        """Return the nodes of a mapping's own keys and values, by key, with `<<` treated like any other key. A
        duplicate key is collected as an error, and its first value is kept. Raises `BenchmarkFileError` for a key that
        is not a scalar.
        """
        self._check_tag(node, "map")
        first: _Pairs = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise self._error(key, "a key must be a string", "put the key in quotes")
            name = key.value
            if name in first:
                what = f"the key {name!r} appears twice (first in line {first[name][0].line + 1})"
                self._problems.found.append(self._error(key, what, "remove one of them"))
            else:
                first[name] = key, value
        return first

    def _merge_keys(self, node: Node, merged: _Pairs) -> None:
        """Add the pairs of the mappings after `<<` to `merged`, unless it already contains their keys. Raises
        `BenchmarkFileError` for any other value after `<<`.
        """
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            if not isinstance(source, MappingNode):
                raise self._error(
                    source, "`<<` must be followed by a mapping or a list of mappings", "add one after `<<`"
                )
            self._count_repeat(node)
            for name, pair in self._pairs(source).items():
                self._count_repeat(node)
                merged.setdefault(name, pair)

    def _count_repeat(self, node: Node) -> None:
        """Count a value repeated by an alias. Raises `BenchmarkFileError` if there are more than `_MAX_REPEATS`."""
        self._repeats += 1
        if self._repeats > _MAX_REPEATS:
            raise self._error(node, "the aliases make this file too large", "write out the values instead")

    def _scalar(self, node: ScalarNode) -> Any:
        """Return the value of a scalar. Raises `BenchmarkFileError` if its text does not fit its tag."""
        text = node.value
        match node.tag.removeprefix(CORE):
            case "null":
                return None
            case "bool" if BOOL.fullmatch(text):
                return text.lower() == "true"
            case "int" if INT.fullmatch(text) and len(text) <= _MAX_DIGITS[text[:2] == "0x"]:
                return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
            case "float" if FLOAT.fullmatch(text):
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            case "str" | "!":
                return text
        raise self._error(
            node,
            f"{text[:60]!r} is not a valid {node.tag.removeprefix(CORE)}",
            "put the value in quotes to make it a string",
        )

    def _check_tag(self, node: SequenceNode | MappingNode, kind: str) -> None:
        """Raise `BenchmarkFileError` if a node has a tag other than the standard one for its kind."""
        if node.tag not in (CORE + kind, "!"):
            raise self._error(node, f"the tag {node.tag!r} is not supported", "write plain values")

    def _error(self, node: Node, what: str, cure: str) -> BenchmarkFileError:
        return BenchmarkFileError(self._file, f"line {node.line + 1}", what, cure)


def is_special(text: str) -> bool:
    """Return whether an unquoted string would be read as null, a boolean or a number."""
    return any(pattern.fullmatch(text) for pattern in (NULL, BOOL, INT, FLOAT))


_HIDDEN: Final = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f]")
"""Characters that are invisible or reverse the direction of text, except those that letters and emoji need."""


def dump(value: Any) -> str:
    """Return plain values as YAML text, with blocks for strings of several lines and escapes for invisible
    characters.
    """
    import yaml

    text: str = yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110, indent=2)
    return text if text.isascii() else _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04X}"


@cache
def _dumper() -> type[yaml.SafeDumper]:
    """Return the class that dumps YAML without aliases, and quotes strings that some YAML version would read as another
    type. It is defined here so that PyYAML is only imported when needed.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        """A dumper without aliases, which quotes strings that some YAML version would read as another type."""

        def ignore_aliases(self, data: object) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def represent_text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        """Represent a string. It is quoted if necessary, and written as a block if it has several lines."""
        style = None
        if is_special(data) or not all(ch == "\n" or (ch.isprintable() and ch not in "\ufeff") for ch in data):
            style = '"'
        elif "\n" in data:
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, represent_text)
    return Dumper
