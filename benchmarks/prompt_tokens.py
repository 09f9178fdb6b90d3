"""How many tokens a judge call adds to the question and the answer, for a template with one field.

    python benchmarks/prompt_tokens.py

The instructions, the field's description, the fence around the answer and the JSON schema are counted with the
tokenizer of the demo's judge, which must be installed (`karenina model pull`). It counts digits one by one, so other
tokenizers count fewer. Large judges get the first prompt by default, small judges the second.
"""

from __future__ import annotations

import asyncio
import json

from measuring import Target, machine, print_targets
from pydantic import SecretStr

from karenina_core.models.model import ModelConfig
from karenina_local.server import LlamaServer, ServerSettings
from karenina_local.store import find_model
from karenina_openai.client import Client
from karenina_template.parse_template import LISTING, PARSING, with_rejected
from karenina_template.parsing_stage import parsing_request
from karenina_template.templates import load_template
from karenina_toolkit.structured.schema_forms import strict_schema

QUESTION, ANSWER = "In which year did the Second World War end?", "The war ended in 1945."
TEMPLATE = """
class Answer(BaseAnswer):
    year: int = VerifiedField(
        description="The year that the response states", ground_truth=1945, verify_with=NumericExact()
    )
"""
MOST = 300
JUDGE = "qwen2.5-coder-0.5b"


def main() -> None:
    """Count the tokens and print them with the target."""
    server = LlamaServer(ServerSettings(find_model(JUDGE).resolve(), context=512))
    try:
        address = server.address()
        key = SecretStr(address.key)
        model = ModelConfig(
            id=JUDGE, interface="openai", model_name=JUDGE, endpoint_base_url=address.url, endpoint_api_key=key
        )

        async def count(*texts: str) -> list[int]:
            """Return the number of tokens of each text."""
            client = Client(model, path="/tokenize")
            try:
                return [len((await client.post([], [], content=text))["tokens"]) for text in texts]
            finally:
                await client.aclose()

        print(f"prompt tokens; {machine()}")
        schema = load_template(TEMPLATE).for_question("war").judge_schema()
        targets = []
        for who, task, form in (("large", PARSING, schema), ("small", LISTING, with_rejected(schema)[1])):
            request = parsing_request(QUESTION, form, {}, ANSWER)
            sent = json.dumps(strict_schema(form, official=True)[0], separators=(",", ":"))
            system, item, question, answer, of_schema = asyncio.run(
                count(task.instructions, request, QUESTION, ANSWER, sent)
            )
            around = item - question - answer
            total = system + around + of_schema
            print(f"  {who} judges: {system} instructions + {around} field and fence + {of_schema} schema = {total}")
            targets += [Target("tokens added for large judges", total, MOST)] if who == "large" else []
        print_targets(targets)
    finally:
        server.close()


if __name__ == "__main__":
    main()
