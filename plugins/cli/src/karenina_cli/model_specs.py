"""Models on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

SPEC_HELP = "interface:model_name, interface:model_name@base_url, or a JSON object of a model's configuration."


def parse_models(specs: Iterable[str], recordings: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Return the models of one role, as `karenina_benchmark.model_specs.parse_models` does.

    Raises `typer.BadParameter`.
    """
    from karenina_benchmark import model_specs
    from karenina_core.errors import ConfigError

    try:
        return model_specs.parse_models(specs, recordings)
    except ConfigError as error:
        raise typer.BadParameter("; ".join(error.problems)) from None
