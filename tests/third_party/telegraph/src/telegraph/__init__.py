"""A complete third-party adapter: its server takes a list of messages as JSON and returns one."""

from karenina_core import AdapterSpec, Message, Usage, hookimpl
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import NO_INFO, ErrorCategory, LLMReply, ParserReply, PortError, Turn
from karenina_toolkit.http_errors import status_error
from karenina_toolkit.structured.structured_modes import append_schema
from karenina_toolkit.tool_loop import run_tool_loop


class Telegraph:
    guards_calls = True

    def __init__(self, model):
        self.model, self.where = model, f"{model.model_name} at {model.endpoint_base_url}"
        self.key = model.endpoint_api_key.get_secret_value()

    async def invoke(self, messages, *, info=NO_INFO):
        turn = await self.send(messages)
        return LLMReply(turn.message.content, turn.usage)

    async def parse(self, messages, schema, *, info=NO_INFO):
        turn = await self.send(append_schema(messages, schema))
        return ParserReply(turn.message.content, "prompt", turn.usage)

    async def run(self, messages, options, *, info=NO_INFO):
        return await run_tool_loop(Conversation(self, messages), options)

    async def aclose(self):
        pass

    async def send(self, messages, tools=()):
        import aiohttp

        model, offered = self.model, [[tool.name, tool.description, tool.schema] for tool in tools]
        said = [message.to_dict() for message in messages]
        body = [model.model_name, model.temperature, model.max_tokens, offered, said]
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(model.request_timeout)) as session:
                reply = await session.post(model.endpoint_base_url, json=body, headers={"Key": self.key})
                text = await reply.text()
        except TimeoutError:
            raise PortError(f"{self.where} is silent", category=ErrorCategory.TIMEOUT) from None
        except aiohttp.ClientError as error:
            raise PortError(f"{self.where}: {error}", category=ErrorCategory.CONNECTION) from None
        if reply.status >= 300:
            raise status_error(self.where, reply.status, reply.headers, text, [self.key], messages)
        try:
            data = await reply.json(content_type=None)
            return Turn(Message.from_dict(data["line"]), Usage(data["read"], data["typed"], calls=1))
        except (ValueError, LookupError, TypeError):
            raise PortError(f"{self.where} talks nonsense", category=ErrorCategory.SERVER) from None


class Conversation:
    def __init__(self, port, messages):
        self.port, self.where, self.messages = port, port.where, list(messages)

    async def request_turn(self, tools, *, first):
        return await self.port.send(self.messages, tools.values())

    def add_turn(self, turn):
        self.messages.append(turn.message)

    def add_results(self, results):
        self.messages += results


def check(model):
    for name in model.extra:
        raise AdapterConfigError(f"model {model.id!r}, extra.{name}: there are no settings; remove it")


class plugin:
    @staticmethod
    @hookimpl
    def karenina_adapters():
        ports = dict.fromkeys(("llm", "parser", "agent"), Telegraph)
        return [AdapterSpec(interface="telegraph", description="A server.", from_files=True, check=check, **ports)]
