from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, ErrorCategory, Message, PortError
from karenina_local import plugin
from karenina_local.ports import LocalLLM, LocalParser
from karenina_local.server import POOL, Address, LlamaServer

T = TypeVar("T")
P = TypeVar("P", LocalLLM, LocalParser)
(SPEC,) = plugin.karenina_adapters()
FRANCE = [
    Message.system("You are a helpful assistant. Answer in one short sentence."),
    Message.user("What is the capital of France?"),
]
PERSON = {
    "type": "object",
    "title": "Person",
    "properties": {
        "name": {"type": "string"},
        "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "alive": {"type": "boolean"},
        "sex": {"enum": ["female", "male"], "type": "string"},
        "works": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "alive", "sex", "works"],
}


def model(path: Path | str, **changes: Any) -> ModelConfig:
    values = {"temperature": 0.0, "max_tokens": 60, "extra": {"context": 512}, **changes}
    return ModelConfig(id="small", interface="local", model_name=str(path), **values)


@pytest.fixture(scope="module")
def served(smollm2: Path, shared_server: Callable[..., Address]) -> Path:
    """The small model, whose server runs already."""
    shared_server(context=512)
    return smollm2


def held(context: int) -> tuple[LlamaServer, int]:
    """Return the server with this context, and the number of its users."""
    (found,) = [(server, users) for server, users in POOL.held() if server.settings.context == context]
    return found


def using(kind: Callable[[ModelConfig], P], config: ModelConfig, use: Callable[[P], Awaitable[T]]) -> T:
    """Return the result of `use` with a port of this kind."""

    async def run() -> T:
        port = kind(config)
        try:
            return await use(port)
        finally:
            await port.aclose()

    return asyncio.run(run())


def test_a_real_model_answers_and_its_tokens_are_counted(served: Path) -> None:
    reply = using(LocalLLM, model("smollm2-135m"), lambda port: port.invoke(FRANCE))
    assert "Paris" in reply.text
    assert reply.finish_reason == "stop"
    assert reply.usage.calls == 1
    assert min(reply.usage.input_tokens, reply.usage.output_tokens) > 5


def test_a_judge_cannot_leave_its_schema(served: Path) -> None:
    config = model(served, extra={"context": 512, "max_list_items": 2, "max_string_length": 12}, max_tokens=200)
    asked = [Message.user("Ada Lovelace, a mathematician, died at 36. Fill the form about her as JSON.")]
    reply = using(LocalParser, config, lambda port: port.parse(asked, PERSON))
    found = json.loads(reply.text)
    assert reply.mode == "json_schema"
    assert list(found) == PERSON["required"]
    assert found["sex"] in ("female", "male")
    assert isinstance(found["alive"], bool)
    assert found["age"] is None or isinstance(found["age"], int)
    assert len(found["works"]) <= 2
    assert all(len(text) <= 12 for text in [found["name"], *found["works"]])


def test_a_choice_comes_with_the_probability_of_each_option(served: Path) -> None:
    options = ["Paris", "Rome", "none of them"]
    form = {"type": "object", "properties": {"city": {"enum": options, "type": "string"}}, "required": ["city"]}
    asked = [Message.user('Which city is in France? Reply as JSON, such as {"city": "Rome"}.')]

    reply = using(LocalParser, model(served), lambda port: port.parse(asked, form))

    assert reply.option_logprobs is not None
    assert list(reply.option_logprobs) == options
    assert all(-50 < logprob < 0 for logprob in reply.option_logprobs.values())
    assert max(reply.option_logprobs, key=lambda one: reply.option_logprobs[one]) == json.loads(reply.text)["city"]


def test_slots_answer_side_by_side_and_alike(served: Path) -> None:
    async def three(port: LocalLLM) -> list[str]:
        return [reply.text for reply in await asyncio.gather(*(port.invoke(FRANCE) for _ in range(3)))]

    assert all("Paris" in text for text in using(LocalLLM, model(served), three))


def test_replicates_are_sampled_apart_and_each_can_be_repeated(two_layers: Path) -> None:
    async def sample(port: LocalLLM) -> list[str]:
        asked = [Message.user("Tell me a story.")]
        return [(await port.invoke(asked, info=CallInfo(replicate=number))).text for number in (1, 2, 1)]

    first, second, again = using(
        LocalLLM, model(two_layers, temperature=1.0, max_tokens=20, extra={"slots": 1, "context": 512}), sample
    )
    assert first != second
    assert first == again


def test_a_reply_that_is_cut_off_says_so(served: Path) -> None:
    assert using(LocalLLM, model(served, max_tokens=2), lambda port: port.invoke(FRANCE)).finish_reason == "length"


def test_a_too_long_prompt_names_the_setting(served: Path) -> None:
    with pytest.raises(PortError, match="at most 512 tokens in total; raise `context`") as caught:
        using(LocalLLM, model(served), lambda port: port.invoke([Message.user("word " * 2000)]))
    assert caught.value.category is ErrorCategory.PERMANENT


def test_both_roles_share_one_process(smollm2: Path) -> None:
    async def run() -> tuple[int | None, int | None, int | None]:
        config = model(smollm2, extra={"context": 600})
        answerer, judge = LocalLLM(config), LocalParser(config)
        server, users = held(600)
        assert users == 2
        await asyncio.gather(answerer.invoke(FRANCE), judge.parse(FRANCE, PERSON))
        both = server.pid
        await answerer.aclose()
        await answerer.aclose()  # closing twice gives back once
        one = server.pid
        await judge.aclose()
        return both, one, server.pid

    both, one, none = asyncio.run(run())
    assert both is not None
    assert both == one
    assert none is None


def test_the_server_is_not_started_before_the_first_call(smollm2: Path) -> None:
    async def run() -> int | None:
        port = LocalLLM(model(smollm2, extra={"context": 700}))
        server, _ = held(700)
        pid = server.pid
        await port.aclose()
        return pid

    assert asyncio.run(run()) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_name": "qwen2.5-coder-0.5b"}, "karenina model pull qwen2.5-coder-0.5b"),
        ({"extra": {"slots": 0}}, "extra.slots: Input should be greater than or equal to 1"),
        ({"extra": {"slot": 1}}, "extra.slot: unknown name; did you mean 'slots'?"),
        (
            {"endpoint_base_url": "http://localhost:1/v1"},
            "sets endpoint_base_url, which the 'local' interface does not support",
        ),
        ({"endpoint_api_key": "k"}, "sets endpoint_api_key"),
    ],
)
def test_what_would_fail_every_item_is_refused_before_a_run(
    empty_folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF")
    assert SPEC.check is not None
    SPEC.check(ModelConfig(id="small", interface="local", model_name=str(mine)))
    with pytest.raises(AdapterConfigError) as caught:
        SPEC.check(ModelConfig(**{"id": "small", "interface": "local", "model_name": str(mine), **changes}))
    assert message in str(caught.value)


def test_calls_under_way_are_as_many_as_slots(tmp_path: Path) -> None:
    assert SPEC.concurrency is not None
    assert SPEC.concurrency(model("smollm2-135m", extra={"slots": 5})) == 5


def test_it_is_available_where_it_is_installed() -> None:
    assert SPEC.unavailable is not None
    assert SPEC.unavailable() is None


def test_nothing_of_ours_listens_to_the_network(served: Path) -> None:
    async def reach(port: LocalLLM) -> bool:
        await port.invoke(FRANCE)
        server, _ = held(512)
        running = server.address_if_running()
        assert running is not None
        number = int(running.url.rsplit(":", 1)[1])
        with socket.socket() as connection:
            connection.settimeout(5)
            return connection.connect_ex(("127.0.0.2", number)) == 0

    assert not using(LocalLLM, model(served), reach)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"replies": []}'])
def test_a_file_without_recorded_replies_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "replies.json"
    file.write_text(content)
    assert SPEC.check is not None
    with pytest.raises(AdapterConfigError, match=r"replies\.json is not a file of recorded replies"):
        SPEC.check(ModelConfig(id="m", interface="local", model_name="m", extra={"replies": str(file)}))
