"""Order nodes by their relations; ranks and names break ties, so that the same input always gives the same order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Node:
    """A stage, seen from the plan. `rank` is its slot's, or None for one that is placed by its relations alone.

    `lowest` is the rank that a node without one has at least: that of the slots that it stands after, empty or not.
    """

    name: str
    rank: int | None
    scope: str = "item"
    lowest: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """`first` stands before `second`, because of `artifact` (None for a mere order) and for the reason `why`."""

    first: str
    second: str
    artifact: str | None
    why: str

    def __str__(self) -> str:
        what = f" {self.artifact}" if self.artifact is not None else ""
        return f"{self.second} after {self.first} ({self.why}{what})"


def sort_nodes(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[list[str], list[str]]:
    """The names in order, and the problems (a cycle with its reasons; an answer-scope node that waits for an item's).

    Among the nodes whose predecessors are placed comes first the one of answer scope, then of the lowest rank, then of
    the first name. A node without a rank takes the highest rank among those that it waits for, and stands behind them.
    """
    by_name = {node.name: node for node in nodes}
    problems = [
        f"{edge.second} runs once for all judges of an answer and cannot stand after {edge.first}, which runs for each "
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
    """The cycle as the reasons of its edges. graphlib lists it so that each node stands before the next one."""
    steps = []
    for first, second in pairwise(cycle):
        steps.append(" and ".join(sorted(str(edge) for edge in edges if (edge.first, edge.second) == (first, second))))
    reasons = "; ".join(steps)
    return f"these stages wait for each other: {reasons}; change one of these relations or block one of the plugins"
