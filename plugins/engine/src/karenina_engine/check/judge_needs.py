"""Checks that a run has the judges that its stages need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.errors import ConfigError
from karenina_core.stages.stage import Stage, registered_stages
from karenina_toolkit.plugin_lookup import find_adapter, registered_adapters

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.pipeline import Pipeline
    from karenina_core.plugins import Plugins


class JudgeNeeds:
    """The stages that need a judge, and the number of questions for which they need one.

    Examining the questions takes a while, so it is only done if a judge or one of its ports is missing.
    """

    def __init__(self, plugins: Plugins, config: VerificationConfig, trust: Trust) -> None:
        self._plugins = plugins
        self._config = config
        self._trust = trust
        judges = config.core.parsing_models
        ports = frozenset[str]().union(*(offer.stage.judge_ports for offer in registered_stages(plugins)))
        self._met = bool(judges) and all(ports <= set(ports_of(plugins, judge)) for judge in judges)
        self._stages: dict[Pipeline, Sequence[Stage]] = {}
        self._needing: dict[str, tuple[Stage, str]] = {}
        self._counts: dict[str, int] = {}
        self._questions = 0

    def add(self, question: Question, pipeline: Pipeline) -> None:
        """Add the stages that need a judge for this question. If the judges have all ports that any stage needs,
        questions are only counted.
        """
        self._questions += 1
        if self._met:
            return
        stages = self._stages.get(pipeline)
        if stages is None:
            planned = [one.stage for one in pipeline.plan.of_scope("item")]
            stages = self._stages[pipeline] = [
                stage for stage in planned if stage.prompts or type(stage).needs_judge is not Stage.needs_judge
            ]
        for stage in stages:
            if stage.needs_judge(self._config, question, self._trust):
                self._needing.setdefault(stage.name, (stage, question.id))
                self._counts[stage.name] = self._counts.get(stage.name, 0) + 1

    def check(self) -> None:
        """Raise `ConfigError` if a stage needs a judge or port that is missing."""
        judges = self._config.core.parsing_models
        problems = [
            f"no judge is configured, but {name} needs one for {self._counts[name]} of {self._questions} questions "
            f"(the first is {first!r}); add a judge, for example with --judge openai:NAME (in a configuration: "
            "parsing_models)"
            for name, (_, first) in self._needing.items()
            if not judges
        ]
        for judge in judges:
            for name, (stage, _) in self._needing.items():
                problems += missing_ports("judge", judge, name, self._plugins, stage.judge_ports)
        if problems:
            raise ConfigError(problems)


def missing_ports(role: str, model: ModelConfig, stage: str, plugins: Plugins, ports: Set[str]) -> list[str]:
    """Return a message for each port in `ports`, which `stage` calls, that the model does not have. `role` is the
    model's role in messages, such as "judge". Raises `PluginError` if the model's adapter does not exist.
    """
    return [
        f"{role} {model.id!r}: {stage} needs the {port} port, which the adapter {model.interface!r} "
        f"does not have{_adapters_with_port(plugins, port)}"
        for port in sorted(ports - set(ports_of(plugins, model)))
    ]


def ports_of(plugins: Plugins, model: ModelConfig) -> tuple[str, ...]:
    """Return the ports of the model's adapter. Raises `PluginError` if the adapter does not exist."""
    return find_adapter(plugins, model.interface).spec.ports


def _adapters_with_port(plugins: Plugins, port: str) -> str:
    """Return a hint, to end an error message, that lists the installed adapters with the given port, without those that
    replay recordings, or says that there are none.
    """
    able = sorted(
        adapter.spec.interface
        for adapter in registered_adapters(plugins)
        if port in adapter.spec.ports and not adapter.spec.recorded
    )
    return f"; adapters with this port: {', '.join(able)}" if able else "; no installed adapter has this port"
