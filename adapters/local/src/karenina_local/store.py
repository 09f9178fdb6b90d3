"""The installed models: finding, listing and removing them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from karenina_local.catalogue import CATALOGUE, CatalogueModel, ModelMissing, UnknownModel, model_named

FOLDER_VARIABLE: Final = "KARENINA_MODELS"
GGUF_MAGIC: Final = b"GGUF"


def models_folder() -> Path:
    """Return the folder of installed models: `KARENINA_MODELS` or one in the user's cache. It may not exist."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("karenina", appauthor=False) / "models"


def path_of(model: CatalogueModel) -> Path:
    """Return the path of a model's file, which may not exist."""
    return models_folder() / model.file


@dataclass(frozen=True, slots=True)
class ModelState:
    """A catalogue model's state on this machine.

    `size_here` is the size of the model's file in bytes, or None if there is no file. If it differs from the size in
    the catalogue, the model is not installed.
    """

    model: CatalogueModel
    path: Path
    size_here: int | None

    @property
    def installed(self) -> bool:
        """Whether the file has the right size. Its digest was checked after the download."""
        return self.size_here == self.model.size


def state_of(model: CatalogueModel) -> ModelState:
    """Return a model's state on this machine: where its file belongs, and the file's size, or None if there is no file.

    The contents of the file are not checked.
    """
    path = path_of(model)
    try:
        size = path.stat().st_size
    except OSError:
        size = None
    return ModelState(model, path, size)


def list_models() -> list[ModelState]:
    """Return the state of every catalogue model, in catalogue order."""
    return [state_of(model) for model in CATALOGUE]


def remove(name: str) -> bool:
    """Delete a catalogue model's file, and return whether it existed.

    Files outside the catalogue are never deleted. Raises `UnknownModel` for a name that is not in the catalogue, and
    `OSError` if the file cannot be deleted.
    """
    path = path_of(model_named(name))
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def is_catalogued(name: str) -> bool:
    """Return whether `name` is in the catalogue. Anything else is the path of a file."""
    return any(model.name == name for model in CATALOGUE)


def find_model(name_or_path: str) -> Path:
    """Return the path of a model's file, given a catalogue name or the path of a GGUF file; a catalogue name takes
    precedence over a file of the same name, which is `./name`. Raises `ModelMissing` if it is not usable, and
    `UnknownModel` if it is neither.

    A catalogue model's digest was checked after the download, so only its size is checked here. For other files, the
    first four bytes are checked. For a catalogue model, the message of `ModelMissing` contains the command that
    downloads it.
    """
    if is_catalogued(name_or_path):
        return _find_installed(model_named(name_or_path))
    path = Path(name_or_path).expanduser()
    looks_like_a_path = path.suffix.lower() == ".gguf" or len(path.parts) > 1 or path.is_absolute()
    if os.path.lexists(path) and path.is_file():
        return _check_gguf(path.absolute())
    if looks_like_a_path:
        raise ModelMissing(
            f"the model file {path} does not exist; give the path to a GGUF file, or a model name from `karenina "
            "model list`"
        )
    model_named(name_or_path)
    raise UnknownModel(name_or_path)  # unreachable: the line above raises


def _find_installed(model: CatalogueModel) -> Path:
    """Return the path of a catalogue model's file. Raises `ModelMissing`, with the command that downloads it, if it is
    not installed or does not have the official size.
    """
    state = state_of(model)
    if state.installed:
        return state.path
    pull = f"karenina model pull {model.name}"
    if state.size_here is None:
        raise ModelMissing(
            f"the model {model.name} ({model.megabytes} MB, {model.licence}) is not on this machine; run `{pull}`"
        )
    raise ModelMissing(
        f"{state.path} is damaged: the file has {state.size_here} bytes, but {model.name} should have {model.size}; "
        "run "
        f"`{pull}`"
    )


def _check_gguf(path: Path) -> Path:
    """Return `path`. Raises `ModelMissing` if the file cannot be read or does not start like a GGUF file."""
    try:
        with path.open("rb") as file:
            start = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise ModelMissing(
            f"the model file {path} cannot be read: {error.strerror or error}; make it readable, or choose another file"
        ) from error
    if start != GGUF_MAGIC:
        raise ModelMissing(
            f"{path} is not a GGUF file (the file begins with {start!r}); llama.cpp supports only GGUF files"
        )
    return path
