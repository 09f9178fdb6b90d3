"""Source folders of stages: a resumed run uses stored results unless a source file has changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from folders import write_files
from journal_runs import ScriptedRuns, make_benchmark, make_model
from offers import offering

from karenina_core import ArtifactKeys, Question, Stage, VerificationConfig, VerificationContext
from karenina_core.errors import RunError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, CallInfo, Message, SourceFolder
from karenina_core.plugins import Plugins
from karenina_engine.journal.fingerprint import digest_recordings
from karenina_testing import ScriptedModels
from karenina_toolkit.files.source_digest import digest_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "one", {"data/table.csv": "1"})


def test_names_and_contents_of_all_files_count_and_nothing_else(folder: Path) -> None:
    before = digest_folder(SourceFolder(folder))

    (folder / "data/table.csv").write_text("2")
    changed = digest_folder(SourceFolder(folder))
    (folder / "more").mkdir()
    assert len({before, changed, digest_folder(SourceFolder(folder))}) == 3
    (folder / "more").rmdir()
    (folder / "data/table.csv").write_text("1")
    moved = folder.rename(folder.with_name("moved"))
    assert digest_folder(SourceFolder(moved)) == before


def test_files_that_the_stage_ignores_change_nothing(folder: Path) -> None:
    source = SourceFolder(folder, ignores=lambda name: name.startswith("copy"))
    before = digest_folder(source)
    (folder / "data/copy1").mkdir()
    (folder / "copy2.txt").write_text("new")
    assert digest_folder(source) == before


@pytest.mark.parametrize("linked", ["table.csv", "."])
def test_links_count_only_with_targets_inside_the_bounds(folder: Path, tmp_path: Path, linked: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "table.csv").write_text("1")
    (folder / "link").symlink_to(shared / linked)
    wide, narrow = SourceFolder(folder, within=tmp_path), SourceFolder(folder)
    before = digest_folder(wide), digest_folder(narrow)
    (shared / "table.csv").write_text("2")
    assert [digest_folder(wide) == before[0], digest_folder(narrow) == before[1]] == [False, True]


def test_circular_and_dangling_links_and_pipes_have_digests(folder: Path) -> None:
    (folder / "self").symlink_to("self")
    (folder / "up").symlink_to("..")
    (folder / "again").symlink_to("data")
    (folder / "data/back").symlink_to(folder)
    (folder / "nowhere").symlink_to("absent")
    os.mkfifo(folder / "pipe")
    before = digest_folder(SourceFolder(folder))
    (folder / "data/table.csv").write_text("2")
    assert digest_folder(SourceFolder(folder)) != before


def test_a_missing_folder_has_an_empty_folders_digest(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert digest_folder(SourceFolder(tmp_path / "absent")) == digest_folder(SourceFolder(tmp_path / "empty"))


class Reading(ScriptedRuns):
    """Return scripted runs whose judge is an agent that reports the length of each question's file in `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.read_in: set[threading.Thread] = set()

    def plugins(self) -> Plugins:
        root = self.root

        def noticed(_name: str) -> bool:
            self.read_in.add(threading.current_thread())
            return False

        class Investigate(Stage):
            name = "Investigate"
            requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})

            def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
                return [SourceFolder(root / question.id, ignores=noticed)]

            async def execute(self, context: VerificationContext) -> None:
                options = AgentOptions(workspace=root / context.question.id)
                reply = await context.agent().run([Message.user("How long is the file?")], options)
                context.set_result_field("length", reply.trace[-1].content)

        def look(_messages: Sequence[Message], info: CallInfo) -> list[Message]:
            self.calls.append(f"look {info.question_id}")
            return [Message.assistant(str(len((root / info.question_id / "file").read_text())))]

        plugins = super().plugins()
        plugins.register(offering(extra_stages=[Investigate]), distribution="reads", version="1")
        plugins.register(ScriptedModels(act=look, fill=self._fill, interface="looking"))
        return plugins


def test_an_item_runs_again_if_a_source_file_changed(
    tmp_path: Path,
) -> None:
    for id in ("one", "two"):
        (tmp_path / id).mkdir()
        (tmp_path / id / "file").write_text("abc")
    world, journal = Reading(tmp_path), tmp_path / "run.journal"
    models = {"answering_models": [make_model("m")], "parsing_models": [{**make_model("j"), "interface": "looking"}]}

    def lengths() -> dict[str, str]:
        results = world.run(make_benchmark("one", "two"), config=models, journal=journal)
        return {result.question_id: result.extensions["reads"]["length"] for result in results}

    assert lengths() == {"one": "3", "two": "3"}
    world.calls.clear()
    (tmp_path / "two/file").write_text("abcde")
    assert lengths() == {"one": "3", "two": "5"}
    assert world.calls == ["look two"], "all other replies still hold"
    assert world.read_in
    assert threading.main_thread() not in world.read_in, "what is large would hold up all other items"


def test_a_stage_that_cannot_name_its_folders_ends_the_run(tmp_path: Path) -> None:
    class Lost(ScriptedRuns):
        def plugins(self) -> Plugins:
            class Investigate(Stage):
                name = "Investigate"

                def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
                    raise KeyError("root")

                def execute(self, context: VerificationContext) -> None:
                    """Do nothing."""

            plugins = super().plugins()
            plugins.register(offering(extra_stages=[Investigate]), distribution="reads", version="1")
            return plugins

    with pytest.raises(RunError, match=r"Investigate of reads 1 could not determine the folders .*'one'.*root"):
        Lost().run(make_benchmark("one"), journal=tmp_path / "run.journal")


def test_recordings_that_a_link_leads_away_have_no_digest(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text("{}")
    (tmp_path / "given").mkdir()
    recorded = tmp_path / "given/rows.jsonl"
    recorded.symlink_to("../secret.jsonl")
    model = ModelConfig(id="m", interface="manual", model_name="m", manual_traces=recorded)

    assert digest_recordings(model) is not None
    assert digest_recordings(model.model_copy(update={"files_within": recorded.parent})) is None


@pytest.mark.parametrize("name", ['"missing.patch"', '"."', '"rows.jsonl"', '"a\\u0000"', '"\\q"', '"../other"'])
def test_changed_recordings_have_another_digest_whatever_they_name(tmp_path: Path, name: str) -> None:
    recorded = tmp_path / "rows.jsonl"
    model = ModelConfig(id="m", interface="manual", model_name="m", manual_traces=recorded)

    def digest_of(text: str) -> str | None:
        recorded.write_text(f'{{"text": "{text}", "patch_file": {name}}}\n')
        return digest_recordings(model)

    first, other = digest_of("one"), digest_of("another")
    assert first is not None
    assert other not in (first, None)
