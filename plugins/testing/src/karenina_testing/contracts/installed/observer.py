"""The contract for every run observer."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from karenina_core.config import VerificationConfig
from karenina_core.plugins import Plugins
from karenina_testing.contracts.installed.run import GENES, RunContract, SampleRun


class ObserverContract(RunContract):
    """The contract for the observers that a plugin offers under `settings` (hook `karenina_observers`).

    Override `observed` to return what they left in a run's folder, such as the text of a file.
    """

    def observed(self, folder: Path) -> object:
        """Return what the observers left in a run's folder, or None if they left nothing."""
        raise NotImplementedError

    def observers(self, **settings: Any) -> Sequence[object]:
        """Return the observers that the plugin offers under this configuration."""
        offered: Sequence[object] = resolve_name(self.entry_point).karenina_observers(
            config=VerificationConfig(**settings)
        )
        return offered

    def observed_run(self, folder: Path) -> SampleRun:
        """Run the sample benchmark under `settings` and return how it ended. No observer may fail."""
        run = self.run(folder, **self.settings)
        assert "an observer of" not in run.err, run.err
        assert "the observers of" not in run.err, run.err
        return run

    def test_only_the_configuration_turns_them_on(self, tmp_path: Path) -> None:
        assert list(self.observers()) == [], "return [] if the configuration asks for no observer"
        assert list(self.observers(**self.settings)), "they are not offered under `settings`"
        self.run(tmp_path)
        assert self.observed(tmp_path) is None

    def test_each_observer_has_hooks_with_the_right_arguments(self) -> None:
        for observer in self.observers(**self.settings):
            room = Plugins(Plugins.discover().specifications)
            room.register(observer)  # raises for a hook of another name, or with other arguments
            hooks = [name for name in dir(observer) if name.startswith("karenina_")]
            assert hooks, f"{observer!r} has no method with the name of an event, marked with @hookimpl"

    def test_they_observe_a_run(self, tmp_path: Path) -> None:
        run = self.observed_run(tmp_path)
        assert len(run.results) == len(GENES)
        assert self.observed(tmp_path) is not None

    def test_a_run_has_the_same_results_with_them(self, tmp_path: Path) -> None:
        runs = []
        for name, settings in (("with", self.settings), ("without", {})):
            (tmp_path / name).mkdir()
            runs.append(self.run(tmp_path / name, **settings))
        assert runs[0].code == runs[1].code == 0, runs[0].err
        assert runs[0].by_item == runs[1].by_item

    def test_results_of_the_journal_are_no_error(self, tmp_path: Path) -> None:
        """For an item whose result is already stored, observers see the end but no start."""
        first, second = self.observed_run(tmp_path), self.observed_run(tmp_path)
        assert first.by_item == second.by_item

    def test_an_item_without_an_answer_is_no_error(self, tmp_path: Path) -> None:
        model = "openai:absent@http://127.0.0.1:1/v1"
        run = self.run(tmp_path, "--answering", model, "--no-journal", **self.settings, retry_connection=0)
        assert "an observer of" not in run.err, run.err
        assert [one.outcome.judged for one in run.results] == [False] * len(GENES), run.err
