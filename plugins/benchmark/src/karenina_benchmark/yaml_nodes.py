"""The nodes of a YAML document, from libyaml or PyYAML's own parser, with the same results.

On most systems, PyYAML includes libyaml, which is twenty times as fast. Its messages and some of its rules differ, so
documents that libyaml does not accept are parsed again by PyYAML's own parser, which then reports the error.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from karenina_toolkit.files.json_values import MAX_DEPTH, has_lone_surrogate
from karenina_toolkit.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from yaml.composer import ComposerError

CORE: Final = "tag:yaml.org,2002:"
NULL: Final = lazy_pattern(r"~|null|Null|NULL|")
BOOL: Final = lazy_pattern(r"true|True|TRUE|false|False|FALSE")
INT: Final = lazy_pattern(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT: Final = lazy_pattern(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
TEXT: Final = CORE + "str"
MERGE: Final = CORE + "merge"
_SEQUENCE: Final = CORE + "seq"
_MAPPING: Final = CORE + "map"
_TAGS: Final = {
    MERGE: lazy_pattern("<<"),
    f"{CORE}null": NULL,
    f"{CORE}bool": BOOL,
    f"{CORE}int": INT,
    f"{CORE}float": FLOAT,
}
_KNOWN_TAGS: Final = {TEXT, _SEQUENCE, _MAPPING, *_TAGS}
_ODD: Final = lazy_pattern("\r(?!\n)|[\x85\u2028\u2029\ufeff]")
"""Unusual line breaks and byte-order marks."""
_BLOCK_START: Final = lazy_pattern(r"(&[\w-]+ +)?[|>][-+0-9]{0,2} *( #.*)?\r?")
"""The first line of a block."""
_MOST_CACHED: Final = 1024
_FIRST: Final = frozenset("<~nNtTfF.+-0123456789")
"""The first characters of unquoted text that may be something other than a string."""


@dataclass(eq=False, slots=True)
class ScalarNode:
    """A scalar with its text, the line on which it starts (from 0), and whether it is a block (`|`)."""

    tag: str
    value: str
    line: int
    block: bool


@dataclass(eq=False, slots=True)
class SequenceNode:
    """A sequence with the line on which it starts."""

    tag: str
    value: list[Node]
    line: int


@dataclass(eq=False, slots=True)
class MappingNode:
    """A mapping as pairs of keys and values, with the line on which it starts."""

    tag: str
    value: list[tuple[Node, Node]]
    line: int


Node = ScalarNode | SequenceNode | MappingNode


class _Parser(Protocol):
    """A PyYAML parser, implemented in C or in Python."""

    def get_event(self) -> Any: ...


class TooManyValues(Exception):
    """Raised if a YAML document contains too many values."""

    def __init__(self, line: int, limit: int) -> None:
        super().__init__(line, limit)
        self.line = line
        self.limit = limit


class TooDeep(Exception):
    """Raised if a YAML document is nested more deeply than `MAX_DEPTH`."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Uncertain(Exception):
    """Raised if PyYAML's own parser may read a document differently from libyaml, or reject it."""


def compose(text: str, max_nodes: int) -> Node | None:
    """Return the root of a YAML document, or None if it is empty. Raises `TooManyValues` for more than `max_nodes`
    values, `TooDeep` for more levels than `MAX_DEPTH`, `yaml.YAMLError` if the text is not YAML, and `ValueError` or
    `OverflowError` for an escape that is not a character.
    """
    import yaml

    if _has_libyaml() and not _ODD.search(text):
        with suppress(yaml.YAMLError, UnicodeError, _Uncertain):
            return _Composer(yaml.CSafeLoader(text), max_nodes, _Differences(text)).compose_document()
    return _Composer(yaml.SafeLoader(text), max_nodes).compose_document()


def _has_libyaml() -> bool:
    """Return whether libyaml can be used. It cannot if PyYAML has been imported twice, as in tests of pytest plugins,
    because the extension module is not loaded again, so its events and errors are not instances of PyYAML's new
    classes.
    """
    import yaml

    extension = sys.modules.get("yaml._yaml")
    return yaml.__with_libyaml__ and getattr(extension, "ScalarEvent", None) is yaml.ScalarEvent


class _Differences:
    """Finds places in a text that libyaml accepts but PyYAML's own parser reads differently or rejects."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tabs = text.count("\t")

    def check(self, event: Any, *, is_scalar: bool, flow: bool) -> None:
        """Raise `_Uncertain` if libyaml and PyYAML's own parser may read the value that starts with `event`
        differently. `flow` is true inside `[]` or `{}`.
        """
        if event.tag is not None and event.tag not in _KNOWN_TAGS:
            raise _Uncertain
        if not is_scalar:
            return
        style = event.style
        if not style:
            if flow and "?" in event.value:
                raise _Uncertain
        elif style in "|>" or self._tabs:
            written = self._text[event.start_mark.index : event.end_mark.index]
            if style in "|>":
                first, _, written = written.partition("\n")
                if not _BLOCK_START.fullmatch(first):
                    raise _Uncertain
            elif event.tag is not None or event.anchor is not None:
                return  # a tab may stand after it
            self._tabs -= written.count("\t")

    def check_end(self, root: Node) -> None:
        """Raise `_Uncertain` if there are tabs outside of quotes and blocks, or if the document is only a scalar."""
        if self._tabs or isinstance(root, ScalarNode):
            raise _Uncertain


class _Composer:
    """Builds nodes from the events of a parser."""

    def __init__(self, parser: _Parser, max_nodes: int, differences: _Differences | None = None) -> None:
        import yaml  # only here, because even an import that is done takes time for each node

        self._events = yaml
        self._next = parser.get_event
        self._max_nodes = max_nodes
        self._differences = differences
        self._anchors: dict[str, Node] = {}
        self._nodes = 0

    def compose_document(self) -> Node | None:
        """Return the root of the only document, or None if there is none. Raises `_Uncertain`, and the same errors as
        `compose`.
        """
        stream_end = self._events.StreamEndEvent
        self._next()
        if isinstance(self._next(), stream_end):
            return None
        root = self._compose(self._next(), flow=False, depth=0)
        self._next()
        event = self._next()
        if not isinstance(event, stream_end):
            raise _error("but found another document", event.start_mark)
        if self._differences is not None:
            self._differences.check_end(root)
        return root

    def _compose(self, event: Any, flow: bool, depth: int) -> Node:
        """Read the rest of the node that an event starts, and return it, or return the node that an alias refers to.
        `flow` is true inside `[]` or `{}`, and `depth` is the number of lists and mappings around the node. Raises an
        error for an invalid anchor or alias, and `TooManyValues` or `TooDeep` beyond the limits.
        """
        events, line, anchor = self._events, event.start_mark.line, event.anchor
        self._nodes += 1
        if self._nodes > self._max_nodes:
            raise TooManyValues(line + 1, self._max_nodes)
        if depth > MAX_DEPTH:
            raise TooDeep(line + 1)
        if isinstance(event, events.AliasEvent):
            if anchor not in self._anchors:
                raise _error(f"found undefined alias {anchor!r}", event.start_mark)
            return self._anchors[anchor]
        if anchor is not None and anchor in self._anchors:
            raise _error("second occurrence", event.start_mark)
        is_scalar = isinstance(event, events.ScalarEvent)
        if self._differences is not None:
            self._differences.check(event, is_scalar=is_scalar, flow=flow)
        tag = None if event.tag == "!" else event.tag
        node: Node
        if is_scalar:
            tag = tag or (_resolve(event.value) if event.implicit[0] else TEXT)
            value = event.value
            if has_lone_surrogate(value):  # halves of a character, as JSON escapes it
                value = value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            node = ScalarNode(tag, value, line, event.style == "|")
            if anchor is not None:
                self._anchors[anchor] = node
            return node
        in_flow, inside = event.flow_style, depth + 1
        if isinstance(event, events.SequenceStartEvent):
            entries: list[Node] = []
            node = SequenceNode(tag or _SEQUENCE, entries, line)
            if anchor is not None:
                self._anchors[anchor] = node
            while not isinstance(entry := self._next(), events.SequenceEndEvent):
                entries.append(self._compose(entry, in_flow, inside))
            return node
        pairs: list[tuple[Node, Node]] = []
        node = MappingNode(tag or _MAPPING, pairs, line)
        if anchor is not None:
            self._anchors[anchor] = node
        while not isinstance(key := self._next(), events.MappingEndEvent):
            pairs.append((self._compose(key, in_flow, inside), self._compose(self._next(), in_flow, inside)))
        return node


def _error(problem: str, mark: Any) -> ComposerError:
    """Return an error like those raised by PyYAML's composer."""
    from yaml.composer import ComposerError

    return ComposerError(None, None, problem, mark)


@lru_cache(_MOST_CACHED)
def _resolve(text: str) -> str:
    """Return the tag of an unquoted scalar."""
    if text and text[0] not in _FIRST:
        return TEXT
    return next((tag for tag, pattern in _TAGS.items() if pattern.fullmatch(text)), TEXT)
