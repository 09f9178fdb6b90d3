"""Which models understand which attachments, from where that is known, and how many tokens an attachment costs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

from pydantic import Field, field_validator

from karenina_core.models.attachments import Attachment, MediaLimit
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings
from karenina_toolkit.attachments.media_types import IMAGES, MAX_FILE, MEDIA_TYPES
from karenina_toolkit.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig

PDF: Final = "application/pdf"
Kind = Literal["image", "pdf", "audio"]
_MESSAGES_API: Final = 5 * 2**20 * 3 // 4
"""The maximum size of an image in the Messages API, which is 5 MB in base64."""
_NAMES: Final[dict[Kind, str]] = {"image": "images", "pdf": "PDFs", "audio": "sound"}


class _Known(NamedTuple):
    """What the models of a family understand, and what they do not. `tokens` are the most that an image costs."""

    names: re.Pattern[str]
    understands: tuple[Kind, ...] = ()
    lacks: tuple[Kind, ...] = ()
    tokens: int | None = None
    page_tokens: int | None = None


def _family(
    names: str,
    understands: tuple[Kind, ...] = (),
    lacks: tuple[Kind, ...] = (),
    tokens: int | None = None,
    page_tokens: int | None = None,
) -> _Known:
    """Return what is known about the models whose names match the regular expression `names`, in any case: the kinds of
    attachments that they understand or lack, and the most tokens that an image and a page cost.
    """
    return _Known(lazy_pattern(names, re.IGNORECASE), understands, lacks, tokens, page_tokens)


# The first family that matches counts. From the providers' model pages and guides on images, as of November 2026:
# - OpenAI, https://platform.openai.com/docs/guides/images-vision: a base price and a price for each tile of 512 pixels,
#   of which an image has at most 8 (2048 x 768), or, for mini and nano models from 4.1 to 5, 1536 patches times 2.46 at
#   most. Newer models count more patches for large images, and how many depends on the model, so their price is
#   unknown. A page of a PDF costs its image and its text, for which 2,000 tokens are assumed.
# - Anthropic, https://platform.claude.com/docs/en/build-with-claude/vision: a token for each patch of 28 pixels, with a
#   maximum of 1,600 for an image, or 4,784 for models with high resolution, which is assumed for all families from 4.7
#   on, and https://platform.claude.com/docs/en/build-with-claude/pdf-support: 3,000 tokens for the text of a page.
# - Google, https://ai.google.dev/gemini-api/docs/media-resolution: at most 2,240 tokens for an image or a page. Models
#   before Gemini 3 split large images into tiles, so their price is unknown.
# On 27 November 2026, these were compared with token counts that users measured for large images, none of which is
# higher: https://community.openai.com/t/1262691 and /t/1377015 for OpenAI, and
# https://huggingface.co/datasets/JOHNISKING/image-token-cost for Claude and Gemini.
_FAMILIES: Final = (
    _family(r"gpt-3\.5|o1-mini|o1-preview|o3-mini|davinci|babbage|gpt-oss", lacks=("image", "pdf", "audio")),
    _family(r"gpt-4o(-mini)?-audio|gpt-audio", ("audio",)),
    _family(r"gpt-4o-mini", ("image", "pdf"), ("audio",), 2833 + 8 * 5667, 2833 + 8 * 5667 + 2000),
    _family(r"(chat)?gpt-4o", ("image", "pdf"), ("audio",), 85 + 8 * 170, 85 + 8 * 170 + 2000),
    _family(r"gpt-(4\.1|5)-(mini|nano)|o4-mini", ("image", "pdf"), ("audio",), 3779, 3779 + 2000),
    _family(r"gpt-4\.1", ("image", "pdf"), ("audio",), 85 + 8 * 170, 85 + 8 * 170 + 2000),
    _family(r"gpt-5(?![.\d])", ("image", "pdf"), ("audio",), 70 + 8 * 140, 70 + 8 * 140 + 2000),
    _family(r"gpt-5", ("image", "pdf"), ("audio",)),
    _family(r"o1|o3", ("image", "pdf"), ("audio",), 75 + 8 * 150, 75 + 8 * 150 + 2000),
    _family(r"gpt-4-(turbo|(\d{4}-)?vision)", ("image",), ("audio",), 85 + 8 * 170),
    _family(r"gpt-4(-|$)", lacks=("image", "pdf", "audio")),
    _family(r"claude-(2|instant)", lacks=("image", "pdf", "audio")),
    _family(r"claude-3-(opus|sonnet|haiku)", ("image",), ("audio",), 1600),
    _family(r"claude-(3|(opus|sonnet|haiku)-4-[0-6])", ("image", "pdf"), ("audio",), 1600, 1600 + 3000),
    _family(r"claude-", ("image", "pdf"), ("audio",), 4784, 4784 + 3000),
    _family(r"gemini-[12]", ("image", "pdf", "audio")),
    _family(r"gemini-", ("image", "pdf", "audio"), (), 2240, 2240),
    _family(r"deepseek-(chat|reasoner|r1|v\d)", lacks=("image", "pdf", "audio")),
    _family(r"llava|bakllava|pixtral|internvl|minicpm-v|moondream|smolvlm|molmo|paligemma", ("image",), ("audio",)),
    _family(r"(qwen[\d.]*-?vl|llama-?3\.2-(11b|90b)|llama-?4|gemma-?3-?:?(4b|12b|27b))", ("image",), ("audio",)),
)


class MediaExtra(StrictSettings):
    """Settings of a model about attachments. They describe the model and do not change its replies."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    media: tuple[str, ...] | None = Field(
        default=None,
        exclude=True,
        description="The media types that the model understands, such as image/png or image/*; [] for text only. By "
        "default, known for the best-known models, and otherwise unknown.",
    )
    media_tokens: int | None = Field(
        default=None,
        ge=1,
        exclude=True,
        description="The most tokens that an image, or a page of a PDF, costs. A budget needs it for models for which "
        "Karenina does not know it.",
    )

    @field_validator("media")
    @classmethod
    def _expand_images(cls, media: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the media types with `image/*` replaced by all types of images, or None if none are declared. Raises
        `ValueError` for types that no adapter can send.
        """
        if media is None:
            return None
        types = dict.fromkeys(name for entry in media for name in (IMAGES if entry == "image/*" else (entry,)))
        strange = [name for name in types if name not in MEDIA_TYPES]
        if strange:
            raise ValueError(
                f"the media type {strange[0]!r} is not supported; the supported types are image/*, "
                f"{', '.join(MEDIA_TYPES)}"
            )
        return tuple(types)


class Support(NamedTuple):
    """Whether a model understands attachments of a media type: yes, no or (None) unknown. `source` says why."""

    understands: bool | None
    source: str


def kind_of(media_type: str) -> Kind:
    """Return the kind of a media type."""
    return "pdf" if media_type == PDF else "audio" if media_type.startswith("audio/") else "image"


def find_support(spec: AdapterSpec, model: ModelConfig, media_type: str) -> Support:
    """Return whether a model understands attachments of a media type, or None if that is unknown, and the source of
    this knowledge. Recorded answers count as understanding every type.
    """
    if spec.recorded:
        return Support(True, "its answers are recorded")
    limits = limits_of(spec, model)
    if media_type not in limits:
        able = f"only {', '.join(limits)}" if limits else "only text"
        return Support(False, f"the adapter {spec.interface!r} can send {able}")
    if _settings_class(spec) is None:
        return Support(True, f"stated by the adapter {spec.interface!r}")
    declared = _settings(spec, model).media
    if declared is not None:
        return Support(media_type in declared, "declared in extra.media")
    family, kind = _family_of(model.model_name), kind_of(media_type)
    if family is not None and kind in (*family.understands, *family.lacks):
        return Support(kind in family.understands, "known from the model's name")
    return Support(None, "declare it in extra.media")


def understood_types(spec: AdapterSpec, model: ModelConfig) -> frozenset[str]:
    """Return the media types that a model is known to understand, and that its adapter can send."""
    return frozenset(name for name in limits_of(spec, model) if find_support(spec, model, name).understands)


def describe_support(spec: AdapterSpec, model: ModelConfig) -> str:
    """Return one line that states whether a model understands images, PDFs and audio, and how that is known."""
    parts: dict[str, list[str]] = {}
    for media_type in ("image/png", PDF, "audio/wav"):
        support = find_support(spec, model, media_type)
        word = {True: "yes", False: "no", None: "unknown"}[support.understands]
        parts.setdefault(f"{word} ({support.source})", []).append(_NAMES[kind_of(media_type)])
    return "; ".join(f"{', '.join(names)}: {answer}" for answer, names in parts.items())


def limits_of(spec: AdapterSpec, model: ModelConfig) -> dict[str, MediaLimit]:
    """Return the media types that an adapter can send to a model, with their limits."""
    return dict(spec.media(model)) if spec.media is not None else {}


def usual_limits(model: ModelConfig, media_types: tuple[str, ...], extra: MediaExtra) -> dict[str, MediaLimit]:
    """Return the limits of media types for a model: the size that all attachments have, and the tokens that are
    declared in `extra` or, for a known model family, usual (None if neither is known).
    """
    family = _family_of(model.model_name)
    limits: dict[str, MediaLimit] = {}
    for name in media_types:
        known = None
        if family is not None:
            known = {"image": family.tokens, "pdf": family.page_tokens, "audio": None}[kind_of(name)]
        limits[name] = MediaLimit(MAX_FILE, extra.media_tokens or known)
    return limits


def image_and_pdf_limits(model: ModelConfig, extra: MediaExtra) -> dict[str, MediaLimit]:
    """Return the limits of the media types that Anthropic's Messages API can carry."""
    limits = usual_limits(model, (*IMAGES, PDF), extra)
    return {
        name: limit._replace(max_bytes=_MESSAGES_API) if name in IMAGES else limit for name, limit in limits.items()
    }


def most_tokens(attachments: tuple[Attachment, ...], limits: dict[str, MediaLimit]) -> int | None:
    """Return the most tokens that attachments can cost by the `limits` of their media types, or None if it is unknown
    for any of them. A PDF costs its pages.
    """
    total = 0
    for attachment in attachments:
        limit = limits.get(attachment.media_type)
        count = _pages(attachment) if attachment.media_type == PDF else 1
        if limit is None or limit.max_tokens is None or count is None:
            return None
        total += limit.max_tokens * count
    return total


def _pages(attachment: Attachment) -> int | None:
    """Return the number of pages that are sent of a PDF, or None if it is unknown."""
    from karenina_toolkit.attachments.pdf_pages import count_pages, numbers_of

    if attachment.pages is not None:
        return len(numbers_of(attachment.pages))
    try:
        changed = Path(attachment.source).stat().st_mtime_ns
    except OSError:
        return None
    return count_pages(attachment.source, changed)


def _settings(spec: AdapterSpec, model: ModelConfig) -> MediaExtra:
    """Return the settings about attachments in a model's `extra`, if its adapter has any."""
    settings = _settings_class(spec)
    return settings.model_validate(model.extra) if settings is not None else MediaExtra()


def _settings_class(spec: AdapterSpec) -> type[MediaExtra] | None:
    """Return the class of an adapter's `extra` if users can declare there what their models understand, or None."""
    return spec.extra if spec.extra is not None and issubclass(spec.extra, MediaExtra) else None


def _family_of(model_name: str) -> _Known | None:
    """Return the family of a model, by its name without the provider in front of it, or None if it is unknown."""
    name = model_name.rpartition("/")[2]
    return next((family for family in _FAMILIES if family.names.match(name)), None)
