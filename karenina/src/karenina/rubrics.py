"""Rubric traits, which score qualities of an answer that have no single correct value."""

from karenina_core.data.rubrics import *  # noqa: F403 - re-exports all names for users
from karenina_core.data.rubrics import __all__ as __all__
