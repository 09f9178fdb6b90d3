"""`check_package`: everything about an installed plugin package that can be checked without a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from karenina_core.config import all_settings, registered_adapters
from karenina_core.errors import ConfigError
from karenina_core.hooks import API_VERSION
from karenina_core.plugins import active_plugins
from karenina_core.plugins.discovery import GROUPS
from karenina_core.stages.stage import registered_stages
from karenina_toolkit.package_check.finding import Finding
from karenina_toolkit.package_check.metadata import (
    KNOWN_GROUPS,
    InstalledPackage,
    check_metadata,
    find_package,
    group_problems,
    required_by,
)
from karenina_toolkit.package_check.offers import check_adapters, check_hooks, check_settings
from karenina_toolkit.package_check.stages import check_stages

if TYPE_CHECKING:
    from karenina_core.plugins import Plugins


def check_package(name: str) -> tuple[InstalledPackage, list[Finding]]:
    """Return the installed package with a name, which may be that of a distribution, import package or plugin, and
    what its checks found.

    Its plugins are loaded and its ports made; no model is called. Raises `PluginError` if nothing has the name.
    """
    package = find_package(name)
    plugins = active_plugins()
    registered_stages(plugins)
    registered_adapters(plugins)
    return package, [
        *_check_entry_points(package, plugins),
        *check_hooks(plugins, package.name),
        *_check_names(plugins, package.name),
        *check_stages(plugins, package.name, required_by([package.name])),
        *check_adapters(plugins, package.name),
        *check_metadata(package),
    ]


def _check_entry_points(package: InstalledPackage, plugins: Plugins) -> Iterator[Finding]:
    area = "Entry points"
    if not package.points:
        groups = ", ".join(GROUPS)
        cure = "add one to pyproject.toml, and install the package again"
        yield Finding(area, "problem", f"{package.name} has no entry point of Karenina ({groups}): {cure}")
    yield from (Finding(area, "problem", problem) for problem in group_problems(package.points))
    infos = [*plugins.describe(), *(owner.info for owner in plugins.specifications.owners)]
    for point in sorted(package.points):
        if point.group not in KNOWN_GROUPS:
            continue
        kind = GROUPS.get(point.group, "hooks")
        what = f"{point.group}: {point.name} = {point.value}"
        for info in infos:
            if (info.name, info.kind, info.distribution) != (point.name, kind, package.name):
                continue
            if info.state == "loaded":
                yield Finding(area, "ok", what)
            elif info.state == "blocked":
                yield Finding(area, "warning", f"{what} was not tested: {info.failure}")
            else:
                yield Finding(area, "problem", f"{what}: {info.failure}")
            yield from (Finding("Hooks", "warning", reason) for reason in info.ignored)
            break
        else:
            text = f"{what} was not found by this program: install the package again"
            yield Finding(area, "problem", text)
    if any(info.state == "loaded" and info.distribution == package.name for info in infos):
        yield Finding("Interface", "ok", f"made for version {API_VERSION} of the plugin interface, as this core")


def _check_names(plugins: Plugins, distribution: str) -> Iterator[Finding]:
    try:
        all_settings()
    except ConfigError as error:
        yield from (Finding("Settings", "problem", problem) for problem in error.problems if distribution in problem)
        return
    yield from check_settings(plugins, distribution)
