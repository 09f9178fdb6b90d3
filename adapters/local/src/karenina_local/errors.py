"""Errors of models on this machine, apart from errors of calls."""

from __future__ import annotations

from karenina_core.models.adapters import AdapterConfigError


class UnknownModel(AdapterConfigError):
    """A name that is neither in the catalogue nor a file."""


class ModelMissing(AdapterConfigError):
    """A model whose file is missing or incomplete; the message contains the command that downloads it."""


class PullError(Exception):
    """A model's file that could not be downloaded, or is not the official one. No file was saved."""


class DigestMismatch(PullError):
    """A file whose bytes differ from those of the official file."""

    def __init__(self, model: str, source: str, *, expected: str, got: str) -> None:
        super().__init__(
            f"the download of {model} from {source} is not the official file: expected {expected}, got {got}. It was "
            "deleted; try another source (`karenina model pull NAME --from hub`, `index` or a file) or report it"
        )
        self.expected = expected
        self.got = got
