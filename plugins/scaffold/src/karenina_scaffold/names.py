"""The names used in a new package, derived from the name that the user gives."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Final

from karenina_core.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one package: `word-count`, `word_count`, `WordCount`, and the file suffix `.wordcount`."""

    name: str
    module: str
    class_name: str
    suffix: str

    @classmethod
    def of(cls, given: str) -> Names:
        """Return the names for `word-count`, `word_count` or `WordCount`. Raises `ConfigError` for anything else."""
        if not _NAME.fullmatch(given):
            raise ConfigError(
                [f"{given!r} is not a name of a package: use letters, digits and hyphens, such as word-count"]
            )
        words = [word for part in re.split("[-_]", given) for word in _HUMP.split(part)]
        module = "_".join(words).lower()
        class_name = "".join(word[0].upper() + word[1:] for word in words)
        return cls("-".join(words).lower(), module, class_name, f".{''.join(words).lower()}")

    def to_dict(self) -> dict[str, str]:
        """Return the names by field."""
        return asdict(self)

    def check_free(self) -> None:
        """Raise `ConfigError` if the name belongs to Python or to an installed package."""
        reason = None
        if keyword.iskeyword(self.module) or keyword.issoftkeyword(self.module):
            reason = "is a keyword of Python"
        elif self.module in sys.stdlib_module_names:
            reason = "is a module of Python's standard library"
        elif find_spec(self.module) is not None or _is_installed(self.name):
            reason = "is an installed package"
        if reason is not None:
            raise ConfigError([f"{self.module!r} {reason}: choose another name"])


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
