"""Conversations: a stage for slot 2 that asks a question in several turns, and one that checks simulated users.

The entry points name `plugin`.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry point's name
    """The stages of this distribution."""

    karenina_generate_answer = offer("karenina_conversation.converse:Converse")
    karenina_extra_stages = offer("karenina_conversation.check_user:CheckUser")
