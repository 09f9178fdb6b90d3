"""What a server hears that asks the user something in the middle of a call: nobody is there, so its own defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext


async def answer_elicitation(
    context: ClientRequestContext,  # noqa: ARG001 - it is part of how the library calls
    params: ElicitRequestParams,
) -> ElicitResult:
    """The form with its defaults; it is declined where a field that it requires has none, and so is a web page."""
    if not isinstance(params, ElicitRequestFormParams):
        return ElicitResult(action="decline")
    schema: dict[str, Any] = params.requested_schema
    fields: dict[str, Any] = schema.get("properties", {})
    filled = {name: field["default"] for name, field in fields.items() if "default" in field}
    if not set(schema.get("required", ())) <= set(filled):
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=filled)
