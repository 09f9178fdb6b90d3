"""Order stages by their relations; ranks and names break ties, so that the same input always gives the same order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Node:
    """A stage as a node of the graph.

    `rank` is that of its slot, or None for a stage that only its relations place. Such a stage takes at least the rank
    `lowest`: that of the slots that it comes after, whether they are empty or not.
    """

    name: str
    rank: int | None
    scope: str = "item"
    lowest: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """The relation that `first` comes before `second`, with its reason, and the artifact that it is about, if any."""

    first: str
    second: str
    artifact: str | None
    why: str

    def __str__(self) -> str:
        what = f" {self.artifact}" if self.artifact is not None else ""
        return f"{self.second} after {self.first} ({self.why}{what})"


def sort_nodes(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[list[str], list[str]]:
    """Return the names in order, and the problems: a cycle, or an answer-scope stage that waits for an item's.

    Of the nodes with all predecessors placed, those of answer scope come first, then the lowest rank, then the first
    name. A node without a rank takes the highest rank among those that it waits for, and comes after them.
    """
    by_name = {node.name: node for node in nodes}
    problems = [
        f"{edge.second} runs once for all judges of an answer and cannot come after {edge.first}, which runs for each "
        f"item ({edge.why}{' ' + edge.artifact if edge.artifact else ''}): "
        f'change the relation, or give {edge.second} scope = "item"'
        for edge in edges
        if by_name[edge.second].scope == "answer" and by_name[edge.first].scope != "answer"
    ]
    sorter: TopologicalSorter[str] = TopologicalSorter({node.name: set() for node in nodes})
    ranks: dict[str, int] = {node.name: node.rank for node in nodes if node.rank is not None}
    waits: dict[str, list[str]] = {node.name: [] for node in nodes}
    for edge in edges:
        sorter.add(edge.second, edge.first)
        waits[edge.second].append(edge.first)
    try:
        sorter.prepare()
    except CycleError as error:
        return [], [*problems, _describe_cycle(error.args[1], edges)]

    ready: list[tuple[bool, int, bool, str]] = []
    placed: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            node = by_name[name]
            if node.rank is None:
                ranks[name] = max((ranks[other] for other in waits[name]), default=0)
                ranks[name] = max(ranks[name], node.lowest)
            heapq.heappush(ready, (node.scope != "answer", ranks[name], node.rank is None, name))
        name = heapq.heappop(ready)[-1]
        placed.append(name)
        sorter.done(name)
    return placed, problems


def _describe_cycle(cycle: Sequence[str], edges: Sequence[Edge]) -> str:
    """Return the reasons of the edges of a cycle, which graphlib lists so that each node comes before the next."""
    steps = [sorted(str(one) for one in edges if (one.first, one.second) == pair) for pair in pairwise(cycle)]
    reasons = "; ".join(" and ".join(step) for step in steps)
    return f"these stages wait for each other: {reasons}; change one of these relations or block one of the plugins"
