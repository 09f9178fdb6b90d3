"""The settings for agentic judges and for workspaces, and the conditions under which these are needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from karenina_core import Slot
from karenina_core.data.rubrics import AgenticRubricTrait
from karenina_core.models.settings_models import AllowedInFiles
from karenina_toolkit.files.workspace_copy import MOST_BYTES

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig

PARSING_STAGE: Final = "AgenticParseTemplate"
_PARSE_SLOT: Final = Slot.PARSE_TEMPLATE.config_name
JudgeContext = Literal["workspace_only", "trace_and_workspace", "trace_only"]


class AgenticSettings(BaseModel, defer_build=True):
    """The settings for agentic evaluation."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    agentic_parsing: bool = Field(default=False, description="Have an agent investigate before the template is filled.")
    agentic_judge_context: JudgeContext = Field(
        default="workspace_only",
        description="What the agent sees: the workspace, the answer (see use_full_trace_for_template), or both.",
    )
    agentic_parsing_max_turns: int = Field(
        default=15, ge=1, description="Maximum number of assistant turns in one investigation."
    )
    agentic_parsing_timeout: float = Field(
        default=120.0,
        gt=0,
        description="Time limit in seconds for one investigation, not counting the time that requests spend in a "
        "queue.",
    )
    workspace_root: Path | None = Field(
        default=None,
        description="Folder that contains the questions' workspaces; a workspace_root in the benchmark takes "
        "precedence.",
        json_schema_extra={"follows": "workspace_root", "allowed_in_files": "below"},
    )
    workspace_copy: bool = Field(
        default=True,
        description="Let agents work in a copy of a question's folder; if false, they change the folder itself.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    workspace_max_bytes: int = Field(
        default=MOST_BYTES,
        ge=0,
        description="Maximum size in bytes of a workspace; copying a larger one is an error.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    workspace_cleanup: bool = Field(
        default=True, description="Remove the workspace copy of an answer after its last judge."
    )

    @field_validator("agentic_parsing")
    @classmethod
    def _templates_are_parsed(cls, agentic: bool, info: ValidationInfo) -> bool:
        """Return the setting. Raises `ValueError` if agents parse templates but `evaluation_mode` is `rubric_only`."""
        if agentic and (info.context or {}).get("evaluation_mode") == "rubric_only":
            raise ValueError(
                'evaluation_mode is "rubric_only", so templates are not parsed; set agentic_parsing to '
                'false, or evaluation_mode to "template_and_rubric"'
            )
        return agentic


def agentic_traits(question: Question) -> Iterator[tuple[AgenticRubricTrait, bool]]:
    """Yield the question's agentic traits, each with a flag that is true if the trait is dynamic. A dynamic trait is
    only scored if its concept is present in the answer.
    """
    if question.rubric is not None:
        yield from ((trait, False) for trait in question.rubric.agentic_traits)
    if question.dynamic_rubric is not None:
        yield from ((trait, True) for trait in question.dynamic_rubric.agentic_traits)


def uses_agentic_parsing(config: VerificationConfig) -> bool:
    """Return whether an agent parses templates. If `[slots]` sets the slot for parsing, that determines the result.
    Otherwise, `agentic_parsing` does.
    """
    named = config.core.slots.get(_PARSE_SLOT)
    return PARSING_STAGE in named if named is not None else config.section(AgenticSettings).agentic_parsing


def needs_workspace(config: VerificationConfig, question: Question) -> bool:
    """Return whether a judge inspects the workspaces of the question's answers."""
    settings = config.section(AgenticSettings)
    mode = config.core.evaluation_mode
    parses = uses_agentic_parsing(config) and mode != "rubric_only" and settings.agentic_judge_context != "trace_only"
    scores = mode != "template_only" and any(
        trait.context_mode != "trace_only" for trait, _ in agentic_traits(question)
    )
    return parses or scores
