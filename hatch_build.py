"""The requirements of the distribution `karenina`, taken from the members of this repository when it is built.

`karenina` contains no code. It requires the core and the members with `[tool.karenina] default = true` in their
`pyproject.toml`. The others are extras, named by `extra = "..."`; several members may share one. The extra `all` brings
all of them except those with `all = false`. `with = [...]` names the extras with which a member is required. The keys
`kind` and `dev` are for `scripts/member_lists.py`. In a checkout the requirements are the members' folders, because the
index may lack them or have older ones. A release (environment variable `KARENINA_RELEASE=1`) and every source
distribution pin versions instead: a folder of the machine that built them means nothing elsewhere.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.utils import canonicalize_name

CORE = "karenina_core"
FRONT = "karenina"
GROUPS = ("plugins", "adapters")
ALL = "all"


class Member(NamedTuple):
    """A distribution in this repository.

    `extra` is the extra that installs the member, or None if it is always installed; `own` are the extras of the
    distribution itself that its requirement names; `in_all` is False for a member that is too large for the extra
    `all`.
    """

    name: str
    version: str
    folder: Path
    extra: str | None
    own: tuple[str, ...] = ()
    in_all: bool = True

    def requirement(self, *, pinned: bool, extras: str = "") -> str:
        """Return a requirement for the member with these of its extras: a version if `pinned`, else its folder."""
        name = self.name + extras
        return f"{name}=={self.version}" if pinned else f"{name} @ {self.folder.as_uri()}"


def members(root: Path) -> list[Member]:
    """Return the core, the package `karenina`, and every folder of `plugins` and `adapters` with a `pyproject.toml`.

    Raises `ValueError` for a member that declares neither that it is installed by default nor its extra.
    """
    files = [root / CORE / "pyproject.toml", *root.glob(f"{FRONT}/pyproject.toml")]
    files += [file for group in GROUPS for file in (root / group).glob("*/pyproject.toml")]
    return [_member(file) for file in files]


def requirements(found: Iterable[Member], *, pinned: bool) -> tuple[list[str], dict[str, list[str]]]:
    """Return the requirements of `karenina`, and its extras by name, including `all`.

    Both are sorted, so that builds are reproducible. Names of extras are normalized as metadata requires
    (`claude-tool`); installers treat `claude_tool` as the same name.
    """
    default: list[str] = []
    extras: dict[str, list[str]] = {}
    for member in found:
        line = member.requirement(pinned=pinned, extras=f"[{','.join(member.own)}]" if member.own else "")
        if member.extra is None:
            default.append(line)
            if member.own:
                # Beside it the plain name: pip 23.2, which comes with Python 3.11, does not see that a folder with
                # extras is what other members require by name and version, and looks for that in the index.
                default.append(member.requirement(pinned=pinned))
        else:
            extras.setdefault(canonicalize_name(member.extra), []).append(line)
            if member.in_all:
                extras.setdefault(ALL, []).append(line)
    extras.setdefault(ALL, [])
    return sorted(default), {extra: sorted(lines) for extra, lines in sorted(extras.items())}


class RequirementsHook(MetadataHookInterface):
    """A hook that fills in `dependencies` and `optional-dependencies`."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in both fields from the members.

        If the members' folders are missing, as in a source distribution, hatchling has already read the pinned
        requirements from `PKG-INFO`. Raises `ValueError` if there are neither folders nor pinned requirements.
        """
        root = Path(self.root)
        if not (root / CORE).is_dir():
            if "dependencies" not in metadata:
                raise ValueError(
                    f"{root} has neither the members' folders nor a PKG-INFO; build karenina from a whole checkout "
                    "or from its source distribution"
                )
            metadata.setdefault("optional-dependencies", {})
            return
        pinned = os.environ.get("KARENINA_RELEASE", "0") not in ("", "0")
        metadata["dependencies"], metadata["optional-dependencies"] = requirements(members(root), pinned=pinned)


class PinsHook(BuildHookInterface[Any]):
    """A hook that pins versions in source distributions, which must not name folders of the machine that built them."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Replace folders with pinned versions in the build data."""
        root = Path(self.root)
        if (root / CORE).is_dir():
            core = self.metadata.core
            core.dependencies[:], extras = requirements(members(root), pinned=True)
            core.optional_dependencies.clear()
            core.optional_dependencies.update(extras)


def _member(file: Path) -> Member:
    """Read a member from its `pyproject.toml`.

    Raises `ValueError` if it declares neither that it is installed by default nor its extra, or if its `with` or `all`
    is wrong.
    """
    project = tomllib.loads(file.read_text("utf-8"))
    name, version = canonicalize_name(project["project"]["name"]), project["project"]["version"]
    own = project.get("tool", {}).get("karenina", {})
    extra = own.get("extra")
    if file.parent.name == CORE:
        return Member(name, version, file.parent, None)
    if own.get("default", False) is (extra is not None) or extra == ALL:
        raise ValueError(
            f'{file}: write under [tool.karenina] either default = true, or extra = "NAME" for a member that not '
            f"everybody needs. NAME is the extra of karenina that installs it, and must not be {ALL!r}, which installs "
            "all of them"
        )
    wanted = tuple(own.get("with", ()))
    offered = project["project"].get("optional-dependencies", {})
    strangers = [one for one in wanted if one not in offered]
    if strangers:
        raise ValueError(
            f"{file}: with = {list(wanted)} under [tool.karenina] must name extras of this distribution "
            f"({', '.join(sorted(offered)) or 'it has none'})"
        )
    in_all = own.get("all", True)
    if not isinstance(in_all, bool) or (extra is None and not in_all):
        raise ValueError(f'{file}: all = false under [tool.karenina] requires extra = "NAME"')
    return Member(name, version, file.parent, extra, wanted, in_all)
