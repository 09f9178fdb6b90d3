"""The result of a tool call as text for the model."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


def result_text(result: CallToolResult) -> str:
    """Return the text of a result, one block below the other; other content is described, without its data."""
    found = "\n".join(_texts(result.content))
    if not found and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return found


def _texts(blocks: list[ContentBlock]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, TextContent):
            yield block.text
        elif isinstance(block, ImageContent | AudioContent):
            yield f"[{block.type}, {block.mime_type}, {_size(block.data)} bytes: not shown]"
        elif isinstance(block, ResourceLink):
            named = f"{block.title or block.name}: " if block.title or block.name else ""
            yield f"[link to a resource: {named}{block.uri}]"
        elif isinstance(block, EmbeddedResource):
            inside = block.resource
            if isinstance(inside, TextResourceContents):
                yield inside.text
            else:
                kind = inside.mime_type or "binary"
                yield f"[resource {inside.uri}, {kind}, {_size(inside.blob)} bytes: not shown]"


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
