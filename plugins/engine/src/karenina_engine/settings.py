"""The engine's settings: limits, retries, budget and prices, executor and journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, field_validator

from karenina_core.models.ports import ErrorCategory
from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.text import did_you_mean
from karenina_engine.calls.concurrency_limits import Concurrency
from karenina_engine.calls.retry import DEFAULT_MAX_RETRIES, RetryPolicy
from karenina_engine.cost.price_source import OwnPrice
from karenina_engine.reference_names import translate_names

_NO_CHANGE: Final[dict[str, JsonValue]] = {"changes_results": False}
_NOT_FROM_FILES: Final[dict[str, JsonValue]] = {"changes_results": False, "allowed_in_files": "never"}


def _retries(default: int, description: str) -> Any:
    """Return the field for a number of retries, which never changes a result."""
    return Field(default=default, ge=0, description=description, json_schema_extra=_NO_CHANGE)


class EngineSettings(BaseModel):
    """The engine's settings: limits, retries, budget and prices, executor and journal."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    translate: ClassVar[Callable[[Mapping[str, Any]], dict[str, Any]]] = staticmethod(translate_names)
    model_config = ConfigDict(frozen=True, protected_namespaces=())

    item_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for one item, including its answer and all waiting; longer items are errors.",
        json_schema_extra=_NO_CHANGE,
    )
    run_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for the run; after that it stops and keeps the finished items.",
        json_schema_extra=_NO_CHANGE,
    )
    max_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of calls in flight, over all models.",
        json_schema_extra=_NO_CHANGE,
    )
    model_concurrency: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default={},
        description="Fixed numbers of calls in flight, by model id; the limits of other models adapt.",
        json_schema_extra=_NO_CHANGE,
    )
    concurrency_start: int | None = Field(
        default=None,
        ge=1,
        description="Calls in flight with which a model starts; defaults to what its adapter declares, or 32.",
        json_schema_extra=_NO_CHANGE,
    )
    concurrency_ceiling: int = Field(
        default=256,
        ge=1,
        description="Maximum number of calls in flight for a model whose adapter declares no limit.",
        json_schema_extra=_NO_CHANGE,
    )
    executor: str = Field(
        default="asyncio",
        description="How items are run: asyncio uses one event loop in this process; plugins add other executors.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    retry_connection: int = _retries(2, "Retries of a call after a failed connection.")
    retry_timeout: int = _retries(1, "Retries of a call after a timeout.")
    retry_rate_limit: int = _retries(8, "Retries of a call after a rate limit; 0 makes the call fail.")
    retry_server: int = _retries(4, "Retries of a call after a server error.")
    retry_patience: float = Field(
        default=300.0,
        ge=0,
        description="Total seconds that a call may wait between attempts, and that a server may refuse every call.",
        json_schema_extra=_NO_CHANGE,
    )
    budget: Decimal | None = Field(
        default=None,
        ge=0,
        decimal_places=6,
        description="Maximum US dollars that all runs of a journal may spend together; at that point the run stops.",
        json_schema_extra={"changes_results": False},
    )
    prices: dict[str, OwnPrice] = Field(
        default={},
        description="Your own prices by model id or name, in US dollars per million tokens (input, output, ...).",
        json_schema_extra=_NOT_FROM_FILES,
    )
    journal_sync: Literal["normal", "full"] = Field(
        default="normal",
        description="What a power failure can lose: with normal, the replies of the last moments, which are then paid "
        "for again; with full, nothing, but each commit waits for the disk.",
        json_schema_extra={"changes_results": False, "allowed_in_files": "any"},
    )

    kept_file_bytes: int = Field(
        default=20_000_000,
        ge=0,
        description="The most bytes of a file that a stage or an adapter keeps with an item; larger ones are left out.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    kept_files_bytes: int = Field(
        default=1_000_000_000,
        ge=0,
        description="The most bytes of all files that the items of a run keep; further ones are left out.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    partial_recordings: bool = Field(
        default=False,
        description="Run even if some questions have no recorded answer (their items become errors) or some recordings "
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
                raise ValueError(f"no model has the id {id!r}{did_you_mean(id, ids)}")
        return value

    def concurrency(self) -> Concurrency:
        """Return the limits on calls in flight (`max_concurrency` and related settings)."""
        return Concurrency(
            self.concurrency_start, self.concurrency_ceiling, self.model_concurrency, self.max_concurrency
        )

    def retry_policy(self) -> RetryPolicy:
        """Return the retry policy (`retry_connection` and related settings)."""
        max_retries = {
            **DEFAULT_MAX_RETRIES,
            ErrorCategory.CONNECTION: self.retry_connection,
            ErrorCategory.TIMEOUT: self.retry_timeout,
            ErrorCategory.RATE_LIMIT: self.retry_rate_limit,
            ErrorCategory.SERVER: self.retry_server,
        }
        return RetryPolicy(max_retries=max_retries, patience=self.retry_patience)
