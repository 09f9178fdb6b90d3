"""The JSON Schema of a result, as each line of a result file after the first holds one."""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

from karenina_core.data.result import VerificationResult

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def make_schema() -> dict[str, Any]:
    """Return the schema of the installed version."""
    return {"$schema": DIALECT, **VerificationResult.model_json_schema(mode="serialization")}


def published_schema() -> str:
    """Return the text of `result.schema.json`, the schema that this distribution publishes."""
    return resources.files("karenina_report").joinpath("result.schema.json").read_text("utf-8")
