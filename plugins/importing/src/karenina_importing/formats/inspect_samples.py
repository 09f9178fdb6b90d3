"""Inspect samples: questions, conversations, and what scorers compare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from string import ascii_uppercase
from typing import Any, Final

from karenina_benchmark.tables.column_roles import TRUTH
from karenina_benchmark.tables.lettered_options import find_right_options
from karenina_benchmark.tables.message_texts import NotText, as_text, as_texts
from karenina_benchmark.tables.table_answers import declare_options
from karenina_importing.answer_fields import AGREES, NoAnswer, declare_answer
from karenina_importing.attached_media import take_media
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.structured_values import as_list, as_mapping, is_short, parse_text
from karenina_importing.source_files import SourceRow
from karenina_toolkit.traces.formats.inspect_ai import find_stop

_GRADED: Final = {
    "model_graded_fact": AGREES,
    "model_graded_qa": "The response meets this criterion: {}",
}
"""The scorers in which a model grades the answer, each with the description of its trait."""
_COMPARED: Final = ("match", "exact", "answer", "choice", "f1", "math")
"""The scorers that compare the answer with the target, which is then the correct answer."""
_SYSTEM: Final = (
    "System messages are kept in the recordings, not in the questions; to ask the questions "
    "again with a system message, set the model's `system_prompt`"
)
_UNUSED: Final = ("sandbox", "files", "setup")
_CHOICES: Final = (
    FieldMapping(paths={}, answer="choice", choice_by="letter"),
    FieldMapping(paths={}, answer="choice"),
)
"""The ways to find the correct option: by letter, as in Inspect, or else by text or position."""


def make_row(place: str, sample: Mapping[str, Any], about: Any, notes: Sequence[str] = ()) -> SourceRow:
    """Make the row for a sample: its question with attachments, the template and rubric for its scorers, and the answer
    that it records, if any. `about` is the log's `eval`, or None in a dataset. The row has the key `invalid` if someone
    has declared the sample invalid, and `stopped` if a limit on tokens, messages, time or costs ended it, or a
    person stopped it. Its notes start with `notes`.

    Metadata that is too long is omitted.
    """
    files: dict[str, bytes] = {}
    sample = {**sample, "input": take_media(sample.get("input"), files)}
    said = take_media(as_list(sample.get("messages")), {})
    messages = [message for message in said if isinstance(message, Mapping)]
    values = {**sample, "eval": about, "input": _asked(sample.get("input"), messages)}
    recorded = _recorded(messages, _completion(sample))
    if recorded is not None:
        values["recorded"] = recorded
    invalidation = sample.get("invalidation")
    if isinstance(invalidation, Mapping):
        reason = invalidation.get("reason")
        values["invalid"] = f"the sample was declared invalid{f': {reason}' if reason else ''}"
    values["stopped"] = find_stop(sample)
    answer, traits, left_out = _convert_scorers(sample, about)
    if letters := _letters(sample, about):
        choices = as_texts(sample["choices"])
        values["target"] = "; ".join(f"{letter}. {choices[ascii_uppercase.index(letter)]}" for letter in letters)
    metadata = {key: value for key, value in as_mapping(sample.get("metadata")).items() if is_short(value)}
    left_out += [f"{name} of a sample" for name in _UNUSED if sample.get(name)]
    left_out += ["long metadata of a sample"] * (len(metadata) < len(as_mapping(sample.get("metadata"))))
    ready = {"answer": answer, "rubric": traits, "metadata": metadata, "attachments": [*files]}
    shown = [*notes, *([_SYSTEM] if any(message.get("role") == "system" for message in messages) else [])]
    shown += [
        f"For the scorer '{name}', a judge extracts the answer, which is then compared with the target"
        for name in _scorers(sample, about)
        if _base_name(name) in _COMPARED and sample.get("target")
    ]
    question = {key: value for key, value in ready.items() if value}
    return SourceRow(place, values, question=question, left_out=left_out, notes=shown, files=files)


def describe_log(log: Any, count: int) -> list[str]:
    """Return notes for the user about an incomplete log. `count` is its number of samples."""
    status, results = as_mapping(log).get("status"), as_mapping(as_mapping(log).get("results"))
    done, total = results.get("completed_samples"), results.get("total_samples")
    notes = []
    if isinstance(done, int) and isinstance(total, int) and done < total:
        notes.append(f"only {done} of {total} samples in the log were completed")
    if isinstance(status, str) and status != "success":
        of_all = as_mapping(as_mapping(as_mapping(log).get("eval")).get("dataset")).get("samples")
        part = f" of the {of_all}" if isinstance(of_all, int) and of_all > count else ""
        notes.append(
            f"The status of the log is {status!r:.40}; it contains {count}{part} "
            f"{'sample' if count == 1 and not part else 'samples'} from its dataset"
        )
    return notes


def dataset_row(place: str, record: Mapping[str, Any]) -> SourceRow:
    """Make the row for a record in a dataset. Its values may be strings, as in CSV."""
    sample = dict(record)
    for name in ("metadata", "files"):
        sample[name] = parse_text(sample.get(name))
    for name in ("choices", "input"):
        value = sample.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            sample[name] = parse_text(value)
    if isinstance(sample.get("choices"), str):
        sample["choices"] = [choice.strip() for choice in sample["choices"].split(",")]
    return make_row(place, sample, None)


def _asked(question: Any, messages: Sequence[Mapping[str, Any]]) -> Any:
    """Return the input of a sample, together with other text from the user before the first answer. If the input is not
    a string, it is returned unchanged.
    """
    if not isinstance(question, str):
        return question
    texts = [question]
    for message in messages:
        if message.get("role") in ("assistant", "tool"):
            break
        try:
            text = as_text(message.get("content") or "")
        except NotText:
            continue
        # A solver may insert the input in a template, or send a part of it in a separate message.
        if message.get("role") == "user" and text.strip() and question.strip() not in text and text not in question:
            texts.append(text)
    return "\n\n".join(texts)


def _recorded(messages: Sequence[Mapping[str, Any]], completion: str) -> Any:
    """Return the messages of a sample, or None if they contain no answer, or are just a question and an answer. If the
    last message is not an answer that contains the log's final answer, `completion`, it is appended.
    """
    answers = [message for message in messages if message.get("role") == "assistant"]
    has_tools = any(message.get("role") == "tool" or message.get("tool_calls") for message in messages)
    has_thoughts = any(_has_reasoning(answer.get("content")) for answer in answers)
    if not answers or (len(answers) == 1 and not has_tools and not has_thoughts and _has_no_system_message(messages)):
        return None
    turns = [{**message, "content": message.get("content") or ""} for message in messages]
    last = turns[-1]
    if completion.strip() and (last["role"] != "assistant" or completion.strip() not in _text(last["content"])):
        turns.append({"role": "assistant", "content": completion, "source": "generate"})
    return turns


def _has_no_system_message(messages: Iterable[Mapping[str, Any]]) -> bool:
    return not any(message.get("role") == "system" for message in messages)


def _has_reasoning(content: Any) -> bool:
    return any(isinstance(part, Mapping) and part.get("type") == "reasoning" for part in as_list(content))


def _completion(sample: Mapping[str, Any]) -> str:
    """Return the final answer that the log records for a sample, or an empty string."""
    output = as_mapping(sample.get("output"))
    completion = output.get("completion")
    return completion if isinstance(completion, str) else ""


def _text(content: Any) -> str:
    """Return the content of a message as a string, or as JSON if it contains more than text."""
    try:
        return as_text(content)
    except NotText:
        return json.dumps(content, default=str)


def _convert_scorers(sample: Mapping[str, Any], about: Any) -> tuple[Any, list[dict[str, Any]], list[str]]:
    """Convert the scorers of a sample, which `about`, the log's `eval`, may list. Returns the template's field by its
    name, if there is one for the correct option or the scorer `includes`, or else None; the traits; and the names of
    omitted scorers. Scorers that compare the answer with the target need no field.
    """
    try:
        targets = [target for target in as_texts(sample.get("target") or "") if target.strip()]
        choices = as_texts(sample["choices"]) if sample.get("choices") else []
    except NotText:
        targets, choices = [], []
    answer: Any = None
    options = dict(zip(ascii_uppercase, choices, strict=False))
    scorers = _scorers(sample, about)
    names = {_base_name(name) for name in scorers}
    if letters := _letters(sample, about):
        answer = {TRUTH: declare_options(options, letters, several=True)}
    elif choices and len(targets) > 1 and names & set(_COMPARED) and not names & {"choice", "includes"}:
        (right,) = find_right_options([targets], [options]).letters
        if right:
            answer = {TRUTH: declare_options(options, right, several=False)}
    elif choices and len(targets) == 1:
        for mapping in _CHOICES:
            with suppress(NoAnswer):
                answer = answer or declare_answer(mapping, targets, choices)
    traits: list[dict[str, Any]] = []
    left_out: list[str] = []
    for name, settings in scorers.items():
        plain = _base_name(name)
        if plain in _GRADED and targets:
            text = _GRADED[plain].format(" or ".join(targets))
            traits.append({"type": "llm", "name": name.rpartition("/")[2], "description": text})
        elif plain == "includes" and targets and answer is None:
            any_case = settings.get("ignore_case") is not False
            answer = {"includes": {"verify_with": _includes(targets, any_case=any_case)}}
        elif plain not in _COMPARED or not targets:
            is_known = plain in (*_GRADED, *_COMPARED, "includes")
            left_out.append(f"scorer {name}{'' if targets or not is_known else ' of a sample with an empty target'}")
    return answer, traits, left_out


def _letters(sample: Mapping[str, Any], about: Any) -> list[str]:
    """Return the letters of the correct options if several are needed, as only by the scorer `choice`, or an empty list
    for any other sample. The target may be a list (`["A", "C"]`) or a string (`AC`, `A, C`).

    For other scorers, each item of a list is a correct answer by itself. A sample without scorers is in a dataset;
    options are for `choice`.
    """
    scorers = [_base_name(name) for name in _scorers(sample, about)]
    try:
        choices = as_texts(sample.get("choices") or [])
        target = "".join(as_texts(sample.get("target") or ""))
    except NotText:
        return []
    letters = sorted(set(target) - {",", " "})
    is_listed = isinstance(sample.get("target"), list) or target not in choices
    are_options = set(letters) <= {*ascii_uppercase[: len(choices)]}
    return letters if are_options and is_listed and len(letters) > 1 and (not scorers or "choice" in scorers) else []


def _base_name(name: str) -> str:
    """Return a scorer's name without its package and without the number that Inspect adds to repeated names."""
    return re.sub(r"[0-9]+\Z", "", name.rpartition("/")[2])


def _scorers(sample: Mapping[str, Any], about: Any) -> dict[str, Mapping[str, Any]]:
    """Return the options of each scorer by name: of those in the log (`about` is its `eval`), or that gave scores."""
    stated = [scorer for scorer in as_list(as_mapping(about).get("scorers")) if isinstance(scorer, Mapping)]
    scorers = {str(scorer.get("name")): as_mapping(scorer.get("options")) for scorer in stated if scorer.get("name")}
    return scorers or {str(name): {} for name in as_mapping(sample.get("scores"))}


def _includes(targets: Sequence[str], *, any_case: bool) -> dict[str, Any]:
    """Make the rule that one of the targets must occur in the response. Set `any_case` to ignore case."""
    if len(targets) == 1:
        return {"type": "TraceContains", "substring": targets[0], **({"case_sensitive": False} if any_case else {})}
    pattern = "|".join(map(re.escape, targets))
    return {"type": "TraceRegex", "pattern": pattern, **({"flags": ["IGNORECASE"]} if any_case else {})}
