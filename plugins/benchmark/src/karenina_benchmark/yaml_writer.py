"""Write plain values as YAML that every YAML reader reads back unchanged."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from karenina_benchmark.yaml_reader import is_special

if TYPE_CHECKING:
    import yaml


def dump(value: Any) -> str:
    """Return plain values as YAML, with texts of several lines as blocks."""
    import yaml

    text: str = yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110, indent=2)
    return text


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
