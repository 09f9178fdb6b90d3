"""Known values in labels: people see them with their result, and label none of them."""

from __future__ import annotations

from runs import result

from karenina_calibration.answers import collect_answers, truth_text
from karenina_core.data.sections import KnownValue


def test_people_see_known_values_and_label_none() -> None:
    judged = result("q1", False, extracted={"gene": "BCL2"})
    template = judged.template.model_copy(
        update={
            "parsed_gt_response": {"gene": "BCL2", "steps": 2},
            "known_values": {"trace.steps": KnownValue(value=3, fields=["steps"])},
            "field_results": {"gene": True, "steps": False},
        }
    )
    (answer,) = collect_answers([judged.model_copy(update={"template": template})]).by_id.values()

    assert [extraction.name for extraction in answer.extractions] == ["gene"]
    assert "steps: 2 (trace.steps is 3: failed)" in truth_text(answer)
    assert answer.truth == {"gene": '"BCL2"', "steps": "2"}
