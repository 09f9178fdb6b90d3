"""The artifacts of answers that no judge needs to read."""

from __future__ import annotations

import pytest

from karenina_core import ArtifactKeys as Keys

FAILED_ALREADY = [
    pytest.param({key: value}, id=key.name)
    for key, value in (
        (Keys.RECURSION_LIMIT_REACHED, True),
        (Keys.TRACE_VALIDATION_FAILED, True),
        (Keys.ABSTENTION_DETECTED, True),
        (Keys.SUFFICIENCY_DETECTED, False),
    )
]
"""What an earlier stage may have found, each alone."""
