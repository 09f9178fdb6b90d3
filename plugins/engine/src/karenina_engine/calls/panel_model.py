"""`PanelModel`, which stands for a panel of judges where a configuration names a single judge."""

from __future__ import annotations

from pydantic import Field

from karenina_core.models.model import ModelConfig


class PanelModel(ModelConfig):
    """A panel in the place of a judge. Results carry its `id` and names, but it is never called itself.

    `members` are the judges that the panel asks about every answer, and `others` those that it asks about some.
    """

    members: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
    others: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
