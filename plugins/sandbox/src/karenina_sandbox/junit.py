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
_SUITES: Final = ("testsuite", "testsuites")
_STATES: Final = {
    **dict.fromkeys(("fail", "failed", "failure"), "failed"),
    **dict.fromkeys(("error", "errored", "broken", "timeout", "timedout", "aborted", "crashed"), "errors"),
    **dict.fromkeys(("interrupted", "inprogress"), "errors"),
    **dict.fromkeys(("notrun", "disabled", "suppressed", "skip", "skipped", "ignored", "pending", "todo"), "skipped"),
    **dict.fromkeys(("filtered", "notexecuted"), "skipped"),
    **dict.fromkeys(("untested", "undefined", "inconclusive", "incomplete", "canceled", "cancelled"), "skipped"),
}
"""Outcomes by the values of `status` and `result` of tests, which GoogleTest, CTest and others write."""
_WORST: Final = ("passed", "skipped", "failed", "errors")
_DEEPEST: Final = 100


class BadReport(ValueError):
    """Raised if a report is not a complete JUnit report."""


@dataclass(slots=True)
class TestReport:
    """The tests of a report by outcome, each as `classname::name`, in the order of the report, without repeats.

    A test that is reported several times, such as one whose teardown failed, has its worst outcome. The tests of a
    suite that failed as a whole are `errors`, unless they failed themselves.
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
    """Return the names of the tests in a JUnit report, by outcome, which is the worst for a repeated name. It may come
    from a hostile program: raises `BadReport` if it is not complete, is too large, is not a JUnit report, or counts
    more failures than it has.

    Document types, and with them entities, are refused.
    """
    if len(content) > MOST_READ:
        raise BadReport(f"the report is larger than {MOST_READ:,} bytes")
    if not content:
        raise BadReport("the report is empty")
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.refuse_document_type
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise BadReport(f"the report is not well-formed XML: {error}") from None
    if not reader.is_junit:
        raise BadReport("the report is XML, but not a JUnit report")
    worst = {name: outcome for outcome in _WORST for name, found in reader.found if found == outcome}
    report = TestReport()
    for name in dict.fromkeys(name for name, _ in reader.found):
        getattr(report, worst[name]).append(name)
    return report


@dataclass(slots=True)
class _Suite:
    """An open suite: the number of its first test, the failures that it counts and has, and whether it failed."""

    first: int
    counted: int
    shown: int = 0
    failed: bool = False


class _Reader:
    """The tests found while a report is parsed, each with an outcome."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self.is_junit = False
        self._depth = 0
        self._suites: list[_Suite] = []
        self._test: str | None = None
        self._outcome = "passed"

    def refuse_document_type(self, *_: object) -> None:
        """Raise `BadReport`. Entities could make a small report fill the memory."""
        raise BadReport("the report has a document type declaration, which is not allowed")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of an XML element: open a suite or test, or record an outcome of the open one. Raises
        `BadReport` if there are too many tests, or elements are nested too deeply.
        """
        tag = tag.casefold()
        self._depth += 1
        if self._depth == 1:
            self.is_junit = tag in _SUITES
        if self._depth > _DEEPEST or len(self.found) > MOST_TESTS:
            raise BadReport(f"the report has more than {MOST_TESTS:,} tests, or is nested too deeply")
        if tag in _SUITES:
            counts = [attributes.get(name, "") for name in ("failures", "errors")]
            counted = sum(int(count[:9]) for count in counts if count.isascii() and count.isdigit())
            self._suites.append(_Suite(len(self.found), counted))
        elif tag == "testcase":
            name = f"{attributes.get('classname', '')}::{attributes.get('name', '')}"
            self._test, self._outcome = name[:_LONGEST_NAME], "passed"
            for key in ("status", "result"):
                state = "".join(filter(str.isalpha, attributes.get(key, "").casefold()))
                self._worsen(_STATES.get(state, "passed"))
            self._note_failures(self._outcome in ("failed", "errors"))
        elif tag in _OUTCOMES:
            if self._test is not None:
                self._worsen(_OUTCOMES[tag])
            elif self._suites and tag != "skipped":
                self._suites[-1].failed = True
            self._note_failures(tag != "skipped")

    def _worsen(self, outcome: str) -> None:
        self._outcome = max(self._outcome, outcome, key=_WORST.index)

    def _note_failures(self, number: int) -> None:
        if self._suites:
            self._suites[-1].shown += number

    def end(self, tag: str) -> None:
        """Handle the end of an XML element: add the open test to `found`, or check the counts of the open suite. If the
        suite itself failed, its tests become errors. Raises `BadReport` if it counts more failures than it has.
        """
        tag = tag.casefold()
        self._depth -= 1
        if tag == "testcase" and self._test is not None:
            self.found.append((self._test, self._outcome))
            self._test = None
        elif tag in _SUITES:
            suite = self._suites.pop()
            if suite.counted > suite.shown:
                raise BadReport(
                    f"the report contradicts itself: a suite counts {suite.counted} failures and errors, but contains "
                    f"only {suite.shown}"
                )
            self._note_failures(suite.shown)
            if suite.failed:
                rest = [(name, found if found == "failed" else "errors") for name, found in self.found[suite.first :]]
                self.found[suite.first :] = rest


def plain_test_name(name: str) -> str:
    """Convert a pytest id to `classname::name`, as in pytest's reports. Other names are returned unchanged.

    In an id such as `tests/test_sum.py::TestSum::test_total[1]`, everything before the last `::` outside of square
    brackets is the class name: `.py` is removed, and `/` and `::` become dots.
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
