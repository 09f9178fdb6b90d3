"""`PanelModel`, the name of a panel of judges where a single judge would be named."""

from __future__ import annotations

from pydantic import Field

from karenina_core.models.model import ModelConfig


class PanelModel(ModelConfig):
    """A panel in the place of a judge: its `id` and names are those of its results. It is never called itself.

    `members` are the judges that it asks for every answer, and `others` those that it asks for some.
    """

    members: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
    others: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
