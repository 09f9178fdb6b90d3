"""Answer a server that requests input from the user during a call: there is no user, so its own defaults are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext


async def answer_elicitation(
    context: ClientRequestContext,  # noqa: ARG001 - part of the library's signature
    params: ElicitRequestParams,
) -> ElicitResult:
    """Return the form with its defaults. Decline if a required field has no default, or if the server requests
    a web page.
    """
    if not isinstance(params, ElicitRequestFormParams):
        return ElicitResult(action="decline")
    schema: dict[str, Any] = params.requested_schema
    fields: dict[str, Any] = schema.get("properties", {})
    filled = {name: field["default"] for name, field in fields.items() if "default" in field}
    if not set(schema.get("required", ())) <= set(filled):
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=filled)
