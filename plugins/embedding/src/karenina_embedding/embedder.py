"""Embedding models, and the similarity function for the primitive `SemanticMatch`.

A model is loaded once per process. It encodes all waiting strings in a single batch.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, cast
from zipfile import ZipFile

from karenina_embedding.model_files import ModelUnavailable, explain_missing_library, find_model
from karenina_embedding.settings import DEFAULT_MODEL, EmbeddingSettings

if TYPE_CHECKING:
    from karenina_core import VerificationConfig


Vector = tuple[float, ...]

REMEMBERED: Final = 4096
"""The number of vectors that each model caches. The same ground truths recur for replicates, models and judges."""


class Encode(Protocol):
    """A function that converts strings to unit vectors, in the same order."""

    def __call__(self, texts: list[str]) -> Sequence[Vector]:
        """Return a unit vector for each string."""
        ...


class _Request:
    """The strings submitted by a caller, and later their vectors or an error."""

    __slots__ = ("error", "texts", "vectors")

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.vectors: list[Vector] | None = None
        self.error: Exception | None = None


class Embedder:
    """An embedding model that can be used from several threads.

    While one thread is encoding, other threads' requests wait. The next thread then encodes all of them in a single
    call, so a request waits for at most two calls. If there are no other requests, it is not delayed.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._encode_lock = Lock()
        self._queue_lock = Lock()
        self._waiting: list[_Request] = []
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    @property
    def waiting(self) -> int:
        """The number of queued requests."""
        return len(self._waiting)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a unit vector for each string. Unpaired surrogates are replaced. Raises `RuntimeError` if the model
        fails on the batch that contains these strings, which may also contain those of other threads.
        """
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
        """Return the cosine similarity of two strings, rounded to six digits. Negative values become 0, so it is from 0
        to 1. Models truncate long strings: all-MiniLM-L6-v2, for example, only reads the first 256 tokens.
        """
        left, right = self.embed([one, another])
        cosine = sum(a * b for a, b in zip(left, right, strict=True))
        # The last digits depend on which other texts were encoded in the same call.
        return min(1.0, max(0.0, round(cosine, 6)))

    def _encode_waiting(self) -> None:
        """Encode the strings of all waiting requests, and set their vectors or their error. The caller must hold the
        encode lock.
        """
        with self._queue_lock:
            batch, self._waiting = self._waiting, []
        try:
            vectors = {
                text: self._vectors[text] for request in batch for text in request.texts if text in self._vectors
            }
            new = list(dict.fromkeys(text for request in batch for text in request.texts if text not in vectors))
            if new:
                vectors.update(zip(new, self._encode(new), strict=True))
            for request in batch:
                request.vectors = [vectors[text] for text in request.texts]
        except Exception as error:
            for request in batch:
                request.error = error
            return
        for text, vector in vectors.items():
            self._vectors[text] = vector
            self._vectors.move_to_end(text)
        while len(self._vectors) > REMEMBERED:
            self._vectors.popitem(last=False)


_by_path: dict[Path, Embedder] = {}
_by_name: dict[str, Embedder] = {}
_load_lock = Lock()


def get_embedder(name: str) -> Embedder:
    """Return the model with the given name or folder, which is loaded on the first call and then kept. Loading takes
    seconds, so call this in a thread. Raises `ModelUnavailable`, with a fix, if the model cannot be loaded. Nothing is
    downloaded.
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
    """Load a model from local files without running any of its code: only safetensors are read, but no pickles or
    custom Python modules. Raises `ModelUnavailable` if the model cannot be loaded.

    The library is imported by name, so that type checking works without it.
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
            f"cannot load the embedding model {name!r} from {path}: {type(error).__name__}: {error}"
        ) from error

    def encode(texts: list[str]) -> Sequence[Vector]:
        rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()
        return [tuple(row) for row in rows]

    return Embedder(encode)


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Disable the progress bars of transformers inside the block, if it is imported, because they would overwrite those
    of the run.
    """
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
    """Replace unpaired surrogates with `?`, because tokenizers cannot handle them."""
    return text.encode("utf-8", "replace").decode("utf-8")


CONFIGURED_MODEL: Final[ContextVar[str]] = ContextVar("karenina_embedding_model", default=DEFAULT_MODEL)
"""The `embedding_check_model` of the current run."""


def compute_similarity(one: str, another: str, model: str | None) -> float:
    """Return the cosine similarity of two strings, from 0 to 1. The model is loaded on the first call in a process.
    Models are never downloaded, so that someone else's template cannot start a download: `ModelUnavailable` is raised
    if there is no local copy.

    `model` defaults to the run's `embedding_check_model`.
    """
    return get_embedder(model or CONFIGURED_MODEL.get()).similarity(one, another)


def load_model(model: str | None, config: VerificationConfig) -> None:
    """Load `model`, which defaults to the `embedding_check_model` in `config`, so that later calls do not wait. Raises
    `ModelUnavailable` if there is no local copy.
    """
    get_embedder(model or config.section(EmbeddingSettings).embedding_check_model)
