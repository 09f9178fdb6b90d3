"""What answer templates are made of: the base class, fields, primitives and their combinations."""

from karenina_template.templates import *  # noqa: F403 - the same names, under the name that users write
from karenina_template.templates import __all__ as __all__
