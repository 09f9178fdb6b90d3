"""Write the lists of members in `.importlinter` and `requirements-dev.txt`: `python scripts/member_lists.py`.

A comment states which members are in the list below it, based on `[tool.karenina]` in their `pyproject.toml`:

    # members: stage adapter -karenina_local

lists the members with `kind = "stage"` or `kind = "adapter"`, except `karenina_local`. A word is a kind, the name of a
package, or `all`. In `requirements-dev.txt`, a member is installed with its extras in `dev = [...]`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FILES = (".importlinter", "requirements-dev.txt")
LIST = re.compile(r"^# members: (?P<wanted>.+)\n(?P<option>(?:\w+ =\n)?)(?:(?: +|-e ).*\n)*", re.MULTILINE)


class Member(NamedTuple):
    """A distribution in this repository."""

    package: str
    folder: str
    kind: str
    extras: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """The line of a requirements file that installs the member in editable mode."""
        return f"-e {self.folder}[{','.join(self.extras)}]" if self.extras else f"-e {self.folder}"


def members(checkout: Path = ROOT) -> Iterator[Member]:
    """Yield the members of a checkout, by folder. Raises `KeyError` if one has no kind."""
    for pattern in ("karenina", "karenina_core", "plugins/*", "adapters/*"):
        for file in sorted(checkout.glob(f"{pattern}/pyproject.toml")):
            tool = tomllib.loads(file.read_text("utf-8"))["tool"]
            package = Path(tool["hatch"]["build"]["targets"]["wheel"]["packages"][0]).name
            own = tool["karenina"]
            yield Member(package, file.parent.relative_to(checkout).as_posix(), own["kind"], tuple(own.get("dev", ())))


def select(wanted: str, among: list[Member]) -> list[Member]:
    """Return the members that a list's comment selects. Raises `ValueError` if a word selects none."""
    chosen: set[Member] = set()
    for word in wanted.split():
        named = {member for member in among if word.lstrip("-") in ("all", member.kind, member.package)}
        if not named:
            raise ValueError(f"{word.lstrip('-')!r} in `# members: {wanted}` is neither a kind of member nor a member")
        chosen = chosen - named if word.startswith("-") else chosen | named
    return [member for member in among if member in chosen]


def fill(text: str, among: list[Member]) -> str:
    """Replace the list below each `# members: ...` comment in a file."""

    def replace(found: re.Match[str]) -> str:
        """Return a comment, followed by lines for the members that it selects."""
        chosen = select(found["wanted"], among)
        if found["option"]:
            lines = [f"    {member.package}\n" for member in chosen]
        else:  # pip 23.2 looks in the index for what is required with an extra, unless that comes first
            lines = [f"{member.requirement}\n" for member in sorted(chosen, key=lambda member: not member.extras)]
        return f"# members: {found['wanted']}\n{found['option']}{''.join(lines)}"

    return LIST.sub(replace, text)


if __name__ == "__main__":
    for name in FILES:
        file = ROOT / name
        file.write_text(fill(file.read_text("utf-8"), list(members())), "utf-8")
