"""The shown part of a server's message: no secret, and nothing of the prompt."""

from __future__ import annotations

import pytest

from karenina_core.models.ports import Message
from karenina_toolkit.http.http_errors import redact_text

KEY = "sk-4711-never-to-be-shown"


@pytest.mark.parametrize("before", range(1960, 2010))
def test_truncation_leaves_no_part_of_a_secret(before: int) -> None:
    prompt = "word " * 400
    said = f"{prompt[: before - 10].ljust(before - 1, '-')} {KEY}"
    assert "sk-" not in redact_text(said, [KEY], [Message.user(prompt)])
