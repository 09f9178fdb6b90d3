"""Embedding models in memory: each is loaded once per process, and waiting texts are encoded in one batch."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final, Protocol, cast
from zipfile import ZipFile

from karenina_embedding.model_files import ModelUnavailable, explain_missing_library, find_model

Vector = tuple[float, ...]

REMEMBERED: Final = 4096
"""Number of vectors that each model caches: truths are repeated for every replicate, model and judge."""


class Encode(Protocol):
    """A function from texts to vectors of length 1, in the same order."""

    def __call__(self, texts: list[str]) -> Sequence[Vector]:
        """Return the vectors."""
        ...


class _Request:
    """The texts of one caller, and their vectors or the error."""

    __slots__ = ("error", "texts", "vectors")

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.vectors: list[Vector] | None = None
        self.error: Exception | None = None


class Embedder:
    """One model, which is thread-safe.

    While one thread encodes, requests of other threads are queued; the next thread encodes all of them in one call. So
    a request waits at most for the current call and the next one, and no timer delays a single request.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._encode_lock = Lock()
        self._queue_lock = Lock()
        self._waiting: list[_Request] = []
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return len(self._waiting)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of `texts`, each of length 1. Raises `RuntimeError` if the model fails."""
        request = _Request([_replace_surrogates(text) for text in texts])
        with self._queue_lock:
            self._waiting.append(request)
        with self._encode_lock:
            if request.vectors is None and request.error is None:
                self._encode_waiting()
        if request.error is not None:
            raise RuntimeError(f"the embedding model failed: {request.error}") from request.error
        assert request.vectors is not None
        return request.vectors

    def similarity(self, one: str, another: str) -> float:
        """Return the cosine similarity of two texts, from 0 (also if it is negative) to 1, to six digits.

        A model reads only the first tokens of a text (all-MiniLM-L6-v2: 256).
        """
        left, right = self.embed([one, another])
        cosine = sum(a * b for a, b in zip(left, right, strict=True))
        # The sixth digit depends on the other texts of the same call.
        return min(1.0, max(0.0, round(cosine, 6)))

    def _encode_waiting(self) -> None:
        """Encode the texts of all waiting requests; the caller holds the encode lock."""
        with self._queue_lock:
            batch, self._waiting = self._waiting, []
        try:
            known = {text: self._vectors[text] for request in batch for text in request.texts if text in self._vectors}
            new = list(dict.fromkeys(text for request in batch for text in request.texts if text not in known))
            if new:
                known.update(zip(new, self._encode(new), strict=True))
            for request in batch:
                request.vectors = [known[text] for text in request.texts]
        except Exception as error:
            for request in batch:
                request.error = error
            return
        for text, vector in known.items():
            self._vectors[text] = vector
            self._vectors.move_to_end(text)
        while len(self._vectors) > REMEMBERED:
            self._vectors.popitem(last=False)


_by_path: dict[Path, Embedder] = {}
_by_name: dict[str, Embedder] = {}
_load_lock = Lock()


def get_embedder(name: str) -> Embedder:
    """Return the model with a name or folder, which is loaded at the first call in the process.

    Loading takes seconds: call it in a thread. Raises `ModelUnavailable` with the cure.
    """
    if name in _by_name:
        return _by_name[name]
    with _load_lock:
        if name not in _by_name:
            lacking = explain_missing_library()
            if lacking is not None:
                raise ModelUnavailable(lacking)
            path = find_model(name)
            if path not in _by_path:
                _by_path[path] = _load(name, path)
            _by_name[name] = _by_path[path]
        return _by_name[name]


class _SentenceTransformer(Protocol):
    def encode(self, sentences: list[str], *, normalize_embeddings: bool, show_progress_bar: bool) -> _Array: ...


class _Array(Protocol):
    def tolist(self) -> list[list[float]]: ...


class _Library(Protocol):
    def SentenceTransformer(  # noqa: N802 - the library's name
        self, name: str, *, local_files_only: bool, trust_remote_code: bool, model_kwargs: dict[str, object]
    ) -> _SentenceTransformer: ...


def _load(name: str, path: Path) -> Embedder:
    """Load from local files without code: safetensors, no pickles, no Python modules of the model.

    The library is imported by name, so that type checks do not depend on its installation.
    """
    try:
        library = cast("_Library", import_module("sentence_transformers"))
        with ExitStack() as stack:
            if path.is_file():
                folder = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
                with ZipFile(path) as archive:
                    archive.extractall(folder)
                path = folder
            stack.enter_context(_without_progress_bars())
            model = library.SentenceTransformer(
                str(path), local_files_only=True, trust_remote_code=False, model_kwargs={"use_safetensors": True}
            )
    except Exception as error:
        raise ModelUnavailable(
            f"the embedding model {name!r} cannot be loaded from {path}: {type(error).__name__}: {error}"
        ) from error

    def encode(texts: list[str]) -> Sequence[Vector]:
        rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()
        return [tuple(row) for row in rows]

    return Embedder(encode)


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Disable the progress bars of the library, which would overwrite the run's own."""
    bars = sys.modules.get("transformers.utils.logging")
    if bars is None or not bars.is_progress_bar_enabled():
        yield
        return
    bars.disable_progress_bar()
    try:
        yield
    finally:
        bars.enable_progress_bar()


def _replace_surrogates(text: str) -> str:
    """Return the text without lone surrogates, on which tokenizers fail."""
    return text.encode("utf-8", "replace").decode("utf-8")
