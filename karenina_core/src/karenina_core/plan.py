"""The plan: a question's stages in order, with the reasons for that order.

Relations determine the order of the stages. Ranks and names break ties, so that the same input always produces the same
order. Planning has no side effects.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from karenina_core.artifacts.artifact import ANY, AnyKey, Slot
from karenina_core.errors import KareninaError
from karenina_core.stage_selection import SelectedStage, select
from karenina_core.stages.stage import Stage
from karenina_core.stages.state import StageAccess
from karenina_core.text import to_html

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.stages.stage import RegisteredStage


class Node(NamedTuple):
    """A stage in the graph.

    `rank` is the rank of the stage's slot. If the stage has no slot, `rank` is None, and the stage is placed by its
    relations alone. Its rank is then at least `lowest`, the highest rank of the slots in its `after`. Empty slots count
    too.
    """

    name: str
    rank: int | None
    scope: str = "item"
    lowest: int = 0


class Edge(NamedTuple):
    """A relation between two stages: `first` comes before `second`.

    `why` is the reason for the relation. `artifact` is the artifact that it concerns, or None.
    """

    first: str
    second: str
    artifact: str | None
    why: str

    def __str__(self) -> str:
        artifact = f" {self.artifact}" if self.artifact is not None else ""
        return f"{self.second} after {self.first} ({self.why}{artifact})"


def sort_nodes(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[list[str], list[str]]:
    """Sort the nodes so that each comes after those it waits for; ties are broken by scope, rank and name. Return their
    names, or no names if there is a cycle, and any problems: cycles, and answer-scope stages that wait for item-scope
    stages.

    If several nodes can come next, those with answer scope come first, then those with the lowest rank, then the first
    name in alphabetical order. A node without a rank takes the highest rank among the nodes it waits for, and follows
    other nodes of that rank.
    """
    by_name = {node.name: node for node in nodes}
    problems = [
        f"{edge.second} runs once for all judges of an answer and cannot come after {edge.first}, which runs for each "
        f"item ({edge.why}{' ' + edge.artifact if edge.artifact else ''}); "
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
    """Explain why the nodes in `cycle` wait for each other. Each is followed by a node that waits for it."""
    steps = [sorted(str(edge) for edge in edges if (edge.first, edge.second) == pair) for pair in pairwise(cycle)]
    reasons = "; ".join(" and ".join(step) for step in steps)
    return f"these stages wait for each other: {reasons}; change one of these relations or block one of the plugins"


class PlanError(KareninaError):
    """Raised with all `problems` of a plan. Each states the cause and the configuration line that fixes it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("cannot make a plan:\n" + "\n".join(f"- {problem}" for problem in problems))
        self.problems = tuple(problems)


class WaitsFor(NamedTuple):
    """The reason why a stage runs after another: a relation, and its artifact (None for `after` and `before`)."""

    artifact: str | None
    stage: str
    why: str


class LeftOut(NamedTuple):
    """An installed stage that is not in the plan, and the reason."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class PlannedStage(StageAccess):
    """A stage in a plan, with all data that the pipeline needs to run it and to enforce its declarations."""

    stage: Stage
    version: str
    slot: Slot | None
    waits_for: tuple[WaitsFor, ...]
    producers: tuple[tuple[AnyKey, str], ...]


@dataclass(frozen=True)
class Plan:
    """The stages in the order in which they run, with answer-scope stages first, and the stages that were left out."""

    stages: tuple[PlannedStage, ...]
    left_out: tuple[LeftOut, ...] = ()

    def __repr__(self) -> str:
        return f"<Plan of {len(self.stages)} stages: {', '.join(self.names())}; {len(self.left_out)} left out>"

    def _repr_html_(self) -> str | None:
        """Return the plan as HTML for a notebook, or None to show it as text."""
        return to_html(self)

    def names(self) -> list[str]:
        """Return the names of the stages in the order in which they run."""
        return [planned.name for planned in self.stages]

    def of_scope(self, scope: str) -> tuple[PlannedStage, ...]:
        """Return the stages with the given scope (`answer` or `item`) in the order in which they run."""
        return tuple(planned for planned in self.stages if planned.stage.scope == scope)

    @cached_property
    def naming_folders(self) -> tuple[PlannedStage, ...]:
        """The stages that name folders on which results depend (see `Stage.source_folders`)."""
        return tuple(one for one in self.stages if type(one.stage).source_folders is not Stage.source_folders)


def make_plan(
    offered: Iterable[RegisteredStage],
    config: VerificationConfig,
    question: Question,
    *,
    failures: Iterable[tuple[str, str]] = (),
    conflicts: Iterable[str] = (),
    known: dict[frozenset[tuple[str, str]], Plan] | None = None,
) -> Plan:
    """Plan the stages for `question`, or return the plan in the cache `known` for the same stages, whose `left_out`
    belongs to an earlier question. Raises `PlanError` with all problems, also with `conflicts` and, if one of its
    stages is needed, with the reason of a plugin in `failures`.

    `failures` pairs unusable plugins with the reasons. `conflicts` contains problems with names that several
    distributions offer. The order of `offered` does not matter. `known` is keyed by the names and distributions of the
    stages.
    """
    selection = select(offered, config, question, dict(failures), conflicts)
    if selection.problems:
        raise PlanError(selection.problems)
    stages = frozenset((stage.stage.name, stage.distribution) for stage in selection.stages)
    plan = known.get(stages) if known is not None else None
    if plan is None:
        plan = order_stages(selection.stages, selection.left_out)
        if known is not None:
            known[stages] = plan
    return plan


def order_stages(
    selected: Sequence[SelectedStage],
    left_out: Sequence[tuple[str, str]] = (),
    ranks: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan for the selected stages: their order and the reasons for it. `left_out` contains pairs of a
    stage's name and why it is not in the plan; `ranks` replaces the ranks of slots, by stage name. Raises `PlanError`
    if there is a cycle, or if an answer-scope stage waits for an item-scope stage.

    Tests permute `ranks` to prove that ranks only break ties.
    """
    nodes = [_make_node(choice, ranks) for choice in selected]
    edges, producers = make_edges(selected, ranks)
    placed, problems = sort_nodes(nodes, edges)
    if problems:
        raise PlanError(problems)
    by_name = {choice.stage.name: choice for choice in selected}
    return Plan(
        tuple(_make_planned_stage(by_name[name], edges, producers) for name in placed),
        tuple(LeftOut(name, why) for name, why in sorted(left_out)),
    )


def _make_node(choice: SelectedStage, ranks: Mapping[str, int] | None) -> Node:
    """Return the node for a stage. Its rank is that of its slot (None without a slot), limited by the slots in the
    stage's `after` and `before`. `ranks` maps stage names to ranks that replace those of the slots.
    """
    slot = choice.slot
    rank = None if slot is None else slot.value if ranks is None else ranks[choice.stage.name]
    lowest = max((slot.value for slot in choice.stage.after if isinstance(slot, Slot)), default=0)
    last = Slot.FINALIZE_RESULT.value
    highest = min((slot.value for slot in choice.stage.before if isinstance(slot, Slot)), default=last)
    if rank is not None:  # a relation to a slot counts even if the slot is empty
        rank = min(max(rank, lowest), highest)
    return Node(choice.stage.name, rank, choice.stage.scope, lowest)


def make_edges(
    selected: Sequence[SelectedStage], ranks: Mapping[str, int] | None = None
) -> tuple[list[Edge], dict[str, str]]:
    """Return all relations between stages as edges, and the name of the stage that produces each artifact. `ranks` has
    the same meaning as in `order_stages`.
    """
    producers = {key.name: choice.stage.name for choice in selected for key in choice.stage.produces}
    edges: list[Edge] = []
    for choice in selected:
        edges += _order_edges(choice, selected)
        if choice.slot is Slot.VERIFY_TEMPLATE:
            offering = [other.stage.name for other in selected if other.stage.offers and other is not choice]
            edges += [Edge(name, choice.stage.name, None, "known values") for name in offering]
        edges += _artifact_edges(choice, selected, producers)
    return _chain_revisers(selected, edges, ranks), producers


def _order_edges(one: SelectedStage, selected: Sequence[SelectedStage]) -> Iterable[Edge]:
    """Yield an edge for each relation that `one` declares in `after` and `before`."""
    for other in selected:
        names: set[str | Slot | None] = {other.stage.name, other.slot} if other is not one else set()
        if names & set(one.stage.after):
            yield Edge(other.stage.name, one.stage.name, None, f"{one.stage.name} declares after")
        if names & set(one.stage.before):
            yield Edge(one.stage.name, other.stage.name, None, f"{one.stage.name} declares before")


def _artifact_edges(one: SelectedStage, selected: Sequence[SelectedStage], producers: dict[str, str]) -> Iterable[Edge]:
    """Yield edges to `one` from the stages that produce artifacts that it reads or revises, and from those that revise
    what it only reads, unless it is `before` them. If `one` reads everything, there is an edge from every other stage.
    `producers` maps names of artifacts to names of stages.
    """
    stage = one.stage
    if stage.optional is ANY:
        others = (other.stage.name for other in selected if other is not one)
        yield from (Edge(name, stage.name, None, "reads everything") for name in others)
        return
    for relation, keys in (("requires", stage.requires), ("optional", stage.optional), ("revises", stage.revises)):
        for key in sorted(keys, key=lambda key: key.name):
            producer = producers.get(key.name)
            if producer is not None and producer != stage.name:
                yield Edge(producer, stage.name, key.name, relation)
            for other in selected:
                names: set[str | Slot | None] = {other.stage.name, other.slot}
                if key in other.stage.revises - stage.revises and other is not one and not names & set(stage.before):
                    yield Edge(other.stage.name, stage.name, key.name, f"{relation}, after it is revised")


def _chain_revisers(choices: Sequence[SelectedStage], edges: list[Edge], ranks: Mapping[str, int] | None) -> list[Edge]:
    """Return `edges` with additional edges that put the stages that revise the same artifact in the order of
    `sort_nodes`, as long as there are no problems with that order. `ranks` maps stage names to ranks that replace those
    of the slots, as in `order_stages`.
    """
    for name in sorted({key.name for choice in choices for key in choice.stage.revises}):
        revisers = [choice for choice in choices if any(key.name == name for key in choice.stage.revises)]
        if len(revisers) < 2:
            continue
        nodes = [_make_node(choice, ranks) for choice in choices]
        placed, problems = sort_nodes(nodes, edges)
        if problems:
            break
        chain = [stage for stage in placed if stage in {reviser.stage.name for reviser in revisers}]
        edges = edges + [Edge(first, second, name, "revises, one after another") for first, second in pairwise(chain)]
    return edges


def _make_planned_stage(choice: SelectedStage, edges: Sequence[Edge], producers: dict[str, str]) -> PlannedStage:
    """Return a selected stage with what the pipeline needs to know: what it waits for, which only `edges` decide, and
    which artifacts it reads and writes. `producers` maps artifact names to the stages that messages name.
    """
    stage = choice.stage
    waits = {WaitsFor(edge.artifact, edge.first, edge.why): None for edge in edges if edge.second == stage.name}
    everything = stage.optional is ANY
    declared = [] if everything else [*stage.requires, *stage.optional, *stage.revises, *stage.produces]
    return PlannedStage(
        stage=stage,
        name=stage.name,
        distribution=choice.distribution,
        version=choice.version,
        slot=choice.slot,
        usage_key=stage.usage_key or stage.name,
        scope=stage.scope,
        settings=stage.settings,
        question_settings=stage.question_settings,
        other_settings=stage.reads,
        waits_for=tuple(sorted(waits, key=lambda wait: (wait.stage, wait.artifact or "", wait.why))),
        producers=tuple(
            (key, producers.get(key.name, "its producer")) for key in sorted(stage.requires, key=lambda key: key.name)
        ),
        reads=frozenset(key.name for key in declared),
        writes=frozenset(key.name for key in stage.produces),
        revises=frozenset(key.name for key in stage.revises),
        offers=stage.offers,
        reads_everything=everything,
    )
