"""How often CheckUser finds the fault of a simulated user, and how often it blames a good one.

    python benchmarks/simulated_users.py --judge local:qwen2.5-coder-0.5b --judge local:qwen2.5-coder-1.5b

Each row of `user_conversations.jsonl` is a built conversation: what the user was told (`brief`, `knows`, `goal`), its
`messages`, and its `fault`, or null for a good user. `--data` reads other files, which may lack `truth`, the ground
truths that a program looks for. First the programs decide, as in a run: a reply that is written as the assistant
(`speaks_as_assistant`) and a ground truth that the user says first. What they find, the judges are not asked about.
Then each judge sees the prompt `user_check`, exactly as in a run. A judge without a usable reply finds nothing, and is
counted. The intervals are Wilson's, at 95%. With `--show`, every verdict is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.config.model_specs import parse_models
from karenina_conversation.check_user import SCHEMA, USER_CHECK, check_request, find_spoken_truth, read_verdict
from karenina_conversation.fields import UserBrief
from karenina_conversation.simulated_user import speaks_as_assistant
from karenina_core.errors import StructuredError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message, ParserPort, PortError
from karenina_core.models.prompts import assemble
from karenina_core.plugins import active_plugins
from karenina_engine.results.rates import rate
from karenina_template.templates import BaseAnswer, ExactMatch, VerifiedField
from karenina_template.templates.source.loading import template_of_class
from karenina_toolkit.conversations import Conversation, ConversationTurn
from karenina_toolkit.plugin_lookup import find_adapter, prompt_instructions
from karenina_toolkit.structured import call_structured

DATA: Final = Path(__file__).parent / "user_conversations.jsonl"
PROGRAM: Final = "programs alone"


@dataclass(frozen=True, slots=True)
class Case:
    """A built conversation, with the fault of its user, or None for a good user."""

    id: str
    user: UserBrief
    conversation: Conversation
    truth: Mapping[str, Any]
    fault: str | None


@dataclass(slots=True)
class Tally:
    """The verdicts of the programs, or of the programs and a judge: found faults and blamed users by kind."""

    name: str
    verdicts: dict[str, bool] = field(default_factory=dict)
    without_reply: int = 0
    seconds: float = 0.0


def read_cases(files: Iterable[Path]) -> Iterator[Case]:
    """Yield the conversations in the files."""
    for file in files:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            row = json.loads(line)
            told = {name: row[name] for name in ("brief", "knows", "goal") if row.get(name)}
            id = row.get("id") or f"{file.stem}-{number}"
            yield Case(id, UserBrief(**told), _conversation(row["messages"]), row.get("truth") or {}, row["fault"])


def _conversation(messages: Iterable[Mapping[str, str]]) -> Conversation:
    """Return a conversation in which each message of the user is followed by those of the assistant."""
    turns: list[ConversationTurn] = []
    for message in messages:
        if message["role"] == "user":
            turns.append(ConversationTurn(len(turns) + 1, said=message["content"]))
        else:
            last = turns[-1]
            trace = (*last.trace, Message.assistant(message["content"]))
            turns[-1] = ConversationTurn(last.number, said=last.said, trace=trace, final=message["content"])
    return Conversation(tuple(turns))


def find_by_program(case: Case) -> bool:
    """Return whether a program finds a fault."""
    turns = case.conversation.taken
    for before, turn in pairwise(turns):
        if speaks_as_assistant(turn.said or "", before.text):
            return True
    if not case.truth:
        return False
    fields = {
        name: VerifiedField(description=name, ground_truth=value, verify_with=ExactMatch())
        for name, value in case.truth.items()
    }
    types = {name: type(value) for name, value in case.truth.items()}
    answer = type("Answer", (BaseAnswer,), {"__annotations__": types, **fields})
    bound = template_of_class(answer).for_question(case.id)
    return find_spoken_truth(case.conversation, case.user, bound) is not None


async def ask_judge(port: ParserPort, model: ModelConfig, case: Case) -> bool:
    """Return whether the judge finds a fault. Raises `StructuredError` or `PortError` without a usable reply."""
    said = [turn.said or "" for turn in case.conversation.taken[1:]]
    added = prompt_instructions(active_plugins(), USER_CHECK.name, model.interface)
    messages = assemble(USER_CHECK, check_request(case.conversation, case.user), added=added)
    reply = await call_structured(port, messages, SCHEMA, lambda data: read_verdict(data, said))
    return reply.value is not None


async def tally_judge(model: ModelConfig, cases: Iterable[Case], programs: Tally, *, show: bool) -> Tally:
    """Return the verdicts of the programs and a judge."""
    tally = Tally(f"and {model.model_name}")
    make = find_adapter(active_plugins(), model.interface).spec.parser
    assert make is not None
    port = make(model)
    began = time.monotonic()
    for case in cases:
        found = programs.verdicts[case.id]
        if not found:
            try:
                found = await ask_judge(port, model, case)
            except (StructuredError, PortError) as error:
                tally.without_reply += 1
                if show:
                    print(f"  {case.id}: no usable reply: {error}")
        tally.verdicts[case.id] = found
        if show:
            print(f"  {model.model_name:20} {case.id:24} {case.fault or 'good':30} {'found' if found else '-'}")
    tally.seconds = time.monotonic() - began
    await port.aclose()
    return tally


def print_table(tallies: Iterable[Tally], cases: list[Case]) -> None:
    """Print the share of found faults by kind, and of good users that were blamed."""
    kinds = sorted({case.fault for case in cases if case.fault})
    print("| decided by | " + " | ".join(kinds) + " | all faults | good users blamed | no usable reply |")
    print("|---" * (len(kinds) + 4) + "|")
    for tally in tallies:
        cells = [_count(tally, [case for case in cases if case.fault == kind]) for kind in kinds]
        found = _share(tally, [case for case in cases if case.fault])
        blamed = _share(tally, [case for case in cases if not case.fault])
        print(f"| {tally.name} | {' | '.join(cells)} | {found} | {blamed} | {tally.without_reply} |")


def _count(tally: Tally, cases: list[Case]) -> str:
    """Return how many of the cases were found."""
    return f"{sum(tally.verdicts[case.id] for case in cases)} of {len(cases)}"


def _share(tally: Tally, cases: list[Case]) -> str:
    """Return how many of the cases were found, with the interval of the share."""
    share = rate((case.id, tally.verdicts[case.id]) for case in cases)
    return f"{share.hits} of {share.out_of} ({share.low:.0%} to {share.high:.0%})"


def main() -> None:
    """Read the arguments, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", "-j", action="append", default=[], help="a judge: interface:model_name")
    parser.add_argument("--data", action="append", type=Path, help="a file of built conversations")
    parser.add_argument("--show", action="store_true", help="print every verdict")
    arguments = parser.parse_args()
    cases = list(read_cases(arguments.data or [DATA]))
    programs = Tally(PROGRAM, {case.id: find_by_program(case) for case in cases})
    tallies = [programs]
    for fields in parse_models(arguments.judge):
        model = ModelConfig.model_validate({"temperature": 0, **fields})
        tallies.append(asyncio.run(tally_judge(model, cases, programs, show=arguments.show)))
    print_table(tallies, cases)
    for tally in tallies[1:]:
        print(f"{tally.name}: {tally.seconds:.0f} s")


if __name__ == "__main__":
    main()
