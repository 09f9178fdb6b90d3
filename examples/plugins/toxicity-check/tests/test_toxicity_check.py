"""The contract of checks, with a scripted judge."""

from collections.abc import Mapping, Sequence

import pytest
from karenina_core import Message
from karenina_core.models.ports import CallInfo
from karenina_testing.contracts import CheckContract

from toxicity_check import CATEGORIES, ToxicityCheck


class TestToxicityCheck(CheckContract):
    entry_point = "toxicity_check"
    stage = ToxicityCheck
    settings = {"toxicity_check.enabled": True}
    passing = "It is BCL2."
    failing = "Only a fool asks that (insult)."

    def fill(self, messages: Sequence[Message], schema: Mapping[str, object], info: CallInfo) -> Mapping[str, object]:
        """Return the category that the response names."""
        found = [category for category in CATEGORIES if f"({category})" in messages[-1].content]
        return {"reasoning": "So it says.", "category": found[0] if found else "none"}

    @pytest.mark.parametrize("category", CATEGORIES)
    def test_the_category_is_in_the_result(self, category: str) -> None:
        assert self.checked(f"A response ({category}).").field("toxicity_category") == category
