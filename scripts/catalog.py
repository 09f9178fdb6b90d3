"""Write the catalog of the members, `catalog.json` in the core: `python scripts/catalog.py`. `--print` prints it.

Every member is imported from the current environment, so install all of them first (`requirements-dev.txt`).
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import Any

from karenina_core.catalog import Catalog
from karenina_core.config.setting_owners import settings_models
from karenina_core.namespaces import owned_fields
from karenina_core.plugins import GROUPS, Plugins
from karenina_core.stages.stage import registered_stages
from karenina_engine.calls.hookspecs import karenina_tool_sources
from karenina_engine.run.plugin_offers import offered_executors
from karenina_template.hookspecs import karenina_primitives
from karenina_toolkit.known_values import offered_values
from karenina_toolkit.plugin_lookup import registered_adapters, specified_hooks


def members(checkout: Path) -> list[str]:
    """Return the sorted distribution names of a checkout's members."""
    folders = [
        checkout / "karenina_core",
        checkout / "karenina",
        *(checkout / "plugins").iterdir(),
        *(checkout / "adapters").iterdir(),
    ]
    files = [folder / "pyproject.toml" for folder in folders]
    return sorted(tomllib.loads(file.read_text("utf-8"))["project"]["name"] for file in files if file.is_file())


def variables(checkout: Path) -> dict[str, str]:
    """Return the `KARENINA_...` environment variables that members read, with the member's name."""
    found = {}
    for project in sorted(checkout.glob("*/pyproject.toml")) + sorted(checkout.glob("*/*/pyproject.toml")):
        owner = tomllib.loads(project.read_text("utf-8"))["project"]["name"]
        for file in project.parent.glob("src/**/*.py"):
            found.update(dict.fromkeys(re.findall(r'"(KARENINA_[A-Z_]*[A-Z])"', file.read_text("utf-8")), owner))
    return found


def extras(checkout: Path) -> dict[str, str | None]:
    """Return the extra of `karenina` that installs each member, or None if it is always installed."""
    found = {}
    for project in [*checkout.glob("karenina*/pyproject.toml"), *checkout.glob("*/*/pyproject.toml")]:
        table = tomllib.loads(project.read_text("utf-8"))
        found[table["project"]["name"]] = table.get("tool", {}).get("karenina", {}).get("extra")
    return found


def survey(names: list[str]) -> Catalog:
    """List the stages, adapters, artifacts, prompts, tool sources, executors and settings.

    Raises `RuntimeError` if a plugin of the distributions cannot be loaded.
    """
    points: list[EntryPoint] = [point for name in names for point in distribution(name).entry_points]
    plugins = Plugins.discover(found=[point for point in points if point.group in GROUPS])
    broken = [info for info in plugins.describe() if info.state != "loaded"]
    if broken:
        raise RuntimeError(f"{broken[0].name} of {broken[0].distribution} cannot be loaded: {broken[0].failure}")
    found: Catalog = {
        "stages": {},
        "stage_slots": {},
        "adapters": {},
        "adapter_details": {},
        "recorders": {},
        "artifacts": {},
        "prompts": {},
        "tool_sources": {},
        "executors": {},
        "hooks": {},
        "settings": {},
        "variables": variables(Path(__file__).parents[1]),
        "members": extras(Path(__file__).parents[1]),
        "trait_fields": {},
        "question_fields": {},
        "template_fields": {},
        "known_values": {},
        "primitives": {},
        "field_types": {},
    }
    for settings, owner in settings_models(plugins):
        found["settings"].update(dict.fromkeys(settings.model_fields, owner))
    for offered in registered_stages(plugins):
        stage = offered.stage
        found["stages"][stage.name] = offered.distribution
        found["trait_fields"] |= dict.fromkeys(owned_fields([stage.trait_settings]), offered.distribution)
        found["question_fields"] |= dict.fromkeys(owned_fields([stage.question_settings]), offered.distribution)
        found["template_fields"] |= dict.fromkeys(owned_fields([stage.field_settings]), offered.distribution)
        found["stage_slots"][stage.name] = offered.slot.config_name if offered.slot is not None else None
        found["artifacts"].update({key.name: offered.distribution for key in stage.produces})
        found["prompts"].update({task.name: offered.distribution for task in stage.prompts})
    for offered in registered_stages(plugins):
        for task in offered.stage.prompts:
            found["prompts"].setdefault(task.family or task.name, offered.distribution)
    found["known_values"] = {offer.name: (offer.distribution, offer.kind) for offer in offered_values(plugins)}
    found["tool_sources"] = {one.value.name: one.distribution for one in plugins.offers(karenina_tool_sources)}
    found["executors"] = {one.name: owner for one, owner in offered_executors(plugins)}
    for primitive in plugins.offers(karenina_primitives):
        found["primitives"][primitive.value.__name__] = primitive.distribution
        if primitive.value.field_type is not None:
            found["field_types"][primitive.value.field_type] = primitive.distribution
    found["hooks"] = {hook.name: hook.distribution for hook in specified_hooks(plugins)}
    found["adapters"] = {one.spec.interface: one.distribution for one in registered_adapters(plugins)}
    found["recorders"] = {
        one.spec.interface: one.distribution for one in registered_adapters(plugins) if one.spec.recorded
    }
    found["adapter_details"] = {
        spec.interface: {"description": spec.description, "tier": spec.tier.value, "ports": list(spec.ports)}
        for spec in (one.spec for one in registered_adapters(plugins))
    }
    return found


def written(found: Catalog) -> str:
    """Return the contents of `catalog.json`."""
    ordered: dict[str, Any] = {kind: dict(sorted(dict(entries).items())) for kind, entries in found.items()}  # type: ignore[call-overload]
    return json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    content = written(survey(members(root)))
    if "--print" in sys.argv[1:]:
        sys.stdout.write(content)
    else:
        (root / "karenina_core/src/karenina_core/catalog.json").write_text(content, "utf-8")
