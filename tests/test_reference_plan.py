"""The order of the reference follows from the contracts, not from ranks or the order of discovery."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache

import pytest
from contracts import ALTERNATIVES, CONTRACTS, REFERENCE_ORDER, RELATIONS, Contract

from karenina_core import ANY, Question, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.plan import Plan, make_plan, order_stages
from karenina_core.plugins import Plugins
from karenina_core.stage_selection import SelectedStage
from karenina_core.stages.stage import RegisteredStage, registered_stages

SHIPPED = {offered.stage.name: offered for offered in registered_stages(plugin_room.active_plugins())}
BY_NAME = {one.name: one for one in CONTRACTS}
SWITCHED_ON = {"abstention_enabled": True, "sufficiency_enabled": True}
ALWAYS_PLANNED = [
    "ValidateTemplate",
    "GenerateAnswer",
    "RecursionLimitAutoFail",
    "TraceValidationAutoFail",
    "AbstentionCheck",
    "SufficiencyCheck",
    "ParseTemplate",
    "VerifyTemplate",
    "FinalizeResult",
]


def offered(contracts: Iterable[Contract]) -> list[RegisteredStage]:
    return [one.as_offered() for one in contracts]


@cache
def both_modes() -> VerificationConfig:
    with plugin_room.use_plugins(Plugins()):
        return VerificationConfig(evaluation_mode="template_and_rubric")


def full_plan(stages: list[RegisteredStage]) -> Plan:
    return make_plan(stages, both_modes(), Question(question="Which?"))


def with_random_ranks(contracts: Iterable[Contract], seed: int) -> list[str]:
    selected = [SelectedStage(one.as_stage()(), "contracts", "1", one.slot) for one in contracts]
    ranks = list(range(len(selected)))
    random.Random(seed).shuffle(ranks)
    return order_stages(
        selected, ranks={one.stage.name: rank for one, rank in zip(selected, ranks, strict=True)}
    ).names()


@cache
def orders(absent: str | None) -> list[list[str]]:
    """Return the orders of all stages but one with 200 random ranks."""
    present = [one for one in CONTRACTS if one.name != absent]
    return [with_random_ranks(present, seed) for seed in range(200)]


def pairs_of(contracts: Iterable[Contract]) -> set[tuple[str, str]]:
    """Return every pair that the contracts order, worked out here without the plan's own code."""
    contracts = list(contracts)
    slots = {one.name: one.slot for one in contracts}
    pairs = set()
    for one in contracts:
        for other in contracts:
            if other is one:
                continue
            reads = one.requires | (frozenset() if one.optional is ANY else one.optional) | one.revises
            if one.optional is ANY or reads & other.produces:
                pairs.add((other.name, one.name))
            if {other.name, slots[other.name]} & one.after:
                pairs.add((other.name, one.name))
            if {other.name, slots[other.name]} & one.before:
                pairs.add((one.name, other.name))
            if (reads - one.revises) & other.revises:
                pairs.add((other.name, one.name))
    return pairs


def test_the_shipped_stages_declare_what_the_contracts_say() -> None:
    contracts = {**BY_NAME, **{one.name: one for one in ALTERNATIVES}}
    assert set(SHIPPED) <= set(contracts)
    for name, shipped in SHIPPED.items():
        expected, stage = contracts[name], shipped.stage
        assert shipped.slot is expected.slot, name
        for relation in ("requires", "optional", "revises", "after", "before", "scope"):
            assert getattr(stage, relation) == getattr(expected, relation), (name, relation)
        assert stage.produces >= expected.produces, name
        assert {key: getattr(stage, key) for key in expected.extra} == expected.extra, name


def test_all_stages_have_the_reference_order_however_discovered() -> None:
    stages = offered(CONTRACTS)
    for seed in range(200):
        random.Random(seed).shuffle(stages)
        assert full_plan(stages).names() == REFERENCE_ORDER


def test_installed_stages_have_the_reference_order_however_discovered() -> None:
    stages = list(registered_stages(plugin_room.active_plugins()))
    config = VerificationConfig(**SWITCHED_ON)
    planned = make_plan(stages, config, Question(question="Which?")).names()
    assert set(ALWAYS_PLANNED) <= set(planned)
    expected = [name for name in REFERENCE_ORDER if name in planned]
    for seed in range(200):
        random.Random(seed).shuffle(stages)
        assert make_plan(stages, config, Question(question="Which?")).names() == expected


def test_with_ranks_permuted_at_random_every_relation_still_holds() -> None:
    pairs = pairs_of(CONTRACTS)
    assert len(pairs) > 40
    for seed in range(300):
        names = with_random_ranks(CONTRACTS, seed)
        place = {name: at for at, name in enumerate(names)}
        assert [pair for pair in pairs if place[pair[0]] > place[pair[1]]] == []


@pytest.mark.parametrize(
    ("second", "first", "relation", "what", "absent"), RELATIONS, ids=[f"{one[0]}-{one[1]}" for one in RELATIONS]
)
def test_deleting_a_named_relation_lets_its_pair_swap(
    second: str, first: str, relation: str, what: object, absent: str | None
) -> None:
    present = [one for one in CONTRACTS if one.name != absent]
    broken = [one.without(relation, what) if one.name == second else one for one in present]
    whole = {names.index(first) < names.index(second) for names in orders(absent)}
    mutilated = set()
    for seed in range(200):
        names = with_random_ranks(broken, seed)
        mutilated.add(names.index(first) < names.index(second))
        if len(mutilated) == 2:
            break
    assert whole == {True}
    assert mutilated == {True, False}
