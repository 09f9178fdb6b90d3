"""Embedding models in memory: each is loaded once a process, and texts that wait together are encoded together."""

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
"""How many texts' vectors each model keeps: truths come again with every replicate, model and judge."""


class Encode(Protocol):
    """Texts in; vectors of length 1 out, in the same order."""

    def __call__(self, texts: list[str]) -> Sequence[Vector]:
        """Compute."""
        ...


class _Request:
    """Texts of one caller, and what became of them."""

    __slots__ = ("error", "texts", "vectors")

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.vectors: list[Vector] | None = None
        self.error: Exception | None = None


class Embedder:
    """One model. Safe to use from many threads.

    While one thread computes, requests of the others gather; the next one that gets its turn encodes all of them in one
    call. So nobody waits longer than for the call under way and the one after it, and no timer delays a lone request.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._encode_lock = Lock()
        self._queue_lock = Lock()
        self._waiting: list[_Request] = []
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return len(self._waiting)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of `texts`, each of length 1. Raises what the model raises."""
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
        """The cosine similarity of two texts, from 0 (also for what points away) to 1, to six digits.

        A model sees only as much of a text as it was made for (all-MiniLM-L6-v2: 256 tokens).
        """
        left, right = self.embed([one, another])
        cosine = sum(a * b for a, b in zip(left, right, strict=True))
        # The sixth digit already depends on which other texts were in the same call.
        return min(1.0, max(0.0, round(cosine, 6)))

    def _encode_waiting(self) -> None:
        """Encode what all that wait need; only the thread whose turn it is comes here."""
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
    """The model of that name or folder, loaded at the first call of the process; later calls are free.

    Takes seconds when it loads: call it in a thread. Raises `ModelUnavailable`, with what to do about it.
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
    """Load from local files, and nothing that could hold code: safetensors, no pickles, no modules of the model's own.

    The library is imported by name, so that types are checked alike with and without it.
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
    """Keep the library, where it is the real one, from drawing over the run's own progress."""
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
    """The text without halves of surrogate pairs, on which tokenizers stop."""
    return text.encode("utf-8", "replace").decode("utf-8")
