"""The fields that checks add to questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from karenina_core.models.settings_models import AllowedInFiles, StrictSettings

REPORT: Final = "{report}"
"""What stands for the path of the report in a command."""

StopReason = Literal["nothing", "time", "memory", "processes", "disk", "output"]
REPORT_LISTS: Final = ("passed", "failed", "errors", "skipped")
VALUES: Final[Mapping[str, object]] = {
    "output": str,
    "error_output": str,
    "exit": int,
    "seconds": float,
    "stopped_by": StopReason,
}
"""The known values that every check offers, with their types."""
VALUES_OF_REPORTS: Final[Mapping[str, object]] = {**dict.fromkeys(REPORT_LISTS, list[str]), "ended": bool}
"""Those that a check with a report also offers."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def _inside(path: str, folder: str = "workspace") -> str:
    """Return a path relative to a folder. Raises `ValueError` if it leads out of it."""
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"write a path relative to the {folder}, without '..', not {path!r}")
    return path


Inside = Annotated[str, AfterValidator(lambda value: _inside(value))]


def is_diff(text: str) -> bool:
    """Return whether a value is a patch itself rather than the path of one."""
    return "\n" in text


InsideOrDiff = Annotated[
    str, AfterValidator(lambda value: value if is_diff(value) else _inside(value, "workspace root"))
]


def _read_words(value: object) -> object:
    """Return a list of words. Raises `ValueError` for any other value, such as a line for a shell."""
    if not isinstance(value, list | tuple):
        raise ValueError(  # noqa: TRY004
            'write the command as a list of words, such as ["python", "-m", "pytest"]; it is not run in a shell'
        )
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_read_words, json_schema_input_type=tuple[str, ...])]


class Check(StrictSettings):
    """A command that runs on what an agent left in its workspace."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"

    run: Words = Field(
        min_length=1,
        description="The command, as a list of words. No shell reads it. {report} stands for the path of the report.",
    )
    report: Literal["junit"] | None = Field(
        default=None, description="The format of the report that the command writes, for lists of tests."
    )
    add: InsideOrDiff | None = Field(
        default=None,
        description="A folder or patch below the workspace root, or the text of a patch, that is laid over a copy of "
        "the workspace for this check only, such as hidden tests.",
        json_schema_extra={"relative_to": "workspace_root"},
    )
    restore: tuple[Inside, ...] = Field(
        default=(), description="Files and folders of the workspace that are taken from the source, not from the agent."
    )
    passing_before: tuple[str, ...] = Field(
        default=(),
        description="Tests that pass in the unchanged workspace. If one does not, the environment is broken, and no "
        "answer is judged.",
    )
    timeout: float = Field(default=600.0, gt=0, description="Time limit in seconds.")
    flaky: bool = Field(default=False, description="Run the check twice. What differs between both runs is undecided.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        """Return the check. Raises `ValueError` for an empty command, or if `report`, the command and tests do not fit.
        A report needs `{report}` in the command, and `passing_before` needs a report.
        """
        if any("\0" in word for word in self.run) or not self.run[0]:
            raise ValueError("`run` must not have an empty command or a null character")
        if (self.report is None) is any(REPORT in word for word in self.run):
            raise ValueError(
                'a check with `report: junit` must have {report} in its command, such as "--junitxml={report}", and '
                "other checks must not"
            )
        if self.passing_before and self.report is None:
            raise ValueError("`passing_before` names tests, so the check needs `report: junit`")
        return self


def _read_checks(value: object) -> object:
    """Return the checks. Raises `ValueError` for a value that is no mapping."""
    if not isinstance(value, Mapping):
        raise ValueError("write a mapping of names to checks, such as tests: {run: [python, -m, pytest]}")  # noqa: TRY004
    return value


def _check_names(checks: Mapping[str, Check]) -> Mapping[str, Check]:
    """Return the checks unchanged. Raises `ValueError` if a name cannot be part of a known value's name."""
    for name in checks:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"the name {name!r} of a check must consist of letters, digits, - and _, and begin with a letter"
            )
    return checks


class CheckFields(BaseModel, defer_build=True):
    """Fields of questions with checks."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"
    model_config = ConfigDict(frozen=True)

    checks: Annotated[
        dict[str, Check],
        BeforeValidator(_read_checks, json_schema_input_type=dict[str, Check]),
        AfterValidator(_check_names),
    ] = Field(default={}, description="Commands that run on what an agent left in its workspace, by name.")
    answer_file: Inside | None = Field(
        default=None,
        description="The file of the workspace into which the last code block of an answer is written, or the whole "
        "answer if it has none, unless the model changed files itself or the answer is recorded with a patch.",
        json_schema_extra={"allowed_in_files": "any"},
    )
    solution: InsideOrDiff | None = Field(
        default=None,
        description="A patch below the workspace root, or its text, that solves the task, for `karenina check "
        "--run-checks`.",
        json_schema_extra={"allowed_in_files": "any"},
    )
