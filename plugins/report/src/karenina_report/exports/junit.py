"""Export results as JUnit XML for CI, with one test case per item.

Items that were not judged or are undecided are errors. Other items that are not correct are failures. Items that only
have trait scores pass, because they have no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, BinaryIO
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from karenina_report.exports.exporter import Exporter
from karenina_toolkit.known_values import known_fields
from karenina_toolkit.printable import xml_text

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.exports.exporter import ExportRequest


def junit_xml(results: Iterable[VerificationResult]) -> bytes:
    """Return results as JUnit XML, with a test suite for each pair of answering model and judge. Items that were not
    judged or are undecided are errors. Other items that are not correct are failures.
    """
    root = Element("testsuites", name="karenina")
    totals = [0, 0, 0, 0.0]
    for models, group in _by_models(results):
        suite = SubElement(root, "testsuite", name=xml_text(models))
        counts = _add_cases(suite, models, group)
        _set_counts(suite, *counts)
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    _set_counts(root, *totals)
    indent(root)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode").encode() + b"\n"


def _by_models(results: Iterable[VerificationResult]) -> Iterator[tuple[str, Iterable[VerificationResult]]]:
    """Yield the results by answering model and judge, in order of occurrence, each group with a name. A group must be
    consumed before the next one is requested.
    """

    def models(result: VerificationResult) -> str:
        return f"{result.metadata.answering_id} judged by {result.metadata.parsing_id}"

    all_results = list(results)
    order = {name: place for place, name in enumerate(dict.fromkeys(map(models, all_results)))}
    return groupby(sorted(all_results, key=lambda result: order[models(result)]), models)


def _add_cases(suite: Element, models: str, results: Iterable[VerificationResult]) -> tuple[int, int, int, float]:
    """Add a test case for each result to `suite`. Return the numbers of tests, failures, errors and seconds."""
    tests = failures = errors = 0
    seconds = 0.0
    for result in results:
        tests += 1
        seconds += result.metadata.execution_time
        replicate = f" #{result.metadata.replicate}" if (result.metadata.replicate or 1) > 1 else ""
        case = SubElement(
            suite,
            "testcase",
            name=xml_text(f"{result.question_id}{replicate}"),
            classname=xml_text(models),
            time=f"{result.metadata.execution_time:.3f}",
        )
        if not result.outcome.passes:
            kind = "failure" if result.outcome.judged else "error"
            failures += kind == "failure"
            errors += kind == "error"
            problem = SubElement(case, kind, type=result.outcome.value, message=xml_text(result.why()))
            problem.text = xml_text(describe_item(result))
    return tests, failures, errors, seconds


def _set_counts(element: Element, tests: float, failures: float, errors: float, seconds: float) -> None:
    for name, count in (("tests", tests), ("failures", failures), ("errors", errors)):
        element.set(name, str(int(count)))
    element.set("time", f"{seconds:.3f}")


def describe_item(result: VerificationResult) -> str:
    """Return the question, the answer, and the fields that did not pass or are undecided, on separate lines. Fields
    without a value compare the answer itself.
    """
    template = result.template
    lines = [f"Question: {result.metadata.question_text}", f"Answer: {template.raw_llm_response or '(none)'}"]
    extracted, truth = template.parsed_llm_response or {}, template.parsed_gt_response or {}
    known = {
        name: f"{source} is {value.value!r}" + (f" ({value.why})" if value.why else "")
        for name, (source, value) in known_fields(template).items()
    }
    shown = {name: f"extracted {value!r}" for name, value in extracted.items()}
    lines += [
        f"Field {name}: {known.get(name) or shown.get(name, 'compares the answer itself')}, truth {truth.get(name)!r}"
        for name, passed in (template.field_results or {}).items()
        if not passed
    ]
    return "\n".join(lines)


def _write(request: ExportRequest, file: BinaryIO) -> None:
    file.write(junit_xml(request.results))


JUNIT = Exporter("junit", "JUnit XML for CI: one test case for each item", (".xml",), _write)
