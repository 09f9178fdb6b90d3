"""A third-party plugin with a model of its own, and with options for models."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from karenina_core import ArtifactKeys, Message, ModelConfig, Stage, VerificationContext, hookimpl
from karenina_core.stages.stage import Skip


class Settings(BaseModel):
    """In files: `critics.critic` and `critics.others`."""

    critic: ModelConfig | None = Field(
        default=None, description="The critic.", json_schema_extra={"option": ["--critic", "-k"]}
    )
    others: tuple[ModelConfig, ...] = Field(
        default=(),
        description="Further critics.",
        json_schema_extra={"option": ["--other", "-o"], "role": "further critic", "allowed_in_files": "any"},
    )


class Criticize(Stage):
    """Asks each critic about the answer."""

    name = "Criticize"
    requires = {ArtifactKeys.RAW_LLM_RESPONSE}
    settings = Settings
    usage_key = "criticism"

    def should_run(self, context: VerificationContext) -> bool | Skip:
        """Run if there is a critic."""
        return True if self._critics(context) else Skip("no critic is configured")

    async def execute(self, context: VerificationContext) -> None:
        """Store what the critics say."""
        text = str(context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE))
        said = [
            await context.llm(critic).invoke([Message.user(f"Criticize: {text}")]) for critic in self._critics(context)
        ]
        context.set_result_field("criticism", [reply.text for reply in said])

    @staticmethod
    def _critics(context: VerificationContext) -> list[ModelConfig]:
        critic, others = context.setting("critics.critic"), context.setting("critics.others")
        return [*([critic] if critic is not None else []), *others]


class plugin:
    """Offers the stage."""

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        """Return the stage."""
        return [Criticize]
