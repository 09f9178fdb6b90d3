"""Chat models of providers whose packages this adapter does not know: which settings reach them, and in which form."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_servers import model
from pydantic import Field, model_validator

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import Message
from karenina_langchain.chat_models import make_chat_model
from karenina_langchain.ports import LangchainParser

URL = "http://localhost:9/v1"
KEY = "sk-very-secret-key-000"


class ChatAny(FakeListChatModel):
    """A chat model with the usual arguments."""

    responses: list[str] = Field(default_factory=list)
    base_url: str | None = None
    key: str | None = Field(default=None, alias="api_key")
    max_tokens: int | None = None
    temperature: float | None = None
    default_headers: dict[str, str] | None = None


class ChatLittle(FakeListChatModel):
    """A chat model without most arguments, which ignores them."""

    responses: list[str] = Field(default_factory=list)
    cohere_api_key: str | None = None
    num_predict: int | None = None
    client_kwargs: dict[str, Any] | None = None


class ChatPassing(FakeListChatModel):
    """A chat model that sends arguments which it does not know to its server."""

    responses: list[str] = Field(default_factory=list)
    model_kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _pass_on(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"model_kwargs": {name: value for name, value in values.items() if name not in cls.model_fields}}


@pytest.fixture
def create(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that creates the chat model of a class for a provider, through a stand-in for LangChain."""

    def make(kind: Callable[..., Any], provider: str, **fields: Any) -> Any:
        langchain = ModuleType("langchain.chat_models")
        langchain.init_chat_model = lambda name, *, model_provider, **arguments: kind(**arguments)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
        monkeypatch.setitem(sys.modules, "langchain.chat_models", langchain)
        url = fields.pop("url", None)
        return make_chat_model(model(url, "langchain", model_provider=provider, **fields))[0]

    return make


def test_settings_reach_the_chat_model(create: Callable[..., Any]) -> None:
    extra = {"headers": {"X-Own": "yes"}}
    chat = create(ChatAny, "any", url=URL, endpoint_api_key=KEY, max_tokens=9, temperature=0.0, extra=extra)
    assert (chat.base_url, chat.key, chat.max_tokens, chat.temperature) == (URL, KEY, 9, 0.0)
    assert chat.default_headers == {"X-Own": "yes"}


@pytest.mark.parametrize(
    ("fields", "setting"),
    [
        ({"url": URL}, "base_url, so endpoint_base_url"),
        ({"endpoint_api_key": KEY}, "api_key, so endpoint_api_key"),
        ({"max_tokens": 9}, "max_tokens, so max_tokens"),
        ({"extra": {"headers": {"X-Own": "yes"}}}, "default_headers, so extra.headers"),
    ],
)
def test_a_setting_without_effect_is_an_error(fields: dict[str, Any], setting: str, create: Callable[..., Any]) -> None:
    with pytest.raises(AdapterConfigError, match=f"^model 'm': LangChain's ChatLittle has no argument {setting} has"):
        create(ChatLittle, "any", **fields)


def test_a_setting_that_the_chat_model_passes_on_is_no_error(create: Callable[..., Any]) -> None:
    assert create(ChatPassing, "any", max_tokens=9).model_kwargs["max_tokens"] == 9


def test_packages_get_arguments_under_their_own_names(create: Callable[..., Any]) -> None:
    assert create(ChatLittle, "cohere", endpoint_api_key=KEY).cohere_api_key == KEY
    own = {"headers": {"X-Own": "yes"}, "parameters": {"client_kwargs": {"trust_env": False}}}
    chat = create(ChatLittle, "ollama", endpoint_api_key=KEY, max_tokens=9, extra=own)
    assert chat.num_predict == 9
    assert chat.client_kwargs == {"trust_env": False, "headers": {"Authorization": f"Bearer {KEY}", "X-Own": "yes"}}


def test_a_package_that_cannot_create_its_model_says_why(create: Callable[..., Any]) -> None:
    def refuse(**_arguments: Any) -> Any:
        raise RuntimeError(f"{KEY} is no key; set CO_API_KEY")

    with pytest.raises(AdapterConfigError) as caught:
        create(refuse, "cohere", endpoint_api_key=KEY)
    said = "model 'm': LangChain's chat model cannot be created (RuntimeError: *** is no key; set CO_API_KEY)"
    assert str(caught.value) == said


class ChatWithoutRaw(ChatAny):
    """A chat model in the form of ChatCohere: a schema loses the message, and a tool cannot have every schema."""

    def with_structured_output(self, schema: Any, *, method: str = "", include_raw: bool = False, **_: Any) -> Any:
        if method == "function_calling":
            raise ValueError("Input should be a valid string")
        return self | (lambda message: {"city": message.content})


@pytest.mark.anyio
async def test_a_chat_model_that_cannot_show_its_message_is_asked_by_prompt(create: Callable[..., Any]) -> None:
    create(ChatWithoutRaw, "any")
    parser = LangchainParser(
        model(None, "langchain", model_provider="any", extra={"parameters": {"responses": ["{}"]}})
    )
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    reply = await parser.parse([Message.user("Paris.")], schema)
    assert (reply.text, reply.mode) == ("{}", "prompt")
    await parser.aclose()
