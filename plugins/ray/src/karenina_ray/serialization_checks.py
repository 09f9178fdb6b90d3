"""Checks that a run can be sent to workers: they get JSON, and find plugins that are installed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from karenina_core.config import VerificationConfig
from karenina_core.plugins import Selection, installed_plugins
from karenina_engine.run.executor import question_to_json
from karenina_ray import serialization

if TYPE_CHECKING:
    from karenina_engine.run.session import RunSession

_HERE = 'or run in this process (executor = "asyncio")'


def find_problems(session: RunSession) -> list[str]:
    """Return a message for each part of a run that cannot be sent to workers, with its cure."""
    return [*_plugin_problems(session), *_config_problems(session.config), *_question_problems(session)]


def _plugin_problems(session: RunSession) -> list[str]:
    chosen = session.config.core.plugins
    installed = installed_plugins(Selection.of(chosen.block, chosen.only, chosen.pick))
    if session.parts.plugins is installed:
        return []
    known = {(one.kind, one.name, one.distribution) for one in installed.describe()}
    unknown = [
        one.name for one in session.parts.plugins.describe() if (one.kind, one.name, one.distribution) not in known
    ]
    return [
        f"executor ray: the plugin {name} is registered in this process only, and workers find plugins by entry "
        f"points: install it as a distribution with one, {_HERE}"
        for name in unknown
    ]


def _config_problems(config: VerificationConfig) -> list[str]:
    try:
        message = serialization.encode_config(config)
        again = serialization.encode_config(VerificationConfig(**json.loads(json.dumps(message))))
    except ValueError as error:
        return [
            f"executor ray: a setting cannot be sent to workers, which get JSON: {error}; use plain values, {_HERE}"
        ]
    return [
        f"executor ray: the setting {name} changes when it is written as JSON: use plain values, {_HERE}"
        for name in message
        if message[name] != again.get(name)
    ]


def _question_problems(session: RunSession) -> list[str]:
    """Check the questions in memory; those of a file that is streamed were JSON."""
    questions = session.matrix.questions
    if not isinstance(questions, (list, tuple)):
        return []
    found: list[str] = []
    for question in questions:
        if question.answer_class is None:
            continue
        try:
            question_to_json(question, session.parts.trust)
        except ValueError as error:
            found.append(
                f"executor ray: the template of question {question.id!r} is a class of this process, and its source "
                f"alone does not make it again: {error}; give the template as source that needs nothing else, {_HERE}"
            )
    return found
