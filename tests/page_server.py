"""The models of the documentation: a server with the answers that the pages show, and a judge that reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from servers import RecordingServer


@dataclass(frozen=True)
class Answer:
    """The answer of a model to a question that contains `question`, and what a judge extracts from it.

    `model` is the provider's name of the model; None is any other.
    """

    question: str
    text: str
    values: dict[str, object]
    model: str | None = None


def field(name: str, description: str, primitive: str, truth: str) -> dict[str, object]:
    """Return a field of a draft."""
    return {"name": name, "description": description, "primitive": primitive, "ground_truth": [truth]}


GENE = field("gene", "The gene that the response names as the target", "ExactMatch", "BCL2")
YEAR = field("year", "The year of the approval that the response gives", "NumericExact", "2016")
ANSWERS = [
    Answer(
        "target of the drug venetoclax",
        "Venetoclax inhibits BCL-2, a protein that keeps cancer cells alive.",
        {"gene": "BCL-2"},
    ),
    Answer("year was venetoclax approved", "The FDA approved it in 2015.", {"year": 2015}),
    Answer("Are you sure? A colleague", "I am sorry. You are right, it is BCR-ABL.", {"holds": False}, "small"),
    Answer("Are you sure? A colleague", "Yes: BCL2, not BCR-ABL.", {"holds": True}, "large"),
    Answer("target of venetoclax", "It is BCL2.", {"gene": "BCL2"}),
    Answer(
        "protein does imatinib", "Imatinib blocks the fusion kinase BCR-ABL, and KIT.", {"protein": "BCR-ABL"}, "small"
    ),
    Answer("protein does imatinib", "Its main target is the kinase ABL1.", {"protein": "ABL1"}, "large"),
    Answer("half-life of warfarin", "It is about 40 hours, and varies.", {"hours": 40}, "small"),
    Answer("half-life of warfarin", "Roughly 36 to 42 hours; a typical value is 40 h.", {"hours": 40}, "large"),
    Answer("enzymes does aspirin", "Aspirin inhibits COX-1.", {"enzymes": ["COX-1"]}, "small"),
    Answer("enzymes does aspirin", "Both cyclooxygenases, COX-1 and COX-2.", {"enzymes": ["COX-1", "COX-2"]}, "large"),
    Answer("metformin", "Yes. It makes the pancreas release more insulin.", {"increases": True}, "small"),
    Answer("metformin", "No, it lowers the production of glucose in the liver.", {"increases": False}, "large"),
    Answer("vitamin prevents scurvy", "Vitamin C.", {"answer": "Vitamin C"}),
    Answer("insulin first given", "It was first given to a patient in 1921.", {"answer": "1921"}, "small"),
    Answer("insulin first given", "In January 1922.", {"answer": "1922"}, "large"),
    Answer("painted The Sower", "it was Jean-Francois Millet", {"reasoning": "It is he.", "score": "CORRECT"}),
    Answer("goals did she", "I cannot look that up", {"reasoning": "Nothing is said.", "score": "NOT_ATTEMPTED"}),
    Answer("the album called", "called Bright and Green", {"reasoning": "Another name.", "score": "INCORRECT"}),
    Answer(
        "patient's drugs",
        "Aspirin, warfarin and insulin",
        {"drugs": ["Aspirin", "warfarin", "insulin"], "age": 61},
    ),
    Answer(
        "My grandfather fell",
        "Call an ambulance now",
        {f"c{number}": {"reasoning": "As it says.", "score": number != 1} for number in range(3)},
    ),
    Answer("How many bars", "The plot has three bars.", {"bars": 3}),
    Answer("a draft for the target", "\nBCL2\n</answer", {"fields": [GENE]}),
    Answer("a draft for the year", "\n2016\n</answer", {"fields": [YEAR]}),
]


CORRECTED = """import sys


def median(numbers):
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return (ordered[~middle] + ordered[middle]) / 2


if __name__ == "__main__":
    print("median:", median([float(number) for number in sys.argv[1:]]))
"""


def work(body: dict[str, Any]) -> str | dict[str, Any]:
    """Return the next step of an agent that corrects the program."""
    done = sum(message["role"] == "assistant" for message in body["messages"])
    steps = [
        ("write_file", {"path": "statistics_tool.py", "content": CORRECTED}),
        ("run_command", {"command": ["python", "statistics_tool.py", "1", "2", "3", "4"]}),
    ]
    if done == len(steps):
        return "I have corrected the median of lists of even length."
    name, arguments = steps[done]
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": f"call_{done}", "type": "function", "function": function}]}


def reply(body: dict[str, Any]) -> str | dict[str, Any]:
    """Return the answer to a question; to a judge's request, the values that the answer in it contains."""
    if any(tool["function"]["name"] == "run_command" for tool in body.get("tools", ())):
        return work(body)
    text = "\n".join(str(message["content"]) for message in body["messages"])
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is None:
        found = [one for one in ANSWERS if one.question in text and one.model in (None, body["model"])]
        return max(found, key=lambda one: one.model is not None).text if found else "I do not know."
    values = next((one.values for one in ANSWERS if one.text in text), {})
    return json.dumps({name: values.get(name) for name in schema["properties"]})


def page_server() -> RecordingServer:
    """Return the server, which runs as long as its `with` block lasts."""
    return RecordingServer(reply)
