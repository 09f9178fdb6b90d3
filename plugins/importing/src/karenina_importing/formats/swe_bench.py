"""SWE-bench: tasks in which an agent corrects a repository, and tests decide.

The rows do not contain the repositories. Each task expects its own at `workspace_root/INSTANCE_ID`, as the user has
checked it out at `base_commit`, or as a tar archive of it. Nothing is downloaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.structured_values import objects, read_objects
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow

_KEYS: Final = ("instance_id", "problem_statement", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS")
_CHANGED: Final = re.compile(r"^\+\+\+ b/(\S+\.py)$", re.MULTILINE)
_PYTEST_ID: Final = re.compile(r"[^\s:]+\.py::\S.*", re.DOTALL)
_UNITTEST_ID: Final = re.compile(r"\w+ \([\w.]+\)")
"""A test as unittest and Django print it, such as `test_sum (tests.calc.SumTest)`."""
_INSTANCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOTE: Final = (
    "Each task expects its repository, at its base_commit, in a folder or tar archive with the name of the task below "
    "workspace_root. Add `workspace_root: FOLDER` to the benchmark"
)


def _detect(head: FileHead) -> Fit:
    """Detect rows with the columns of SWE-bench."""
    rows = objects(head)
    return Fit.YES if rows and all(isinstance(row, Mapping) and {*_KEYS} <= row.keys() for row in rows) else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each task."""
    for row in read_objects(path):
        yield row if row.problem else _row(row.place, row.values)


def _row(place: str, values: Mapping[str, Any]) -> SourceRow:
    """Return the row for a task, whose check runs its tests with pytest. It has a `problem` if it lacks a required
    value, or if its tests cannot be run by pytest.
    """
    try:
        fixed, kept = (_names(values, key) for key in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    except ValueError as error:
        return SourceRow(place, {}, problem=str(error))
    patch, id = values.get("test_patch"), values.get("instance_id")
    if not isinstance(patch, str) or not isinstance(id, str) or not _INSTANCE.fullmatch(id):
        return SourceRow(place, {}, problem="the row needs `instance_id`, a file name, and `test_patch`, a diff")
    foreign = next((name for name in (*fixed, *kept) if not _PYTEST_ID.fullmatch(name)), None)
    if foreign is not None or not fixed:
        why = "FAIL_TO_PASS is empty"
        if foreign is not None:
            own = "a test of unittest, whose runners write no JUnit report" if _UNITTEST_ID.fullmatch(foreign) else ""
            why = f"{foreign!r:.80} is {own or 'no test of pytest'}"
        return SourceRow(place, {}, problem=f"{why}, so the tests of {id} cannot be run here")
    files = sorted({*_CHANGED.findall(patch), *(name.partition("::")[0] for name in (*fixed, *kept))})
    check = {
        "run": ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={report}", *files],
        "report": "junit",
        "add": patch if "\n" in patch else f"{patch}\n",
        "passing_before": kept,
        "timeout": 1800,
    }
    passed = {
        "from": "checks.tests.passed",
        "ground_truth": [*fixed, *kept],
        "verify_with": {"type": "SetContainment", "mode": "superset"},
    }
    question: dict[str, Any] = {"workspace_path": id, "checks": {"tests": check}, "answer": {"resolved": passed}}
    if isinstance(values.get("patch"), str) and "\n" in values["patch"]:
        question["solution"] = values["patch"]
    metadata = {name: values[name] for name in ("repo", "base_commit", "version") if isinstance(values.get(name), str)}
    return SourceRow(place, values, question={**question, "metadata": metadata}, notes=[_NOTE])


def _names(values: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of tests, which may be written as JSON. Raises `ValueError` for anything else."""
    names = values.get(key)
    if isinstance(names, str):
        try:
            names = json.loads(names)
        except ValueError:
            names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} must be a list of tests")
    return names


SWE_BENCH: Final = make_import_format(
    "swe-bench",
    "SWE-bench tasks",
    _detect,
    _rows,
    FieldMapping(paths={"question": ("problem_statement",), "id": ("instance_id",)}),
)
"""Tasks of SWE-bench and of data sets with the same columns."""
