"""Rubric traits: qualities of an answer that have no single right value."""

from karenina_core.data.rubrics import *  # noqa: F403 - the same names, under the name that users write
from karenina_core.data.rubrics import __all__ as __all__
