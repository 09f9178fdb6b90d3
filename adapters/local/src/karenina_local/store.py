"""The models on this machine: the folder that keeps them, and finding, listing and removing them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from karenina_local.catalogue import CATALOGUE, CatalogueModel, model_named
from karenina_local.errors import ModelMissing, UnknownModel

FOLDER_VARIABLE: Final = "KARENINA_MODELS"
GGUF_MAGIC: Final = b"GGUF"


def models_folder() -> Path:
    """The folder that keeps the models: `KARENINA_MODELS` where it is set, else one in the user's cache folder.

    It need not exist yet.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("karenina", appauthor=False) / "models"


def path_of(model: CatalogueModel) -> Path:
    """Where the model's file is, or would be."""
    return models_folder() / model.file


@dataclass(frozen=True, slots=True)
class ModelState:
    """A catalogue model as this machine has it.

    `size_here` are the bytes of its file, None where there is none; a file of another size than the catalogue's
    does not count as installed.
    """

    model: CatalogueModel
    path: Path
    size_here: int | None

    @property
    def installed(self) -> bool:
        """Whether the whole file is here. The digest was checked when it was pulled."""
        return self.size_here == self.model.size


def state_of(model: CatalogueModel) -> ModelState:
    """How this machine has `model`."""
    path = path_of(model)
    try:
        size = path.stat().st_size
    except OSError:
        size = None
    return ModelState(model, path, size)


def list_models() -> list[ModelState]:
    """Every model of the catalogue, in its order."""
    return [state_of(model) for model in CATALOGUE]


def remove(name: str) -> bool:
    """Delete the file of a catalogue model; False where there was none. Raises `UnknownModel`.

    A file that the user named by its path is the user's, and is never deleted.
    """
    path = path_of(model_named(name))
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def is_catalogued(name: str) -> bool:
    """Return whether `name` is a model of the catalogue; anything else is the path of a file."""
    return any(model.name == name for model in CATALOGUE)


def find_model(name_or_path: str) -> Path:
    """The file of a model, named in the catalogue or by the path of a GGUF file.

    A name of the catalogue wins over a file of that name; write `./name` for the file. Of a catalogue file only the
    size is looked at (the digest was checked when it was pulled), of any other only its first four bytes. Raises
    `ModelMissing` with the command that pulls it, or `UnknownModel`.
    """
    if is_catalogued(name_or_path):
        return _find_installed(model_named(name_or_path))
    path = Path(name_or_path).expanduser()
    looks_like_a_path = path.suffix.lower() == ".gguf" or len(path.parts) > 1 or path.is_absolute()
    if path.is_file():
        return _check_gguf(path.absolute())
    if looks_like_a_path:
        raise ModelMissing(f"there is no model file {path}; name a GGUF file, or a model of `karenina model list`")
    model_named(name_or_path)
    raise UnknownModel(name_or_path)  # unreachable: the line above raises


def _find_installed(model: CatalogueModel) -> Path:
    state = state_of(model)
    if state.installed:
        return state.path
    pull = f"karenina model pull {model.name}"
    if state.size_here is None:
        raise ModelMissing(
            f"the model {model.name} ({model.megabytes} MB, {model.licence}) is not on this machine: run `{pull}`"
        )
    raise ModelMissing(
        f"{state.path} has {state.size_here} bytes where {model.name} has {model.size}: it is damaged; run `{pull}`"
    )


def _check_gguf(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            start = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise ModelMissing(f"the model file {path} cannot be read: {error.strerror or error}") from error
    if start != GGUF_MAGIC:
        raise ModelMissing(f"{path} is not a GGUF file (it begins with {start!r}); llama.cpp reads no other format")
    return path
