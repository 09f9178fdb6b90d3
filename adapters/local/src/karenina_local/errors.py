"""What can go wrong with models on this machine, apart from the calls themselves."""

from __future__ import annotations

from karenina_core.models.adapters import AdapterConfigError


class UnknownModel(AdapterConfigError):
    """A name that is neither in the catalogue nor a file."""


class ModelMissing(AdapterConfigError):
    """A model whose file is not on this machine, or is not whole; the message names the command that mends it."""


class PullError(Exception):
    """A model's file that could not be had, or was not the one that the catalogue describes. Nothing was kept."""


class DigestMismatch(PullError):
    """Bytes that are not those of the official file."""

    def __init__(self, model: str, source: str, *, expected: str, got: str) -> None:
        super().__init__(
            f"what {source} delivered for {model} is not the official file: expected {expected}, got {got}. It was "
            "deleted; try another source (`karenina model pull NAME --from hub`, `index` or a file) or report it"
        )
        self.expected = expected
        self.got = got
