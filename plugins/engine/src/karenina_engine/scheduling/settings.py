"""The configuration names that the engine owns: limits, retries, money, and where and how the work is done."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, field_validator

from karenina_core.models.from_files import FromFiles
from karenina_core.models.ports import ErrorCategory
from karenina_core.text import did_you_mean
from karenina_engine.calls.concurrency_limits import Concurrency
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.cost.price_source import OwnPrice

_NO_CHANGE: Final[dict[str, JsonValue]] = {"changes_results": False}
_NOT_FROM_FILES: Final[dict[str, JsonValue]] = {"changes_results": False, "from_files": "never"}


def _tries(default: int, description: str) -> Any:
    """Return the field of how often a call is made again; no result depends on it."""
    return Field(default=default, ge=0, description=description, json_schema_extra=_NO_CHANGE)


class EngineSettings(BaseModel):
    """The names that the engine owns: limits, retries, money, and where and how the work is done."""

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(frozen=True, protected_namespaces=())

    item_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for one item, its answer and all waiting included; then it is an error.",
        json_schema_extra=_NO_CHANGE,
    )
    run_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for the run; then it stops and keeps what is done.",
        json_schema_extra=_NO_CHANGE,
    )
    max_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Most calls under way at once, of all models together.",
        json_schema_extra=_NO_CHANGE,
    )
    model_concurrency: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default={},
        description="Calls under way at once by model id, fixed; others find out what their server bears.",
        json_schema_extra=_NO_CHANGE,
    )
    concurrency_start: int | None = Field(
        default=None,
        ge=1,
        description="Calls under way at once with which a model begins; what its adapter declares where absent, or 32.",
        json_schema_extra=_NO_CHANGE,
    )
    concurrency_ceiling: int = Field(
        default=256,
        ge=1,
        description="Most calls under way at once of a model whose adapter declares no number.",
        json_schema_extra=_NO_CHANGE,
    )
    executor: str = Field(
        default="asyncio",
        description="Where the work is done: asyncio is one event loop in this process; plugins bring others.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    retry_connection: int = _tries(2, "How often a call is made again when no connection is.")
    retry_timeout: int = _tries(1, "How often a call is made again after its time was out.")
    retry_rate_limit: int = _tries(8, "How often a call is made again after a rate limit; 0: such a call fails.")
    retry_server: int = _tries(4, "How often a call is made again after an error of the server.")
    retry_patience: float = Field(
        default=300.0,
        ge=0,
        description="Seconds that a call may wait between its tries, in all, and that a server may refuse every call.",
        json_schema_extra=_NO_CHANGE,
    )
    budget: Decimal | None = Field(
        default=None,
        ge=0,
        decimal_places=6,
        description="Most US dollars that may be spent, by all runs of a journal together; then the run stops.",
        json_schema_extra={"changes_results": False},
    )
    prices: dict[str, OwnPrice] = Field(
        default={},
        description="Your own prices by model id or name: US dollars for a million tokens (input, output, ...).",
        json_schema_extra=_NOT_FROM_FILES,
    )
    journal_sync: Literal["normal", "full"] = Field(
        default="normal",
        description="What a power failure may cost: normal, replies of the last moments, which are paid for again; "
        "full, nothing: each commit waits for the disk.",
        json_schema_extra={"changes_results": False, "from_files": "any"},
    )

    partial_recordings: bool = Field(
        default=False,
        description="Run although questions have no recorded answer, which makes errors of their items, or recordings "
        "match no question.",
        json_schema_extra=_NO_CHANGE,
    )

    @field_validator("model_concurrency")
    @classmethod
    def _models_exist(cls, value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        values = info.context or {}
        ids = [model.id for role in ("answering_models", "parsing_models") for model in values.get(role, ())]
        for id in value:
            if ids and id not in ids:
                raise ValueError(f"there is no model {id!r}{did_you_mean(id, ids)}")
        return value

    def concurrency(self) -> Concurrency:
        """Return how many calls may be under way at once (`max_concurrency` and the others)."""
        return Concurrency(
            self.concurrency_start, self.concurrency_ceiling, self.model_concurrency, self.max_concurrency
        )

    def retry_policy(self) -> RetryPolicy:
        """Return how calls are repeated (`retry_connection` and the others)."""
        max_retries = {
            ErrorCategory.CONNECTION: self.retry_connection,
            ErrorCategory.TIMEOUT: self.retry_timeout,
            ErrorCategory.RATE_LIMIT: self.retry_rate_limit,
            ErrorCategory.SERVER: self.retry_server,
        }
        return RetryPolicy(max_retries=max_retries, patience=self.retry_patience)
