"""Values of settings that are given as text: in environment variables and on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter

from karenina_core.catalog import read_catalog
from karenina_core.config.setting_owners import PREFIX, all_settings

_json: Final = TypeAdapter(Any).validate_json


def read_environment() -> Iterator[tuple[str, Any]]:
    """Yield the names that environment variables set, with their values.

    Text that is not JSON is the value itself: `KARENINA_RUN_NAME=nightly` and `KARENINA_REPLICATE_COUNT=3` both work.
    An unknown variable `KARENINA_...` is yielded under its own name, so that the configuration reports it.
    """
    strange = {variable for variable in os.environ if variable.startswith(PREFIX)}
    for name, setting in all_settings().items():
        strange.difference_update(setting.environment)
        for variable in setting.environment:
            if variable in os.environ and variable != "KARENINA_PLUGINS":
                yield name, _read_value(os.environ[variable], setting.info.annotation)
                break
    yield from ((unknown, os.environ[unknown]) for unknown in sorted(strange - read_catalog()["variables"].keys()))


def read_value(name: str, text: str, read: Callable[[str], Any] = _json) -> Any:
    """Return the value of `name=text`: the text itself if the setting takes texts, or if `read` rejects it.

    `read` converts the text of other settings, also of unknown ones, and raises `ValueError` if it cannot.
    """
    setting = all_settings().get(name)
    return _read_value(text, setting.info.annotation if setting is not None else None, read)


def _read_value(text: str, annotation: Any, read: Callable[[str], Any] = _json) -> Any:
    kind = get_origin(annotation)
    one_of_several = get_args(annotation) if kind in (Union, UnionType) else ()
    if kind is Literal or {str, Path} & {annotation, *one_of_several}:
        return text
    try:
        return read(text)
    except ValueError:  # a ValidationError is one
        return text
