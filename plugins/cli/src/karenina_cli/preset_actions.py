"""`karenina config save`, `list` and `delete`: the presets of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_cli.screen import Screen

ACTIONS: Final = ("save", "list", "delete")


@dataclass(frozen=True, slots=True)
class Given:
    """The options of the command that make a configuration."""

    file: Path | None
    settings: Sequence[str]
    answering: Sequence[str]
    judges: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.file or self.settings or self.answering or self.judges)

    def names(self) -> set[str]:
        """Return the names of the configuration that the options set."""
        from karenina_benchmark.config.config_files import read_config_values

        found = set(read_config_values(self.file)) if self.file is not None else set()
        found |= {setting.partition("=")[0].partition(".")[0].strip() for setting in self.settings}
        found |= {"answering_models"} if self.answering else set()
        return found | ({"parsing_models"} if self.judges else set())


def check_action(name: str | None) -> None:
    """Raise `ConfigError` for a word that is almost `save`, `list` or `delete`."""
    from karenina_core.errors import ConfigError

    if name is not None and get_close_matches(name, ACTIONS, n=1, cutoff=0.7):
        raise ConfigError([f"there is no configuration name {name!r}{did_you_mean(name, ACTIONS)}"])


def run_action(screen: Screen, action: str, name: str | None, given: Given, *, as_json: bool) -> None:
    """Save, list or delete presets. Raises `ConfigError` and `typer.BadParameter`."""
    if given and action != "save":
        raise typer.BadParameter(f"--config, --set, --answering and --judge have no effect on `config {action}`")
    if action == "list":
        if name is not None:
            raise typer.BadParameter(f"`config list` lists all presets; leave out {name!r}")
        _list(screen, as_json)
        return
    if name is None:
        raise typer.BadParameter(f"`config {action}` needs the name of a preset")
    path = _save(name, given) if action == "save" else _delete(name)
    if as_json:
        screen.json({"preset": name, "action": action, "file": str(path)})
    elif action == "save":
        screen.note(f"Saved the preset {name} in {path}. Use it with: --config {name}")
    else:
        screen.note(f"Deleted the preset {name}, {path}.")


def _save(name: str, given: Given) -> Path:
    from karenina_cli.configuration import read_configuration
    from karenina_cli.presets import save_preset

    if not given:
        raise typer.BadParameter("there is nothing to save: give --config, --set, --answering or --judge")
    chosen = read_configuration(None, given.file, given.settings, answering=given.answering, judges=given.judges)
    return save_preset(name, chosen, given.names())


def _delete(name: str) -> Path:
    from karenina_cli.presets import delete_preset

    return delete_preset(name)


def _list(screen: Screen, as_json: bool) -> None:
    from karenina_benchmark.config.config_files import read_config_values
    from karenina_cli.presets import list_presets, presets_folder
    from karenina_core.errors import ConfigError

    found: list[dict[str, Any]] = []
    for name, path in list_presets().items():
        try:
            found.append({"name": name, "file": str(path), "values": read_config_values(path), "problem": None})
        except ConfigError as error:
            found.append({"name": name, "file": str(path), "values": None, "problem": str(error)})
    if as_json:
        screen.json({"presets": found})
    elif found:
        from karenina_cli.screen import print_rows

        rows = [[one["name"], one["problem"] or ", ".join(one["values"]), one["file"]] for one in found]
        print_rows(screen.out, [["preset", "sets", "file"], *rows], texts=(0, 1, 2))
    else:
        screen.note(f"There is no preset in {presets_folder()}. `karenina config save NAME` saves one.")
