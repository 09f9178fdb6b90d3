"""Answer templates: the base class, fields, primitives, and combinations of fields."""

from karenina_template.templates import *  # noqa: F403 - re-exports all names for users
from karenina_template.templates import __all__ as __all__
