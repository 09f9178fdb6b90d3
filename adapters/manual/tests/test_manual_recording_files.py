"""Broken recordings are refused before the run, with file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_manual import plugin

if TYPE_CHECKING:
    from pathlib import Path

SPEC = plugin.karenina_adapters()[0]


def check(traces: Any, **extra: str) -> None:
    assert SPEC.check is not None
    SPEC.check(ModelConfig(id="m", interface="manual", model_name="x", manual_traces=traces, extra=extra))


FIRST = '{"id": "a", "response": "x"}\n'

WRONG: dict[str, list[tuple[str | bytes, str]]] = {
    "a.jsonl": [
        (FIRST + '{"id": "b", "resp', "a.jsonl, line 2, column 13: the JSON is incomplete"),
        (FIRST + "\n[1]\n", "line 3: the row must be an object with named columns, not list"),
        (FIRST + '{"response": "x"}', "line 2: the row does not identify a question.*question_id, id, .*question"),
        (FIRST + '{"id": "b", "said": "x"}', "line 2: the row contains no recording.*response, answer"),
        (FIRST + '{"id": "a", "response": "y"}', "line 2: the id 'a' already has a different recording at .*line 1"),
        ('{"id": "a", "response": "x", "response": "y"}', "line 1: .*'response' occurs more than once"),
        (
            '{"id": "a", "response": 5}',
            "line 1: the recording is neither a string nor a list of messages: the recording must be a list of "
            "messages, not int",
        ),
        ('{"id": "a", "messages": [{"role": "?"}]}', "line 1: .*entry 1: unknown role '\\?'"),
        ('{"id": "a", "response": "x", "replicate": 0}', "line 1: replicate must be 1 or more, not 0"),
        ('{"id": "a", "response": "x", "replicate": true}', "replicate must be 1 or more, not True"),
        ('{"id": "a", "replicates": "x"}', "line 1: replicates must be a non-empty list"),
        (
            '{"id": "a", "text": "x", "model": "one"}\n{"id": "a", "text": "y", "model": "other"}',
            "line 2: the id 'a' already has a different recording at .*; the answers come from several models; judge "
            """each model with its own option: --answering '{"interface": "manual", "id": "one", .*"""
            """{"model": "one"}}' --answering '{.*'""",
        ),
        (
            '{"id": "a", "exchanges": [{"request": {}}]}',
            "line 1: .*exchange 1: the response must be an object, not NoneType",
        ),
        ('{"id": "a", "exchanges": []}', "line 1: .*there are no exchanges to convert"),
        ("\n", "has no recording"),
        (FIRST.encode() + b'{"id": "\xff"}', "line 2, byte 8: the text is not valid UTF-8"),
    ],
    "a.json": [
        ('{"a": ', "a.json, line 1, column 7: the JSON is incomplete"),
        ('"x"', "must contain an object"),
        ('{"a": "x", "b": {"response": "y"}}', "key 'b': the recording is neither a string"),
        ('{"a": "x", "a": "y"}', "'a' occurs more than once"),
        ('[{"id": "a", "response": "x"}, {}]', "entry 2: the row does not identify a question"),
        ("[" * 100_000, "the JSON cannot be parsed"),
    ],
    "a.txt": [("x", "must end in .json, .jsonl or .ndjson")],
}


@pytest.mark.parametrize(
    ("name", "content", "problem"), [(name, *case) for name, cases in WRONG.items() for case in cases]
)
def test_a_broken_file_is_named_with_the_place(name: str, content: str | bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(AdapterConfigError, match=problem):
        check(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdapterConfigError, match=r"absent\.jsonl: No such file.*manual_traces"):
        check(tmp_path / "absent.jsonl")
    with pytest.raises(AdapterConfigError, match=r"check manual_traces|must end in"):
        check(tmp_path)


@pytest.mark.parametrize(
    ("traces", "problem"),
    [
        (None, "model 'm': manual_traces is missing"),
        ({}, "manual_traces of model 'm' has no recording"),
        (
            {"a": 5},
            r"manual_traces\['a'\]: the recording is neither a string nor a list of messages: the recording "
            r"must be a list of messages, not int",
        ),
        ({"a": {"replicates": []}}, "replicates must be a non-empty list"),
    ],
)
def test_a_mapping_is_checked_too(traces: Any, problem: str) -> None:
    with pytest.raises(AdapterConfigError, match=problem):
        check(traces)


def test_an_unknown_model_is_an_error_with_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "a", "text": "x", "model": "one"}\n{"id": "a", "text": "y", "model": "other"}\n')
    with pytest.raises(AdapterConfigError, match=r"no recordings for the model 'third' .* recordings for: one, other"):
        check(file, model="third")
    check(file, model="one")


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(AdapterConfigError, match=r"extra\.id_column"):
        check({"a": "x"}, id_column="key")


def test_the_same_answer_twice_is_no_contradiction(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(FIRST * 2)
    check(file)


def test_a_link_out_of_the_folder_of_a_model_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (tmp_path / "secret.jsonl").write_text(FIRST)
    (folder / "inside.jsonl").write_text(FIRST)
    (folder / "link.jsonl").symlink_to("inside.jsonl")
    (folder / "out.jsonl").symlink_to("../secret.jsonl")
    check(folder / "out.jsonl")  # of a user
    confined = {"id": "m", "interface": "manual", "model_name": "x", "files_within": folder}
    assert SPEC.check is not None
    SPEC.check(ModelConfig(**confined, manual_traces=folder / "link.jsonl"))
    with pytest.raises(AdapterConfigError, match=r"out\.jsonl: the file cannot be read: the path is outside"):
        SPEC.check(ModelConfig(**confined, manual_traces=folder / "out.jsonl"))
