"""Every setting has an effect in a whole run, shown with two values of each.

A plugin that brings a name adds its `Case` to `CASES`: the two values, what a run shows of each, and what else has to
be set for it. A name without a case fails here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from configured_runs import AGENT, FOUND, SAID, RunRecord, ScriptedJudge, install_embedding_library, run_everything
from otel_memory import take_telemetry

from karenina_core.config import all_settings
from karenina_core.models.ports import ErrorCategory


@dataclass(frozen=True)
class Case:
    """`shows(run)` is `seen[0]` under `values[0]` and `seen[1]` under `values[1]`. `ROOT` in a value is the folder of
    workspaces."""

    values: tuple[Any, Any]
    shows: Callable[[RunRecord], Any]
    seen: tuple[Any, Any]
    others: Mapping[str, Any] = field(default_factory=dict)
    judge: ScriptedJudge = field(default_factory=ScriptedJudge)
    answering: Mapping[str, Any] = field(default_factory=dict)


ROOT: Final = Path("ROOT")
WITH_RUBRIC: Final = {"evaluation_mode": "template_and_rubric"}
AGENTIC: Final = {"agentic_parsing": True, "workspace_root": ROOT}
FORTY: Final = {"replicate_count": 40}
DEEP: Final = {"deep_judgment_mode": "full"}
DEEP_RUBRIC: Final = {**WITH_RUBRIC, "deep_judgment_rubric_mode": "enable_all"}
EMBEDDING: Final = {
    "embedding_check_enabled": True,
    "embedding_check_model": str(ROOT),
    "embedding_check_threshold": 0.5,
}
NEARLY: Final = ScriptedJudge(quote="It was BCL2, that keeps cells alive")
ALTERED: Final = SAID.replace("BCL2", "BCL3")
INVENTED: Final = ScriptedJudge(quote="Nothing of the kind was ever said anywhere at all")
OTEL: Final = {"otel": True}
WRONG: Final = ScriptedJudge(says={"gene": "TP53"})
RECORDED: Final = {"id": "r", "interface": "manual", "model_name": "r", "manual_traces": {"q": SAID}}


def found(_query: str) -> str:
    return "FOUND-BY-ONE"


def found_otherwise(_query: str) -> str:
    return "FOUND-BY-ANOTHER"


def tool_names(run: RunRecord) -> set[str]:
    return {name for name in ("FOUND-BY-ONE", "FOUND-BY-ANOTHER") for text in run.for_risks if name in text}


PRICE, NO_PRICE = {"input": 1, "output": 1}, {"input": 0, "output": 0}


def failed(run: RunRecord) -> bool:
    return "not now" in (run.result.metadata.error or "")


def performed(run: RunRecord) -> bool:
    return run.result.deep_judgment is not None and run.result.deep_judgment.deep_judgment_performed


def left_in_root(run: RunRecord) -> int:
    return len(list(run.root.iterdir()))


def scored(run: RunRecord) -> list[str]:
    rubric = run.result.rubric
    assert rubric is not None
    return sorted({**(rubric.llm_trait_scores or {}), **(rubric.regex_trait_scores or {})})


def verdict(run: RunRecord) -> bool | None:
    return run.result.template.verify_result


ON_WORKERS: Final = ("ray_workers", "ray_address", "ray_patience")
"""Shown in plugins/ray/tests: workers know no model of a test's own process."""
ON_DISK: Final = ("full_results", "journal_sync", "kept_file_bytes", "kept_files_bytes")
"""Shown in the engine's tests of the journal's writer, of kept files and of outputs: they need files."""
OF_DRAFTS: Final = ("draft_templates", "draft_tries")
"""Shown in plugins/drafting/tests: they are for the runs of `karenina draft`."""
ON_TABLES: Final = ("template_files",)
"""Shown in test_chemistry_and_terms_in_files.py: it takes a primitive that reads a file."""
ON_RECORDINGS: Final = ("partial_recordings",)
"""Shown in test_cli_bad_input.py: it takes recordings."""
IN_CONVERSATIONS: Final = ("simulated_user", "check_user")
"""Shown in test_simulated_users.py: they take a question with a user."""
IN_CHECKS: Final = (
    *("sandbox", "sandbox_image", "sandbox_python", "sandbox_mounts", "sandbox_concurrency", "workspace_keep"),
)
"""Shown in test_check_runs.py: they take a question with checks."""

CASES: Final[dict[str, Case]] = {
    # karenina-core
    "evaluation_mode": Case(("template_only", "rubric_only"), lambda run: run.result.outcome, ("correct", "scored")),
    "answering_models": Case(
        ([RECORDED], [RECORDED, {**RECORDED, "id": "s"}]),
        lambda run: sorted(one.metadata.answering_id for one in run.results),
        (["r"], ["r", "s"]),
    ),
    "parsing_models": Case(
        tuple([{"id": id, "interface": "scripted", "model_name": "x"}] for id in "jk"),  # type: ignore[arg-type]  # two
        lambda run: run.result.metadata.parsing_id,
        ("j", "k"),
    ),
    "replicate_count": Case((1, 3), lambda run: len(run.asked("answer_generation")), (1, 3)),
    "parsing_only": Case((False, True), lambda run: "would be called" in (run.error or ""), (False, True)),
    "run_name": Case(("one", None), lambda run: run.result.metadata.run_name, ("one", None)),
    "use_full_trace_for_template": Case(
        (False, True), lambda run: FOUND in run.texts("parsing"), (False, True), answering=AGENT
    ),
    "use_full_trace_for_rubric": Case(
        (False, True), lambda run: FOUND in run.texts("rubric_evaluation"), (False, True), WITH_RUBRIC, answering=AGENT
    ),
    "rubric_trait_names": Case((None, ["named"]), scored, (["clear", "named", "warm"], ["named"]), WITH_RUBRIC),
    "prompt_config": Case(
        ({"parsing": "HEAR ME"}, {"generation": "HEAR ME"}),
        lambda run: ("HEAR ME" in run.texts("parsing"), "HEAR ME" in run.texts("answer_generation")),
        ((True, False), (False, True)),
    ),
    "request_timeout": Case((7.0, 8.0), lambda run: {one.request_timeout for one in run.models.made}, ({7.0}, {8.0})),
    "max_reply_bytes": Case((700, 800), lambda run: {one.max_reply_bytes for one in run.models.made}, ({700}, {800})),
    "stream_timeout": Case((7.0, 8.0), lambda run: {one.stream_timeout for one in run.models.made}, ({7.0}, {8.0})),
    "item_timeout": Case((1e-9, 60.0), lambda run: "item_timeout" in (run.result.metadata.error or ""), (True, False)),
    "run_timeout": Case((1e-9, 60.0), lambda run: len(run.results) == 400, (False, True), {"replicate_count": 400}),
    "max_concurrency": Case((1, 3), lambda run: run.models.most["a"], (1, 3), FORTY),
    "model_concurrency": Case(({"a": 2}, {"a": 4}), lambda run: run.models.most["a"], (2, 4), FORTY),
    "concurrency_start": Case((1, 3), lambda run: run.models.most["a"], (2, 3), {"replicate_count": 3}),
    "concurrency_ceiling": Case((2, 4), lambda run: run.models.most["a"], (2, 4), FORTY),
    "retry_connection": Case((0, 1), failed, (True, False), judge=ScriptedJudge(fails=ErrorCategory.CONNECTION)),
    "retry_timeout": Case((0, 1), failed, (True, False), judge=ScriptedJudge(fails=ErrorCategory.TIMEOUT)),
    "retry_rate_limit": Case((0, 1), failed, (True, False), judge=ScriptedJudge(fails=ErrorCategory.RATE_LIMIT)),
    "retry_server": Case((0, 1), failed, (True, False), judge=ScriptedJudge(fails=ErrorCategory.SERVER)),
    "retry_patience": Case((0.0, 9.0), failed, (True, False), judge=ScriptedJudge(fails=ErrorCategory.SERVER)),
    "budget": Case((0, 9), lambda run: len(run.results), (0, 1), {"prices": dict.fromkeys("aj", PRICE)}),
    "prices": Case(
        (dict.fromkeys("aj", NO_PRICE), dict.fromkeys("aj", PRICE)),
        lambda run: len(run.results),
        (1, 0),
        {"budget": 0},
    ),
    "slots": Case(
        ({}, {"recursion_limit_auto_fail": []}), lambda run: "RecursionLimitAutoFail" in run.stages, (True, False)
    ),
    "executor": Case(
        ("asyncio", "ray"), lambda run: "registered only in this process" in (run.error or ""), (False, True)
    ),
    "plugins": Case(
        ({}, {"block": ["RecursionLimitAutoFail"]}),
        lambda run: "RecursionLimitAutoFail" in run.stages,
        (True, False),
        {
            "answering_models": [RECORDED],
            "parsing_models": [],
            "evaluation_mode": "rubric_only",
            "rubric_trait_names": ["named"],
        },
    ),
    # karenina-generation
    "few_shot_config": Case(
        ({"mode": "all"}, {"mode": "k", "k": 1}),
        lambda run: [len(request.messages) for request in run.asked("answer_generation")],
        ([5], [3]),
    ),
    "strip_reasoning": Case(
        (True, False),
        lambda run: "I THOUGHT" in run.texts("parsing"),
        (False, True),
        {"answering_models": [{**RECORDED, "manual_traces": {"q": f"<think>I THOUGHT</think>{SAID}"}}]},
    ),
    # karenina-template
    "include_extraction_hints": Case((True, False), lambda run: "In capitals." in run.texts("parsing"), (True, False)),
    "list_rejected": Case((None, True), lambda run: "mentions but rejects" in run.texts("parsing"), (False, True)),
    "check_values": Case(
        (None, True), lambda run: "replaced by capital letters" in run.texts("parsing"), (False, True)
    ),
    # karenina-checks
    "abstention_enabled": Case((False, True), lambda run: len(run.asked("abstention_check")), (0, 1)),
    "sufficiency_enabled": Case((False, True), lambda run: len(run.asked("sufficiency_check")), (0, 1)),
    # karenina-embedding
    "embedding_check_enabled": Case((False, True), verdict, (False, True), EMBEDDING, WRONG),
    "embedding_check_model": Case(
        (str(ROOT / "task"), str(ROOT)),
        lambda run: Path(run.result.template.embedding_model_used or "").name,
        ("task", "root"),
        EMBEDDING,
        WRONG,
    ),
    "embedding_check_threshold": Case((0.7, 0.9), verdict, (True, False), EMBEDDING, WRONG),
    # karenina-otel
    "otel": Case((False, True), lambda run: bool(take_telemetry().spans), (False, True)),
    "otel_content": Case((False, True), lambda run: SAID in take_telemetry().text, (False, True), OTEL),
    "otel_span_events": Case(
        (False, True), lambda run: "gen_ai.evaluation.result" in take_telemetry().text, (False, True), OTEL
    ),
    "otel_trace_per_answer": Case((False, True), lambda run: len(take_telemetry().traces), (1, 2), OTEL),
    # karenina-rubric
    "rubric_evaluation_strategy": Case(
        ("batch", "sequential"), lambda run: len(run.asked("rubric_evaluation")), (1, 2), WITH_RUBRIC
    ),
    # karenina-deep-judgment
    "deep_judgment_enabled": Case((False, True), performed, (False, True)),
    "deep_judgment_mode": Case(
        ("reasoning_only", "full"), lambda run: (performed(run), bool(run.for_excerpts)), ((True, False), (True, True))
    ),
    "deep_judgment_max_excerpts_per_attribute": Case(
        (2, 5), lambda run: ["at most 2" in text for text in run.for_excerpts], ([True], [False]), DEEP
    ),
    "deep_judgment_fuzzy_match_threshold": Case((0.5, 1.0), verdict, (True, False), DEEP, NEARLY),
    "deep_judgment_exact_facts": Case((True, False), verdict, (False, True), DEEP, ScriptedJudge(quote=ALTERED)),
    "deep_judgment_excerpt_retry_attempts": Case((0, 2), lambda run: len(run.for_excerpts), (1, 3), DEEP, INVENTED),
    "deep_judgment_search_enabled": Case(
        (False, True), lambda run: len(run.for_risks), (0, 1), {**DEEP, "deep_judgment_search_tool": found}
    ),
    "deep_judgment_search_tool": Case(
        (found, found_otherwise),
        tool_names,
        ({"FOUND-BY-ONE"}, {"FOUND-BY-ANOTHER"}),
        {**DEEP, "deep_judgment_search_enabled": True},
    ),
    "deep_judgment_rubric_mode": Case(
        ("use_checkpoint", "enable_all"), lambda run: len(run.for_excerpts), (1, 2), WITH_RUBRIC
    ),
    "deep_judgment_rubric_global_excerpts": Case((True, False), lambda run: len(run.for_excerpts), (2, 0), DEEP_RUBRIC),
    "deep_judgment_rubric_config": Case(
        ({"global": {"warm": {"max_excerpts": 2}}}, {"question_specific": {"q": {"warm": {"max_excerpts": 4}}}}),
        lambda run: ["at most 2" in text for text in run.for_excerpts],
        ([True], [False]),
        {**WITH_RUBRIC, "deep_judgment_rubric_mode": "custom"},
    ),
    "deep_judgment_rubric_max_excerpts_default": Case(
        (2, 5), lambda run: ["at most 2" in text for text in run.for_excerpts], ([True] * 2, [False] * 2), DEEP_RUBRIC
    ),
    "deep_judgment_rubric_fuzzy_match_threshold_default": Case((0.5, 1.0), verdict, (True, False), DEEP_RUBRIC, NEARLY),
    "deep_judgment_rubric_excerpt_retry_attempts_default": Case(
        (0, 2), lambda run: len(run.for_excerpts), (2, 6), DEEP_RUBRIC, INVENTED
    ),
    "deep_judgment_rubric_search_enabled": Case(
        (False, True),
        lambda run: len(run.for_risks),
        (0, 2),
        {**DEEP_RUBRIC, "deep_judgment_rubric_search_tool": found},
    ),
    "deep_judgment_rubric_search_tool": Case(
        (found, found_otherwise),
        tool_names,
        ({"FOUND-BY-ONE"}, {"FOUND-BY-ANOTHER"}),
        {**DEEP_RUBRIC, "deep_judgment_rubric_search_enabled": True},
    ),
    # karenina-agentic
    "agentic_parsing": Case((False, True), lambda run: len(run.agents("agentic_parsing")), (0, 1), AGENTIC),
    "agentic_judge_context": Case(
        ("workspace_only", "trace_only"),
        lambda run: (SAID in run.asked("agentic_parsing")[0].text, run.agents("agentic_parsing")[0].workspace is None),
        ((False, False), (True, True)),
        AGENTIC,
    ),
    "agentic_parsing_max_turns": Case(
        (5, 9), lambda run: [one.max_turns for one in run.agents("agentic_parsing")], ([5], [9]), AGENTIC
    ),
    "agentic_parsing_timeout": Case(
        (5.0, 9.0), lambda run: [one.timeout for one in run.agents("agentic_parsing")], ([5.0], [9.0]), AGENTIC
    ),
    "workspace_root": Case(
        (ROOT, ROOT / "nowhere"), lambda run: run.result.metadata.error is None, (True, False), AGENTIC
    ),
    "workspace_copy": Case(
        (True, False),
        lambda run: [one.workspace.name == "task" for one in run.agents("answer_generation")],
        ([False], [True]),
        AGENTIC,
        answering=AGENT,
    ),
    "workspace_max_bytes": Case((2, 1), lambda run: run.result.metadata.error is None, (True, False), AGENTIC),
    "workspace_cleanup": Case((True, False), left_in_root, (1, 2), AGENTIC),
    # karenina-jury
    "jury": Case(
        (None, {}),
        lambda run: [one.metadata.parsing_id for one in run.results],
        (["j", "k"], ["jury(j,k)"]),
        {"parsing_models": [{"id": id, "interface": "scripted", "model_name": id} for id in "jk"]},
    ),
}


def placed(value: Any, root: Path) -> Any:
    """Return `value` with `root` for `ROOT`."""
    if isinstance(value, Path):
        return root / value.relative_to(ROOT)
    if isinstance(value, str) and value.partition(os.sep)[0] == str(ROOT):
        return str(root / Path(value).relative_to(ROOT))
    return value


def test_every_name_has_a_case_and_every_case_a_name() -> None:
    missing = {setting.name: setting.owner for setting in all_settings().values() if setting.name not in CASES}
    for name in (*ON_WORKERS, *ON_DISK, *ON_RECORDINGS, *ON_TABLES, *OF_DRAFTS, *IN_CONVERSATIONS, *IN_CHECKS):
        missing.pop(name, None)
    assert missing == {}
    from karenina_core.catalog import read_catalog

    assert set(CASES) <= set(all_settings()) | set(read_catalog()["settings"])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("which", [0, 1])
def test_a_name_has_its_effect(name: str, which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name not in all_settings():
        pytest.skip("its owner is not installed")
    install_embedding_library(monkeypatch.setitem)
    case = CASES[name]
    root = tmp_path / "root"
    for folder in (root, root / "task"):
        folder.mkdir()
    if "embedding" in name:
        for folder in (root, root / "task"):
            (folder / "config.json").write_text("{}", "utf-8")
    if name == "workspace_max_bytes":
        (root / "task/file.txt").write_text("12", "utf-8")
    take_telemetry()  # forgets the spans of earlier tests
    chosen = {**case.others, name: case.values[which]}
    run = run_everything(root, {key: placed(value, root) for key, value in chosen.items()}, case.judge, case.answering)
    assert name in ("parsing_only", "executor") or run.error is None, run.error
    assert case.shows(run) == case.seen[which]
    assert case.seen[0] != case.seen[1]
