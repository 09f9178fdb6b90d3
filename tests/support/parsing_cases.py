"""A template, and artifacts of answers, for the tests of stages that parse."""

from __future__ import annotations

import pytest

from karenina_core import ArtifactKeys as Keys

GENE_AND_YEAR = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(
        description="The gene that is named", ground_truth="TRUTHGENE", verify_with=ExactMatch(), weight=7.25,
        extraction_hint="an official symbol",
    )
    year: int = VerifiedField(description="The year", ground_truth=198765, verify_with=NumericExact())
"""
FAILED_ALREADY = [
    pytest.param({key: value}, id=key.name)
    for key, value in (
        (Keys.RECURSION_LIMIT_REACHED, True),
        (Keys.TRACE_VALIDATION_FAILED, True),
        (Keys.ABSTENTION_DETECTED, True),
        (Keys.SUFFICIENCY_DETECTED, False),
    )
]
"""Artifacts, each alone, after which no judge reads the answer."""
