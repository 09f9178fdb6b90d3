"""The check, before a run, that its judges have the ports that its stages call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core.errors import ConfigError
from karenina_core.stages.stage import Stage, registered_stages
from karenina_engine.scheduling.stage_checks import missing_ports, ports_of

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_engine.scheduling.session import RunSession


def check_judges(session: RunSession, questions: Sequence[Question]) -> None:
    """Check that the stages have the judges that they call, before answers are paid for that cannot be judged.

    Raises `ConfigError` if there is no judge, or one without the ports that a stage calls. Every question is examined
    only in these cases, since that takes a while.
    """
    config, plugins = session.config, session.parts.plugins
    judges = config.core.parsing_models
    wanted = frozenset[str]().union(*(one.stage.judge_ports for one in registered_stages(plugins)))
    if judges and all(wanted <= set(ports_of(plugins, judge)) for judge in judges):
        return
    needing: dict[str, tuple[Stage, list[str]]] = {}
    for question in questions:
        for planned in session.matrix.planner.plan(question).of_scope("item"):
            if planned.stage.needs_judge(config, question, session.parts.trust):
                needing.setdefault(planned.name, (planned.stage, []))[1].append(question.id)
    problems = [
        f"no judge is configured, and {name} needs one for {len(ids)} of {len(questions)} questions (the first is "
        f"{ids[0]!r}): add one, for example --judge openai:NAME (in a configuration: parsing_models)"
        for name, (_, ids) in needing.items()
        if not judges
    ]
    for judge in judges:
        for name, (stage, _) in needing.items():
            problems += missing_ports("judge", judge, name, plugins, stage.judge_ports)
    if problems:
        raise ConfigError(problems)
