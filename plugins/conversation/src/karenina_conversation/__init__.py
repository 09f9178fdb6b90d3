"""Conversations: the stage for slot 2 that asks a question in several turns. The entry point names `plugin`."""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry point's name
    """The stage of this distribution."""

    karenina_generate_answer = offer("karenina_conversation.converse:Converse")
