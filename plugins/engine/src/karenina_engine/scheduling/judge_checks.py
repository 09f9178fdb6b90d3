"""Whether the judges of a run can do what its stages will ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core.errors import ConfigError
from karenina_core.stages.stage import Stage, registered_stages
from karenina_engine.scheduling.stage_checks import missing_ports, ports_of

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_engine.scheduling.prepared_run import PreparedRun


def check_judges(prepared: PreparedRun, questions: Sequence[Question]) -> None:
    """Check that the stages have the judges that they will call, before answers are paid for that nothing can judge.

    Raises `ConfigError` if there is no judge, or one without the ports that a stage calls. Only then every question is
    looked at, which takes a while.
    """
    config, plugins = prepared.config, prepared.plugins
    judges = config.core.parsing_models
    wanted = frozenset[str]().union(*(one.stage.judge_ports for one in registered_stages(plugins)))
    if judges and all(wanted <= set(ports_of(plugins, judge)) for judge in judges):
        return
    asking: dict[str, tuple[Stage, list[str]]] = {}
    for question in questions:
        for planned in prepared.planner.plan(question).of_scope("item"):
            if planned.stage.needs_judge(config, question, prepared.trust):
                asking.setdefault(planned.name, (planned.stage, []))[1].append(question.id)
    problems = [
        f"there is no judge, and {name} asks one for {len(ids)} of {len(questions)} questions ({ids[0]!r} is the "
        "first): set parsing_models (--judge on the command line)"
        for name, (_, ids) in asking.items()
        if not judges
    ]
    for judge in judges:
        for name, (stage, _) in asking.items():
            problems += missing_ports("judge", judge, name, plugins, stage.judge_ports)
    if problems:
        raise ConfigError(problems)
