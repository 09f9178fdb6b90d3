"""The evaluated starts of prompts: reused by later calls, runs and processes, and without influence on replies."""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message, ParserReply
from karenina_local import prompt_cache
from karenina_local.ports import LocalLLM, LocalParser
from karenina_local.server import POOL

COLOURS = (
    "Somebody describes where they live and what surrounds their house. Read everything that they write carefully, "
    "because people sometimes mention several different colours in the same description, although only one of them "
    "answers the question. Name the colour that they consider important, without further explanation or comments "
    "about your decision. Somebody else compares the colour with information about their neighbourhood."
)
RULES = COLOURS.replace("colour", "city") + ' As JSON: {"city": "Rome"}'
LEAST = 70
"""A prompt with either has more tokens; the smallest model reads a hundred in a second."""
CITIES = ("Paris", "Rome", "Lyon")
FORM = {"type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for evaluated prompts, which does not exist yet."""
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(prompt_cache, "_WARNED", set())
    return tmp_path / "prompts"


@pytest.fixture
def model(two_layers: Path) -> Callable[..., ModelConfig]:
    """Return a function that makes the configuration of a model with few layers with the given `extra`."""
    return lambda **extra: configured(two_layers, **extra)


@pytest.fixture
def whole_model(smollm2: Path) -> Callable[..., ModelConfig]:
    """Return a function that makes the small model's configuration with the given `extra`."""
    return lambda **extra: configured(smollm2, **extra)


def configured(file: Path, **extra: Any) -> ModelConfig:
    served = {"context": 1024, "threads": 1, **extra}
    return ModelConfig(
        id="small", interface="local", model_name=str(file), temperature=0.0, max_tokens=30, extra=served
    )


def prompt(text: str, rules: str = RULES) -> list[Message]:
    """Return a prompt whose instructions are marked as constant."""
    return [Message("system", rules, is_constant=True), Message.user(text)]


def parse_all(config: ModelConfig, texts: Sequence[str]) -> dict[str, ParserReply]:
    """Return the replies to prompts with these texts, asked one after the other, by a server of their own."""

    async def run() -> dict[str, ParserReply]:
        port = LocalParser(config)
        try:
            return {text: await port.parse(prompt(text), FORM) for text in texts}
        finally:
            await port.aclose()

    return asyncio.run(run())


def read_tokens(config: ModelConfig, *prompts: list[Message]) -> list[int]:
    """Return how many prompt tokens llama.cpp evaluates for each call, by a server of their own."""

    async def run() -> list[int]:
        port, counts = LocalLLM(config.model_copy(update={"max_tokens": 1})), []
        try:
            for messages in prompts:
                before = port.speed.read_tokens
                await port.invoke(messages)
                counts.append(port.speed.read_tokens - before)
        finally:
            await port.aclose()
        return counts

    return asyncio.run(run())


def test_instructions_are_evaluated_once_for_all_runs(folder: Path, model: Callable[..., ModelConfig]) -> None:
    first, second = read_tokens(model(), prompt("I live in Rome."), prompt("I live in Lyon."))
    (later,) = read_tokens(model(), prompt("I live in Rome."))
    (others,) = read_tokens(model(threads=2, context=512), prompt("I live in Rome."))

    assert first > LEAST
    assert max(second, later) < 40
    assert others == first, "another context size has files of its own"
    assert {file.suffix for file in folder.iterdir()} == {prompt_cache.SUFFIX}
    assert folder.stat().st_mode & 0o077 == 0


def test_replies_are_the_same_whatever_was_evaluated_before(
    folder: Path, whole_model: Callable[..., ModelConfig]
) -> None:
    texts = ["I live in Rome.", "I live in Lyon, not in Paris."]

    empty = parse_all(whole_model(), texts)
    full = parse_all(whole_model(), texts[::-1])
    off = parse_all(whole_model(prompt_cache=0), texts)

    assert empty == full == off
    assert any(reply.option_logprobs for reply in empty.values())
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],  # llama.cpp itself crashes on it
        pytest.param(lambda data: data[: len(data) // 2], marks=pytest.mark.release),
        pytest.param(lambda _: b"ggsq?", marks=pytest.mark.release),
    ],
)
def test_a_damaged_file_is_replaced(
    folder: Path, model: Callable[..., ModelConfig], damage: Callable[[bytes], bytes]
) -> None:
    before = parse_all(model(), ["I live in Rome."])
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))

    assert parse_all(model(), ["I live in Rome."]) == before
    assert file.read_bytes() == whole


def test_a_folder_that_others_can_write_is_not_read(
    folder: Path, model: Callable[..., ModelConfig], caplog: pytest.LogCaptureFixture
) -> None:
    parse_all(model(), ["I live in Rome."])
    folder.chmod(0o777)
    (file,) = folder.iterdir()
    before = file.stat().st_mtime_ns

    first, second = read_tokens(model(), prompt("I live in Rome."), prompt("I live in Lyon."))

    assert (first > LEAST, second < 40) == (True, True), "they are kept for the run, elsewhere"
    assert file.stat().st_mtime_ns == before
    assert f"evaluated prompts are not kept after this run: the state folder {folder} is writable by" in caplog.text


def test_one_warning_says_that_nothing_can_be_kept(
    folder: Path, model: Callable[..., ModelConfig], caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("in its place")

    for _ in range(2):
        assert parse_all(model(), ["I live in Rome."])

    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "not kept after this run" in warnings[0].getMessage()


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_a_full_disk_costs_time_only(
    folder: Path, model: Callable[..., ModelConfig], caplog: pytest.LogCaptureFixture
) -> None:
    before = parse_all(model(prompt_cache=0), ["I live in Rome."])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # for the server too
    try:
        after = parse_all(model(), [*before])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert after == before
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert f"cannot save evaluated prompts in {folder}" in warnings[0]
    assert list(folder.iterdir()) == []


def test_two_servers_can_save_the_same_prompt_at_once(folder: Path, model: Callable[..., ModelConfig]) -> None:
    configs = [model(), model(start_timeout=299)]

    with ThreadPoolExecutor(2) as callers:
        first, second = callers.map(lambda config: parse_all(config, ["I live in Rome."]), configs)

    assert first == second
    assert [file.suffix for file in folder.iterdir()] == [prompt_cache.SUFFIX]


def test_files_used_least_recently_are_deleted(folder: Path, whole_model: Callable[..., ModelConfig]) -> None:
    tight = whole_model(prompt_cache=3)  # one file has 2 MB
    abandoned = folder / f"x{prompt_cache.UNFINISHED}"
    read_tokens(tight, prompt("Rome."))
    abandoned.write_text("of a process that was killed long ago")
    prompt_cache.os.utime(abandoned, (0, 0))

    counts = read_tokens(tight, prompt("Red.", COLOURS), prompt("Blue.", COLOURS), prompt("Rome."))

    assert [count > LEAST for count in counts] == [True, False, True]
    assert len(list(folder.iterdir())) == 1


def test_a_call_does_not_time_out_while_it_waits_for_its_turn(folder: Path, model: Callable[..., ModelConfig]) -> None:
    async def run() -> str:
        port = LocalLLM(model().model_copy(update={"request_timeout": 8.0, "max_tokens": 2}))
        try:
            await port.invoke([Message.user("Rome.")])
            ((server, _),) = [held for held in POOL.held() if held[0].settings.threads == 1]
            async with server.queue.one():
                waiting = asyncio.create_task(port.invoke([Message.user("Rome.")]))
                await asyncio.sleep(8.5)
            return (await waiting).text
        finally:
            await port.aclose()

    assert asyncio.run(run())


def test_a_cancelled_call_gives_its_slot_back_after_its_file_is_saved(
    folder: Path, whole_model: Callable[..., ModelConfig]
) -> None:
    def unfinished() -> list[Path]:
        return [file for file in folder.glob("*") if file.suffix == prompt_cache.UNFINISHED]

    async def run() -> int:
        port, caught = LocalLLM(whole_model().model_copy(update={"max_tokens": 1})), 0
        try:
            for number in range(8):
                if caught == 2:
                    break
                call = asyncio.ensure_future(port.invoke(prompt("I live in Rome.", f"{number}: {RULES}")))
                while not unfinished() and not call.done():
                    await asyncio.wait([call], timeout=0.0005)
                if call.cancel():
                    caught += 1
                    await asyncio.wait([call])
                    assert not unfinished()
        finally:
            await port.aclose()
        return caught

    assert asyncio.run(run()) > 0
