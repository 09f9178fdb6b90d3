"""Options from settings: one for each setting with models or text that declares an option.

The settings are those of the core and of all plugins that are active when a command reads its arguments or prints its
help. Commands therefore depend on neither the settings nor the plugins.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self

import typer

from karenina_cli.input import completion_values

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_engine.model_settings import ModelSetting

logger = logging.getLogger("karenina")
SPEC_HELP: Final = "interface:model_name, interface:model_name@base_url, or a JSON object with a model configuration."
_PREFIX: Final = "models_of_"


def parse_models(specs: Iterable[str], recordings: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Return the models for one role, those in `specs` and one for each file in `recordings`, as settings (see
    `karenina_benchmark.config.model_specs.parse_models`). Raises `typer.BadParameter` if a specification is invalid.
    """
    from karenina_benchmark.config import model_specs
    from karenina_core.errors import ConfigError

    try:
        return model_specs.parse_models(specs, recordings)
    except ConfigError as error:
        raise typer.BadParameter("; ".join(error.problems)) from None


def model_option(name: str, letter: str, help: str) -> Any:
    """Return an option that takes models in the short form `interface:model_name`."""
    return typer.Option(name, letter, metavar="SPEC", help=help, autocompletion=completion_values.models)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The models and texts given on the command line by setting, as one parameter of a command.

    See `with_option_groups`.

    Subclasses skip settings that do not apply to their commands.
    """

    left_out: ClassVar[frozenset[str]] = frozenset()
    specs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether any model is given."""
        return bool(self.specs)

    @classmethod
    def option_parameters(cls, taken: Set[str]) -> Iterator[inspect.Parameter]:
        """Yield a parameter for each setting that has an option, without those in `left_out`. Option names in `taken`,
        which the command's other options use, are skipped with a warning, and so is a setting that has no other names.
        """
        used, form = set(taken), f": {SPEC_HELP}"
        models = _settings()
        for name, setting in {**models, **_texts()}.items():
            if name in cls.left_out:
                continue
            names = [option for option in setting.options if option not in used]
            if len(names) < len(setting.options):
                _warn_of_taken(setting.owner, name, ", ".join(sorted({*setting.options} - {*names})))
            if not names:
                continue
            used.update(names)
            kind: Any = list[str] | None if setting.several else str | None
            if name not in models:
                option = typer.Option(*names, metavar="TEXT", help=setting.meaning)
                yield inspect.Parameter(
                    _parameter(name), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
                )
                continue
            option = typer.Option(
                *names,
                metavar="SPEC",
                help=f"{setting.meaning.rstrip('.')}{form}",
                autocompletion=completion_values.models,
            )
            form = f", in the same form as {names[0]}." if form.endswith(SPEC_HELP) else form
            yield inspect.Parameter(
                _parameter(name), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
            )

    @classmethod
    def from_options(cls, given: Mapping[str, Any]) -> Self:
        """Create an instance from the values of the options, which `given` maps from parameter names. Empty values are
        left out.
        """
        names = {_parameter(name): name for name in {**_settings(), **_texts()}}
        return cls(
            {
                names[parameter]: [value] if isinstance(value, str) else value
                for parameter, value in given.items()
                if value
            }
        )

    def values(self, recordings: Sequence[Path] = ()) -> dict[str, Any]:
        """Return the given settings by name, with their texts or parsed models. Each file in `recordings` adds an
        answering model that replays it. Raises `typer.BadParameter` if a model is invalid.
        """
        settings, texts = _settings(), {name: given[0] for name, given in self.specs.items() if name in _texts()}
        specs = {name: given for name, given in self.specs.items() if name not in texts}
        if recordings:
            specs = {"answering_models": (), **specs}
        parsed = {
            name: parse_models(given, recordings if name == "answering_models" else ()) for name, given in specs.items()
        }
        return texts | {name: models if settings[name].several else models[0] for name, models in parsed.items()}

    def origins(self) -> dict[str, str]:
        """Return the name of the option that set each of the given settings."""
        settings = {**_settings(), **_texts()}
        return {name: setting.options[0] for name, setting in settings.items() if name in self.specs}


class ModelsWithoutAnswering(ModelOptions):
    """Models given on the command line, for commands that use recorded answers."""

    left_out = frozenset({"answering_models"})


def option_names(joined: str = "and") -> str:
    """Return the names of the model options as text, such as `--answering and --judge`."""
    names = [setting.options[0] for setting in _settings().values() if setting.options]
    return f"{', '.join(names[:-1])} {joined} {names[-1]}"


@cache
def _warn_of_taken(owner: str, name: str, options: str) -> None:
    """Log a warning, once per process, about a setting's options whose names are already taken."""
    logger.warning(
        "the setting %s of %s does not have the option %s here because another option has that name; use --set %s=SPEC",
        *(name, owner, options, name),
    )


def _parameter(name: str) -> str:
    """Return a unique parameter name for a setting."""
    return _PREFIX + name.replace(".", "__")


def _texts() -> dict[str, ModelSetting]:
    """Return the settings that take a text and have an option. If they cannot be listed, there are none."""
    from karenina_core.errors import ConfigError
    from karenina_engine.model_settings import text_settings

    try:
        return text_settings()
    except ConfigError:
        return {}


def _settings() -> dict[str, ModelSetting]:
    """Return the settings whose values are models. If the plugins' settings cannot be listed, returns only those of the
    core, without a warning, so that the command's help can be printed. The command reports the problem when it reads
    its configuration.
    """
    from karenina_core.errors import ConfigError
    from karenina_core.plugins import Plugins, use_plugins
    from karenina_engine.model_settings import model_settings

    try:
        return model_settings()
    except ConfigError:
        with use_plugins(Plugins()):
            return model_settings()
