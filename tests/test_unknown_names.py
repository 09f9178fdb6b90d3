"""A misspelt name in any table of settings is refused with the most similar known name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from karenina import ModelConfig
from karenina_core.config import all_settings
from karenina_core.plugins import active_plugins
from karenina_mcp.settings import ServerOptions
from karenina_toolkit.plugin_lookup import registered_adapters


def tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation, those in the fields of models included."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for info in annotation.model_fields.values():
            yield from tables_in(info.annotation)
    for part in get_args(annotation):
        yield from tables_in(part)


EXTRAS = {one.spec.extra for one in registered_adapters(active_plugins()) if one.spec.extra is not None}
FROM_CODE = {"SearchFunction", "FewShotExample"}
"""A function of the program, which no table writes; and the data of a question."""
FOUND = (
    EXTRAS | {ServerOptions} | {table for one in all_settings().values() for table in tables_in(one.info.annotation)}
)
TABLES = sorted((table for table in FOUND if table.__name__ not in FROM_CODE), key=lambda table: table.__name__)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_a_misspelt_name_of_a_table_names_the_nearest(table: type[BaseModel]) -> None:
    name = max(table.model_fields, key=len)
    with pytest.raises(ValidationError) as caught:
        table.model_validate({f"{name}s": 1})
    (found,) = [one for one in caught.value.errors() if one["loc"] == (f"{name}s",)]
    assert found["msg"] == f"unknown name; did you mean {name!r}?"


def test_all_other_problems_of_a_model_come_with_it() -> None:
    with pytest.raises(ValidationError) as caught:
        ModelConfig(id="m", interface="x", model_name="", temprature=0, max_tokens=0)  # type: ignore[call-arg]
    assert {one["loc"][0]: one["type"] for one in caught.value.errors()} == {
        "temprature": "unknown_name",
        "model_name": "string_too_short",
        "max_tokens": "greater_than_equal",
    }
