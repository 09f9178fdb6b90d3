"""Write plain values as YAML that every YAML reader reads back unchanged."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.yaml.yaml_reader import is_special

if TYPE_CHECKING:
    import yaml

_HIDDEN: Final = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f]")
"""Characters that are invisible, or exchange the order of what is seen beside them; letters and emojis need others."""


def dump(value: Any) -> str:
    """Return plain values as YAML, with texts of several lines as blocks."""
    import yaml

    text: str = yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110, indent=2)
    return text if text.isascii() else _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    """Return the escape of a character, which is in quotes because it is not printable."""
    return f"\\u{ord(found[0]):04X}"


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        """A dumper without aliases that quotes every text that some version of YAML would read as another value."""

        def ignore_aliases(self, data: object) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def represent_text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        style = None
        if is_special(data) or not all(ch == "\n" or (ch.isprintable() and ch not in "\ufeff") for ch in data):
            style = '"'
        elif "\n" in data:
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, represent_text)
    return Dumper
