"""The contents of `karenina demo`: fourteen questions, a local model that answers, and a local judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from karenina_core.errors import RunError
from karenina_local.catalogue import CatalogueModel, PullError, UnknownModel, model_named

SYSTEM_PROMPT: Final = "Answer the question in one short sentence."
MOST_ANSWER_TOKENS: Final = 96


class Demo:
    """The demo with small local models."""

    answering = "smollm2-135m"
    judge = "qwen2.5-coder-0.5b"

    def get(self, names: Sequence[str], note: Callable[[str], None]) -> None:
        """Download those of the models in `names` that are missing. `note` is called with a message for each of them.
        Raises `RunError` if a model is unknown or a download fails.
        """
        try:
            for model in [model_named(name) for name in names]:
                _pull_if_missing(model, note)
        except (PullError, UnknownModel) as error:
            raise RunError(str(error)) from error

    def questions(self) -> AbstractContextManager[Path]:
        """Return a context manager that yields the path of the benchmark file."""
        return as_file(files("karenina_local").joinpath("demo.yaml"))

    def recorded_config(self) -> Mapping[str, Any]:
        """Return the configuration for a run with recorded replies of the default models."""
        replies = {"replies": str(Path(__file__).with_name("demo_replies.json"))}
        config = dict(self.config(self.answering, self.judge))
        for role in ("answering_models", "parsing_models"):
            config[role] = [{**model, "extra": replies} for model in config[role]]
        return {**config, "run_name": "demo, recorded"}

    def config(self, answering: str, judge: str) -> Mapping[str, Any]:
        """Return the configuration for two models. Each is a catalogue name or the path of a GGUF file."""
        return {
            "answering_models": [
                {
                    "id": answering,
                    "interface": "local",
                    "model_name": answering,
                    "system_prompt": SYSTEM_PROMPT,
                    "max_tokens": MOST_ANSWER_TOKENS,
                    "temperature": 0,
                }
            ],
            "parsing_models": [{"id": judge, "interface": "local", "model_name": judge}],
            "run_name": "demo",
        }

    def agreement(self, judge: str) -> str:
        """Return a sentence about how often the judge agreed with people, or an empty string if this was not measured.
        Raises `UnknownModel` for a name that is not in the catalogue.
        """
        return model_named(judge).agreement or ""


def _pull_if_missing(model: CatalogueModel, note: Callable[[str], None]) -> None:
    """Download a model if it is missing, after telling `note`, with a progress bar. Raises `PullError` if the download
    fails.
    """
    from karenina_local.store import state_of

    if state_of(model).installed:
        return
    from karenina_local.download import pull
    from karenina_local.model_command import progress_bar

    note(
        f"Downloading {model.title}: {model.megabytes} MB, licence {model.licence}, "
        f"SHA-256 {model.sha256[:12]}..., saved in {state_of(model).path.parent}"
    )
    with progress_bar(model) as report:
        pull(model, progress=report)
