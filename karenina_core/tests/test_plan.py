"""The plan follows from the declarations of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from karenina_core import ANY, ArtifactKey, ArtifactKeys, Question, Skip, Slot, Stage, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command
from karenina_core.errors import ConfigError
from karenina_core.plan import Plan, PlanError, WaitsFor, make_plan
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import RegisteredStage

A = ArtifactKey("test.a", int)
B = ArtifactKey("test.b", int)

MINIMUM = {
    Slot.VALIDATE_TEMPLATE: {ArtifactKeys.RAW_ANSWER_CLASS, ArtifactKeys.ANSWER_CLASS},
    Slot.GENERATE_ANSWER: {ArtifactKeys.RAW_LLM_RESPONSE},
    Slot.PARSE_TEMPLATE: {ArtifactKeys.PARSED_ANSWER},
    Slot.VERIFY_TEMPLATE: {ArtifactKeys.FIELD_VERIFICATION_RESULT},
    Slot.FINALIZE_RESULT: set(),
}


def stage(name: str, slot: Slot | None = None, **declared: Any) -> type[Stage]:
    return type(name, (Stage,), {"name": name, "for_slot": slot, **declared})


def offer(stage: type[Stage], owner: str = "test-plugin") -> RegisteredStage:
    return RegisteredStage(stage, owner, "1.0", stage.for_slot)


def skeleton(*leave_out: Slot) -> list[type[Stage]]:
    """Return one stage for each slot that takes exactly one."""
    ends = {Slot.FINALIZE_RESULT: {"optional": ANY}}
    return [
        stage(f"The{slot.value}", slot, produces=frozenset(keys), fallback=True, **ends.get(slot, {}))
        for slot, keys in MINIMUM.items()
        if slot not in leave_out
    ]


def plan(
    stages: Sequence[type[Stage]],
    *,
    failures: Mapping[str, str] | None = None,
    owners: Mapping[str, str] | None = None,
    **settings: Any,
) -> Plan:
    with plugin_room.use_plugins(Plugins()):
        config = VerificationConfig(**settings)
    offered = [offer(one, (owners or {}).get(one.name, "test-plugin")) for one in stages]
    return make_plan(offered, config, Question(question="Which?"), failures=(failures or {}).items())


def problems(stages: Sequence[type[Stage]], **settings: Any) -> str:
    with pytest.raises(PlanError) as caught:
        plan(stages, **settings)
    return "\n".join(caught.value.problems)


def test_consumers_come_after_producers() -> None:
    made = plan([*skeleton(), stage("Zed", produces={A}), stage("Abel", requires={A})])
    assert made.names().index("Zed") < made.names().index("Abel")


@pytest.mark.parametrize("mode", ["template_and_rubric", "rubric_only"])
def test_a_relation_to_an_empty_slot_orders_extra_stages(mode: str) -> None:
    rubric = stage("TheRubric", Slot.RUBRIC_EVALUATION, produces={ArtifactKeys.RUBRIC_RESULT}, fallback=True)
    between = [stage("Abel", after={Slot.PARSE_TEMPLATE}), stage("Zed", after={Slot.VERIFY_TEMPLATE})]
    names = plan([*skeleton(), rubric, *between], evaluation_mode=mode).names()
    chosen = [name for name in names if name in ("The2", "The7", "Abel", "The8", "Zed", "TheRubric")]
    expected = ["The2", "The7", "Abel", "The8", "Zed", "TheRubric"]
    assert chosen == [name for name in expected if name in names]
    assert ("The7" in names) == (mode != "rubric_only")


def test_a_relation_to_an_empty_slot_orders_slot_stages() -> None:
    late = stage("Late", Slot.ABSTENTION_CHECK, after={Slot.EMBEDDING_CHECK})
    early = stage("Early", Slot.EMBEDDING_CHECK, before={Slot.SUFFICIENCY_CHECK})
    names = plan([*skeleton(), late]).names()
    assert names.index("The8") < names.index("Late")
    names = plan([*skeleton(), early]).names()
    assert names.index("The2") < names.index("Early") < names.index("The7")


def test_optional_readers_come_after_a_producer_if_there_is_one() -> None:
    reader = stage("Abel", optional={A})
    assert "Abel" in plan([*skeleton(), reader]).names()
    made = plan([*skeleton(), reader, stage("Zed", produces={A})])
    assert made.names().index("Zed") < made.names().index("Abel")


def test_readers_come_after_the_last_reviser_except_by_before() -> None:
    made = plan(
        [
            *skeleton(),
            stage("Maker", produces={A}),
            stage("Zzz", revises={A}),
            stage("Reviser", revises={A}),
            stage("Abel", requires={A}),
            stage("Early", requires={A}, before={"Reviser", "Zzz"}),
        ]
    )
    names = made.names()
    assert names.index("Maker") < names.index("Early") < names.index("Reviser")
    assert names.index("Reviser") < names.index("Zzz") < names.index("Abel")


def test_relations_order_revisers_before_names_do() -> None:
    made = plan(
        [
            *skeleton(),
            stage("Maker", produces={A}),
            stage("Abel", revises={A}, after={"Zed"}),
            stage("Zed", revises={A}),
        ]
    )
    assert made.names().index("Zed") < made.names().index("Abel")


def test_after_and_before_take_stages_and_slots() -> None:
    made = plan(
        [
            *skeleton(),
            stage("Last", after={Slot.VERIFY_TEMPLATE, "Nobody"}),
            stage("First", before={Slot.GENERATE_ANSWER, "Nobody"}),
        ]
    )
    names = made.names()
    assert names.index("The8") < names.index("Last")
    assert names.index("First") < names.index("The2")


def test_an_extra_stands_as_early_as_its_artifacts_allow() -> None:
    words = stage("Words", requires={ArtifactKeys.RAW_LLM_RESPONSE})
    assert plan([*skeleton(), words]).names() == ["The1", "The2", "Words", "The7", "The8", "The13"]


def test_the_plan_says_what_each_stage_waits_for_and_why() -> None:
    made = plan([*skeleton(), stage("Maker", produces={A}), stage("Abel", requires={A}, after={Slot.VERIFY_TEMPLATE})])
    waits = next(one for one in made.stages if one.name == "Abel").waits_for
    assert WaitsFor("test.a", "Maker", "requires") in waits
    assert WaitsFor(None, "The8", "Abel declares after") in waits


def test_a_single_slot_takes_the_highest_precedence_or_the_fallback() -> None:
    keys = {"produces": frozenset({ArtifactKeys.PARSED_ANSWER}), "slot": Slot.PARSE_TEMPLATE}

    def wants(answer: bool | Skip) -> Any:
        return lambda self, config, question: answer

    low = stage("Low", precedence=10, included=wants(True), **keys)
    high = stage("High", precedence=20, included=wants(True), **keys)
    shy = stage("Shy", precedence=30, included=wants(Skip("nobody asked")), **keys)
    rest = skeleton()
    assert "The7" in plan([*rest, shy]).names()
    made = plan([*rest, low, high, shy])
    assert "High" in made.names()
    assert {"The7", "Low", "Shy"} & set(made.names()) == set()
    assert {left.name: left.why for left in made.left_out}["Shy"] == "nobody asked"


def test_two_stages_of_one_precedence_are_a_problem() -> None:
    keys = {"produces": frozenset({ArtifactKeys.PARSED_ANSWER}), "included": lambda *_: True, "precedence": 5}
    text = problems([*skeleton(), stage("One", Slot.PARSE_TEMPLATE, **keys), stage("Two", Slot.PARSE_TEMPLATE, **keys)])
    assert "One and Two have the same precedence" in text
    assert '[slots] parse_template = "..."' in text


def test_configuration_chooses_the_stage_of_a_slot_by_one_line() -> None:
    other = stage("Other", Slot.PARSE_TEMPLATE, produces=frozenset({ArtifactKeys.PARSED_ANSWER}))
    assert "Other" not in plan([*skeleton(), other]).names()
    made = plan([*skeleton(), other], slots={"parse_template": "Other"})
    assert "Other" in made.names()
    assert "The7" not in made.names()


def test_configuration_replaces_the_list_of_a_slot_for_many() -> None:
    checks = [stage(name, Slot.ABSTENTION_CHECK) for name in ("Check", "Another", "Third")]
    made = plan([*skeleton(), *checks], slots={"abstention_check": ["Third", "Check"]})
    assert [name for name in made.names() if name in ("Check", "Another", "Third")] == ["Check", "Third"]
    assert [left.why for left in made.left_out] == ["[slots] abstention_check selects other stages"]


@pytest.mark.parametrize(
    ("mode", "absent"),
    [
        ("template_only", {11, 12}),
        ("template_and_rubric", set()),
        ("rubric_only", {1, 6, 7, 8, 9, 10}),
    ],
)
def test_the_evaluation_mode_decides_which_slots_exist(mode: str, absent: set[int]) -> None:
    many = [stage(f"The{slot.value}", slot) for slot in Slot if slot not in MINIMUM]
    made = plan([*skeleton(), *many], evaluation_mode=mode)
    assert [int(name[3:]) for name in made.names()] == [number for number in range(1, 14) if number not in absent]


def test_stages_that_need_a_stage_left_out_are_left_out() -> None:
    shy = stage("Shy", produces={A}, included=lambda *_: Skip("switched off"))
    made = plan([*skeleton(), shy, stage("Needy", requires={A}, produces={B}), stage("Second", requires={B})])
    reasons = {left.name: left.why for left in made.left_out}
    assert reasons["Needy"] == "needs test.a from Shy, which was left out: switched off"
    assert reasons["Second"].startswith("needs test.b from Needy, which was left out")


def test_a_need_that_nobody_installed_meets_is_a_problem() -> None:
    assert "stage Needy needs the artifact 'test.a', which no installed stage produces" in problems(
        [*skeleton(), stage("Needy", requires={A})]
    )


def test_a_missing_producer_names_its_broken_plugin() -> None:
    text = problems([*skeleton(), stage("Needy", requires={A})], failures={"Maker": "ImportError: no module named x"})
    assert "Maker cannot be used: ImportError: no module named x" in text


def test_two_producers_of_one_artifact_are_a_problem() -> None:
    text = problems([*skeleton(), stage("One", produces={A}), stage("Two", produces={A})])
    assert "the artifact 'test.a' is produced by One and Two" in text


def test_one_artifact_with_two_types_is_a_problem() -> None:
    text = problems([*skeleton(), stage("One", produces={A}), stage("Two", requires={ArtifactKey("test.a", str)})])
    assert "int for One; str for Two" in text


def test_a_cycle_is_told_with_the_reason_of_every_edge() -> None:
    text = problems([*skeleton(), stage("One", requires={A}, produces={B}), stage("Two", requires={B}, produces={A})])
    assert "Two after One (requires test.b)" in text
    assert "One after Two (requires test.a)" in text


def test_an_empty_slot_names_what_is_installed_for_it() -> None:
    shy = stage("Shy", Slot.PARSE_TEMPLATE, produces=frozenset({ArtifactKeys.PARSED_ANSWER}))
    text = problems([*skeleton(Slot.PARSE_TEMPLATE), shy])
    assert (
        "slot parse_template needs a stage, but none was selected; the stages installed for this slot are Shy; "
        "choose one with [slots]" in text
    )


def test_an_empty_slot_names_the_distribution_to_install() -> None:
    assert install_command("karenina-template") in problems(skeleton(Slot.PARSE_TEMPLATE))


def test_a_stage_must_produce_what_its_slot_requires() -> None:
    idle = stage("Idle", Slot.PARSE_TEMPLATE, fallback=True)
    text = problems([*skeleton(Slot.PARSE_TEMPLATE), idle])
    assert "Idle of test-plugin fills slot parse_template without producing parsed_answer" in text


def test_an_unknown_stage_in_slots_suggests_the_nearest_name() -> None:
    assert "no installed plugin offers it; did you mean 'The7'?" in problems(
        skeleton(), slots={"parse_template": "The77"}
    )


def test_a_stage_for_another_slot_cannot_be_named() -> None:
    assert "which is a stage for slot generate_answer" in problems(skeleton(), slots={"parse_template": "The2"})


def test_all_problems_come_at_once() -> None:
    text = problems(
        [
            *skeleton(Slot.VERIFY_TEMPLATE),
            stage("One", produces={A}),
            stage("Two", produces={A}),
            stage("Needy", requires={B}),
        ]
    )
    assert len(text.splitlines()) == 3


def test_an_answer_stage_cannot_wait_for_an_item_stage() -> None:
    text = problems([*skeleton(), stage("Item", produces={A}), stage("Answer", requires={A}, scope="answer")])
    assert "Answer runs once for all judges of an answer and cannot come after Item" in text


def test_answer_stages_come_first() -> None:
    made = plan([*skeleton(), stage("Aaa"), stage("Zzz", scope="answer")])
    assert made.names()[0] == "Zzz"


def test_an_exception_in_included_is_a_problem_of_the_plan() -> None:
    def broken(self: Stage, config: object, question: object) -> bool:
        raise KeyError("oops")

    text = problems([*skeleton(), stage("Broken", included=broken)])
    assert "Broken of test-plugin 1.0 failed in included() (KeyError: 'oops'); block it with [plugins]" in text


@pytest.mark.parametrize("answer", [None, "no", Skip])
def test_included_returns_a_bool_or_the_reason_to_skip(answer: object) -> None:
    text = problems([*skeleton(), stage("Forgetful", included=lambda self, config, question: answer)])
    kind = type(answer).__name__
    assert f"(TypeError: it must return True, False or Skip(reason), not {answer!r} ({kind})); block it with" in text


def test_a_stage_that_refuses_the_configuration_speaks_for_itself() -> None:
    def refuses(self: Stage, config: object, question: object) -> bool:
        raise ConfigError(["search_tool names 'tavily': pip install tavily-python"])

    text = problems([*skeleton(), stage("Refuses", included=refuses)])
    assert text == "search_tool names 'tavily': pip install tavily-python"


def test_two_stages_of_one_name_are_a_problem() -> None:
    twins = [offer(stage("Twin"), owner) for owner in ("left", "right")]
    with plugin_room.use_plugins(Plugins()):
        config = VerificationConfig()
    offered = [offer(one) for one in skeleton()]
    with pytest.raises(PlanError, match=r'\(left 1\.0 and right 1\.0\); choose one.*Twin = "left"'):
        make_plan([*offered, *twins], config, Question(question="Which?"))


def test_an_empty_slot_is_reported_once() -> None:
    needy = stage("Needy", requires={ArtifactKeys.PARSED_ANSWER})
    text = problems([*skeleton(), needy], failures={"Brk": "ImportError: x"}, slots={"parse_template": "Brk"})
    assert text == "[slots] parse_template selects Brk: its plugin cannot be used: ImportError: x"


def test_plugins_not_used_are_left_out_of_the_plan() -> None:
    made = plan(skeleton(), failures={"Gate": "ImportError: x", "The7": "[plugins.pick] selects another"})
    assert [(left.name, left.why) for left in made.left_out] == [("Gate", "its plugin is not used: ImportError: x")]


def test_stages_excluded_by_the_selection_are_left_out() -> None:
    blocked = {"ParseTemplate": "excluded by [plugins] or KARENINA_PLUGINS"}
    text = problems(skeleton(Slot.PARSE_TEMPLATE), failures=blocked)
    assert "ParseTemplate (excluded by [plugins] or KARENINA_PLUGINS)" in text
    assert "pip install" not in text
