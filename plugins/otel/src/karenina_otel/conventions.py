"""The names of span and event attributes.

Names that start with `gen_ai.` come from the semantic conventions for generative AI, version 1.41 (in development). The
separate registry `gen-ai-dev` 1.42.0-dev has the same names. Names that start with `karenina.` are our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.1"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
TOOL: Final = "gen_ai.tool.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
OUTPUT_TYPE: Final = "gen_ai.output.type"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_VALUE: Final = "gen_ai.evaluation.score.value"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

QUESTION: Final = "karenina.question.id"
ANSWERING: Final = "karenina.answering_model.id"
JUDGE: Final = "karenina.judge.id"
REPLICATE: Final = "karenina.replicate"
RUN_NAME: Final = "karenina.run.name"
STAGE: Final = "karenina.stage"
OUTCOME: Final = "karenina.outcome"
INTERRUPTED: Final = "karenina.interrupted"

Value = str | bool | int | float | list[str]

_BY_HOST: Final = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "inference.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.mistral.ai": "mistral_ai",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
    "openrouter.ai": "openrouter",
}
_BY_NAME: Final = {
    "azure_openai": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "google_anthropic_vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "anthropic_bedrock": "aws.bedrock",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
    "ibm": "ibm.watsonx.ai",
}
_BY_INTERFACE: Final = {
    "openai_endpoint": "openai",
    "claude_tool": "anthropic",
    "claude_agent_sdk": "anthropic",
}


def clean_attributes(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    """Return the attributes without those whose value is None, and with unpaired surrogates in strings replaced."""
    return {
        name: replace_surrogates(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def server_of(model: ModelConfig, spec: AdapterSpec | None) -> tuple[str, dict[str, Value]]:
    """Return the name of the provider that serves a model according to its adapter's `spec`, base URL or
    `model_provider`, or else of its interface, using the conventions' name if there is one. Also returns attributes
    with the server's host and port, which are empty without a valid URL.

    The rest of a URL may be secret. The name of the interface determines the format of its telemetry.
    """
    served_by = spec.served_by(model) if spec is not None and spec.served_by is not None else None
    address = served_by or model.endpoint_base_url or model.model_provider or ""
    interface = _BY_INTERFACE.get(model.interface, model.interface)
    if "://" not in address:
        return _BY_NAME.get(address, address) or interface, {}
    try:
        url = urlsplit(address)
        host, port = url.hostname or "", url.port
    except ValueError:
        return interface, {}
    named = next((name for domain, name in _BY_HOST.items() if host == domain or host.endswith(f".{domain}")), None)
    provider = model.model_provider
    name = named or (_BY_NAME.get(provider, provider) if provider else interface)
    return name, {SERVER_ADDRESS: host, SERVER_PORT: port or (443 if url.scheme == "https" else 80)}
