"""Every result field and every setting of the reference exists under its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from karenina_core import VerificationConfig
from karenina_core.config import all_settings
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import (
    VerificationResultDeepJudgment,
    VerificationResultDeepJudgmentRubric,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
)

REFERENCE = Path(__file__).parents[2] / "shared" / "reference"
SECTIONS: dict[str, type[BaseModel]] = {
    "Overview": VerificationResult,
    "Metadata": VerificationResultMetadata,
    "Template Results": VerificationResultTemplate,
    "Rubric Results": VerificationResultRubric,
    "Deep Judgment (Templates)": VerificationResultDeepJudgment,
    "Deep Judgment (Rubrics)": VerificationResultDeepJudgmentRubric,
}
OF_IDENTITIES = {"interface", "model_name", "tools"}


def document(name: str) -> str:
    file = REFERENCE / name
    if not file.is_file():
        pytest.skip(f"the reference is not beside this checkout ({name})")
    return file.read_text("utf-8")


@pytest.mark.parametrize("title", SECTIONS)
def test_every_result_field_of_the_reference_is_in_its_section(title: str) -> None:
    text = document("verification-result.md")
    (section,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    fields = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) - OF_IDENTITIES
    assert fields
    assert fields - set(SECTIONS[title].model_fields) == set()


OWNED = {
    "karenina-core": "evaluation_mode answering_models parsing_models replicate_count parsing_only run_name "
    "use_full_trace_for_template use_full_trace_for_rubric rubric_trait_names prompt_config request_timeout",
    "karenina-generation": "few_shot_config",
    "karenina-template": "include_extraction_hints",
    "karenina-checks": "abstention_enabled sufficiency_enabled",
    "karenina-embedding": "embedding_check_enabled embedding_check_model embedding_check_threshold",
    "karenina-rubric": "rubric_evaluation_strategy",
    "karenina-deep-judgment": "deep_judgment_enabled deep_judgment_mode deep_judgment_max_excerpts_per_attribute "
    "deep_judgment_fuzzy_match_threshold deep_judgment_excerpt_retry_attempts deep_judgment_search_enabled "
    "deep_judgment_search_tool deep_judgment_rubric_mode deep_judgment_rubric_global_excerpts "
    "deep_judgment_rubric_config deep_judgment_rubric_max_excerpts_default "
    "deep_judgment_rubric_fuzzy_match_threshold_default deep_judgment_rubric_excerpt_retry_attempts_default "
    "deep_judgment_rubric_search_enabled deep_judgment_rubric_search_tool",
    "karenina-agentic": "agentic_parsing agentic_judge_context agentic_parsing_max_turns agentic_parsing_timeout "
    "workspace_root workspace_copy workspace_cleanup",
}
DEFAULTS = {
    "evaluation_mode": "template_only",
    "replicate_count": 1,
    "use_full_trace_for_template": False,
    "use_full_trace_for_rubric": True,
    "include_extraction_hints": True,
    "embedding_check_model": "all-MiniLM-L6-v2",
    "embedding_check_threshold": 0.85,
    "rubric_evaluation_strategy": "batch",
    "deep_judgment_mode": "disabled",
    "deep_judgment_max_excerpts_per_attribute": 3,
    "deep_judgment_fuzzy_match_threshold": 0.80,
    "deep_judgment_excerpt_retry_attempts": 2,
    "deep_judgment_search_tool": "tavily",
    "deep_judgment_rubric_mode": "disabled",
    "deep_judgment_rubric_global_excerpts": True,
    "deep_judgment_rubric_max_excerpts_default": 7,
    "agentic_parsing": False,
    "agentic_judge_context": "workspace_only",
    "agentic_parsing_max_turns": 15,
    "agentic_parsing_timeout": 120.0,
    "workspace_copy": True,
    "workspace_cleanup": True,
}


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in OWNED.items() for name in names.split()])
def test_every_reference_setting_has_its_owner_and_default(owner: str, name: str) -> None:
    found = all_settings()[name]
    assert found.owner == owner
    if name in DEFAULTS:
        assert found.default == DEFAULTS[name]


def test_the_embedding_check_keeps_the_references_environment_variables() -> None:
    for name in OWNED["karenina-embedding"].split():
        assert name.upper().replace("EMBEDDING_CHECK_ENABLED", "EMBEDDING_CHECK") in all_settings()[name].environment


@pytest.mark.parametrize(("mode", "keep"), [("none", "patch"), ("full", "all"), ("modified", "patch")])
def test_what_is_kept_of_workspaces_is_translated(mode: str, keep: str) -> None:
    assert VerificationConfig(workspace_output_mode=mode).setting("workspace_keep") == keep
