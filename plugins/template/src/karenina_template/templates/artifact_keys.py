"""The keys of artifacts with templates, which equal the standard keys of these names but have the actual types."""

from __future__ import annotations

from typing import Final

from karenina_core.artifacts.artifact import ArtifactKey
from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.template import BoundTemplate

ANSWER_CLASS: Final = ArtifactKey("answer_class", BoundTemplate)
PARSED_ANSWER: Final = ArtifactKey("parsed_answer", BaseAnswer)
