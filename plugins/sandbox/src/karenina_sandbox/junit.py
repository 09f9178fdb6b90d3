"""Reading reports of tests in the JUnit format, and the names of tests."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

MOST_READ: Final = 20_000_000
"""The maximum size of a report in bytes."""
MOST_TESTS: Final = 200_000
"""The maximum number of tests in a report."""
_LONGEST_NAME: Final = 2_000
_OUTCOMES: Final = {"failure": "failed", "error": "errors", "skipped": "skipped"}
_DEEPEST: Final = 100


class BadReport(ValueError):
    """Raised if a report is not a complete JUnit report."""


@dataclass(slots=True)
class TestReport:
    """The tests of a report by outcome, each as `classname::name`, in the order of the report, without repeats.

    A test that is reported several times, such as one whose teardown failed, has its worst outcome.
    """

    __test__ = False

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the names of all tests."""
        return [*self.passed, *self.failed, *self.errors, *self.skipped]


def read_junit(content: bytes) -> TestReport:
    """Return the tests in a JUnit report.

    The report was written by a program that may be hostile: document types, and with them entities, are refused. Raises
    `BadReport` if the report is not complete, is too large, or is not a JUnit report.
    """
    if len(content) > MOST_READ:
        raise BadReport(f"the report is larger than {MOST_READ:,} bytes")
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.refuse_document_type
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise BadReport(f"the report is not complete XML: {error}") from None
    if not reader.is_junit:
        raise BadReport("the report is XML, but not a JUnit report")
    worst = {name: outcome for outcome in ("passed", "skipped", "failed", "errors") for name in reader.found[outcome]}
    report = TestReport()
    for name in dict.fromkeys(reader.order):
        getattr(report, worst[name]).append(name)
    return report


class _Reader:
    """The tests found while a report is parsed."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {name: set() for name in ("passed", *_OUTCOMES.values())}
        self.order: list[str] = []
        self.is_junit = False
        self._depth = 0
        self._test: str | None = None
        self._outcome = "passed"

    def refuse_document_type(self, *_: object) -> None:
        """Raise `BadReport`. Entities could make a small report fill the memory."""
        raise BadReport("the report has a document type, which is refused")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Note the start of an element. Raises `BadReport` if there are too many."""
        self._depth += 1
        if self._depth == 1:
            self.is_junit = tag in ("testsuites", "testsuite")
        if self._depth > _DEEPEST or len(self.order) > MOST_TESTS:
            raise BadReport(f"the report has more than {MOST_TESTS:,} tests, or is nested too deeply")
        if tag == "testcase":
            name = f"{attributes.get('classname', '')}::{attributes.get('name', '')}"
            self._test, self._outcome = name[:_LONGEST_NAME], "passed"
        elif self._test is not None and tag in _OUTCOMES and self._outcome != "errors":
            self._outcome = _OUTCOMES[tag]

    def end(self, tag: str) -> None:
        """Note the end of an element."""
        self._depth -= 1
        if tag == "testcase" and self._test is not None:
            self.found[self._outcome].add(self._test)
            self.order.append(self._test)
            self._test = None


def plain_test_name(name: str) -> str:
    """Return a test's name as `classname::name`, as reports of pytest contain it.

    In an id of pytest, such as `tests/test_sum.py::TestSum::test_total[1]`, everything before the last `::` outside of
    square brackets is the class name: `.py` is removed, and `/` and `::` become dots. Other names are not changed.
    """
    head, bracket, parameters = name.partition("[")
    file, separator, rest = head.partition("::")
    if not separator or not file.endswith(".py"):
        return name
    *classes, test = rest.split("::")
    return f"{'.'.join([file.removesuffix('.py').replace('/', '.'), *classes])}::{test}{bracket}{parameters}"


def spelled_as(names: Iterable[str], truths: Collection[str]) -> list[str]:
    """Return names of tests, in the spelling of the truth where one names the same test in another way."""
    spelling = {plain_test_name(truth): truth for truth in truths}
    return [spelling.get(name, name) for name in names]


def nearest_names(name: str, names: Collection[str], most: int = 3) -> list[str]:
    """Return the names that are most similar to `name`, if any."""
    return difflib.get_close_matches(plain_test_name(name), list(names)[:5_000], most, 0.5)
