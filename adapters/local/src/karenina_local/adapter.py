"""The `local` adapter and its checks before a run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from karenina_core.models.adapters import AdapterConfigError, AdapterSpec
from karenina_local.settings import LocalSettings, settings_of
from karenina_toolkit.attachments.media_types import IMAGES
from karenina_toolkit.attachments.support import usual_limits
from karenina_toolkit.lazy_names import LazyPorts

if TYPE_CHECKING:
    from karenina_core.models.attachments import MediaLimit
    from karenina_core.models.model import ModelConfig
    from karenina_toolkit.lazy_names import PortClasses


def check(model: ModelConfig) -> None:
    """Raise `AdapterConfigError` if settings are invalid or do not apply to local models, or if the model is not
    installed, with the command that downloads it.
    """
    settings = settings_of(model)
    for name in ("endpoint_base_url", "endpoint_api_key"):
        if getattr(model, name) is not None:
            raise AdapterConfigError(
                f"model {model.id!r} sets {name}, which the 'local' interface does not support because that "
                f"interface starts its own server. Remove {name}, or use the 'openai' interface"
            )
    if settings.replies is not None:
        from karenina_local.recorded_replies import load_replies

        load_replies(settings.replies)
    else:
        from karenina_local.store import find_model

        find_model(model.model_name)
    if settings.mmproj is not None and not settings.mmproj.is_file():
        raise AdapterConfigError(
            f"model {model.id!r}, extra.mmproj: the file {settings.mmproj} does not exist; correct or remove the path"
        )


def unavailable() -> str | None:
    """Return a message if llama.cpp is not installed, otherwise None."""
    if find_spec("xllamacpp") is None:
        return "llama.cpp is not installed: pip install xllamacpp"
    return None


def _classes() -> PortClasses:
    """Return the port classes, importing them only now, so that the adapter can be listed without llama.cpp."""
    from karenina_local.agent import LocalAgent
    from karenina_local.ports import LocalLLM, LocalParser

    return LocalLLM, LocalParser, LocalAgent


_PORTS: Final = LazyPorts(_classes)


def _restricts(model: ModelConfig) -> tuple[str, ...]:
    """Return ("model_name",) for a path, because only the contents of catalogue models are known."""
    from karenina_local.store import is_catalogued

    return () if is_catalogued(model.model_name) else ("model_name",)


def _concurrency(model: ModelConfig) -> int:
    """Return the number of calls that the model's server handles concurrently."""
    return settings_of(model).slots


def _media(model: ModelConfig) -> Mapping[str, MediaLimit]:
    """Return the limits of images if the model has a projector for them, and otherwise nothing."""
    settings = settings_of(model)
    return usual_limits(model, IMAGES, settings) if settings.mmproj is not None else {}


SPEC: Final = AdapterSpec(
    interface="local",
    free=True,
    description="Models on this machine: llama.cpp in a child process, a catalogue model or any GGUF file.",
    llm=_PORTS.llm,
    parser=_PORTS.parser,
    agent=_PORTS.agent,
    extra=LocalSettings,
    uses=("temperature", "max_tokens"),
    allowed_in_files=True,
    restricts=_restricts,
    check=check,
    unavailable=unavailable,
    media=_media,
    concurrency=_concurrency,
)
